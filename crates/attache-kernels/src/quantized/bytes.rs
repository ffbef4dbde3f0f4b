//! Sums and products of bytes in 32 bits, up to the last step: their requantization, for which there are vector kernels
//! ([`Requantize`](super::Requantize)).

use super::Requantize;
use super::elementwise::{Finish, Formula, IntegerFunction, OperandScaling, Product, Sum};

/// What an [`IntegerFunction`] of bytes computes before it is requantized.
#[derive(Clone, Copy)]
pub(super) enum Unfinished {
    Sum(ScaledSum),
    Product(PlainProduct),
}

impl Unfinished {
    /// Returns the function without its last step, and that step; `None` for functions that have no such parts, or
    /// parameters beyond 32 bits.
    pub(super) fn of(function: IntegerFunction) -> Option<(Self, Requantize)> {
        let (unfinished, finish) = match function {
            IntegerFunction::Sum(sum) => (Self::Sum(ScaledSum::new(sum)?), sum.finish),
            IntegerFunction::Product(Product { zero_points, finish }) => {
                let fit = zero_points.iter().all(|zero_point| BYTES.contains(zero_point));
                (Self::Product(fit.then_some(PlainProduct { zero_points })?), finish)
            }
            _ => return None,
        };
        let Finish { factor, zero_point, bounds } = finish;
        let fits = factor.mantissa >= 0 && BYTES.contains(&zero_point) && Requantize::fit(bounds);
        fits.then(|| (unfinished, Requantize::of_words(factor, zero_point, bounds)))
    }
}

/// The values of bytes, signed or not.
pub(super) const BYTES: std::ops::RangeInclusive<i32> = -128..=255;

/// An [`OperandScaling`] of bytes whose intermediate results fit 32 bits.
///
/// With `d` the byte less its zero point, `s` the additional fraction bits and `m` the mantissa, the first rounding of
/// `d·2^s·m / 2³¹` is `⌊(d·m + 2^(k−1)) / 2^k⌋` with `k = 31 − s`. With `m = h·2^k + l` that is
/// `d·h + ⌊(d·l + 2^(k−1)) / 2^k⌋`. The second one divides by a power of two and rounds ties away from zero.
#[derive(Clone, Copy)]
pub(super) struct ScaledByte {
    zero_point: i32,
    high: i32,
    low: i32,
    bits: u32,
    right: u32,
}

impl ScaledByte {
    fn new(scaling: OperandScaling) -> Option<Self> {
        let OperandScaling { zero_point, shift, factor } = scaling;
        // |d| is below 2⁹, so that d·l, with k ≤ 21, and d·h, with s ≤ 20, are below 2³⁰.
        let fits = BYTES.contains(&zero_point) && (10..=20).contains(&shift);
        if !fits || factor.mantissa < 0 || !(-31..=0).contains(&factor.exponent) {
            return None;
        }
        let bits = 31 - shift;
        let (high, low) = (factor.mantissa >> bits, factor.mantissa & ((1 << bits) - 1));
        Some(Self { zero_point, high, low, bits, right: factor.exponent.unsigned_abs() })
    }

    #[inline(always)]
    fn apply(self, x: i32) -> i32 {
        let Self { zero_point, high, low, bits, right } = self;
        let d = x - zero_point;
        let rounded = d * high + ((d * low + (1 << (bits - 1))) >> bits);
        let (half, unit) = if right == 0 { (0, 0) } else { (1 << (right - 1), 1) };
        (rounded + half - (rounded >> 31 & unit)) >> right
    }
}

/// The sum of two bytes at a common scale; their difference if the sign is −1.
#[derive(Clone, Copy)]
pub(super) struct ScaledSum {
    operands: [ScaledByte; 2],
    sign: i32,
}

impl ScaledSum {
    /// Returns `None` for parameters beyond 32 bits.
    pub(super) fn new(Sum { operands: [left, right], subtract, .. }: Sum) -> Option<Self> {
        let operands = [ScaledByte::new(left)?, ScaledByte::new(right)?];
        Some(Self { operands, sign: if subtract { -1 } else { 1 } })
    }
}

impl Formula for ScaledSum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        self.operands[0].apply(left) + self.sign * self.operands[1].apply(right)
    }
}

/// The product of two bytes less their zero points.
#[derive(Clone, Copy)]
pub(super) struct PlainProduct {
    zero_points: [i32; 2],
}

impl Formula for PlainProduct {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        (left - self.zero_points[0]) * (right - self.zero_points[1])
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::quantized::{Multiplier, Stored, elementwise::binary};
    use crate::testing::Random;
    use crate::{Engine, Isa};

    fn check<T: Stored>(isa: Isa, function: IntegerFunction, formula: impl Formula, random: &mut Random) {
        let count = [1 + random.below(1500), 1024][random.below(4) / 3];
        let mut bytes = || -> Vec<T> { (0..count).map(|_| T::truncate(random.below(256) as i32)).collect() };
        let (left, right, mut made) = (bytes(), bytes(), bytes());
        let engine = Engine { isa, parallel: &Serial };
        binary(engine, function, (&left, &[count]), (&right, &[count]), (&mut made, &[count]));
        for ((left, right), made) in left.into_iter().zip(right).zip(made) {
            let (left, right): (i32, i32) = (left.into(), right.into());
            assert_eq!(made.into(), formula.apply(left, right), "{} {left} {right} {function:?}", isa.name());
        }
    }

    #[test]
    fn bytes_are_rounded_as_the_formulas_round_them() {
        let mut random = Random::new(31);
        for round in 0..600 {
            let is_signed = round % 2 == 0;
            let least = if is_signed { -128 } else { 0 };
            let mut zero_point = || least + random.below(256) as i32;
            let (zero_points, zero) = ([zero_point(), zero_point()], zero_point());
            let mut factor = |below: i32| {
                let real = (1 + random.below(1 << 16)) as f64 / f64::from(1 << 16);
                Multiplier::new(real * 2f64.powi(below - random.below(12) as i32))
            };
            let (factors, last) = ([factor(0), factor(0)], [factor(-14), factor(-6), factor(3)][round % 3]);
            let bounds = (least + random.below(100) as i32, least + 255 - random.below(100) as i32);
            let finish = Finish { factor: last, zero_point: zero, bounds };
            let shift = if random.below(4) == 0 { 10 + random.below(11) as u32 } else { 20 };
            let operand =
                |index: usize| OperandScaling { zero_point: zero_points[index], shift, factor: factors[index] };
            let sum = Sum { operands: [0, 1].map(operand), subtract: random.below(2) == 0, finish };
            let product = Product { zero_points, finish };
            for isa in Isa::available() {
                if is_signed {
                    check::<i8>(isa, IntegerFunction::Sum(sum), sum, &mut random);
                    check::<i8>(isa, IntegerFunction::Product(product), product, &mut random);
                } else {
                    check::<u8>(isa, IntegerFunction::Sum(sum), sum, &mut random);
                    check::<u8>(isa, IntegerFunction::Product(product), product, &mut random);
                }
            }
        }
    }
}
