//! Dynamic quantization of floats to signed bytes at run time, with one scale (and zero point) per row.
//!
//! Source: TensorFlow Lite's `SymmetricQuantizeFloats` and `AsymmetricQuantizeFloats`.

use crate::math::truncated;
use crate::simd::{Multiversioned, Simd, run_portable};
use crate::{Engine, Isa};

/// Quantizes `values` to signed bytes, writes them to `target`, and returns the scale and the zero point: −127 to 127 with the
/// zero point 0 if `is_symmetric`, else −128 to 127. Elements that only one of the slices has are ignored.
pub fn quantize(engine: Engine, values: &[f32], is_symmetric: bool, target: &mut [u8]) -> (f32, i32) {
    let (scale, conversion) = parameters(extremes(engine, values), is_symmetric);
    match conversion {
        Some(conversion) => convert(engine, values, target, conversion),
        None => target.fill(0),
    }
    (scale, conversion.map_or(0, |conversion| conversion.zero_point))
}

/// Returns the scale for values of this range, which includes 0, and how they are converted; `None` if all are zero.
#[inline(always)]
fn parameters((least, most): (f32, f32), is_symmetric: bool) -> (f32, Option<Conversion>) {
    if least == most {
        return (1.0, None);
    }
    if is_symmetric {
        let range = most.max(-least);
        return (range / 127.0, Some(Conversion { inverse: 127.0 / range, zero_point: 0, least: -127 }));
    }
    // Computed in f32, because products close to a tie round differently in f64.
    let single = (most - least) / 255.0;
    let inverse = 1.0 / single;
    let (least, most, scale) = (f64::from(least), f64::from(most), f64::from(single));
    let (from_low, from_high) = (-128.0 - least / scale, 127.0 - most / scale);
    let low_is_nearer = 128.0 + (least / scale).abs() < 127.0 + (most / scale).abs();
    let point = if low_is_nearer { from_low } else { from_high };
    let zero_point = point.clamp(-128.0, 127.0).round() as i32;
    (single, Some(Conversion { inverse, zero_point, least: -128 }))
}

/// Quantizes rows of `row` elements as [`quantize`] does, each with a scale and a zero point of its own, all on the calling
/// thread.
pub fn quantize_rows(isa: Isa, values: &[f32], row: usize, is_symmetric: bool, target: QuantizedRows<'_>) {
    #[cfg(not(attache_small))]
    isa.dispatch(Rows { values, row, is_symmetric, target });
    #[cfg(attache_small)]
    for (index, (scale, zero_point)) in target.scales.iter_mut().zip(target.zero_points).enumerate() {
        let (engine, part) = (Engine { isa, parallel: &attache_base::Serial }, index * row..(index + 1) * row);
        (*scale, *zero_point) = quantize(engine, &values[part.clone()], is_symmetric, &mut target.bytes[part]);
    }
}

/// What quantized rows are written to.
#[derive(Debug)]
pub struct QuantizedRows<'a> {
    /// The elements of all rows, as signed bytes.
    pub bytes: &'a mut [u8],
    /// The scale of each row.
    pub scales: &'a mut [f32],
    /// The zero point of each row.
    pub zero_points: &'a mut [i32],
}

#[cfg(not(attache_small))]
struct Rows<'a> {
    values: &'a [f32],
    row: usize,
    is_symmetric: bool,
    target: QuantizedRows<'a>,
}

#[cfg(not(attache_small))]
impl Multiversioned for Rows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { values, row, is_symmetric, target: QuantizedRows { bytes, scales, zero_points } } = self;
        for (index, (scale, zero_point)) in scales.iter_mut().zip(zero_points).enumerate() {
            let (values, target) = (&values[index * row..][..row], &mut bytes[index * row..][..row]);
            let (found, conversion) = parameters(Extremes { values }.run(simd), is_symmetric);
            (*scale, *zero_point) = (found, conversion.map_or(0, |conversion| conversion.zero_point));
            match conversion {
                Some(conversion) => Convert { values, target, conversion }.run(simd),
                None => target.fill(0),
            }
        }
    }
}

/// Returns the smallest and the largest of the values and 0, ignoring NaN.
fn extremes(engine: Engine, values: &[f32]) -> (f32, f32) {
    let chunk = values.len().div_ceil(engine.tasks(values.len() as f64 * 0.05, values.len())).max(1);
    if chunk >= values.len() {
        return engine.isa.dispatch(Extremes { values });
    }
    let mut parts = vec![(0.0, 0.0); values.len().div_ceil(chunk)];
    engine.for_each_chunk(&mut parts, 1, |task, part| {
        let values = &values[task * chunk..];
        part[0] = engine.isa.dispatch(Extremes { values: &values[..chunk.min(values.len())] });
    });
    parts.into_iter().fold((0.0, 0.0), |a: (f32, f32), b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Kernel that returns the smallest and the largest of the values and 0, ignoring NaN.
struct Extremes<'a> {
    values: &'a [f32],
}

impl Multiversioned for Extremes<'_> {
    type Output = (f32, f32);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> (f32, f32) {
        let (zero, minus_one) = (simd.splat(0.0), simd.splat(-1.0));
        // Values take turns on two maxima, so that one does not wait for the one before.
        let (mut negated, mut most) = ([zero; 2], [zero; 2]);
        for pair in self.values.chunks(2 * S::LANES) {
            let (first, second) = pair.split_at(pair.len().min(S::LANES));
            for (index, values) in [first, second].into_iter().enumerate() {
                // Lanes that are NaN, and those without values, change nothing.
                let value = simd.load_slice(values);
                most[index] = simd.maximum(value, most[index]);
                negated[index] = simd.maximum(simd.multiply_add(value, minus_one, zero), negated[index]);
            }
        }
        let [negated, most] = [negated, most].map(|[a, b]| simd.greatest(simd.maximum(a, b)));
        (0.0 - negated, most)
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
            // The number before ½: with ½ itself, the sum of ½ and the number before it would be rounded to 1.
            let rounded = truncated(scaled + 0.499_999_97f32.copysign(scaled));
            *target = rounded.wrapping_add(zero_point).clamp(least, 127) as i8 as u8;
        }
    }
}

