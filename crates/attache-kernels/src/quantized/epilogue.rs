//! GEMM epilogues, which convert accumulated sums to outputs: 8-bit elements by fixed-point factors, or floats if only
//! the weights are quantized.
#![allow(unsafe_code)] // Targets are pointers into rows that tasks share out.

use attache_base::storable::{Parts, Storable, StoredParts};

use super::fixed_point::{Multiplier, Rounding};
use super::instances::EpilogueKernels;
use super::simd::{Integers, MOST_LANES};

/// Position in C of a vector of sums: one row and up to a vector of adjacent columns.
#[derive(Clone, Copy)]
pub struct OutputPosition {
    /// The row of C.
    pub(crate) row: usize,
    /// The first column of C.
    pub(crate) column: usize,
    /// The number of columns, at most one vector.
    pub(crate) count: usize,
}

/// Epilogue that converts the 32-bit sums of a matrix product or convolution to output elements.
pub trait GemmEpilogue: EpilogueKernels + Sync {
    /// Returns the number of columns that the epilogue has parameters for.
    fn outputs(&self) -> usize;

    /// Converts a vector of sums, one per column, and stores `position.count` outputs at `target`. `weights`
    /// points at the sum of each column's weights, for epilogues that correct the zero point of the
    /// activations. These sums are zero if the activations were converted to numbers without zero point.
    ///
    /// # Safety
    /// The columns of `position` must be among the outputs, `count` elements must be writable at `target`, and one
    /// vector of words must be readable at `weights`.
    unsafe fn finish<S: Integers>(
        &self,
        simd: S,
        sums: S::Vector,
        weights: *const i32,
        position: OutputPosition,
        target: *mut Self::Output,
    );
}

/// Returns `count` values, one per output, followed by spare elements, so that a whole vector can be read at
/// any output. `values` has one value per output, or one for all.
fn spare<T: Copy>(values: impl IntoIterator<Item = T>, count: usize, zero: T) -> Vec<T> {
    let values: Vec<T> = values.into_iter().collect();
    let one = if values.len() == 1 { values[0] } else { zero };
    assert!(values.len() == 1 || values.len() == count, "one value, or one for each output");
    let mut spared = if values.len() == count { values } else { vec![one; count] };
    spared.resize(count + MOST_LANES, zero);
    spared
}

/// Epilogue that multiplies sums by fixed-point factors, giving 8-bit elements.
#[derive(Clone, Debug)]
pub struct Requantize {
    mantissas: Vec<i32>,
    /// Left shifts of the sums before the multiplication, in bits, for [`Rounding::Twice`]; empty if none is
    /// needed.
    left: Vec<i32>,
    /// Right shifts of the products, in bits. They include the 31 bits of the mantissa with
    /// [`Rounding::Once`], and follow the shift by those bits with [`Rounding::Twice`].
    right: Vec<i32>,
    /// Masks of the bits that `right` shifts out, for [`Rounding::Twice`].
    masks: Vec<i32>,
    outputs: usize,
    rounding: Rounding,
    zero_point: i32,
    bounds: (i32, i32),
}

impl Requantize {
    /// Creates an epilogue. `factors` has one non-negative factor per output, or one for all. `zero_point` is
    /// added to the products. `bounds` is the range of the results, which must fit 8 bits, signed or
    /// unsigned.
    ///
    /// # Panics
    ///
    /// Panics if the number of factors does not match or the bounds do not fit 8 bits.
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

/// Stored with one factor per output. The number of outputs is the first parameter.
impl Storable for Requantize {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        let exponent = |output: usize| match self.rounding {
            Rounding::Twice => self.left.get(output).copied().unwrap_or(0) - self.right[output],
            Rounding::Once => 31 - self.right[output],
        };
        parts.number((self.rounding == Rounding::Once).into());
        for number in [self.zero_point, self.bounds.0, self.bounds.1] {
            parts.number(number.into());
        }
        parts.field(&self.mantissas[..self.outputs]);
        parts.field(&(0..self.outputs).map(exponent).collect::<Vec<i32>>());
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let outputs = *parameters.first()?;
        let rounding = if parts.number()? == 0 { Rounding::Twice } else { Rounding::Once };
        let mut number = |range: std::ops::RangeInclusive<i32>| {
            i32::try_from(parts.number()?).ok().filter(|number| range.contains(number))
        };
        let zero_point = number(-128..=255)?;
        let least = number(-128..=255)?;
        let bounds = (least, number(least..=255)?);
        let (mantissas, exponents) = (parts.field::<i32>(outputs)?, parts.field::<i32>(outputs)?);
        let factors =
            mantissas.into_iter().zip(exponents).map(|(mantissa, exponent)| Multiplier { mantissa, exponent });
        let factors: Vec<Multiplier> = factors.collect();
        let is_valid = |factor: &Multiplier| factor.mantissa >= 0 && (-31..=30).contains(&factor.exponent);
        factors.iter().all(is_valid).then(|| Self::new(&factors, outputs, rounding, zero_point, bounds))
    }
}

impl GemmEpilogue for Requantize {
    fn outputs(&self) -> usize {
        self.outputs
    }

