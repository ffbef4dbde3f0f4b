//! Depthwise convolution: each input channel is convolved with its own `multiplier` filters.
//!
//! Vectors extend along the channels. The output pixels of a tile share each load of the weights. Weights are packed
//! into blocks of one vector of channels, each with its bias followed by its taps. With a multiplier above 1, the
//! input's channels are first repeated `multiplier` times, which reduces it to a multiplier of 1.
#![allow(unsafe_code)] // Inner loops on pointers into slices whose lengths were checked.

use std::marker::PhantomData;
use std::ops::Range;

use attache_base::storable::{Parts, Storable, StoredParts};

use crate::convolution::Convolution;
use crate::packed::{PackedValues, lines};
use crate::simd::{Multiversioned, Simd};
use crate::{AlignedFloats, Engine, Isa, math, scratch};

/// Weights and bias of a depthwise convolution, packed for one instruction set.
#[derive(Clone)]
pub struct PackedDepthwise {
    isa: Isa,
    channels: usize,
    taps: usize,
    values: PackedValues,
}

impl PackedDepthwise {
    /// Returns the numbers from which the extents of the packed form follow: channels and taps.
    pub fn parameters(convolution: &Convolution) -> Vec<usize> {
        vec![convolution.output[2], convolution.kernel[0] * convolution.kernel[1]]
    }

    /// Packs a filter `[height, width, output channels]` and its bias. Output channel `c × multiplier + m` reads input
    /// channel `c`.
    ///
    /// # Panics
    ///
    /// Panics if the length of `filter` or `bias` does not match.
    pub fn pack(isa: Isa, convolution: &Convolution, filter: &[f32], bias: Option<&[f32]>) -> Self {
        let channels = convolution.output[2];
        let taps = convolution.kernel[0] * convolution.kernel[1];
        assert_eq!(filter.len(), taps * channels, "the filter has its shape");
        assert!(bias.is_none_or(|bias| bias.len() == channels), "one bias per output channel");
        let lanes = isa.lanes();
        let mut values = Vec::with_capacity(channels.next_multiple_of(lanes) * (taps + 1));
        for first in (0..channels).step_by(lanes) {
            let block = first..channels.min(first + lanes);
            let mut push = |row: Option<&[f32]>| {
                let end = values.len() + lanes;
                values.extend_from_slice(row.map_or(&[], |row| &row[block.clone()]));
                values.resize(end, 0.0);
            };
            push(bias);
            filter.chunks_exact(channels).for_each(|row| push(Some(row)));
        }
        Self { isa, channels, taps, values: AlignedFloats::from(&*values).into() }
    }
}

impl Storable for PackedDepthwise {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.values.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let (isa, &[channels, taps]) = (Isa::detect(), parameters) else { return None };
        let values = PackedValues::load(parts, lines(channels, isa.lanes(), taps)?)?;
        Some(Self { isa, channels, taps, values })
    }
}

/// Convolves each channel separately. The number of output channels is a multiple of the number of input channels. Uses
/// the filter's instruction set.
///
/// # Panics
///
/// Panics if the lengths of `input` and `output` do not match the convolution, of which [`Convolution::first`] and fewer
/// pixels of `output` choose a part, if the output channels are not a multiple of the input channels, if a stride or
/// dilation is 0, or if the filter has another shape.
pub fn depthwise(
    engine: Engine,
    convolution: &Convolution,
    input: &[f32],
    filter: &PackedDepthwise,
    output: &mut [f32],
) {
    convolution.check_part(input, output);
    let [.., channels] = convolution.input;
    let [.., outputs] = convolution.output;
    assert!(channels > 0 && outputs % channels == 0, "a whole multiplier");
    assert_eq!([filter.channels, filter.taps], [outputs, convolution.kernel.iter().product()], "the filter's shape");
    if outputs == channels {
        return convolve_channels(engine, convolution, input, filter, output);
    }
    let multiplier = outputs / channels;
    if input.len().saturating_mul(multiplier) / 16 > output.len() + (1 << 16) {
        return convolve_sparsely(convolution, input, filter, output); // strides skip nearly all of the input
    }
    scratch::with(input.len() * multiplier, |repeated| {
        for (values, value) in repeated.chunks_exact_mut(multiplier.max(1)).zip(input) {
            values.fill(*value);
        }
        convolve_channels(engine, convolution, repeated, filter, output);
    });
}

