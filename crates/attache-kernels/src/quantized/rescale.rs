//! Quantization, dequantization and requantization to another scale.

use super::{Multiplier, Rounding, ScaleAndZero, Stored};
use crate::Engine;
use crate::math::truncated;
use crate::simd::{Multiversioned, Simd};

/// Quantizes floats to the nearest values, ties away from zero, saturated to the type. NaN becomes the zero
/// point.
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn quantize<T: Stored>(engine: Engine, input: &[f32], output: &mut [T], to: ScaleAndZero) {
    T::quantize(engine, input, output, to);
}

pub(super) fn quantize_to<T: Stored>(
    engine: Engine,
    input: &[f32],
    output: &mut [T],
    (scale, zero_point): ScaleAndZero,
) {
    map(engine, input, output, Quantize { scale, zero_point });
}

/// Returns the quantized value of a float as in [`quantize`], but not yet saturated to a type.
pub fn quantized(x: f32, (scale, zero_point): ScaleAndZero) -> i32 {
    Quantize { scale, zero_point }.nearest(x)
}

/// Converts quantized elements to floats: `scale × (x − zero point)`.
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn dequantize<T: Stored>(engine: Engine, input: &[T], output: &mut [f32], from: ScaleAndZero) {
    T::dequantize(engine, input, output, from);
}

pub(super) fn dequantize_from<T: Stored>(
    engine: Engine,
    input: &[T],
    output: &mut [f32],
    (scale, zero_point): ScaleAndZero,
) {
    map(engine, input, output, Dequantize { scale, zero_point });
}

/// Converts quantized elements to another scale: `(x − from) × factor + to`, saturated. Rounds with
/// [`Rounding::Twice`].
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn requantize<I: Copy + Into<i32> + Send + Sync, T: Stored>(
    engine: Engine,
    input: &[I],
    output: &mut [T],
    (from, factor, to): (i32, Multiplier, i32),
) {
    map(engine, input, output, Requantize { from, factor, to });
}

/// Returns `(x − from) × factor + to`: a quantized element at another scale, not saturated. Rounds with
/// [`Rounding::Twice`].
#[inline(always)]
pub fn requantized(x: i32, (from, factor, to): (i32, Multiplier, i32)) -> i32 {
    factor.apply(x.wrapping_sub(from), Rounding::Twice).wrapping_add(to)
}

trait Conversion<I, O>: Copy + Sync {
    fn apply(self, x: I) -> O;
}

#[derive(Clone, Copy)]
struct Quantize {
    scale: f32,
    zero_point: i32,
}

impl Quantize {
    #[inline(always)]
    fn nearest(self, x: f32) -> i32 {
        (self.rounded(x) as i32).saturating_add(self.zero_point)
    }

    #[inline(always)]
    fn rounded(self, x: f32) -> f32 {
        let scaled = x / self.scale;
        // Rounds ties away from zero, using only instructions that every instruction set has in vector form.
        let whole = scaled.trunc();
        whole + if (scaled - whole).abs() >= 0.5 { 1f32.copysign(scaled) } else { 0.0 }
    }
}

impl<T: Stored> Conversion<f32, T> for Quantize {
    #[inline(always)]
    fn apply(self, x: f32) -> T {
        // Zero points of at most 16 bits leave clamped numbers beyond the type's range.
        T::saturate(truncated(self.rounded(x)).wrapping_add(self.zero_point))
    }
}

#[derive(Clone, Copy)]
struct Dequantize {
    scale: f32,
    zero_point: i32,
}

impl<T: Stored> Conversion<T, f32> for Dequantize {
    #[inline(always)]
    fn apply(self, x: T) -> f32 {
        self.scale * (x.into() - self.zero_point) as f32
    }
}

#[derive(Clone, Copy)]
struct Requantize {
    from: i32,
    factor: Multiplier,
    to: i32,
}

impl<I: Into<i32>, T: Stored> Conversion<I, T> for Requantize {
    #[inline(always)]
    fn apply(self, x: I) -> T {
        T::saturate(requantized(x.into(), (self.from, self.factor, self.to)))
    }
}

fn map<I: Copy + Sync, O: Send, F: Conversion<I, O>>(engine: Engine, input: &[I], output: &mut [O], conversion: F) {
    assert_eq!(input.len(), output.len(), "input and output have one shape");
    let chunk = output.len().div_ceil(engine.tasks(output.len() as f64 * 0.3, output.len())).max(1);
    engine.for_each_chunk(output, chunk, |task, output| {
        let input = &input[task * chunk..][..output.len()];
        engine.isa.dispatch(Map { input, output, conversion });
    });
}

struct Map<'a, I, O, F> {
    input: &'a [I],
    output: &'a mut [O],
    conversion: F,
}

impl<I: Copy, O, F: Conversion<I, O>> Multiversioned for Map<'_, I, O, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (value, x) in self.output.iter_mut().zip(self.input) {
            *value = self.conversion.apply(*x);
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::Isa;

    #[test]
    fn every_isa_gives_the_same_bits() {
        let reals: Vec<f32> = (-4000..4000).map(|i| i as f32 * 0.037).chain([f32::INFINITY, -1e30, f32::NAN]).collect();
        let expected: Vec<i8> =
            reals.iter().map(|x| ((x / 0.37).round() as i32).saturating_add(-3).clamp(-128, 127) as i8).collect();
        let wide: Vec<i32> = (-4000..4000).map(|i| i * 77_777).collect();
        let factor = (12, Multiplier::new(0.000_37), 5);
        for isa in Isa::available() {
            let engine = Engine { isa, parallel: &Serial };
            let mut stored = vec![0i8; reals.len()];
            quantize(engine, &reals, &mut stored, (0.37, -3));
            assert_eq!(stored, expected, "{}", isa.name());
            let mut back = vec![0.0; stored.len()];
            dequantize(engine, &stored, &mut back, (0.37, -3));
            assert!(back.iter().zip(&stored).all(|(real, x)| *real == 0.37 * (i32::from(*x) + 3) as f32));
            let mut narrow = vec![0i16; wide.len()];
            requantize(engine, &wide, &mut narrow, factor);
            assert!(narrow.iter().zip(&wide).all(|(y, x)| *y == i16::saturate(requantized(*x, factor))));
        }
    }

    #[test]
    fn the_largest_number_below_a_half_is_rounded_down() {
        let mut output = [9i8; 4];
        quantize(Engine::new(&Serial), &[0.499_999_97, -0.499_999_97, 0.5, -0.5], &mut output, (1.0, 0));
        assert_eq!(output, [0, 0, 1, -1]);
    }
}
