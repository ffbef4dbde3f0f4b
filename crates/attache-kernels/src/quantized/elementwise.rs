//! Element-wise functions of two quantized operands with broadcasting.

use std::sync::OnceLock;

use super::bytes::Unfinished;
use super::epilogue::Requantize;
use super::float_sums::FloatSum;
use super::simd::scale_in_floats;
use super::{Multiplier, Rounding, Stored};
use crate::elementwise::broadcast::{Walk, check};
use crate::simd::{Multiversioned, Simd, run_portable};
use crate::{Engine, Isa};

/// A function of two quantized elements. Its results must be in the range of the output type.
#[derive(Clone, Copy, Debug)]
pub enum IntegerFunction {
    /// The larger of two elements with equal quantization parameters.
    Maximum,
    /// The smaller of two elements with equal quantization parameters.
    Minimum,
    /// The function PReLU.
    Prelu(Prelu),
    /// The product.
    Product(Product),
    /// The sum of 16-bit elements whose scales are powers of two, or their difference.
    ShiftedSum(ShiftedSum),
    /// The square of the difference.
    SquaredDifference(SquaredDifference),
    /// The sum or the difference.
    Sum(Sum),
    /// The product, multiplied by its scale in single precision. Not in libraries that were built to be small.
    ScaledProduct(ScaledProduct),
    /// The sum of the operands times a factor each, rounded once. Not in libraries that were built to be small.
    WeightedSum(WeightedSum),
}

/// An [`IntegerFunction`] as a type, for which its kernel is compiled.
pub(super) trait Formula: Copy + Sync {
    /// Returns the quantized result for two quantized elements.
    fn apply(self, left: i32, right: i32) -> i32;
}

/// Conversion of a function's intermediate result to a quantized element: `result × factor + zero point`,
/// clamped.
#[derive(Clone, Copy, Debug)]
pub struct Finish {
    /// The factor from the scale of the intermediate result to that of the output.
    pub factor: Multiplier,
    /// The output's zero point.
    pub zero_point: i32,
    /// The smallest and the largest permitted output element.
    pub bounds: (i32, i32),
}

impl Finish {
    /// Returns `result × factor + zero point`, clamped. The product is rounded with [`Rounding::Twice`].
    #[inline(always)]
    pub fn apply(self, result: i32) -> i32 {
        let stored = self.factor.apply(result, Rounding::Twice).wrapping_add(self.zero_point);
        stored.max(self.bounds.0).min(self.bounds.1)
    }
}

/// Conversion of an operand to a common scale with additional fraction bits: `((x − zero point) << shift) × factor`.
#[derive(Clone, Copy, Debug)]
pub struct OperandScaling {
    /// The operand's zero point.
    pub zero_point: i32,
    /// Number of additional fraction bits.
    pub shift: u32,
    /// The factor from the operand's scale to the common one.
    pub factor: Multiplier,
}

impl OperandScaling {
    /// Returns the operand at the common scale. The product is rounded with [`Rounding::Twice`].
    #[inline(always)]
    pub fn apply(self, x: i32) -> i32 {
        self.factor.apply((x - self.zero_point).wrapping_shl(self.shift), Rounding::Twice)
    }
}

/// The function `l + r`, or `l − r`, of quantized elements.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// Conversions of `l` and `r` to a common scale.
    pub operands: [OperandScaling; 2],
    /// Whether the right operand is subtracted.
    pub subtract: bool,
    /// Conversion of the sum to the output.
    pub finish: Finish,
}

impl Formula for Sum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let (left, right) = (self.operands[0].apply(left), self.operands[1].apply(right));
        self.finish.apply(if self.subtract { left.wrapping_sub(right) } else { left.wrapping_add(right) })
    }
}

/// The function `l + r` or `l − r` of 16-bit elements whose scales are powers of two. Operands are only
/// shifted, and the sum saturates.
#[derive(Clone, Copy, Debug)]
pub struct ShiftedSum {
    /// Number of bits by which each operand is shifted right, at most 31.
    pub shifts: [u32; 2],
    /// Whether the right operand is subtracted.
    pub subtract: bool,
    /// The smallest and the largest permitted sum.
    pub bounds: (i32, i32),
}

impl Formula for ShiftedSum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let left = super::fixed_point::divide_by_power(left, self.shifts[0]);
        let right = super::fixed_point::divide_by_power(right, self.shifts[1]);
        i32::from(i16::saturate(if self.subtract { left - right } else { left + right }))
            .max(self.bounds.0)
            .min(self.bounds.1)
    }
}

/// The function `l × r` of quantized elements.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// The operands' zero points.
    pub zero_points: [i32; 2],
    /// Conversion of the product to the output.
    pub finish: Finish,
}

