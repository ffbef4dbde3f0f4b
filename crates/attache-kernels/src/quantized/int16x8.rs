//! Matrix products and convolutions of 16-bit activations with weights of at most 16 bits, with 64-bit sums. They have
//! the structure of the float kernels and are computed by dot products.
#![allow(unsafe_code)] // Rows and targets are pointers that a direct convolution passes.

#[cfg(not(attache_small))]
mod depthwise;

use std::ops::Range;

use attache_base::storable::{Parts, Storable, StoredParts};

use super::fixed_point::{Multiplier, Rounding, multiply, multiply_int16x8};
use crate::convolution::{Convolution, DirectConvolution};
use crate::gemm::{LEAST_ROWS, Matrix, Rows, Split, Target};
use crate::packed::PackedValues;
#[cfg(not(attache_small))]
use crate::simd::{Multiversioned, Simd};
use crate::transpose_convolution::Phase;
use crate::{AlignedFloats, Engine, engine::Shared};
#[cfg(not(attache_small))]
use crate::{Isa, scratch};

#[cfg(not(attache_small))]
pub use self::depthwise::{Int16x8Depthwise, int16x8_depthwise};

/// Number of outputs per panel, which is the unit in which outputs are split over tasks.
const PANEL: usize = 16;

/// Rounding of 64-bit sums to 16-bit elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Int16x8Rounding {
    /// The factor's mantissa is first rounded to 16 bits; the product is rounded once.
    Short,
    /// The factor's full mantissa is used; the product is rounded once.
    Full,
    /// The sum wraps to 32 bits, and its product is rounded twice ([`Rounding::Twice`]).
    Twice,
}

/// Epilogue that multiplies 64-bit sums by fixed-point factors, giving 16-bit elements.
#[derive(Clone, Debug)]
pub struct Int16x8Epilogue {
    /// One factor per output, or one for all.
    pub factors: Vec<Multiplier>,
    /// How products are rounded.
    pub rounding: Int16x8Rounding,
    /// The output's zero point, which is added to the products.
    pub zero_point: i32,
    /// The smallest and the largest permitted output element, which must fit 16 bits.
    pub bounds: (i32, i32),
}

/// Returns a sum in 32 bits times a factor, rounded twice. Few models ask for it, so it is in the program once.
#[inline(never)]
fn multiply_twice(sum: i64, factor: Multiplier) -> i32 {
    factor.apply(sum as i32, Rounding::Twice)
}

impl Int16x8Epilogue {
    fn finish(&self, sum: i64, output: usize) -> i16 {
        let factor = self.factors[output.min(self.factors.len() - 1)];
        let scaled = match self.rounding {
            Int16x8Rounding::Full => multiply(sum, factor.mantissa, 31 - factor.exponent),
            Int16x8Rounding::Short => multiply_int16x8(sum, factor),
            Int16x8Rounding::Twice => multiply_twice(sum, factor),
        };
        scaled.wrapping_add(self.zero_point).clamp(self.bounds.0, self.bounds.1) as i16
    }
}

/// Stored with its factors, whose number does not follow from the parameters.
impl Storable for Int16x8Epilogue {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        let rounding = match self.rounding {
            Int16x8Rounding::Short => 0,
            Int16x8Rounding::Full => 1,
            Int16x8Rounding::Twice => 2,
        };
        let count = self.factors.len() as i64;
        for number in [rounding, self.zero_point.into(), self.bounds.0.into(), self.bounds.1.into(), count] {
            parts.number(number);
        }
        parts.field(&self.factors.iter().flat_map(|factor| [factor.mantissa, factor.exponent]).collect::<Vec<i32>>());
    }

    fn load(parts: &mut StoredParts<'_>, _: &[usize]) -> Option<Self> {
        let rounding = match parts.number()? {
            0 => Int16x8Rounding::Short,
            1 => Int16x8Rounding::Full,
            2 => Int16x8Rounding::Twice,
            _ => return None,
        };
        let mut number = || i16::try_from(parts.number()?).ok().map(i32::from);
        let (zero_point, bounds) = (number()?, (number()?, number()?));
        let count = usize::try_from(parts.number()?).ok().filter(|count| *count > 0 && bounds.0 <= bounds.1)?;
        let numbers: Vec<i32> = parts.field(count.checked_mul(2)?)?;
        let factors = numbers.as_chunks().0.iter().map(|&[mantissa, exponent]| Multiplier { mantissa, exponent });
        let factors: Vec<Multiplier> = factors.collect();
        let is_valid = |factor: &Multiplier| factor.mantissa >= 0 && (-31..=30).contains(&factor.exponent);
        factors.iter().all(is_valid).then_some(Self { factors, rounding, zero_point, bounds })
    }
}

