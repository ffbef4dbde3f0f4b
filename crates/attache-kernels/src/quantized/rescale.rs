//! Quantization, dequantization and requantization to another scale.

use super::{Multiplier, Rounding, ScaleAndZero, Stored};
use crate::Engine;
use crate::math::{clamp, nearest, truncated};
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
    let exact = Quantize { scale, zero_point };
    match Reciprocal::new::<T>(exact) {
        Some(reciprocal) if !cfg!(attache_small) => {
            for_each_chunk(engine, input, output, |input, output| {
                engine.isa.dispatch(Blocks { reciprocal, input, output });
            });
        }
        _ => map(engine, input, output, exact),
    }
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

/// Elements that are computed again together where a product with the reciprocal is too close to a tie.
const BLOCK: usize = 32;

/// Quantization to bytes by a product instead of a quotient, where that decides.
#[derive(Clone, Copy)]
struct Reciprocal {
    factor: f32,
    range: (f32, f32),
    exact: Quantize,
}

impl Reciprocal {
    /// The greatest distance from a whole number at which the product decides. In the range, whose bounds are at most 2⁹,
    /// product and quotient differ by at most four roundings of 2⁻²⁴ of it. A product beyond a bound is clamped to it, and
    /// the quotient is then rounded to the bound or beyond.
    const REACH: f32 = 0.5 - 1.0 / 4096.0;

    /// Returns `None` for types, zero points and scales that this does not hold for.
    fn new<T: Stored>(exact: Quantize) -> Option<Self> {
        let is_byte = T::MOST - T::LEAST == 255 && (T::LEAST..=T::MOST).contains(&exact.zero_point);
        let is_normal = (1e-30..1e30).contains(&exact.scale);
        let bound = |bound: i32| (bound - exact.zero_point) as f32;
        let range = (bound(T::LEAST), bound(T::MOST));
        (is_byte && is_normal).then(|| Self { factor: 1.0 / exact.scale, range, exact })
    }

    /// Writes the elements, and returns whether products decide all of them.
    #[inline(always)]
    fn apply<T: Stored>(self, input: &[f32; BLOCK], output: &mut [T; BLOCK]) -> bool {
        let mut furthest = 0;
        for (value, x) in output.iter_mut().zip(input) {
            let (whole, distance) = nearest(clamp(x * self.factor, self.range.0, self.range.1));
            furthest = furthest.max(distance);
            *value = T::truncate(whole.wrapping_add(self.exact.zero_point));
        }
        furthest < Self::REACH.to_bits() as i32
    }
}

/// Kernel that quantizes block by block.
struct Blocks<'a, T> {
    reciprocal: Reciprocal,
    input: &'a [f32],
    output: &'a mut [T],
}

impl<T: Stored> Multiversioned for Blocks<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { reciprocal, input, output } = self;
        let ((input, rest), (output, last)) = (input.as_chunks::<BLOCK>(), output.as_chunks_mut::<BLOCK>());
        let exactly = |input: &[f32], output: &mut [T]| {
            output.iter_mut().zip(input).for_each(|(value, x)| *value = reciprocal.exact.apply(*x));
        };
        for (input, output) in input.iter().zip(output) {
            if !reciprocal.apply(input, output) {
                exactly(input, output);
            }
        }
        exactly(rest, last);
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
    for_each_chunk(engine, input, output, |input, output| engine.isa.dispatch(Map { input, output, conversion }));
}

fn for_each_chunk<I: Sync, O: Send>(
    engine: Engine,
    input: &[I],
    output: &mut [O],
    convert: impl Fn(&[I], &mut [O]) + Sync,
) {
    assert_eq!(input.len(), output.len(), "input and output have one shape");
    let chunk = output.len().div_ceil(engine.tasks(output.len() as f64 * 0.3, output.len())).max(1);
    engine.for_each_chunk(output, chunk, |task, output| convert(&input[task * chunk..][..output.len()], output));
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
    fn floats_next_to_ties_are_rounded_as_their_quotients() {
        for scale in [0.37f32, 1.0, 0.007_843_138, 3.0, 1.1e-30, 1e-38] {
            let near = |half: i32| {
                (-2..=2)
                    .map(move |step| f32::from_bits((half as f32 * 0.5 * scale).to_bits().wrapping_add_signed(step)))
            };
            let reals: Vec<f32> = (-600..600).flat_map(near).chain([f32::NAN, f32::INFINITY, -0.0]).collect();
            for isa in Isa::available() {
                for zero_point in [0, 3, 127, 255] {
                    let mut stored = vec![0u8; reals.len()];
                    quantize(Engine { isa, parallel: &Serial }, &reals, &mut stored, (scale, zero_point));
                    for (x, stored) in reals.iter().zip(&stored) {
                        let expected = quantized(*x, (scale, zero_point)).clamp(0, 255);
                        assert_eq!(i32::from(*stored), expected, "{} {x} / {scale} + {zero_point}", isa.name());
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_number_below_a_half_is_rounded_down() {
        let mut output = [9i8; 4];
        quantize(Engine::new(&Serial), &[0.499_999_97, -0.499_999_97, 0.5, -0.5], &mut output, (1.0, 0));
        assert_eq!(output, [0, 0, 1, -1]);
    }
}
