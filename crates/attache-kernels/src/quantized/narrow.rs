//! Functions of 16-bit fixed-point numbers, used by quantized LSTMs. They correspond to [`super::functions`] in
//! narrower arithmetic, where each rounding affects the result.
//!
//! A number with `n` integer bits is an `i16` that represents `raw × 2^(n − 15)`. Source: TensorFlow Lite's reference
//! kernels (`ApplySigmoid`, `ApplyTanh`, `ApplyLayerNorm`).

use super::fixed_point::{Multiplier, Rounding};
use super::functions::{inverse_square_root, product_16 as product};

/// Returns `x × 2^bits`, saturated to 16 bits.
fn shift_left(x: i16, bits: u32) -> i16 {
    (i32::from(x) << bits).clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// Returns `x / 2^bits`, rounded, ties away from zero.
fn divide(x: i16, bits: u32) -> i16 {
    super::fixed_point::divide_by_power(x.into(), bits) as i16
}

/// Returns `(1 + x) / 2`, rounded, for `x` with no integer bits.
fn half_of_one_plus(x: i16) -> i16 {
    let sum = i32::from(x) + i32::from(i16::MAX);
    ((sum + if sum >= 0 { 1 } else { -1 }) / 2) as i16
}

/// Returns `eᵃ` with no integer bits, for `a ≤ 0` with `bits` ≤ 7 integer bits.
fn exponential(a: i16, bits: u32) -> i16 {
    if a == 0 {
        return i16::MAX;
    }
    if bits > 5 && a < -(1 << (20 - bits)) {
        return 0;
    }
    let fraction_bits = 15 - bits;
    let quarter = 1i16 << (fraction_bits - 2);
    let rest = (a & (quarter - 1)) - quarter;
    let digits = rest.wrapping_sub(a);
    let mut result = exponential_of_quarter(shift_left(rest, bits));
    // e^(−1/4), e^(−1/2), … e^(−16).
    for (exponent, factor) in (-2..).zip([25_520, 19_875, 12_055, 4_435, 600, 11, 0]) {
        let bit = fraction_bits as i32 + exponent;
        if exponent < bits as i32 && digits & (1 << bit) != 0 {
            result = product(result, factor);
        }
    }
    result
}

/// Returns `eᵃ` for `a` in [−1/4, 0), both with no integer bits.
fn exponential_of_quarter(a: i16) -> i16 {
    const E_TO_MINUS_EIGHTH: i16 = 28_918;
    const THIRD: i16 = 10_923;
    let x = a.wrapping_add(1 << 12);
    let square = product(x, x);
    let (cube, fourth) = (product(square, x), product(square, square));
    let tail = divide(product(divide(fourth, 2).wrapping_add(cube), THIRD).wrapping_add(square), 1);
    E_TO_MINUS_EIGHTH.saturating_add(product(E_TO_MINUS_EIGHTH, x.wrapping_add(tail)))
}

/// Returns `2 / (1 + x)` with two integer bits, for `x` in [0, 1) with none, by three Newton iterations.
fn twice_the_reciprocal(x: i16) -> i16 {
    const ONE: i16 = 1 << 13;
    // 48/17 and −32/17, with two integer bits.
    let (start, slope) = (23_130, -15_420);
    let half = half_of_one_plus(x);
    let mut y = product(half, slope).wrapping_add(start);
    for _ in 0..3 {
        let rest = ONE.wrapping_sub(product(half, y));
        y = y.wrapping_add(shift_left(product(y, rest), 2));
    }
    y
}

/// Returns the logistic function, with no integer bits, of a fixed-point number with three integer bits.
pub fn logistic(x: i16) -> i16 {
    if x == 0 {
        return 1 << 14;
    }
    let magnitude = if x > 0 { x } else { x.wrapping_neg() };
    let positive = shift_left(twice_the_reciprocal(exponential(magnitude.wrapping_neg(), 3)), 1);
    if x > 0 { positive } else { i16::MAX.wrapping_sub(positive) }
}

/// Returns the hyperbolic tangent, with no integer bits, of a fixed-point number with `bits` (at most 6)
/// integer bits.
pub fn tanh(x: i16, bits: u32) -> i16 {
    if x == 0 {
        return 0;
    }
    let negative = if x < 0 { x } else { x.wrapping_neg() };
    let quotient = twice_the_reciprocal(exponential(negative, bits + 1)).wrapping_sub(1 << 13);
    let magnitude = shift_left(quotient, 2);
    if x < 0 { magnitude.wrapping_neg() } else { magnitude }
}

/// Normalizes one vector in place (layer normalization): subtracts the mean, divides by the standard
/// deviation, multiplies by a coefficient and adds a bias.
///
/// `guard` replaces a variance below 1 (of the quantized values). `factor` converts the coefficients to a
/// scale of 1, and the results have three integer bits. There must be as many coefficients and biases as
/// values, and at least one value.
///
/// # Panics
///
/// Panics if `values` is empty.
pub fn normalize(values: &mut [i16], coefficients: &[i16], biases: &[i32], factor: Multiplier, guard: i32) {
    let count = values.len() as i64;
    let sum: i64 = values.iter().map(|value| i64::from(*value)).sum();
    let squares: i64 = values.iter().map(|value| i64::from(*value) * i64::from(*value)).sum();
    let mean = (sum * 1024 / count) as i32;
    let variance = squares.wrapping_mul((1 << 20) / count).wrapping_sub(i64::from(mean) * i64::from(mean));
    let variance = (variance / (1 << 20)) as i32;
    let inverse = inverse_square_root(if variance < 1 { guard } else { variance });
    let factor = Multiplier { exponent: factor.exponent + 12, ..factor };
    for (value, (coefficient, bias)) in values.iter_mut().zip(coefficients.iter().zip(biases)) {
        let rescaled = inverse.apply((i32::from(*value) * 1024).wrapping_sub(mean), Rounding::Twice);
        let sum = i64::from(rescaled.wrapping_mul(i32::from(*coefficient)).wrapping_add(*bias));
        let sum = ((if sum > 0 { sum + 512 } else { sum - 512 }) / 1024) as i32;
        *value = factor.apply(sum, Rounding::Twice).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_near_the_real_ones() {
        for x in i16::MIN..=i16::MAX {
            let real = f64::from(x) / 4096.0;
            let near = |made: i16, real: f64| (f64::from(made) / 32768.0 - real).abs() < 6e-4;
            assert!(near(logistic(x), 1.0 / (1.0 + (-real).exp())), "{x}: {}", logistic(x));
            for bits in 0..=6 {
                let real = f64::from(x) / f64::from(1 << (15 - bits));
                assert!(near(tanh(x, bits), real.tanh()), "{x} of {bits} bits: {}", tanh(x, bits));
            }
        }
    }

    #[test]
    fn what_is_normalized_has_no_mean() {
        let mut values = [1000, 3000, 1000, 3000];
        normalize(&mut values, &[1 << 10; 4], &[0; 4], Multiplier::new(2f64.powi(-10)), 1);
        assert!(
            values.iter().zip([-4096, 4096, -4096, 4096]).all(|(made, real)| (made - real).abs() < 8),
            "{values:?}"
        );
        let mut same = [700; 4];
        normalize(&mut same, &[1 << 10; 4], &[1 << 10; 4], Multiplier::new(2f64.powi(-10)), 9);
        assert_eq!(same, [4; 4]);
    }
}