/// Weights and bias of a matrix product: one row of 16-bit weights and one 64-bit bias per output.
#[derive(Clone)]
pub struct Int16x8Matrix {
    depth: usize,
    /// The weights, followed by one more if their number is odd.
    values: PackedValues,
    bias: Vec<i64>,
    /// How many products of activations and these weights have a sum of at most 32 bits.
    #[cfg(not(attache_small))]
    summed: usize,
}

/// Sums of so many products or more are computed in 32 bits first. They are less where weights have all of 16 bits.
#[cfg(not(attache_small))]
const LEAST_SUMMED: usize = 16;

/// Returns how many products of 16-bit numbers and these weights have a sum of at most 32 bits, at least 1.
#[cfg(not(attache_small))]
fn products_of_32_bits(weights: &[i16]) -> usize {
    let most = weights.iter().map(|weight| weight.unsigned_abs()).max().unwrap_or(0);
    (i32::MAX as usize / (usize::from(most.max(1)) << 15)).max(1)
}

impl Int16x8Matrix {
    /// Creates a matrix from weights `[outputs, depth]` and one bias per output (zero if there is none).
    ///
    /// # Panics
    ///
    /// Panics if the lengths of `weights` or `bias` do not match.
    pub fn new(outputs: usize, weights: &[i16], bias: Option<&[i64]>) -> Self {
        assert!(weights.len().is_multiple_of(outputs.max(1)), "as many weights for each output");
        let bias = bias.map_or_else(|| vec![0; outputs], <[i64]>::to_vec);
        assert_eq!(bias.len(), outputs, "a bias for each output");
        let mut values = AlignedFloats::zeros(weights.len().div_ceil(2));
        bytemuck::cast_slice_mut(&mut values)[..weights.len()].copy_from_slice(weights);
        Self {
            depth: weights.len().checked_div(outputs).unwrap_or(0),
            values: values.into(),
            bias,
            #[cfg(not(attache_small))]
            summed: products_of_32_bits(weights),
        }
    }

    /// Returns the numbers from which the extents of a matrix of `outputs` rows and `depth` columns follow.
    pub fn parameters(outputs: usize, depth: usize) -> Vec<usize> {
        vec![outputs, depth]
    }

    /// Creates a matrix from 8-bit weights.
    fn of_bytes(outputs: usize, weights: &[i8], bias: Option<&[i64]>) -> Self {
        Self::new(outputs, &weights.iter().map(|weight| i16::from(*weight)).collect::<Vec<_>>(), bias)
    }
}

impl Storable for Int16x8Matrix {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.field(&self.bias);
        self.values.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let &[outputs, depth] = parameters else { return None };
        let bias = parts.field(outputs)?;
        let values = PackedValues::load(parts, outputs.checked_mul(depth)?.div_ceil(2))?;
        Some(Self {
            depth,
            #[cfg(not(attache_small))]
            summed: products_of_32_bits(&bytemuck::cast_slice(&values)[..outputs * depth]),
            values,
            bias,
        })
    }
}

/// Kernel that adds the products of a row and rows of weights, of the same length, to sums of 64 bits, which wrap. Sums of
/// `summed` products fit 32 bits.
#[cfg(not(attache_small))]
struct Products<'a> {
    row: &'a [i16],
    weights: &'a [i16],
    summed: usize,
    sums: &'a mut [i64],
}

