//! Fixed-point factors as floats, with which processors that can round each operation downwards get the results of
//! [`Multiplier::apply`] in fewer instructions.
//!
//! Let the factor be `m·2^-s`, with `s = 31 + e`, and `h + l` the mantissa `m`, where `h` is `m` as a float: a multiple of
//! 2⁷, so that `|l| ≤ 2⁶`. [`Rounding::Twice`] is `⌊(x·m + n) / 2^s + ½⌋` with `n = ±2³⁰` by the sign of `x`, and without `n`
//! if `e` is 0; [`Rounding::Once`] is the same without `n`. Floats compute `v = x·l + n`, `w = v + x·h` and
//! `⌊w / 2^s + ½⌋`, each rounded downwards.
//!
//! The result is at least `k` if `w ≥ t = (k − ½)·2^s`. A number that is rounded downwards is at least `t` if it was before,
//! provided that `t` is a float, which it is. So this asks for `v ≥ t − x·h`, a multiple of 2⁷. Up to 2³¹ these multiples
//! are floats, which makes the rounding of `v` harmless too, and for |x| ≤ 2²⁴ the magnitude of `v` is at most 2³¹. A greater
//! `x` need not be a float, but with `e ≤ 14` its product is at least 2⁹, since mantissas are at least 2³⁰, and the result is
//! clamped. With mantissas of at most 2³¹ − 1025 where `e` is 0, the result and a zero point are less than 2³¹, so that they are
//! converted as they are.
//!
//! A factor from 1 on has a negative `e` and no `n`. The same holds for it as long as 32 bits have room for the result and for
//! `x·2^-e`, by which [`Rounding::Twice`] begins: for |x| < 2²⁶ down to an `e` of −4.

use super::fixed_point::{Multiplier, Rounding};

/// The factors of all outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct FloatFactors {
    high: Vec<f32>,
    low: Vec<f32>,
    /// The magnitudes of `n`.
    nudges: Vec<f32>,
    /// The number of adjacent outputs from each one on that have such factors.
    fitting: Vec<u32>,
    /// The same for sums whose magnitude is less than [`SMALL`].
    fitting_small: Vec<u32>,
}

/// Bound of the magnitude of sums for which factors may be 1 and more.
pub(super) const SMALL: i32 = 1 << 26;

/// Floats of adjacent outputs, from the first one on, followed by spare ones up to a whole vector; the zero point and the
/// range of the results.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // what only kernels of x86 take
pub struct Floats {
    pub(super) high: *const f32,
    pub(super) low: *const f32,
    pub(super) nudges: *const f32,
    pub(super) zero_point: i32,
    /// The least and the greatest result, both signed or both unsigned numbers of 8 bits.
    pub(super) bounds: (i32, i32),
}

impl Floats {
    /// Whether the results are signed numbers, or none above 127.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) fn are_signed(&self) -> bool {
        self.bounds.1 < 128
    }
}

impl FloatFactors {
    /// Returns the floats of factors, of which some may be spare.
    pub(super) fn new(factors: &[Multiplier], rounding: Rounding, zero_point: i32) -> Self {
        let mut floats = Self::default();
        for factor in factors {
            let unit = 2f32.powi(factor.exponent.clamp(-31, 4) - 31);
            let high = factor.mantissa as f32;
            let is_nudged = rounding == Rounding::Twice && factor.exponent < 0;
            floats.high.push(high * unit);
            floats.low.push((i64::from(factor.mantissa) - high as i64) as f32 * unit);
            floats.nudges.push(if is_nudged { 2f32.powi(30) * unit } else { 0.0 });
        }
        let (mut run, mut run_small) = (0, 0);
        for factor in factors.iter().rev() {
            let is_clearly_below_one =
                factor.exponent < 0 || factor.exponent == 0 && factor.mantissa <= i32::MAX - 1024;
            let is_normalized = factor.mantissa == 0 || factor.mantissa >= 1 << 30;
            let fits = (-14..=4).contains(&factor.exponent) && is_normalized && (-128..=255).contains(&zero_point);
            run = if fits && is_clearly_below_one { run + 1 } else { 0 };
            run_small = if fits { run_small + 1 } else { 0 };
            floats.fitting.push(run);
            floats.fitting_small.push(run_small);
        }
        floats.fitting.reverse();
        floats.fitting_small.reverse();
        floats
    }

    /// Returns the floats of `count` outputs from `first` on, if all of them have such factors. `are_small` tells that the
    /// magnitudes of all sums are less than [`SMALL`].
    #[inline(always)]
    pub(super) fn of(
        &self,
        (first, count): (usize, usize),
        are_small: bool,
        zero_point: i32,
        bounds: (i32, i32),
    ) -> Option<Floats> {
        let fitting = if are_small { &self.fitting_small } else { &self.fitting };
        if fitting.get(first).is_none_or(|fitting| (*fitting as usize) < count) {
            return None;
        }
        let [high, low, nudges] = [&self.high, &self.low, &self.nudges].map(|values| values[first..].as_ptr());
        Some(Floats { high, low, nudges, zero_point, bounds })
    }
}