/// Adds to each sum the product of a row of 8-bit weights and a vector, in 32 bits, times a scale. The weights are rows of as
/// many elements as the vector has.
pub fn add_row_products(engine: Engine, weights: &[i8], vector: &[i16], scale: f32, sums: &mut [f32]) {
    let products = RowProducts { weights, vector, scale, sums };
    if cfg!(attache_small) { run_portable(products) } else { engine.isa.dispatch(products) }
}

struct RowProducts<'a> {
    weights: &'a [i8],
    vector: &'a [i16],
    scale: f32,
    sums: &'a mut [f32],
}

impl Multiversioned for RowProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (sum, row) in self.sums.iter_mut().zip(self.weights.chunks_exact(self.vector.len().max(1))) {
            // Processors multiply and add pairs of 16 bits in one instruction.
            let products = row.iter().zip(self.vector).map(|(a, b)| i32::from(i16::from(*a)) * i32::from(*b));
            *sum += products.fold(0, i32::wrapping_add) as f32 * self.scale;
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
        assert_eq!(quantize(engine(), &[0.0, -2.54, 1.0, 0.01], true, &mut bytes), (2.54f32 / 127.0, 0));
        assert_eq!(signed(&bytes), [0, -127, 50, 1]);
        assert_eq!((quantize(engine(), &[0.0; 4], true, &mut bytes), bytes), ((1.0, 0), [0; 4]));
    }

    #[test]
    fn the_range_is_used_up() {
        let mut bytes = [9; 4];
        let (scale, point) = quantize(engine(), &[0.0, -1.0, 1.55, 0.2], false, &mut bytes);
        assert!((scale - 0.01).abs() < 1e-7 && point == -28, "{scale} {point}");
        assert_eq!(signed(&bytes), [-28, -128, 127, -8]);
        assert_eq!(quantize(engine(), &[0.0; 4], false, &mut bytes), (1.0, 0));
        // Just below ties, unless the range is rounded before the scale is.
        let (least, most) = (-1.999_978_4, 1.999_992_6);
        assert_eq!(quantize(engine(), &[least, most, 0.509_800_2, -1.874_496_1], false, &mut bytes).1, -1);
        assert_eq!(signed(&bytes), [-128, 127, 32, -121]);
        quantize(engine(), &[f32::NAN, f32::INFINITY, -1.0, 0.0], false, &mut bytes);
        assert_eq!(quantize(engine(), &[2.55, 1.0], false, &mut bytes[..2]).1, -128);
    }

    #[test]
    fn ties_are_rounded_away_from_zero() {
        let ties = (-126..126).map(|whole| whole as f32 + 0.5);
        let near = ties.flat_map(|tie| [tie.next_down(), tie, tie.next_up()]).chain([0.0, -0.0, 127.0, -127.0]);
        let (values, mut bytes) = (near.collect::<Vec<f32>>(), vec![9; 760]);
        for isa in Isa::available() {
            assert_eq!(quantize(Engine { isa, parallel: &Serial }, &values, true, &mut bytes), (1.0, 0));
            let found = signed(&bytes).into_iter().zip(&values);
            found.for_each(|(byte, value)| assert_eq!(f32::from(byte), value.round(), "{} {value}", isa.name()));
        }
    }

    #[test]
    fn rows_are_multiplied_by_a_vector() {
        let mut random = Random::new(72);
        for depth in [1, 7, 64, 130] {
            let weights: Vec<i8> = random.bytes(3 * depth).iter().map(|byte| *byte as i8).collect();
            let vector: Vec<i16> = (0..depth).map(|_| random.below(511) as i16 - 255).collect();
            for isa in Isa::available() {
                let mut sums = [1.0, 2.0, 3.0];
                add_row_products(Engine { isa, parallel: &Serial }, &weights, &vector, 0.5, &mut sums);
                for (index, row) in weights.chunks(depth).enumerate() {
                    let sum: i32 = row.iter().zip(&vector).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
                    assert_eq!(sums[index], (index + 1) as f32 + sum as f32 * 0.5, "{}", isa.name());
                }
            }
        }
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
                    let (scale, _) = quantize(engine, &values, true, &mut bytes);
                    assert_eq!(bytes, expected, "{} {length}", isa.name());
                    assert_eq!(scale, if most == 0.0 { 1.0 } else { most / 127.0 });
                    let (scale, point) = quantize(engine, &values, false, &mut bytes);
                    let found = (scale, point, bytes);
                    assert_eq!(first.get_or_insert_with(|| found.clone()), &found, "{} {length}", isa.name());
                }
            }
        }
    }
}
