//! Rows of images: how the rows of an operator's output follow from those of its inputs ([`RowUse`]), so that several
//! operators compute a few rows one after the other while they are in the processor's caches ([`Band`]).

use std::ops::Range;

use crate::Fact;

/// Which rows of an input `[1, height, width, channels]` an operator reads for some rows of its output
/// `[1, height, width, channels]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUse {
    /// The whole input, which need not be an image: a constant, or elements that are broadcast to each row.
    Whole,
    /// The rows with the same indices, of as many as the output has.
    Same,
    /// For each row a window of rows.
    Window {
        /// Number of rows from the first to the last one of a window, at least 1.
        size: usize,
        /// Distance between the windows of adjacent rows, at least 1.
        stride: usize,
        /// Rows of the first window that are above the input.
        before: usize,
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
}

impl RowUse {
    /// Returns the rows of an input of this height that are read for the rows `rows` of the output, and how many rows of
    /// the first window are above them. There is at least one if the input has any.
    #[must_use]
    pub fn read(self, rows: &Range<usize>, height: usize) -> (Range<usize>, usize) {
        match self {
            RowUse::Whole => (0..height, 0),
            RowUse::Same => (rows.clone(), 0),
            RowUse::Window { size, stride, before } => {
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

    /// Returns how an elementwise operator, whose output has the extents `[1, height, width, channels]`, reads an input
    /// that is broadcast to them; `None` if its rows are neither those of the output nor all the same.
    #[must_use]
    pub fn of_broadcast(input: &Fact, output: &[usize; 4]) -> Option<Self> {
        let shape = input.shape.as_ref()?;
        match shape[..] {
            [1, height, ..] if shape.rank() == 4 && height == output[1] && height > 1 => Some(Self::Same),
            _ if shape.rank() <= 4 && shape.iter().rev().skip(2).all(|extent| *extent == 1) => Some(Self::Whole),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;

    use super::*;

    #[test]
    fn windows_read_the_rows_inside_of_the_input() {
        let window = RowUse::Window { size: 3, stride: 2, before: 1 };
        assert_eq!(window.read(&(0..2), 7), (0..4, 1));
        assert_eq!(window.read(&(2..4), 7), (3..7, 0), "the last window reaches below the input");
        assert_eq!(RowUse::Window { size: 1, stride: 1, before: 0 }.read(&(3..5), 9), (3..5, 0));
        assert_eq!(RowUse::Same.read(&(3..5), 9), (3..5, 0));
        assert_eq!(RowUse::Whole.read(&(3..5), 9), (0..9, 0));
    }

    #[test]
    fn what_is_broadcast_has_the_same_rows_or_one() {
        let of = |shape: &[usize]| RowUse::of_broadcast(&Fact::new(DataType::Float32, shape), &[1, 5, 6, 7]);
        assert_eq!(of(&[1, 5, 6, 7]), Some(RowUse::Same));
        assert_eq!(of(&[1, 5, 1, 7]), Some(RowUse::Same));
        for whole in [&[][..], &[7], &[6, 7], &[1, 6, 1], &[1, 1, 1, 7]] {
            assert_eq!(of(whole), Some(RowUse::Whole), "{whole:?}");
        }
        for other in [&[5, 6, 7][..], &[2, 1, 1, 7], &[1, 1, 5, 6, 7]] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }
}
