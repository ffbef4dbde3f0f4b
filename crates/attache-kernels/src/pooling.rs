//! Average and maximum pooling over channels-last tensors. Padding is excluded from the windows.

use std::marker::PhantomData;
use std::ops::Range;

use crate::simd::{Multiversioned, Simd};
use crate::{Engine, math};

/// Parameters of a pooling operator. Extents are `[height, width, channels]`; pairs are `[vertical, horizontal]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pooling {
    /// Number of images.
    pub batches: usize,
    /// Extents of one input image, `[height, width, channels]`.
    pub input: [usize; 3],
    /// Number of windows (output pixels), vertically and horizontally.
    pub output: [usize; 2],
    /// Height and width of the window, in pixels.
    pub kernel: [usize; 2],
    /// Vertical and horizontal distance between adjacent windows, in input pixels, at least 1.
    pub strides: [usize; 2],
    /// Rows of padding above the input and columns of padding to its left.
    pub before: [usize; 2],
    /// Lower and upper bound to which f32 outputs are clamped. Quantized kernels have separate bounds.
    pub clamp: (f32, f32),
}

impl Pooling {
    /// Returns the range of input positions along `axis` (0 for rows, 1 for columns) that window `index`
    /// covers, and the number of its taps in the padding before the input.
    pub fn window(&self, axis: usize, index: usize) -> (Range<usize>, usize) {
        let start = index * self.strides[axis];
        let end = (start + self.kernel[axis]).saturating_sub(self.before[axis]).min(self.input[axis]);
        let first = start.saturating_sub(self.before[axis]).min(end);
        (first..end, self.before[axis].saturating_sub(start))
    }

    pub(crate) fn check<T>(&self, input: &[T], output: usize) {
        assert_eq!(input.len(), self.batches * self.input.iter().product::<usize>(), "the input has its shape");
        assert_eq!(output, self.batches * self.output[0] * self.output[1] * self.input[2], "the output has its shape");
    }

    /// Calls `kernel` for each output row with the row's input image, its index within the output image, the channel of
    /// its first element, and the row itself. Rows of one pixel are divided by channels if there are few of them.
    pub(crate) fn for_each_row<T: Send + Sync>(
        &self,
        engine: &Engine,
        input: &[T],
        output: &mut [T],
        kernel: impl Fn(&[T], usize, usize, &mut [T]) + Sync,
    ) {
        self.check(input, output.len());
        let (row, image) = (self.output[1] * self.input[2], self.input.iter().product::<usize>());
        if output.is_empty() {
            return;
        }
        let nanoseconds = (output.len() * self.kernel[0] * self.kernel[1]) as f64 / 16.0;
        let rows = self.batches * self.output[0];
        let is_divided = !cfg!(attache_small)
            && self.output[1] == 1
            && rows < engine.parallel.threads()
            && row % CHANNELS == 0
            && engine.tasks(nanoseconds, rows * (row / CHANNELS)) > 1;
        let (unit, units) = if is_divided { (CHANNELS, row / CHANNELS) } else { (row, 1) };
        engine.for_each_part(output, unit, engine.tasks(nanoseconds, rows * units), |first, output| {
            for (index, output) in (first..).zip(output.chunks_exact_mut(unit)) {
                let (batch, y) = (index / units / self.output[0], index / units % self.output[0]);
                kernel(&input[batch * image..][..image], y, index % units * unit, output);
            }
        });
    }
}

/// Channels of a part of a pixel.
const CHANNELS: usize = 64;

/// Writes the mean of each window's input pixels, clamped to the bounds of `pooling`. Padding is not counted;
/// a window entirely in the padding gives 0 before clamping.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn average_pool(engine: Engine, pooling: &Pooling, input: &[f32], output: &mut [f32]) {
    pooling.for_each_row(&engine, input, output, |image, y, channel, output| {
        engine.isa.dispatch(Row::<Sum> { pooling, image, y, channel, output, fold: PhantomData });
    });
}

/// Writes the maximum of each window's input pixels, clamped to the bounds of `pooling`. A window entirely in
/// the padding gives the lowest finite float before clamping.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn max_pool(engine: Engine, pooling: &Pooling, input: &[f32], output: &mut [f32]) {
    pooling.for_each_row(&engine, input, output, |image, y, channel, output| {
        engine.isa.dispatch(Row::<Maximum> { pooling, image, y, channel, output, fold: PhantomData });
    });
}

