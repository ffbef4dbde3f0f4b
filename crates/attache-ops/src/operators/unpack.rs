//! UNPACK: splits the input into the slices of an axis, and removes the axis.

use attache_base::Shape;
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::pieces::{self, Pieces};
use crate::shared::quantized::require_one_scale;
use crate::shared::support::{axis_of, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::UNPACK),
    versions: 1..=6,
    inputs: &[input("value").movable()],
    parse,
}];

#[derive(Debug)]
struct Unpack {
    /// The axis that is split and removed; negative axes count from the end.
    axis: i64,
    /// The extent of the axis, which is the number of outputs.
    count: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_unpack_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let count = pieces::count(declaration, options.num())?;
    Ok(Box::new(Unpack { axis: i64::from(options.axis()), count }))
}

impl Unpack {
    fn pieces(&self, shape: &Shape) -> Result<Pieces, OpError> {
        let axis = axis_of(shape, self.axis)?;
        if shape[axis] != self.count {
            return Err(OpError::invalid(format!("{} slices of {shape} along axis {axis}", self.count)));
        }
        Ok(Pieces { axis, lengths: vec![1; self.count] })
    }
}

impl Operator for Unpack {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let Some(shape) = &input.shape else { return Ok(vec![Inferred::unknown(input.data_type); self.count]) };
        let mut extents = shape.to_vec();
        extents.remove(self.pieces(shape)?.axis);
        Ok(vec![Inferred::new(input.data_type, extents); self.count])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        require_one_scale(inputs, 0..1, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        pieces::copy(eval, 0, |_, shape| self.pieces(shape))
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        self.pieces(lowering.input_shape(0)?).map_err(refuse)?.lower(lowering, 0)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;

    use super::*;

    #[test]
    fn there_is_an_output_for_each_slice() {
        let infer =
            |axis, count| DEFINITIONS[0].infer(&Unpack { axis, count }, &[Some(&Fact::new(DataType::Float32, [2, 3]))]);
        assert_eq!(infer(-1, 3).unwrap(), vec![Inferred::new(DataType::Float32, [2]); 3]);
        assert!(infer(0, 3).is_err());
        assert!(infer(2, 3).is_err());
    }
}
