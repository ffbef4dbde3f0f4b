//! Depthwise convolution of 8-bit elements where the processor multiplies words of four bytes.
//!
//! A word contains one channel of one column of pixels: the bytes of four rows of the window, or of fewer rows beside
//! weights of zero. For a row of outputs, the columns of the input that its windows read are interleaved into such
//! words once.
//! A window then takes one product for each of its columns, whatever the strides and dilations are. With vectors of 64 bytes,
//! `quads.rs` has another kernel for windows of 3 × 3, and for 32 channels and more.
#![allow(unsafe_code)] // Inner loops on pointers into slices whose lengths were checked.

use std::mem::MaybeUninit;
use std::ops::Range;

use super::depthwise::Row;
use super::epilogue::{GemmEpilogue, Sums};
use super::gemm::Finish;
use super::quads;
use super::simd::{IntegerMultiversioned, Integers};
use crate::convolution::Convolution;
use crate::gemm::Target;

/// Rows of a window in a word.
const ROWS: usize = 4;
/// Number of adjacent windows whose sums are computed before the epilogue converts them.
const WINDOWS: usize = 32;
/// Vectors that are interleaved at a time, if windows are not wider.
const INTERLEAVED: usize = 512;
/// The most vectors of a window.
pub(super) const MOST: usize = 4096;

/// Returns the number of words of a window's channel: for each column, one for every four rows.
pub(super) fn words([height, width]: [usize; 2]) -> usize {
    width * height.div_ceil(ROWS)
}

/// Returns the number of signed bytes whose sums can be these weights, numbers of nine bits.
pub(super) fn sets(weights: impl Iterator<Item = i32>) -> usize {
    weights.map(|weight| if weight < 0 { (127 - weight) / 128 } else { (weight + 126) / 127 }).max().unwrap_or(0).max(1)
        as usize
}

/// Splits the weights of a channel into `sets` sets of words of four signed bytes, whose sums are the weights. `weight`
/// returns the weight at a row and a column of the window.
pub(super) fn split([height, width]: [usize; 2], sets: usize, weight: impl Fn(usize, usize) -> i32) -> Vec<i32> {
    let groups = height.div_ceil(ROWS);
    let mut words = vec![[0; ROWS]; sets * width * groups];
    for (row, column) in (0..height * width).map(|tap| (tap / width, tap % width)) {
        let mut rest = weight(row, column);
        for set in words.chunks_exact_mut(width * groups) {
            let part = rest.clamp(-128, 127);
            set[column * groups + row / ROWS][row % ROWS] = part as u8;
            rest -= part;
        }
    }
    words.into_iter().map(i32::from_le_bytes).collect()
}

/// Returns the number of columns that `windows` adjacent windows span.
fn span(convolution: &Convolution, windows: usize) -> usize {
    (windows - 1) * convolution.strides[1] + (convolution.kernel[1] - 1) * convolution.dilations[1] + 1
}

/// Returns the number of adjacent windows of which the columns are interleaved at a time: as many as fit, at least one.
fn windows(convolution: &Convolution) -> usize {
    let fitting = INTERLEAVED / convolution.kernel[0].div_ceil(ROWS);
    let more = fitting.saturating_sub(span(convolution, 1)) / convolution.strides[1];
    (1 + more).min(convolution.output[1])
}

/// Returns the number of vectors that [`Interleaved`] needs room for.
pub(super) fn vectors(convolution: &Convolution) -> usize {
    span(convolution, windows(convolution)) * convolution.kernel[0].div_ceil(ROWS)
}

/// Kernel that computes a row of the output, or a part of it, from signed or unsigned bytes. `interleaved` has room for
/// [`vectors`].
pub(super) struct Interleaved<'a, F: GemmEpilogue, const SIGNED: bool> {
    pub(super) row: Row<'a, F>,
    pub(super) interleaved: &'a mut [i32],
}

impl<F: GemmEpilogue, const SIGNED: bool> IntegerMultiversioned for Interleaved<'_, F, SIGNED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, simd: S) {
        if !S::INTERLEAVES {
            return;
        }
        let Self { row, interleaved } = self;
        assert!(interleaved.len() >= vectors(row.convolution) * S::LANES, "room for the interleaved columns");
        let mut channel = row.channels.start;
        while channel < row.channels.end {
            channel += match quads::compute::<S, F, SIGNED>(simd, &row, channel) {
                Ok(computed) => computed,
                Err(left) => {
                    compute::<S, F, SIGNED>(simd, &row, channel..channel + left, interleaved.as_mut_ptr());
                    left
                }
            };
        }
    }
}