impl Formula for Product {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        self.finish.apply((left - self.zero_points[0]).wrapping_mul(right - self.zero_points[1]))
    }
}

/// The function `l × r` of quantized elements. The product is converted to `f32`, multiplied by a scale and rounded once,
/// ties to even.
#[derive(Clone, Copy, Debug)]
pub struct ScaledProduct {
    /// The operands' zero points.
    pub zero_points: [i32; 2],
    /// The factor from the scale of the product to that of the output.
    pub scale: f32,
    /// The output's zero point.
    pub zero_point: i32,
    /// The smallest and the largest permitted output element.
    pub bounds: (i32, i32),
}

impl Formula for ScaledProduct {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let product = (left - self.zero_points[0]).wrapping_mul(right - self.zero_points[1]);
        let range = ((self.bounds.0 - self.zero_point) as f32, (self.bounds.1 - self.zero_point) as f32);
        scale_in_floats(product, self.scale, range) + self.zero_point
    }
}

/// The function `l + r` of quantized elements: `(bias + l × factor + r × factor) / 2^shift`, rounded down, plus the zero
/// point, clamped. A bias of half of the divisor rounds to the nearest number, ties up.
#[derive(Clone, Copy, Debug)]
pub struct WeightedSum {
    /// The factors of the operands.
    pub factors: [i32; 2],
    /// What is added to the products.
    pub bias: i32,
    /// The number of bits by which the sum is shifted right, at most 31.
    pub shift: u32,
    /// The output's zero point.
    pub zero_point: i32,
    /// The smallest and the largest permitted output element.
    pub bounds: (i32, i32),
}

impl Formula for WeightedSum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let sum = left.wrapping_mul(self.factors[0]).wrapping_add(right.wrapping_mul(self.factors[1]));
        let stored = (sum.wrapping_add(self.bias) >> self.shift).wrapping_add(self.zero_point);
        stored.max(self.bounds.0).min(self.bounds.1)
    }
}

/// The function `(l − r)²` of quantized elements.
#[derive(Clone, Copy, Debug)]
pub struct SquaredDifference {
    /// Conversions of `l` and `r` to a common scale.
    pub operands: [OperandScaling; 2],
    /// Conversion of the square to the output.
    pub finish: Finish,
}

impl Formula for SquaredDifference {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let difference = self.operands[0].apply(left).wrapping_sub(self.operands[1].apply(right));
        self.finish.apply(difference.wrapping_mul(difference))
    }
}

/// The function PReLU of quantized elements: `x` if it is not negative, else `x × slope`.
#[derive(Clone, Copy, Debug)]
pub struct Prelu {
    /// The zero points of the input and the slopes.
    pub zero_points: [i32; 2],
    /// Conversion of non-negative inputs to the output.
    pub finish: Finish,
    /// Conversion of products with a slope to the output.
    pub finish_product: Finish,
}

impl Formula for Prelu {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let (x, slope) = (left - self.zero_points[0], right - self.zero_points[1]);
        if x >= 0 { self.finish.apply(x) } else { self.finish_product.apply(x.wrapping_mul(slope)) }
    }
}

#[derive(Clone, Copy)]
struct Maximum;

impl Formula for Maximum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        left.max(right)
    }
}

#[derive(Clone, Copy)]
struct Minimum;

impl Formula for Minimum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        left.min(right)
    }
}

/// Writes `function(left, right)`. Both operands are broadcast to the output's shape.
///
/// # Panics
///
/// Panics if a slice does not match its shape, or if an operand does not broadcast to the output's shape.
pub fn binary<T: Stored>(
    engine: Engine,
    function: IntegerFunction,
    left: (&[T], &[usize]),
    right: (&[T], &[usize]),
    output: (&mut [T], &[usize]),
) {
    T::binary(engine, function, [left, right], output);
}

