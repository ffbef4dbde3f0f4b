//! Unary functions of quantized elements as lookup tables: with one entry for every value of the type, or
//! with 513 points between which 16-bit elements are interpolated.

use super::{ScaleAndZero, Stored};
use crate::{Engine, Isa};

/// Number of bytes from which on they are looked up in vectors, for which the table is put in the order of bytes.
const LEAST: usize = 256;

/// Lookup table of a unary function, with one entry for each value of the input type in ascending order.
#[derive(Clone, Debug)]
pub struct Table<T> {
    values: Vec<T>,
    /// What every entry differs by from the value it is for, if that is the same for all.
    difference: Option<i32>,
}

impl<T: Stored> Table<T> {
    /// Creates the table of `function`, which maps each quantized value of type `I` to a quantized result.
    /// Results are saturated to `T`.
    pub fn new<I: Stored>(function: impl Fn(i32) -> i32) -> Self {
        let values: Vec<T> = (I::LEAST..=I::MOST).map(|stored| T::saturate(function(stored))).collect();
        let first = values[0].into() - I::LEAST;
        let is_sum = (I::LEAST..).zip(&values).all(|(stored, value)| (*value).into() - stored == first);
        Self { values, difference: is_sum.then_some(first) }
    }

    /// Writes the table's entry for every element of `input` to `output`. The table must have been created
    /// for type `I`.
    ///
    /// # Panics
    ///
    /// Panics if the lengths differ, or if the table has fewer entries than `I` has values.
    pub fn apply<I: Stored>(&self, engine: Engine, input: &[I], output: &mut [T]) {
        assert_eq!(input.len(), output.len(), "input and output have one shape");
        let values = &self.values[..(I::MOST - I::LEAST + 1) as usize];
        let chunk = output.len().div_ceil(engine.tasks(output.len() as f64 * 0.5, output.len())).max(1);
        let is_looked_up = input.len() >= LEAST && self.difference.is_none() && !cfg!(attache_small);
        let by_byte = if is_looked_up { self.by_byte::<I>() } else { None };
        engine.for_each_chunk(output, chunk, |task, output| {
            let input = &input[task * chunk..][..output.len()];
            if let (Some(difference), false) = (self.difference, cfg!(attache_small)) {
                let sum = |stored: &I| T::truncate((*stored).into() + difference);
                return output.iter_mut().zip(input).for_each(|(value, stored)| *value = sum(stored));
            }
            let done = by_byte.as_ref().map_or(0, |table| look_up(engine.isa, table, input, output));
            for (value, stored) in output[done..].iter_mut().zip(&input[done..]) {
                *value = values[((*stored).into() - I::LEAST) as usize];
            }
        });
    }

    /// Returns the table in the order of the input's bytes; `None` unless inputs and results are bytes.
    fn by_byte<I: Stored>(&self) -> Option<[u8; 256]> {
        let entries: &[u8; 256] = bytemuck::try_cast_slice(&self.values).ok()?.try_into().ok()?;
        let first = I::LEAST as u8;
        (size_of::<I>() == 1)
            .then(|| std::array::from_fn(|byte| entries[usize::from((byte as u8).wrapping_sub(first))]))
    }
}

/// Writes the entries of a table for the first bytes of the input, and returns for how many: as many as vectors of the
/// instruction set can look up.
#[cfg(all(target_arch = "x86_64", not(attache_small)))]
fn look_up<I: Stored, T: Stored>(isa: Isa, table: &[u8; 256], input: &[I], output: &mut [T]) -> usize {
    super::x86::look_up(isa, table, bytemuck::cast_slice(input), bytemuck::cast_slice_mut(output))
}

/// Returns 0: there are no such vectors.
#[cfg(not(all(target_arch = "x86_64", not(attache_small))))]
fn look_up<I: Stored, T: Stored>(_: Isa, _: &[u8; 256], _: &[I], _: &mut [T]) -> usize {
    0
}

/// Returns a closure that maps a quantized element to the quantized result of a function of floats, computed
/// in f32: `round(function(real) × (1 / scale)) + zero point`, with ties rounded away from zero and without
/// saturation to the element type. Source: TensorFlow Lite's tables of 8-bit functions.
pub fn of_reals(input: ScaleAndZero, output: ScaleAndZero, function: impl Fn(f32) -> f32) -> impl Fn(i32) -> i32 {
    let inverse = 1.0 / output.0;
    move |stored| {
        let real = input.0 * stored.wrapping_sub(input.1) as f32;
        ((function(real) * inverse).round() + output.1 as f32) as i32
    }
}

/// Number of intervals of an [`Interpolation`].
const STEPS: usize = 512;

/// Piecewise linear interpolation of a function of 16-bit elements, with 513 points that are 128 quantization
/// steps apart.
#[derive(Clone, Debug)]
pub struct Interpolation {
    points: Vec<i16>,
}