/// Computes one output element after the other, without a copy of the input with repeated channels.
fn convolve_sparsely(convolution: &Convolution, input: &[f32], filter: &PackedDepthwise, output: &mut [f32]) {
    let Convolution { input: [height, width, channels], output: [rows, columns, outputs], kernel, .. } = *convolution;
    let Convolution { strides, dilations, before, clamp: (lower, upper), .. } = *convolution;
    let (values, lanes) = (&*filter.values, filter.isa.lanes());
    for (pixel, output) in (convolution.first..).zip(output.chunks_exact_mut(outputs)) {
        let (batch, at) = (pixel / (rows * columns), [pixel / columns % rows, pixel % columns]);
        let first = [0, 1].map(|axis| (at[axis] * strides[axis]) as isize - before[axis] as isize);
        let down = taps(first[0], kernel[0], dilations[0], height);
        let across = taps(first[1], kernel[1], dilations[1], width);
        for (channel, value) in output.iter_mut().enumerate() {
            let weights = &values[channel / lanes * lanes * (filter.taps + 1) + channel % lanes..];
            let mut sum = weights[0];
            for (ky, kx) in down.clone().flat_map(|ky| across.clone().map(move |kx| (ky, kx))) {
                let y = (first[0] + (ky * dilations[0]) as isize) as usize;
                let x = (first[1] + (kx * dilations[1]) as isize) as usize;
                let source = ((batch * height + y) * width + x) * channels + channel / (outputs / channels);
                sum += input[source] * weights[(1 + ky * kernel[1] + kx) * lanes];
            }
            *value = math::clamp(sum, lower, upper);
        }
    }
}

/// Computes a convolution with as many input channels as output channels, with output pixels split over tasks.
fn convolve_channels(
    engine: Engine,
    convolution: &Convolution,
    input: &[f32],
    filter: &PackedDepthwise,
    output: &mut [f32],
) {
    let Convolution { input: [height, width, _], output: [rows, columns, channels], .. } = *convolution;
    if output.is_empty() {
        return;
    }
    let image = height * width * channels;
    assert_eq!(input.len(), convolution.batches * image, "the input has the output's channels");
    let nanoseconds = (output.len() * (filter.taps + 3)) as f64 / (3 * filter.isa.lanes()) as f64;
    let parts = engine.tasks(nanoseconds, output.len() / channels);
    engine.for_each_part(output, channels, parts, |first, output| {
        for_each_row([columns, channels], convolution.first + first, output, |[row, column], output| {
            let input = &input[row / rows * image..][..image];
            filter.isa.dispatch(Row::new(convolution, filter, input, [row % rows, column], output));
        });
    });
}

/// Divides pixels of images with `columns` columns and `channels` channels, from pixel `first` on, into parts of rows, and
/// calls `body` with the row and the column of the first pixel of each part, and its elements. So each thread gets as many
/// pixels as the others, also where there are fewer rows than threads.
pub(crate) fn for_each_row<T>(
    [columns, channels]: [usize; 2],
    first: usize,
    mut elements: &mut [T],
    mut body: impl FnMut([usize; 2], &mut [T]),
) {
    let mut pixel = first;
    while !elements.is_empty() {
        let column = pixel % columns;
        let count = (columns - column).min(elements.len() / channels);
        let (row, rest) = elements.split_at_mut(count * channels);
        body([pixel / columns, column], row);
        (pixel, elements) = (pixel + count, rest);
    }
}

