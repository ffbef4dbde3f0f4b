//! Sums of bytes in floats, where these decide what the fixed-point arithmetic of [`Sum`] gives.
//!
//! A float and the fixed-point number before its last rounding differ by no more than a bound. If the float is closer to a
//! whole number than one half less the bound, both are rounded to that number; if it is beyond the range of the results, both
//! are clamped to the same end. Otherwise, about once in a few thousand elements, some elements are computed again in
//! fixed-point arithmetic.

use super::bytes::{BYTES, ScaledSum};
use super::elementwise::{Finish, Formula, OperandScaling, Sum};
use super::{Multiplier, Stored};
use crate::Isa;
use crate::math::{clamp, nearest};
use crate::simd::{Multiversioned, Simd};

/// Returns 2 to a power, from −1022 to 1023, which takes less than [`f64::powi`] does.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// Elements that are computed again together.
const BLOCK: usize = 32;

/// A [`Sum`] of bytes as floats: `left × factor + (right × factor + constant)`, rounded and clamped.
#[derive(Clone, Copy)]
pub(super) struct FloatSum {
    factors: [f32; 2],
    constant: f32,
    range: (f32, f32),
    /// The greatest distance from a whole number at which the float decides.
    reach: f32,
    scaled: ScaledSum,
    finish: Finish,
}

impl FloatSum {
    /// Returns `None` for parameters that the bound does not hold for, or with which floats would seldom decide.
    pub(super) fn new(sum: Sum) -> Option<Self> {
        let Sum { operands: [left, right], subtract, finish } = sum;
        let scaled = ScaledSum::new(sum)?;
        let is_small = finish.factor.mantissa >= 0 && (-31..=0).contains(&finish.factor.exponent);
        if !is_small || !BYTES.contains(&finish.zero_point) {
            return None;
        }
        let real = |factor: Multiplier| f64::from(factor.mantissa) * power_of_two(factor.exponent - 31);
        let scale =
            |operand: OperandScaling| real(operand.factor) * power_of_two(operand.shift as i32) * real(finish.factor);
        let factors = [scale(left), if subtract { -scale(right) } else { scale(right) }];
        let constant = f64::from(finish.zero_point)
            - factors[0] * f64::from(left.zero_point)
            - factors[1] * f64::from(right.zero_point);
        // Each operand is rounded to whole numbers twice, and the product with the last factor once.
        let fixed = 2.0 * real(finish.factor) + power_of_two(finish.factor.exponent - 1);
        // Five roundings of at most 2⁻²⁴: of a factor, its product, the constant, and two sums.
        let most = 256.0 * (factors[0].abs() + factors[1].abs()) + constant.abs();
        let bound = fixed + 5.0 * most * power_of_two(-24);
        (bound < power_of_two(-10)).then(|| Self {
            factors: factors.map(|factor| factor as f32),
            constant: constant as f32,
            range: (finish.bounds.0 as f32, finish.bounds.1 as f32),
            reach: (0.5 - bound - power_of_two(-20)) as f32,
            scaled,
            finish,
        })
    }

    /// Writes the sums of elements from the first one on, and returns how many: not all where floats seldom decide.
    pub(super) fn apply<T: Stored>(self, isa: Isa, operands: [&[T]; 2], results: &mut [T]) -> usize {
        isa.dispatch(Blocks { sum: self, operands, results })
    }

    /// Writes the rounded sums and returns the greatest distance of one from a whole number.
    #[inline(always)]
    fn round<T: Stored>(self, left: &[T; BLOCK], right: &[T; BLOCK], results: &mut [T; BLOCK]) -> f32 {
        let mut furthest = 0;
        for (result, (left, right)) in results.iter_mut().zip(left.iter().zip(right)) {
            let (left, right): (i32, i32) = ((*left).into(), (*right).into());
            let sum = left as f32 * self.factors[0] + (right as f32 * self.factors[1] + self.constant);
            let sum = clamp(sum, self.range.0, self.range.1);
            let (whole, distance) = nearest(sum);
            furthest = furthest.max(distance);
            *result = T::truncate(whole);
        }
        f32::from_bits(furthest as u32)
    }
}

/// Kernel of [`FloatSum::apply`].
struct Blocks<'a, T> {
    sum: FloatSum,
    operands: [&'a [T]; 2],
    results: &'a mut [T],
}

impl<T: Stored> Multiversioned for Blocks<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> usize {
        let Self { sum, operands: [left, right], results } = self;
        let (left, right) = (left.as_chunks::<BLOCK>().0, right.as_chunks::<BLOCK>().0);
        let mut repeated = 0;
        for (index, results) in results.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
            if sum.round(&left[index], &right[index], results) > sum.reach {
                repeated += 1;
                if repeated > 8 + index / 8 {
                    return index * BLOCK;
                }
                for (result, (left, right)) in results.iter_mut().zip(left[index].iter().zip(&right[index])) {
                    *result = T::truncate(sum.finish.apply(sum.scaled.apply((*left).into(), (*right).into())));
                }
            }
        }
        results.len() / BLOCK * BLOCK
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantized::elementwise::Finish;
    use crate::testing::Random;

    /// A sum as TensorFlow Lite computes it for these scales.
    fn sum(scales: [f64; 3], zero_points: [i32; 3], subtract: bool) -> Sum {
        let most = 2.0 * scales[0].max(scales[1]);
        let operand = |index: usize| OperandScaling {
            zero_point: zero_points[index],
            shift: 20,
            factor: Multiplier::new(scales[index] / most),
        };
        let factor = Multiplier::new(most / (2f64.powi(20) * scales[2]));
        let finish = Finish { factor, zero_point: zero_points[2], bounds: (-128, 127) };
        Sum { operands: [operand(0), operand(1)], subtract, finish }
    }

    #[test]
    fn all_pairs_of_bytes_have_the_sums_of_the_formula() {
        let (mut random, mut decided) = (Random::new(77), 0);
        let pairs = || (0..=255u8).flat_map(|left| (0..=255u8).map(move |right| [left as i8, right as i8]));
        let [left, right] = [0, 1].map(|index| pairs().map(|pair| pair[index]).collect::<Vec<i8>>());
        for round in 0..60 {
            let mut scale = || 0.05 + random.below(1 << 20) as f64 / f64::from(1 << 20);
            let [a, b, c] = [scale(), scale(), scale()];
            // In rounds with ties, floats decide for half of the pairs.
            let scales = [[a, b, c], [a, b, (a + b) / 1.5], [a, a, a], [a, 2.0 * a, 2.0 * a]][round % 4];
            let zero_points = [0; 3].map(|_| random.below(256) as i32 - 128);
            let sum = sum(scales, zero_points, round % 3 == 0);
            let Some(floats) = FloatSum::new(sum) else { continue };
            for isa in Isa::available() {
                let mut made = vec![0i8; left.len()];
                let done = floats.apply(isa, [&left, &right], &mut made);
                decided += usize::from(done == left.len());
                for (index, made) in made[..done].iter().enumerate() {
                    let expected = sum.apply(left[index].into(), right[index].into());
                    assert_eq!(i32::from(*made), expected, "{} {sum:?} {index}", isa.name());
                }
            }
        }
        assert!(decided >= 20 * Isa::available().len(), "floats decide in rounds without ties: {decided}");
    }
}
