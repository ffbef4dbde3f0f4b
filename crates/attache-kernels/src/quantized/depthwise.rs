//! Depthwise convolution of 8-bit elements: each input channel is convolved with its own `multiplier` filters.
//!
//! Where the processor multiplies words of four bytes, `interleaved.rs` has the kernel. The rest is for other
//! processors and for more than one filter per channel.
//!
//! Vectors extend along the channels. Taps are processed in pairs: a word contains the elements of both taps, widened
//! to 16 bits. A tap outside of the input reads a row of zero points instead, so that the contribution of the zero point is
//! the same for all windows and known in advance. Adjacent windows inside of the input share the pointers to their taps.
//! With a multiplier above 1, each channel of a window's pixels is first repeated `multiplier` times.
#![allow(unsafe_code)] // Inner loops on pointers into slices whose lengths were checked.

use std::mem::MaybeUninit;
use std::ops::Range;

use attache_base::storable::{Parts, Storable, StoredParts};

use super::epilogue::{GemmEpilogue, Sums};
use super::float_factors::SMALL;
use super::gemm::{Finish, Operand, Zero};
use super::interleaved::{self, Interleaved};
use super::simd::{IntegerIsa, IntegerMultiversioned, Integers, widen};
use crate::convolution::Convolution;
use crate::depthwise::for_each_row;
use crate::engine::{FEW, Shared, for_each_rectangle};
use crate::gemm::Target;
use crate::packed::{PackedValues, lines};
use crate::{AlignedFloats, Engine, Isa, scratch};

/// Number of adjacent windows whose sums are computed before the epilogue converts them.
const WINDOWS: usize = 8;

/// Weights and bias of a depthwise convolution of 8-bit elements, packed for one instruction set.
#[derive(Clone)]
pub struct PackedIntegerDepthwise {
    integer_isa: IntegerIsa,
    channels: usize,
    taps: usize,
    /// Sets of words of four weights each, where these are multiplied; 0 for words of two.
    sets: usize,
    /// Blocks of one vector of channels: a line of bias, then one line of weights per word.
    values: PackedValues,
    /// The sum of each channel's weights, followed by one vector of spare elements.
    sums: Vec<i32>,
}

/// Whether words have the bytes of four rows: where the processor multiplies such words, for windows of several rows, if
/// each input channel has one filter, and if rows are not mostly padding.
fn interleaves(integer_isa: IntegerIsa, convolution: &Convolution) -> bool {
    let Convolution { input: [_, width, channels], output: [.., outputs], kernel, dilations, .. } = *convolution;
    let window = kernel[1].saturating_sub(1).saturating_mul(dilations[1]);
    let fits = window <= 2 * width + 64 && window.saturating_mul(kernel[0]) <= interleaved::MOST;
    integer_isa.interleaves() && channels == outputs && kernel[0] > 1 && kernel[1] > 0 && fits
}

impl PackedIntegerDepthwise {
    /// Returns the numbers from which the extents of the packed form follow: channels, height and width of the kernel, and
    /// whether words have the bytes of four rows. The channels of the input are one too: how often each has a filter may decide
    /// how results are rounded.
    pub fn parameters(convolution: &Convolution) -> Vec<usize> {
        let [height, width] = convolution.kernel;
        let interleaves = interleaves(IntegerIsa::of(Isa::detect()), convolution);
        vec![convolution.output[2], height, width, interleaves.into(), convolution.input[2]]
    }

