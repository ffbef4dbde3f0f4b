//! Shared by PAD, PADV2 and MIRROR_PAD: the padding amounts that the second input contains, the output's
//! shape, and lowering with a constant fill value.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Lowering, OpError, Unsupported};

use crate::Facts;
use crate::shared::support::{countable, refuse};

/// Types of the input `paddings`.
pub(crate) const TYPES: [DataType; 4] = [DataType::Int32, DataType::Int64, DataType::Int16, DataType::Int8];

/// Returns the numbers of padding elements before and after each axis, from the values of the input
/// `paddings`, which has shape `[rank, 2]`. An error where a value is negative or their count does not match
/// the shape.
pub(crate) fn paddings(shape: &Shape, values: &[i64]) -> Result<Vec<[usize; 2]>, OpError> {
    let wrong = || OpError::invalid(format!("paddings {values:?} for an input of shape {shape}"));
    let (pairs, rest) = values.as_chunks::<2>();
    if pairs.len() != shape.rank() || !rest.is_empty() {
        return Err(wrong());
    }
    let pair = |[before, after]: &[i64; 2]| Some([usize::try_from(*before).ok()?, usize::try_from(*after).ok()?]);
    pairs.iter().map(pair).collect::<Option<_>>().ok_or_else(wrong)
}

/// Returns the shape after padding each axis; an error where it is too large.
pub(crate) fn padded(shape: &Shape, paddings: &[[usize; 2]]) -> Result<Shape, OpError> {
    let extents =
        shape.iter().zip(paddings).map(|(extent, [before, after])| extent.checked_add(*before)?.checked_add(*after));
    let shape = extents.collect::<Option<Shape>>();
    countable(shape.ok_or_else(|| OpError::invalid(format!("paddings {paddings:?} are too large")))?)
}

/// Checks the shapes of the inputs of PAD and its variants. Returns the padding amounts where they are
/// constant and the input's shape is known.
pub(crate) fn known_paddings(inputs: Facts<'_>) -> Result<Option<Vec<[usize; 2]>>, OpError> {
    let [input, paddings_fact] = inputs.required();
    if input.shape.as_ref().is_some_and(|shape| shape.rank() > 8) {
        return Err(OpError::unsupported("more than 8 axes are not implemented"));
    }
    if paddings_fact.shape.as_ref().is_some_and(|shape| shape.rank() != 2 || shape[1] != 2) {
        return Err(OpError::invalid("paddings do not come in pairs"));
    }
    let (Some(values), Some(shape)) = (inputs.integers(1)?, &input.shape) else { return Ok(None) };
    paddings(shape, &values).map(Some)
}

/// Emits input 0, padded with `fill`, as output 0.
pub(crate) fn lower(lowering: &mut Lowering<'_>, fill: f32) -> Result<(), Unsupported> {
    let paddings = paddings(lowering.input_shape(0)?, &lowering.integers(1)?).map_err(refuse)?;
    let (input, output) = (lowering.input(0)?, lowering.output_shape(0)?.to_vec());
    let coordinate = |(axis, [before, _]): (usize, &[usize; 2])| Index::Axis(axis).plus(-(*before as i64));
    let coordinates = paddings.iter().enumerate().map(coordinate).collect();
    let output = lowering.emit(Primitive::IndexMap(IndexMap { output, coordinates, fill: Some(fill) }), &[input])?;
    lowering.output(0, output)
}

/// Returns the padding elements before each axis, and those after each axis, as separate lists.
pub(crate) fn split(paddings: &[[usize; 2]]) -> (Vec<usize>, Vec<usize>) {
    paddings.iter().map(|[before, after]| (*before, *after)).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paddings_are_pairs_that_are_not_negative() {
        let shape = Shape::from([2, 3]);
        assert_eq!(paddings(&shape, &[0, 1, 2, 3]).unwrap(), [[0, 1], [2, 3]]);
        assert!(paddings(&shape, &[0, 1]).is_err());
        assert!(paddings(&shape, &[0, 1, -1, 0]).is_err());
        assert_eq!(padded(&shape, &[[0, 1], [2, 3]]).unwrap(), Shape::from([3, 8]));
        assert!(padded(&shape, &[[usize::MAX, 1], [2, 3]]).is_err());
        assert!(padded(&shape, &[[1 << 40, 1], [1 << 40, 3]]).is_err());
    }
}
