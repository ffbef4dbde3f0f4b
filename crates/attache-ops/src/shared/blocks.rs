//! Shared by SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: the parameters, and the copy between the positions
//! within blocks of the spatial axes and the batch axis. Independent of both operators.
//!
//! With blocks of `b₁ × … × bₘ` elements and N batches before the blocks are moved to the batch axis, offset
//! `(i₁, …, iₘ)` within a block of batch `n` becomes batch `((i₁ × b₂ + i₂) × … ) × N + n`.

use attache_base::{Shape, strides};
use attache_gpu_ir::{Index, IndexMap};
use attache_graph::{OpError, TensorRef};

use crate::Facts;
use crate::shared::support::{elements, elements_mut, narrow, with_element};

/// The parameters of both operators: the extents of a block, and the margins that are padded or cropped.
#[derive(Debug, PartialEq)]
pub(crate) struct Blocks {
    /// Extents of a block along each blocked axis.
    pub(crate) extents: Vec<usize>,
    /// For each blocked axis, the numbers of elements that are padded or cropped before and after.
    pub(crate) margins: Vec<[usize; 2]>,
    /// Number of elements of a block: the product of its extents.
    pub(crate) count: usize,
}

impl Blocks {
    /// Returns the parameters from the values of the second input (`extents`) and the third (`margins`, as
    /// pairs), for an input of this shape. An error where they are negative, do not match the shape, or a
    /// block is empty or too large.
    pub(crate) fn new(shape: &Shape, extents: &[i64], margins: &[i64]) -> Result<Self, OpError> {
        let wrong =
            || OpError::invalid(format!("blocks of {extents:?} with {margins:?} for an input of shape {shape}"));
        let (pairs, rest) = margins.as_chunks::<2>();
        let pair = |[before, after]: &[i64; 2]| Some([usize::try_from(*before).ok()?, usize::try_from(*after).ok()?]);
        let margins = pairs.iter().map(pair).collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
        let extents = Shape::from_signed(extents).filter(|extents| !extents.contains(&0)).ok_or_else(wrong)?;
        let count = extents.checked_elements().filter(|count| *count <= isize::MAX as usize).ok_or_else(wrong)?;
        if !rest.is_empty() || margins.len() != extents.rank() || extents.rank() + 1 > shape.rank() {
            return Err(wrong());
        }
        Ok(Self { extents: extents.to_vec(), margins, count })
    }

    /// Returns by how much the batch index grows with the offset within a block along each axis, in units of
    /// N batches.
    pub(crate) fn steps(&self) -> Vec<usize> {
        strides(&self.extents)
    }
}

/// Returns the parameters if both block extents and margins are constant and the input's shape is known, else
/// `None`. The operators' inputs are elements, block extents and margins.
pub(crate) fn known(inputs: Facts<'_>) -> Result<Option<Blocks>, OpError> {
    let values = (inputs.integers(1)?, inputs.integers(2)?);
    let (Some(shape), (Some(extents), Some(margins))) = (&inputs.fact(0).shape, values) else { return Ok(None) };
    Blocks::new(shape, &extents, &margins).map(Some)
}

/// Returns the index map of an output of this shape with these leading coordinates; the coordinates of the
/// remaining axes are unchanged. `fill` is the value outside of the input.
pub(crate) fn map(output: &Shape, mut coordinates: Vec<Index>, fill: Option<f32>) -> IndexMap {
    coordinates.extend((coordinates.len()..output.rank()).map(Index::Axis));
    IndexMap { output: output.to_vec(), coordinates, fill }
}

/// Copies the input to the output through the index map, with `fill` where a coordinate is outside of the
/// input. The map changes the coordinates of the first `blocked` axes only.
pub(crate) fn copy(
    map: &IndexMap,
    blocked: usize,
    input: TensorRef<'_>,
    output: &mut [u8],
    fill: i32,
) -> Result<(), OpError> {
    let (rows, length) = (&map.output[..blocked], map.output[blocked..].iter().product::<usize>());
    let steps = strides(input.shape);
    let mut row = vec![0; map.output.len()];
    with_element!(input.data_type, T => {
        let (source, output) = (elements::<T>(input.bytes)?, elements_mut::<T>(output)?);
        for target in output.chunks_exact_mut(length.max(1)) {
            let place = (0..blocked).try_fold(0, |place, axis| {
                let coordinate = usize::try_from(map.coordinates[axis].evaluate(&row)).ok()?;
                (coordinate < input.shape[axis]).then(|| place + coordinate * steps[axis])
            });
            match place {
                Some(place) => target.copy_from_slice(&source[place..place + length]),
                None => target.fill(narrow(fill)),
            }
            for axis in (0..blocked).rev() {
                row[axis] += 1;
                if row[axis] < rows[axis] {
                    break;
                }
                row[axis] = 0;
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_the_input() {
        let shape = Shape::from([2, 4, 6, 3]);
        let blocks = Blocks::new(&shape, &[2, 3], &[0, 1, 2, 0]).unwrap();
        assert_eq!((blocks.count, blocks.steps(), blocks.margins[1]), (6, vec![3, 1], [2, 0]));
        assert!(Blocks::new(&shape, &[2, 0], &[0; 4]).is_err());
        assert!(Blocks::new(&shape, &[2, -1], &[0; 4]).is_err());
        assert!(Blocks::new(&shape, &[2, 2], &[0; 2]).is_err());
        assert!(Blocks::new(&shape, &[2], &[0, -1]).is_err());
        assert!(Blocks::new(&shape, &[1; 4], &[0; 8]).is_err());
        assert!(Blocks::new(&shape, &[i64::MAX, i64::MAX], &[0; 4]).is_err());
    }
}
