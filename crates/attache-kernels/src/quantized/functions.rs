//! Functions of 32-bit fixed-point numbers (exponential, logarithm, reciprocal, inverse square root) and functions
//! derived from them.
//!
//! A number with `n` integer bits is an `i32` that represents `raw × 2^(n − 31)`. The polynomials and the number and
//! form of the Newton iterations are those of TensorFlow Lite's reference kernels, because each rounding affects the
//! result.

use super::fixed_point::{divide_by_power, doubling_high_product as product};
use super::{Multiplier, Rounding, ScaleAndZero};

/// Returns `x × 2^bits`, saturated to 32 bits.
fn shift_left(x: i32, bits: u32) -> i32 {
    (i64::from(x) << bits).clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// Returns `eᵃ` with no integer bits, for `a ≤ 0` with `bits` ≤ 5 integer bits. Computed as a Taylor
/// polynomial around −1/8 on [−1/4, 0), times one constant per higher binary digit.
pub fn exponential(a: i32, bits: u32) -> i32 {
    if a == 0 {
        return i32::MAX;
    }
    let fraction_bits = 31 - bits;
    let quarter = 1 << (fraction_bits - 2);
    let rest = (a & (quarter - 1)) - quarter;
    let digits = rest.wrapping_sub(a);
    let mut result = exponential_of_quarter(shift_left(rest, bits));
    // e^(−1/4), e^(−1/2), … e^(−16).
    for (exponent, factor) in
        (-2..).zip([1_672_461_947, 1_302_514_674, 790_015_084, 290_630_308, 39_332_535, 720_401, 242])
    {
        let bit = fraction_bits as i32 + exponent;
        if exponent < bits as i32 && digits & (1 << bit) != 0 {
            result = product(result, factor);
        }
    }
    result
}

/// Returns `eᵃ` for `a` in [−1/4, 0), both with no integer bits.
fn exponential_of_quarter(a: i32) -> i32 {
    const E_TO_MINUS_EIGHTH: i32 = 1_895_147_668;
    const THIRD: i32 = 715_827_883;
    let x = a + (1 << 28);
    let square = product(x, x);
    let (cube, fourth) = (product(square, x), product(square, square));
    let tail = divide_by_power(product(divide_by_power(fourth, 2) + cube, THIRD) + square, 1);
    E_TO_MINUS_EIGHTH + product(E_TO_MINUS_EIGHTH, x + tail)
}

/// Constant term 48/17 of the initial value 48/17 − 32/17 y of Newton's method for `1 / (1 + x)` with
/// `y = (1 + x) / 2`; two integer bits.
pub const RECIPROCAL_START: i32 = 1_515_870_810;
/// Slope −32/17 of the initial value of Newton's method in [`reciprocal_of_one_plus`]; two integer bits.
pub const RECIPROCAL_SLOPE: i32 = -1_010_580_540;
/// Number of Newton iterations of [`reciprocal_of_one_plus`].
pub const RECIPROCAL_STEPS: usize = 3;

/// Returns `1 / (1 + x)` for `x` in [0, 1), both with no integer bits, by three Newton iterations.
pub fn reciprocal_of_one_plus(x: i32) -> i32 {
    const TWO_BITS_ONE: i32 = 1 << 29;
    // (1 + x) / 2, rounded. Never negative, because x is not negative.
    let half = ((i64::from(x.max(0)) + i64::from(i32::MAX) + 1) / 2) as i32;
    let mut y = product(half, RECIPROCAL_SLOPE).wrapping_add(RECIPROCAL_START);
    for _ in 0..RECIPROCAL_STEPS {
        let rest = TWO_BITS_ONE.wrapping_sub(product(half, y));
        y = y.wrapping_add(shift_left(product(y, rest), 2));
    }
    shift_left(y, 1)
}

/// Returns the reciprocal of a positive `x` with `bits` integer bits, as a pair: a number with no integer
/// bits, and the number of bits by which this number has to be shifted right.
pub fn reciprocal(x: i32, bits: i32) -> (i32, i32) {
    let zeros = x.leading_zeros();
    let rest = (i64::from(x) << zeros) - (1 << 31);
    (reciprocal_of_one_plus(rest as i32), bits - zeros as i32)
}

/// Constants of [`inverse_square_root`].
#[derive(Debug)]
pub struct RootDigits;

impl RootDigits {
    /// Right shift of the result for inputs in [2²⁷, 2²⁹), which need no normalization.
    pub const SHIFT: i32 = 11;
    /// √2 / 2, with no integer bits. The result of Newton's method is multiplied by it.
    pub const HALF_ROOT_OF_TWO: i32 = 1_518_500_250;
    /// 3/2, a constant of the Newton step, with three integer bits.
    pub const THREE_HALVES: i32 = (1 << 28) + (1 << 27);
}

/// Number of Newton iterations of [`inverse_square_root`].
pub const ROOT_STEPS: usize = 5;

/// Returns `1 / √x` of a non-negative integer `x`; 0 is treated as 1.
pub fn inverse_square_root(mut x: i32) -> Multiplier {
    if x <= 1 {
        return Multiplier { mantissa: i32::MAX, exponent: 0 };
    }
    let mut shift = RootDigits::SHIFT;
    while x >= 1 << 29 {
        x /= 4;
        shift += 1;
    }
    let pairs = (x.leading_zeros() as i32 - 1) / 2 - 1;
    shift -= pairs;
    x <<= 2 * pairs;
    // From here on, numbers have three integer bits.
    let half = divide_by_power(x >> 1, 1);
    let mut y = 1 << 28;
    for _ in 0..ROOT_STEPS {
        let cube = shift_left(product(product(y, y), y), 6);
        y = shift_left(product(RootDigits::THREE_HALVES, y).wrapping_sub(product(half, cube)), 3);
    }
    let mut mantissa = product(y, RootDigits::HALF_ROOT_OF_TWO);
    if shift < 0 {
        mantissa <<= -shift;
        shift = 0;
    }
    Multiplier { mantissa, exponent: -shift }
}

/// Constants of [`logarithm`].
#[derive(Debug)]
pub struct LogarithmDigits;

#[allow(missing_docs)] // Their names are what they are, of no integer bits where nothing else is said.
impl LogarithmDigits {
    /// Integer bits of the terms of the sum that [`logarithm`] computes, one more than those of its result.
    pub const BITS: u32 = 6;
    pub const LN_2: i32 = 1_488_522_236;
    pub const ROOT_OF_HALF: i32 = 1_518_500_250;
    pub const FOURTH_ROOT_OF_HALF: i32 = 1_805_811_301;
    /// 1/4, with `BITS` integer bits.
    pub const QUARTER: i32 = 1 << (31 - 2 - Self::BITS);
    /// 11/240 of the fourth root of two: the coefficient of q³ in the numerator of the quotient in
    /// [`logarithm`].
    pub const NUMERATOR: i32 = 117_049_297;
    /// 1/20 of the fourth root of two: the coefficient of q² in the factor of `p` in the denominator of the
    /// quotient in [`logarithm`].
    pub const SQUARE: i32 = 127_690_142;
    /// 1/4 of the fourth root of two: the coefficient of q in the denominator of the quotient in
    /// [`logarithm`].
    pub const LINEAR: i32 = 638_450_708;
    /// 2 divided by the fourth root of two, minus that root: the constant term in the factor of `p` in the
    /// denominator of the quotient in [`logarithm`].
    pub const CONSTANT: i32 = 1_057_819_769;
}

/// Returns `ln x` with five integer bits, for `x ≥ 1` with `bits` integer bits.
pub fn logarithm(x: i32, bits: i32) -> i32 {
    use LogarithmDigits as Digits;
    let scale = 31 - Digits::BITS;
    // Evaluated both for x between two powers of two and for x times √½. The smaller remainder and the larger power are
    // used.
    let first_zeros = x.leading_zeros() as i32;
    let first = shift_left(product(shift_left(x, (first_zeros - 1) as u32), Digits::ROOT_OF_HALF), 1);
    let first_power = shift_left(bits - first_zeros, scale).saturating_add(Digits::QUARTER);
    let zeros = product(x, Digits::ROOT_OF_HALF).leading_zeros() as i32 - 1;
    let second = shift_left(x, zeros as u32);
    let second_power = shift_left(bits - zeros, scale).saturating_sub(Digits::QUARTER);
    let (rest, power) = (first.min(second), first_power.max(second_power));
    let p = ((i64::from(rest) + i64::from(Digits::FOURTH_ROOT_OF_HALF) + 1) / 2) as i32;
    let q = rest.wrapping_sub(Digits::FOURTH_ROOT_OF_HALF);
    let q = q.wrapping_add(q);
    let q_square = product(q, q);
    let above = product(q, rest).wrapping_add(product(product(q, q_square), Digits::NUMERATOR));
    let below = Digits::CONSTANT.wrapping_add(q).wrapping_add(product(Digits::SQUARE, q_square));
    let below = product(p, below).wrapping_add(product(Digits::LINEAR, q));
    let quotient = product(divide_by_power(above, Digits::BITS), reciprocal_of_one_plus(below));
    shift_left(product(power, Digits::LN_2).wrapping_add(quotient), 1)
}

/// Returns `l / r × factor`, rounded, for integers `l` and `r`; `r` must not be 0.
pub fn quotient(mut l: i32, mut r: i32, factor: Multiplier) -> i32 {
    if r < 0 {
        (l, r) = (l.wrapping_neg(), r.wrapping_neg());
    }
    let (inverse, shift) = reciprocal(r, 31);
    let headroom = if l >= 0 { l.leading_zeros() } else { l.leading_ones() } - 1;
    let quotient = product(l << headroom, inverse);
    let exponent = factor.exponent - shift - headroom as i32;
    let result = product(quotient, factor.mantissa);
    if exponent <= 0 {
        divide_by_power(result, exponent.unsigned_abs().min(31))
    } else {
        shift_left(result, exponent.min(31) as u32)
    }
}

/// The function `x × min(max(x + 3, 0), 6) / 6` of 8-bit quantized elements, in 16-bit arithmetic. Its
/// results are not saturated to 8 bits.
#[derive(Clone, Copy, Debug)]
pub struct HardSwish {
    zero_points: [i32; 2],
    /// Factor from 1/128 of the input's scale to the output's scale, as a 16-bit mantissa and an exponent.
    output: (i16, i32),
    /// Factor from 1/128 of the input's scale to a scale at which 3 is 2¹⁵, as a 16-bit mantissa and an
    /// exponent.
    gate: (i16, i32),
}

impl HardSwish {
    /// Returns the function for these quantization parameters, or `None` if the output's scale is too fine
    /// for the input's (less than about 1/128 of it).
    pub fn new(input: ScaleAndZero, output: ScaleAndZero) -> Option<Self> {
        let scale = input.0 * (1.0 / 128.0);
        let narrow = |real: f32| {
            let Multiplier { mantissa, exponent } = Multiplier::new(real.into());
            ((mantissa.saturating_add(1 << 15) >> 16) as i16, exponent)
        };
        let factors = (narrow(scale / output.0), narrow(scale / (3.0 / 32768.0)));
        let swish = Self { zero_points: [input.1, output.1], output: factors.0, gate: factors.1 };
        (swish.output.1 <= 0).then_some(swish)
    }

    /// Returns the quantized result for a quantized element, not yet saturated to 8 bits.
    pub fn apply(self, stored: i32) -> i32 {
        let x = ((stored - self.zero_points[0]) << 7) as i16;
        let unshifted = product_16(x, self.output.0);
        let (mantissa, exponent) = self.gate;
        let left = |x: i16, bits: i32| (i64::from(x) << bits.min(31)).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        let mut gate = if exponent > 0 { left(x, exponent - 1) } else { x };
        gate = product_16(gate, mantissa);
        if exponent > 0 {
            gate = left(gate, 1);
        }
        if exponent < 0 {
            gate = divide_by_power(gate.into(), exponent.unsigned_abs().min(31)) as i16;
        }
        let gate = (i32::from(gate) + (1 << 15)) >> 1;
        // Rounded towards zero, to counteract the bias of the other products.
        let result = (gate * i32::from(unshifted)) / (1 << 15);
        let result = divide_by_power(result, self.output.1.unsigned_abs().min(31));
        i32::from(result as i16).wrapping_add(self.zero_points[1])
    }
}

/// Returns `a × b / 2¹⁵`, rounded with ties up and saturated to 16 bits.
pub(super) fn product_16(a: i16, b: i16) -> i16 {
    let product = i32::from(a) * i32::from(b);
    let nudge = if product >= 0 { 1 << 14 } else { 1 - (1 << 14) };
    ((product + nudge) / (1 << 15)).min(i16::MAX.into()) as i16
}

/// The logistic function or the hyperbolic tangent of 16-bit elements. Both interpolate linearly in the same table of
/// the logistic function, with `tanh x = 2 σ(2x) − 1`. The output's scale is 2⁻¹⁵.
#[derive(Clone, Debug)]
pub struct Sigmoid {
    /// Table of `2¹⁶ σ(i / 24)` with index `i`.
    table: Vec<u16>,
    is_tanh: bool,
    multiplier: i32,
    shift: u32,
}

/// Indices of the entries of TensorFlow Lite's table that are one larger than the rounded function value.
const ONE_MORE: [u8; 44] = [
    4, 8, 12, 14, 15, 16, 17, 19, 20, 21, 22, 25, 27, 28, 29, 30, 31, 33, 34, 35, 37, 39, 40, 41, 43, 44, 45, 46, 49,
    50, 54, 62, 63, 64, 66, 82, 86, 93, 100, 103, 112, 116, 135, 255,
];

impl Sigmoid {
    /// Returns tanh (if `is_tanh`) or the logistic function, for inputs with this scale and zero point 0.
    pub fn new(scale: f32, is_tanh: bool) -> Self {
        let entry = |index: u8| {
            let exact = 65536.0 / (1.0 + (-f64::from(index) / 24.0).exp());
            exact.round() as u16 + u16::from(ONE_MORE.contains(&index))
        };
        // The scale counts as a power of two if its base-2 logarithm is within 0.001 of an integer.
        let power = scale.log2();
        let shift = 12 + power.round() as i32;
        let is_power = (power - power.round()).abs() < 1e-3;
        let (multiplier, shift) = if is_power && (shift == 0 || is_tanh && shift == 1) {
            (3 << shift, 0)
        } else {
            let mut real = f64::from(scale) * 4096.0 * 3.0;
            let mut shift = 0;
            while real <= 32767.0 / 2.0 && shift <= 30 {
                (real, shift) = (real * 2.0, shift + 1);
            }
            (real as i32, shift)
        };
        Self { table: (0..=u8::MAX).map(entry).collect(), is_tanh, multiplier, shift }
    }

    /// Returns the quantized result (with scale 2⁻¹⁵) for a quantized element.
    pub fn apply(&self, stored: i32) -> i32 {
        let round = if self.shift > 0 { 1i32.wrapping_shl(self.shift - 1) } else { 0 };
        let x = stored.wrapping_mul(self.multiplier).wrapping_add(round).wrapping_shr(self.shift);
        // 2¹⁷ corresponds to 10.7 for the logistic function and to 5.3 for tanh.
        let bits = if self.is_tanh { 8 } else { 9 };
        let (magnitude, index) = (x.unsigned_abs(), (x.unsigned_abs() >> bits) as usize);
        let line = |index: usize| {
            let (low, high) = (i64::from(self.table[index]), i64::from(self.table[index + 1]));
            (low << bits) + i64::from(magnitude & ((1 << bits) - 1)) * (high - low)
        };
        let result = match (self.is_tanh, index) {
            (false, 255..) => 0x7fff << 10,
            (true, 255..) => 0xffff << 8,
            _ => line(index),
        };
        let result = match (self.is_tanh, x >= 0) {
            (false, true) => (result + (1 << 9)) >> 10,
            (false, false) => ((1 << 25) - result + (1 << 9) - 1) >> 10,
            (true, true) => (result - (1 << 23) + (1 << 7)) >> 8,
            (true, false) => (-result + (1 << 23) + (1 << 7) - 1) >> 8,
        };
        i32::from(result as i16)
    }
}

/// Returns `1 / √x` of an 8-bit quantized element, in steps of the output's scale and without its zero point:
/// `i32::MAX` if `x` is 0, `None` if it is negative. `factor` is 1 / (√(input scale) × output scale).
pub fn inverse_square_root_of_stored(stored: i32, zero_point: i32, factor: Multiplier) -> Option<i32> {
    // Fraction bits, so that the root can be kept as an integer.
    const DIGITS: i32 = 20;
    let value = stored - zero_point;
    if value <= 0 {
        return (value == 0).then_some(i32::MAX);
    }
    let root = inverse_square_root(value);
    let root = Multiplier { exponent: root.exponent + DIGITS, ..root }.apply(1, Rounding::Twice);
    Some(Multiplier { exponent: (factor.exponent - DIGITS).max(-31), ..factor }.apply(root, Rounding::Twice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn real(raw: i32, bits: i32) -> f64 {
        f64::from(raw) * 2f64.powi(bits - 31)
    }

    #[test]
    fn functions_approximate_the_real_ones() {
        for step in 1..2000 {
            let a = -step * 1_000_003;
            assert!((real(exponential(a, 5), 0) - real(a, 5).exp()).abs() < 1e-6, "{a}");
            let x = step * 1_073_000;
            assert!((real(reciprocal_of_one_plus(x), 0) - 1.0 / (1.0 + real(x, 0))).abs() < 1e-6, "{x}");
            let x = (1 << 19) + step * 1_000_000;
            assert!((real(logarithm(x, 12), 5) - real(x, 12).ln()).abs() < 1e-5, "{x}");
            let x = step * step * 511;
            let Multiplier { mantissa, exponent } = inverse_square_root(x);
            let root = real(mantissa, exponent) * f64::from(x).sqrt();
            assert!((root - 1.0).abs() < 1e-3, "{x}: {root}");
            let (inverse, shift) = reciprocal(x, 31);
            assert!((real(inverse, -shift) * f64::from(x) - 1.0).abs() < 1e-6, "{x}");
        }
        assert_eq!(exponential(0, 5), i32::MAX);
    }

    #[test]
    fn quotients_round() {
        let factor = Multiplier::new(10.0);
        for (l, r) in [(7, 2), (-7, 2), (7, -3), (-255, -1), (0, 9), (1, 255)] {
            let exact = f64::from(l) * 10.0 / f64::from(r);
            assert!((f64::from(quotient(l, r, factor)) - exact).abs() <= 1.0, "{l} / {r}");
        }
    }

    #[test]
    fn sigmoids_approximate_the_real_ones() {
        for scale in [1.0 / 4096.0, 1.0 / 2048.0, 0.001, 0.000_2] {
            let (tanh, logistic) = (Sigmoid::new(scale, true), Sigmoid::new(scale, false));
            for stored in (-32768..32768).step_by(123) {
                let x = f64::from(stored) * f64::from(scale);
                assert!((f64::from(tanh.apply(stored)) / 32768.0 - x.tanh()).abs() < 5e-4, "{scale} {stored}");
                let expected = 1.0 / (1.0 + (-x).exp());
                assert!((f64::from(logistic.apply(stored)) / 32768.0 - expected).abs() < 5e-4, "{scale} {stored}");
            }
        }
    }

    #[test]
    fn hard_swish_approximates_the_real_one() {
        let swish = HardSwish::new((0.04, 3), (0.05, -100)).unwrap();
        for stored in -128..128 {
            let x = f64::from(stored - 3) * 0.04;
            let expected = x * (x + 3.0).clamp(0.0, 6.0) / 6.0 / 0.05 - 100.0;
            assert!((f64::from(swish.apply(stored)) - expected).abs() < 1.0, "{stored}");
        }
        assert!(HardSwish::new((1.0, 0), (1e-4, 0)).is_none());
    }
}
