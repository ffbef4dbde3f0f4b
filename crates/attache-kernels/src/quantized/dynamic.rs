//! Dynamic quantization of floats to signed bytes at run time, with one scale (and zero point) per row.
//!
//! Source: TensorFlow Lite's `SymmetricQuantizeFloats` and `AsymmetricQuantizeFloats`.

use crate::Engine;
use crate::math::{fold_halves, truncated};
use crate::simd::{Multiversioned, Simd};

/// Quantizes `values` to signed bytes (−127 to 127) with zero point 0, writes them to `target`, and returns
/// the scale. Elements that only one of the slices has are ignored.
pub fn quantize_symmetrically(engine: Engine, values: &[f32], target: &mut [u8]) -> f32 {
    let (least, most) = extremes(engine, values);
    let range = least.abs().max(most.abs());
    if range == 0.0 {
        target.fill(0);
        return 1.0;
    }
    convert(engine, values, target, Conversion { inverse: 127.0 / range, zero_point: 0, least: -127 });
    range / 127.0
}

/// Quantizes `values` to signed bytes (−128 to 127), writes them to `target`, and returns the scale and the
/// zero point. Elements that only one of the slices has are ignored.
pub fn quantize_asymmetrically(engine: Engine, values: &[f32], target: &mut [u8]) -> (f32, i32) {
    let (least, most) = extremes(engine, values);
    let (least, most) = (least.min(0.0), most.max(0.0));
    if least == most {
        target.fill(0);
        return (1.0, 0);
    }
    // Computed in f32, because products close to a tie round differently in f64.
    let single = (most - least) / 255.0;
    let inverse = 1.0 / single;
    let (least, most, scale) = (f64::from(least), f64::from(most), f64::from(single));
    let (from_low, from_high) = (-128.0 - least / scale, 127.0 - most / scale);
    let low_is_nearer = 128.0 + (least / scale).abs() < 127.0 + (most / scale).abs();
    let point = if low_is_nearer { from_low } else { from_high };
    let zero_point = point.clamp(-128.0, 127.0).round() as i32;
    convert(engine, values, target, Conversion { inverse, zero_point, least: -128 });
    (single, zero_point)
}

/// Returns the smallest and the largest value, ignoring NaN; zeros if there are no values.
fn extremes(engine: Engine, values: &[f32]) -> (f32, f32) {
    let chunk = values.len().div_ceil(engine.tasks(values.len() as f64 * 0.05, values.len())).max(1);
    let mut parts = vec![(0.0, 0.0); values.len().div_ceil(chunk)];
    engine.for_each_chunk(&mut parts, 1, |task, part| {
        let values = &values[task * chunk..];
        part[0] = engine.isa.dispatch(Extremes { values: &values[..chunk.min(values.len())] });
    });
    let whole = parts.into_iter().reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    whole.filter(|(least, most)| least <= most).unwrap_or_default()
}

struct Extremes<'a> {
    values: &'a [f32],
}

impl Multiversioned for Extremes<'_> {
    type Output = (f32, f32);

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> (f32, f32) {
        const LANES: usize = if cfg!(attache_small) { 4 } else { 32 };
        // Neither takes a `b` that is NaN.
        let lesser = |a: f32, b: f32| if b < a { b } else { a };
        let larger = |a: f32, b: f32| if b > a { b } else { a };
        let (mut least, mut most) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        let (chunks, rest) = self.values.as_chunks::<LANES>();
        // Only constants index the arrays, so that they stay in registers.
        for values in chunks {
            for lane in 0..LANES {
                (least[lane], most[lane]) = (lesser(least[lane], values[lane]), larger(most[lane], values[lane]));
            }
        }
        let (least, most) = (fold_halves(least, lesser), fold_halves(most, larger));
        rest.iter().fold((least, most), |(least, most), value| (lesser(least, *value), larger(most, *value)))
    }
}

/// Conversion of floats to signed bytes: `value × inverse`, rounded with ties away from zero, plus the zero point, and
/// clamped to at least `least`.
#[derive(Clone, Copy)]
struct Conversion {
    inverse: f32,
    zero_point: i32,
    least: i32,
}

fn convert(engine: Engine, values: &[f32], target: &mut [u8], conversion: Conversion) {
    let chunk = values.len().div_ceil(engine.tasks(values.len() as f64 * 0.15, values.len())).max(1);
    engine.for_each_chunk(target, chunk, |task, target| {
        engine.isa.dispatch(Convert { values: values.get(task * chunk..).unwrap_or_default(), target, conversion });
    });
}

