//! How STABLEHLO_GATHER and STABLEHLO_SCATTER address slices of an operand: by index vectors, which lie along one axis of a
//! tensor of indices, for some of the operand's axes.

use attache_base::Shape;
use attache_graph::OpError;

/// The axes of slices, of the tensor that they are joined to, and of the indices.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SliceAxes {
    /// The axes of the joined tensor that are axes of a slice, ascending. The others are those of the batch.
    pub(crate) window: Vec<usize>,
    /// The axes of the operand along which slices have one element, and that the joined tensor does not have; ascending.
    pub(crate) dropped: Vec<usize>,
    /// The axes of the operand that the numbers of an index vector stand for.
    pub(crate) named: Vec<usize>,
    /// The axis of the indices along which the vectors lie; their rank if each index is a vector.
    pub(crate) vector: usize,
}

/// Returns a list of the options as indices of axes or extents; `name` is that of the list, for the error.
pub(crate) fn integers_of(name: &str, list: Option<impl IntoIterator<Item = i64>>) -> Result<Vec<usize>, OpError> {
    let list = list.into_iter().flatten().map(|value| {
        usize::try_from(value)
            .map_err(|_| OpError::invalid(format!("{name} has the number {value}, which is negative")))
    });
    list.collect()
}

/// Whether numbers ascend and are below `limit`.
fn ascend(list: &[usize], limit: usize) -> bool {
    list.windows(2).all(|pair| pair[0] < pair[1]) && list.last().is_none_or(|last| *last < limit)
}

impl SliceAxes {
    /// Returns the extents of the batch: those of the indices without the axis of the vectors. Fails where the axes do not
    /// fit the shapes of the operand and of the indices.
    pub(crate) fn batch(&self, operand: &Shape, indices: &Shape) -> Result<Vec<usize>, OpError> {
        let rank = operand.rank();
        let length = if self.vector == indices.rank() { Some(1) } else { indices.get(self.vector).copied() };
        let is_named_once = (1..self.named.len()).all(|index| !self.named[..index].contains(&self.named[index]));
        let fits = ascend(&self.dropped, rank)
            && self.dropped.len() + self.window.len() == rank
            && length == Some(self.named.len())
            && self.named.iter().all(|axis| *axis < rank)
            && is_named_once;
        if !fits {
            return Err(OpError::invalid(format!("{self:?} for an operand of shape {operand} and indices {indices}")));
        }
        let axes = (0..indices.rank()).filter(|axis| *axis != self.vector);
        Ok(axes.map(|axis| indices[axis]).collect())
    }

    /// Returns the axes of an operand of rank `rank` that slices keep.
    pub(crate) fn kept(&self, rank: usize) -> impl Iterator<Item = usize> {
        (0..rank).filter(|axis| !self.dropped.contains(axis))
    }

    /// Returns the extents of the joined tensor, given those of the batch and of a slice.
    pub(crate) fn joined(&self, batch: &[usize], slice: &[usize]) -> Result<Vec<usize>, OpError> {
        let rank = batch.len() + slice.len();
        if slice.len() != self.window.len() || !ascend(&self.window, rank) {
            return Err(OpError::invalid(format!("axes {:?} of slices in a tensor of rank {rank}", self.window)));
        }
        let (mut batch, mut slice) = (batch.iter(), slice.iter());
        let next = |axis| if self.window.contains(&axis) { slice.next() } else { batch.next() };
        Ok((0..rank).filter_map(next).copied().collect())
    }

    /// Returns, for each element of a joined tensor in row-major order, the number of its index vector, and the sum of its
    /// coordinates in the slice, each times `step` of the coordinate's number.
    pub(crate) fn places(&self, joined: &Shape, step: impl Fn(usize) -> usize) -> impl Iterator<Item = (usize, usize)> {
        let mut axes = Vec::with_capacity(joined.rank());
        let mut batches = 1;
        // For each axis, the last one first: its extent, and how much a step changes the number of the vector and the sum.
        for (axis, extent) in joined.iter().enumerate().rev() {
            match self.window.iter().position(|window| *window == axis) {
                Some(window) => axes.push((*extent, 0, step(window))),
                None => {
                    axes.push((*extent, batches, 0));
                    batches *= extent;
                }
            }
        }
        (0..joined.elements()).map(move |element| {
            let (mut rest, mut batch, mut offset) = (element, 0, 0);
            for (extent, of_batch, of_slice) in &axes {
                (batch, offset) = (batch + rest % extent * of_batch, offset + rest % extent * of_slice);
                rest /= extent;
            }
            (batch, offset)
        })
    }
}

/// Returns the index vectors along the axis `vector`, in the order of the other axes.
pub(crate) fn vectors(indices: &[i64], shape: &Shape, vector: usize) -> Vec<Vec<i64>> {
    let length = shape.get(vector).copied().unwrap_or(1);
    let inner = shape.get(vector + 1..).unwrap_or_default().iter().product::<usize>();
    let count = indices.len().checked_div(length).unwrap_or(0);
    let one = |index: usize| {
        let first = index / inner * length * inner + index % inner;
        (0..length).map(|number| indices[first + number * inner]).collect()
    };
    (0..count).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes() -> SliceAxes {
        SliceAxes { window: vec![1, 2], dropped: vec![0], named: vec![2, 0], vector: 0 }
    }

    #[test]
    fn axes_fit_the_shapes() {
        let (operand, indices) = (Shape::from([3, 4, 5]), Shape::from([2, 7]));
        assert_eq!(axes().batch(&operand, &indices).unwrap(), [7]);
        assert_eq!(axes().joined(&[7], &[4, 5]).unwrap(), [7, 4, 5]);
        let wrong = [
            SliceAxes { dropped: vec![3], ..axes() },
            SliceAxes { dropped: vec![0, 0], ..axes() },
            SliceAxes { named: vec![0, 3], ..axes() },
            SliceAxes { named: vec![0, 0], ..axes() },
            SliceAxes { vector: 1, ..axes() },
            SliceAxes { vector: 3, ..axes() },
        ];
        for wrong in wrong {
            assert!(wrong.batch(&operand, &indices).is_err(), "{wrong:?}");
        }
        assert!(SliceAxes { window: vec![1, 3], ..axes() }.joined(&[7], &[4, 5]).is_err());
    }

    #[test]
    fn elements_have_places() {
        let places: Vec<_> = axes().places(&[2, 2, 2].into(), |axis| [10, 1][axis]).collect();
        assert_eq!(places[..5], [(0, 0), (0, 1), (0, 10), (0, 11), (1, 0)]);
        assert_eq!(vectors(&[1, 2, 3, 4], &[2, 2].into(), 0), [[1, 3], [2, 4]]);
        assert_eq!(vectors(&[1, 2], &[2].into(), 1), [[1], [2]]);
    }
}