pub(super) fn binary_of<T: Stored>(
    engine: Engine,
    function: IntegerFunction,
    [(left, left_shape), (right, right_shape)]: [(&[T], &[usize]); 2],
    (output, shape): (&mut [T], &[usize]),
) {
    check(left, left_shape);
    check(right, right_shape);
    check(output, shape);
    if output.is_empty() {
        return;
    }
    let mut walk = Walk::new(shape, [left_shape, right_shape]);
    let repeats = walk.repeats(0, 1, 512);
    let repeated = if repeats > 1 { right.repeat(repeats) } else { Vec::new() };
    let right = if repeats > 1 { &repeated } else { right };
    walk.join(repeats);
    let (rows, length) = (walk.rows(), output.len());
    let are_bytes = T::MOST - T::LEAST == 255 && !cfg!(attache_small);
    if are_bytes && !cfg!(attache_small) && rows == 1 && walk.steps == [1, 1] {
        return Adjacent::new(function).apply(engine, [left, right], output);
    }
    let is_long = are_bytes && length >= LEAST_LONG;
    // The last step of functions of bytes has kernels of its own; to prepare it takes as long as some hundred elements.
    let unfinished = if is_long { Unfinished::of(function) } else { None };
    let each = if unfinished.is_some() { 0.5 } else { 1.0 };
    let parts = engine.tasks(length as f64 * each, length);
    // Each task gets whole rows, or a part of the only row.
    let chunk = if rows > 1 { rows.div_ceil(parts) * walk.row } else { length.div_ceil(parts) };
    let apply = |left: &mut Block, right: &Block, results: &mut [T]| match &unfinished {
        Some((unfinished, requantize)) if !cfg!(attache_small) => {
            unfinished.apply(engine.isa, &mut left[..results.len()], right);
            requantize.words(engine.isa, left, bytemuck::cast_slice_mut(results));
            true
        }
        _ => {
            function.apply(engine.isa, &mut left[..results.len()], right);
            false
        }
    };
    engine.for_each_chunk(output, chunk, |task, output| {
        let operands = [left, right];
        Chunk { operands, walk: &walk, start: task * chunk, output, apply: &apply }.compute(engine.isa);
    });
}

/// A function of bytes for operands without broadcasting.
struct Adjacent {
    function: IntegerFunction,
    floats: Option<FloatSum>,
    /// What computes elements that `floats` leaves, once that is needed.
    unfinished: OnceLock<Option<(Unfinished, Requantize)>>,
}

impl Adjacent {
    fn new(function: IntegerFunction) -> Self {
        let floats = match function {
            IntegerFunction::Sum(sum) => FloatSum::new(sum),
            _ => None,
        };
        Self { function, floats, unfinished: OnceLock::new() }
    }

    fn apply<T: Stored>(&self, engine: Engine, operands: [&[T]; 2], output: &mut [T]) {
        let each = if self.floats.is_some() { 0.2 } else { 0.5 };
        let parts = engine.tasks(output.len() as f64 * each, output.len());
        let chunk = output.len().div_ceil(parts).next_multiple_of(BLOCK);
        engine.for_each_chunk(output, chunk, |task, output| {
            let operands = operands.map(|operand| &operand[task * chunk..][..output.len()]);
            let done = self.floats.map_or(0, |floats| floats.apply(engine.isa, operands, output));
            if done < output.len() {
                self.apply_in_integers(engine.isa, operands.map(|operand| &operand[done..]), &mut output[done..]);
            }
        });
    }

    fn apply_in_integers<T: Stored>(&self, isa: Isa, operands: [&[T]; 2], output: &mut [T]) {
        let ([mut words, mut others], is_long) = ([[0; BLOCK]; 2], output.len() >= LEAST_LONG);
        for (index, results) in output.chunks_mut(BLOCK).enumerate() {
            let [left, right] = operands.map(|operand| &operand[index * BLOCK..][..results.len()]);
            let words = &mut words[..];
            let unfinished = || self.unfinished.get_or_init(|| Unfinished::of(self.function)).as_ref();
            if let Some((unfinished, requantize)) = if is_long { unfinished() } else { None } {
                unfinished.of_elements(isa, [left, right], &mut words[..results.len()]);
                requantize.words(isa, words, bytemuck::cast_slice_mut(results));
            } else {
                run(isa, Widen { operand: left, step: 1, block: &mut words[..results.len()] });
                run(isa, Widen { operand: right, step: 1, block: &mut others[..results.len()] });
                self.function.apply(isa, &mut words[..results.len()], &others);
                run(isa, Truncate { words, results });
            }
        }
    }
}

/// Elements that are computed at a time, so few that they stay in the first-level cache as `i32`.
type Block = [i32; BLOCK];
const BLOCK: usize = 256;

/// Fewest elements for which the last step of a function is prepared.
const LEAST_LONG: usize = 512;

/// Part of the output: whole rows, or a part of the only row, starting at element `start`. It is computed block by
/// block, so that functions are compiled once for all types.
struct Chunk<'a, T> {
    operands: [&'a [T]; 2],
    walk: &'a Walk<2>,
    start: usize,
    output: &'a mut [T],
    /// Replaces elements of the first block, as many as there are results, by the function of them and of those of the
    /// second block. Returns whether it has written the results too.
    apply: &'a dyn Fn(&mut Block, &Block, &mut [T]) -> bool,
}

