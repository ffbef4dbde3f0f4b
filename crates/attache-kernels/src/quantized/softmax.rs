//! Softmax and log-softmax over the last axis in fixed-point arithmetic.

use super::fixed_point::{divide_by_power, doubling_high_product as product};
use super::functions::{exponential, logarithm, reciprocal};
use super::lookup::Interpolation;
use super::{Multiplier, Rounding, Stored};
use crate::Engine;

/// Integer bits of the fixed-point differences from a row's maximum.
const DIFFERENCE_BITS: u32 = 5;
/// Integer bits of the fixed-point sum of a row's exponentials.
pub const SUM_BITS: i32 = 12;
/// Integer bits of fixed-point log-probabilities.
const LOGARITHM_BITS: u32 = 4;

/// Table of fixed-point differences from a row's maximum, indexed by the magnitude of the quantized
/// difference. It ends at the largest magnitude that can be represented; larger ones are treated as infinite.
struct Differences {
    scaled: Vec<i32>,
}

impl Differences {
    /// Creates the table. `scale` is the real difference per quantization step, and `most` is the largest
    /// magnitude of a quantized difference.
    fn new(scale: f64, most: usize) -> Self {
        let one = f64::from(1u32 << (31 - DIFFERENCE_BITS));
        let factor = Multiplier::new((scale * one).min(f64::from(i32::MAX)));
        let limit = f64::from((1 << DIFFERENCE_BITS) - 1) * one / 2f64.powi(factor.exponent);
        let count = (limit.floor() as usize).min(most) + 1;
        let scaled =
            |difference: usize| product((-(difference as i32)).wrapping_shl(factor.exponent as u32), factor.mantissa);
        Self { scaled: (0..count).map(scaled).collect() }
    }
}

/// Returns a table of `eˣ` with no integer bits, indexed by the magnitude of the difference of an 8-bit
/// element from its row's maximum. Past the end of the table, `eˣ` is 0. `scale` is the real value per
/// quantization step, times beta.
pub fn exponentials(scale: f64) -> Vec<i32> {
    let differences = Differences::new(scale, 255);
    differences.scaled.iter().map(|difference| exponential(*difference, DIFFERENCE_BITS)).collect()
}

/// Writes the softmax `e^x / Σ e^x` of each row of `depth` 8-bit elements, with the table of [`exponentials`]. The output, of 8
/// or 16 bits, has scale 1/256 or 1/65536 and the smallest value of the type as zero point.
///
/// # Panics
///
/// Panics if the lengths differ or are not a multiple of `depth`.
pub fn softmax<T: Stored, O: Stored>(
    engine: Engine,
    input: &[T],
    output: &mut [O],
    depth: usize,
    exponentials: &[i32],
) {
    let bits = 8 * size_of::<O>() as i32;
    for_each_row(engine, input, output, depth, |input, output| {
        let largest = maximum(input);
        let exponential = |x: &T| exponentials.get((largest - (*x).into()) as usize).copied();
        let (inverse, shift) = reciprocal(sum(input.iter().filter_map(exponential)), SUM_BITS);
        // A row has few distinct values, so results are cached.
        let mut known = [None; 256];
        for (value, x) in output.iter_mut().zip(input) {
            let stored = known[(largest - (*x).into()) as usize & 255].get_or_insert_with(|| match exponential(x) {
                Some(exponential) => {
                    let digits = (shift + 31 - bits).clamp(0, 31).unsigned_abs();
                    divide_by_power(product(inverse, exponential), digits) + O::LEAST
                }
                None => O::LEAST,
            });
            *value = O::saturate(*stored);
        }
    });
}

/// Log-softmax `x − ln Σ e^x` over rows of 8-bit elements, with lookup tables. The output has scale 16/256
/// and the largest value of the type as zero point.
pub struct LogSoftmax {
    differences: Differences,
    /// Table of `eˣ` with no integer bits, indexed by the magnitude of the difference from the row's maximum;
    /// 0 past the end.
    pub exponentials: Vec<i32>,
    /// Factor from fixed-point to quantized differences.
    back: Multiplier,
}

