//! Softmax and log-softmax over the last axis.

use crate::simd::{Multiversioned, Simd};
use crate::{Engine, math};

/// Writes the softmax `e^(beta (x − max)) / Σ e^(beta (x − max))` of each row of `depth` elements.
///
/// # Panics
///
/// Panics if the lengths differ or are not a multiple of `depth`.
pub fn softmax(engine: Engine, input: &[f32], output: &mut [f32], depth: usize, beta: f32) {
    for_each_block(engine, input, output, depth, |input, output| {
        engine.isa.dispatch(Softmax { input, output, depth, beta });
    });
}

/// Writes the log-softmax `x − max − ln Σ e^(x − max)` of each row of `depth` elements.
///
/// # Panics
///
/// Panics if the lengths differ or are not a multiple of `depth`.
pub fn log_softmax(engine: Engine, input: &[f32], output: &mut [f32], depth: usize) {
    for_each_block(engine, input, output, depth, |input, output| {
        engine.isa.dispatch(LogSoftmax { input, output, depth });
    });
}

/// Calls `block` with several whole rows of the input and of the output at a time.
fn for_each_block(
    engine: Engine,
    input: &[f32],
    output: &mut [f32],
    depth: usize,
    block: impl Fn(&[f32], &mut [f32]) + Sync,
) {
    assert_eq!(input.len(), output.len(), "input and output have one shape");
    if input.is_empty() {
        return;
    }
    assert!(depth > 0 && input.len().is_multiple_of(depth), "whole rows");
    let rows = input.len() / depth;
    let band = rows.div_ceil(engine.tasks(input.len() as f64 * 0.5, rows)) * depth;
    let length = (BLOCK / depth).max(1) * depth;
    engine.for_each_chunk(output, band, |task, output| {
        for (input, output) in input[task * band..].chunks(length).zip(output.chunks_mut(length)) {
            block(&input[..output.len()], output);
        }
    });
}

/// Elements of the rows whose exponentials are computed together, so that short rows fill vectors and the elements stay in
/// the first-level cache.
const BLOCK: usize = 2048;

/// Number of independent accumulators of a row's maximum or sum.
const PARTS: usize = 2;

/// Returns the greatest element of a row.
#[inline(always)]
fn maximum<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let mut parts = [simd.splat(f32::NEG_INFINITY); PARTS];
    let mut chunks = row.chunks_exact(PARTS * S::LANES);
    for chunk in chunks.by_ref() {
        for (part, vector) in parts.iter_mut().zip(chunk.chunks_exact(S::LANES)) {
            *part = simd.maximum(simd.load_slice(vector), *part);
        }
    }
    for vector in chunks.remainder().chunks_exact(S::LANES) {
        parts[0] = simd.maximum(simd.load_slice(vector), parts[0]);
    }
    if let Some(last) = row.len().checked_sub(S::LANES) {
        parts[1] = simd.maximum(simd.load_slice(&row[last..]), parts[1]);
        return simd.greatest(simd.maximum(parts[0], parts[1]));
    }
    row.iter().fold(f32::NEG_INFINITY, |a, b| if a > *b { a } else { *b })
}

/// Returns the sum of the elements of a row.
#[inline(always)]
fn sum<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let mut parts = [simd.splat(0.0); PARTS];
    add(simd, row, &mut parts);
    simd.sum(simd.add(parts[0], parts[1]))
}

/// Adds the elements of a row, or of a chunk of it, to the accumulators of its sum.
#[inline(always)]
fn add<S: Simd>(simd: S, row: &[f32], parts: &mut [S::Vector; PARTS]) {
    let mut chunks = row.chunks_exact(PARTS * S::LANES);
    for chunk in chunks.by_ref() {
        for (part, vector) in parts.iter_mut().zip(chunk.chunks_exact(S::LANES)) {
            *part = simd.add(simd.load_slice(vector), *part);
        }
    }
    for vector in chunks.remainder().chunks(S::LANES) {
        parts[0] = simd.add(simd.load_slice(vector), parts[0]);
    }
}

