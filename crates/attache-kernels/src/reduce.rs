//! Sum, mean, maximum, minimum and product of f32 elements, and a fold of elements of any type, over any set
//! of axes. Adjacent axes that are both kept or both reduced are merged first, so that the remaining axes
//! alternate between the two.

use crate::simd::{Multiversioned, Simd, run_portable};
use crate::{Engine, math};

/// Maximum extent of a reduced axis (after merging) whose elements are combined strictly in input order.
const SHORT: usize = 1 << 18;

/// The kind of reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum of the elements.
    Sum,
    /// The mean of the elements; NaN if there are none.
    Mean,
    /// The largest element; the lowest finite number if there are none.
    Maximum,
    /// The smallest element; the highest finite number if there are none.
    Minimum,
    /// The product of the elements.
    Product,
}

/// Reduces `input` over the axes of `shape` for which `reduced` is true, and writes `output`, which has the
/// remaining axes in order.
///
/// Up to 262,144 elements are reduced in input order, as in TensorFlow Lite's reference kernels, so that a
/// sum with heavy cancellation has the same rounding errors as the result that users compare with. Longer
/// reductions over adjacent axes are split into partial results, because then rounding errors grow much more
/// slowly than the number of elements.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn reduce(
    engine: Engine,
    reduction: Reduction,
    input: &[f32],
    shape: &[usize],
    reduced: &[bool],
    output: &mut [f32],
) {
    assert_eq!(shape.len(), reduced.len(), "every axis is kept or reduced");
    assert_eq!(input.len(), shape.iter().product::<usize>(), "the input has its shape");
    let pairs = || shape.iter().zip(reduced);
    let kept: usize = pairs().filter(|pair| !pair.1).map(|pair| pair.0).product();
    let count: usize = pairs().filter(|pair| *pair.1).map(|pair| pair.0).product();
    assert_eq!(output.len(), kept, "the output has the axes that are kept");
    if kept == 0 {
        return;
    }
    let axes = merge(shape, reduced);
    match reduction {
        Reduction::Sum => run(engine, Sum, input, &axes, output),
        Reduction::Mean => {
            run(engine, Sum, input, &axes, output);
            output.iter_mut().for_each(|value| *value /= count as f32);
        }
        Reduction::Maximum => run(engine, Maximum, input, &axes, output),
        Reduction::Minimum => split(engine, Minimum, input, &axes, output, |walk| run_portable(walk)),
        Reduction::Product => split(engine, Product, input, &axes, output, |walk| run_portable(walk)),
    }
}

/// Reduces elements of any type over the axes of `shape` for which `reduced` is true. Each output element
/// starts as `start`, and becomes `step(output element, input element)` for each of its input elements in
/// order.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match.
pub fn fold<T: Copy, U: Copy>(
    input: &[T],
    shape: &[usize],
    reduced: &[bool],
    output: &mut [U],
    start: U,
    step: impl Fn(U, T) -> U,
) {
    assert_eq!(input.len(), shape.iter().product::<usize>(), "the input has its shape");
    let kept: usize = shape.iter().zip(reduced).filter(|pair| !pair.1).map(|pair| pair.0).product();
    assert!(output.len() == kept && shape.len() == reduced.len(), "the output has the axes that are kept");
    output.fill(start);
    if !input.is_empty() {
        fold_axes(input, &merge(shape, reduced), output, &step);
    }
}

fn fold_axes<T: Copy, U: Copy>(input: &[T], axes: &[Axis], output: &mut [U], step: &impl Fn(U, T) -> U) {
    let Some((axis, inner)) = axes.split_first() else {
        output[0] = step(output[0], input[0]);
        return;
    };
    let chunk = output.len() / if axis.reduced { 1 } else { axis.extent };
    if inner.is_empty() {
        match axis.reduced {
            true => output[0] = input.iter().fold(output[0], |total, value| step(total, *value)),
            false => output.iter_mut().zip(input).for_each(|(total, value)| *total = step(*total, *value)),
        }
        return;
    }
    for (index, part) in input.chunks_exact(input.len() / axis.extent).enumerate() {
        let start = if axis.reduced { 0 } else { index * chunk };
        fold_axes(part, inner, &mut output[start..start + chunk], step);
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) reduced: bool,
}

