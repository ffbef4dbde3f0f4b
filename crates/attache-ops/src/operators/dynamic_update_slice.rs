//! DYNAMIC_UPDATE_SLICE: the first input with a block replaced by the second one. The third input has the block's first
//! index on each axis; indices are clamped so that the block lies inside.

use attache_base::{DataType, Shape, strides};
use attache_gpu_ir::IntExpression::Input;
use attache_gpu_ir::{Expression, Gather, IntBinaryOp, IntExpression, Primitive, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::positions;
use crate::shared::support::refuse;
use crate::shared::view::View;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::DYNAMIC_UPDATE_SLICE),
    versions: 1..=6,
    inputs: &[input("operand").movable(), input("update").like(0), input("start_indices").integral()],
    parse: |_| Ok(Box::new(DynamicUpdateSlice)),
}];

#[derive(Debug)]
struct DynamicUpdateSlice;

/// Checks that the block lies inside of the operand for some indices, and that there is an index for each axis.
fn check(operand: &Shape, update: &Shape, indices: &Shape) -> Result<(), OpError> {
    let fits = operand.rank() == update.rank() && operand.iter().zip(update.iter()).all(|(all, part)| part <= all);
    if !fits {
        return Err(OpError::invalid(format!(
            "a block of shape {update} is not a part of a tensor of shape {operand}"
        )));
    }
    if indices.extents() != [operand.rank()] {
        return Err(OpError::invalid(format!("indices of shape {indices} for a tensor of shape {operand}")));
    }
    Ok(())
}

/// Returns the first index on each axis, clamped so that the block lies inside.
fn starts(operand: &Shape, update: &Shape, indices: &[i64]) -> Vec<usize> {
    let extents = operand.iter().zip(update.iter()).map(|(all, part)| (all - part) as i64);
    indices.iter().zip(extents).map(|(index, most)| (*index).clamp(0, most) as usize).collect()
}

/// Copies the rows of `update` along the last axis to their places in `output`. Elements have `size` bytes.
fn replace(output: &mut [u8], operand: &Shape, update: &[u8], part: &Shape, starts: &[usize], size: usize) {
    let steps = strides(operand);
    let length = part.last().copied().unwrap_or(1);
    let outer = part.rank().saturating_sub(1);
    let first: usize = starts.iter().zip(&steps).map(|(start, step)| start * step).sum();
    for (row, source) in update.chunks_exact((length * size).max(1)).enumerate() {
        let (mut rest, mut place) = (row, first);
        for axis in (0..outer).rev() {
            place += rest % part[axis] * steps[axis];
            rest /= part[axis];
        }
        output[place * size..][..source.len()].copy_from_slice(source);
    }
}

/// Emits, for an axis along which the block is shorter than the operand, the place in the block of each index of the axis,
/// `[extent, 1]`. Places outside of the block are negative, or `part` or more.
fn places(lowering: &mut Lowering<'_>, axis: usize, [extent, part]: [usize; 2]) -> Result<ValueId, Unsupported> {
    let shape = Shape::from([extent, 1]);
    let all = positions::list(lowering, shape.clone(), |index| index as i32)?;
    let starts = lowering.input(2)?;
    let start = View::slices(lowering.input_shape(2)?, 0, axis, 1).lower(lowering, starts)?;
    let place = Input(0).subtract(Input(1).clamp((0, (extent - part) as i32)));
    lowering.int_map(place, &shape, &[all, start])
}

/// Emits 1 for the places that lie in the block, else 0, in the shape `shape`.
fn inside(lowering: &mut Lowering<'_>, places: ValueId, part: usize, shape: &Shape) -> Result<ValueId, Unsupported> {
    let less = |a: IntExpression, b: i32| a.binary(IntBinaryOp::Less, IntExpression::Constant(b));
    let inside = less(Input(0), 0).select(IntExpression::Constant(0), less(Input(0), part as i32));
    let all = lowering.shape(places).clone();
    let inside = lowering.int_map(inside, &all, &[places])?;
    lowering.reshape(inside, shape)
}

impl Operator for DynamicUpdateSlice {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [operand, update, indices] = inputs.required();
        if let (Some(operand), Some(update), Some(indices)) = (&operand.shape, &update.shape, &indices.shape) {
            check(operand, update, indices)?;
        }
        Ok(vec![Inferred { data_type: operand.data_type, shape: operand.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (update, indices) = (eval.input(1)?, eval.input(2)?);
        let operand = eval.optional(0);
        let Some(output) = eval.outputs.first_mut() else { return Err(OpError::invalid("its output has no shape")) };
        check(output.shape, update.shape, indices.shape)?;
        let starts = starts(output.shape, update.shape, &indices.integers()?);
        let size = output.data_type.bits().unwrap_or(8) / 8;
        if let Some(operand) = operand {
            output.bytes.copy_from_slice(operand.bytes);
        }
        replace(output.bytes, output.shape, update.bytes, update.shape, &starts, size);
        Ok(())
    }

    fn updates(&self) -> Option<usize> {
        Some(0)
    }

    /// Gathers, for each element, the one of the block that may replace it, and selects those that lie in the block.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (operand, update) = (lowering.input_shape(0)?.clone(), lowering.input_shape(1)?.clone());
        check(&operand, &update, lowering.input_shape(2)?).map_err(refuse)?;
        let mut block = lowering.input(1)?;
        let mut insides = Vec::new();
        for (axis, (extent, part)) in
            operand.iter().zip(update.iter()).enumerate().filter(|(_, (all, part))| all != part)
        {
            let places = places(lowering, axis, [*extent, *part])?;
            block = lowering.emit(Primitive::Gather(Gather { batch: 0, axis }), &[block, places])?;
            let mut shape = vec![1; operand.rank()];
            shape[axis] = *extent;
            insides.push(inside(lowering, places, *part, &shape.into())?);
        }
        let is_real = matches!(lowering.input_fact(0)?.data_type, DataType::Float32 | DataType::Float16);
        let inputs = [&[lowering.input(0)?, block], &insides[..]].concat();
        let output = if is_real {
            let choose = |rest, mask| Expression::Input(mask).select(rest, Expression::Input(0));
            let chosen = (2..inputs.len()).fold(Expression::Input(1), choose);
            lowering.map(chosen, &operand, &inputs)?
        } else {
            let chosen = (2..inputs.len()).fold(Input(1), |rest, mask| Input(mask).select(rest, Input(0)));
            lowering.int_map(chosen, &operand, &inputs)?
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_lie_inside() {
        let (operand, update) = (Shape::from([3, 4]), Shape::from([2, 2]));
        assert!(check(&operand, &update, &[2].into()).is_ok());
        assert!(check(&operand, &[4, 1].into(), &[2].into()).is_err());
        assert!(check(&operand, &[2].into(), &[2].into()).is_err());
        assert!(check(&operand, &update, &[3].into()).is_err());
        assert_eq!(starts(&operand, &update, &[2, i64::MIN]), [1, 0]);
    }

    #[test]
    fn a_block_replaces_elements() {
        let (mut output, operand, update) = ([0; 12], Shape::from([3, 4]), Shape::from([2, 2]));
        replace(&mut output, &operand, &[1, 2, 3, 4], &update, &[1, 2], 1);
        assert_eq!(output, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 3, 4]);
        let mut output = [0; 4];
        replace(&mut output, &Shape::default(), &[1, 2, 3, 4], &Shape::default(), &[], 4);
        assert_eq!(output, [1, 2, 3, 4]);
    }
}
