//! GEMM epilogues, which convert accumulated sums to outputs: 8-bit elements by fixed-point factors, or floats if only
//! the weights are quantized.
#![allow(unsafe_code)] // Targets are pointers into rows that tasks share out.

use std::borrow::Cow;

use attache_base::storable::{Parts, Storable, StoredParts};

use super::fixed_point::{Multiplier, Rounding};
use super::float_factors::{FloatFactors, Floats};
use super::instances::EpilogueKernels;
use super::simd::{Factors, IntegerIsa, IntegerMultiversioned, Integers, MOST_LANES, Scales};
use crate::Isa;
use crate::gemm::Target;

/// Sums of adjacent rows and columns of C, in memory.
#[derive(Clone, Copy)]
pub struct Sums {
    /// The first row. Rows are `width` words apart.
    pub(crate) start: *const i32,
    /// The number of rows.
    pub(crate) rows: usize,
    /// The number of columns. A row has room for whole vectors.
    pub(crate) columns: usize,
    /// The distance between rows, in words.
    pub(crate) width: usize,
    /// The row and the column of C that the first sum belongs to.
    pub(crate) position: [usize; 2],
}

/// Epilogue that converts the 32-bit sums of a matrix product or convolution to output elements.
pub trait GemmEpilogue: EpilogueKernels + Sync {
    /// Returns the number of columns that the epilogue has parameters for.
    fn outputs(&self) -> usize;

    /// Converts sums and stores the outputs at `target`. `weights` points at the sum of each column's weights, for
    /// epilogues that correct the zero point of the activations. These sums are zero if the activations were converted
    /// to numbers without zero point.
    ///
    /// # Safety
    /// The sums must be readable, in whole vectors. Their columns must be among the outputs and writable in as many
    /// rows of `target`. As many words as there are columns must be readable at `weights`.
    unsafe fn finish<S: Integers>(&self, simd: S, sums: Sums, weights: *const i32, target: Target<Self::Output>);

    /// Returns the factors of some outputs, the first and how many, as floats, if the sums of all of them may be multiplied by
    /// such factors. `are_small` tells that the magnitudes of all sums are less than `SMALL` of `float_factors.rs`. Only
    /// epilogues whose outputs are bytes return any, as kernels rely on.
    fn floats(&self, _: (usize, usize), _are_small: bool) -> Option<Floats> {
        None
    }
}

/// Returns `count` values, one per output, followed by spare elements, so that a whole vector can be read at
/// any output. `values` has one value per output, or one for all.
fn spare<T: Copy>(values: impl IntoIterator<Item = T>, count: usize, zero: T) -> Vec<T> {
    let values: Vec<T> = values.into_iter().collect();
    let one = if values.len() == 1 { values[0] } else { zero };
    assert!(values.len() == 1 || values.len() == count, "one value, or one for each output");
    let mut spared = if values.len() == count { values } else { vec![one; count] };
    spared.resize(count + MOST_LANES, zero);
    spared
}

/// Epilogue that multiplies sums by fixed-point factors, or by scales in single precision, giving 8-bit elements.
#[derive(Clone, Debug)]
pub struct Requantize {
    /// Scales of [`Requantize::in_floats`]; empty if there are factors.
    scales: Vec<f32>,
    mantissas: Vec<i32>,
    /// Left shifts of the sums before the multiplication, in bits, for [`Rounding::Twice`]; empty if none is
    /// needed.
    left: Vec<i32>,
    /// Right shifts of the products, in bits. They include the 31 bits of the mantissa with
    /// [`Rounding::Once`], and follow the shift by those bits with [`Rounding::Twice`].
    right: Vec<i32>,
    /// Masks of the bits that `right` shifts out, for [`Rounding::Twice`].
    masks: Vec<i32>,
    halves: UpperHalves,
    /// Empty where no kernel takes them.
    floats: FloatFactors,
    outputs: usize,
    rounding: Rounding,
    /// Whether all factors are below ½ and at least 2⁻²¹, as nearly always.
    shrinks: bool,
    zero_point: i32,
    bounds: (i32, i32),
}

