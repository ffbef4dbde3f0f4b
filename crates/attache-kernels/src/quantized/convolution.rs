//! Convolution and transposed convolution of 8-bit elements. They run the same direct convolutions as the
//! float kernels, with packed integer matrices.
//!
//! The input is converted to the elements that the matrices read, which are bytes or 16-bit numbers without zero point,
//! where the direct convolution copies it to scratch memory. Padding is one of these elements, the one that represents
//! zero.
#![allow(unsafe_code)] // Direct convolutions write through pointers.

use attache_base::storable::{Parts, Storable, StoredParts};

use super::epilogue::GemmEpilogue;
use super::gemm::{Element, Operand, PackedIntegers, Zero, convert, gemm};
use super::simd::IntegerIsa;
use crate::convolution::{Activations, Convolution, DirectConvolution, PackedFilter};
use crate::gemm::{Matrix, Rows, Target};
use crate::transpose_convolution::Phase;
use crate::{Engine, Isa};

/// The input of a convolution of 8-bit elements, converted for the instruction set wherever it is copied.
struct Converted<'a> {
    integer_isa: IntegerIsa,
    input: Operand<'a>,
}

impl<T: Element> Activations<T> for Converted<'_> {
    fn in_place(&self) -> Option<&[T]> {
        None
    }

    fn copy(&self, first: usize, target: &mut [T]) {
        convert(self.integer_isa, &self.input.bytes[first..][..target.len()], self.input.zero, target);
    }

    fn zero(&self) -> T {
        T::zero(self.integer_isa, self.input.zero)
    }
}

/// Weights and bias of a convolution of 8-bit elements, packed for one instruction set.
#[derive(Clone)]
pub struct PackedIntegerFilter {
    groups: Vec<PackedIntegers>,
}

impl PackedIntegerFilter {
    /// Returns the numbers on which the packed form depends besides filter, bias and zero point: the output channels, the
    /// groups, the depth of each, and the elements of a segment.
    pub fn parameters(convolution: &Convolution) -> Vec<usize> {
        let [groups, _, depth] = PackedFilter::extents(convolution);
        vec![convolution.output[2], groups, depth, DirectConvolution::new(convolution).segment().1]
    }

    /// Packs a filter `[output channels, height, width, input channels / groups]` and its bias, for inputs with zero
    /// point `input`.
    ///
    /// # Panics
    ///
    /// Panics if the length of the filter or bias does not match, or if the groups do not divide the channels.
    pub fn pack(isa: Isa, convolution: &Convolution, filter: Operand, bias: Option<&[i32]>, input: Zero) -> Self {
        let [outputs, depth] = convolution.matrix(filter.bytes.len());
        let segment = DirectConvolution::new(convolution).segment().1;
        let pack = |group: usize| {
            let bias = bias.map(|bias| &bias[group * outputs..][..outputs]);
            let bytes = &filter.bytes[group * outputs * depth..][..outputs * depth];
            let weights = Operand { bytes, ..filter };
            PackedIntegers::pack(isa, [outputs, depth], weights, [depth, 1], segment, bias, input)
        };
        Self { groups: (0..convolution.groups).map(pack).collect() }
    }
}

impl Storable for PackedIntegerFilter {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.groups.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let &[outputs, groups, depth, segment] = parameters else { return None };
        let outputs = outputs.checked_div(groups)?;
        Some(Self { groups: Vec::load(parts, &[groups, outputs, depth, segment])? })
    }
}

/// Convolves `input` with a filter that was packed for the same convolution. The output is clamped to the bounds of the
/// epilogue, not to those of the convolution.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match the convolution, if a stride or dilation is 0, or if the filter was
/// packed for another number of groups.
pub fn convolve<F: GemmEpilogue>(
    engine: Engine,
    convolution: &Convolution,
    input: Operand,
    filter: &PackedIntegerFilter,
    epilogue: &F,
    output: &mut [F::Output],
) {
    epilogue.convolve(engine, convolution, input, filter, output);
}

