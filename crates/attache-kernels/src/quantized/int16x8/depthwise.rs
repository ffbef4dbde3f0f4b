//! Depthwise convolutions of 16-bit activations with 8-bit weights.

use std::ops::Range;

use attache_base::storable::{Parts, Storable, StoredParts};

use super::{Int16x8Epilogue, products_of_32_bits};
use crate::convolution::Convolution;
use crate::simd::{Multiversioned, Simd};
use crate::{Engine, scratch};

/// Nanoseconds that a tap and the rounding of an output element take.
const TAP: f64 = 0.06;
const FINISH: f64 = 3.0;

/// Channels whose sums are in registers.
const BLOCK: usize = 32;

/// Weights `[tap, output]` and one bias per output of a depthwise convolution.
#[derive(Clone, Debug)]
pub struct Int16x8Depthwise {
    weights: Vec<i16>,
    bias: Vec<i64>,
    /// How many products of activations and these weights have a sum of at most 32 bits.
    summed: usize,
}

impl Int16x8Depthwise {
    /// Creates the weights from a filter `[height, width, output channels]` and one bias per output (zero if there is none).
    ///
    /// # Panics
    ///
    /// Panics if the lengths of `filter` or `bias` do not match the convolution.
    pub fn new(convolution: &Convolution, filter: &[i8], bias: Option<&[i64]>) -> Self {
        let [outputs, taps] = [convolution.output[2], convolution.kernel.iter().product()];
        assert_eq!(filter.len(), outputs * taps, "the filter has its shape");
        let bias = bias.map_or_else(|| vec![0; outputs], <[i64]>::to_vec);
        assert_eq!(bias.len(), outputs, "a bias for each output");
        Self::of(filter.iter().map(|weight| i16::from(*weight)).collect(), bias)
    }

    fn of(weights: Vec<i16>, bias: Vec<i64>) -> Self {
        let summed = products_of_32_bits(&weights);
        Self { weights, bias, summed }
    }

    /// Returns the numbers from which the extents of the weights follow: the output channels and the taps.
    pub fn parameters(convolution: &Convolution) -> Vec<usize> {
        vec![convolution.output[2], convolution.kernel.iter().product()]
    }
}

impl Storable for Int16x8Depthwise {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.field(&self.bias);
        parts.field(&self.weights);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let &[outputs, taps] = parameters else { return None };
        let bias = parts.field(outputs)?;
        Some(Self::of(parts.field(outputs.checked_mul(taps)?)?, bias))
    }
}

/// Convolves each channel of `input` with weights of its own. The zero point of the input is 0.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match the convolution, if the output channels are no multiple of the input
/// channels, or if a stride or dilation is 0.
pub fn int16x8_depthwise(
    engine: Engine,
    convolution: &Convolution,
    input: &[i16],
    weights: &Int16x8Depthwise,
    epilogue: &Int16x8Epilogue,
    output: &mut [i16],
) {
    convolution.check(input, output);
    let ([height, width, outputs], taps) = (convolution.output, convolution.kernel.iter().product::<usize>());
    let channels = convolution.input[2];
    assert!(channels > 0 && outputs.is_multiple_of(channels), "a whole multiplier");
    assert!(weights.bias.len() == outputs && weights.weights.len() == outputs * taps, "weights of this convolution");
    let unit = width * outputs;
    if output.is_empty() {
        return;
    }
    let nanoseconds = output.len() as f64 * (taps as f64 * TAP + FINISH);
    let parts = engine.tasks(nanoseconds, output.len() / unit);
    engine.for_each_part(output, unit, parts, |first, output| {
        scratch::with(outputs, |sums: &mut [i64]| {
            for (row, output) in output.chunks_exact_mut(unit).enumerate() {
                let place = [(first + row) / height, (first + row) % height];
                engine.isa.dispatch(Row { convolution, input, weights, place, epilogue, sums: &mut *sums, output });
            }
        });
    });
}