/// Computes some channels of a row.
#[inline(always)]
fn compute<S: Integers, F: GemmEpilogue, const SIGNED: bool>(
    simd: S,
    row: &Row<'_, F>,
    channels: Range<usize>,
    interleaved: *mut i32,
) {
    let Convolution { kernel, strides, .. } = *row.convolution;
    let (most, columns) = (windows(row.convolution), row.columns.clone());
    for first in columns.clone().step_by(most) {
        let windows = first..(first + most).min(columns.end);
        for channel in channels.clone().step_by(S::LANES) {
            let part = Part { simd, row, interleaved, groups: kernel[0].div_ceil(ROWS), channel };
            part.interleave::<SIGNED>(first * strides[1], span(row.convolution, windows.len()));
            match (words(kernel), row.filter.sets()) {
                (3, 1) => part.windows::<3>(windows.clone()),
                (3, 2) => part.windows::<6>(windows.clone()),
                _ => part.windows::<0>(windows.clone()),
            }
        }
    }
}

/// One vector of channels of adjacent windows.
struct Part<'a, S, F: GemmEpilogue> {
    simd: S,
    row: &'a Row<'a, F>,
    /// The words of the columns of pixels that the windows read, one vector for every four rows of each.
    interleaved: *mut i32,
    /// Words of a column.
    groups: usize,
    channel: usize,
}