pub(super) fn convolve_with<F: GemmEpilogue>(
    engine: Engine,
    convolution: &Convolution,
    input: Operand,
    filter: &PackedIntegerFilter,
    epilogue: &F,
    output: &mut [F::Output],
) {
    convolution.check(input.bytes, output);
    if output.is_empty() {
        return;
    }
    let groups = &filter.groups;
    if convolution.is_pointwise() {
        return gemm(engine, input.bytes, input.zero.signed, &[input.zero.point], &groups[0], epilogue, output);
    }
    let direct = DirectConvolution::new(convolution);
    let input = Converted { integer_isa: groups[0].integer_isa(), input };
    let output = output.as_mut_ptr();
    // SAFETY: the output holds every image, row and pixel that the direct convolution's pitches reach.
    unsafe {
        match input.integer_isa.packs_k4() {
            true => direct.run::<u8, _, _>(engine, &input, groups, epilogue, output),
            false => direct.run::<i16, _, _>(engine, &input, groups, epilogue, output),
        }
    }
}

/// Weights and bias of a transposed convolution of 8-bit elements, packed for one instruction set, with one
/// matrix per phase.
#[derive(Clone)]
pub struct PackedIntegerTransposeFilter {
    phases: Vec<PackedIntegers>,
    /// Matrix without weights that computes the output pixels that read no input, to which only the bias
    /// contributes.
    rest: PackedIntegers,
}

impl PackedIntegerTransposeFilter {
    /// Returns the numbers on which the packed form depends besides filter, bias and zero point: the output and input
    /// channels, and for each phase the number of taps, the elements of its segments, and the taps.
    pub fn parameters(convolution: &Convolution) -> Vec<usize> {
        let mut parameters = vec![convolution.output[2], convolution.input[2]];
        for phase in Phase::all(convolution).0 {
            parameters.extend([phase.taps.len(), phase.direct.segment().1]);
            parameters.extend(phase.taps);
        }
        parameters
    }

    /// Packs a filter `[output channels, height, width, input channels]` and its bias, for inputs with zero
    /// point `input`. Groups and dilations must be 1.
    ///
    /// # Panics
    ///
    /// Panics if the length of the filter or bias does not match.
    pub fn pack(isa: Isa, convolution: &Convolution, filter: Operand, bias: Option<&[i32]>, input: Zero) -> Self {
        let Convolution { input: [.., channels], output: [.., outputs], .. } = *convolution;
        let pack = |phase: &Phase| {
            let bytes = phase.weights(convolution, filter.bytes);
            let depth = phase.taps.len() * channels;
            let segment = phase.direct.segment().1;
            let weights = Operand { bytes: &bytes, ..filter };
            PackedIntegers::pack(isa, [outputs, depth], weights, [depth, 1], segment, bias, input)
        };
        let nothing = Operand { bytes: &[], ..filter };
        Self {
            phases: Phase::all(convolution).0.iter().map(pack).collect(),
            rest: PackedIntegers::pack(isa, [outputs, 0], nothing, [0, 1], 0, bias, input),
        }
    }
}

impl Storable for PackedIntegerTransposeFilter {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.rest.store(parts);
        self.phases.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let &[outputs, channels, ref phases @ ..] = parameters else { return None };
        let (rest, mut phases, mut packed) = (PackedIntegers::load(parts, &[outputs, 0, 0])?, phases, Vec::new());
        while let &[taps, segment, ref others @ ..] = phases {
            packed.push(PackedIntegers::load(parts, &[outputs, taps.checked_mul(channels)?, segment])?);
            phases = others.get(taps..)?;
        }
        Some(Self { phases: packed, rest })
    }
}