impl LogSoftmax {
    /// Number of bits by which a fixed-point difference minus the logarithm of the sum is shifted right to
    /// get the output.
    pub const DIGITS: u32 = 31 - DIFFERENCE_BITS - LOGARITHM_BITS;

    /// Creates the tables for input elements with this scale.
    pub fn new(scale: f64) -> Self {
        let one = f64::from(1u32 << (31 - DIFFERENCE_BITS));
        let factor = Multiplier::new((scale * one).min(f64::from(i32::MAX)));
        let back = Multiplier::new(2f64.powi(31 - factor.exponent) / f64::from(factor.mantissa));
        Self { differences: Differences::new(scale, 255), exponentials: exponentials(scale), back }
    }

    /// Returns the fixed-point differences, indexed by the magnitude of the quantized difference from the
    /// row's maximum.
    pub fn differences(&self) -> &[i32] {
        &self.differences.scaled
    }

    /// Returns a factor and a bound that determine for which quantized differences from the row's maximum the
    /// output is the smallest value: those up to the maximum of `bound` and
    /// `factor × (i32::MIN + logarithm of the row's sum)`. For these, the table of differences has ended, or
    /// subtracting the logarithm would overflow.
    pub fn least(&self) -> (Multiplier, i32) {
        (self.back, -(self.differences.scaled.len() as i32 - 1) - 1)
    }

    /// Writes the log-softmax of each row of `depth` elements.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ or are not a multiple of `depth`.
    pub fn apply<T: Stored>(&self, engine: Engine, input: &[T], output: &mut [T], depth: usize) {
        let (back, bound) = self.least();
        for_each_row(engine, input, output, depth, |input, output| {
            let largest = maximum(input);
            let exponential = |x: &T| self.exponentials.get((largest - (*x).into()) as usize).copied();
            let logarithm = logarithm(sum(input.iter().filter_map(exponential)), SUM_BITS);
            let least = back.apply(i32::MIN.wrapping_add(logarithm), Rounding::Twice).max(bound);
            for (value, x) in output.iter_mut().zip(input) {
                let difference = (*x).into() - largest;
                let scaled = self.differences().get(difference.unsigned_abs() as usize);
                *value = T::saturate(match scaled.filter(|_| difference > least) {
                    Some(scaled) => divide_by_power(scaled.wrapping_sub(logarithm), Self::DIGITS) + T::MOST,
                    None => T::LEAST,
                });
            }
        });
    }
}

/// Softmax over rows of 16-bit elements, with interpolated tables.
pub struct Int16Softmax {
    exponential: Interpolation,
    inverse: Interpolation,
    factor: Multiplier,
}

impl Int16Softmax {
    /// Creates the tables for input elements with `scale` real units per quantization step, times beta. The
    /// output's scale is 2⁻¹⁵.
    pub fn new(scale: f64) -> Self {
        // Differences from −10 to 0, and sums minus one from 0 to 1, are mapped to the full range of the type.
        let exponential = Interpolation::of_doubles((10.0 / 65535.0, i16::MOST), (2.0 / 65535.0, 0), f64::exp);
        let inverse = Interpolation::of_doubles((1.0 / 65535.0, i16::LEAST), (2.0 / 65535.0, 0), |x| 1.0 / (1.0 + x));
        Self { exponential, inverse, factor: Multiplier::new(scale / (10.0 / 65535.0)) }
    }

    /// Returns the factor by which quantized differences from a row's maximum are multiplied, rounded with
    /// [`Rounding::Twice`]. The product plus 32767 is the table position to pass to [`Self::exponential`].
    pub fn factor(&self) -> Multiplier {
        self.factor
    }

    /// Returns `eˣ` at a table position, with 15 fraction bits; `x` from −10 to 0 is mapped to the full range
    /// of the type.
    pub fn exponential(&self, position: i16) -> i16 {
        self.exponential.at(position)
    }

