//! Scalar functions that vectorize in loops over slices: no branches, no library calls, and NaN for NaN inputs.
#![allow(unsafe_code)] // A conversion of floats that fit.

use crate::simd::Simd;

/// Returns `min(max(x, lower), upper)`; NaN if `x` is NaN.
#[inline(always)]
pub(crate) fn clamp(x: f32, lower: f32, upper: f32) -> f32 {
    let x = if x < lower { lower } else { x };
    if x > upper { upper } else { x }
}

/// 1.5 × 2²³. Adding it to a float below 2²² in magnitude rounds that float to an integer, which is then in
/// the low bits of the sum's mantissa.
const ROUND: f32 = 12_582_912.0;

/// Returns the whole number nearest to a float of at most 2²² in magnitude, and the bits of its distance from that. Bits
/// of distances are in their order, and those of NaN are the greatest.
#[inline(always)]
pub(crate) fn nearest(x: f32) -> (i32, i32) {
    let shifted = x + ROUND;
    let distance = (x - (shifted - ROUND)).abs();
    (shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32, distance.to_bits() as i32)
}

/// Returns a × b + c, with one rounding where the instruction set has such an operation.
#[inline(always)]
fn multiply_add<S: Simd>(a: f32, b: f32, c: f32) -> f32 {
    if S::FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// Returns the value of a polynomial, whose coefficients begin with that of the highest power.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut value = coefficients[0];
    for coefficient in &coefficients[1..] {
        value = multiply_add::<S>(value, x, *coefficient);
    }
    value
}

/// Returns n and eʳ with x = n ln 2 + r and |r| ≤ ln 2 / 2, for numbers of at most 2²¹ in magnitude. n is in the low bits of
/// the first number's mantissa. eʳ is a minimax polynomial of degree 7.
#[inline(always)]
fn power_and_rest<S: Simd>(x: f32) -> (f32, f32) {
    let shifted = multiply_add::<S>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<S>(n, 2.121_944_4e-4, multiply_add::<S>(n, -0.693_359_4, x));
    let coefficients = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5, 1.0, 1.0];
    (shifted, polynomial::<S, 8>(r, coefficients))
}

/// Returns eˣ with an error of at most 2 ulp; infinity above 88.73, 0 below about −103.97.
///
/// 2ⁿ is constructed from exponent bits in two halves, so that results down to the smallest denormal are correct.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32) -> f32 {
    // Products that are too small for a float take many times longer.
    let vanishes = x < -104.0;
    let bounded = if vanishes { 0.0 } else { x };
    let bounded = if bounded > 89.0 { 89.0 } else { bounded };
    let (shifted, e) = power_and_rest::<S>(bounded);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    let y = e * power(half) * power(n - half);
    let y = if vanishes { 0.0 } else { y };
    if x.is_nan() { x } else { y }
}

/// Returns eˣ as [`exp`] does for x between −87.3 and 87.3; 0 below, e⁸⁷·³ above, of which the inverse is a normal number.
#[inline(always)]
pub(crate) fn exp_between<S: Simd>(x: f32) -> f32 {
    let (shifted, e) = power_and_rest::<S>(clamp(x, -MOST, MOST));
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1f32.to_bits()));
    if x < -MOST { 0.0 } else { e * power }
}

/// The greatest number of which [`exp_between`] returns the exponential.
const MOST: f32 = 87.3;

/// Returns the logistic function 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn logistic<S: Simd>(x: f32) -> f32 {
    let y = 1.0 / (1.0 + exp_between::<S>(-x));
    if x < -MOST { 0.0 } else { y }
}

/// Returns tanh x with a relative error of at most 4e-7: x P(x²) / Q(x²), by the least relative error for |x| ≤ 9.1, beyond
/// which it is ±1.
#[inline(always)]
pub(crate) fn tanh<S: Simd>(x: f32) -> f32 {
    let x = clamp(x, -9.1, 9.1);
    let s = x * x;
    let p = polynomial::<S, 5>(s, [1.317_774_9e-8, 2.048_137_3e-5, 3.487_823_3e-3, 1.337_448_7e-1, 1.0]);
    let q = polynomial::<S, 5>(s, [7.704_145e-7, 3.272_939_6e-4, 2.584_743_7e-2, 4.670_78e-1, 1.0]);
    clamp(x * (p / q), -1.0, 1.0)
}

/// Returns eˣ − 1, computed by its Taylor series for |x| < 0.25.
#[inline(always)]
pub(crate) fn exp_minus_one<S: Simd>(x: f32) -> f32 {
    let p = polynomial::<S, 5>(x, [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5]);
    let near = multiply_add::<S>(x * x, p, x);
    if x.abs() < 0.25 { near } else { exp_between::<S>(x) - 1.0 }
}