/// Constants of kernels that take results from the upper halves of products of 64 bits, one per output.
#[derive(Clone, Debug, Default)]
struct UpperHalves {
    /// What is added to the products of the outputs with even and with odd index before they are shifted: what rounds them,
    /// and the zero point if [`Requantize::shrinks`].
    nudges: [Vec<i64>; 2],
    /// Left shifts of the products, in bits, where less than 32 bits are shifted out.
    doublings: Vec<i32>,
    /// Right shifts of the upper halves, in bits.
    shifts: Vec<i32>,
}

impl UpperHalves {
    /// `plus` is added to the results: 0 if factors have exponents outside of -20 to -1.
    fn new(factors: &[Multiplier], rounding: Rounding, plus: i32) -> Self {
        let mut halves = Self::default();
        for (output, factor) in factors.iter().enumerate() {
            let shift = match rounding {
                Rounding::Twice => 31 - factor.exponent.min(0),
                Rounding::Once => 31 - factor.exponent,
            };
            let first = if rounding == Rounding::Twice && shift > 31 { 1 << 30 } else { 0 };
            let nudge = first + (1i64 << (shift - 1));
            let nudge = nudge.wrapping_add(i64::from(plus) << shift);
            let doubling = (32 - shift).max(0);
            halves.nudges[output % 2].push(nudge << doubling);
            halves.doublings.push(doubling);
            halves.shifts.push((shift - 32).max(0));
        }
        halves
    }

    /// Returns the nudges of the outputs from `first` on: of the first, the third, and so on, and of the second, the fourth,
    /// and so on.
    ///
    /// # Safety
    /// There must be such an output.
    #[inline(always)]
    unsafe fn nudges(&self, first: usize) -> [*const i64; 2] {
        let [even, odd] = &self.nudges;
        // SAFETY: guaranteed by the caller, because there are spare elements after the last output.
        unsafe {
            match first % 2 {
                0 => [even.as_ptr().add(first / 2), odd.as_ptr().add(first / 2)],
                _ => [odd.as_ptr().add(first / 2), even.as_ptr().add(first / 2 + 1)],
            }
        }
    }
}

impl Requantize {
    /// Creates an epilogue. `factors` has one non-negative factor per output, or one for all. `zero_point` is
    /// added to the products. `bounds` is the range of the results, which must fit 8 bits, signed or
    /// unsigned.
    ///
    /// # Panics
    ///
    /// Panics if the number of factors does not match or the bounds do not fit 8 bits.
    pub fn new(
        factors: &[Multiplier],
        outputs: usize,
        rounding: Rounding,
        zero_point: i32,
        bounds: (i32, i32),
    ) -> Self {
        check_bounds(bounds);
        let factors = spare(factors.iter().copied(), outputs, Multiplier::new(0.0));
        let each = |value: fn(&Multiplier) -> i32| factors.iter().map(value).collect::<Vec<_>>();
        let shrinks = factors[..outputs].iter().all(|factor| (-20..=-1).contains(&factor.exponent));
        let enlarges = rounding == Rounding::Twice && factors.iter().any(|factor| factor.exponent > 0);
        Self {
            scales: Vec::new(),
            mantissas: each(|factor| factor.mantissa),
            left: if enlarges { each(|factor| factor.exponent.max(0)) } else { Vec::new() },
            masks: each(|factor| ((1i64 << (-factor.exponent).max(0)) - 1) as i32),
            right: match rounding {
                Rounding::Twice => each(|factor| (-factor.exponent).max(0)),
                Rounding::Once => each(|factor| 31 - factor.exponent),
            },
            halves: UpperHalves::new(&factors, rounding, if shrinks { zero_point } else { 0 }),
            floats: match cfg!(target_arch = "x86_64") && !cfg!(attache_small) {
                true => FloatFactors::new(&factors, rounding, zero_point),
                false => FloatFactors::default(),
            },
            outputs,
            rounding,
            shrinks,
            zero_point,
            bounds,
        }
    }

