//! Decoding of the boxes of TFLite_Detection_PostProcess, and its two kinds of non-maximum suppression: over
//! boxes, by the highest score of each, and over classes, for each class separately.
//!
//! The caller must have checked the shapes. Of equal scores the first one wins, except among the classes of
//! one box (see [`largest`]). NaN scores are lower than any other.

use std::borrow::Cow;

use attache_base::{OrderAsNeeded, order_as_needed};

use crate::shared::overlap::overlap;
use crate::shared::support::float_key;

/// The limits on the selection of boxes, from the operator's options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Maximum number of detections.
    pub(super) most: usize,
    /// Maximum number of classes of a detection.
    pub(super) most_classes: usize,
    /// Maximum number of detections of a class, where suppression is done for each class separately.
    pub(super) most_per_class: usize,
    /// Number of classes, without the background.
    pub(super) classes: usize,
    /// Minimum score of a selected box.
    pub(super) score: f32,
    /// Maximum intersection over union of two selected boxes.
    pub(super) overlap: f32,
}

/// The scores of all boxes, one row per box.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scores<'a> {
    pub(super) values: Values<'a>,
    /// Number of columns of a row, including the background; at least one.
    pub(super) columns: usize,
    /// Number of background columns before the first class.
    pub(super) background: usize,
}

/// The elements of scores.
#[derive(Clone, Copy, Debug)]
pub(super) enum Values<'a> {
    Floats(&'a [f32]),
    /// Stored bytes, and the number that each of the 256 values of a byte stands for. The smallest libraries make floats of them.
    #[cfg(not(attache_small))]
    Bytes(&'a [u8], &'a [f32]),
}

impl<'a> Scores<'a> {
    /// Returns the scores of each box in one iteration, without the background.
    fn rows<T>(&self, values: &'a [T]) -> impl Iterator<Item = &'a [T]> {
        let background = self.background;
        values.chunks_exact(self.columns).map(move |row| &row[background..])
    }

    /// Returns the scores of a box, without the background.
    fn row(&self, index: usize) -> Cow<'a, [f32]> {
        let range = index * self.columns + self.background..(index + 1) * self.columns;
        match self.values {
            Values::Floats(floats) => Cow::Borrowed(&floats[range]),
            #[cfg(not(attache_small))]
            Values::Bytes(bytes, numbers) => bytes[range].iter().map(|byte| numbers[usize::from(*byte)]).collect(),
        }
    }

    /// Returns the score of a class for each box.
    fn column(&self, class: usize) -> Vec<f32> {
        let first = self.background + class;
        match self.values {
            Values::Floats(floats) => floats.iter().skip(first).step_by(self.columns).copied().collect(),
            #[cfg(not(attache_small))]
            Values::Bytes(bytes, numbers) => {
                bytes.iter().skip(first).step_by(self.columns).map(|byte| numbers[usize::from(*byte)]).collect()
            }
        }
    }

    /// Returns the highest score of each box; NaN if it has no other.
    fn highest(&self) -> Vec<f32> {
        match self.values {
            Values::Floats(floats) => self.rows(floats).map(|row| highest(row, f32::NAN, f32::max)).collect(),
            // The highest byte stands for the highest number.
            #[cfg(not(attache_small))]
            Values::Bytes(bytes, numbers) if numbers.is_sorted() => {
                let highest = |row| (!<[u8]>::is_empty(row)).then(|| highest(row, 0, u8::max));
                let number = |byte: Option<u8>| byte.map_or(f32::NAN, |byte| numbers[usize::from(byte)]);
                self.rows(bytes).map(|row| number(highest(row))).collect()
            }
            #[cfg(not(attache_small))]
            Values::Bytes(bytes, numbers) => {
                let number = |byte: &u8| numbers[usize::from(*byte)];
                self.rows(bytes).map(|row| row.iter().map(number).fold(f32::NAN, f32::max)).collect()
            }
        }
    }
}

/// Returns the highest of some values and `least`. The lanes do not depend on each other, so that vectors compute them.
fn highest<T: Copy>(values: &[T], least: T, higher: impl Fn(T, T) -> T) -> T {
    const LANES: usize = 32;
    if cfg!(attache_small) {
        return values.iter().copied().fold(least, higher);
    }
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut lanes = [least; LANES];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane = higher(*lane, *value));
    }
    lanes.iter().chain(rest).copied().fold(least, higher)
}

