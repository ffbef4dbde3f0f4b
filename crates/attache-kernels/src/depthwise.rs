//! Depthwise convolution: every input channel is convolved with its own `multiplier` filters.
//!
//! Channels are vector lanes; a tile of neighbouring output pixels shares each load of the weights. Weights lie by
//! blocks of lanes, each as its bias followed by its taps. With a multiplier above 1 each input row that is needed is
//! first repeated channel by channel, which makes it the case of multiplier 1.
#![allow(unsafe_code)] // Inner loops on pointers into slices whose lengths were checked.

use std::ops::Range;

use crate::convolution::Convolution;
use crate::simd::{Kernel, Simd};
use crate::{Engine, Level, scratch};

/// Weights and bias of a depthwise convolution, packed for one instruction set.
#[derive(Clone)]
pub struct PackedDepthwise {
    level: Level,
    channels: usize,
    taps: usize,
    values: Vec<f32>,
}

impl PackedDepthwise {
    /// Packs a filter `[height, width, output channels]` and its bias. Output channel `c × multiplier + m` reads input
    /// channel `c`.
    pub fn pack(level: Level, convolution: &Convolution, filter: &[f32], bias: Option<&[f32]>) -> Self {
        let channels = convolution.output[2];
        let taps = convolution.kernel[0] * convolution.kernel[1];
        assert_eq!(filter.len(), taps * channels, "the filter has its shape");
        assert!(bias.is_none_or(|bias| bias.len() == channels), "one bias per output channel");
        let lanes = level.lanes();
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
        Self { level, channels, taps, values }
    }
}

/// Convolves each channel by itself; the output has a multiple of the input's channels. The filter's instruction set is
/// used.
pub fn depthwise(
    engine: Engine,
    convolution: &Convolution,
    input: &[f32],
    filter: &PackedDepthwise,
    output: &mut [f32],
) {
    convolution.check(input, output);
    let [.., channels] = convolution.input;
    let [.., outputs] = convolution.output;
    assert!(channels > 0 && outputs % channels == 0, "a whole multiplier");
    assert_eq!([filter.channels, filter.taps], [outputs, convolution.kernel.iter().product()], "the filter's shape");
    if outputs == channels {
        return convolve_channels(engine, convolution, input, filter, output);
    }
    scratch::with(input.len() * (outputs / channels), |repeated| {
        for (values, value) in repeated.chunks_exact_mut((outputs / channels).max(1)).zip(input) {
            values.fill(*value);
        }
        convolve_channels(engine, convolution, repeated, filter, output);
    });
}

/// The case of as many input channels as output channels.
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
    let (row, image) = (columns * channels, height * width * channels);
    assert_eq!(input.len(), convolution.batches * image, "the input has the output's channels");
    let nanoseconds = (output.len() * filter.taps) as f64 / (3 * filter.level.lanes()) as f64;
    let band = (convolution.batches * rows).div_ceil(engine.tasks(nanoseconds, convolution.batches * rows));
    engine.for_each_chunk(output, band * row, |task, output| {
        for (offset, output) in output.chunks_exact_mut(row).enumerate() {
            let (batch, y) = ((task * band + offset) / rows, (task * band + offset) % rows);
            let input = &input[batch * image..][..image];
            filter.level.dispatch(Row { convolution, filter, input, y, output });
        }
    });
}

/// One row of the output.
struct Row<'a> {
    convolution: &'a Convolution,
    filter: &'a PackedDepthwise,
    /// One image, with as many channels as the output.
    input: &'a [f32],
    y: usize,
    output: &'a mut [f32],
}

/// Taps of a window along one axis, from the window's start `first`, that lie inside of `extent`.
fn taps(first: isize, kernel: usize, dilation: usize, extent: usize) -> Range<usize> {
    let steps = |distance: isize| (distance.max(0) as usize).div_ceil(dilation).min(kernel);
    let end = steps(extent as isize - first);
    steps(-first).min(end)..end
}