    /// Whether these are bounds of 8 bits, signed or unsigned.
    pub(super) fn fit(bounds: (i32, i32)) -> bool {
        let fit = bounds.0 >= -128 && bounds.1 <= 127 || bounds.0 >= 0 && bounds.1 <= 255;
        bounds.0 <= bounds.1 && fit
    }

    /// Creates an epilogue for [`Requantize::words`], with the same factor for all, rounded twice.
    pub(super) fn of_words(factor: Multiplier, zero_point: i32, bounds: (i32, i32)) -> Self {
        Self::new(&[factor], WORDS, Rounding::Twice, zero_point, bounds)
    }

    /// Requantizes as many words as there are bytes.
    ///
    /// # Panics
    ///
    /// Panics if `words` has not room for a multiple of 32, or for another epilogue than [`Requantize::of_words`].
    pub(super) fn words(&self, isa: Isa, words: &[i32], bytes: &mut [u8]) {
        assert!(words.len() >= bytes.len().next_multiple_of(WORDS) && self.outputs == WORDS, "whole rows of words");
        IntegerIsa::of(isa).dispatch(Words { epilogue: self, words, bytes });
    }

    /// Creates an epilogue that converts sums to `f32`, multiplies them by a scale and rounds the products once, ties to
    /// even. `scales` has one finite, non-negative scale per output, or one for all. `zero_point`, from −128 to 255, and
    /// `bounds` are as in [`Requantize::new`].
    ///
    /// # Panics
    ///
    /// Panics if the number of scales does not match or the bounds do not fit 8 bits, and in libraries that were built to
    /// be small, which lack this arithmetic.
    pub fn in_floats(scales: &[f32], outputs: usize, zero_point: i32, bounds: (i32, i32)) -> Self {
        if cfg!(attache_small) {
            unreachable!("small libraries multiply by fixed-point factors alone");
        }
        check_bounds(bounds);
        let (mantissas, left, right, masks, halves, floats) = Default::default();
        let (rounding, shrinks) = (Rounding::Once, true);
        let scales = spare(scales.iter().copied(), outputs, 0.0);
        Self { scales, mantissas, left, right, masks, halves, floats, outputs, rounding, shrinks, zero_point, bounds }
    }

    /// Whether this is an epilogue of [`Requantize::in_floats`].
    fn is_in_floats(&self) -> bool {
        !cfg!(attache_small) && !self.scales.is_empty()
    }
}

fn check_bounds(bounds: (i32, i32)) {
    assert!(Requantize::fit(bounds), "bounds of 8 bits");
}

/// What multiplies the sums of a stored [`Requantize`], as its first number.
const TWICE_ROUNDED: i64 = 0;
const ONCE_ROUNDED: i64 = 1;
const IN_FLOATS: i64 = 2;

/// Stored with one factor or scale per output. The number of outputs is the first parameter.
impl Storable for Requantize {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        let exponent = |output: usize| match self.rounding {
            Rounding::Twice => self.left.get(output).copied().unwrap_or(0) - self.right[output],
            Rounding::Once => 31 - self.right[output],
        };
        parts.number(match self.rounding {
            _ if self.is_in_floats() => IN_FLOATS,
            Rounding::Twice => TWICE_ROUNDED,
            Rounding::Once => ONCE_ROUNDED,
        });
        for number in [self.zero_point, self.bounds.0, self.bounds.1] {
            parts.number(number.into());
        }
        if self.is_in_floats() {
            return parts.field(&self.scales[..self.outputs]);
        }
        parts.field(&self.mantissas[..self.outputs]);
        parts.field(&(0..self.outputs).map(exponent).collect::<Vec<i32>>());
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let outputs = *parameters.first()?;
        let kind = parts.number()?;
        let mut number = |range: std::ops::RangeInclusive<i32>| {
            i32::try_from(parts.number()?).ok().filter(|number| range.contains(number))
        };
        let zero_point = number(-128..=255)?;
        let least = number(-128..=255)?;
        let bounds = (least, number(least..=if least < 0 { 127 } else { 255 })?);
        let rounding = match kind {
            TWICE_ROUNDED => Rounding::Twice,
            ONCE_ROUNDED => Rounding::Once,
            IN_FLOATS if !cfg!(attache_small) => {
                let scales = parts.field::<f32>(outputs)?;
                let is_valid = scales.iter().all(|scale| scale.is_finite() && *scale >= 0.0);
                return is_valid.then(|| Self::in_floats(&scales, outputs, zero_point, bounds));
            }
            _ => return None,
        };
        let (mantissas, exponents) = (parts.field::<i32>(outputs)?, parts.field::<i32>(outputs)?);
        let factors =
            mantissas.into_iter().zip(exponents).map(|(mantissa, exponent)| Multiplier { mantissa, exponent });
        let factors: Vec<Multiplier> = factors.collect();
        let is_valid = |factor: &Multiplier| factor.mantissa >= 0 && (-31..=30).contains(&factor.exponent);
        factors.iter().all(is_valid).then(|| Self::new(&factors, outputs, rounding, zero_point, bounds))
    }
}