impl<S: Integers, F: GemmEpilogue> Part<'_, S, F> {
    /// The number of channels.
    #[inline(always)]
    fn count(&self) -> usize {
        (self.row.channels.end - self.channel).min(S::LANES)
    }

    /// Interleaves `span` columns of pixels, from column `first` of the padded input on.
    #[inline(always)]
    fn interleave<const SIGNED: bool>(&self, first: usize, span: usize) {
        let Convolution { kernel, strides, dilations, before, input: [height, width, channels], .. } =
            *self.row.convolution;
        let outside = self.row.outside[self.channel..].as_ptr();
        // The columns between the paddings.
        let start = before[1].saturating_sub(first).min(span);
        let end = (before[1] + width).saturating_sub(first).clamp(start, span);
        for group in 0..self.groups {
            // A row outside of the input is the same pixel again and again.
            let mut steps = [0; ROWS];
            let mut rows = [outside; ROWS];
            for (index, (row, step)) in rows.iter_mut().zip(&mut steps).enumerate() {
                let tap = ROWS * group + index;
                let y = (self.row.y * strides[0] + tap * dilations[0]).wrapping_sub(before[0]);
                if tap < kernel[0] && y < height && start < end {
                    let pixel = y * width + first + start - before[1];
                    (*row, *step) = (self.row.image[pixel * channels + self.channel..].as_ptr(), channels);
                }
            }
            let target = |column: usize| self.interleaved.wrapping_add((column * self.groups + group) * S::LANES);
            // SAFETY: the rows have all pixels between the paddings, and the interleaved words room for all columns.
            unsafe {
                if start > 0 || end < span {
                    let padding = self.simd.interleave::<SIGNED>([outside; ROWS], self.count());
                    for column in (0..start).chain(end..span) {
                        self.simd.store(target(column), padding);
                    }
                }
                match self.count() == S::LANES {
                    true => self.interleave_inside::<SIGNED>(rows, steps, start..end, target(0), S::LANES),
                    false => self.interleave_inside::<SIGNED>(rows, steps, start..end, target(0), self.count()),
                }
            }
        }
    }

    /// Interleaves the pixels that begin at `rows`, `steps` bytes apart, to the columns `columns` at `target`.
    /// # Safety
    /// The pixels must be readable and the words writable.
    #[inline(always)]
    unsafe fn interleave_inside<const SIGNED: bool>(
        &self,
        mut rows: [*const u8; ROWS],
        steps: [usize; ROWS],
        columns: Range<usize>,
        target: *mut i32,
        count: usize,
    ) {
        for column in columns {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let words = self.simd.interleave::<SIGNED>(rows, count);
                self.simd.store(target.add(column * self.groups * S::LANES), words);
            }
            for (row, step) in rows.iter_mut().zip(&steps) {
                *row = row.wrapping_add(*step);
            }
        }
    }

    /// Computes the channels of `windows` from interleaved columns. `LINES` is the number of lines of weights, or 0 if
    /// it is not
    /// known when this is compiled.
    #[inline(always)]
    fn windows<const LINES: usize>(&self, windows: Range<usize>) {
        let Convolution { kernel, strides, dilations, output: [.., channels], .. } = *self.row.convolution;
        let words = words(kernel);
        let lines = if LINES > 0 { LINES } else { words * self.row.filter.sets() };
        let weights = self.row.filter.lines((self.channel, S::LANES), 1 + lines).as_ptr();
        let mut sums = MaybeUninit::<[S::Vector; WINDOWS]>::uninit();
        let start = sums.as_mut_ptr().cast::<S::Vector>();
        let step = strides[1] * self.groups * S::LANES;
        // The word of a window that line `line` of the weights is multiplied by.
        let word = |line: usize| {
            let (column, group) = (line % words / self.groups, line % self.groups);
            (column * dilations[1] * self.groups + group) * S::LANES
        };
        for first in windows.clone().step_by(WINDOWS) {
            let count = WINDOWS.min(windows.end - first);
            // SAFETY: all columns of these windows were interleaved, the filter has a line of bias and these lines, and the
            // output contains the pixels.
            unsafe {
                let columns = self.interleaved.add((first - windows.start) * step);
                match LINES {
                    3 => {
                        let words = [word(0), word(1), word(2)];
                        self.sum::<3>(columns, step, words, weights, start, count);
                    }
                    6 => {
                        let words = [word(0), word(1), word(2), word(3), word(4), word(5)];
                        self.sum::<6>(columns, step, words, weights, start, count);
                    }
                    _ => self.sum_any(columns, step, (lines, &word), weights, start, count),
                }
                let target = Target {
                    start: self.row.output.add((first - self.row.columns.start) * channels + self.channel),
                    stride: channels,
                };
                let position = [0, self.channel];
                let sums = Sums { start: start.cast(), rows: count, columns: self.count(), width: S::LANES, position };
                let weights = self.row.filter.sums(self.channel);
                self.simd.vectorize(Finish { epilogue: self.row.epilogue, sums, weights, target });
            }
        }
    }

    /// Computes the sums of `count` windows, with all weights in registers.
    /// # Safety
    /// As in [`Self::windows`].
    #[inline(always)]
    unsafe fn sum<const LINES: usize>(
        &self,
        mut columns: *const i32,
        step: usize,
        words: [usize; LINES],
        weights: *const i32,
        sums: *mut S::Vector,
        count: usize,
    ) {
        let simd = self.simd;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let bias = simd.load(weights);
            let mut lines = [bias; LINES];
            for (index, line) in lines.iter_mut().enumerate() {
                *line = simd.load(weights.add((1 + index) * S::LANES));
            }
            for window in 0..count {
                let mut sum = bias;
                for (word, line) in words.iter().zip(&lines) {
                    sum = simd.dot(sum, simd.load(columns.add(*word)), *line);
                }
                sums.add(window).write(sum);
                columns = columns.add(step);
            }
        }
    }

    /// Computes the sums of `count` windows with any number of lines.
    /// # Safety
    /// As in [`Self::windows`].
    #[inline(always)]
    unsafe fn sum_any(
        &self,
        columns: *const i32,
        step: usize,
        (lines, word): (usize, &impl Fn(usize) -> usize),
        weights: *const i32,
        sums: *mut S::Vector,
        count: usize,
    ) {
        let simd = self.simd;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let bias = simd.load(weights);
            for window in 0..count {
                sums.add(window).write(bias);
            }
            for line in 0..lines {
                let weights = simd.load(weights.add((1 + line) * S::LANES));
                let columns = columns.add(word(line));
                for window in 0..count {
                    let sum = sums.add(window);
                    sum.write(simd.dot(sum.read(), simd.load(columns.add(window * step)), weights));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_add_up_to_the_weights() {
        for (weights, count) in [([-128, 127, 0, 5, 1], 1), ([-129, 3, 200, 254, 9], 2), ([255, -255, 0, 1, 2], 3)] {
            assert_eq!(sets(weights.into_iter()), count);
            let words = split([5, 1], count, |row, _| weights[row]);
            assert_eq!(words.len(), count * super::words([5, 1]));
            let part = |set: &[i32], row: usize| i32::from(set[row / ROWS].to_le_bytes()[row % ROWS] as i8);
            for (row, weight) in weights.into_iter().enumerate() {
                assert_eq!(words.chunks(2).map(|set| part(set, row)).sum::<i32>(), weight);
            }
        }
    }
}
