//! SPLIT: the input split along an axis into pieces of equal length.

use std::sync::Arc;

use attache_base::Shape;
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_model::schema::BuiltinOperator;

use crate::shared::pieces::{self, Pieces};
use crate::shared::support::{arity, axis_of, integral, known_integers, movable, refuse, required, single};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::SPLIT), versions: 1..=5, parse }];

/// Inputs: the axis and elements.
#[derive(Debug)]
struct Split {
    /// Number of pieces.
    count: usize,
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_split_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Arc::new(Split { count: pieces::count(declaration, options.num_splits())? }))
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

impl Op for Split {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (axis, input) = (required(inputs, 0)?, required(inputs, 1)?);
        integral(0, axis)?;
        movable(1, input)?;
        let (Some(axis), Some(shape)) = (known_integers(0, axis)?, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type); self.count]);
        };
        let views = self.pieces(shape, &axis)?.views(shape);
        Ok(views.into_iter().map(|view| Inferred::new(input.data_type, view.output)).collect())
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(1)?;
        self.pieces(input.shape, &eval.input(0)?.integers()?)?.copy(input, eval)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
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
