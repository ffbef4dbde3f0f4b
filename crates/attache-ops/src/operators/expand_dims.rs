//! EXPAND_DIMS: inserts an axis of extent 1.

use attache_base::Shape;
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::quantized::require_one_scale;
use crate::shared::support::single;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::EXPAND_DIMS),
    versions: 1..=1,
    inputs: &[input("input").movable_or_strings(), input("axis").integral()],
    parse: |_| Ok(Box::new(ExpandDims)),
}];

/// EXPAND_DIMS, which has no attributes. Inputs: a tensor, and the index of the new axis in the output.
#[derive(Debug)]
struct ExpandDims;

fn expanded(shape: &Shape, axis: i64) -> Result<Shape, OpError> {
    let wrong = || OpError::invalid(format!("{shape} cannot be given an axis {axis}"));
    let axis = shape.with_rank(shape.rank() + 1).axis(axis).ok_or_else(wrong)?;
    let mut extents = shape.to_vec();
    extents.insert(axis, 1);
    Ok(extents.into())
}

impl Operator for ExpandDims {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let (Some(shape), Some(axis)) = (&input.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, expanded(shape, single(&axis)?)?)])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        require_one_scale(inputs, 0..1, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        eval.outputs[0].bytes.copy_from_slice(input.bytes);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let input = lowering.input(0)?;
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.reshape(input, &shape)?;
        lowering.output(0, output)
    }

    fn is_reshape(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_is_one_of_the_outputs() {
        let shape = Shape::from([2, 3]);
        assert_eq!(expanded(&shape, 1).unwrap(), Shape::from([2, 1, 3]));
        assert_eq!(expanded(&shape, 2).unwrap(), Shape::from([2, 3, 1]));
        assert_eq!(expanded(&shape, -3).unwrap(), Shape::from([1, 2, 3]));
        assert!(expanded(&shape, 3).is_err() && expanded(&shape, -4).is_err());
        assert_eq!(expanded(&Shape::default(), -1).unwrap(), Shape::from([1]));
    }
}