/// Returns the taps along one axis that are inside of the input's `extent` pixels, for a window that starts
/// at pixel `first`.
fn taps(first: isize, kernel: usize, dilation: usize, extent: usize) -> Range<usize> {
    let steps = |distance: isize| (distance.max(0) as usize).div_ceil(dilation).min(kernel);
    let end = steps(extent as isize - first);
    steps(-first).min(end)..end
}

/// Kernel that computes one row of the output, or a part of it.
struct Row<'a> {
    filter: &'a PackedDepthwise,
    /// The values of the filter.
    weights: &'a [f32],
    /// One image, with as many channels as the output.
    input: &'a [f32],
    /// The pixel of column 0 in the output, of which only those in `columns` are there.
    output: *mut f32,
    part: PhantomData<&'a mut [f32]>,
    /// Width of the input, in pixels.
    width: usize,
    /// The columns of the output.
    columns: Range<usize>,
    /// Width of the kernel, in taps.
    kernel: usize,
    stride: usize,
    dilation: usize,
    before: usize,
    /// Vertical taps that are inside of the input.
    down: Range<usize>,
    /// Offset in `input` of the row that the first tap of `down` reads, in elements.
    first: usize,
    /// Distance between the input rows that adjacent vertical taps read, in elements.
    step: usize,
    clamp: (f32, f32),
}

impl<'a> Row<'a> {
    fn new(
        convolution: &Convolution,
        filter: &'a PackedDepthwise,
        input: &'a [f32],
        [y, column]: [usize; 2],
        output: &'a mut [f32],
    ) -> Self {
        let Convolution { input: [height, width, _], kernel, strides, dilations, before, clamp, .. } = *convolution;
        let top = (y * strides[0]) as isize - before[0] as isize;
        let down = taps(top, kernel[0], dilations[0], height);
        let line = width * filter.channels;
        let first = (top + (down.start * dilations[0]) as isize).max(0) as usize * line;
        let columns = column..column + output.len() / filter.channels;
        Self {
            filter,
            weights: &filter.values,
            input,
            output: output.as_mut_ptr().wrapping_sub(column * filter.channels),
            part: PhantomData,
            width,
            columns,
            kernel: kernel[1],
            stride: strides[1],
            dilation: dilations[1],
            before: before[1],
            down,
            first,
            step: dilations[0].saturating_mul(line),
            clamp,
        }
    }

    /// Returns the first of the columns whose window is horizontally inside of the input, the end of these columns, and how far
    /// apart the taps are.
    #[inline(always)]
    fn inside(&self) -> (usize, usize, usize) {
        let covered = (self.kernel.max(1) - 1) * self.dilation + 1;
        let Range { start, end } = self.columns;
        let first = self.before.div_ceil(self.stride).clamp(start, end);
        let inside = (self.width + self.before).checked_sub(covered);
        let last = inside.map_or(first, |slack| (slack / self.stride + 1).clamp(first, end));
        (first, last, self.dilation)
    }

    /// Computes all of the columns: several at once where their windows are horizontally inside the input,
    /// the remaining ones one at a time. `KERNEL` and `STRIDE` are the kernel width and horizontal stride, or
    /// 0 for those without a specialized version.
    #[inline(always)]
    fn columns<S: Simd, const KERNEL: usize, const STRIDE: usize>(&mut self, simd: S) {
        let (first, last, apart) = self.inside();
        let mut x = self.columns.start;
        while x < self.columns.end {
            let left = if x >= first { last.saturating_sub(x) } else { 0 };
            x += match (left / apart, KERNEL) {
                // So many sums of nine products need not wait for each other. There are no registers for larger windows.
                (8.., 3) if STRIDE == 1 && !cfg!(attache_small) => {
                    (x..x + apart).map(|x| simd.vectorize(Tile::<8, KERNEL, STRIDE> { row: &mut *self, x })).sum()
                }
                (4.., 1..) => {
                    (x..x + apart).map(|x| simd.vectorize(Tile::<4, KERNEL, STRIDE> { row: &mut *self, x })).sum()
                }
                (2.., 1..) => {
                    (x..x + apart).map(|x| simd.vectorize(Tile::<2, KERNEL, STRIDE> { row: &mut *self, x })).sum()
                }
                (1.., 1..) if apart == 1 && !cfg!(attache_small) => {
                    simd.vectorize(Tile::<1, KERNEL, STRIDE> { row: self, x })
                }
                _ if left >= 4 => simd.vectorize(Span::<4> { row: self, x }),
                _ => simd.vectorize(Span::<1> { row: self, x }),
            };
        }
    }
}

