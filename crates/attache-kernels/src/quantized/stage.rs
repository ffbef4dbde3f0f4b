//! What becomes of the sums of products: numbers of 8 bits by fixed-point factors, or floats where weights alone are
//! quantized.
#![allow(unsafe_code)] // Targets are pointers into rows that tasks share out.

use super::fixed_point::{Multiplier, Rounding};
use super::simd::{Integers, MOST_LANES};

/// Sums of some columns of one row, and where they belong.
pub struct Sums<'a> {
    /// The sums; anything past `count`.
    pub(crate) words: [i32; MOST_LANES],
    /// The sums of each column's weights, as many as a vector has lanes: zero where the products have seen to the
    /// activations' zero point.
    pub(crate) weights: &'a [i32],
    /// Row and first column.
    pub(crate) place: [usize; 2],
    /// How many columns.
    pub(crate) count: usize,
}

/// Makes outputs of sums.
pub trait Stage: Sync {
    /// An element of the output.
    type Output: Copy + Send;

    /// Finishes a vector of sums.
    /// # Safety
    /// `sums.count` elements must be writable at `target`.
    unsafe fn finish<S: Integers>(&self, simd: S, sums: Sums<'_>, target: *mut Self::Output);
}

/// Values for each output with some to spare, so that whole vectors can be read anywhere.
fn spare<T: Copy>(values: impl IntoIterator<Item = T>, count: usize, zero: T) -> Vec<T> {
    let values: Vec<T> = values.into_iter().collect();
    let one = if values.len() == 1 { values[0] } else { zero };
    assert!(values.len() == 1 || values.len() == count, "one value, or one for each output");
    let mut spared = if values.len() == count { values } else { vec![one; count] };
    spared.resize(count + MOST_LANES, zero);
    spared
}

/// Sums times fixed-point factors, as numbers of 8 bits.
#[derive(Clone, Debug)]
pub struct Requantize {
    mantissas: Vec<i32>,
    /// Bits by which sums go to the left before they are multiplied (rounding twice).
    left: Vec<i32>,
    /// Bits by which products go to the right, after those that the mantissa has (rounding twice) or with them (once).
    right: Vec<i32>,
    rounding: Rounding,
    zero_point: i32,
    bounds: (i32, i32),
}

impl Requantize {
    /// One factor for each of `outputs`, or one for all, none negative; what is added to the products; the bounds of the
    /// outcome, which must fit 8 bits, with or without a sign.
    pub fn new(
        factors: &[Multiplier],
        outputs: usize,
        rounding: Rounding,
        zero_point: i32,
        bounds: (i32, i32),
    ) -> Self {
        assert!(bounds.0 <= bounds.1 && bounds.0 >= -128 && bounds.1 <= 255, "bounds of 8 bits");
        let factors = spare(factors.iter().copied(), outputs, Multiplier::new(0.0));
        let each = |value: fn(&Multiplier) -> i32| factors.iter().map(value).collect();
        Self {
            mantissas: each(|factor| factor.mantissa),
            left: each(|factor| factor.exponent.max(0)),
            right: match rounding {
                Rounding::Twice => each(|factor| (-factor.exponent).max(0)),
                Rounding::Once => each(|factor| 31 - factor.exponent),
            },
            rounding,
            zero_point,
            bounds,
        }
    }

    /// `Multiplier::apply` of factors that are not negative, without branches.
    #[inline(always)]
    fn round_twice(sum: i32, mantissa: i32, left: i32, right: i32) -> i32 {
        let product = i64::from(sum.wrapping_shl(left as u32)) * i64::from(mantissa);
        let high = ((product + (1 << 30)) >> 31) as i32;
        let mask = (1i32.wrapping_shl(right as u32)).wrapping_sub(1);
        let threshold = ((mask as u32) >> 1) as i32 + i32::from(high < 0);
        (high >> right) + i32::from((high & mask) > threshold)
    }

    #[inline(always)]
    fn round_once(sum: i32, mantissa: i32, right: i32) -> i32 {
        ((i64::from(sum) * i64::from(mantissa) + (1i64 << (right - 1))) >> right) as i32
    }
}

impl Stage for Requantize {
    type Output = u8;