    /// Packs a filter `[height, width, output channels]` and its bias, for inputs with zero point `input`. Output
    /// channel `c × multiplier + m` reads input channel `c`.
    ///
    /// # Panics
    ///
    /// Panics if the length of the filter or bias does not match.
    pub fn pack(isa: Isa, convolution: &Convolution, filter: Operand, bias: Option<&[i32]>, input: Zero) -> Self {
        let (channels, kernel) = (convolution.output[2], convolution.kernel);
        let taps = kernel[0] * kernel[1];
        assert_eq!(filter.bytes.len(), taps * channels, "the filter has its shape");
        assert!(bias.is_none_or(|bias| bias.len() == channels), "one bias per output channel");
        let integer_isa = IntegerIsa::of(isa);
        let lanes = integer_isa.lanes();
        let weight = |tap: usize, channel: usize| match filter.bytes.get(tap * channels + channel) {
            Some(byte) if tap < taps => widen(*byte, filter.zero.signed) - filter.zero.point,
            _ => 0,
        };
        let interleaves = interleaves(integer_isa, convolution);
        let all = (0..channels).flat_map(|channel| (0..taps).map(move |tap| weight(tap, channel)));
        let sets = if interleaves { interleaved::sets(all) } else { 0 };
        let words = |channel: usize| match interleaves {
            true => interleaved::split(kernel, sets, |row, column| weight(row * kernel[1] + column, channel)),
            false => {
                (0..taps).step_by(2).map(|tap| weight(tap, channel) & 0xffff | weight(tap + 1, channel) << 16).collect()
            }
        };
        let lines = 1 + if interleaves { sets * interleaved::words(kernel) } else { taps.div_ceil(2) };
        let mut values = AlignedFloats::zeros(channels.next_multiple_of(lanes) * lines);
        let mut sums = vec![0; channels + lanes];
        // The zero point relative to the multiplied numbers.
        let point = if interleaves { input.unsigned_point() } else { input.point };
        for channel in 0..channels {
            let sum = (0..taps).fold(0i32, |sum, tap| sum.wrapping_add(weight(tap, channel)));
            let values: &mut [i32] = bytemuck::cast_slice_mut(&mut values);
            let column = &mut values[channel / lanes * lanes * lines + channel % lanes..];
            column[0] = bias.map_or(0, |bias| bias[channel]).wrapping_sub(sum.wrapping_mul(point));
            for (line, word) in words(channel).into_iter().enumerate() {
                column[(1 + line) * lanes] = word;
            }
            sums[channel] = sum;
        }
        Self { integer_isa, channels, taps, sets, values: values.into(), sums }
    }

    /// Returns the number of sets of words of four weights each.
    pub(super) fn sets(&self) -> usize {
        self.sets
    }

    /// Returns the blocks of `count` channels, whole vectors, from the first one on, with this number of lines each.
    pub(super) fn lines(&self, (first, count): (usize, usize), lines: usize) -> &[i32] {
        &bytemuck::cast_slice(&self.values)[first * lines..][..count * lines]
    }

    /// Whether the magnitudes of the sums of windows are less than [`SMALL`] for `count` channels, whole vectors, from the first
    /// one on.
    pub(super) fn has_small_sums(&self, (first, count): (usize, usize)) -> bool {
        let lanes = self.integer_isa.lanes();
        let lines = self.values.len() / self.channels.next_multiple_of(lanes);
        // Weights relative to their zero point have nine bits.
        let products = self.taps.saturating_mul(255 * 255);
        let mut blocks = self.lines((first, count), lines).chunks_exact(lanes * lines);
        let is_small = |bias: &i32| (bias.unsigned_abs() as usize).saturating_add(products) < SMALL as usize;
        blocks.all(|block| block[..lanes].iter().all(is_small))
    }

    /// Returns the sums of the weights from channel `channel` on.
    pub(super) fn sums(&self, channel: usize) -> &[i32] {
        &self.sums[channel..]
    }
}

impl Storable for PackedIntegerDepthwise {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.number(self.sets as i64);
        parts.field(&self.sums);
        self.values.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let &[channels, height, width, interleaves, _] = parameters else { return None };
        let (integer_isa, taps) = (IntegerIsa::of(Isa::detect()), height.checked_mul(width)?);
        let sets =
            usize::try_from(parts.number()?).ok().filter(|sets| (*sets > 0) == (interleaves > 0) && *sets <= 3)?;
        let words = if sets > 0 { sets * interleaved::words([height, width]) } else { taps.div_ceil(2) };
        let lanes = integer_isa.lanes();
        let sums = parts.field(channels.checked_add(lanes)?)?;
        let values = PackedValues::load(parts, lines(channels, lanes, words)?)?;
        Some(Self { integer_isa, channels, taps, sets, values, sums })
    }
}