/// Returns the axes with extents other than 1, of which neighbours that are both kept or both reduced are merged.
pub(crate) fn merge(shape: &[usize], reduced: &[bool]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for (&extent, &reduced) in shape.iter().zip(reduced).filter(|pair| *pair.0 != 1) {
        match axes.last_mut() {
            Some(last) if last.reduced == reduced => last.extent *= extent,
            _ => axes.push(Axis { extent, reduced }),
        }
    }
    axes
}

fn run<F: Fold>(engine: Engine, fold: F, input: &[f32], axes: &[Axis], output: &mut [f32]) {
    split(engine, fold, input, axes, output, |walk| engine.isa.dispatch(walk));
}

/// Splits the work over threads, each of which calls `compute`.
fn split<F: Fold>(
    engine: Engine,
    fold: F,
    input: &[f32],
    axes: &[Axis],
    output: &mut [f32],
    compute: impl Fn(Walk<'_, F>) + Sync,
) {
    output.fill(if input.is_empty() { F::NOTHING } else { F::START });
    if input.is_empty() {
        return;
    }
    // The outermost axis is split over tasks if it is kept.
    let outer = axes.first().filter(|axis| !axis.reduced).map_or(1, |axis| axis.extent);
    let tasks = engine.tasks(input.len() as f64 / 8.0, outer);
    let part = outer.div_ceil(tasks);
    let (from, to) = (input.len() / outer, output.len() / outer);
    engine.for_each_chunk(output, part * to, |task, output| {
        let count = output.len() / to;
        let input = &input[task * part * from..][..count * from];
        let mut axes = axes.to_vec();
        if outer > 1 {
            axes[0].extent = count;
        }
        compute(Walk { fold, input, axes: &axes, output });
    });
}

trait Fold: Copy + Send + Sync {
    const START: f32;
    /// The result where there are no elements.
    const NOTHING: f32;
    fn step(a: f32, b: f32) -> f32;
}

macro_rules! folds {
    ($($name:ident $start:expr, $nothing:expr, $a:ident $b:ident => $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;
        impl Fold for $name {
            const START: f32 = $start;
            const NOTHING: f32 = $nothing;
            #[inline(always)]
            fn step($a: f32, $b: f32) -> f32 {
                $body
            }
        }
    )*};
}

folds! {
    Sum 0.0, 0.0, a b => a + b;
    Product 1.0, 1.0, a b => a * b;
    Maximum f32::NEG_INFINITY, f32::MIN, a b => if a > b || a.is_nan() { a } else { b };
    Minimum f32::INFINITY, f32::MAX, a b => if a < b || a.is_nan() { a } else { b };
}

struct Walk<'a, F> {
    fold: F,
    input: &'a [f32],
    axes: &'a [Axis],
    output: &'a mut [f32],
}

impl<F: Fold> Multiversioned for Walk<'_, F> {
    type Output = ();
    const WIDE: bool = false;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { fold, input, axes, output } = self;
        match axes {
            [] => output[0] = F::step(output[0], input[0]),
            [Axis { reduced: true, extent }] if *extent <= SHORT => {
                output[0] = input.iter().fold(output[0], |total, value| F::step(total, *value));
            }
            [Axis { reduced: true, .. }] => output[0] = F::step(output[0], total::<F>(input)),
            [Axis { reduced: false, .. }, Axis { reduced: true, extent }] if *extent <= SHORT => {
                short_runs::<S, F>(simd, input, *extent, output);
            }
            [Axis { reduced: false, .. }] => combine::<F>(output, input),
            [Axis { reduced: true, extent }, Axis { reduced: false, .. }] => rows::<F>(input, *extent, output),
            [outer, inner @ ..] => {
                let chunk = output.len() / if outer.reduced { 1 } else { outer.extent };
                for (index, input) in input.chunks_exact(input.len() / outer.extent).enumerate() {
                    let start = if outer.reduced { 0 } else { index * chunk };
                    simd.vectorize(Walk { fold, input, axes: inner, output: &mut output[start..start + chunk] });
                }
            }
        }
    }
}

