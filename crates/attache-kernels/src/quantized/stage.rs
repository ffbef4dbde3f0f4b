//! What becomes of the sums of products: numbers of 8 bits by fixed-point factors, or floats where weights alone are
//! quantized.
#![allow(unsafe_code)] // Targets are pointers into rows that tasks share out.

use super::fixed_point::{Multiplier, Rounding};
use super::simd::{Integers, MOST_LANES};

/// Where some sums belong.
#[derive(Clone, Copy)]
pub struct Place {
    /// The row.
    pub(crate) row: usize,
    /// The first column.
    pub(crate) column: usize,
    /// How many columns, at most a vector's lanes.
    pub(crate) count: usize,
}

/// Makes outputs of sums.
pub trait Stage: Sync {
    /// An element of the output.
    type Output: Copy + Send;

    /// How many columns it knows.
    fn outputs(&self) -> usize;

    /// Finishes a vector of sums, one for each column. `weights` are the sums of each column's weights: zero where the
    /// products have seen to the activations' zero point.
    /// # Safety
    /// The place's columns must be among the outputs, `count` elements writable at `target`, and a vector of words readable
    /// at `weights`.
    unsafe fn finish<S: Integers>(
        &self,
        simd: S,
        sums: S::Vector,
        weights: *const i32,
        place: Place,
        target: *mut Self::Output,
    );
}

/// Values for each output with some to spare, so that whole vectors can be read anywhere.
fn spare<T: Copy>(values: impl IntoIterator<Item = T>, count: usize, zero: T) -> Vec<T> {
    let values: Vec<T> = values.into_iter().collect();
    let one = if values.len() == 1 { values[0] } else { zero };
    assert!(values.len() == 1 || values.len() == count, "one value, or one for each output");
    let mut spared = if values.len() == count { values } else { vec![one; count] };
    spared.resize(count + MOST_LANES, zero);
    spared
}

/// Sums times fixed-point factors, as numbers of 8 bits.
#[derive(Clone, Debug)]
pub struct Requantize {
    mantissas: Vec<i32>,
    /// Bits by which sums go to the left before they are multiplied (rounding twice); empty where none does.
    left: Vec<i32>,
    /// Bits by which products go to the right, after those that the mantissa has (rounding twice) or with them (once).
    right: Vec<i32>,
    /// A one for each of these bits (rounding twice).
    masks: Vec<i32>,
    outputs: usize,
    rounding: Rounding,
    zero_point: i32,
    bounds: (i32, i32),
}

impl Requantize {
    /// One factor for each of `outputs`, or one for all, none negative; what is added to the products; the bounds of the
    /// outcome, which must fit 8 bits, with or without a sign.
    pub fn new(
        factors: &[Multiplier],
        outputs: usize,
        rounding: Rounding,
        zero_point: i32,
        bounds: (i32, i32),
    ) -> Self {
        assert!(bounds.0 <= bounds.1 && bounds.0 >= -128 && bounds.1 <= 255, "bounds of 8 bits");
        let factors = spare(factors.iter().copied(), outputs, Multiplier::new(0.0));
        let each = |value: fn(&Multiplier) -> i32| factors.iter().map(value).collect::<Vec<_>>();
        let enlarges = rounding == Rounding::Twice && factors.iter().any(|factor| factor.exponent > 0);
        Self {
            mantissas: each(|factor| factor.mantissa),
            left: if enlarges { each(|factor| factor.exponent.max(0)) } else { Vec::new() },
            masks: each(|factor| ((1i64 << (-factor.exponent).max(0)) - 1) as i32),
            right: match rounding {
                Rounding::Twice => each(|factor| (-factor.exponent).max(0)),
                Rounding::Once => each(|factor| 31 - factor.exponent),
            },
            outputs,
            rounding,
            zero_point,
            bounds,
        }
    }
}

impl Stage for Requantize {
    type Output = u8;

    fn outputs(&self) -> usize {
        self.outputs
    }

    #[inline(always)]
    unsafe fn finish<S: Integers>(&self, simd: S, sums: S::Vector, _: *const i32, place: Place, target: *mut u8) {
        // SAFETY: there are lanes to spare after the last output.
        unsafe {
            let at = |values: &Vec<i32>| values.as_ptr().add(place.column);
            let scaled = match self.rounding {
                Rounding::Twice => {
                    let sums = if self.left.is_empty() { sums } else { simd.shift_left(sums, at(&self.left)) };
                    simd.scale_twice(sums, at(&self.mantissas), at(&self.right), at(&self.masks))
                }
                Rounding::Once => simd.scale_once(sums, at(&self.mantissas), at(&self.right)),
            };
            simd.store_bytes(scaled, self.zero_point, self.bounds, target, place.count);
        }
    }
}

