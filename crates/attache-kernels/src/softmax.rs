//! Softmax and log-softmax over the last axis.

use crate::simd::{Multiversioned, Simd};
use crate::{Engine, math};

/// Writes the softmax `e^(beta (x − max)) / Σ e^(beta (x − max))` of each row of `depth` elements.
///
/// # Panics
///
/// Panics if the lengths differ or are not a multiple of `depth`.
pub fn softmax(engine: Engine, input: &[f32], output: &mut [f32], depth: usize, beta: f32) {
    for_each_row(engine, input, output, depth, |input, output| engine.isa.dispatch(Softmax { input, output, beta }));
}

/// Writes the log-softmax `x − max − ln Σ e^(x − max)` of each row of `depth` elements.
///
/// # Panics
///
/// Panics if the lengths differ or are not a multiple of `depth`.
pub fn log_softmax(engine: Engine, input: &[f32], output: &mut [f32], depth: usize) {
    for_each_row(engine, input, output, depth, |input, output| engine.isa.dispatch(LogSoftmax { input, output }));
}

fn for_each_row(
    engine: Engine,
    input: &[f32],
    output: &mut [f32],
    depth: usize,
    row: impl Fn(&[f32], &mut [f32]) + Sync,
) {
    assert_eq!(input.len(), output.len(), "input and output have one shape");
    if input.is_empty() {
        return;
    }
    assert!(depth > 0 && input.len().is_multiple_of(depth), "whole rows");
    let rows = input.len() / depth;
    let band = rows.div_ceil(engine.tasks(input.len() as f64, rows)) * depth;
    engine.for_each_chunk(output, band, |task, output| {
        for (input, output) in input[task * band..].chunks_exact(depth).zip(output.chunks_exact_mut(depth)) {
            row(input, output);
        }
    });
}

/// Number of independent accumulators with which a row's maximum or sum is computed, so that the loop
/// vectorizes.
const PARTS: usize = 32; // a power of two

#[inline(always)]
fn maximum(values: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if a > b { a } else { b };
    let mut parts = [f32::NEG_INFINITY; PARTS];
    let chunks = values.chunks_exact(PARTS);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part = larger(*part, *value);
        }
    }
    rest.iter().fold(math::fold_halves(parts, larger), |a, b| larger(a, *b))
}

/// Writes `e^(beta (x − max))` for each element of a row and returns the sum of these exponentials.
#[inline(always)]
fn exponentials(input: &[f32], output: &mut [f32], beta: f32) -> f32 {
    let largest = maximum(input);
    for (value, x) in output.iter_mut().zip(input) {
        *value = math::exp(beta * (*x - largest));
    }
    let mut parts = [0f32; PARTS];
    let chunks = output.chunks_exact(PARTS);
    let rest: f32 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (part, value) in parts.iter_mut().zip(chunk) {
            *part += value;
        }
    }
    math::fold_halves(parts, |a, b| a + b) + rest
}

struct Softmax<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
    beta: f32,
}

impl Multiversioned for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let sum = exponentials(self.input, self.output, self.beta);
        let scale = 1.0 / sum;
        self.output.iter_mut().for_each(|value| *value *= scale);
    }
}

struct LogSoftmax<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
}

impl Multiversioned for LogSoftmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let logarithm = exponentials(self.input, self.output, 1.0).ln();
        let largest = maximum(self.input);
        for (value, x) in self.output.iter_mut().zip(self.input) {
            *value = (*x - largest) - logarithm;
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::Isa;
    use crate::testing::{Random, assert_close};

    #[test]
    fn every_isa_matches_float64() {
        let mut random = Random::new(10);
        for isa in Isa::available() {
            for depth in [1, 2, 15, 33, 1001] {
                let input: Vec<f32> = random.floats(3 * depth).iter().map(|x| x * 30.0).collect();
                let (mut expected, mut logarithms) = (vec![], vec![]);
                for row in input.chunks(depth) {
                    let largest = row.iter().copied().fold(f32::MIN, f32::max);
                    let sum = |beta: f64| row.iter().map(|x| (beta * f64::from(x - largest)).exp()).sum::<f64>();
                    expected.extend(row.iter().map(|x| ((0.5 * f64::from(x - largest)).exp() / sum(0.5)) as f32));
                    logarithms.extend(row.iter().map(|x| (f64::from(x - largest) - sum(1.0).ln()) as f32));
                }
                let engine = Engine { isa, parallel: &Serial };
                let mut output = vec![0.0; input.len()];
                softmax(engine, &input, &mut output, depth, 0.5);
                assert_close(&output, &expected, 1e-6, || format!("{} {depth}", isa.name()));
                log_softmax(engine, &input, &mut output, depth);
                assert_close(&output, &logarithms, 1e-6, || format!("{} {depth}", isa.name()));
            }
        }
    }

    #[test]
    fn not_a_number_fills_its_row() {
        let mut output = [0.0; 4];
        softmax(Engine::new(&Serial), &[1.0, f32::NAN, 1.0, 1.0], &mut output, 2, 1.0);
        assert!(output[0].is_nan() && output[1].is_nan());
        assert_eq!(output[2..], [0.5, 0.5]);
    }
}
