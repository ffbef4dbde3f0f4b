//! SPLIT_V: the input split along an axis into pieces of given lengths; a length of -1 takes the rest.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::pieces::{self, Pieces};
use crate::shared::support::{axis_of, refuse, single};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SPLIT_V),
    versions: 1..=3,
    inputs: &[input("value").movable(), input("size_splits").integral(), input("axis").integral()],
    parse,
}];

#[derive(Debug)]
struct SplitV {
    /// Number of pieces, which is the number of outputs.
    count: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_split_voptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(SplitV { count: pieces::count(declaration, options.num_splits())? }))
}

impl SplitV {
    fn pieces(&self, shape: &Shape, lengths: &[i64], axis: &[i64]) -> Result<Pieces, OpError> {
        let axis = axis_of(shape, single(axis)?)?;
        let wrong = || OpError::invalid(format!("{shape} has no pieces of {lengths:?} along axis {axis}"));
        let mut stated = lengths.iter().filter(|length| **length != -1);
        let known = stated.try_fold(0usize, |sum, length| sum.checked_add(usize::try_from(*length).ok()?));
        let known = known.filter(|sum| *sum <= shape[axis]).ok_or_else(wrong)?;
        let open = lengths.iter().filter(|length| **length == -1).count();
        if lengths.len() != self.count || open > 1 || (open == 0 && known != shape[axis]) {
            return Err(wrong());
        }
        let length = |length: &i64| usize::try_from(*length).unwrap_or(shape[axis] - known);
        Ok(Pieces { axis, lengths: lengths.iter().map(length).collect() })
    }
}

impl Operator for SplitV {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let known = (inputs.integers(1)?, inputs.integers(2)?);
        let (Some(shape), (Some(lengths), Some(axis))) = (&input.shape, known) else {
            return Ok(vec![Inferred::unknown(input.data_type); self.count]);
        };
        let views = self.pieces(shape, &lengths, &axis)?.views(shape);
        Ok(views.into_iter().map(|view| Inferred::new(input.data_type, view.output)).collect())
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        pieces::copy(eval, 0, |eval, shape| {
            self.pieces(shape, &eval.input(1)?.integers()?, &eval.input(2)?.integers()?)
        })
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (lengths, axis) = (lowering.integers(1)?, lowering.integers(2)?);
        self.pieces(lowering.input_shape(0)?, &lengths, &axis).map_err(refuse)?.lower(lowering, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_add_up() {
        let lengths = |lengths: &[i64]| {
            let op = SplitV { count: lengths.len() };
            op.pieces(&[2, 6].into(), lengths, &[-1]).map(|pieces| pieces.lengths)
        };
        assert_eq!(lengths(&[1, -1, 2]).unwrap(), [1, 3, 2]);
        assert_eq!(lengths(&[6, -1]).unwrap(), [6, 0]);
        for wrong in [&[1, 2][..], &[7, -1], &[-1, -1], &[-2, 8], &[i64::MAX, i64::MAX, i64::MAX, -1]] {
            assert!(lengths(wrong).is_err(), "{wrong:?}");
        }
    }
}