    #[inline(always)]
    unsafe fn finish<S: Integers>(&self, _: S, sums: Sums<'_>, target: *mut u8) {
        let column = sums.place[1];
        let (mantissas, left) = (&self.mantissas[column..][..S::LANES], &self.left[column..][..S::LANES]);
        let (right, words) = (&self.right[column..][..S::LANES], &sums.words[..S::LANES]);
        let mut bytes = [0u8; MOST_LANES];
        let store = |scaled: i32| scaled.wrapping_add(self.zero_point).clamp(self.bounds.0, self.bounds.1) as u8;
        match self.rounding {
            Rounding::Twice => {
                for lane in 0..S::LANES {
                    bytes[lane] = store(Self::round_twice(words[lane], mantissas[lane], left[lane], right[lane]));
                }
            }
            Rounding::Once => {
                for lane in 0..S::LANES {
                    bytes[lane] = store(Self::round_once(words[lane], mantissas[lane], right[lane]));
                }
            }
        }
        // SAFETY: promised by the caller. A count that is known is one move.
        unsafe {
            match sums.count {
                count if count == S::LANES => std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, S::LANES),
                count => std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, count),
            }
        }
    }
}

/// Sums times the scales of row and column, as floats.
#[derive(Clone, Debug)]
pub struct Rescale<'a> {
    columns: Vec<f32>,
    bias: Vec<f32>,
    rows: &'a [f32],
    zero_points: &'a [i32],
    clamp: (f32, f32),
}

impl<'a> Rescale<'a> {
    /// `columns` has one scale for each of `outputs`, or one for all; `rows` and `zero_points` have one for each row or
    /// one for all, those of the activations.
    pub fn new(
        columns: &[f32],
        bias: Option<&[f32]>,
        outputs: usize,
        rows: &'a [f32],
        zero_points: &'a [i32],
        clamp: (f32, f32),
    ) -> Self {
        let bias = spare(bias.unwrap_or(&[0.0]).iter().copied(), outputs, 0.0);
        assert!(!rows.is_empty() && rows.len() == zero_points.len(), "a scale and a zero point for each row");
        Self { columns: spare(columns.iter().copied(), outputs, 0.0), bias, rows, zero_points, clamp }
    }

    /// The same with the activations' scale and zero point of other rows.
    pub fn with_rows(&mut self, rows: &'a [f32], zero_points: &'a [i32]) {
        assert!(!rows.is_empty() && rows.len() == zero_points.len(), "a scale and a zero point for each row");
        (self.rows, self.zero_points) = (rows, zero_points);
    }
}

impl Stage for Rescale<'_> {
    type Output = f32;

    #[inline(always)]
    unsafe fn finish<S: Integers>(&self, _: S, sums: Sums<'_>, target: *mut f32) {
        let [row, column] = sums.place;
        let row = row.min(self.rows.len() - 1);
        // Signed bytes are counted from the least one up.
        let (scale, zero_point) = (self.rows[row], self.zero_points[row] + 128);
        let (columns, bias) = (&self.columns[column..][..S::LANES], &self.bias[column..][..S::LANES]);
        let (weights, words) = (&sums.weights[..S::LANES], &sums.words[..S::LANES]);
        let mut floats = [0f32; MOST_LANES];
        for lane in 0..S::LANES {
            let sum = words[lane].wrapping_sub(zero_point.wrapping_mul(weights[lane]));
            let real = bias[lane] + sum as f32 * (scale * columns[lane]);
            floats[lane] = crate::math::clamp(real, self.clamp.0, self.clamp.1);
        }
        // SAFETY: promised by the caller.
        unsafe { std::ptr::copy_nonoverlapping(floats.as_ptr(), target, sums.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn rounding_without_branches_is_rounding() {
        let mut random = Random::new(21);
        for _ in 0..200_000 {
            let sum =
                (random.below(1 << 31) as i32).wrapping_mul(2).wrapping_add(random.below(2) as i32) >> random.below(31);
            let real =
                (random.below(1 << 20) + 1) as f64 / f64::from(1 << 20) * 2f64.powi(random.below(50) as i32 - 40);
            let factor = Multiplier::new(real);
            let (left, right) = (factor.exponent.max(0), (-factor.exponent).max(0));
            let twice = Requantize::round_twice(sum, factor.mantissa, left, right);
            assert_eq!(twice, factor.apply(sum, Rounding::Twice), "{sum} × {factor:?}");
            let once = Requantize::round_once(sum, factor.mantissa, 31 - factor.exponent);
            assert_eq!(once, factor.apply(sum, Rounding::Once), "{sum} × {factor:?}");
        }
    }
}