/// A selected box with one of its classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Detection {
    /// Index of the box.
    pub(super) index: usize,
    pub(super) class: usize,
    pub(super) score: f32,
}

/// Decodes encodings to boxes `[y1, x1, y2, x2]`. `columns` is the number of columns of `encodings`, and
/// `scales` are the divisors of their `y, x, height, width`.
pub(super) fn decode(encodings: &[f32], columns: usize, anchors: &[f32], scales: [f32; 4]) -> Vec<[f32; 4]> {
    let (anchors, _) = anchors.as_chunks::<4>();
    let decoded = |(encoding, anchor): (&[f32], &[f32; 4])| {
        let along = |axis: usize| {
            let size = anchor[axis + 2];
            let centre = encoding[axis] / scales[axis] * size + anchor[axis];
            let half = 0.5 * (encoding[axis + 2] / scales[axis + 2]).exp() * size;
            (centre - half, centre + half)
        };
        let ((top, bottom), (left, right)) = (along(0), along(1));
        [top, left, bottom, right]
    };
    encodings.chunks_exact(columns).zip(anchors).map(decoded).collect()
}

/// Suppresses boxes by the highest score of each. Returns the best classes of each selected box, both in
/// descending order of score.
pub(super) fn over_boxes(boxes: &[[f32; 4]], scores: &Scores<'_>, rules: &Rules) -> Vec<Vec<Detection>> {
    let count = rules.most_classes.min(rules.classes);
    let kept = suppress(boxes, &scores.highest(), rules, rules.most);
    let classes = |index: usize| {
        let row = scores.row(index);
        largest(&row, count).into_iter().map(|class| Detection { index, class, score: row[class] }).collect()
    };
    kept.into_iter().map(classes).collect()
}

/// Suppresses the boxes of each class separately. Returns the best detections over all classes, in descending
/// order of score.
pub(super) fn over_classes(boxes: &[[f32; 4]], scores: &Scores<'_>, rules: &Rules) -> Vec<Detection> {
    let mut best: Vec<Detection> = Vec::new();
    for class in 0..rules.classes {
        let column = scores.column(class);
        let kept = suppress(boxes, &column, rules, rules.most_per_class).into_iter();
        best.extend(kept.map(|index| Detection { index, class, score: column[index] }));
        let order = descending(best.len(), |index| best[index].score).take(rules.most);
        best = order.map(|index| best[index]).collect();
    }
    best
}

/// Returns the indices of at most `most` boxes, in descending order of score: those that reach the minimum
/// score and do not overlap a box selected before by more than `rules.overlap`.
fn suppress(boxes: &[[f32; 4]], scores: &[f32], rules: &Rules, most: usize) -> Vec<usize> {
    let candidates: Vec<usize> = (0..scores.len()).filter(|index| scores[*index] >= rules.score).collect();
    let order = descending(candidates.len(), |candidate| scores[candidates[candidate]]);
    let mut kept: Vec<usize> = Vec::new();
    for index in order.map(|candidate| candidates[candidate]) {
        if kept.len() >= most {
            break;
        }
        if !kept.iter().any(|other| overlap(&boxes[*other], &boxes[index]) > rules.overlap) {
            kept.push(index);
        }
    }
    kept
}

/// Returns the indices below `count` in descending order of their scores, none of which is NaN. Equal scores stay in order.
fn descending(count: usize, score: impl Fn(usize) -> f32) -> OrderAsNeeded {
    order_as_needed(count, |index| (i64::from(i32::MAX) - float_key(score(index))) as u64)
}

/// Returns the indices of the `count` largest values in descending order of value; `count` is at most the
/// number of values.
///
/// The order of equal values is visible in the result, so this reproduces TensorFlow Lite's partial sort: a
/// min-heap of the first `count` values, whose root is replaced by each larger value, and which is then
/// sorted by removing roots.
fn largest(values: &[f32], count: usize) -> Vec<usize> {
    let mut heap: Vec<usize> = (0..count).collect();
    for root in (0..count / 2).rev() {
        let place = heap[root];
        sink(values, &mut heap, root, place);
    }
    for place in count..values.len() {
        if count > 0 && comes_before(values, place, heap[0]) {
            sink(values, &mut heap, 0, place);
        }
    }
    for end in (1..count).rev() {
        let place = heap[end];
        heap[end] = heap[0];
        sink(values, &mut heap[..end], 0, place);
    }
    heap
}