/// Words in a row of [`Requantize::words`].
const WORDS: usize = 2 * MOST_LANES;

/// Kernel of [`Requantize::words`], which takes words as the sums of a matrix.
struct Words<'a> {
    epilogue: &'a Requantize,
    words: &'a [i32],
    bytes: &'a mut [u8],
}

impl IntegerMultiversioned for Words<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Integers>(self, simd: S) {
        let rows = self.bytes.len() / WORDS;
        for (first, rows, columns) in [(0, rows, WORDS), (rows * WORDS, 1, self.bytes.len() % WORDS)] {
            let start = self.words[first..].as_ptr();
            let sums = Sums { start, rows, columns, width: WORDS, position: [0, 0] };
            let target = Target { start: self.bytes[first..].as_mut_ptr(), stride: WORDS };
            // SAFETY: `Requantize::words` has checked that there are whole rows of words; bytes are those of the columns.
            unsafe { self.epilogue.finish(simd, sums, [].as_ptr(), target) }
        }
    }
}

impl GemmEpilogue for Requantize {
    fn outputs(&self) -> usize {
        self.outputs
    }

    #[inline(always)]
    fn floats(&self, outputs: (usize, usize), are_small: bool) -> Option<Floats> {
        self.floats.of(outputs, are_small, self.zero_point, self.bounds)
    }

    #[inline(always)]
    unsafe fn finish<S: Integers>(&self, simd: S, sums: Sums, _: *const i32, target: Target<u8>) {
        let first = sums.position[1];
        debug_assert!(first + sums.columns <= self.outputs, "an epilogue for every column");
        // SAFETY: guaranteed by the caller; the vectors have spare elements after the last output.
        unsafe {
            if self.is_in_floats() {
                let scales = self.scales.as_ptr().add(first);
                let scales = Scales { scales, zero_point: self.zero_point, bounds: self.bounds };
                return simd.requantize_in_floats(sums, scales, target);
            }
            if !S::ROUNDS_DOWN {
                return self.finish_in_integers(simd, sums, target);
            }
            // Where some columns have no floats, the other vector of the panel still may.
            let whole = self.floats.of((first, sums.columns), false, self.zero_point, self.bounds).is_some();
            let width = if whole { sums.columns.max(1) } else { S::LANES };
            for column in (0..sums.columns).step_by(width) {
                let columns = width.min(sums.columns - column);
                let position = [sums.position[0], first + column];
                let part = Sums { start: sums.start.add(column), columns, position, ..sums };
                let to = Target { start: target.start.add(column), ..target };
                match self.floats.of((first + column, columns), false, self.zero_point, self.bounds) {
                    Some(floats) => simd.requantize_rounding_down(part, floats, to),
                    None => self.finish_in_integers(simd, part, to),
                }
            }
        }
    }
}