/// Returns the number of rows per partial result if `count` rows are reduced: all of them up to [`SHORT`],
/// else about as many as there are partial results.
fn block(count: usize) -> usize {
    if count <= SHORT { count.max(1) } else { count.isqrt() }
}

/// Greatest [`Simd::BLOCK`].
const MOST_BLOCK: usize = 8;

/// Reduces each run of `length` adjacent elements, in order, into one element of `output`, starting from the
/// value that it holds. Several runs are interleaved, because each is a chain of dependent steps.
#[inline(always)]
fn short_runs<S: Simd, F: Fold>(simd: S, input: &[f32], length: usize, output: &mut [f32]) {
    let (mut input, mut output) = (input, output);
    while !cfg!(attache_small) && output.len() >= S::BLOCK {
        let blocks = if output.len() >= 4 * S::BLOCK { 4 } else { 1 };
        let (runs, rest) = input.split_at(blocks * S::BLOCK * length);
        let (totals, others) = output.split_at_mut(blocks * S::BLOCK);
        match blocks {
            4 => blocks_of_runs::<S, F, 4>(simd, runs, length, totals),
            _ => blocks_of_runs::<S, F, 1>(simd, runs, length, totals),
        }
        (input, output) = (rest, others);
    }
    // All runs of small libraries; of others less than a block.
    for (input, output) in input.chunks(S::BLOCK * length).zip(output.chunks_mut(S::BLOCK)) {
        step_from::<F>(0, input, length, output);
    }
}

/// Reduces the elements of a few runs from element `first` of each on.
#[inline(always)]
fn step_from<F: Fold>(first: usize, input: &[f32], length: usize, output: &mut [f32]) {
    for index in first..length {
        for (total, run) in output.iter_mut().zip(input.chunks_exact(length)) {
            *total = F::step(*total, run[index]);
        }
    }
}

/// Reduces `BLOCKS` blocks of [`Simd::BLOCK`] runs each.
#[inline(always)]
fn blocks_of_runs<S: Simd, F: Fold, const BLOCKS: usize>(simd: S, input: &[f32], length: usize, output: &mut [f32]) {
    let (mut totals, whole) = ([[0f32; MOST_BLOCK]; BLOCKS], length / S::BLOCK * S::BLOCK);
    for (totals, output) in totals.iter_mut().zip(output.chunks_exact(S::BLOCK)) {
        totals[..S::BLOCK].copy_from_slice(output);
    }
    let mut lines = [[0f32; MOST_BLOCK * MOST_BLOCK]; BLOCKS];
    for start in (0..whole).step_by(S::BLOCK) {
        for (block, lines) in lines.iter_mut().enumerate() {
            simd.transpose_slice(&input[block * S::BLOCK * length + start..], length, lines);
        }
        // One line of each block after the other: the sums of a block are a chain.
        for line in 0..S::BLOCK {
            for (totals, lines) in totals.iter_mut().zip(&lines) {
                for run in 0..S::BLOCK {
                    totals[run] = F::step(totals[run], lines[line * S::BLOCK + run]);
                }
            }
        }
    }
    for (run, total) in output.iter_mut().enumerate() {
        *total = totals[run / S::BLOCK][run % S::BLOCK];
    }
    step_from::<F>(whole, input, length, output);
}

/// Reduces contiguous elements to one value. They are split into stretches, each of which is reduced with 64
/// independent accumulators.
#[inline(always)]
fn total<F: Fold>(values: &[f32]) -> f32 {
    const LANES: usize = 64;
    let mut result = F::START;
    for stretch in values.chunks(LANES * (values.len() / LANES).isqrt().max(64)) {
        let mut lanes = [F::START; LANES];
        let chunks = stretch.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                *lane = F::step(*lane, *value);
            }
        }
        let lanes = math::fold_halves(lanes, F::step);
        result = F::step(result, rest.iter().fold(lanes, |total, value| F::step(total, *value)));
    }
    result
}