struct Convert<'a> {
    values: &'a [f32],
    target: &'a mut [u8],
    conversion: Conversion,
}

impl Multiversioned for Convert<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Conversion { inverse, zero_point, least } = self.conversion;
        for (target, value) in self.target.iter_mut().zip(self.values) {
            let scaled = value * inverse;
            // Rounds with instructions that most instruction sets have in vector form.
            let whole = scaled.trunc();
            let rounded = whole + if (scaled - whole).abs() >= 0.5 { 1f32.copysign(scaled) } else { 0.0 };
            *target = truncated(rounded).wrapping_add(zero_point).clamp(least, 127) as i8 as u8;
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Pool, Serial};

    use super::*;
    use crate::Isa;
    use crate::testing::Random;

    fn engine() -> Engine<'static> {
        Engine::new(&Serial)
    }

    fn signed(bytes: &[u8]) -> Vec<i8> {
        bytes.iter().map(|byte| *byte as i8).collect()
    }

    #[test]
    fn the_largest_magnitude_is_127() {
        let mut bytes = [9; 4];
        assert_eq!(quantize_symmetrically(engine(), &[0.0, -2.54, 1.0, 0.01], &mut bytes), 2.54f32 / 127.0);
        assert_eq!(signed(&bytes), [0, -127, 50, 1]);
        assert_eq!((quantize_symmetrically(engine(), &[0.0; 4], &mut bytes), bytes), (1.0, [0; 4]));
    }

    #[test]
    fn the_range_is_used_up() {
        let mut bytes = [9; 4];
        let (scale, point) = quantize_asymmetrically(engine(), &[0.0, -1.0, 1.55, 0.2], &mut bytes);
        assert!((scale - 0.01).abs() < 1e-7 && point == -28, "{scale} {point}");
        assert_eq!(signed(&bytes), [-28, -128, 127, -8]);
        assert_eq!(quantize_asymmetrically(engine(), &[0.0; 4], &mut bytes), (1.0, 0));
        // Just below ties, unless the range is rounded before the scale is.
        let (least, most) = (-1.999_978_4, 1.999_992_6);
        assert_eq!(quantize_asymmetrically(engine(), &[least, most, 0.509_800_2, -1.874_496_1], &mut bytes).1, -1);
        assert_eq!(signed(&bytes), [-128, 127, 32, -121]);
        quantize_asymmetrically(engine(), &[f32::NAN, f32::INFINITY, -1.0, 0.0], &mut bytes);
        assert_eq!(quantize_asymmetrically(engine(), &[2.55, 1.0], &mut bytes[..2]).1, -128);
    }

    #[test]
    fn every_isa_and_number_of_threads_gives_the_bits_of_the_definition() {
        let (pool, mut random) = (Pool::new(3), Random::new(71));
        for (round, length) in [0, 1, 31, 33, 1000, 100_000].into_iter().cycle().take(60).enumerate() {
            let mut values: Vec<f32> = (0..length).map(|_| random.below(4001) as f32 / 8.0 - 250.0).collect();
            if round % 3 == 0 {
                values.iter_mut().step_by(7).for_each(|value| *value = f32::NAN);
            }
            let known = || values.iter().copied().filter(|value| !value.is_nan());
            let most = known().map(f32::abs).fold(0.0, f32::max);
            let byte = |value: &f32| ((value * (127.0 / most)).round() as i32).clamp(-127, 127) as i8 as u8;
            let expected: Vec<u8> = values.iter().map(|value| if most == 0.0 { 0 } else { byte(value) }).collect();
            let mut first = None;
            for isa in Isa::available() {
                for parallel in [&Serial as &dyn attache_base::Parallel, &pool] {
                    let (engine, mut bytes) = (Engine { isa, parallel }, vec![9; length]);
                    let scale = quantize_symmetrically(engine, &values, &mut bytes);
                    assert_eq!(bytes, expected, "{} {length}", isa.name());
                    assert_eq!(scale, if most == 0.0 { 1.0 } else { most / 127.0 });
                    let (scale, point) = quantize_asymmetrically(engine, &values, &mut bytes);
                    let found = (scale, point, bytes);
                    assert_eq!(first.get_or_insert_with(|| found.clone()), &found, "{} {length}", isa.name());
                }
            }
        }
    }
}
