//! SPLIT: the input split along an axis into pieces of equal length.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::pieces::{self, Pieces};
use crate::shared::support::{axis_of, refuse, single};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SPLIT),
    versions: 1..=5,
    inputs: &[input("axis").integral(), input("value").movable()],
    parse,
}];

#[derive(Debug)]
struct Split {
    /// Number of pieces, which is the number of outputs.
    count: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_split_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(Split { count: pieces::count(declaration, options.num_splits())? }))
}

impl Split {
    fn pieces(&self, shape: &Shape, axis: &[i64]) -> Result<Pieces, OpError> {
        let axis = axis_of(shape, single(axis)?)?;
        if !shape[axis].is_multiple_of(self.count) {
            return Err(OpError::invalid(format!("{shape} has no {} equal pieces along axis {axis}", self.count)));
        }
        Ok(Pieces { axis, lengths: vec![shape[axis] / self.count; self.count] })
    }
}

impl Operator for Split {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(1);
        let (Some(axis), Some(shape)) = (inputs.integers(0)?, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type); self.count]);
        };
        let views = self.pieces(shape, &axis)?.views(shape);
        Ok(views.into_iter().map(|view| Inferred::new(input.data_type, view.output)).collect())
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        pieces::copy(eval, 1, |eval, shape| self.pieces(shape, &eval.input(0)?.integers()?))
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let axis = lowering.integers(0)?;
        self.pieces(lowering.input_shape(1)?, &axis).map_err(refuse)?.lower(lowering, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_of_one_length() {
        let lengths = |count, axis| Split { count }.pieces(&[2, 6].into(), &[axis]).map(|pieces| pieces.lengths);
        assert_eq!(lengths(3, -1).unwrap(), [2, 2, 2]);
        assert!(lengths(4, 1).is_err());
        assert!(lengths(1, 2).is_err());
        assert!(Split { count: 1 }.pieces(&[2].into(), &[]).is_err());
    }
}