#[inline(always)]
fn combine<F: Fold>(output: &mut [f32], input: &[f32]) {
    for (total, value) in output.iter_mut().zip(input) {
        *total = F::step(*total, *value);
    }
}

/// Reduces `count` rows of `output.len()` elements into `output`, starting from the values that it holds.
/// More than [`SHORT`] rows are reduced in blocks, whose results are then reduced.
#[inline(always)]
fn rows<F: Fold>(input: &[f32], count: usize, output: &mut [f32]) {
    let (width, block) = (output.len(), block(count));
    if count <= block {
        input.chunks_exact(width).for_each(|row| combine::<F>(output, row));
        return;
    }
    crate::scratch::with(width, |totals| {
        for block in input.chunks(block * width) {
            totals.fill(F::START);
            block.chunks_exact(width).for_each(|row| combine::<F>(totals, row));
            combine::<F>(output, totals);
        }
    });
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::Isa;
    use crate::testing::{Random, assert_close};

    #[test]
    fn every_isa_and_axis_matches_the_fold() {
        let mut random = Random::new(12);
        let pool = attache_base::Pool::new(2);
        for round in 0..300 {
            let rank = random.below(6);
            let shape: Vec<usize> = (0..rank).map(|_| 1 + random.below(if round % 10 == 0 { 14 } else { 6 })).collect();
            let reduced: Vec<bool> = (0..rank).map(|_| random.below(2) == 0).collect();
            let pairs = || shape.iter().zip(&reduced);
            let kept: usize = pairs().filter(|pair| !pair.1).map(|pair| pair.0).product();
            let count: usize = pairs().filter(|pair| *pair.1).map(|pair| pair.0).product();
            let input = random.floats(shape.iter().product());
            let isa = Isa::available()[round % Isa::available().len()];
            let engine = if round % 7 == 0 { Engine::new(&pool) } else { Engine { isa, parallel: &Serial } };
            let check = |reduction, start: f64, step: fn(f64, f32) -> f64, scale: f64| {
                let (mut expected, mut output) = (vec![0.0; kept], vec![0.0; kept]);
                fold(&input, &shape, &reduced, &mut expected, start, step);
                reduce(engine, reduction, &input, &shape, &reduced, &mut output);
                let expected: Vec<f32> = expected.iter().map(|value| (value * scale) as f32).collect();
                assert_close(&output, &expected, 1e-6, || format!("{reduction:?} {shape:?} {reduced:?}"));
            };
            check(Reduction::Sum, 0.0, |a, b| a + f64::from(b), 1.0);
            check(Reduction::Mean, 0.0, |a, b| a + f64::from(b), 1.0 / count as f64);
            check(Reduction::Maximum, -9.0, |a, b| a.max(f64::from(b)), 1.0);
            check(Reduction::Minimum, 9.0, |a, b| a.min(f64::from(b)), 1.0);
            check(Reduction::Product, 1.0, |a, b| a * f64::from(b), 1.0);
        }
    }

    #[test]
    fn axes_of_nhwc_by_hand() {
        let input: Vec<f32> = (0..12).map(|i| i as f32).collect(); // [1, 2, 3, 2]
        let mut output = [0.0; 2];
        reduce(Engine::new(&Serial), Reduction::Sum, &input, &[1, 2, 3, 2], &[false, true, true, false], &mut output);
        assert_eq!(output, [30.0, 36.0]);
    }

    #[test]
    fn long_sums_keep_their_digits() {
        let ones = vec![0.1f32; 3_000_000];
        for (shape, reduced) in [([1_500_000, 2], [true, false]), ([2, 1_500_000], [false, true])] {
            let mut output = [0.0; 2];
            reduce(Engine::new(&Serial), Reduction::Mean, &ones, &shape, &reduced, &mut output);
            assert!(output.iter().all(|mean| (mean - 0.1).abs() < 1e-6), "{output:?}");
        }
    }
}