    /// Returns `1 / (1 + x)` at a table position, with 15 fraction bits; `x` from 0 to 1 is mapped to the
    /// full range of the type.
    pub fn inverse(&self, position: i16) -> i16 {
        self.inverse.at(position)
    }

    /// Writes the softmax of each row of `depth` elements.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ or are not a multiple of `depth`.
    pub fn apply(&self, engine: Engine, input: &[i16], output: &mut [i16], depth: usize) {
        for_each_row(engine, input, output, depth, |input, output| {
            let largest = maximum(input);
            for (value, x) in output.iter_mut().zip(input) {
                let difference = self.factor.apply(i32::from(*x) - largest, Rounding::Twice);
                *value = self.exponential.at(i16::saturate(difference.saturating_add(32767)));
            }
            let sum = output.iter().fold(0i32, |sum, value| sum.wrapping_add((*value).into())).max(1);
            let zeros = sum.leading_zeros();
            let shifted = ((i64::from(sum) << (zeros - 1)) + (1 << 13)) >> 14;
            let position = (shifted - (1 << 15) - (1 << 16)).clamp(i16::MIN.into(), i16::MAX.into());
            let inverse = i64::from(self.inverse.at(position as i16));
            let shift = 31 - zeros;
            let round = if shift > 0 { 1i64 << (shift - 1) } else { 0 };
            for value in output.iter_mut() {
                let quotient = (i64::from(*value) * inverse + round) >> shift;
                *value = quotient.clamp(0, i16::MAX.into()) as i16;
            }
        });
    }
}

fn maximum<T: Stored>(row: &[T]) -> i32 {
    row.iter().max().map_or(T::LEAST, |largest| (*largest).into())
}

/// Returns the sum of exponentials, which have no integer bits, as a number with [`SUM_BITS`] integer bits;
/// at least the smallest positive one.
fn sum(exponentials: impl Iterator<Item = i32>) -> i32 {
    let sum = exponentials.fold(0i32, |sum, value| sum.wrapping_add(divide_by_power(value, SUM_BITS as u32)));
    sum.max(1)
}

fn for_each_row<T: Stored, O: Stored>(
    engine: Engine,
    input: &[T],
    output: &mut [O],
    depth: usize,
    row: impl Fn(&[T], &mut [O]) + Sync,
) {
    assert_eq!(input.len(), output.len(), "input and output have one shape");
    if input.is_empty() {
        return;
    }
    assert!(depth > 0 && input.len().is_multiple_of(depth), "whole rows");
    let rows = input.len() / depth;
    let band = rows.div_ceil(engine.tasks(input.len() as f64 * 4.0, rows)) * depth;
    engine.for_each_chunk(output, band, |task, output| {
        for (input, output) in input[task * band..].chunks_exact(depth).zip(output.chunks_exact_mut(depth)) {
            row(input, output);
        }
    });
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    #[test]
    fn probabilities_and_their_logarithms_approximate_the_real_ones() {
        let (input, scale) = ([-128i8, -100, 0, 20, 5, -3, 31], 0.07);
        let exponentials = input.map(|x| (f64::from(x) * scale).exp());
        let total: f64 = exponentials.iter().sum();
        let engine = Engine::new(&Serial);
        let (mut narrow, mut logarithms) = ([0i8; 7], [0i8; 7]);
        softmax(engine, &input, &mut narrow, 7, &super::exponentials(scale));
        LogSoftmax::new(scale).apply(engine, &input, &mut logarithms, 7);
        let mut int16 = [0i16; 7];
        Int16Softmax::new(scale).apply(engine, &input.map(i16::from), &mut int16, 7);
        for (index, exponential) in exponentials.iter().enumerate() {
            let expected = exponential / total;
            assert!((f64::from(narrow[index]) + 128.0 - expected * 256.0).abs() < 1.0, "{index}");
            assert!((f64::from(int16[index]) - expected * 32768.0).abs() < 8.0, "{index}");
            let logarithm = (expected.ln() * 16.0 + 127.0).max(-128.0);
            assert!((f64::from(logarithms[index]) - logarithm).abs() < 1.0, "{index}: {logarithm}");
        }
    }
}