/// Convolves each channel separately. The number of output channels is a multiple of the number of input channels. The
/// output is clamped to the bounds of the epilogue.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match the convolution, of which [`Convolution::first`] and fewer pixels of
/// `output` choose a part, if the output channels are not a multiple of the input channels or exceed those of the epilogue,
/// if a stride or dilation is 0, or if the filter has another shape.
pub fn depthwise<F: GemmEpilogue>(
    engine: Engine,
    convolution: &Convolution,
    input: Operand,
    filter: &PackedIntegerDepthwise,
    epilogue: &F,
    output: &mut [F::Output],
) {
    epilogue.depthwise(engine, convolution, input, filter, output);
}

pub(super) fn depthwise_with<F: GemmEpilogue>(
    engine: Engine,
    convolution: &Convolution,
    input: Operand,
    filter: &PackedIntegerDepthwise,
    epilogue: &F,
    output: &mut [F::Output],
) {
    convolution.check_part(input.bytes, output);
    let Convolution { input: [.., channels], output: [_, columns, outputs], first, .. } = *convolution;
    assert!(channels > 0 && outputs % channels == 0 && outputs <= epilogue.outputs(), "a whole multiplier");
    assert_eq!([filter.channels, filter.taps], [outputs, convolution.kernel.iter().product()], "the filter's shape");
    if output.is_empty() {
        return;
    }
    let steps = if filter.sets > 0 { filter.taps / 3 + 12 } else { filter.taps + 20 };
    let nanoseconds = (output.len() * steps) as f64 / (3 * filter.integer_isa.lanes()) as f64;
    let parts = engine.tasks(nanoseconds, output.len() / outputs);
    let (work, line) = (Work { convolution, input, filter, epilogue }, columns * outputs);
    // Threads that divide rows and channels interleave no column twice, as those of parts of rows do.
    let (rows, groups) = (output.len() / line, outputs.div_ceil(GROUP));
    let are_enough = rows * groups >= FEW * engine.parallel.threads();
    let are_whole = first % columns == 0 && output.len() % line == 0;
    if filter.sets > 0 && engine.divides(parts) && are_enough && are_whole {
        let target = Shared(output.as_mut_ptr());
        return engine.divide(rows * groups, parts, |cells| {
            work.with_buffers(|mut buffers| {
                for_each_rectangle(cells, groups, |rows, groups| {
                    let channels = groups.start * GROUP..outputs.min(groups.end * GROUP);
                    for row in rows {
                        // SAFETY: the output has these rows, and no other range has these channels of them.
                        unsafe {
                            let output = target.get().add(row * line);
                            work.compute(&mut buffers, first / columns + row, 0..columns, channels.clone(), output);
                        }
                    }
                });
            });
        });
    }
    engine.for_each_part(output, outputs, parts, |pixel, output| {
        work.with_buffers(|mut buffers| {
            for_each_row([columns, outputs], first + pixel, output, |[row, column], output| {
                let columns = column..column + output.len() / outputs;
                // SAFETY: the output is that of these columns.
                unsafe { work.compute(&mut buffers, row, columns, 0..outputs, output.as_mut_ptr()) };
            });
        });
    });
}

/// Channels that threads do not divide: a cache line of bytes, and whole vectors.
const GROUP: usize = 64;

/// What all parts of a convolution have in common.
struct Work<'a, F: GemmEpilogue> {
    convolution: &'a Convolution,
    input: Operand<'a>,
    filter: &'a PackedIntegerDepthwise,
    epilogue: &'a F,
}

/// The scratch memory of a task.
struct Buffers<'b> {
    /// The bytes that a tap outside of the input reads, one per output channel.
    outside: &'b [u8],
    /// Room for a window with repeated channels; empty if the multiplier is 1.
    repeated: &'b mut [u8],
    /// One entry per tap, rounded up to an even number, for each of [`WINDOWS`] windows.
    pointers: Vec<*const u8>,
    /// Room for the words of [`Interleaved`].
    interleaved: &'b mut [i32],
}