impl Requantize {
    /// Multiplies sums by fixed-point factors, as [`GemmEpilogue::finish`] does.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn finish_in_integers<S: Integers>(&self, simd: S, sums: Sums, target: Target<u8>) {
        let first = sums.position[1];
        // SAFETY: guaranteed by the caller; the vectors have spare elements after the last output.
        unsafe {
            let factors = Factors {
                mantissas: self.mantissas.as_ptr().add(first),
                left: if self.left.is_empty() { std::ptr::null() } else { self.left.as_ptr().add(first) },
                right: self.right.as_ptr().add(first),
                masks: self.masks.as_ptr().add(first),
                nudges: self.halves.nudges(first),
                doublings: self.halves.doublings.as_ptr().add(first),
                shifts: self.halves.shifts.as_ptr().add(first),
                zero_point: self.zero_point,
                bounds: self.bounds,
            };
            match (self.rounding, self.shrinks) {
                (Rounding::Twice, true) => simd.requantize::<true, true>(sums, factors, target),
                (Rounding::Twice, false) => simd.requantize::<true, false>(sums, factors, target),
                (Rounding::Once, true) => simd.requantize::<false, true>(sums, factors, target),
                (Rounding::Once, false) => simd.requantize::<false, false>(sums, factors, target),
            }
        }
    }
}

/// What sums of the columns of a product are multiplied by, and what is added to them.
#[derive(Clone, Debug)]
pub struct ColumnScales<'a> {
    scales: Cow<'a, [f32]>,
    bias: Cow<'a, [f32]>,
}

impl<'a> ColumnScales<'a> {
    /// Creates the parameters of so many columns. `scales` has the scale of the weights of each column, or one for all; `bias`
    /// likewise, if there is one.
    ///
    /// # Panics
    ///
    /// Panics if `scales` or `bias` has neither one element nor one per column.
    pub fn new(scales: &'a [f32], bias: Option<&'a [f32]>, columns: usize) -> Self {
        let each = |values: &'a [f32]| match values {
            [one] => Cow::from(vec![*one; columns]),
            all => {
                assert!(all.len() == columns, "one value, or one for each column");
                Cow::from(all)
            }
        };
        Self { scales: each(scales), bias: each(bias.unwrap_or(&[0.0])) }
    }
}

/// Epilogue that multiplies sums by the scales of their row and column and adds a bias, giving floats.
#[derive(Clone, Debug)]
pub struct Rescale<'a> {
    columns: &'a ColumnScales<'a>,
    rows: &'a [f32],
    zero_points: &'a [i32],
    clamp: (f32, f32),
}

impl<'a> Rescale<'a> {
    /// Creates an epilogue for weights that were packed for [`Zero::UNKNOWN`](super::Zero::UNKNOWN). `rows` and `zero_points`
    /// are the scales and zero points of the rows of activations; the last one also applies to all further rows.
    ///
    /// # Panics
    ///
    /// Panics if `rows` and `zero_points` are empty or of different lengths.
    pub fn new(columns: &'a ColumnScales<'a>, rows: &'a [f32], zero_points: &'a [i32], clamp: (f32, f32)) -> Self {
        assert!(!rows.is_empty() && rows.len() == zero_points.len(), "a scale and a zero point for each row");
        Self { columns, rows, zero_points, clamp }
    }
}

impl GemmEpilogue for Rescale<'_> {
    fn outputs(&self) -> usize {
        self.columns.scales.len()
    }

    #[inline(always)]
    unsafe fn finish<S: Integers>(&self, _: S, sums: Sums, weights: *const i32, target: Target<f32>) {
        const PAIR: usize = 2 * MOST_LANES;
        let mut column = 0;
        // SAFETY: guaranteed by the caller.
        unsafe {
            while !cfg!(attache_small) && column + PAIR <= sums.columns {
                self.vectors::<PAIR>(sums, column, weights.add(column), target);
                column += PAIR;
            }
            while !cfg!(attache_small) && column + MOST_LANES <= sums.columns {
                self.vectors::<MOST_LANES>(sums, column, weights.add(column), target);
                column += MOST_LANES;
            }
            if column < sums.columns {
                self.rest(sums, column, weights.add(column), target);
            }
        }
    }
}