/// Computes a transposed convolution, as `transpose_convolution::transpose_convolve` does. The output is clamped to the
/// bounds of the epilogue.
///
/// # Panics
///
/// Panics if the lengths of the slices do not match the convolution, if groups or dilations are not 1, if a stride is
/// 0, or if the filter was packed for another number of output channels.
pub fn transpose_convolve<F: GemmEpilogue>(
    engine: Engine,
    convolution: &Convolution,
    input: Operand,
    filter: &PackedIntegerTransposeFilter,
    epilogue: &F,
    output: &mut [F::Output],
) {
    epilogue.transpose_convolve(engine, convolution, input, filter, output);
}

pub(super) fn transpose_convolve_with<F: GemmEpilogue>(
    engine: Engine,
    convolution: &Convolution,
    input: Operand,
    filter: &PackedIntegerTransposeFilter,
    epilogue: &F,
    output: &mut [F::Output],
) {
    convolution.check(input.bytes, output);
    assert!(convolution.groups == 1 && convolution.dilations == [1, 1], "no groups or dilations");
    assert_eq!(filter.rest.outputs(), convolution.output[2], "the filter was packed for this convolution");
    match filter.rest.integer_isa().packs_k4() {
        true => transpose_convolve_as::<u8, F>(engine, convolution, input, filter, epilogue, output),
        false => transpose_convolve_as::<i16, F>(engine, convolution, input, filter, epilogue, output),
    }
}