impl Multiversioned for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        match (self.kernel, self.stride, self.dilation) {
            _ if !S::SPECIALIZED => self.columns::<S, 0, 0>(simd),
            (3, 1, _) => self.columns::<S, 3, 1>(simd),
            (3, 2, 1) if !cfg!(attache_small) => self.columns::<S, 3, 2>(simd),
            (5, 1, _) if !cfg!(attache_small) => self.columns::<S, 5, 1>(simd),
            (5, 2, 1) if !cfg!(attache_small) => self.columns::<S, 5, 2>(simd),
            _ => self.columns::<S, 0, 0>(simd),
        }
    }
}

/// Kernel that computes `PIXELS` adjacent output pixels starting at column `x`, for any kernel, and returns
/// `PIXELS`. The windows of all these pixels must have the same taps inside of the input.
struct Span<'r, 'a, const PIXELS: usize> {
    row: &'r mut Row<'a>,
    x: usize,
}

impl<const PIXELS: usize> Multiversioned for Span<'_, '_, PIXELS> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> usize {
        let Row { filter, kernel, stride, dilation, first, .. } = *self.row;
        let channels = filter.channels;
        let left = (self.x * stride) as isize - self.row.before as isize;
        let across = taps(left, kernel, dilation, self.row.width);
        let left = (left + (across.start * dilation) as isize).max(0) as usize;
        // Copied to local variables, so that the stores cannot alias them.
        let window = Window {
            down: self.row.down.clone(),
            across,
            kernel,
            weights: self.row.weights.as_ptr(),
            size: filter.taps + 1,
            source: self.row.input.as_ptr().wrapping_add(first + left * channels),
            target: self.row.output.wrapping_add(self.x * channels),
            step: self.row.step,
            apart: dilation * channels,
            pitches: [stride * channels, channels],
            bounds: (simd.splat(self.row.clamp.0), simd.splat(self.row.clamp.1)),
        };
        let mut channel = 0;
        // SAFETY: the taps are inside of the input, each block has one vector per tap after its bias, and the channels are
        // those that are left.
        unsafe {
            // Sums of one pixel would wait for each other.
            if PIXELS == 1 && !cfg!(attache_small) {
                while channel + 4 * S::LANES <= channels {
                    Self::block::<S, 4>(simd, &window, channel, S::LANES);
                    channel += 4 * S::LANES;
                }
            }
            while channel < channels {
                let count = S::LANES.min(channels - channel);
                Self::block::<S, 1>(simd, &window, channel, count);
                channel += count;
            }
        }
        PIXELS
    }
}