impl<F: GemmEpilogue> Work<'_, F> {
    /// Calls `body` with the scratch memory of a task.
    fn with_buffers(&self, body: impl FnOnce(Buffers<'_>)) {
        let Self { convolution, filter, .. } = *self;
        let outputs = filter.channels;
        let repeated = if outputs == convolution.input[2] { 0 } else { filter.taps * outputs };
        let lanes = filter.integer_isa.lanes();
        let words = if filter.sets > 0 { interleaved::vectors(convolution) * lanes } else { 0 };
        scratch::with(outputs + repeated, |bytes: &mut [u8]| {
            scratch::with(words, |interleaved: &mut [i32]| {
                let (outside, repeated) = bytes.split_at_mut(outputs);
                outside.fill(self.input.zero.point as u8);
                let pointers = vec![outside.as_ptr(); WINDOWS * filter.taps.next_multiple_of(2)];
                body(Buffers { outside, repeated, pointers, interleaved });
            });
        });
    }

    /// Computes channels of some columns of a row, counted over all images. Words of two are multiplied for all channels only.
    ///
    /// # Safety
    /// `output` must be the first pixel of the columns, of which no other thread accesses these channels.
    unsafe fn compute(
        &self,
        buffers: &mut Buffers<'_>,
        row: usize,
        columns: Range<usize>,
        channels: Range<usize>,
        output: *mut F::Output,
    ) {
        let Self { convolution, input: Operand { bytes, zero }, filter, epilogue } = *self;
        let (size, rows) = (convolution.input.iter().product::<usize>(), convolution.output[0]);
        let (image, outside) = (&bytes[row / rows * size..][..size], buffers.outside);
        let row = Row { convolution, filter, epilogue, image, y: row % rows, columns, channels, output, outside };
        let (isa, interleaved) = (filter.integer_isa, &mut *buffers.interleaved);
        let (pointers, repeated) = (&mut buffers.pointers[..], &mut *buffers.repeated);
        match (filter.sets > 0, zero.signed) {
            (true, true) => isa.dispatch(Interleaved::<F, true> { row, interleaved }),
            (true, false) => isa.dispatch(Interleaved::<F, false> { row, interleaved }),
            (false, true) => isa.dispatch(Signed::<F, true> { row, pointers, repeated }),
            (false, false) => isa.dispatch(Signed::<F, false> { row, pointers, repeated }),
        }
    }
}

/// Operands of some columns of one row of the output.
pub(super) struct Row<'a, F: GemmEpilogue> {
    pub(super) convolution: &'a Convolution,
    pub(super) filter: &'a PackedIntegerDepthwise,
    pub(super) epilogue: &'a F,
    pub(super) image: &'a [u8],
    pub(super) y: usize,
    pub(super) columns: Range<usize>,
    /// The channels to compute.
    pub(super) channels: Range<usize>,
    /// The pixel of the first column.
    pub(super) output: *mut F::Output,
    /// The bytes that a tap outside of the input reads, one per output channel.
    pub(super) outside: &'a [u8],
}

/// Kernel that computes a row, or a part of it, from signed or unsigned input bytes. `pointers` has one entry per tap, rounded
/// up to an even number, for each of [`WINDOWS`] windows. `repeated` has room for one window with repeated channels, or
/// is empty if the
/// multiplier is 1.
struct Signed<'a, F: GemmEpilogue, const SIGNED: bool> {
    row: Row<'a, F>,
    pointers: &'a mut [*const u8],
    repeated: &'a mut [u8],
}