impl Interpolation {
    /// Returns the interpolated quantized result for a quantized element.
    pub fn at(&self, stored: i16) -> i16 {
        let index = ((i32::from(stored) >> 7) + 256) as usize;
        let (base, next) = (i32::from(self.points[index]), i32::from(self.points[index + 1]));
        // The slope is truncated to 16 bits.
        let slope = i32::from((next - base) as i16);
        (base + ((slope * (i32::from(stored) & 127) + 64) >> 7)) as i16
    }
}

/// Defines a constructor that samples a function of floats, computed in `$float`. Each point is shifted by half of the
/// interpolation error in the middle of its interval. Source: TensorFlow Lite's tables of 16-bit functions.
macro_rules! interpolation {
    ($(#[$doc:meta])* $name:ident, $float:ty) => {
        impl Interpolation {
            $(#[$doc])*
            pub fn $name(
                (scale, zero_point): ($float, i32),
                (output_scale, output_zero_point): ($float, i32),
                function: impl Fn($float) -> $float,
            ) -> Self {
                let ends = |scale: $float, zero_point: i32| {
                    [i16::LEAST, i16::MOST].map(|end| scale * (end - zero_point) as $float)
                };
                let [first, last] = ends(scale, zero_point);
                let [low, high] = ends(output_scale, output_zero_point);
                let step = (last - first) / STEPS as $float;
                let inverse = 65536.0 / (high - low);
                let stored = |value: $float| value.clamp(i16::LEAST as $float, i16::MOST as $float) as i16;
                let line = |index: usize| {
                    let start = first + index as $float * step;
                    let value = (function(start) * inverse).round();
                    let next = function(first + (index + 1) as $float * step) * inverse;
                    let middle = (function(start + step / 2.0) * inverse).round();
                    let missed = ((next + value) / 2.0).round() - middle;
                    stored(value - (missed / 2.0).round())
                };
                let end = stored((function(last) * inverse).round());
                Self { points: (0..STEPS).map(line).chain([end]).collect() }
            }
        }
    };
}

interpolation! {
    /// Creates the interpolation of `function`, evaluated in f32, for an input and an output with these
    /// scales and zero points. The output's zero point is not added to results.
    of_singles, f32
}
interpolation! {
    /// Creates the interpolation of `function`, evaluated in f64, for an input and an output with these
    /// scales and zero points. The output's zero point is not added to results.
    of_doubles, f64
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    #[test]
    fn every_number_of_the_type_is_looked_up() {
        let function = |stored: i32| stored * 2 + 100;
        let signed: Vec<i8> = (i8::MIN..=i8::MAX).chain(i8::MIN..=7).rev().collect();
        let unsigned: Vec<u8> = (0..=u8::MAX).chain(0..=7).rev().collect();
        for isa in Isa::available() {
            let engine = Engine { isa, ..Engine::new(&Serial) };
            let mut output = vec![0u8; signed.len()];
            Table::<u8>::new::<i8>(function).apply(engine, &signed, &mut output);
            assert!(signed.iter().zip(&output).all(|(x, y)| i32::from(*y) == function((*x).into()).clamp(0, 255)));
            let mut output = vec![0i8; unsigned.len()];
            Table::<i8>::new::<u8>(function).apply(engine, &unsigned, &mut output);
            assert!(unsigned.iter().zip(&output).all(|(x, y)| i32::from(*y) == function((*x).into()).clamp(-128, 127)));
        }
        let (input, mut output) = (signed, vec![0; 392]);
        Table::<u8>::new::<i8>(|stored| stored + 128).apply(Engine::new(&Serial), &input, &mut output);
        assert!(input.iter().zip(&output).all(|(x, y)| i32::from(*y) == i32::from(*x) + 128));
    }

    #[test]
    fn functions_of_reals_round_halves_away_from_zero() {
        let half = of_reals((1.0, 3), (1.0, -1), |real| real * 0.5);
        assert_eq!([half(4), half(2), half(8)], [0, -2, 2]);
    }

    #[test]
    fn lines_follow_the_function() {
        let tanh = Interpolation::of_singles((4.0 / 32768.0, 0), (1.0 / 32768.0, 0), f32::tanh);
        for stored in (i16::MIN..=i16::MAX).step_by(77) {
            let exact = (f32::from(stored) * 4.0 / 32768.0).tanh() * 32768.0;
            assert!((f32::from(tanh.at(stored)) - exact).abs() < 6.0, "{stored}");
        }
        let same = Interpolation::of_doubles((0.25, 0), (0.25, 0), |x| x);
        // The result is off by at most one: 65536 values have only 65535 steps between them.
        assert_eq!([same.at(i16::MIN), same.at(0), same.at(1234)], [i16::MIN, -1, 1233]);
    }
}
