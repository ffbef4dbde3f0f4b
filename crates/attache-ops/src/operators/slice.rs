//! SLICE: a block of the input, `size[a]` elements from `begin[a]` along each axis; a size of -1 extends to the end.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::refuse;
use crate::shared::view::{Along, View, copy_kept};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SLICE),
    versions: 1..=8,
    inputs: &[input("input").movable_or_strings(), input("begin").integral(), input("size").integral()],
    parse: |_| Ok(Box::new(Slice)),
}];

#[derive(Debug)]
struct Slice;

/// Returns the view of the block; fails unless the block is inside of the input.
fn view(shape: &Shape, begins: &[i64], sizes: &[i64]) -> Result<View, OpError> {
    let wrong = || OpError::invalid(format!("{sizes:?} elements from {begins:?} on do not lie in {shape}"));
    if begins.len() != shape.rank() || sizes.len() != shape.rank() {
        return Err(wrong());
    }
    let (mut output, mut coordinates) = (Vec::new(), Vec::new());
    for (axis, (begin, size)) in begins.iter().zip(sizes).enumerate() {
        let rest = usize::try_from(*begin).ok().and_then(|begin| shape[axis].checked_sub(begin)).ok_or_else(wrong)?;
        let size = if *size == -1 { rest } else { usize::try_from(*size).map_err(|_| wrong())? };
        if size > rest {
            return Err(wrong());
        }
        output.push(size);
        coordinates.push(Along { begin: *begin, ..Along::whole(axis) });
    }
    Ok(View { output: output.into(), coordinates })
}

impl Operator for Slice {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let known = (inputs.integers(1)?, inputs.integers(2)?);
        let (Some(shape), (Some(begin), Some(size))) = (&input.shape, known) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, view(shape, &begin, &size)?.output)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        copy_kept(eval, &|eval| {
            let (shape, begin, size) = (eval.input(0)?.shape, eval.input(1)?.integers()?, eval.input(2)?.integers()?);
            Ok(view(shape, &begin, &size)?.of(shape))
        })
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (begin, size) = (lowering.integers(1)?, lowering.integers(2)?);
        let view = view(lowering.input_shape(0)?, &begin, &size).map_err(refuse)?;
        let input = lowering.input(0)?;
        let output = view.lower(lowering, input)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_inside() {
        let shape = Shape::from([4, 5]);
        assert_eq!(view(&shape, &[1, 2], &[2, -1]).unwrap().output, Shape::from([2, 3]));
        assert_eq!(view(&shape, &[4, 5], &[-1, 0]).unwrap().output, Shape::from([0, 0]));
        for (begin, size) in [([1, 2], [4, 1]), ([-1, 0], [1, 1]), ([5, 0], [-1, 1]), ([0, 0], [-2, 1])] {
            assert!(view(&shape, &begin, &size).is_err(), "{begin:?} {size:?}");
        }
        assert!(view(&shape, &[1, i64::MAX], &[1, i64::MAX]).is_err());
        assert!(view(&shape, &[1], &[1]).is_err());
    }
}