/// Writes `e^(beta (x − max))` for each element of several rows of `depth` elements.
#[inline(always)]
fn exponentials<S: Simd>(simd: S, input: &[f32], output: &mut [f32], depth: usize, beta: f32) {
    for (input, output) in input.chunks_exact(depth).zip(output.chunks_exact_mut(depth)) {
        // The difference first: exponents of large elements would keep the rounding of their products with beta.
        let (scale, plus, zero) = (simd.splat(beta), simd.splat(-maximum(simd, input)), simd.splat(0.0));
        for (input, output) in input.chunks_exact(S::LANES).zip(output.chunks_exact_mut(S::LANES)) {
            simd.store_slice(output, simd.multiply_add(simd.add(simd.load_slice(input), plus), scale, zero));
        }
        // The last vector again, because loads would wait for a masked store.
        let last = depth.saturating_sub(S::LANES);
        let vector = simd.add(simd.load_slice(&input[last..]), plus);
        simd.store_slice(&mut output[last..], simd.multiply_add(vector, scale, zero));
    }
    for value in output {
        *value = math::exp_between::<S>(*value);
    }
}

/// Elements of a row from which on its exponentials are added as they are computed. Shorter rows are computed together, so that
/// none waits for another one's sum.
const LONG: usize = 512;

/// Elements whose exponentials are computed and added at a time in long rows.
const CHUNK: usize = 64;

/// Writes `e^(beta (x − max))` for each element of a row, and returns the sum of these.
#[inline(always)]
fn exponentials_and_sum<S: Simd>(simd: S, input: &[f32], output: &mut [f32], beta: f32) -> f32 {
    let (largest, mut parts) = (maximum(simd, input), [simd.splat(0.0); PARTS]);
    let ((chunks, rest), (outputs, last)) = (input.as_chunks::<CHUNK>(), output.as_chunks_mut::<CHUNK>());
    for (input, output) in chunks.iter().zip(outputs) {
        exponentials_of_chunk::<S>(input, output, largest, beta);
        add(simd, output, &mut parts);
    }
    if !rest.is_empty() {
        let (mut input, mut output) = ([largest; CHUNK], [0.0; CHUNK]);
        input[..rest.len()].copy_from_slice(rest);
        exponentials_of_chunk::<S>(&input, &mut output, largest, beta);
        last.copy_from_slice(&output[..rest.len()]);
        add(simd, last, &mut parts);
    }
    simd.sum(simd.add(parts[0], parts[1]))
}

#[inline(always)]
fn exponentials_of_chunk<S: Simd>(input: &[f32; CHUNK], output: &mut [f32; CHUNK], largest: f32, beta: f32) {
    for (value, x) in output.iter_mut().zip(input) {
        *value = math::exp_between::<S>((x - largest) * beta);
    }
}

struct Softmax<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
    depth: usize,
    beta: f32,
}

impl Multiversioned for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { input, output, depth, beta } = self;
        let is_long = depth >= LONG && !cfg!(attache_small);
        if !is_long {
            exponentials(simd, input, output, depth, beta);
        }
        for (input, row) in input.chunks_exact(depth).zip(output.chunks_exact_mut(depth)) {
            let sum = if is_long { exponentials_and_sum(simd, input, row, beta) } else { sum(simd, row) };
            let (scale, zero) = (simd.splat(1.0 / sum), simd.splat(0.0));
            let last = depth.saturating_sub(S::LANES);
            let scaled = simd.multiply_add(simd.load_slice(&row[last..]), scale, zero);
            for values in row.chunks_exact_mut(S::LANES) {
                let vector = simd.load_slice(values);
                simd.store_slice(values, simd.multiply_add(vector, scale, zero));
            }
            simd.store_slice(&mut row[last..], scaled);
        }
    }
}

struct LogSoftmax<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
    depth: usize,
}

impl Multiversioned for LogSoftmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        exponentials(simd, self.input, self.output, self.depth, 1.0);
        for (input, output) in self.input.chunks_exact(self.depth).zip(self.output.chunks_exact_mut(self.depth)) {
            let (largest, logarithm) = (maximum(simd, input), sum(simd, output).ln());
            for (value, x) in output.iter_mut().zip(input) {
                *value = (*x - largest) - logarithm;
            }
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
    fn equal_elements_of_any_size_have_equal_parts() {
        for isa in Isa::available() {
            for (beta, x) in [(0.3, -1e10), (0.1, f32::MIN), (0.353_553_38, f32::MIN), (0.7, -1e10), (3.0, 3e38)] {
                let mut output = [9.0; 19];
                softmax(Engine { isa, parallel: &Serial }, &[x; 19], &mut output, 19, beta);
                assert_close(&output, &[1.0 / 19.0; 19], 1e-7, || format!("{} {beta} {x}", isa.name()));
            }
        }
    }

    #[test]
    fn every_isa_matches_float64() {
        let mut random = Random::new(10);
        for isa in Isa::available() {
            for depth in [1, 2, 15, 33, 64, 130, 1001] {
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