#[cfg(not(attache_small))]
impl Multiversioned for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { row, weights, summed, sums } = self;
        for (sum, weights) in sums.iter_mut().zip(weights.chunks_exact(row.len().max(1))) {
            if summed < LEAST_SUMMED {
                let products = row.iter().zip(weights).map(|(a, b)| i64::from(i32::from(*a) * i32::from(*b)));
                *sum = products.fold(*sum, i64::wrapping_add);
                continue;
            }
            for (row, weights) in row.chunks(summed).zip(weights.chunks(summed)) {
                // Processors multiply and add pairs of 16 bits in one instruction.
                let products = row.iter().zip(weights).map(|(a, b)| i32::from(*a).wrapping_mul(i32::from(*b)));
                *sum = sum.wrapping_add(products.fold(0, i32::wrapping_add).into());
            }
        }
    }
}

impl Matrix<i16, Int16x8Epilogue> for Int16x8Matrix {
    type Output = i16;

    fn outputs(&self) -> usize {
        self.bias.len()
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn panels(&self) -> usize {
        self.bias.len().div_ceil(PANEL)
    }

    fn nanoseconds(&self, rows: usize) -> f64 {
        #[cfg(not(attache_small))]
        if self.summed >= LEAST_SUMMED {
            return (rows * self.bias.len() * (self.depth + 80)) as f64 / 40.0;
        }
        (rows * self.bias.len() * (self.depth + 24)) as f64 / 8.0
    }

    unsafe fn multiply(
        &self,
        panels: Range<usize>,
        a: Rows<i16>,
        c: Target<i16>,
        rows: usize,
        epilogue: &Int16x8Epilogue,
        position: [usize; 2],
    ) {
        assert_eq!(a.segments.len() * a.length, self.depth, "segments make up the depth");
        let outputs = panels.start * PANEL..(panels.end * PANEL).min(self.bias.len());
        let weights: &[i16] = &bytemuck::cast_slice(&self.values)[outputs.start * self.depth..outputs.end * self.depth];
        let part = |row: usize, segment: &usize| {
            // SAFETY: the caller guarantees every element of A.
            unsafe { std::slice::from_raw_parts(a.start.add(row * a.stride + segment), a.length) }
        };
        let finish = |row: usize, output: usize, sum: i64| {
            // SAFETY: the caller guarantees the columns of C.
            unsafe { *c.start.add(row * c.stride + output) = epilogue.finish(sum, position[1] + output) }
        };
        #[cfg(not(attache_small))]
        scratch::with(outputs.len(), |sums: &mut [i64]| {
            scratch::with(self.depth, |joined: &mut [i16]| {
                for row in 0..rows {
                    let whole = match a.segments {
                        [segment] => part(row, segment),
                        segments => {
                            let targets = joined.chunks_exact_mut(a.length.max(1));
                            segments
                                .iter()
                                .zip(targets)
                                .for_each(|(segment, to)| to.copy_from_slice(part(row, segment)));
                            &*joined
                        }
                    };
                    sums.copy_from_slice(&self.bias[outputs.clone()]);
                    Isa::detect().dispatch(Products { row: whole, weights, summed: self.summed, sums });
                    sums.iter().zip(outputs.clone()).for_each(|(sum, output)| finish(row, output, *sum));
                }
            });
        });
        #[cfg(attache_small)]
        for row in 0..rows {
            for (index, output) in outputs.clone().enumerate() {
                let weights = &weights[index * self.depth..][..self.depth];
                let mut sum = self.bias[output];
                for (segment, weights) in a.segments.iter().zip(weights.chunks_exact(a.length.max(1))) {
                    let products = part(row, segment).iter().zip(weights);
                    let products = products.map(|(a, b)| i64::from(i32::from(*a) * i32::from(*b)));
                    sum = products.fold(sum, i64::wrapping_add);
                }
                finish(row, output, sum);
            }
        }
    }
}

/// Multiplies dense rows of A by the weights, applies the epilogue, and writes dense rows of C.
///
/// # Panics
///
/// Panics if `a` or `c` does not consist of whole rows.
pub fn int16x8_gemm(engine: Engine, a: &[i16], matrix: &Int16x8Matrix, epilogue: &Int16x8Epilogue, c: &mut [i16]) {
    let (outputs, depth) = (matrix.bias.len(), matrix.depth);
    let rows = c.len().checked_div(outputs).unwrap_or(0);
    assert!(c.len() == rows * outputs && a.len() == rows * depth, "whole rows");
    let split = Split::new(&engine, rows, LEAST_ROWS, matrix.panels(), matrix.nanoseconds(rows));
    let target = Shared(c.as_mut_ptr());
    split.for_each(&engine, |rows, panels| {
        if rows.is_empty() {
            return;
        }
        let source = Rows { start: a[rows.start * depth..].as_ptr(), stride: depth, segments: &[0], length: depth };
        // SAFETY: A and C were checked to contain these rows; tasks write disjoint rows or disjoint panels of C.
        unsafe {
            let c = Target { start: target.get().add(rows.start * outputs), stride: outputs };
            matrix.multiply(panels, source, c, rows.len(), epilogue, [rows.start, 0]);
        }
    });
}

/// Splits a convolution's filter `[output channels, height, width, input channels / groups]` into one matrix per group.
///
/// # Panics
///
/// Panics if the length of `filter` or `bias` does not match, or if the groups do not divide the channels.
pub fn int16x8_groups(convolution: &Convolution, filter: &[i8], bias: Option<&[i64]>) -> Vec<Int16x8Matrix> {
    let [outputs, depth] = convolution.matrix(filter.len());
    let group = |group: usize| {
        let bias = bias.map(|bias| &bias[group * outputs..][..outputs]);
        Int16x8Matrix::of_bytes(outputs, &filter[group * outputs * depth..][..outputs * depth], bias)
    };
    (0..convolution.groups).map(group).collect()
}

/// Convolves `input` with one matrix per group, as returned by [`int16x8_groups`]. The zero point of the
/// input is 0.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match the convolution, if there is not one matrix per group, or
/// if a stride or dilation is 0.
pub fn int16x8_convolve(
    engine: Engine,
    convolution: &Convolution,
    input: &[i16],
    groups: &[Int16x8Matrix],
    epilogue: &Int16x8Epilogue,
    output: &mut [i16],
) {
    convolution.check(input, output);
    // SAFETY: the output holds every image, row and pixel that the direct convolution's pitches reach.
    unsafe { DirectConvolution::new(convolution).run(engine, &input, groups, epilogue, output.as_mut_ptr()) }
}

/// Computes a transposed convolution with a filter `[output channels, height, width, input channels]`. The input's zero
/// point is 0.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match the convolution, or if a stride is 0.
#[allow(clippy::too_many_arguments)] // the customary ones
pub fn int16x8_transpose_convolve(
    engine: Engine,
    convolution: &Convolution,
    input: &[i16],
    filter: &[i8],
    bias: Option<&[i64]>,
    epilogue: &Int16x8Epilogue,
    output: &mut [i16],
) {
    convolution.check(input, output);
    let outputs = convolution.output[2];
    for (index, value) in output.iter_mut().enumerate() {
        *value = epilogue.finish(bias.map_or(0, |bias| bias[index % outputs]), index % outputs);
    }
    for phase in Phase::all(convolution).0 {
        let matrix = Int16x8Matrix::of_bytes(outputs, &phase.weights(convolution, filter), bias);
        let target = output[phase.first..].as_mut_ptr();
        // SAFETY: the phase's pixels are the strides apart, starting at its first one, and inside of the output.
        unsafe { phase.direct.run(engine, &input, &[matrix], epilogue, target) }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::testing::Random;

    #[test]
    fn sums_need_more_than_32_bits() {
        let mut random = Random::new(61);
        let numbers: Vec<i16> = (0..3000).map(|_| 32767 - random.below(3) as i16).collect();
        let matrix = Int16x8Matrix::new(2, &[-128; 6000], Some(&[1 << 40, 0]));
        let epilogue = Int16x8Epilogue {
            factors: vec![Multiplier::new(1e-8), Multiplier::new(1e-6)],
            rounding: Int16x8Rounding::Full,
            zero_point: 0,
            bounds: (-32768, 32767),
        };
        let mut output = [0; 2];
        int16x8_gemm(Engine::new(&Serial), &numbers, &matrix, &epilogue, &mut output);
        let sum: i64 = numbers.iter().map(|number| i64::from(*number) * -128).sum();
        assert_eq!(output, [(((1i64 << 40) + sum) as f64 * 1e-8).round() as i16, (sum as f64 * 1e-6).round() as i16]);
    }

    #[test]
    fn every_isa_gives_the_same_sums() {
        let mut random = Random::new(62);
        for (depth, bits) in [(1, 8), (31, 8), (700, 8), (1100, 9), (65, 16), (3, 16)] {
            let mut number = |bits: usize| (random.below(1 << bits) as i32 - (1 << (bits - 1))) as i16;
            let row: Vec<i16> = (0..depth).map(|index| if index % 3 == 0 { i16::MIN } else { number(16) }).collect();
            let least = (-1i32 << (bits - 1)) as i16;
            let weights: Vec<i16> =
                (0..3 * depth).map(|index| if index % 2 == 0 { least } else { number(bits) }).collect();
            let product = |(a, b): (&i16, &i16)| i64::from(*a) * i64::from(*b);
            let expected: Vec<i64> =
                weights.chunks(depth).map(|weights| row.iter().zip(weights).map(product).sum()).collect();
            for isa in Isa::available() {
                let mut sums = vec![0; 3];
                let summed = products_of_32_bits(&weights);
                isa.dispatch(Products { row: &row, weights: &weights, summed, sums: &mut sums });
                assert_eq!(sums, expected, "{} {depth} {bits}", isa.name());
            }
        }
    }

    #[test]
    fn stored_epilogues_come_back() {
        for (rounding, count) in [(Int16x8Rounding::Short, 1), (Int16x8Rounding::Full, 3), (Int16x8Rounding::Twice, 2)]
        {
            let factors = vec![Multiplier::new(0.3); count];
            let epilogue = Int16x8Epilogue { factors, rounding, zero_point: -3, bounds: (-32768, 90) };
            let mut parts = Parts::default();
            epilogue.store(&mut parts);
            let fields = parts.fields().to_vec();
            let loaded = Int16x8Epilogue::load(&mut StoredParts::new(&fields, &[]), &[7]).unwrap();
            assert_eq!(format!("{loaded:?}"), format!("{epilogue:?}"));
        }
        let (invalid, mut parts) = (
            Int16x8Epilogue { factors: vec![], rounding: Int16x8Rounding::Full, zero_point: 0, bounds: (0, 1) },
            Parts::default(),
        );
        invalid.store(&mut parts);
        assert!(Int16x8Epilogue::load(&mut StoredParts::new(parts.fields(), &[]), &[]).is_none());
    }

    #[test]
    fn short_mantissas_have_16_bits() {
        let epilogue = |rounding| Int16x8Epilogue {
            factors: vec![Multiplier { mantissa: 0x4000_7fff, exponent: 0 }],
            rounding,
            zero_point: 0,
            bounds: (-32768, 32767),
        };
        assert_eq!(epilogue(Int16x8Rounding::Short).finish(32767, 0), 16384);
        assert_eq!(epilogue(Int16x8Rounding::Full).finish(65535, 0), 32767);
        assert_eq!(epilogue(Int16x8Rounding::Full).finish(32767, 0), 16384);
    }

    #[test]
    fn groups_see_their_own_channels() {
        let convolution = Convolution {
            batches: 1,
            input: [2, 2, 4],
            output: [2, 2, 2],
            kernel: [1, 1],
            strides: [1, 1],
            dilations: [1, 1],
            before: [0, 0],
            first: 0,
            groups: 2,
            clamp: (0.0, 0.0),
        };
        let groups = int16x8_groups(&convolution, &[1, 2, 3, 4], Some(&[10, 20]));
        let epilogue = Int16x8Epilogue {
            factors: vec![Multiplier::new(1.0)],
            rounding: Int16x8Rounding::Short,
            zero_point: 0,
            bounds: (-32768, 32767),
        };
        let input: Vec<i16> = (0..16).collect();
        let mut output = [0; 8];
        int16x8_convolve(Engine::new(&Serial), &convolution, &input, &groups, &epilogue, &mut output);
        assert_eq!(output, [12, 38, 24, 66, 36, 94, 48, 122]);
    }
}
