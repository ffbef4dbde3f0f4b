//! Rows of images: how the rows of an operator's output follow from those of its inputs ([`RowUse`]), so that several
//! operators compute a few rows one after the other while they are in the processor's caches ([`Band`]).

use std::ops::Range;

use attache_base::Shape;

use crate::Fact;

/// Which rows of an input `[1, height, width, channels]` an operator reads for some rows of its output
/// `[1, height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// The whole input, which need not be an image: a constant, or elements that are broadcast to each row.
    Whole,
    /// The rows with the same indices, of as many as the output has.
    Same,
    /// For each pixel the pixel with the same indices, of as many rows and columns as the output has; nor does the pixel
    /// depend on its place in another way.
    Pixels,
    /// For each row a window of rows.
    Window {
        /// Number of rows from the first to the last one of a window, at least 1.
        size: usize,
        /// Distance between the windows of adjacent rows, at least 1.
        stride: usize,
        /// Rows of the first window that are above the input.
        before: usize,
        /// Whether the operator can compute parts of rows; see [`Band::first`].
        in_parts: bool,
    },
}

/// Some rows of the output of an operator, which it computes without the other ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Number of rows.
    pub rows: usize,
    /// Rows of the first window that are above the input, where the operator reads windows. The input that it gets begins
    /// with the first row that the windows read, and ends with the last one.
    pub before: usize,
    /// Pixels of the first row that are not computed, where the operator computes parts of rows. The output that it gets
    /// then has one row with as many pixels as are computed: the rest of the first row, the rows after it, and the beginning
    /// of the last one.
    pub first: usize,
}

impl RowUse {
    /// Returns the rows of an input of this height that are read for the rows `rows` of the output, and how many rows of
    /// the first window are above them. There is at least one if the input has any.
    #[must_use]
    pub fn read(self, rows: &Range<usize>, height: usize) -> (Range<usize>, usize) {
        match self {
            RowUse::Whole => (0..height, 0),
            RowUse::Same | RowUse::Pixels => (rows.clone(), 0),
            RowUse::Window { size, stride, before, .. } => {
                let start = rows.start * stride;
                let end = (rows.end.max(1) - 1) * stride + size;
                let first = start.saturating_sub(before).min(height.saturating_sub(1));
                (
                    first..end.saturating_sub(before).clamp(first + 1, height.max(first + 1)),
                    before.saturating_sub(start),
                )
            }
        }
    }

    /// Returns how an elementwise operator, whose output has the extents `[1, height, width, channels]`, reads inputs that
    /// are broadcast to them; `None` if the rows of one are neither those of the output nor all the same.
    #[must_use]
    pub fn of_broadcast(inputs: &[&Fact], output: &[usize; 4]) -> Option<Vec<Self>> {
        let shapes: Vec<&Shape> = inputs.iter().map(|input| input.shape.as_ref()).collect::<Option<_>>()?;
        let of = |shape: &&Shape| match shape[..] {
            [1, height, ..] if shape.rank() == 4 && height == output[1] && height > 1 => Some(Self::Same),
            _ if shape.rank() <= 4 && shape.iter().rev().skip(2).all(|extent| *extent == 1) => Some(Self::Whole),
            _ => None,
        };
        let uses: Vec<Self> = shapes.iter().map(of).collect::<Option<_>>()?;
        // Elements that are the same in all rows may differ along a row.
        let is_pixel = |(shape, usage): (&&Shape, &Self)| match usage {
            Self::Whole => shape.iter().rev().nth(1).is_none_or(|width| *width == 1),
            _ => shape[2] == output[2],
        };
        let are_pixels = shapes.iter().zip(&uses).all(is_pixel);
        let pixels = |usage| if usage == Self::Same && are_pixels { Self::Pixels } else { usage };
        Some(uses.into_iter().map(pixels).collect())
    }
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;

    use super::*;

    #[test]
    fn windows_read_the_rows_inside_of_the_input() {
        let window = RowUse::Window { size: 3, stride: 2, before: 1, in_parts: false };
        assert_eq!(window.read(&(0..2), 7), (0..4, 1));
        assert_eq!(window.read(&(2..4), 7), (3..7, 0), "the last window reaches below the input");
        assert_eq!(RowUse::Window { size: 1, stride: 1, before: 0, in_parts: true }.read(&(3..5), 9), (3..5, 0));
        assert_eq!(RowUse::Same.read(&(3..5), 9), (3..5, 0));
        assert_eq!(RowUse::Whole.read(&(3..5), 9), (0..9, 0));
    }

    #[test]
    fn what_is_broadcast_has_the_same_pixels_or_rows_or_one() {
        let fact = |shape: &[usize]| Fact::new(DataType::Float32, shape);
        let of = |shape: &[usize]| RowUse::of_broadcast(&[&fact(&[1, 5, 6, 7]), &fact(shape)], &[1, 5, 6, 7]);
        for same in [&[1, 5, 6, 7], &[1, 5, 6, 1]] {
            assert_eq!(of(same).unwrap(), [RowUse::Pixels, RowUse::Pixels], "{same:?}");
        }
        assert_eq!(of(&[1, 5, 1, 7]).unwrap(), [RowUse::Same, RowUse::Same]);
        for whole in [&[][..], &[7], &[1, 7], &[1, 1, 1, 7]] {
            assert_eq!(of(whole).unwrap(), [RowUse::Pixels, RowUse::Whole], "{whole:?}");
        }
        for whole in [&[6, 7][..], &[1, 6, 1]] {
            assert_eq!(of(whole).unwrap(), [RowUse::Same, RowUse::Whole], "{whole:?}");
        }
        for other in [&[5, 6, 7][..], &[2, 1, 1, 7], &[1, 1, 5, 6, 7]] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
