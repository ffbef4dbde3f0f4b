//! Depthwise convolution: every input channel is convolved with its own `multiplier` filters.
//!
//! Channels are vector lanes; a tile of neighbouring output pixels shares each load of the weights. Weights lie by
//! blocks of lanes, each as its bias followed by its taps. With a multiplier above 1 each input row that is needed is
//! first repeated channel by channel, which makes it the case of multiplier 1.
#![allow(unsafe_code)] // Inner loops on pointers into slices whose lengths were checked.

use std::ops::Range;

use crate::convolution::Convolution;
use crate::simd::{Kernel, Simd};
use crate::{Engine, Level};

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

/// Convolves each channel by itself; the output has a multiple of the input's channels.
pub fn depthwise(
    engine: Engine,
    convolution: &Convolution,
    input: &[f32],
    filter: &PackedDepthwise,
    output: &mut [f32],
) {
    convolution.check(input, output);
    let Convolution { input: [height, width, channels], output: [rows, columns, outputs], .. } = *convolution;
    assert!(channels > 0 && outputs % channels == 0, "a whole multiplier");
    assert_eq!([filter.channels, filter.taps], [outputs, convolution.kernel.iter().product()], "the filter's shape");
    if output.is_empty() {
        return;
    }
    let row = columns * outputs;
    let nanoseconds = (output.len() * filter.taps) as f64 / (3 * filter.level.lanes()) as f64;
    let tasks = engine.tasks(nanoseconds, convolution.batches * rows);
    let band = rows.div_ceil(tasks.div_ceil(convolution.batches));
    let _ = (height, width, band, row);
    let multiplier = outputs / channels;
    let repeated: Vec<f32>;
    let input = if multiplier == 1 {
        input
    } else {
        repeated = input.iter().flat_map(|value| std::iter::repeat_n(*value, multiplier)).collect();
        &repeated
    };
    let image = height * width * outputs;
    engine.for_each_chunk(output, row, |index, output| {
        let (batch, y) = (index / rows, index % rows);
        let input = &input[batch * image..][..image];
        filter.level.dispatch(Row { convolution, filter, input, y, output });
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
    fn run<S: Simd>(self, simd: S) {
        let columns = self.convolution.output[1];
        for x in 0..columns {
            self.pixels::<S, 1>(simd, x);
        }
    }
}

impl Row<'_> {
    /// `PIXELS` neighbouring outputs from column `x` on, whose windows have the same taps inside of the input.
    #[inline(always)]
    fn pixels<S: Simd, const PIXELS: usize>(&self, simd: S, x: usize) {
        let Convolution { input: [height, width, _], kernel, strides, dilations, before, clamp, .. } =
            *self.convolution;
        let channels = self.filter.channels;
        let first = [self.y * strides[0], x * strides[1]];
        let first = [0, 1].map(|axis| first[axis] as isize - before[axis] as isize);
        let down = taps(first[0], kernel[0], dilations[0], height);
        let across = taps(first[1], kernel[1], dilations[1], width);
        let (lower, upper) = (simd.splat(clamp.0), simd.splat(clamp.1));
        for channel in (0..channels).step_by(S::LANES) {
            let count = S::LANES.min(channels - channel);
            let block = &self.filter.values[channel * (self.filter.taps + 1)..];
            // SAFETY: the taps lie inside of the input, the block holds a vector per tap after its bias, and `count`
            // channels are left.
            unsafe {
                let weights = block.as_ptr();
                let mut sums = [simd.load(weights); PIXELS];
                for ky in down.clone() {
                    for kx in across.clone() {
                        let weight = simd.load(weights.add((1 + ky * kernel[1] + kx) * S::LANES));
                        let iy = first[0] + (ky * dilations[0]) as isize;
                        let ix = first[1] + (kx * dilations[1]) as isize;
                        let source = self.input.as_ptr().offset((iy * width as isize + ix) * channels as isize);
                        for (pixel, sum) in sums.iter_mut().enumerate() {
                            let source = source.add(pixel * strides[1] * channels + channel);
                            let value = simd.load_partial(source, count);
                            *sum = simd.multiply_add(value, weight, *sum);
                        }
                    }
                }
                for (pixel, sum) in sums.into_iter().enumerate() {
                    let target = self.output.as_ptr().add((x + pixel) * channels + channel).cast_mut();
                    simd.store_partial(target, simd.clamp(sum, lower, upper), count);
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