    #[inline(always)]
    unsafe fn finish<S: Integers>(
        &self,
        simd: S,
        sums: S::Vector,
        _: *const i32,
        position: OutputPosition,
        target: *mut u8,
    ) {
        // SAFETY: the vectors have spare elements after the last output.
        unsafe {
            let at = |values: &Vec<i32>| values.as_ptr().add(position.column);
            let scaled = match self.rounding {
                Rounding::Twice => {
                    let sums = if self.left.is_empty() { sums } else { simd.shift_left(sums, at(&self.left)) };
                    simd.scale_twice(sums, at(&self.mantissas), at(&self.right), at(&self.masks))
                }
                Rounding::Once => simd.scale_once(sums, at(&self.mantissas), at(&self.right)),
            };
            simd.store_bytes(scaled, self.zero_point, self.bounds, target, position.count);
        }
    }
}

/// Epilogue that multiplies sums by the scales of their row and column and adds a bias, giving floats.
#[derive(Clone, Debug)]
pub struct Rescale<'a> {
    columns: Vec<f32>,
    bias: Vec<f32>,
    rows: &'a [f32],
    zero_points: &'a [i32],
    clamp: (f32, f32),
}

impl<'a> Rescale<'a> {
    /// Creates an epilogue for weights that were packed for [`Zero::UNKNOWN`](super::Zero::UNKNOWN).
    /// `columns` has the scale of the weights of each output, or one for all; `bias` likewise, if there is
    /// one. `rows` and `zero_points` are the scales and zero points of the rows of activations; the last one
    /// also applies to all further rows.
    ///
    /// # Panics
    ///
    /// Panics if `columns` or `bias` has neither one element nor one per output, or if `rows` and `zero_points` are
    /// empty or of different lengths.
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

    /// Replaces the scales and zero points of the rows of activations.
    ///
    /// # Panics
    ///
    /// Panics if `rows` and `zero_points` are empty or of different lengths.
    pub fn with_rows(&mut self, rows: &'a [f32], zero_points: &'a [i32]) {
        assert!(!rows.is_empty() && rows.len() == zero_points.len(), "a scale and a zero point for each row");
        (self.rows, self.zero_points) = (rows, zero_points);
    }
}

impl GemmEpilogue for Rescale<'_> {
    fn outputs(&self) -> usize {
        self.columns.len() - MOST_LANES
    }

    #[inline(always)]
    unsafe fn finish<S: Integers>(
        &self,
        simd: S,
        sums: S::Vector,
        weights: *const i32,
        position: OutputPosition,
        target: *mut f32,
    ) {
        let OutputPosition { row, column, count } = position;
        let (row, words) = (row.min(self.rows.len() - 1), simd.words(sums));
        // The sums were computed with activations relative to −128.
        let (scale, zero_point) = (self.rows[row], self.zero_points[row] + 128);
        let (columns, bias) = (&self.columns[column..][..S::LANES], &self.bias[column..][..S::LANES]);
        // SAFETY: guaranteed by the caller.
        let weights = unsafe { std::slice::from_raw_parts(weights, S::LANES) };
        let mut floats = [0f32; MOST_LANES];
        for lane in 0..S::LANES {
            let sum = words[lane].wrapping_sub(zero_point.wrapping_mul(weights[lane]));
            let real = bias[lane] + sum as f32 * (scale * columns[lane]);
            floats[lane] = crate::math::clamp(real, self.clamp.0, self.clamp.1);
        }
        // SAFETY: guaranteed by the caller.
        unsafe { std::ptr::copy_nonoverlapping(floats.as_ptr(), target, count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Isa;
    use crate::quantized::simd::{IntegerIsa, IntegerMultiversioned};
    use crate::testing::Random;

    struct Finish<'a>(&'a Requantize, &'a [i32; MOST_LANES], &'a mut [u8; MOST_LANES], usize);

    impl IntegerMultiversioned for Finish<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Integers>(self, simd: S) {
            let position = OutputPosition { row: 0, column: 0, count: S::LANES.min(self.3) };
            let weights = [0; MOST_LANES];
            // SAFETY: a vector of words, factors and bytes is available.
            unsafe { self.0.finish(simd, simd.load(self.1.as_ptr()), weights.as_ptr(), position, self.2.as_mut_ptr()) }
        }
    }

    #[test]
    fn every_isa_rounds_as_a_factor_does() {
        let mut random = Random::new(21);
        for isa in Isa::available() {
            let integer_isa = IntegerIsa::of(isa);
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
                let epilogue = Requantize::new(&factors, MOST_LANES, rounding, -7, (-128, 127));
                let (mut bytes, count) = ([99; MOST_LANES], 1 + random.below(MOST_LANES));
                integer_isa.dispatch(Finish(&epilogue, &sums, &mut bytes, count));
                for lane in 0..integer_isa.lanes().min(count) {
                    let expected = factors[lane].apply(sums[lane], rounding).wrapping_add(-7).clamp(-128, 127) as u8;
                    assert_eq!(bytes[lane], expected, "{} {} {:?}", isa.name(), sums[lane], factors[lane]);
                }
                assert!(
                    bytes[integer_isa.lanes().min(count)..].iter().all(|byte| *byte == 99),
                    "no more than asked for"
                );
            }
        }
    }
}