impl<F: GemmEpilogue> Row<'_, F> {
    /// Whether the windows of these columns, of which there is one at least, read no pixel outside of the input.
    fn is_inside(&self, columns: Range<usize>) -> bool {
        let Convolution { input, kernel, strides, dilations, before, .. } = *self.convolution;
        [self.y..self.y + 1, columns].into_iter().enumerate().all(|(axis, windows)| {
            let covered = kernel[axis].saturating_sub(1).saturating_mul(dilations[axis]);
            let last = (windows.end - 1).saturating_mul(strides[axis]).saturating_add(covered);
            before[axis] <= windows.start.saturating_mul(strides[axis])
                && last < input[axis].saturating_add(before[axis])
        })
    }

    /// Sets `pointers` to the first bytes of the pixels that the window of column `x` reads, or to `outside`.
    fn taps(&self, x: usize, pointers: &mut [*const u8]) {
        let Convolution { input: [height, width, channels], kernel, strides, dilations, before, .. } =
            *self.convolution;
        for ky in 0..kernel[0] {
            let y = (self.y * strides[0] + ky * dilations[0]).wrapping_sub(before[0]);
            for (kx, pointer) in pointers[ky * kernel[1]..][..kernel[1]].iter_mut().enumerate() {
                let x = (x * strides[1] + kx * dilations[1]).wrapping_sub(before[1]);
                let inside = y < height && x < width;
                *pointer =
                    if inside { self.image[(y * width + x) * channels..].as_ptr() } else { self.outside.as_ptr() };
            }
        }
    }

    /// Copies the pixels at `pointers` with each channel repeated `multiplier` times, and sets the pointers to the
    /// copies.
    fn repeat(&self, pointers: &mut [*const u8], repeated: &mut [u8]) {
        let [_, _, channels] = self.convolution.input;
        let multiplier = self.filter.channels / channels;
        for (pointer, pixel) in pointers.iter_mut().zip(repeated.chunks_exact_mut(self.filter.channels)) {
            if *pointer != self.outside.as_ptr() {
                // SAFETY: the pointer refers to a pixel of the image.
                let source = unsafe { std::slice::from_raw_parts(*pointer, channels) };
                pixel.chunks_exact_mut(multiplier).zip(source).for_each(|(values, value)| values.fill(*value));
                *pointer = pixel.as_ptr();
            }
        }
    }
}

impl<F: GemmEpilogue, const SIGNED: bool> IntegerMultiversioned for Signed<'_, F, SIGNED> {
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, simd: S) {
        let Self { row, pointers, repeated } = self;
        let (taps, outputs) = (row.filter.taps, row.filter.channels);
        let columns = row.columns.clone();
        let entries = taps.next_multiple_of(2);
        // Windows with repeated channels share one buffer, so there is only one at a time.
        let most = if repeated.is_empty() { WINDOWS } else { 1 };
        for first in columns.clone().step_by(most) {
            let windows = most.min(columns.end - first);
            // Inside of the input, the pixels of the windows have the same distance from those of the first one.
            let is_inside = taps > 0 && repeated.is_empty() && row.is_inside(first..first + windows);
            let gathered = if is_inside { 1 } else { windows };
            for (index, pointers) in pointers.chunks_exact_mut(entries.max(1)).take(gathered).enumerate() {
                row.taps(first + index, &mut pointers[..taps]);
                // The last pair may have a tap without weight, which reads bytes of any value.
                let other = if is_inside { pointers[0] } else { row.outside.as_ptr() };
                pointers[taps..].fill(other);
                if !repeated.is_empty() {
                    row.repeat(&mut pointers[..taps], repeated);
                }
            }
            // SAFETY: the output contains these pixels.
            let target =
                Target { start: unsafe { row.output.add((first - columns.start) * outputs) }, stride: outputs };
            let pixels = row.convolution.strides[1] * row.convolution.input[2];
            let steps = if is_inside { [0, pixels] } else { [entries, 0] };
            let block = Block { simd, row: &row, pointers, windows, steps, target };
            match taps {
                9 if !cfg!(attache_small) => block.run::<SIGNED, 5>(),
                _ => block.run::<SIGNED, 0>(),
            }
        }
    }
}

/// Kernel that computes adjacent output pixels. `target` points at the first one.
struct Block<'a, S, F: GemmEpilogue> {
    simd: S,
    row: &'a Row<'a, F>,
    pointers: &'a [*const u8],
    windows: usize,
    /// Distances between adjacent windows, in pointers and in the bytes that these refer to.
    steps: [usize; 2],
    target: Target<F::Output>,
}