impl<T: Stored> Chunk<'_, T> {
    fn compute(self, isa: Isa) {
        let Chunk { operands, walk, start, mut output, apply } = self;
        let within = start % walk.row;
        let length = walk.row.min(output.len());
        let rows = output.len() / length;
        let (mut left, mut right, mut filled) = ([0; BLOCK], [0; BLOCK], 0);
        walk.for_each_row(start / walk.row, rows, &mut |offsets| {
            let mut done = 0;
            while done < length {
                let count = (BLOCK - filled).min(length - done);
                for (index, block) in [&mut left, &mut right].into_iter().enumerate() {
                    let step = walk.steps[index];
                    let operand = &operands[index][offsets[index] + (within + done) * step..];
                    run(isa, Widen { operand, step, block: &mut block[filled..][..count] });
                }
                (done, filled) = (done + count, filled + count);
                if filled == BLOCK || filled == output.len() {
                    let (results, rest) = std::mem::take(&mut output).split_at_mut(filled);
                    if !apply(&mut left, &right, results) {
                        run(isa, Truncate { words: &left, results });
                    }
                    (output, filled) = (rest, 0);
                }
            }
        });
    }
}

/// Runs a kernel that only moves elements. The smallest libraries have one version of it.
fn run<K: Multiversioned>(isa: Isa, kernel: K) -> K::Output {
    if cfg!(attache_small) { run_portable(kernel) } else { isa.dispatch(kernel) }
}

/// Kernel that copies adjacent elements, or repeats the first one if `step` is 0.
struct Widen<'a, T> {
    operand: &'a [T],
    step: usize,
    block: &'a mut [i32],
}

impl<T: Stored> Multiversioned for Widen<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        match self.step {
            0 => self.block.fill(self.operand[0].into()),
            _ => self.block.iter_mut().zip(self.operand).for_each(|(wide, value)| *wide = (*value).into()),
        }
    }
}

/// Kernel that stores the lowest bits of words.
struct Truncate<'a, T> {
    words: &'a [i32],
    results: &'a mut [T],
}

impl<T: Stored> Multiversioned for Truncate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        self.results.iter_mut().zip(self.words).for_each(|(result, word)| *result = T::truncate(*word));
    }
}

impl IntegerFunction {
    /// Replaces each element of `left` by the function of it and of that of `right`.
    fn apply(self, isa: Isa, left: &mut [i32], right: &[i32]) {
        match self {
            Self::Maximum => isa.dispatch(Apply { left, right, function: Maximum }),
            Self::Minimum => isa.dispatch(Apply { left, right, function: Minimum }),
            Self::Prelu(function) => isa.dispatch(Apply { left, right, function }),
            Self::Product(function) => isa.dispatch(Apply { left, right, function }),
            Self::ShiftedSum(function) => isa.dispatch(Apply { left, right, function }),
            Self::SquaredDifference(function) => isa.dispatch(Apply { left, right, function }),
            Self::Sum(function) => isa.dispatch(Apply { left, right, function }),
            Self::ScaledProduct(_) | Self::WeightedSum(_) if cfg!(attache_small) => unreachable!("never made there"),
            Self::ScaledProduct(function) => isa.dispatch(Apply { left, right, function }),
            Self::WeightedSum(function) => isa.dispatch(Apply { left, right, function }),
        }
    }
}

impl Unfinished {
    /// Replaces each element of `left` by the function of it and of that of `right`.
    fn apply(self, isa: Isa, left: &mut [i32], right: &[i32]) {
        match self {
            Self::Sum(function) => isa.dispatch(Apply { left, right, function }),
            Self::Product(function) => isa.dispatch(Apply { left, right, function }),
        }
    }

    /// Writes the function of the elements of the operands to `words`.
    fn of_elements<T: Stored>(self, isa: Isa, operands: [&[T]; 2], words: &mut [i32]) {
        match self {
            Self::Sum(function) => isa.dispatch(OfElements { operands, words, function }),
            Self::Product(function) => isa.dispatch(OfElements { operands, words, function }),
        }
    }
}

/// Kernel that writes the function of the elements of the operands to `words`.
struct OfElements<'a, T, F> {
    operands: [&'a [T]; 2],
    words: &'a mut [i32],
    function: F,
}

impl<T: Stored, F: Formula> Multiversioned for OfElements<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let [left, right] = self.operands;
        for (word, (left, right)) in self.words.iter_mut().zip(left.iter().zip(right)) {
            *word = self.function.apply((*left).into(), (*right).into());
        }
    }
}

/// Kernel that replaces each element of `left` by the function of it and of that of `right`.
struct Apply<'a, F> {
    left: &'a mut [i32],
    right: &'a [i32],
    function: F,
}