impl Rescale<'_> {
    /// Returns the scale and the zero point of row `row` of C. Sums were computed with activations relative to −128.
    #[inline(always)]
    fn row(&self, row: usize) -> (f32, i32) {
        let row = row.min(self.rows.len() - 1);
        (self.rows[row], self.zero_points[row] + 128)
    }

    /// Returns the real number for a sum without the contribution of the zero point.
    #[inline(always)]
    fn real(&self, sum: i32, scale: f32, bias: f32) -> f32 {
        crate::math::clamp(bias + sum as f32 * scale, self.clamp.0, self.clamp.1)
    }

    /// Converts the sums of `N` columns from `column` on, whose parameters stay in registers for all rows.
    ///
    /// # Safety
    /// As [`GemmEpilogue::finish`]; `weights` points at those of the first of these columns.
    #[inline(always)]
    unsafe fn vectors<const N: usize>(&self, sums: Sums, column: usize, weights: *const i32, target: Target<f32>) {
        let [row, first] = sums.position;
        let of = |all: &[f32]| *all[first + column..].first_chunk::<N>().expect("one for each column");
        let (columns, bias) = (of(&self.columns.scales), of(&self.columns.bias));
        // SAFETY: guaranteed by the caller.
        let weights = unsafe { weights.cast::<[i32; N]>().read_unaligned() };
        // Of the zero point, which most rows have in common.
        let (mut point, mut corrections) = (0, [0; N]);
        for r in 0..sums.rows {
            let (scale, zero_point) = self.row(row + r);
            if zero_point != point {
                point = zero_point;
                // A closure that `map` called would not be compiled for this instruction set.
                for index in 0..N {
                    corrections[index] = zero_point.wrapping_mul(weights[index]);
                }
            }
            // SAFETY: as above.
            let sums = unsafe { sums.start.add(r * sums.width + column).cast::<[i32; N]>().read_unaligned() };
            let mut reals = [0f32; N];
            for index in 0..N {
                let sum = sums[index].wrapping_sub(corrections[index]);
                reals[index] = self.real(sum, scale * columns[index], bias[index]);
            }
            // SAFETY: as above.
            unsafe { target.start.add(r * target.stride + column).cast::<[f32; N]>().write_unaligned(reals) };
        }
    }

    /// Converts the sums of all columns from `start` on.
    ///
    /// # Safety
    /// As [`Self::vectors`].
    #[inline(always)]
    unsafe fn rest(&self, sums: Sums, start: usize, weights: *const i32, target: Target<f32>) {
        let ([row, first], count) = (sums.position, sums.columns - start);
        let ColumnScales { scales, bias } = self.columns;
        let (columns, bias) = (&scales[first + start..][..count], &bias[first + start..][..count]);
        for r in 0..sums.rows {
            let (scale, zero_point) = self.row(row + r);
            // SAFETY: guaranteed by the caller.
            let (sums, weights, outputs) = unsafe {
                let sums = std::slice::from_raw_parts(sums.start.add(r * sums.width + start), count);
                let outputs = std::slice::from_raw_parts_mut(target.start.add(r * target.stride + start), count);
                (sums, std::slice::from_raw_parts(weights, count), outputs)
            };
            for index in 0..count {
                let sum = sums[index].wrapping_sub(zero_point.wrapping_mul(weights[index]));
                outputs[index] = self.real(sum, scale * columns[index], bias[index]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Rows and columns of the sums of a test.
    const SHAPE: [usize; 2] = [3, 2 * MOST_LANES];

    struct Finish<'a>(&'a Requantize, &'a [i32], &'a mut [u8], usize);

    impl IntegerMultiversioned for Finish<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Integers>(self, simd: S) {
            let [rows, width] = SHAPE;
            let sums = Sums { start: self.1.as_ptr(), rows, columns: self.3, width, position: [0, 0] };
            let target = Target { start: self.2.as_mut_ptr(), stride: width };
            // SAFETY: sums, factors and bytes of every column are available.
            unsafe { self.0.finish(simd, sums, [].as_ptr(), target) }
        }
    }

    /// Requantizes `count` columns of the sums with every instruction set. `expected` returns the byte of a row and a column.
    fn check(epilogue: &Requantize, sums: &[i32], count: usize, expected: impl Fn(usize, usize) -> u8) {
        let [rows, width] = SHAPE;
        for isa in Isa::available() {
            let mut bytes = vec![99; rows * width];
            IntegerIsa::of(isa).dispatch(Finish(epilogue, sums, &mut bytes, count));
            for (index, byte) in bytes.iter().enumerate() {
                let (row, column) = (index / width, index % width);
                let expected = if column < count { expected(row, column) } else { 99 };
                assert_eq!(*byte, expected, "{} {} {column} {epilogue:?}", isa.name(), sums[index]);
            }
        }
    }

    /// Checks results of the factors of all columns, with this zero point and these bounds.
    fn check_factors(
        (factors, rounding): (&[Multiplier], Rounding),
        sums: &[i32],
        (zero_point, bounds): (i32, (i32, i32)),
    ) {
        let epilogue = Requantize::new(factors, factors.len(), rounding, zero_point, bounds);
        let expected = |row: usize, column: usize| {
            let word = factors[column].apply(sums[row * SHAPE[1] + column], rounding);
            word.wrapping_add(zero_point).clamp(bounds.0, bounds.1) as u8
        };
        check(&epilogue, sums, factors.len(), expected);
    }

    #[test]
    fn every_isa_rounds_as_a_factor_does() {
        let mut random = Random::new(21);
        let [rows, width] = SHAPE;
        for round in 0..20_000 {
            let count = 1 + random.below(width);
            let shift = random.below(31);
            let mut sums: Vec<i32> = (0..rows * width).map(|_| word(&mut random) >> shift).collect();
            // Most factors shrink numbers, which kernels rely on where all of a product do.
            let range = [(50, 40), (20, 20), (3, 3)][round / 2 % 3];
            let mut factor = || {
                let real = (random.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
                Multiplier::new((real / 2.0 + 0.25) * 2f64.powi(random.below(range.0) as i32 - range.1))
            };
            let factors: Vec<_> = (0..count).map(|_| factor()).collect();
            // Ties, and numbers near them.
            for (index, sum) in sums.iter_mut().enumerate().filter(|_| round % 4 < 2) {
                let Multiplier { mantissa, exponent } = factors[index % width % count];
                let half = (1i64 << (30 - exponent.clamp(-20, 0))) / i64::from(mantissa.max(1));
                *sum = (half as i32).wrapping_mul(*sum % 8 * 2 + 1).wrapping_add(index as i32 % 3 - 1);
            }
            let rounding = [Rounding::Once, Rounding::Twice][round % 2];
            let (zero_point, bounds) = [(-7, (-128, 127)), (131, (0, 255)), (5, (-20, 90)), (9, (9, 200))][round % 4];
            check_factors((&factors, rounding), &sums, (zero_point, bounds));
        }
    }

    #[test]
    fn every_isa_rounds_next_to_ties_as_a_factor_does() {
        let mut random = Random::new(23);
        let [rows, width] = SHAPE;
        for round in 0..20_000 {
            let rounding = [Rounding::Once, Rounding::Twice][round % 2];
            let mut factor = || {
                let mantissa = match random.below(4) {
                    0 => 1 << 30,
                    1 => (1 << 30) + (random.below(1 << 12) << 18) as i32,
                    _ => (1 << 30) + random.below(1 << 30) as i32,
                };
                Multiplier { mantissa, exponent: -(random.below(if round % 4 < 2 { 15 } else { 18 }) as i32) }
            };
            let factors: Vec<_> = (0..width).map(|_| factor()).collect();
            let mut sum = |column: usize| {
                let Multiplier { mantissa, exponent } = factors[column];
                let (unit, shift) = (i128::from(mantissa), (31 - exponent) as u32);
                let half = (2 * random.below(520) as i128 - 521) << (shift - 1);
                let nudge = [0, 1 << 30, -(1 << 30)][random.below(3)];
                ((half + nudge) / unit + random.below(3) as i128 - 1) as i32
            };
            let sums: Vec<i32> = (0..rows * width).map(|index| sum(index % width)).collect();
            let (zero_point, bounds) = [(-128, (-128, 127)), (255, (0, 255)), (3, (-20, 90)), (0, (0, 255))][round % 4];
            check_factors((&factors, rounding), &sums, (zero_point, bounds));
        }
    }

    #[test]
    fn every_isa_rounds_the_greatest_sums_as_a_factor_does() {
        let mut random = Random::new(24);
        let [rows, width] = SHAPE;
        for round in 0..4_000 {
            let mut factor = || Multiplier { mantissa: i32::MAX - random.below(1 << 12) as i32, exponent: 0 };
            let factors: Vec<_> = (0..width).map(|_| factor()).collect();
            let mut sum = || match random.below(2) {
                0 => i32::MAX - random.below(1 << 11) as i32,
                _ => i32::MIN + random.below(1 << 11) as i32,
            };
            let sums: Vec<i32> = (0..rows * width).map(|_| sum()).collect();
            let rounding = [Rounding::Once, Rounding::Twice][round % 2];
            let (zero_point, bounds) =
                [(-128, (-128, 127)), (255, (0, 255)), (127, (1, 34)), (128, (0, 255))][round % 4];
            check_factors((&factors, rounding), &sums, (zero_point, bounds));
        }
    }

    #[test]
    fn every_isa_scales_in_floats_and_rounds_once() {
        let mut random = Random::new(22);
        let [rows, width] = SHAPE;
        for round in 0..20_000 {
            let count = 1 + random.below(width);
            let shift = random.below(31);
            let mut sums: Vec<i32> = (0..rows * width).map(|_| word(&mut random) >> shift).collect();
            let mut scale = || (random.below(1 << 20) + 1) as f32 * 2f32.powi(random.below(40) as i32 - 52);
            let scales: Vec<f32> = match round % 3 {
                // Ties, whose even neighbours are on both sides.
                0 => vec![0.5f32.powi(1 + round as i32 % 5); count],
                _ => (0..count).map(|_| scale()).collect(),
            };
            if round % 3 == 0 {
                sums.iter_mut().enumerate().for_each(|(index, sum)| *sum = index as i32 - (rows * width / 2) as i32);
            }
            let (zero_point, bounds) = [(-7, (-128, 127)), (131, (0, 255)), (5, (-20, 90)), (9, (9, 200))][round % 4];
            let epilogue = Requantize::in_floats(&scales, count, zero_point, bounds);
            let expected = |row: usize, column: usize| {
                let product = f64::from(sums[row * width + column] as f32 * scales[column]).round_ties_even();
                (product + f64::from(zero_point)).clamp(bounds.0.into(), bounds.1.into()) as i32 as u8
            };
            check(&epilogue, &sums, count, expected);
        }
    }

    #[test]
    fn stored_epilogues_come_back() {
        let factors = [0.25, 3.0].map(Multiplier::new);
        let epilogues = [
            Requantize::new(&factors, 2, Rounding::Twice, 3, (-100, 90)),
            Requantize::new(&factors, 2, Rounding::Once, 3, (0, 200)),
            Requantize::in_floats(&[0.25, 3.0], 2, -4, (-128, 127)),
        ];
        for epilogue in epilogues {
            let mut parts = Parts::default();
            epilogue.store(&mut parts);
            let fields = parts.fields().to_vec();
            let loaded = Requantize::load(&mut StoredParts::new(&fields, &[]), &[2]).unwrap();
            assert_eq!(format!("{loaded:?}"), format!("{epilogue:?}"));
        }
        let (invalid, mut parts) = (Requantize::in_floats(&[f32::NAN], 1, 0, (-128, 127)), Parts::default());
        invalid.store(&mut parts);
        let fields = parts.fields().to_vec();
        assert!(Requantize::load(&mut StoredParts::new(&fields, &[]), &[1]).is_none());
    }

    fn word(random: &mut Random) -> i32 {
        (random.below(1 << 31) as i32).wrapping_mul(2).wrapping_add(random.below(2) as i32)
    }
}