fn transpose_convolve_as<T: Element, F: GemmEpilogue>(
    engine: Engine,
    convolution: &Convolution,
    input: Operand,
    filter: &PackedIntegerTransposeFilter,
    epilogue: &F,
    output: &mut [F::Output],
) {
    let (phases, all) = Phase::all(convolution);
    if !all {
        let a = Rows::<T> { start: [].as_ptr(), stride: 0, segments: &[], length: 0 };
        let outputs = convolution.output[2].max(1);
        let rest: &dyn Matrix<T, F, Output = F::Output> = &filter.rest;
        let (first, others) = output.split_at_mut(outputs.min(output.len()));
        if first.is_empty() {
            return;
        }
        let c = Target { start: first.as_mut_ptr(), stride: 0 };
        // SAFETY: there is one row of C, and no element of A is read.
        unsafe { rest.multiply(0..rest.panels(), a, c, 1, epilogue, [0, 0]) }
        others.chunks_exact_mut(outputs).for_each(|pixel| pixel.copy_from_slice(first));
    }
    let input = Converted { integer_isa: filter.rest.integer_isa(), input };
    for (phase, matrix) in phases.iter().zip(&filter.phases) {
        let (matrix, target) = (std::slice::from_ref(matrix), output[phase.first..].as_mut_ptr());
        // SAFETY: the phase's pixels are the strides apart, starting at its first one, and inside of the output.
        unsafe { phase.direct.run::<T, _, _>(engine, &input, matrix, epilogue, target) }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::quantized::simd::widen;
    use crate::quantized::{Multiplier, Requantize, Rounding};
    use crate::testing::{Random, three_by_three};

    /// Returns the sums by definition, one per output: every input pixel through every tap, for ordinary or
    /// transposed convolution.
    fn sums(convolution: &Convolution, transposed: bool, input: Operand, filter: Operand, bias: &[i32]) -> Vec<i32> {
        let Convolution { batches, input: [h, w, c], output: [oh, ow, o], kernel: [kh, kw], groups, .. } = *convolution;
        let mut sums: Vec<i32> = (0..batches * oh * ow).flat_map(|_| bias.iter().copied()).collect();
        let ([small_h, small_w], [large_h, large_w]) = if transposed { ([h, w], [oh, ow]) } else { ([oh, ow], [h, w]) };
        for index in 0..batches * small_h * small_w * kh * kw {
            let (pixel, tap) = (index / (kh * kw), index % (kh * kw));
            let (n, y, x) = (pixel / (small_h * small_w), pixel / small_w % small_h, pixel % small_w);
            let at = |axis: usize, pixel: usize, tap: usize| {
                (pixel * convolution.strides[axis] + tap * convolution.dilations[axis])
                    .wrapping_sub(convolution.before[axis])
            };
            let (ly, lx) = (at(0, y, tap / kw), at(1, x, tap % kw));
            if ly >= large_h || lx >= large_w {
                continue;
            }
            let other = (n * large_h + ly) * large_w + lx;
            let (from, to) = if transposed { (pixel, other) } else { (other, pixel) };
            for channel in 0..o {
                let depth = c / groups;
                for i in 0..depth {
                    let x = input.bytes[from * c + channel / (o / groups) * depth + i];
                    let w = filter.bytes[(channel * kh * kw + tap) * depth + i];
                    let x = widen(x, input.zero.signed) - input.zero.point;
                    sums[to * o + channel] += x * (widen(w, filter.zero.signed) - filter.zero.point);
                }
            }
        }
        sums
    }

    fn check(engine: Engine, convolution: &Convolution, transposed: bool, random: &mut Random) {
        let count = |extents: [usize; 3]| convolution.batches * extents.iter().product::<usize>();
        let outputs = convolution.output[2];
        let signed = random.below(2) == 1;
        let point = |random: &mut Random| random.below(256) as i32 - if signed { 128 } else { 0 };
        let input_zero = Zero { signed, point: point(random) };
        let filter_zero = Zero { signed, point: if signed { 0 } else { point(random) } };
        let input = random.bytes(count(convolution.input));
        let taps = convolution.kernel[0] * convolution.kernel[1];
        let filter = random.bytes(outputs * taps * convolution.input[2] / convolution.groups);
        let bias: Vec<i32> = (0..outputs).map(|_| random.below(20_000) as i32 - 10_000).collect();
        let factors: Vec<_> = (0..outputs).map(|_| Multiplier::new((1 + random.below(999)) as f64 / 1e6)).collect();
        let epilogue =
            Requantize::new(&factors, outputs, Rounding::Twice, 5, if signed { (-128, 100) } else { (7, 255) });
        let operand = Operand { bytes: &input, zero: input_zero };
        let weights = Operand { bytes: &filter, zero: filter_zero };
        let mut output = vec![9; count(convolution.output)];
        if transposed {
            let packed = PackedIntegerTransposeFilter::pack(engine.isa, convolution, weights, Some(&bias), input_zero);
            transpose_convolve(engine, convolution, operand, &packed, &epilogue, &mut output);
        } else {
            let packed = PackedIntegerFilter::pack(engine.isa, convolution, weights, Some(&bias), input_zero);
            convolve(engine, convolution, operand, &packed, &epilogue, &mut output);
        }
        let sums = sums(convolution, transposed, operand, weights, &bias);
        let bounds = if signed { (-128, 100) } else { (7, 255) };
        let expected: Vec<u8> = (sums.iter().enumerate())
            .map(|(i, sum)| (factors[i % outputs].apply(*sum, Rounding::Twice) + 5).clamp(bounds.0, bounds.1) as u8)
            .collect();
        assert_eq!(output, expected, "{} {convolution:?}", engine.isa.name());
    }

    #[test]
    fn every_isa_gives_the_bits_of_the_definition() {
        let mut random = Random::new(41);
        for isa in Isa::available() {
            for _ in 0..120 {
                check(Engine { isa, parallel: &Serial }, &random.convolution(), false, &mut random);
            }
        }
    }

    #[test]
    fn backwards_too() {
        let mut random = Random::new(42);
        for isa in Isa::available() {
            for _ in 0..80 {
                let convolution = random.transposed_convolution();
                check(Engine { isa, parallel: &Serial }, &convolution, true, &mut random);
            }
        }
    }

    #[test]
    fn threads_and_bands_meet() {
        let pool = attache_base::Pool::new(3);
        let mut random = Random::new(43);
        for (input, outputs) in [([60, 60, 40], 24), ([9, 9, 128], 200)] {
            let convolution = three_by_three(input, outputs);
            check(Engine::new(&pool), &convolution, false, &mut random);
        }
    }
}