/// Writes the maximum of each window, clamped to the bounds of `pooling`, to `output`, and its position in
/// the window to `indices`: `row × kernel width + column`, the first one if several are equal.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn max_pool_with_argmax(pooling: &Pooling, input: &[f32], output: &mut [f32], indices: &mut [i32]) {
    pooling.check(input, output.len());
    assert_eq!(indices.len(), output.len(), "an index per output");
    let [height, width, channels] = pooling.input;
    if output.is_empty() {
        return;
    }
    output.fill(f32::MIN);
    indices.fill(0);
    let pixels = output.chunks_exact_mut(channels).zip(indices.chunks_exact_mut(channels));
    for (pixel, (output, indices)) in pixels.enumerate() {
        let (batch, y, x) = (
            pixel / (pooling.output[0] * pooling.output[1]),
            pixel / pooling.output[1] % pooling.output[0],
            pixel % pooling.output[1],
        );
        let ((rows, above), (columns, left)) = (pooling.window(0, y), pooling.window(1, x));
        for (iy, ix) in rows.clone().flat_map(|iy| columns.clone().map(move |ix| (iy, ix))) {
            let index = (iy - rows.start + above) * pooling.kernel[1] + ix - columns.start + left;
            let source = &input[((batch * height + iy) * width + ix) * channels..][..channels];
            for ((value, best), argmax) in source.iter().zip(output.iter_mut()).zip(indices.iter_mut()) {
                if *value > *best {
                    (*best, *argmax) = (*value, index as i32);
                }
            }
        }
        output.iter_mut().for_each(|value| *value = math::clamp(*value, pooling.clamp.0, pooling.clamp.1));
    }
}

/// A reduction of a window's pixels: their sum or maximum.
trait Fold {
    const START: f32;
    fn step<S: Simd>(simd: S, total: S::Vector, value: S::Vector) -> S::Vector;
    /// Returns the factor by which the reduction of `count` pixels is multiplied at the end.
    fn scale(count: usize) -> f32;
}

struct Sum;
impl Fold for Sum {
    const START: f32 = 0.0;
    #[inline(always)]
    fn step<S: Simd>(simd: S, total: S::Vector, value: S::Vector) -> S::Vector {
        simd.add(total, value)
    }
    #[inline(always)]
    fn scale(count: usize) -> f32 {
        1.0 / count.max(1) as f32
    }
}

struct Maximum;
impl Fold for Maximum {
    const START: f32 = f32::MIN;
    #[inline(always)]
    fn step<S: Simd>(simd: S, total: S::Vector, value: S::Vector) -> S::Vector {
        simd.maximum(total, value)
    }
    #[inline(always)]
    fn scale(_: usize) -> f32 {
        1.0
    }
}

/// Vectors of channels that are computed together, because each sum waits for its last value.
const TOGETHER: usize = if cfg!(attache_small) { 1 } else { 4 };

/// Kernel that computes one row of windows, or of one window the channels from `channel` on.
struct Row<'a, F> {
    pooling: &'a Pooling,
    image: &'a [f32],
    y: usize,
    channel: usize,
    output: &'a mut [f32],
    fold: PhantomData<F>,
}

impl<F: Fold> Multiversioned for Row<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let output = std::mem::take(&mut self.output);
        let channels = self.pooling.input[2].min(output.len());
        for (x, output) in output.chunks_exact_mut(channels).enumerate() {
            let whole = if TOGETHER == 1 { 0 } else { channels / (TOGETHER * S::LANES) * (TOGETHER * S::LANES) };
            let (together, rest) = output.split_at_mut(whole);
            for (index, output) in together.chunks_exact_mut(TOGETHER * S::LANES).enumerate() {
                self.window::<S, TOGETHER>(simd, x, self.channel + index * TOGETHER * S::LANES, output);
            }
            for (index, output) in rest.chunks_mut(S::LANES).enumerate() {
                self.window::<S, 1>(simd, x, self.channel + whole + index * S::LANES, output);
            }
        }
    }
}

