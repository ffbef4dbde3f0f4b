//! Shared by SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: blocks of the spatial axes that are moved to and from the batch
//! axis.
//!
//! With blocks of `b₁ × … × bₘ` and N batches, offset `(i₁, …, iₘ)` within a block of batch `n` becomes batch
//! `((i₁ × b₂ + i₂) × … ) × N + n`. Independent of both operators.

use attache_base::{Shape, strides};
use attache_gpu_ir::{Index, IndexMap};
use attache_graph::{OpError, TensorRef};

use crate::Facts;
use crate::shared::support::{elements, elements_mut, narrow, with_element};

/// Block extents, and for each axis the number of elements that are padded or cropped before and after.
#[derive(Debug, PartialEq)]
pub(crate) struct Blocks {
    pub(crate) extents: Vec<usize>,
    pub(crate) margins: Vec<[usize; 2]>,
    /// Product of the extents.
    pub(crate) count: usize,
}

impl Blocks {
    /// The blocks given by the values of the second and the third input, for an input of this shape.
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

    /// Strides of the offset within a block along each axis, in units of N batches.
    pub(crate) fn steps(&self) -> Vec<usize> {
        strides(&self.extents)
    }
}

/// The blocks, if both extents and margins are constant. Inputs: elements, block extents and margins.
pub(crate) fn known(inputs: Facts<'_>) -> Result<Option<Blocks>, OpError> {
    let values = (inputs.integers(1)?, inputs.integers(2)?);
    let (Some(shape), (Some(extents), Some(margins))) = (&inputs.fact(0).shape, values) else { return Ok(None) };
    Blocks::new(shape, &extents, &margins).map(Some)
}

/// The index map of an output of this shape with these leading coordinates; the remaining axes are unchanged.
pub(crate) fn map(output: &Shape, mut coordinates: Vec<Index>, fill: Option<f32>) -> IndexMap {
    coordinates.extend((coordinates.len()..output.rank()).map(Index::Axis));
    IndexMap { output: output.to_vec(), coordinates, fill }
}

/// Copies the input through the index map, with `fill` outside of the input. The first `blocked` axes are mapped, the
/// others are unchanged.
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