impl<const PIXELS: usize> Span<'_, '_, PIXELS> {
    /// Computes `VECTORS` vectors of channels from `channel` on, of which the last one has `count` channels.
    ///
    /// # Safety
    /// These channels must be readable in all taps of the windows and writable in the output pixels, and their weights
    /// readable.
    #[inline(always)]
    unsafe fn block<S: Simd, const VECTORS: usize>(simd: S, window: &Window<S>, channel: usize, count: usize) {
        let is_whole = count == S::LANES;
        let size = window.size * S::LANES;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let weights = window.weights.add(channel * window.size);
            let biases = std::array::from_fn::<_, VECTORS, _>(|vector| simd.load(weights.add(vector * size)));
            let mut sums = [biases; PIXELS];
            for ky in window.down.clone() {
                let line = window.source.wrapping_add(channel + (ky - window.down.start).wrapping_mul(window.step));
                for kx in window.across.clone() {
                    let weights = weights.add((1 + ky * window.kernel + kx) * S::LANES);
                    let tap = line.add((kx - window.across.start) * window.apart);
                    for (pixel, sums) in sums.iter_mut().enumerate() {
                        let pixel = tap.add(pixel * window.pitches[0]);
                        for (vector, sum) in sums.iter_mut().enumerate() {
                            let pixel = pixel.add(vector * S::LANES);
                            let value = if is_whole { simd.load(pixel) } else { simd.load_partial(pixel, count) };
                            *sum = simd.multiply_add(value, simd.load(weights.add(vector * size)), *sum);
                        }
                    }
                }
            }
            let target = window.target.add(channel);
            for (pixel, sums) in sums.into_iter().enumerate() {
                for (vector, sum) in sums.into_iter().enumerate() {
                    let target = target.add(pixel * window.pitches[1] + vector * S::LANES);
                    simd.store_partial(target, simd.clamp(sum, window.bounds.0, window.bounds.1), count);
                }
            }
        }
    }
}

/// The windows of the pixels of a [`Span`], in elements.
struct Window<S: Simd> {
    /// The taps that are inside of the input.
    down: Range<usize>,
    across: Range<usize>,
    /// Width of the kernel, in taps.
    kernel: usize,
    weights: *const f32,
    /// Vectors of each block of weights.
    size: usize,
    /// The first of these taps.
    source: *const f32,
    target: *mut f32,
    /// Distance between the input rows that adjacent vertical taps read.
    step: usize,
    /// Distance between the pixels that adjacent horizontal taps read.
    apart: usize,
    /// Distances between the windows and between the output pixels.
    pitches: [usize; 2],
    bounds: (S::Vector, S::Vector),
}

/// Kernel that computes `PIXELS` output pixels starting at column `x`, and returns `PIXELS`. Their windows (`KERNEL` taps
/// wide, `STRIDE` pixels apart) must be horizontally inside of the input. With a dilation, the pixels are as far apart as
/// the taps, so that their windows share columns; the stride is 1 then.
struct Tile<'r, 'a, const PIXELS: usize, const KERNEL: usize, const STRIDE: usize> {
    row: &'r mut Row<'a>,
    x: usize,
}

impl<const PIXELS: usize, const KERNEL: usize, const STRIDE: usize> Multiversioned
    for Tile<'_, '_, PIXELS, KERNEL, STRIDE>
{
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) -> usize {
        if self.row.down == (0..KERNEL) {
            self.channels::<S, true>(simd);
        } else {
            self.channels::<S, false>(simd);
        }
        PIXELS
    }
}

impl<const PIXELS: usize, const KERNEL: usize, const STRIDE: usize> Tile<'_, '_, PIXELS, KERNEL, STRIDE> {
    /// Computes all channels of the tile's pixels. `FULL` means that the first `KERNEL` vertical taps, and no
    /// others, are inside of the input, so that the loop over them has a constant length.
    #[inline(always)]
    fn channels<S: Simd, const FULL: bool>(&mut self, simd: S) {
        let Row { filter, input, first, step, before, clamp, .. } = *self.row;
        let channels = filter.channels;
        let block = Block {
            down: self.row.down.clone(),
            weights: self.row.weights.as_ptr(),
            source: input.as_ptr().wrapping_add(first + (self.x * STRIDE - before) * channels),
            target: self.row.output.wrapping_add(self.x * channels),
            pitch: self.row.dilation * channels,
            step,
            bounds: (simd.splat(clamp.0), simd.splat(clamp.1)),
        };
        let whole = channels / S::LANES * S::LANES;
        let size = filter.taps + 1;
        let mut channel = 0;
        // SAFETY: the windows are inside of the input, and there is a block of weights for every vector of channels.
        unsafe {
            while channel < whole {
                Self::block::<S, FULL, true>(simd, &block.at(channel, size), S::LANES);
                channel += S::LANES;
            }
            if whole < channels {
                Self::block::<S, FULL, false>(simd, &block.at(whole, size), channels - whole);
            }
        }
    }