/// Kernel that computes one row of an image's output.
struct Row<'a> {
    convolution: &'a Convolution,
    input: &'a [i16],
    weights: &'a Int16x8Depthwise,
    /// The image and the row.
    place: [usize; 2],
    epilogue: &'a Int16x8Epilogue,
    /// Room for the sums of a pixel.
    sums: &'a mut [i64],
    output: &'a mut [i16],
}

/// Returns the taps of a window along one axis that lie in the input, and the input's coordinate of the first of them.
fn inside(position: usize, axis: usize, convolution: &Convolution) -> (Range<usize>, usize) {
    let (dilation, before) = (convolution.dilations[axis], convolution.before[axis]);
    let (extent, start) = (convolution.input[axis], position * convolution.strides[axis]);
    let first = before.saturating_sub(start).div_ceil(dilation);
    let end = (extent + before).saturating_sub(start).div_ceil(dilation).min(convolution.kernel[axis]);
    (first..end.max(first), (start + first * dilation).saturating_sub(before))
}

impl Multiversioned for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { convolution, input, weights, place: [image, row], epilogue, sums, output } = self;
        let ([height, width, channels], [_, kernel_width]) = (convolution.input, convolution.kernel);
        let ([down, across], outputs) = (convolution.dilations, convolution.output[2]);
        let (rows, top) = inside(row, 0, convolution);
        for (column, output) in output.chunks_exact_mut(outputs).enumerate() {
            let (columns, left) = inside(column, 1, convolution);
            sums.copy_from_slice(&weights.bias);
            for (step, tap_row) in rows.clone().enumerate() {
                let line = (image * height + top + step * down) * width + left;
                // Taps whose products have a sum of 32 bits.
                for first in columns.clone().step_by(weights.summed) {
                    let taps = weights.summed.min(columns.end - first);
                    let pixels = &input[(line + (first - columns.start) * across) * channels..];
                    let weights = &weights.weights[(tap_row * kernel_width + first) * outputs..];
                    match outputs == channels {
                        true => add_products(pixels, [taps, across * channels], weights, sums),
                        false => add_repeated(pixels, [taps, across * channels], outputs / channels, weights, sums),
                    }
                }
            }
            for (channel, (sum, output)) in sums.iter().zip(output).enumerate() {
                *output = epilogue.finish(*sum, channel);
            }
        }
    }
}

/// Adds the products of `taps` pixels, `step` elements apart, and their weights to the sums of the channels.
#[inline(always)]
fn add_products(pixels: &[i16], [taps, step]: [usize; 2], weights: &[i16], sums: &mut [i64]) {
    let channels = sums.len();
    let (blocks, rest) = sums.as_chunks_mut::<BLOCK>();
    for (block, sums) in blocks.iter_mut().enumerate() {
        let mut products = [0i32; BLOCK];
        for tap in 0..taps {
            let pixel: &[i16; BLOCK] = pixels[tap * step + block * BLOCK..].first_chunk().expect("channels of a pixel");
            let weights: &[i16; BLOCK] =
                weights[tap * channels + block * BLOCK..].first_chunk().expect("their weights");
            for lane in 0..BLOCK {
                products[lane] = products[lane].wrapping_add(i32::from(pixel[lane]) * i32::from(weights[lane]));
            }
        }
        for lane in 0..BLOCK {
            sums[lane] = sums[lane].wrapping_add(products[lane].into());
        }
    }
    let first = channels - rest.len();
    for tap in 0..taps {
        let (pixel, weights) = (&pixels[tap * step + first..], &weights[tap * channels + first..]);
        for ((sum, value), weight) in rest.iter_mut().zip(pixel).zip(weights) {
            *sum = sum.wrapping_add((i32::from(*value) * i32::from(*weight)).into());
        }
    }
}

