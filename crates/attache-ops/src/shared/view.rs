//! Views: tensors whose elements are those of one input, at coordinates that are linear in the output's
//! coordinates. Slices, transposes, reversals and broadcasts are views, both on the CPU and on a device.
//! Independent of the operators.

use attache_base::{Shape, strides};
use attache_gpu_ir::{Index, IndexMap, Primitive, ValueId};
use attache_graph::{Eval, Lowering, OpError, TensorRef, Unsupported};
use attache_kernels::Engine;
use attache_kernels::movement::StridedCopy;

use crate::shared::support::{elements, elements_mut, with_element};

/// A coordinate of the input as a function of the output's coordinates: `begin + stride × o`, where `o` is
/// the output's coordinate along `axis`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Along {
    pub(crate) axis: usize,
    pub(crate) begin: i64,
    pub(crate) stride: i64,
}

impl Along {
    /// Returns the input coordinate that equals the output's coordinate along `axis`.
    pub(crate) fn whole(axis: usize) -> Self {
        Self { axis, begin: 0, stride: 1 }
    }

    fn index(&self) -> Index {
        match self.stride {
            0 => Index::Constant(self.begin),
            stride => Index::Axis(self.axis).times(stride).plus(self.begin),
        }
    }
}

/// A view: for each element of an output, the coordinates of the element of the input that it is copied from.
/// All coordinates must be inside of the input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// The shape of the output.
    pub(crate) output: Shape,
    /// One coordinate for each axis of the input, in order.
    pub(crate) coordinates: Vec<Along>,
}

impl View {
    /// Returns the view of `count` consecutive indices, starting at `begin`, along an axis of an input of
    /// this shape. Other axes are unchanged.
    pub(crate) fn slices(shape: &Shape, axis: usize, begin: usize, count: usize) -> Self {
        let mut output = shape.to_vec();
        let mut coordinates: Vec<_> = (0..shape.rank()).map(Along::whole).collect();
        (output[axis], coordinates[axis].begin) = (count, begin as i64);
        Self { output: output.into(), coordinates }
    }

    /// Whether the view is the unchanged input of this shape.
    fn is_whole(&self, shape: &Shape) -> bool {
        let kept = |(axis, along): (usize, &Along)| *along == Along::whole(axis);
        &self.output == shape && self.coordinates.iter().enumerate().all(kept)
    }

    /// Returns the copy of the view's elements from an input of this shape.
    pub(crate) fn of(&self, shape: &Shape) -> StridedCopy {
        let (mut offset, mut steps) = (0, vec![0; self.output.rank()]);
        for (along, dense) in self.coordinates.iter().zip(strides(shape)) {
            offset += along.begin * dense as i64;
            if along.stride != 0 {
                steps[along.axis] += along.stride * dense as i64;
            }
        }
        StridedCopy::new(offset, &steps, &self.output)
    }

    /// Emits the view of a value as an index map and returns its result, or `input` itself where the view
    /// changes nothing.
    pub(crate) fn lower(&self, lowering: &mut Lowering<'_>, input: ValueId) -> Result<ValueId, Unsupported> {
        if self.is_whole(lowering.shape(input)) {
            return Ok(input);
        }
        let coordinates = self.coordinates.iter().map(Along::index).collect();
        let map = IndexMap { output: self.output.to_vec(), coordinates, fill: None };
        lowering.emit(Primitive::IndexMap(map), &[input])
    }
}

/// Copies elements of input 0 to output 0. `make` says which, from the shape of this input and the values of the others. What
/// it returns is kept from run to run where all others are constants.
// Not generic, so that it is compiled once.
pub(crate) fn copy_kept(
    eval: &mut Eval<'_>,
    make: &dyn Fn(&Eval<'_>) -> Result<StridedCopy, OpError>,
) -> Result<(), OpError> {
    let (engine, input) = (Engine::new(eval.parallel), eval.input(0)?);
    let is_kept = !cfg!(attache_small) && eval.inputs[1..].iter().flatten().all(|tensor| tensor.is_constant);
    if is_kept && let Some(copy) = eval.cache.get_for(|| input.shape.to_vec()) {
        return copy_elements(engine, copy, &input, eval.outputs[0].bytes);
    }
    let copy = make(eval)?;
    copy_elements(engine, &copy, &input, eval.outputs[0].bytes)?;
    if is_kept {
        eval.cache.get_or_make_for(|| input.shape.to_vec(), || copy);
    }
    Ok(())
}

/// Copies elements of `input` to `output`.
pub(crate) fn copy_elements(
    engine: Engine,
    copy: &StridedCopy,
    input: &TensorRef<'_>,
    output: &mut [u8],
) -> Result<(), OpError> {
    with_element!(input.data_type, T => copy.run::<T>(engine, elements(input.bytes)?, elements_mut(output)?));
    Ok(())
}

#[cfg(test)]
mod tests {
    use attache_base::{DataType, Serial};

    use super::*;

    #[test]
    fn a_view_copies_what_it_shows() {
        let shape = Shape::from([2, 3]);
        let bytes: Vec<u8> = (0..6).collect();
        let input = TensorRef {
            data_type: DataType::UInt8,
            shape: &shape,
            bytes: &bytes,
            quantization: None,
            is_constant: false,
        };
        let shown = |view: &View| {
            let mut output = vec![9; view.output.elements()];
            copy_elements(Engine::new(&Serial), &view.of(&shape), &input, &mut output).unwrap();
            output
        };
        assert_eq!(shown(&View::slices(&shape, 1, 1, 2)), [1, 2, 4, 5]);
        let back = Along { axis: 0, begin: 2, stride: -1 };
        let turned = View { output: [3, 2].into(), coordinates: vec![Along::whole(1), back] };
        assert_eq!(shown(&turned), [2, 5, 1, 4, 0, 3]);
        let row = Along { axis: 0, begin: 1, stride: 0 };
        let repeated = View { output: [2, 3].into(), coordinates: vec![row, Along::whole(1)] };
        assert_eq!(shown(&repeated), [3, 4, 5, 3, 4, 5]);
    }
}
