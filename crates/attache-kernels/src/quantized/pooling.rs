//! Pooling of quantized elements with equal input and output scale: rounded average and maximum of sliding windows.
//! Padding is excluded from the windows.

use std::ops::{Add, Div, Sub};

use super::Stored;
use crate::Engine;
use crate::pooling::Pooling;
use crate::simd::{Multiversioned, Simd};

/// Writes the average of each window's pixels, rounded with ties away from zero and clamped to `bounds`. A
/// window entirely in the padding gives 0 before clamping. Sums never wrap.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn average_pool<T: Stored>(engine: Engine, pooling: &Pooling, input: &[T], output: &mut [T], bounds: (i32, i32)) {
    T::average_pool(engine, pooling, input, output, bounds);
}

pub(super) fn average_pool_of<T: Stored>(
    engine: Engine,
    pooling: &Pooling,
    input: &[T],
    output: &mut [T],
    bounds: (i32, i32),
) {
    match sums_fit_32_bits::<T>(pooling.kernel) {
        true => run::<T, i32, Sum>(engine, pooling, input, output, |sum, count| mean(sum, count as i32, bounds)),
        false => run::<T, i64, Sum>(engine, pooling, input, output, |sum, count| mean(sum, count as i64, bounds)),
    }
}

/// Whether the sum of a window of this height and width, plus half of the number of its elements, fits in 32 bits.
pub fn sums_fit_32_bits<T: Stored>([height, width]: [usize; 2]) -> bool {
    let largest = T::LEAST.unsigned_abs().max(T::MOST.unsigned_abs()) as usize + 1;
    height.checked_mul(width).and_then(|count| count.checked_mul(largest)).is_some_and(|sum| sum <= i32::MAX as usize)
}

/// Returns the quotient of a sum and a nonzero count, rounded with ties away from zero and clamped.
fn mean<T: Stored, A: Total>(sum: A, count: A, (low, high): (i32, i32)) -> T {
    let half = count / A::from(2);
    let nudged = if sum > A::from(0) { sum + half } else { sum - half };
    T::saturate((nudged / count).narrow().max(low).min(high))
}

/// The type in which a window's pixels are accumulated: `i32`, or `i64` if sums may not fit.
trait Total: Copy + Ord + From<i32> + Add<Output = Self> + Sub<Output = Self> + Div<Output = Self> + Send + Sync {
    /// Converts a total that is in the range of the quantized type to `i32`.
    fn narrow(self) -> i32;
}

impl Total for i32 {
    #[inline(always)]
    fn narrow(self) -> i32 {
        self
    }
}

impl Total for i64 {
    #[inline(always)]
    fn narrow(self) -> i32 {
        self as i32
    }
}

/// Writes the maximum of each window's pixels, clamped to `bounds`. A window entirely in the padding gives
/// the smallest value of the type before clamping.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn max_pool<T: Stored>(engine: Engine, pooling: &Pooling, input: &[T], output: &mut [T], bounds: (i32, i32)) {
    T::max_pool(engine, pooling, input, output, bounds);
}

pub(super) fn max_pool_of<T: Stored>(
    engine: Engine,
    pooling: &Pooling,
    input: &[T],
    output: &mut [T],
    (low, high): (i32, i32),
) {
    run::<T, i32, Maximum>(engine, pooling, input, output, |largest, _| T::saturate(largest.max(low).min(high)));
}

/// A reduction of a window's pixels: their sum or maximum.
trait Fold {
    fn start<T: Stored>() -> i32;
    fn step<A: Total>(total: A, value: A) -> A;
}

struct Sum;
impl Fold for Sum {
    fn start<T: Stored>() -> i32 {
        0
    }
    #[inline(always)]
    fn step<A: Total>(total: A, value: A) -> A {
        total + value
    }
}

struct Maximum;
impl Fold for Maximum {
    fn start<T: Stored>() -> i32 {
        T::LEAST
    }
    #[inline(always)]
    fn step<A: Total>(total: A, value: A) -> A {
        total.max(value)
    }
}