    /// Computes `count` channels of the tile's pixels. `WHOLE` means that `count` is a full vector.
    ///
    /// # Safety
    /// The channels of the windows must be readable at the block's source, those of the output pixels writable at its
    /// target, and the weights of the block readable.
    #[inline(always)]
    unsafe fn block<S: Simd, const FULL: bool, const WHOLE: bool>(simd: S, block: &Block<S>, count: usize) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [simd.load(block.weights); PIXELS];
            if FULL {
                for ky in 0..KERNEL {
                    let weights = block.weights.add((1 + ky * KERNEL) * S::LANES);
                    let line = block.source.add(ky * block.step);
                    Self::line::<S, WHOLE>(simd, line, block.pitch, weights, &mut sums, count);
                }
            } else {
                let mut line = block.source;
                for ky in block.down.clone() {
                    let weights = block.weights.add((1 + ky * KERNEL) * S::LANES);
                    Self::line::<S, WHOLE>(simd, line, block.pitch, weights, &mut sums, count);
                    line = line.wrapping_add(block.step);
                }
            }
            for (pixel, sum) in sums.into_iter().enumerate() {
                let sum = simd.clamp(sum, block.bounds.0, block.bounds.1);
                let target = block.target.add(pixel * block.pitch);
                match WHOLE {
                    true => simd.store(target, sum),
                    false => simd.store_partial(target, sum, count),
                }
            }
        }
    }

    /// Adds the products of one row of the windows to `sums`. Adjacent windows share columns, and each column
    /// is loaded once.
    ///
    /// # Safety
    /// All columns that the windows cover must be readable at `source`, and `KERNEL` vectors at `weights`.
    #[inline(always)]
    unsafe fn line<S: Simd, const WHOLE: bool>(
        simd: S,
        source: *const f32,
        pitch: usize,
        weights: *const f32,
        sums: &mut [S::Vector; PIXELS],
        count: usize,
    ) {
        for column in 0..(PIXELS - 1) * STRIDE + KERNEL {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let pointer = source.add(column * pitch);
                let value = if WHOLE { simd.load(pointer) } else { simd.load_partial(pointer, count) };
                for (pixel, sum) in sums.iter_mut().enumerate() {
                    let kx = column.wrapping_sub(pixel * STRIDE);
                    if kx < KERNEL {
                        *sum = simd.multiply_add(value, simd.load(weights.add(kx * S::LANES)), *sum);
                    }
                }
            }
        }
    }
}

/// Parameters for one vector of channels. They are local copies, so the stores cannot alias them and they
/// stay in registers.
struct Block<S: Simd> {
    down: Range<usize>,
    weights: *const f32,
    source: *const f32,
    target: *mut f32,
    /// Distance between the columns that adjacent taps read, and between the output pixels, in elements.
    pitch: usize,
    step: usize,
    bounds: (S::Vector, S::Vector),
}

