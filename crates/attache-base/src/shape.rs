//! Shapes of tensors (extents per axis, outermost first) and the strides of dense row-major tensors.

use std::fmt;
use std::ops::Deref;

/// The shape of a tensor: its extents in elements per axis, outermost first. A shape without axes is a
/// scalar's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(Vec<usize>);

impl Shape {
    /// Creates a shape of these extents.
    pub fn new(extents: impl Into<Vec<usize>>) -> Self {
        Self(extents.into())
    }

    /// Creates a shape from signed extents, as model files store them; `None` if one is negative or does not
    /// fit in `usize`.
    pub fn from_signed<T: Copy + TryInto<usize>>(extents: &[T]) -> Option<Self> {
        extents.iter().map(|extent| (*extent).try_into().ok()).collect::<Option<Vec<_>>>().map(Self)
    }

    /// Number of axes.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of elements, the product of all extents. The product does not overflow for shapes
    /// of a checked model; for other shapes use [`Shape::checked_elements`].
    #[must_use]
    pub fn elements(&self) -> usize {
        self.0.iter().product()
    }

    /// Returns the number of elements; `None` if a product of extents overflows. In this check extents of
    /// zero count as 1, because strides are products of only some of the extents.
    #[must_use]
    pub fn checked_elements(&self) -> Option<usize> {
        let product = self.0.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent.max(&1)))?;
        Some(if self.0.contains(&0) { 0 } else { product })
    }

    /// The extents per axis, outermost first.
    #[must_use]
    pub fn extents(&self) -> &[usize] {
        &self.0
    }

    /// Returns the index of `axis`, which counts from the end if negative; `None` if there is no such axis.
    #[must_use]
    pub fn axis(&self, axis: i64) -> Option<usize> {
        let rank = self.rank() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        (0..rank).contains(&axis).then_some(axis as usize)
    }

    /// Returns the shape with extents of 1 prepended until it has `rank` axes; unchanged if it has at least
    /// that many.
    #[must_use]
    pub fn with_rank(&self, rank: usize) -> Self {
        let mut extents = vec![1; rank.saturating_sub(self.rank())];
        extents.extend(&self.0);
        Self(extents)
    }

    /// Returns the shape to which operands of the shapes `self` and `other` broadcast by NumPy's rule; `None`
    /// if the shapes are incompatible.
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        let rank = self.rank().max(other.rank());
        let (left, right) = (self.with_rank(rank), other.with_rank(rank));
        let extents = left.iter().zip(right.iter()).map(|(&l, &r)| match (l, r) {
            _ if l == r => Some(l),
            (1, _) => Some(r),
            (_, 1) => Some(l),
            _ => None,
        });
        extents.collect::<Option<Vec<_>>>().map(Self)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl From<Vec<usize>> for Shape {
    fn from(extents: Vec<usize>) -> Self {
        Self(extents)
    }
}

impl From<&[usize]> for Shape {
    fn from(extents: &[usize]) -> Self {
        Self(extents.to_vec())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(extents: [usize; N]) -> Self {
        Self(extents.to_vec())
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(extents: I) -> Self {
        Self(extents.into_iter().collect())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (axis, extent) in self.0.iter().enumerate() {
            write!(f, "{}{extent}", if axis > 0 { ", " } else { "" })?;
        }
        write!(f, "]")
    }
}

/// Returns the stride of each axis, in elements, of a dense row-major tensor of these extents.
#[must_use]
pub fn strides(extents: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; extents.len()];
    for axis in (1..extents.len()).rev() {
        strides[axis - 1] = strides[axis] * extents[axis];
    }
    strides
}

/// Returns the stride of each axis of `to`, in elements, for reading a dense row-major operand of shape
/// `from` that is broadcast to `to`: 0 along the axes along which it is repeated. Axes that `from` lacks in
/// front count as extent 1.
///
/// # Panics
///
/// May panic if `from` does not broadcast to `to`.
#[must_use]
pub fn broadcast_strides(from: &[usize], to: &[usize]) -> Vec<usize> {
    let lead = to.len() - from.len();
    let dense = strides(from);
    (0..to.len()).map(|axis| if axis < lead || from[axis - lead] == 1 { 0 } else { dense[axis - lead] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasts_as_numpy() {
        let shape = |extents: &[usize]| Shape::from(extents);
        assert_eq!(shape(&[2, 1, 3]).broadcast(&shape(&[4, 1])), Some(shape(&[2, 4, 3])));
        assert_eq!(shape(&[]).broadcast(&shape(&[0, 2])), Some(shape(&[0, 2])));
        assert_eq!(shape(&[2]).broadcast(&shape(&[3])), None);
        assert_eq!(broadcast_strides(&[4, 1], &[2, 4, 3]), [0, 1, 0]);
    }

    #[test]
    fn elements_are_counted_or_too_many() {
        let count = |extents: &[usize]| Shape::from(extents).checked_elements();
        assert_eq!((count(&[]), count(&[2, 3]), count(&[0, 3])), (Some(1), Some(6), Some(0)));
        assert_eq!((count(&[usize::MAX, 2]), count(&[0, usize::MAX, 2])), (None, None));
    }

    #[test]
    fn axes_count_from_both_ends() {
        let shape = Shape::from([2, 3]);
        assert_eq!((shape.axis(-1), shape.axis(1), shape.axis(2), shape.axis(-3)), (Some(1), Some(1), None, None));
    }
}
