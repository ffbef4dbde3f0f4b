//! DYNAMIC_UPDATE_SLICE: the first input with a block replaced by the second one. The third input has the block's first
//! index on each axis; indices are clamped so that the block lies inside.

use attache_base::{Shape, strides};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::refuse;
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

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (operand, block) = (lowering.input_shape(0)?, lowering.input_shape(1)?);
        check(operand, block, lowering.input_shape(2)?).map_err(refuse)?;
        if operand == block {
            let block = lowering.input(1)?;
            return lowering.output(0, block);
        }
        let inputs = [lowering.input(0)?, lowering.input(1)?, lowering.input(2)?];
        let output = lowering.emit(Primitive::Update, &inputs)?;
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
