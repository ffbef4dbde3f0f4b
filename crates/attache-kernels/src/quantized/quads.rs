//! Depthwise convolution with 3 × 3 windows of 8-bit elements, 64 bytes of each row of pixels at a time.
//!
//! As in `interleaved.rs`, a word contains one channel of one column of pixels. Bytes of three rows become words by
//! unpacking, which processors with vectors of 64 bytes do within each quarter of a vector: of four vectors of words, vector
//! `v` has in its quarter `q` the four channels from `16·q + 4·v` on. Weights are loaded in this order, and packing the
//! results to bytes restores the order of the channels. So less than half as many instructions move bytes as for vectors of
//! adjacent channels, and the words of a column are multiplied by the weights of all windows that read it before the next
//! column is loaded.
//!
//! The 64 bytes are those of 64 channels of one window, or of 32 channels of two windows: then the windows of a row are
//! computed in two runs at once, which have the middle window of an odd number in common.
#![allow(unsafe_code)] // Inner loops on pointers into slices whose lengths were checked.

use std::mem::MaybeUninit;

use super::depthwise::Row;
use super::epilogue::GemmEpilogue;
use super::float_factors::Floats;
use super::simd::Integers;
use crate::convolution::Convolution;

/// Number of windows whose sums are computed before they are requantized.
const WINDOWS: usize = 16;

/// Words of a line of weights: a vector.
const LINE: usize = 16;

/// Four vectors of words.
type Quads<S> = [<S as Integers>::Vector; 4];

/// Where the words of four vectors are in memory, groups of 16 words: the distance from the group of the first quarters to that
/// of the second ones, which is also that from the third to the fourth, and from the first to the third.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // what only kernels of x86 read
pub struct Steps {
    pub(super) group: usize,
    pub(super) upper: usize,
}

/// The pixels that 64 results are stored to: 64 bytes at the first pointer, or 32 bytes at each. Further results are
/// `stride` bytes apart.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // what only kernels of x86 read
pub struct QuadTarget {
    pub(super) start: [*mut u8; 2],
    pub(super) stride: usize,
}

/// Computes channels of a row from `first` on, 64 or 32 of them, and returns how many. The error is the number of channels
/// that cannot be computed here.
#[inline(always)]
pub(super) fn compute<S: Integers, F: GemmEpilogue, const SIGNED: bool>(
    simd: S,
    row: &Row<'_, F>,
    first: usize,
) -> Result<usize, usize> {
    let left = row.channels.end - first;
    let Convolution { kernel, strides, dilations, .. } = *row.convolution;
    let sets = row.filter.sets();
    if !S::QUADS || kernel != [3, 3] || dilations[1] != 1 || strides[1] > 2 || sets > 2 || left < 32 {
        return Err(left);
    }
    for channels in [64, 32] {
        let Some(floats) = (if channels <= left { floats(row, (first, channels)) } else { None }) else { continue };
        match (channels, sets) {
            (64, 1) => Part::<S, F, SIGNED, true, 1> { simd, row, channel: first, floats }.run(),
            (64, _) => Part::<S, F, SIGNED, true, 2> { simd, row, channel: first, floats }.run(),
            (_, 1) => Part::<S, F, SIGNED, false, 1> { simd, row, channel: first, floats }.run(),
            (_, _) => Part::<S, F, SIGNED, false, 2> { simd, row, channel: first, floats }.run(),
        }
        return Ok(channels);
    }
    Err(32)
}

/// Returns the factors of these outputs, the first and how many, if there are floats for all of them.
fn floats<F: GemmEpilogue>(row: &Row<'_, F>, outputs: (usize, usize)) -> Option<Floats> {
    let floats = row.epilogue.floats(outputs, false);
    if floats.is_some() || !row.filter.has_small_sums(outputs) {
        return floats;
    }
    row.epilogue.floats(outputs, true)
}

/// 64 channels of a row, or 32 if not `WHOLE`, whose weights are sums of `SETS` signed bytes.
struct Part<'a, S, F: GemmEpilogue, const SIGNED: bool, const WHOLE: bool, const SETS: usize> {
    simd: S,
    row: &'a Row<'a, F>,
    channel: usize,
    floats: Floats,
}

