//! Scalar functions that vectorize in loops over slices: no branches, no library calls, and NaN for NaN inputs.
#![allow(unsafe_code)] // A conversion of floats that fit.

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

/// Returns eˣ with an error of at most 2 ulp; infinity above 88.73, 0 below about −103.97.
///
/// x = n ln 2 + r with |r| ≤ ln 2 / 2. eʳ is a minimax polynomial of degree 6. 2ⁿ is constructed from exponent bits in
/// two halves, so that results down to the smallest denormal are correct.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let bounded = clamp(x, -104.0, 89.0);
    let shifted = bounded * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (bounded - n * 0.693_359_4) + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let e = (p * r * r + r) + 1.0;
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let half = n >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
    let y = e * power(half) * power(n - half);
    if x.is_nan() { x } else { y }
}

/// Returns the logistic function 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Returns tanh x, computed as an odd polynomial for |x| < 0.3 and from 1 − 2 / (e²ˣ + 1) elsewhere.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    // Taylor series up to x¹³. At 0.3 the first omitted term is below 1e-9 of the result.
    let mut p = 21_844.0 / 6_081_075.0;
    p = p * s - 1_382.0 / 155_925.0;
    p = p * s + 62.0 / 2_835.0;
    p = p * s - 17.0 / 315.0;
    p = p * s + 2.0 / 15.0;
    p = p * s - 1.0 / 3.0;
    let near = x + x * s * p;
    let far = (1.0 - 2.0 / (exp(2.0 * a) + 1.0)).copysign(x);
    if a < 0.3 { near } else { far }
}

/// Returns eˣ − 1, computed by its Taylor series for |x| < 0.25.
#[inline(always)]
pub(crate) fn exp_minus_one(x: f32) -> f32 {
    let mut p = 1.0 / 720.0;
    p = p * x + 1.0 / 120.0;
    p = p * x + 1.0 / 24.0;
    p = p * x + 1.0 / 6.0;
    p = p * x + 0.5;
    let near = x + x * x * p;
    if x.abs() < 0.25 { near } else { exp(x) - 1.0 }
}

/// Returns ln x; NaN below zero, −∞ at zero.
///
/// x = 2ⁿ m with m in [√½, √2); ln m = 2 artanh(s) by its series in s = (m − 1) / (m + 1).
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    let denormal = x < f32::MIN_POSITIVE;
    let scaled = if denormal { x * 8_388_608.0 } else { x };
    let bits = (scaled.to_bits() as i32).wrapping_sub(0x3f35_04f3); // √½
    let n = (bits >> 23) as f32 - if denormal { 23.0 } else { 0.0 };
    let m = f32::from_bits(((bits & 0x007f_ffff).wrapping_add(0x3f35_04f3)) as u32);
    let s = (m - 1.0) / (m + 1.0);
    let t = s * s;
    let mut p = 1.0 / 9.0;
    p = p * t + 1.0 / 7.0;
    p = p * t + 1.0 / 5.0;
    p = p * t + 1.0 / 3.0;
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
/// Near zero it is the Taylor series up to x¹⁵; at 0.75 the first omitted term is below 2e-8 of the result. Elsewhere
/// it is Abramowitz and Stegun, 7.1.26, whose absolute error of 1.5e-7 is small relative to the result there.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let a = x.abs();
    let s = x * x;
    let mut q = -1.0 / 75_600.0;
    q = q * s + 1.0 / 9360.0;
    q = q * s - 1.0 / 1320.0;
    q = q * s + 1.0 / 216.0;
    q = q * s - 1.0 / 42.0;
    q = q * s + 1.0 / 10.0;
    q = q * s - 1.0 / 3.0;
    let near = x * ((q * s + 1.0) * std::f32::consts::FRAC_2_SQRT_PI);
    let t = 1.0 / (1.0 + 0.327_591_1 * a);
    let mut p = 1.061_405_4;
    p = p * t - 1.453_152_1;
    p = p * t + 1.421_413_7;
    p = p * t - 0.284_496_74;
    p = p * t + 0.254_829_6;
    let far = (1.0 - p * t * exp(-a * a)).copysign(x);
    if a < 0.75 { near } else { far }
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
            let error = (f64::from(erf(x)) - expected).abs();
            assert!(error <= 4e-7 * expected + 0.5 * least, "erf({x:e}) = {:e}, not {expected:e}", erf(x));
            assert_eq!(erf(-x).to_bits(), (-erf(x)).to_bits(), "erf is odd, at {x:e}");
        }
        assert_eq!((erf(f32::INFINITY), erf(f32::NEG_INFINITY)), (1.0, -1.0));
        assert!(erf(f32::NAN).is_nan());
    }

    #[test]
    fn floats_are_truncated_and_clamped() {
        let numbers = [0.0, -0.0, 0.99, -0.99, 1.0, -7.5, 300.25, 1e6, -1e6, f32::MIN_POSITIVE, f32::NAN];
        numbers.into_iter().for_each(|x| assert_eq!(truncated(x), x as i32, "{x}"));
        let limits = [1e9, f32::INFINITY, -1e9, f32::NEG_INFINITY].map(truncated);
        assert_eq!(limits, [1 << 24, 1 << 24, -(1 << 24), -(1 << 24)]);
    }
}