/// Sums times the scales of row and column, as floats.
#[derive(Clone, Debug)]
pub struct Rescale<'a> {
    columns: Vec<f32>,
    bias: Vec<f32>,
    rows: &'a [f32],
    zero_points: &'a [i32],
    clamp: (f32, f32),
}

impl<'a> Rescale<'a> {
    /// `columns` has one scale for each of `outputs`, or one for all; `rows` and `zero_points` have one for each row or
    /// one for all, those of the activations.
    pub fn new(
        columns: &[f32],
        bias: Option<&[f32]>,
        outputs: usize,
        rows: &'a [f32],
        zero_points: &'a [i32],
        clamp: (f32, f32),
    ) -> Self {
        let bias = spare(bias.unwrap_or(&[0.0]).iter().copied(), outputs, 0.0);
        assert!(!rows.is_empty() && rows.len() == zero_points.len(), "a scale and a zero point for each row");
        Self { columns: spare(columns.iter().copied(), outputs, 0.0), bias, rows, zero_points, clamp }
    }

    /// The same with the activations' scale and zero point of other rows.
    pub fn with_rows(&mut self, rows: &'a [f32], zero_points: &'a [i32]) {
        assert!(!rows.is_empty() && rows.len() == zero_points.len(), "a scale and a zero point for each row");
        (self.rows, self.zero_points) = (rows, zero_points);
    }
}

impl Stage for Rescale<'_> {
    type Output = f32;

    fn outputs(&self) -> usize {
        self.columns.len() - MOST_LANES
    }

    #[inline(always)]
    unsafe fn finish<S: Integers>(
        &self,
        simd: S,
        sums: S::Vector,
        weights: *const i32,
        place: Place,
        target: *mut f32,
    ) {
        let Place { row, column, count } = place;
        let (row, words) = (row.min(self.rows.len() - 1), simd.words(sums));
        // Signed bytes are counted from the least one up.
        let (scale, zero_point) = (self.rows[row], self.zero_points[row] + 128);
        let (columns, bias) = (&self.columns[column..][..S::LANES], &self.bias[column..][..S::LANES]);
        // SAFETY: promised by the caller.
        let weights = unsafe { std::slice::from_raw_parts(weights, S::LANES) };
        let mut floats = [0f32; MOST_LANES];
        for lane in 0..S::LANES {
            let sum = words[lane].wrapping_sub(zero_point.wrapping_mul(weights[lane]));
            let real = bias[lane] + sum as f32 * (scale * columns[lane]);
            floats[lane] = crate::math::clamp(real, self.clamp.0, self.clamp.1);
        }
        // SAFETY: promised by the caller.
        unsafe { std::ptr::copy_nonoverlapping(floats.as_ptr(), target, count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Level;
    use crate::quantized::simd::{Form, Kernel};
    use crate::testing::Random;

    struct Finish<'a>(&'a Requantize, &'a [i32; MOST_LANES], &'a mut [u8; MOST_LANES], usize);

    impl Kernel for Finish<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Integers>(self, simd: S) {
            let (place, weights) = (Place { row: 0, column: 0, count: S::LANES.min(self.3) }, [0; MOST_LANES]);
            // SAFETY: a vector's words, factors and bytes are there.
            unsafe { self.0.finish(simd, simd.load(self.1.as_ptr()), weights.as_ptr(), place, self.2.as_mut_ptr()) }
        }
    }

    #[test]
    fn every_form_rounds_as_a_factor_does() {
        let mut random = Random::new(21);
        for level in Level::available() {
            let form = Form::of(level);
            for round in 0..40_000 {
                let mut word = || (random.below(1 << 31) as i32).wrapping_mul(2).wrapping_add(random.below(2) as i32);
                let sums: [i32; MOST_LANES] = std::array::from_fn(|_| word());
                let sums = sums.map(|sum| sum >> random.below(31));
                let mut factor = || {
                    let real = (random.below(1 << 20) + 1) as f64 / f64::from(1 << 20);
                    Multiplier::new(real * 2f64.powi(random.below(50) as i32 - 40))
                };
                let factors: Vec<_> = (0..MOST_LANES).map(|_| factor()).collect();
                let rounding = [Rounding::Once, Rounding::Twice][round % 2];
                let stage = Requantize::new(&factors, MOST_LANES, rounding, -7, (-128, 127));
                let (mut bytes, count) = ([99; MOST_LANES], 1 + random.below(MOST_LANES));
                form.dispatch(Finish(&stage, &sums, &mut bytes, count));
                for lane in 0..form.lanes().min(count) {
                    let expected = factors[lane].apply(sums[lane], rounding).wrapping_add(-7).clamp(-128, 127) as u8;
                    assert_eq!(bytes[lane], expected, "{} {} {:?}", level.name(), sums[lane], factors[lane]);
                }
                assert!(bytes[form.lanes().min(count)..].iter().all(|byte| *byte == 99), "no more than asked for");
            }
        }
    }
}