impl<F: Formula> Multiversioned for Apply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let operands = self.left.iter_mut().zip(self.right);
        operands.for_each(|(left, right)| *left = self.function.apply(*left, *right));
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::testing::Random;

    fn finish(factor: f64) -> Finish {
        Finish { factor: Multiplier::new(factor), zero_point: -3, bounds: (-100, 120) }
    }

    fn operand(factor: f64, zero_point: i32) -> OperandScaling {
        OperandScaling { zero_point, shift: 20, factor: Multiplier::new(factor) }
    }

    fn check_isas(formula: impl Formula, function: IntegerFunction, shapes: [&[usize]; 3]) {
        let mut random = Random::new(3);
        let [left, right, output] = shapes.map(|shape| {
            let count = shape.iter().product::<usize>();
            (0..count).map(|_| random.below(256) as u8 as i8).collect::<Vec<_>>()
        });
        let mut expected = output.clone();
        let pair = |l: i8, r: i8| formula.apply(l.into(), r.into()) as i8;
        crate::elementwise::broadcast2((&left, shapes[0]), (&right, shapes[1]), (&mut expected, shapes[2]), pair);
        for isa in Isa::available() {
            let mut made = output.clone();
            let engine = Engine { isa, parallel: &Serial };
            binary(engine, function, (&left, shapes[0]), (&right, shapes[1]), (&mut made, shapes[2]));
            assert_eq!(made, expected, "{} {shapes:?}", isa.name());
        }
    }

    #[test]
    fn every_isa_gives_the_same_bits() {
        for shapes in [
            [&[3, 50][..], &[3, 50], &[3, 50]],
            [&[7, 3, 5], &[5], &[7, 3, 5]],
            [&[4, 1], &[1, 37], &[4, 37]],
            [&[], &[2, 33], &[2, 33]],
        ] {
            let operands = [operand(0.5, 4), operand(0.31, -9)];
            let sum = Sum { operands, subtract: true, finish: finish(2e-6) };
            check_isas(sum, IntegerFunction::Sum(sum), shapes);
            let product = Product { zero_points: [1, -7], finish: finish(0.01) };
            check_isas(product, IntegerFunction::Product(product), shapes);
            let squares = operands.map(|operand| OperandScaling { shift: 7, ..operand });
            let square = SquaredDifference { operands: squares, finish: finish(1e-6) };
            check_isas(square, IntegerFunction::SquaredDifference(square), shapes);
            let prelu = Prelu { zero_points: [2, 3], finish: finish(0.7), finish_product: finish(0.01) };
            check_isas(prelu, IntegerFunction::Prelu(prelu), shapes);
            let product = ScaledProduct { zero_points: [1, -7], scale: 0.015_625, zero_point: -3, bounds: (-100, 120) };
            check_isas(product, IntegerFunction::ScaledProduct(product), shapes);
            let (factors, bounds) = ([1 << 20, 700_000], (-100, 120));
            let sum = WeightedSum { factors, bias: 300_000, shift: 20, zero_point: -3, bounds };
            check_isas(sum, IntegerFunction::WeightedSum(sum), shapes);
        }
    }

    #[test]
    fn sums_are_those_of_the_real_numbers() {
        // Scales 0.5 and 0.25 with an output scale of 0.5: 10 × 0.5 − (−6) × 0.25 = 13 × 0.5.
        let operands = [operand(0.5, 0), operand(0.25, 0)];
        let finish = Finish { factor: Multiplier::new(2.0 / f64::from(1 << 20)), zero_point: 0, bounds: (-128, 127) };
        assert_eq!(Sum { operands, subtract: true, finish }.apply(10, -6), 13);
        // Ties are rounded up in a sum and to even in a product.
        let sum = WeightedSum { factors: [2, 1], bias: 2, shift: 2, zero_point: 1, bounds: (-128, 127) };
        assert_eq!([(1, 0), (-1, 0), (3, 0), (100, 200)].map(|(l, r)| sum.apply(l, r)), [2, 1, 3, 101]);
        let product = ScaledProduct { zero_points: [0, 1], scale: 0.5, zero_point: 1, bounds: (-128, 127) };
        assert_eq!([(1, 2), (3, 2), (-1, 2), (100, 100)].map(|(l, r)| product.apply(l, r)), [1, 3, 1, 127]);
        let shifted = ShiftedSum { shifts: [0, 2], subtract: false, bounds: (-32768, 32767) };
        assert_eq!([shifted.apply(32760, 400), shifted.apply(3, -6)], [32767, 1]);
    }
}