impl Kernel for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let Convolution { kernel, strides, dilations, .. } = *self.convolution;
        match (kernel[1], strides[1], dilations[1]) {
            (3, 1, 1) => self.columns::<S, 3, 1>(simd),
            (3, 2, 1) => self.columns::<S, 3, 2>(simd),
            (5, 1, 1) => self.columns::<S, 5, 1>(simd),
            (5, 2, 1) => self.columns::<S, 5, 2>(simd),
            _ => self.columns::<S, 0, 0>(simd),
        }
    }
}

impl Row<'_> {
    /// All columns: tiles of windows that lie inside of the input from left to right, the others one by one.
    #[inline(always)]
    fn columns<S: Simd, const KERNEL: usize, const STRIDE: usize>(&mut self, simd: S) {
        let Convolution { input: [_, width, _], output: [_, columns, _], .. } = *self.convolution;
        let [kernel, stride, dilation, before] = self.across();
        let covered = (kernel.max(1) - 1) * dilation + 1;
        let first = before.div_ceil(stride).min(columns);
        let last = match (width + before).checked_sub(covered) {
            Some(slack) if KERNEL > 0 => (slack / stride + 1).clamp(first, columns),
            _ => first,
        };
        (0..first).for_each(|x| self.edge(simd, x));
        let mut x = first;
        while x + 4 <= last {
            simd.vectorize(Tile::<4, KERNEL, STRIDE> { row: self, x });
            x += 4;
        }
        while x + 2 <= last {
            simd.vectorize(Tile::<2, KERNEL, STRIDE> { row: self, x });
            x += 2;
        }
        (x..columns).for_each(|x| self.edge(simd, x));
    }

    /// The window's kernel, stride, dilation and padding from left to right.
    fn across(&self) -> [usize; 4] {
        let Convolution { kernel, strides, dilations, before, .. } = *self.convolution;
        [kernel[1], strides[1], dilations[1], before[1]]
    }

    /// The first input row of the windows, and the taps that lie inside of the input.
    fn down(&self) -> (isize, Range<usize>) {
        let Convolution { input: [height, ..], kernel, strides, dilations, before, .. } = *self.convolution;
        let first = (self.y * strides[0]) as isize - before[0] as isize;
        (first, taps(first, kernel[0], dilations[0], height))
    }

    /// One output pixel, whatever part of its window lies inside of the input.
    #[inline(always)]
    fn edge<S: Simd>(&mut self, simd: S, x: usize) {
        let Convolution { input: [_, width, _], dilations, clamp, .. } = *self.convolution;
        let channels = self.filter.channels;
        let [kernel, stride, dilation, before] = self.across();
        let (top, down) = self.down();
        let left = (x * stride) as isize - before as isize;
        let across = taps(left, kernel, dilation, width);
        let (lower, upper) = (simd.splat(clamp.0), simd.splat(clamp.1));
        for channel in (0..channels).step_by(S::LANES) {
            let count = S::LANES.min(channels - channel);
            let block = &self.filter.values[channel * (self.filter.taps + 1)..];
            // SAFETY: the taps lie inside of the input, the block holds a vector per tap after its bias, and `count`
            // channels are left.
            unsafe {
                let mut sum = simd.load(block.as_ptr());
                for ky in down.clone() {
                    let y = (top + (ky * dilations[0]) as isize) as usize;
                    for kx in across.clone() {
                        let x = (left + (kx * dilation) as isize) as usize;
                        let weight = simd.load(block.as_ptr().add((1 + ky * kernel + kx) * S::LANES));
                        let source = self.input.as_ptr().add((y * width + x) * channels + channel);
                        sum = simd.multiply_add(simd.load_partial(source, count), weight, sum);
                    }
                }
                let target = self.output.as_mut_ptr().add(x * channels + channel);
                simd.store_partial(target, simd.clamp(sum, lower, upper), count);
            }
        }
    }
}

/// `PIXELS` neighbouring outputs from column `x` on, whose windows of `KERNEL` undilated taps, `STRIDE` apart, lie
/// inside of the input from left to right.
struct Tile<'r, 'a, const PIXELS: usize, const KERNEL: usize, const STRIDE: usize> {
    row: &'r mut Row<'a>,
    x: usize,
}