impl<F: Fold> Row<'_, F> {
    /// Computes the channels from `channel` on of window `x`: `VECTORS` whole vectors, or a part of one.
    #[inline(always)]
    fn window<S: Simd, const VECTORS: usize>(&self, simd: S, x: usize, channel: usize, output: &mut [f32]) {
        let [_, width, channels] = self.pooling.input;
        let ((rows, _), (columns, _)) = (self.pooling.window(0, self.y), self.pooling.window(1, x));
        let mut totals = [simd.splat(F::START); VECTORS];
        for y in rows.clone() {
            for x in columns.clone() {
                let start = (y * width + x) * channels + channel;
                let pixel = &self.image[start..start + output.len()];
                for (total, values) in totals.iter_mut().zip(pixel.chunks(S::LANES)) {
                    *total = F::step(simd, *total, simd.load_slice(values));
                }
            }
        }
        let scale = simd.splat(F::scale(rows.len() * columns.len()));
        let (lower, upper) = (simd.splat(self.pooling.clamp.0), simd.splat(self.pooling.clamp.1));
        for (total, output) in totals.into_iter().zip(output.chunks_mut(S::LANES)) {
            let result = simd.multiply_add(total, scale, simd.splat(0.0));
            simd.store_slice(output, simd.clamp(result, lower, upper));
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Padding, Serial};

    use super::*;
    use crate::Isa;
    use crate::testing::{Random, assert_close};

    #[test]
    fn threads_share_the_channels_of_a_pixel() {
        let (pool, mut random) = (attache_base::Pool::new(3), Random::new(10));
        for (batches, channels) in [(1, 192), (2, 320), (1, 100), (4, 64)] {
            let (input, output, kernel) = ([30, 40, channels], [1, 1], [30, 40]);
            let clamp = (-0.5, 0.75);
            let pooling = Pooling { batches, input, output, kernel, strides: [1, 1], before: [0, 0], clamp };
            let input = random.floats(batches * 30 * 40 * channels);
            let pooled = |engine: Engine| {
                let mut outputs = [(); 2].map(|()| vec![9.0; batches * channels]);
                average_pool(engine, &pooling, &input, &mut outputs[0]);
                max_pool(engine, &pooling, &input, &mut outputs[1]);
                outputs
            };
            assert_eq!(pooled(Engine::new(&pool)), pooled(Engine::new(&Serial)), "{batches} × {channels}");
        }
    }

    #[test]
    fn every_isa_matches_the_loop_over_windows() {
        let mut random = Random::new(9);
        for round in 0..300 {
            let isa = Isa::available()[round % Isa::available().len()];
            let ([h, w], kernel) =
                ([1 + random.below(9), 1 + random.below(9)], [1 + random.below(4), 1 + random.below(4)]);
            let (strides, channels) = ([1 + random.below(3), 1 + random.below(3)], 1 + random.below(40));
            let padding = if random.below(2) == 0 { Padding::Same } else { Padding::Valid };
            let [rows, columns] = [0, 1].map(|a| padding.window([h, w][a], kernel[a], strides[a], 1).unwrap());
            let pooling = Pooling {
                batches: 2,
                input: [h, w, channels],
                output: [rows.output, columns.output],
                kernel,
                strides,
                before: [rows.before, columns.before],
                clamp: (-0.5, 0.75),
            };
            let input = random.floats(2 * h * w * channels);
            let length = 2 * rows.output * columns.output * channels;
            let (mut average, mut maximum, mut index) = (vec![], vec![], vec![]);
            for i in 0..length {
                let (pixel, c) = (i / channels, i % channels);
                let (y, x) = (pixel / columns.output % rows.output, pixel % columns.output);
                let (mut sum, mut count, mut best) = (0.0, 0.0, (f32::MIN, 0));
                for tap in 0..kernel[0] * kernel[1] {
                    let iy = (y * strides[0] + tap / kernel[1]).wrapping_sub(rows.before);
                    let ix = (x * strides[1] + tap % kernel[1]).wrapping_sub(columns.before);
                    if iy < h && ix < w {
                        let batch = pixel / (rows.output * columns.output);
                        let value = input[((batch * h + iy) * w + ix) * channels + c];
                        (sum, count) = (sum + value, count + 1.0);
                        if value > best.0 {
                            best = (value, tap as i32);
                        }
                    }
                }
                average.push((sum / count).clamp(-0.5, 0.75));
                maximum.push(best.0.clamp(-0.5, 0.75));
                index.push(best.1);
            }
            let engine = Engine { isa, parallel: &Serial };
            let mut output = vec![0.0; length];
            average_pool(engine, &pooling, &input, &mut output);
            assert_close(&output, &average, 1e-6, || format!("{pooling:?}"));
            max_pool(engine, &pooling, &input, &mut output);
            assert_eq!(output, maximum);
            let mut indices = vec![0; length];
            max_pool_with_argmax(&pooling, &input, &mut output, &mut indices);
            assert_eq!((output, indices), (maximum, index));
        }
    }
}