impl<S: Integers, F: GemmEpilogue, const SIGNED: bool, const WHOLE: bool, const SETS: usize>
    Part<'_, S, F, SIGNED, WHOLE, SETS>
{
    #[inline(always)]
    fn run(&self) {
        match self.row.convolution.strides[1] {
            1 => self.windows::<1>(),
            _ => self.windows::<2>(),
        }
    }

    /// Computes all windows, which are `STRIDE` columns apart.
    #[inline(always)]
    fn windows<const STRIDE: usize>(&self) {
        let Self { simd, row, channel, floats } = *self;
        let channels = row.convolution.output[2];
        let windows = row.columns.len();
        let count = if WHOLE { windows } else { windows.div_ceil(2) };
        let mut columns = Columns::<SIGNED, WHOLE>::new(row, channel, windows - count);
        let mut sums = MaybeUninit::<[Quads<S>; WINDOWS]>::uninit();
        let start = sums.as_mut_ptr().cast::<Quads<S>>();
        let lines = 1 + 3 * SETS;
        let steps = |group| Steps { group, upper: if WHOLE { 2 * group } else { 0 } };
        let weights = row.filter.lines((channel, if WHOLE { 64 } else { 32 }), lines).as_ptr();
        // SAFETY: the filter has whole blocks of these channels, each with a line of bias and these lines of weights, and the
        // rows have the bytes of the channels; the output contains the pixels of these columns, whose elements are bytes, and
        // there are floats for all channels, as the epilogue states.
        unsafe {
            let bias = simd.quads(weights, steps(lines * LINE));
            let mut taps = [[bias; SETS]; 3];
            for (column, sets) in taps.iter_mut().enumerate() {
                for (set, tap) in sets.iter_mut().enumerate() {
                    *tap = simd.quads(weights.add((1 + 3 * set + column) * LINE), steps(lines * LINE));
                }
            }
            // The sums of the next window, and of the one after it, as far as their columns have been loaded.
            let mut next = add(simd, bias, columns.load(simd), &taps[0]);
            let mut later = bias;
            if STRIDE == 1 {
                let words = columns.load(simd);
                (next, later) = (add(simd, next, words, &taps[1]), add(simd, bias, words, &taps[0]));
            }
            for first in (0..count).step_by(WINDOWS) {
                let part = WINDOWS.min(count - first);
                for window in 0..part {
                    if STRIDE == 2 {
                        next = add(simd, next, columns.load(simd), &taps[1]);
                    }
                    let words = columns.load(simd);
                    start.add(window).write(add(simd, next, words, &taps[2]));
                    match STRIDE {
                        1 => (next, later) = (add(simd, later, words, &taps[1]), add(simd, bias, words, &taps[0])),
                        _ => next = add(simd, bias, words, &taps[0]),
                    }
                }
                let output = row.output.cast::<u8>().add(first * channels + channel);
                let second = output.add(if WHOLE { 32 } else { (windows - count) * channels });
                let target = QuadTarget { start: [output, second], stride: channels };
                simd.requantize_quads::<WHOLE>(start.cast(), part, (floats, steps(LINE)), target);
            }
        }
    }
}

/// Adds the products of words and the weights of one column of the window.
#[inline(always)]
fn add<S: Integers, const SETS: usize>(
    simd: S,
    mut sums: Quads<S>,
    words: Quads<S>,
    taps: &[Quads<S>; SETS],
) -> Quads<S> {
    for tap in taps {
        for ((sum, word), tap) in sums.iter_mut().zip(words).zip(tap) {
            *sum = simd.dot(*sum, word, *tap);
        }
    }
    sums
}

/// The columns of pixels that the windows of one or two runs read, one after the other.
struct Columns<const SIGNED: bool, const WHOLE: bool> {
    /// The pixels of three rows in the next column of each run. Outside of the image, they are not accessed.
    pixels: [[*const u8; 2]; 3],
    /// The number of bytes from column to column of each row; 0 outside of the image.
    steps: [usize; 3],
    /// The next column of each run.
    columns: [usize; 2],
    width: usize,
    outside: *const u8,
}

impl<const SIGNED: bool, const WHOLE: bool> Columns<SIGNED, WHOLE> {
    /// The columns from the first one of the row's windows on, and of a second run so many windows later.
    #[inline(always)]
    fn new<F: GemmEpilogue>(row: &Row<'_, F>, channel: usize, later: usize) -> Self {
        let Convolution { strides, dilations, before, input: [height, width, channels], .. } = *row.convolution;
        let outside = row.outside[channel..].as_ptr();
        let columns = [0, later].map(|window| ((row.columns.start + window) * strides[1]).wrapping_sub(before[1]));
        let (mut pixels, mut steps) = ([[outside; 2]; 3], [0; 3]);
        for tap in 0..3 {
            let y = (row.y * strides[0] + tap * dilations[0]).wrapping_sub(before[0]);
            if y < height && width > 0 {
                let start = row.image[y * width * channels + channel..].as_ptr();
                steps[tap] = channels;
                pixels[tap] = columns.map(|column| start.wrapping_add(column.wrapping_mul(channels)));
            }
        }
        Self { pixels, steps, columns, width, outside }
    }

    /// Returns the words of the next column.
    ///
    /// # Safety
    /// The rows must have the bytes of the channels.
    #[inline(always)]
    unsafe fn load<S: Integers>(&mut self, simd: S) -> Quads<S> {
        let mut rows = self.pixels;
        for run in 0..if WHOLE { 1 } else { 2 } {
            if self.columns[run] >= self.width {
                rows[0][run] = self.outside;
                rows[1][run] = self.outside;
                rows[2][run] = self.outside;
            }
            self.columns[run] = self.columns[run].wrapping_add(1);
            for (pixels, step) in self.pixels.iter_mut().zip(self.steps) {
                pixels[run] = pixels[run].wrapping_add(step);
            }
        }
        // SAFETY: guaranteed by the caller; what is outside of the image was replaced.
        unsafe { simd.interleave_quads::<SIGNED, WHOLE>(rows) }
    }
}
