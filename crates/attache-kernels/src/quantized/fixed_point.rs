//! Multiplication by real factors in integer arithmetic. A factor consists of a 31-bit mantissa and a power of two.
//!
//! The two rounding modes are those of TensorFlow Lite's reference kernels. Which one applies depends on the operator.

/// How often, and how, the product of an integer and a [`Multiplier`] is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Rounds after the multiplication by the mantissa (ties up), and again after the division by the power
    /// of two (ties away from zero).
    Twice,
    /// Rounds only once, after both the multiplication and the division (ties up).
    Once,
}

/// A factor `mantissa × 2^(exponent − 31)`. The mantissa of a nonzero factor has a magnitude of at least 2³⁰.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multiplier {
    /// The mantissa: 0, or 2³⁰ to 2³¹ − 1 with the factor's sign.
    pub mantissa: i32,
    /// The exponent of the power of two: the factor is `mantissa × 2^(exponent − 31)`.
    pub exponent: i32,
}

impl Multiplier {
    /// Returns the factor nearest to `real`: zero below 2⁻³² in magnitude, and the largest (positive) factor
    /// from 2³⁰ on in magnitude and for non-finite values.
    pub fn new(real: f64) -> Self {
        if real == 0.0 {
            return Self { mantissa: 0, exponent: 0 };
        }
        if !real.is_finite() {
            return Self { mantissa: i32::MAX, exponent: 30 };
        }
        let (fraction, mut exponent) = split(real);
        let mut mantissa = (fraction * f64::from(1u32 << 31)).round() as i64;
        if mantissa.abs() == 1 << 31 {
            mantissa /= 2;
            exponent += 1;
        }
        if exponent < -31 {
            return Self { mantissa: 0, exponent: 0 };
        }
        if exponent > 30 {
            return Self { mantissa: i32::MAX, exponent: 30 };
        }
        Self { mantissa: mantissa as i32, exponent }
    }

    /// Returns `x` times the factor, rounded. Wraps if the result or the shifted `x` does not fit 32 bits.
    ///
    /// One shift rounds twice: `p + 2^30` rounds the product `p` to a multiple of 2³¹, and half of the divisor rounds that.
    /// To round ties away from zero, negative products are reduced by 2³¹, one unit in the last place of the first rounding.
    #[inline(always)]
    pub fn apply(self, x: i32, rounding: Rounding) -> i32 {
        match rounding {
            Rounding::Twice => {
                let x = x.wrapping_shl(self.exponent.max(0) as u32);
                let (product, right) = (i64::from(x) * i64::from(self.mantissa), self.exponent.min(0).unsigned_abs());
                let (half, unit) = if right == 0 { (0, 0) } else { (1i64 << (30 + right), 1i64 << 31) };
                ((product + (1 << 30) + half - (product >> 63 & unit)) >> (31 + right)) as i32
            }
            Rounding::Once => {
                let shift = 31 - self.exponent;
                let product = i64::from(x) * i64::from(self.mantissa);
                ((product + (1i64 << (shift - 1))) >> shift) as i32
            }
        }
    }
}

/// Returns `x` times a factor whose mantissa is first rounded to 16 bits. The product is rounded once, ties
/// up, and wraps to 32 bits. This is TensorFlow Lite's arithmetic for 64-bit sums.
pub fn multiply_int16x8(x: i64, factor: Multiplier) -> i32 {
    let mantissa = if factor.mantissa < 0x7fff_0000 { (factor.mantissa + (1 << 15)) >> 16 } else { 0x7fff };
    multiply(x, mantissa, 15 - factor.exponent)
}

/// Returns `x × mantissa / 2^shift`, rounded once, ties up. Wraps to 32 bits.
pub(crate) fn multiply(x: i64, mantissa: i32, shift: i32) -> i32 {
    // Most products fit 64 bits.
    if (1..63).contains(&shift)
        && let Some(rounded) = x.checked_mul(mantissa.into()).and_then(|product| product.checked_add(1 << (shift - 1)))
    {
        return (rounded >> shift) as i32;
    }
    let product = i128::from(x) * i128::from(mantissa);
    let result = if shift > 0 { (product + (1i128 << (shift - 1))) >> shift } else { product << -shift };
    result as i32
}

/// Splits a finite nonzero number into a fraction, with a magnitude in [½, 1), and the exponent of a power of
/// two.
pub fn split(real: f64) -> (f64, i32) {
    // Subnormal numbers are scaled up first, so that the exponent can be read from the bits.
    let (real, offset) = if real.abs() < f64::MIN_POSITIVE { (real * 2f64.powi(54), -54) } else { (real, 0) };
    let bits = real.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1022;
    (f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52), exponent + offset)
}