impl<S: Simd> Block<S> {
    /// Returns the parameters for the vector of channels that starts at `channel`; each block of weights has
    /// `size` vectors.
    #[inline(always)]
    fn at(&self, channel: usize, size: usize) -> Self {
        Self {
            down: self.down.clone(),
            weights: self.weights.wrapping_add(channel * size),
            source: self.source.wrapping_add(channel),
            target: self.target.wrapping_add(channel),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Padding, Serial};

    use super::*;
    use crate::testing::{Random, assert_close};

    fn naive(convolution: &Convolution, input: &[f32], filter: &[f32], bias: &[f32]) -> Vec<f32> {
        let Convolution { batches, input: [h, w, c], output: [oh, ow, o], kernel: [kh, kw], .. } = *convolution;
        let Convolution { strides, dilations, before, clamp, .. } = *convolution;
        let mut output = Vec::new();
        for index in 0..batches * oh * ow * o {
            let (n, y, x, channel) = (index / (oh * ow * o), index / (ow * o) % oh, index / o % ow, index % o);
            let mut sum = bias[channel];
            for tap in 0..kh * kw {
                let iy = (y * strides[0] + tap / kw * dilations[0]).wrapping_sub(before[0]);
                let ix = (x * strides[1] + tap % kw * dilations[1]).wrapping_sub(before[1]);
                if iy < h && ix < w {
                    sum += input[((n * h + iy) * w + ix) * c + channel / (o / c)] * filter[tap * o + channel];
                }
            }
            output.push(sum.clamp(clamp.0, clamp.1));
        }
        output
    }

    fn check_random(engine: Engine, random: &mut Random, large: usize) {
        let [h, w] = [1 + random.below(8 * large), 1 + random.below(30)];
        let square = 1 + random.below(6);
        let kernel = if random.below(2) == 0 { [square, square] } else { [1 + random.below(4), 1 + random.below(4)] };
        let strides = [1 + random.below(2), 1 + random.below(3)];
        let dilations = if random.below(3) == 0 { [1 + random.below(4), 1 + random.below(40)] } else { [1, 1] };
        let padding = if random.below(2) == 0 { Padding::Same } else { Padding::Valid };
        let [rows, columns] = [0, 1].map(|a| padding.window([h, w][a], kernel[a], strides[a], dilations[a]).unwrap());
        let channels = 1 + random.below(70);
        let multiplier = if random.below(3) == 0 { 1 + random.below(9) } else { 1 };
        let convolution = Convolution {
            batches: 1 + random.below(2),
            input: [h, w, channels],
            output: [rows.output, columns.output, channels * multiplier],
            kernel,
            strides,
            dilations,
            before: [rows.before, columns.before],
            first: 0,
            groups: 1,
            clamp: (-1.5, 2.0),
        };
        check(engine, &convolution, random);
    }

    fn check(engine: Engine, convolution: &Convolution, random: &mut Random) {
        let count = |extents: [usize; 3]| convolution.batches * extents.iter().product::<usize>();
        let input = random.floats(count(convolution.input));
        let channels = convolution.output[2];
        let filter = random.floats(convolution.kernel[0] * convolution.kernel[1] * channels);
        let bias = random.floats(channels);
        let packed = PackedDepthwise::pack(engine.isa, convolution, &filter, Some(&bias));
        let mut output = vec![9.0; count(convolution.output)];
        depthwise(engine, convolution, &input, &packed, &mut output);
        let expected = naive(convolution, &input, &filter, &bias);
        assert_close(&output, &expected, 1e-5, || format!("{} {convolution:?}", engine.isa.name()));
        let (part, pixels) = random.part(convolution, output.len());
        let mut some = vec![9.0; pixels.len()];
        depthwise(engine, &part, &input, &packed, &mut some);
        assert!(some == output[pixels], "{} {part:?}", engine.isa.name());
    }

    #[test]
    fn every_isa_matches_the_sum_over_windows() {
        let mut random = Random::new(6);
        for isa in Isa::available() {
            for _ in 0..150 {
                check_random(Engine { isa, parallel: &Serial }, &mut random, 1);
            }
        }
    }

    #[test]
    fn threads_share_pixels() {
        let pool = attache_base::Pool::new(3);
        let mut random = Random::new(7);
        for _ in 0..20 {
            check_random(Engine::new(&pool), &mut random, 8);
        }
    }

    #[test]
    fn large_strides_copy_nothing() {
        let convolution = Convolution {
            batches: 2,
            input: [50, 260, 1],
            output: [2, 3, 100],
            kernel: [2, 3],
            strides: [49, 100],
            dilations: [1, 1],
            before: [0, 1],
            first: 0,
            groups: 1,
            clamp: (-1.0, 1.0),
        };
        check(Engine::new(&Serial), &convolution, &mut Random::new(14));
    }
}