/// Whether the value at `place` is larger than that at `other`; NaN is smaller than any number.
fn comes_before(values: &[f32], place: usize, other: usize) -> bool {
    values[place] > values[other] || values[other].is_nan() && !values[place].is_nan()
}

/// Replaces the index at `root` of the min-heap by `place` and restores the heap order: the hole moves down
/// to a leaf, along the second of two equal children, and `place` then moves up from there.
fn sink(values: &[f32], heap: &mut [usize], root: usize, place: usize) {
    let mut hole = root;
    while 2 * hole + 1 < heap.len() {
        let (first, second) = (2 * hole + 1, 2 * hole + 2);
        let is_first = second == heap.len() || comes_before(values, heap[second], heap[first]);
        let child = if is_first { first } else { second };
        heap[hole] = heap[child];
        hole = child;
    }
    while hole > root && comes_before(values, heap[(hole - 1) / 2], place) {
        heap[hole] = heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    heap[hole] = place;
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOXES: [[f32; 4]; 3] = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 2.0], [5.0, 5.0, 6.0, 6.0]];
    const RULES: Rules = Rules { most: 9, most_classes: 1, most_per_class: 9, classes: 1, score: 0.25, overlap: 0.4 };

    #[test]
    fn encodings_move_and_stretch_anchors() {
        let encodings = [10.0, -5.0, 0.0, 5.0 * 2f32.ln(), 99.0];
        let boxes = decode(&encodings, 5, &[1.0, 2.0, 4.0, 2.0], [10.0, 10.0, 5.0, 5.0]);
        assert_eq!(boxes, [[3.0, -1.0, 7.0, 3.0]]);
    }

    #[test]
    fn thresholds_count_as_within() {
        assert_eq!(suppress(&BOXES, &[0.3, 0.5, 0.25], &RULES, 9), [1, 2]);
        assert_eq!(suppress(&BOXES, &[0.3, 0.5, 0.2], &Rules { overlap: 0.5, ..RULES }, 9), [1, 0]);
        assert_eq!(suppress(&BOXES, &[0.5, 0.5, f32::NAN], &RULES, 9), [0]);
        assert_eq!(suppress(&BOXES, &[0.3, 0.4, 0.5], &RULES, 1), [2]);
    }

    #[test]
    fn classes_come_one_after_the_other_among_equals() {
        let values = [9.0, 0.5, 0.5, 9.0, 0.7, 0.5, 9.0, 0.1, 0.1];
        let scores = Scores { values: Values::Floats(&values), columns: 3, background: 1 };
        let rules = Rules { classes: 2, ..RULES };
        let found = over_classes(&[BOXES[0], BOXES[2], BOXES[1]], &scores, &rules);
        let found: Vec<_> = found.iter().map(|found| (found.index, found.class)).collect();
        assert_eq!(found, [(1, 0), (0, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn the_largest_come_first() {
        assert_eq!(largest(&[0.1, 0.7, 0.3, 0.9, 0.2], 3), [3, 1, 2]);
        assert_eq!(largest(&[0.1, 0.7], 2), [1, 0]);
        assert_eq!(largest(&[f32::NAN, 0.5, f32::NAN], 1), [1]);
        assert_eq!(largest(&[], 0), [0; 0]);
        // TensorFlow Lite puts the later one of these equal values first.
        assert_eq!(largest(&[0.5, 0.75, 0.75], 2), [2, 1]);
        assert_eq!(largest(&[0.25, 0.5, 0.75, 0.75, 0.75], 3), [4, 3, 2]);
        assert_eq!(largest(&[0.5, 0.25, 0.5, 0.0, 0.5, 0.5], 4), [4, 0, 5, 2]);
        assert_eq!(largest(&[0.5, 0.5, 0.5], 1), [0]);
    }
}