fn run<T: Stored, A: Total, F: Fold>(
    engine: Engine,
    pooling: &Pooling,
    input: &[T],
    output: &mut [T],
    finish: impl Fn(A, usize) -> T + Sync,
) {
    pooling.for_each_row(&engine, input, output, |image, y, channel, output| {
        let channels = pooling.input[2];
        let mut totals = vec![A::from(0); channels.min(output.len())];
        let (rows, _) = pooling.window(0, y);
        for (x, output) in output.chunks_exact_mut(totals.len()).enumerate() {
            let (columns, _) = pooling.window(1, x);
            totals.fill(F::start::<T>().into());
            for row in rows.clone() {
                let start = (row * pooling.input[1] + columns.start) * channels;
                let pixels = &image[start..start + columns.len() * channels];
                let (totals, fold) = (&mut totals[..], std::marker::PhantomData);
                engine.isa.dispatch(Step::<T, A, F> { pixels, channels: [channels, channel], totals, fold });
            }
            let count = (rows.len() * columns.len()).max(1);
            output.iter_mut().zip(&totals).for_each(|(value, total)| *value = finish(*total, count));
        }
    });
}

/// Kernel that accumulates pixels into one total per channel.
struct Step<'a, T, A, F> {
    pixels: &'a [T],
    /// The number of channels of a pixel, and the one of the first total.
    channels: [usize; 2],
    totals: &'a mut [A],
    fold: std::marker::PhantomData<F>,
}

impl<T: Stored, A: Total, F: Fold> Multiversioned for Step<'_, T, A, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for pixel in self.pixels.chunks_exact(self.channels[0]) {
            for (total, value) in self.totals.iter_mut().zip(&pixel[self.channels[1]..]) {
                *total = F::step(*total, A::from((*value).into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    #[test]
    fn windows_are_cut_at_the_border() {
        let pooling = Pooling {
            batches: 1,
            input: [2, 3, 2],
            output: [1, 2],
            kernel: [2, 2],
            strides: [2, 2],
            before: [0, 0],
            clamp: (0.0, 0.0),
        };
        let input: [i8; 12] = [1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 7, -7];
        let mut output = [0i8; 4];
        average_pool(Engine::new(&Serial), &pooling, &input, &mut output, (-4, 127));
        assert_eq!(output, [3, -3, 5, -4]);
        max_pool(Engine::new(&Serial), &pooling, &input, &mut output, (-128, 6));
        assert_eq!(output, [5, -1, 6, -3]);
    }

    #[test]
    fn threads_share_the_channels_of_a_pixel() {
        let (pool, mut random) = (attache_base::Pool::new(3), crate::testing::Random::new(11));
        for (batches, channels) in [(1, 192), (2, 320), (1, 100), (4, 64)] {
            let (input, output, kernel) = ([30, 40, channels], [1, 1], [30, 40]);
            let clamp = (0.0, 0.0);
            let pooling = Pooling { batches, input, output, kernel, strides: [1, 1], before: [0, 0], clamp };
            let input = random.bytes(batches * 30 * 40 * channels);
            let pooled = |engine: Engine| {
                let mut outputs = [(); 2].map(|()| vec![9u8; batches * channels]);
                average_pool(engine, &pooling, &input, &mut outputs[0], (0, 255));
                max_pool(engine, &pooling, &input, &mut outputs[1], (0, 255));
                outputs
            };
            assert_eq!(pooled(Engine::new(&pool)), pooled(Engine::new(&Serial)), "{batches} × {channels}");
        }
    }

    #[test]
    fn means_of_large_windows_do_not_wrap() {
        fn check<T: Stored>(side: usize, value: i32) {
            let pooling = Pooling {
                batches: 1,
                input: [side, side, 1],
                output: [1, 1],
                kernel: [side, side],
                strides: [1, 1],
                before: [0, 0],
                clamp: (0.0, 0.0),
            };
            let (input, mut output) = (vec![T::saturate(value); side * side], [T::saturate(0)]);
            average_pool(Engine::new(&Serial), &pooling, &input, &mut output, (T::LEAST, T::MOST));
            let mean: i32 = output[0].into();
            assert_eq!(mean, value, "{side} × {side}");
        }
        for side in [255, 256, 257, 300] {
            check::<i16>(side, 32_767);
            check::<i16>(side, -32_768);
        }
        check::<u8>(2902, 255); // 2³¹ / 255 is 2902²
        check::<i8>(4097, -128);
    }
}