/// Does the same where each channel of a pixel has as many outputs as `repeat` says.
#[inline(always)]
fn add_repeated(pixels: &[i16], [taps, step]: [usize; 2], repeat: usize, weights: &[i16], sums: &mut [i64]) {
    let outputs = sums.len();
    for tap in 0..taps {
        let (pixel, weights) = (&pixels[tap * step..], &weights[tap * outputs..]);
        for ((sums, value), weights) in sums.chunks_exact_mut(repeat).zip(pixel).zip(weights.chunks_exact(repeat)) {
            for (sum, weight) in sums.iter_mut().zip(weights) {
                *sum = sum.wrapping_add((i32::from(*value) * i32::from(*weight)).into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Parallel, Pool, Serial};

    use super::*;
    use crate::Isa;
    use crate::quantized::{Int16x8Rounding, Multiplier};
    use crate::testing::Random;

    #[test]
    fn windows_may_reach_over_every_edge() {
        let (mut random, pool) = (Random::new(63), Pool::new(3));
        for round in 0..200 {
            let (channels, repeat) = (1 + random.below(70), 1 + random.below(3) / 2);
            let mut pair = |most: usize| [1 + random.below(most), 1 + random.below(most)];
            let (kernel, strides, dilations, image, size) = (pair(4), pair(3), pair(3), pair(9), pair(6));
            let before = [0, 1].map(|axis| random.below(kernel[axis] * dilations[axis]));
            let outputs = channels * repeat;
            let convolution = Convolution {
                batches: 1 + round % 2,
                input: [image[0], image[1], channels],
                output: [size[0], size[1], outputs],
                kernel,
                strides,
                dilations,
                before,
                first: 0,
                groups: channels,
                clamp: (0.0, 0.0),
            };
            let numbers = |count: usize, random: &mut Random| -> Vec<i16> {
                (0..count).map(|_| (random.below(1 << 16) as i32 - (1 << 15)) as i16).collect()
            };
            let input = numbers(convolution.batches * image[0] * image[1] * channels, &mut random);
            let filter: Vec<i8> =
                random.bytes(kernel[0] * kernel[1] * outputs).iter().map(|byte| *byte as i8).collect();
            let bias: Vec<i64> = numbers(outputs, &mut random).into_iter().map(i64::from).collect();
            let epilogue = Int16x8Epilogue {
                factors: vec![Multiplier::new(1e-3)],
                rounding: Int16x8Rounding::Short,
                zero_point: 0,
                bounds: (-32768, 32767),
            };
            let mut weights = Int16x8Depthwise::new(&convolution, &filter, Some(&bias));
            weights.summed = [511, 2][round % 2];
            let mut output = vec![0; convolution.batches * size[0] * size[1] * outputs];
            let isa = Isa::available()[round % Isa::available().len()];
            let engine = Engine { isa, parallel: [&Serial as &dyn Parallel, &pool][round / 2 % 2] };
            int16x8_depthwise(engine, &convolution, &input, &weights, &epilogue, &mut output);
            for (index, found) in output.iter().enumerate() {
                let (pixel, channel) = (index / outputs, index % outputs);
                let [x, y, batch] = [pixel % size[1], pixel / size[1] % size[0], pixel / size[1] / size[0]];
                let at = |axis: usize, position: usize, tap: usize| {
                    let at = (position * strides[axis] + tap * dilations[axis]).checked_sub(before[axis]);
                    at.filter(|at| *at < image[axis])
                };
                let mut sum = bias[channel];
                for (tap, weights) in filter.chunks(outputs).enumerate() {
                    if let (Some(row), Some(column)) = (at(0, y, tap / kernel[1]), at(1, x, tap % kernel[1])) {
                        let pixel = (batch * image[0] + row) * image[1] + column;
                        sum += i64::from(input[pixel * channels + channel / repeat]) * i64::from(weights[channel]);
                    }
                }
                assert_eq!(*found, epilogue.finish(sum, channel), "{convolution:?}");
            }
        }
    }
}