/// Returns ln x; NaN below zero, −∞ at zero.
///
/// x = 2ⁿ m with m in [√½, √2); ln m = 2 artanh(s) by its series in s = (m − 1) / (m + 1).
#[inline(always)]
pub(crate) fn ln<S: Simd>(x: f32) -> f32 {
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = if denormal { x * 8_388_608.0 } else { x };
    let bits = (scaled.to_bits() as i32).wrapping_sub(0x3f35_04f3); // √½
    let n = (bits >> 23) as f32 - if denormal { 23.0 } else { 0.0 };
    let m = f32::from_bits(((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) as u32);
    let s = (m - 1.0) / (m + 1.0);
    let t = s * s;
    let p = polynomial::<S, 4>(t, [1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0]);
    // ln m = 2s + 2s·t·p, and 2s = f − s·f with f = m − 1, so the leading term is exact.
    let f = m - 1.0;
    let logarithm = f - s * (f - 2.0 * t * p);
    let y = n * 0.693_359_4 + (logarithm - n * 2.121_944_4e-4);
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x < 0.0 { f32::NAN } else { y };
    if x < f32::INFINITY { y } else { x }
}

/// Returns the error function of x, with a relative error of at most 4e-7 at every magnitude. Denormal
/// results are within half an ulp.
///
/// It is x P(x²) / Q(x²), by the least relative error for |x| ≤ 3.92, beyond which it is ±1.
#[inline(always)]
pub(crate) fn erf<S: Simd>(x: f32) -> f32 {
    let x = clamp(x, -3.92, 3.92);
    let s = x * x;
    let p =
        [2.050_113_6e-6, 2.848_791e-4, 3.765_462_2e-3, 5.274_825e-2, 1.904_028_8e-1, std::f32::consts::FRAC_2_SQRT_PI];
    let q = [3.809_179_5e-5, 1.162_497_6e-3, 1.496_890_8e-2, 1.141_076_3e-1, 5.020_729_3e-1, 1.0];
    clamp(x * (polynomial::<S, 6>(s, p) / polynomial::<S, 6>(s, q)), -1.0, 1.0)
}

/// Combines all elements with `step` by tree reduction, which repeatedly combines the two halves of the
/// array; `N` is a power of two. It vectorizes, while a sequential fold would have to wait for each step.
#[inline(always)]
pub(crate) fn fold_halves<const N: usize>(mut values: [f32; N], step: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for index in 0..half {
            values[index] = step(values[index], values[index + half]);
        }
        half /= 2;
    }
    values[0]
}

/// Returns a number truncated to an integer, clamped to magnitudes of at most 2²⁴; 0 for NaN. Unlike a conversion with
/// `as`, which saturates, this one is done for whole vectors.
#[inline(always)]
pub(crate) fn truncated(x: f32) -> i32 {
    const LIMIT: f32 = 16_777_216.0;
    let x = if x.is_nan() { 0.0 } else { x };
    let x = if x > -LIMIT { x } else { -LIMIT };
    let x = if x < LIMIT { x } else { LIMIT };
    // SAFETY: the number is finite and fits.
    unsafe { x.to_int_unchecked() }
}

#[cfg(test)]
mod tests {
    use super::{erf, truncated};
    use crate::simd::Portable;

    /// The series of erf in f64; 1 where it has converged to 1.
    fn reference(x: f64) -> f64 {
        if x.abs() > 5.0 {
            return x.signum();
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    }

    #[test]
    fn the_error_function_keeps_its_digits_at_every_magnitude() {
        let least = f64::from(f32::from_bits(1));
        // Every exponent, including those of denormals, with many mantissas each.
        for bits in (0..f32::INFINITY.to_bits()).step_by(1 << 14).flat_map(|bits| [bits, bits + 1, bits + 0x3fff]) {
            let x = f32::from_bits(bits);
            let expected = reference(f64::from(x));
            let error = (f64::from(erf::<Portable>(x)) - expected).abs();
            assert!(error <= 4e-7 * expected + 0.5 * least, "erf({x:e}) = {:e}, not {expected:e}", erf::<Portable>(x));
            assert_eq!(erf::<Portable>(-x).to_bits(), (-erf::<Portable>(x)).to_bits(), "erf is odd, at {x:e}");
        }
        assert_eq!((erf::<Portable>(f32::INFINITY), erf::<Portable>(f32::NEG_INFINITY)), (1.0, -1.0));
        assert!(erf::<Portable>(f32::NAN).is_nan());
    }

    #[test]
    fn floats_are_truncated_and_clamped() {
        let numbers = [0.0, -0.0, 0.99, -0.99, 1.0, -7.5, 300.25, 1e6, -1e6, f32::MIN_POSITIVE, f32::NAN];
        numbers.into_iter().for_each(|x| assert_eq!(truncated(x), x as i32, "{x}"));
        let limits = [1e9, f32::INFINITY, -1e9, f32::NEG_INFINITY].map(truncated);
        assert_eq!(limits, [1 << 24, 1 << 24, -(1 << 24), -(1 << 24)]);
    }
}