impl<const PIXELS: usize, const KERNEL: usize, const STRIDE: usize> Kernel for Tile<'_, '_, PIXELS, KERNEL, STRIDE> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let channels = self.row.filter.channels;
        let whole = channels / S::LANES * S::LANES;
        for channel in (0..whole).step_by(S::LANES) {
            self.block::<S, true>(simd, channel, S::LANES);
        }
        if whole < channels {
            self.block::<S, false>(simd, whole, channels - whole);
        }
    }
}

impl<const PIXELS: usize, const KERNEL: usize, const STRIDE: usize> Tile<'_, '_, PIXELS, KERNEL, STRIDE> {
    /// `count` channels, a whole vector or less.
    #[inline(always)]
    fn block<S: Simd, const WHOLE: bool>(&mut self, simd: S, channel: usize, count: usize) {
        let Row { convolution, filter, input, .. } = *self.row;
        let (channels, width) = (filter.channels, convolution.input[1]);
        let (top, down) = self.row.down();
        let left = self.x * STRIDE - convolution.before[1];
        let block = filter.values[channel * (filter.taps + 1)..].as_ptr();
        // SAFETY: the windows lie inside of the input, the block holds a vector per tap after its bias, and `count`
        // channels are left.
        unsafe {
            let load = |pointer: *const f32| if WHOLE { simd.load(pointer) } else { simd.load_partial(pointer, count) };
            let mut sums = [simd.load(block); PIXELS];
            for ky in down {
                let y = (top + (ky * convolution.dilations[0]) as isize) as usize;
                let source = input.as_ptr().add((y * width + left) * channels + channel);
                let weights = block.add((1 + ky * KERNEL) * S::LANES);
                // Neighbouring windows share columns: each is loaded once.
                for column in 0..(PIXELS - 1) * STRIDE + KERNEL {
                    let value = load(source.add(column * channels));
                    for (pixel, sum) in sums.iter_mut().enumerate() {
                        let kx = column.wrapping_sub(pixel * STRIDE);
                        if kx < KERNEL {
                            *sum = simd.multiply_add(value, simd.load(weights.add(kx * S::LANES)), *sum);
                        }
                    }
                }
            }
            let (lower, upper) = (simd.splat(convolution.clamp.0), simd.splat(convolution.clamp.1));
            let target = self.row.output.as_mut_ptr().add(self.x * channels + channel);
            for (pixel, sum) in sums.into_iter().enumerate() {
                let sum = simd.clamp(sum, lower, upper);
                match WHOLE {
                    true => simd.store(target.add(pixel * channels), sum),
                    false => simd.store_partial(target.add(pixel * channels), sum, count),
                }
            }
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

    fn check(engine: Engine, random: &mut Random, large: usize) {
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
            groups: 1,
            clamp: (-1.5, 2.0),
        };
        let count = |extents: [usize; 3]| convolution.batches * extents.iter().product::<usize>();
        let input = random.floats(count(convolution.input));
        let filter = random.floats(kernel[0] * kernel[1] * channels * multiplier);
        let bias = random.floats(channels * multiplier);
        let packed = PackedDepthwise::pack(engine.level, &convolution, &filter, Some(&bias));
        let mut output = vec![9.0; count(convolution.output)];
        depthwise(engine, &convolution, &input, &packed, &mut output);
        let expected = naive(&convolution, &input, &filter, &bias);
        assert_close(&output, &expected, 1e-5, || format!("{} {convolution:?}", engine.level.name()));
    }

    #[test]
    fn every_level_matches_the_sum_over_windows() {
        let mut random = Random::new(6);
        for level in Level::available() {
            for _ in 0..150 {
                check(Engine { level, parallel: &Serial }, &mut random, 1);
            }
        }
    }

    #[test]
    fn threads_share_rows() {
        let pool = crate::pool::Pool::new(3);
        let mut random = Random::new(7);
        for _ in 0..20 {
            check(Engine::new(&pool), &mut random, 8);
        }
    }
}
