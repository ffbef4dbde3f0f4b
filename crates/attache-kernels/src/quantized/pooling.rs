//! Pooling of stored numbers of one scale: the rounded mean and the maximum of sliding windows, padding left out.

use super::Stored;
use crate::Engine;
use crate::pooling::Pooling;
use crate::simd::{Kernel, Simd};

/// The mean of each window's pixels, rounded, halves away from zero, within `bounds`. A window wholly in padding gives 0.
pub fn average_pool<T: Stored>(
    engine: Engine,
    pooling: &Pooling,
    input: &[T],
    output: &mut [T],
    (low, high): (i32, i32),
) {
    let finish = |sum: i32, count: i32| {
        let half = if sum > 0 { count / 2 } else { -(count / 2) };
        T::saturate(((sum + half) / count).max(low).min(high))
    };
    run::<T, Sum>(engine, pooling, input, output, finish);
}

/// The maximum of each window's pixels, within `bounds`. A window wholly in padding gives the least number.
pub fn max_pool<T: Stored>(engine: Engine, pooling: &Pooling, input: &[T], output: &mut [T], (low, high): (i32, i32)) {
    run::<T, Maximum>(engine, pooling, input, output, |largest, _| T::saturate(largest.max(low).min(high)));
}

/// How a window's pixels become one.
trait Fold {
    fn start<T: Stored>() -> i32;
    fn step(total: i32, value: i32) -> i32;
}

struct Sum;
impl Fold for Sum {
    fn start<T: Stored>() -> i32 {
        0
    }
    #[inline(always)]
    fn step(total: i32, value: i32) -> i32 {
        total + value
    }
}

struct Maximum;
impl Fold for Maximum {
    fn start<T: Stored>() -> i32 {
        T::LEAST
    }
    #[inline(always)]
    fn step(total: i32, value: i32) -> i32 {
        total.max(value)
    }
}

fn run<T: Stored, F: Fold>(
    engine: Engine,
    pooling: &Pooling,
    input: &[T],
    output: &mut [T],
    finish: impl Fn(i32, i32) -> T + Sync,
) {
    pooling.for_each_row(&engine, input, output, |image, y, output| {
        let channels = pooling.input[2];
        let mut totals = vec![0; channels];
        let (rows, _) = pooling.window(0, y);
        for (x, output) in output.chunks_exact_mut(channels).enumerate() {
            let (columns, _) = pooling.window(1, x);
            totals.fill(F::start::<T>());
            for row in rows.clone() {
                let start = (row * pooling.input[1] + columns.start) * channels;
                let pixels = &image[start..start + columns.len() * channels];
                engine.level.dispatch(Add::<T, F> { pixels, totals: &mut totals, fold: std::marker::PhantomData });
            }
            let count = (rows.len() * columns.len()).max(1) as i32;
            output.iter_mut().zip(&totals).for_each(|(value, total)| *value = finish(*total, count));
        }
    });
}

/// Folds pixels into totals, one for each channel.
struct Add<'a, T, F> {
    pixels: &'a [T],
    totals: &'a mut [i32],
    fold: std::marker::PhantomData<F>,
}

impl<T: Stored, F: Fold> Kernel for Add<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for pixel in self.pixels.chunks_exact(self.totals.len()) {
            for (total, value) in self.totals.iter_mut().zip(pixel) {
                *total = F::step(*total, (*value).into());
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
}