impl<S: Integers, F: GemmEpilogue> Block<'_, S, F> {
    /// Computes all channels. `PAIRS` is the number of pairs of taps, or 0 if it is not known when this is compiled.
    #[inline(always)]
    fn run<const SIGNED: bool, const PAIRS: usize>(&self) {
        let outputs = self.row.filter.channels;
        let mut channel = 0;
        // The smallest libraries, whose tiles without AVX2 have one row, have only the form for any number of channels.
        if S::ROWS > 1 {
            while channel + 2 * S::LANES <= outputs {
                self.channels::<SIGNED, PAIRS, 2>([channel, 2 * S::LANES]);
                channel += 2 * S::LANES;
            }
            if channel + S::LANES <= outputs {
                self.channels::<SIGNED, PAIRS, 1>([channel, S::LANES]);
                channel += S::LANES;
            }
        }
        while channel < outputs {
            let count = S::LANES.min(outputs - channel);
            self.channels::<SIGNED, PAIRS, 1>([channel, count]);
            channel += count;
        }
    }

    /// Computes `count` channels, starting at `channel`, in `VECTORS` vectors, of which two are full.
    #[inline(always)]
    fn channels<const SIGNED: bool, const PAIRS: usize, const VECTORS: usize>(&self, [channel, count]: [usize; 2]) {
        let Self { simd, row, windows, .. } = *self;
        let pairs = if PAIRS > 0 { PAIRS } else { row.filter.taps.div_ceil(2) };
        let weights: *const i32 = bytemuck::cast_slice::<f32, i32>(&row.filter.values).as_ptr();
        let mut sums = MaybeUninit::<[[S::Vector; VECTORS]; WINDOWS]>::uninit();
        let start = sums.as_mut_ptr().cast::<S::Vector>();
        // SAFETY: each pointer refers to as many bytes as there are channels, also after the steps of a window; each vector of
        // channels has one line per pair plus the bias, and the target contains the pixels.
        unsafe {
            // The weights of the second vector follow those of the first.
            let lines = 1 + pairs;
            let weights = weights.add(channel * lines);
            let line = |vector: usize, line: usize| simd.load(weights.add((vector * lines + line) * S::LANES));
            for window in 0..windows {
                let pointers = self.pointers.as_ptr().add(window * self.steps[0]);
                let channel = channel + window * self.steps[1];
                if VECTORS == 2 {
                    let (mut first, mut second) = (line(0, 0), line(1, 0));
                    for pair in 0..pairs {
                        let (a, b) =
                            ((*pointers.add(2 * pair)).add(channel), (*pointers.add(2 * pair + 1)).add(channel));
                        let words = simd.pair_bytes_twice::<SIGNED>(a, b);
                        first = simd.dot_pairs(first, words.0, line(0, 1 + pair));
                        second = simd.dot_pairs(second, words.1, line(1, 1 + pair));
                    }
                    start.add(2 * window).write(first);
                    start.add(2 * window + 1).write(second);
                } else {
                    let mut sum = line(0, 0);
                    for pair in 0..pairs {
                        let (a, b) =
                            ((*pointers.add(2 * pair)).add(channel), (*pointers.add(2 * pair + 1)).add(channel));
                        sum = simd.dot_pairs(sum, simd.pair_bytes::<SIGNED>(a, b, count), line(0, 1 + pair));
                    }
                    start.add(window).write(sum);
                }
            }
            let (start, width) = (start.cast(), VECTORS * S::LANES);
            let sums = Sums { start, rows: windows, columns: count, width, position: [0, channel] };
            let target = Target { start: self.target.start.add(channel), ..self.target };
            let weights = &row.filter.sums[channel..];
            simd.vectorize(Finish { epilogue: row.epilogue, sums, weights, target });
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Padding, Serial};

    use super::*;
    use crate::quantized::{Multiplier, Requantize, Rounding};
    use crate::testing::{Random, three_by_three};

    fn check(engine: Engine, random: &mut Random, large: usize) {
        let [h, w] = [1 + random.below(8 * large), 1 + random.below(30)];
        let is_common = random.below(2) == 0;
        let kernel = if is_common { [3, 3] } else { [1 + random.below(5), 1 + random.below(5)] };
        let strides = [1 + random.below(2), 1 + random.below(3)];
        let dilations = if random.below(3) == 0 { [1 + random.below(4), 1 + random.below(40)] } else { [1, 1] };
        let padding = if random.below(2) == 0 { Padding::Same } else { Padding::Valid };
        let [rows, columns] = [0, 1].map(|a| padding.window([h, w][a], kernel[a], strides[a], dilations[a]).unwrap());
        let channels = if is_common { 1 + random.below(180) } else { 1 + random.below(70) };
        let multiplier = if random.below(3) == 0 { 1 + random.below(9) } else { 1 };
        let outputs = channels * multiplier;
        let convolution = Convolution {
            batches: 1 + random.below(2),
            input: [h, w, channels],
            output: [rows.output, columns.output, outputs],
            kernel,
            strides,
            dilations,
            before: [rows.before, columns.before],
            first: 0,
            groups: 1,
            clamp: (0.0, 0.0),
        };
        let signed = random.below(2) == 1;
        let point = |random: &mut Random| random.below(256) as i32 - if signed { 128 } else { 0 };
        let zeros = [(); 2].map(|()| Zero { signed, point: point(random) });
        let count = |extents: [usize; 3]| convolution.batches * extents.iter().product::<usize>();
        let (input, filter) = (random.bytes(count(convolution.input)), random.bytes(kernel[0] * kernel[1] * outputs));
        // With some of these, sums that are multiplied by factors above 1 have too many bits.
        let most = [10_000, 1 << 25, 1 << 27, 1 << 30][random.below(4)];
        let bias: Vec<i32> = (0..outputs).map(|_| (random.below(2 * most) as i64 - most as i64) as i32).collect();
        let rounding = [Rounding::Once, Rounding::Twice][random.below(2)];
        let greatest = [0.01, 1.0, 16.0][random.below(3)];
        let factors: Vec<_> =
            (0..outputs).map(|_| Multiplier::new(greatest * (1 + random.below(999)) as f64 / 1e3)).collect();
        let bounds = if signed { (-128, 100) } else { [(7, 255), (0, 127), (3, 100)][random.below(3)] };
        let epilogue = Requantize::new(&factors, outputs, rounding, 5, bounds);
        let weights = Operand { bytes: &filter, zero: zeros[1] };
        let packed = PackedIntegerDepthwise::pack(engine.isa, &convolution, weights, Some(&bias), zeros[0]);
        let mut output = vec![9; count(convolution.output)];
        depthwise(engine, &convolution, Operand { bytes: &input, zero: zeros[0] }, &packed, &epilogue, &mut output);
        for (index, byte) in output.iter().enumerate() {
            let (pixel, channel) = (index / outputs, index % outputs);
            let (n, y, x) =
                (pixel / (rows.output * columns.output), pixel / columns.output % rows.output, pixel % columns.output);
            let mut sum = bias[channel];
            for tap in 0..kernel[0] * kernel[1] {
                let iy = (y * strides[0] + tap / kernel[1] * dilations[0]).wrapping_sub(rows.before);
                let ix = (x * strides[1] + tap % kernel[1] * dilations[1]).wrapping_sub(columns.before);
                if iy < h && ix < w {
                    let a = input[((n * h + iy) * w + ix) * channels + channel / multiplier];
                    let b = filter[tap * outputs + channel];
                    sum += (widen(a, signed) - zeros[0].point) * (widen(b, signed) - zeros[1].point);
                }
            }
            let scaled = factors[channel].apply(sum, rounding);
            let expected = scaled.wrapping_add(5).clamp(bounds.0, bounds.1) as u8;
            assert_eq!(*byte, expected, "{} {convolution:?} at {index}", engine.isa.name());
        }
        let (part, pixels) = random.part(&convolution, output.len());
        let mut some = vec![9; pixels.len()];
        depthwise(engine, &part, Operand { bytes: &input, zero: zeros[0] }, &packed, &epilogue, &mut some);
        assert!(some == output[pixels], "{} {part:?}", engine.isa.name());
    }

    #[test]
    fn every_isa_gives_the_bits_of_the_definition() {
        let mut random = Random::new(51);
        for isa in Isa::available() {
            for _ in 0..120 {
                check(Engine { isa, parallel: &Serial }, &mut random, 1);
            }
        }
    }

    #[test]
    fn small_sums_are_multiplied_by_factors_around_one_as_defined() {
        let mut random = Random::new(54);
        let convolution = three_by_three([4, 9, 96], 96);
        let zero = Zero { signed: true, point: 0 };
        let (input, filter) = (random.bytes(4 * 9 * 96), vec![0; 9 * 96]);
        let weights = Operand { bytes: &filter, zero };
        for round in 0..300 {
            let rounding = [Rounding::Once, Rounding::Twice][round % 2];
            let mut factor = || {
                let mantissa =
                    (1 << 30) + (random.below(1 << 30) as i32 >> [0, 12, 29][round % 3] << [0, 12, 29][round % 3]);
                Multiplier { mantissa, exponent: random.below(8) as i32 - 3 }
            };
            let factors: Vec<_> = (0..96).map(|_| factor()).collect();
            let bias: Vec<i32> =
                (0..96).map(|_| random.below(1 << (2 + round % 24)) as i32 - (2 << (round % 24))).collect();
            let epilogue = Requantize::new(&factors, 96, rounding, -3, (-128, 127));
            for isa in Isa::available() {
                let packed = PackedIntegerDepthwise::pack(isa, &convolution, weights, Some(&bias), zero);
                let mut output = vec![9; input.len()];
                let engine = Engine { isa, parallel: &Serial };
                depthwise(engine, &convolution, Operand { bytes: &input, zero }, &packed, &epilogue, &mut output);
                for (index, byte) in output.iter().enumerate() {
                    let scaled = factors[index % 96].apply(bias[index % 96], rounding);
                    assert_eq!(*byte as i8, scaled.wrapping_sub(3).clamp(-128, 127) as i8, "{} {index}", isa.name());
                }
            }
        }
    }

    #[test]
    fn threads_share_rows_and_channels() {
        let pool = attache_base::Pool::new(3);
        let mut random = Random::new(53);
        for (channels, rows) in [(64, 17), (200, 9), (130, 40), (512, 5)] {
            let convolution = Convolution { batches: 2, ..three_by_three([rows, 17, channels], channels) };
            let zero = Zero { signed: true, point: 3 };
            let (input, filter) = (random.bytes(2 * rows * 17 * channels), random.bytes(9 * channels));
            let weights = Operand { bytes: &filter, zero: Zero { signed: true, point: 0 } };
            let epilogue = Requantize::new(&[Multiplier::new(0.001)], channels, Rounding::Twice, 0, (-128, 127));
            for isa in Isa::available() {
                let packed = PackedIntegerDepthwise::pack(isa, &convolution, weights, None, zero);
                let run = |engine: Engine, part: Convolution, output: &mut [u8]| {
                    depthwise(engine, &part, Operand { bytes: &input, zero }, &packed, &epilogue, output);
                };
                let (mut one, mut three) = (vec![9; input.len()], vec![7; input.len()]);
                run(Engine { isa, parallel: &Serial }, convolution, &mut one);
                run(Engine { isa, parallel: &pool }, convolution, &mut three);
                assert!(one == three, "{} {channels}", isa.name());
                // Some rows of both images, and some that begin and end within a row.
                for pixels in [17 * 2..17 * (rows + 1), 5..17 * rows + 3] {
                    let mut part = vec![8; pixels.len() * channels];
                    run(Engine { isa, parallel: &pool }, Convolution { first: pixels.start, ..convolution }, &mut part);
                    assert!(part == one[pixels.start * channels..pixels.end * channels], "{} {pixels:?}", isa.name());
                }
            }
        }
    }

    #[test]
    fn threads_share_pixels() {
        let pool = attache_base::Pool::new(3);
        let mut random = Random::new(52);
        for _ in 0..15 {
            check(Engine::new(&pool), &mut random, 8);
        }
    }
}