/// Returns `a × b / 2³¹`, the upper 32 bits of `2ab`, rounded, ties up. Saturates for the only product that
/// does not fit (both operands `i32::MIN`).
#[inline(always)]
pub fn doubling_high_product(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    let product = i64::from(a) * i64::from(b);
    let nudge = if product >= 0 { 1i64 << 30 } else { 1 - (1i64 << 30) };
    ((product + nudge) / (1i64 << 31)) as i32
}

/// Returns `x / 2^exponent`, rounded, ties away from zero. The exponent is at most 31.
#[inline(always)]
pub fn divide_by_power(x: i32, exponent: u32) -> i32 {
    let mask = ((1i64 << exponent) - 1) as i32;
    let threshold = (mask >> 1) + i32::from(x < 0);
    (x >> exponent.min(31)) + i32::from((x & mask) > threshold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_split_exactly() {
        for real in [1.0, 0.5, 0.75, 1e-3, 123.456, 2f64.powi(-31), f64::MIN_POSITIVE / 8.0, -0.3] {
            let (fraction, exponent) = split(real);
            assert!((0.5..1.0).contains(&fraction.abs()), "{real}: {fraction}");
            assert_eq!(fraction * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2), real);
        }
        assert_eq!(Multiplier::new(1.0), Multiplier { mantissa: 1 << 30, exponent: 1 });
        assert_eq!(Multiplier::new(0.999_999_999_99), Multiplier { mantissa: 1 << 30, exponent: 1 });
        assert_eq!(Multiplier::new(2f64.powi(-40)), Multiplier { mantissa: 0, exponent: 0 });
        assert_eq!(Multiplier::new(f64::INFINITY).mantissa, i32::MAX);
    }

    #[test]
    fn rounding_once_and_twice_differ_only_by_rounding() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        for _ in 0..100_000 {
            let x = (random() as i32) >> (random() % 20);
            let real = f64::from(random() + 1) / 2f64.powi(32 + (random() % 12) as i32);
            let multiplier = Multiplier::new(real);
            let exact = f64::from(x) * f64::from(multiplier.mantissa) * 2f64.powi(multiplier.exponent - 31);
            let once = f64::from(multiplier.apply(x, Rounding::Once));
            let twice = f64::from(multiplier.apply(x, Rounding::Twice));
            assert!((once - exact).abs() <= 0.5, "{x} × {real}: {once}, {exact}");
            assert!((twice - exact).abs() <= 1.0, "{x} × {real}: {twice}, {exact}");
        }
    }

    #[test]
    fn one_shift_rounds_as_two_do() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        for round in 0..3_000_000u32 {
            let mantissa = ((1 << 30) + (random() >> 1) as i32) * if round % 5 == 0 { -1 } else { 1 };
            let mantissa = [mantissa, 0, i32::MAX, 1 << 30][if round % 16 < 4 { round as usize % 4 } else { 0 }];
            let factor = Multiplier { mantissa, exponent: (random() % 62) as i32 - 31 };
            let mut x = (random() << 1 | random() & 1) as i32 >> (random() % 32);
            if round % 2 == 0 && mantissa != 0 {
                // Near ties of the division.
                let exponent = factor.exponent.clamp(-20, 0);
                x = (((1i64 << (30 - exponent)) / i64::from(mantissa)) as i32).wrapping_mul(x % 16 * 2 + 1);
                x = x.wrapping_add((random() % 3) as i32 - 1);
            }
            let product = doubling_high_product(x.wrapping_shl(factor.exponent.max(0) as u32), mantissa);
            let expected = divide_by_power(product, factor.exponent.min(0).unsigned_abs());
            assert_eq!(factor.apply(x, Rounding::Twice), expected, "{x} × {factor:?}");
        }
    }

    #[test]
    fn int16x8_sums_are_multiplied_by_sixteen_bits() {
        let half = Multiplier::new(0.5);
        assert_eq!([5, -5, 3 << 33].map(|x| multiply_int16x8(x, half)), [3, -2, 0]);
        assert_eq!(multiply_int16x8(1_000_000, Multiplier::new(0.1)), 99_998);
    }

    #[test]
    fn divisions_round_ties_away_from_zero() {
        assert_eq!([5, -5, 6, -6, 7].map(|x| divide_by_power(x, 2)), [1, -1, 2, -2, 2]);
        assert_eq!(divide_by_power(i32::MIN, 31), -1);
        assert_eq!(doubling_high_product(i32::MIN, i32::MIN), i32::MAX);
        assert_eq!(doubling_high_product(1 << 30, 3), 2);
        assert_eq!(doubling_high_product(1 << 30, -3), -1);
    }
}
