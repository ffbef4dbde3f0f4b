//! STABLEHLO_GATHER: slices of the operand, one for each index vector. Indices are clamped so that slices lie inside.
//!
//! The output has the axes of the indices without that of the index vectors (the batch), and those of a slice that are not
//! collapsed, which stand at `offset_dims`.

use attache_base::{Constant, Shape, strides};
use attache_gpu_ir::{Gather, IntBinaryOp, IntExpression, Primitive, ReduceOp, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::slices::{SliceAxes, integers_of, vectors};
use crate::shared::support::{countable, elements, elements_mut, refuse, with_element};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::STABLEHLO_GATHER),
    versions: 1..=1,
    inputs: &[input("operand").movable(), input("start_indices").integral()],
    parse,
}];

#[derive(Debug)]
struct StablehloGather {
    axes: SliceAxes,
    /// The extents of a slice along the axes of the operand.
    sizes: Vec<usize>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_2_as_stablehlo_gather_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(StablehloGather {
        axes: SliceAxes {
            window: integers_of("offset_dims", options.offset_dims())?,
            dropped: integers_of("collapsed_slice_dims", options.collapsed_slice_dims())?,
            named: integers_of("start_index_map", options.start_index_map())?,
            vector: integers_of("index_vector_dim", Some([options.index_vector_dim()]))?[0],
        },
        sizes: integers_of("slice_sizes", options.slice_sizes())?,
    }))
}

impl StablehloGather {
    fn output(&self, operand: &Shape, indices: &Shape) -> Result<Shape, OpError> {
        let batch = self.axes.batch(operand, indices)?;
        let wrong = || OpError::invalid(format!("slices of {:?} of an operand of shape {operand}", self.sizes));
        let fits =
            self.sizes.len() == operand.rank() && self.sizes.iter().zip(operand.iter()).all(|(size, all)| size <= all);
        if !fits || self.axes.dropped.iter().any(|axis| self.sizes[*axis] != 1) {
            return Err(wrong());
        }
        let kept = self.axes.kept(operand.rank()).map(|axis| self.sizes[axis]);
        countable(self.axes.joined(&batch, &kept.collect::<Vec<_>>())?.into())
    }
}

impl StablehloGather {
    /// Emits the offset of each slice in the operand, with extent 1 along the axes of the output that are those of a slice.
    fn starts(&self, lowering: &mut Lowering<'_>, operand: &Shape, output: &Shape) -> Result<ValueId, Unsupported> {
        let steps = strides(operand);
        let of_axis = |number: &dyn Fn(usize) -> usize| -> Vec<i32> {
            self.axes.named.iter().map(|axis| number(*axis) as i32).collect()
        };
        let (most, step) = (of_axis(&|axis| operand[axis] - self.sizes[axis]), of_axis(&|axis| steps[axis]));
        let mut indices = lowering.input(1)?;
        let mut shape = lowering.shape(indices).to_vec();
        if self.axes.vector == shape.len() {
            shape.push(1);
            indices = lowering.reshape(indices, &shape.clone().into())?;
        }
        // One number for each axis that is named, along the axis of the index vectors.
        let mut along = vec![1; shape.len()];
        along[self.axes.vector] = self.axes.named.len();
        let most = lowering.constant(Constant::from_values(along.clone(), &most))?;
        let step = lowering.constant(Constant::from_values(along, &step))?;
        let [index, most_at, step_at] = [0, 1, 2].map(IntExpression::Input);
        let low = index.binary(IntBinaryOp::Maximum, IntExpression::Constant(0));
        let place = low.binary(IntBinaryOp::Minimum, most_at).multiply(step_at);
        let places = lowering.int_map(place, &shape.into(), &[indices, most, step])?;
        let axes = vec![self.axes.vector];
        let starts = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes }, &[places])?;
        let extents = output.iter().enumerate().map(|(axis, extent)| match self.axes.window.contains(&axis) {
            true => 1,
            false => *extent,
        });
        lowering.reshape(starts, &extents.collect())
    }
}

impl Operator for StablehloGather {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [operand, indices] = inputs.required();
        let (Some(shape), Some(indices)) = (&operand.shape, &indices.shape) else {
            return Ok(vec![Inferred::unknown(operand.data_type)]);
        };
        Ok(vec![Inferred::new(operand.data_type, self.output(shape, indices)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (operand, indices) = (eval.input(0)?, eval.input(1)?);
        let output = &mut eval.outputs[0];
        let rank = operand.shape.rank();
        let vectors = vectors(&indices.integers()?, indices.shape, self.axes.vector);
        let steps = strides(operand.shape);
        // The offset of each slice in the operand.
        let start = |vector: &Vec<i64>| {
            let places = self.axes.named.iter().zip(vector).map(|(axis, index)| {
                let most = operand.shape[*axis] - self.sizes[*axis];
                usize::try_from((*index).max(0)).unwrap_or(usize::MAX).min(most) * steps[*axis]
            });
            places.sum::<usize>()
        };
        let starts: Vec<usize> = vectors.iter().map(start).collect();
        let kept: Vec<usize> = self.axes.kept(rank).collect();
        let places = self.axes.places(output.shape, |axis| steps[kept[axis]]);
        with_element!(operand.data_type, T => {
            let (operand, output) = (elements::<T>(operand.bytes)?, elements_mut::<T>(output.bytes)?);
            for (output, (batch, offset)) in output.iter_mut().zip(places) {
                *output = operand[starts[batch] + offset];
            }
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let (operand, output) = (lowering.input_shape(0)?.clone(), lowering.output_shape(0)?.clone());
        i32::try_from(operand.elements()).map_err(|_| Unsupported::new("an operand of 2³¹ elements or more"))?;
        self.output(&operand, lowering.input_shape(1)?).map_err(refuse)?;
        let starts = self.starts(lowering, &operand, &output)?;
        // The offset of each element in its slice, with extent 1 along the axes of the batch.
        let kept: Vec<usize> = self.axes.kept(operand.rank()).collect();
        let steps = strides(&operand);
        let slice = output.iter().enumerate().map(|(axis, extent)| match self.axes.window.contains(&axis) {
            true => *extent,
            false => 1,
        });
        let slice: Shape = slice.collect();
        let offsets = self.axes.places(&slice, |axis| steps[kept[axis]]).map(|(_, offset)| offset as i32);
        let offsets = offsets.collect::<Vec<_>>();
        let offsets = lowering.constant(Constant::from_values(slice, &offsets))?;
        let sum = IntExpression::Input(0).add(IntExpression::Input(1));
        let places = lowering.int_map(sum, &output, &[starts, offsets])?;
        let places = lowering.reshape(places, &[&output[..], &[1]].concat().into())?;
        let input = lowering.input(0)?;
        let elements = lowering.reshape(input, &[operand.elements()].into())?;
        let gathered = lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 0 }), &[elements, places])?;
        lowering.output(0, gathered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_lie_inside() {
        let gather = |sizes: &[usize]| StablehloGather {
            axes: SliceAxes { window: vec![1], dropped: vec![0], named: vec![0, 1], vector: 1 },
            sizes: sizes.to_vec(),
        };
        assert_eq!(gather(&[1, 2]).output(&[3, 4].into(), &[5, 2].into()).unwrap(), Shape::from([5, 2]));
        for wrong in [&[2, 2][..], &[1, 5], &[1], &[1, 1, 1]] {
            assert!(gather(wrong).output(&[3, 4].into(), &[5, 2].into()).is_err(), "{wrong:?}");
        }
    }
}
