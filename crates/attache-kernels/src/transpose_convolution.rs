//! Transposed convolution: `output[y × stride − before + ky] += input[y] × filter[ky]`, along both axes.
//!
//! Output pixels with equal coordinates modulo the strides read the input through the same taps, without gaps. Each of
//! these phases is an ordinary convolution with stride 1 and the phase's taps in reverse order, whose output pixels are
//! one stride apart.
#![allow(unsafe_code)] // The phases interleave in the output.

use attache_base::storable::{Parts, Storable, StoredParts};

use crate::convolution::{Convolution, DirectConvolution};
use crate::gemm::PackedMatrix;
use crate::{Engine, Isa};

/// Weights and bias of a transposed convolution, packed for one instruction set, with one matrix per phase.
#[derive(Clone)]
pub struct PackedTransposeFilter {
    /// The weights of the phases that read the input. If the strides exceed the kernel, there are also phases
    /// without taps, whose outputs are only the bias.
    phases: Vec<PackedMatrix>,
    bias: Vec<f32>,
}

/// Parameters of one phase along one axis.
struct Part {
    /// The last of the filter's taps that belong to the phase; the others precede it at intervals of one
    /// stride.
    last: usize,
    /// Number of the filter's taps that belong to the phase.
    taps: usize,
    /// Padding before the input in the phase's ordinary convolution, in pixels; negative if the first window
    /// starts inside the input.
    before: isize,
    /// Number of output pixels of the phase.
    outputs: usize,
}

impl Part {
    /// Returns the parameters of phase `phase` along `axis`. Output pixel `phase + stride × j` reads input
    /// pixel `i` through tap `phase + before + stride × (j − i)`.
    fn new(convolution: &Convolution, axis: usize, phase: usize) -> Self {
        let (stride, kernel) = (convolution.strides[axis], convolution.kernel[axis]);
        let (first, skipped) =
            ((phase + convolution.before[axis]) % stride, (phase + convolution.before[axis]) / stride);
        let taps = kernel.saturating_sub(first).div_ceil(stride);
        let last = first + taps.saturating_sub(1) * stride;
        let outputs = convolution.output[axis].saturating_sub(phase).div_ceil(stride);
        Self { last, taps, before: taps as isize - 1 - skipped as isize, outputs }
    }
}

/// One phase of a transposed convolution: the output pixels with equal coordinates modulo the strides, which an
/// ordinary convolution computes.
pub(crate) struct Phase {
    pub(crate) direct: DirectConvolution,
    /// Offset of the phase's first pixel in the output, in elements.
    pub(crate) first: usize,
    /// The filter's taps that belong to the window of this phase, in the order of the window's taps. A tap is
    /// `row × kernel width + column`.
    pub(crate) taps: Vec<usize>,
}

impl Phase {
    fn new(convolution: &Convolution, y: usize, x: usize) -> Self {
        let ([height, width, outputs], strides) = (convolution.output, convolution.strides);
        let (down, across) = (Part::new(convolution, 0, y), Part::new(convolution, 1, x));
        let tap = |index: usize| {
            let ky = down.last - index / across.taps * strides[0];
            ky * convolution.kernel[1] + across.last - index % across.taps * strides[1]
        };
        let direct = DirectConvolution {
            batches: convolution.batches,
            input: convolution.input,
            windows: [down.outputs, across.outputs],
            kernel: [down.taps, across.taps],
            strides: [1, 1],
            dilations: [1, 1],
            before: [down.before, across.before],
            groups: 1,
            image: height * width * outputs,
            pitch: [strides[0] * width * outputs, strides[1] * outputs],
        };
        let first = ((y * width + x) * outputs).min(convolution.batches * height * width * outputs);
        Self { direct, first, taps: (0..down.taps * across.taps).map(tap).collect() }
    }

    /// Returns the phases that read the input, and whether there are no other phases.
    pub(crate) fn all(convolution: &Convolution) -> (Vec<Self>, bool) {
        let ([height, width, _], strides) = (convolution.output, convolution.strides);
        let columns = reading(convolution, 1);
        let rows = reading(convolution, 0);
        let phases: Vec<_> = rows.iter().flat_map(|y| columns.iter().map(|x| Self::new(convolution, *y, *x))).collect();
        let all = phases.len() >= strides[0].min(height) * strides[1].min(width);
        (phases, all)
    }

    /// Returns the weights `[output channels, taps, input channels]` of this phase, taken from a filter
    /// `[output channels, height, width, input channels]`.
    pub(crate) fn weights<T: Copy>(&self, convolution: &Convolution, filter: &[T]) -> Vec<T> {
        let Convolution { input: [.., channels], output: [.., outputs], kernel: [height, width], .. } = *convolution;
        assert_eq!(filter.len(), outputs * height * width * channels, "the filter has its shape");
        let mut weights = Vec::with_capacity(outputs * self.taps.len() * channels);
        for output in 0..outputs {
            for tap in &self.taps {
                weights.extend_from_slice(&filter[(output * height * width + tap) * channels..][..channels]);
            }
        }
        weights
    }
}

impl PackedTransposeFilter {
    /// Returns the numbers on which the packed form depends besides filter and bias: the output and input channels, and
    /// the number of taps of each phase followed by these taps.
    pub fn parameters(convolution: &Convolution) -> Vec<usize> {
        let mut parameters = vec![convolution.output[2], convolution.input[2]];
        for phase in Phase::all(convolution).0 {
            parameters.push(phase.taps.len());
            parameters.extend(phase.taps);
        }
        parameters
    }

    /// Packs a filter `[output channels, height, width, input channels]` and its bias. Groups and dilations must be 1.
    ///
    /// # Panics
    ///
    /// Panics if the length of `filter` or `bias` does not match.
    pub fn pack(isa: Isa, convolution: &Convolution, filter: &[f32], bias: Option<&[f32]>) -> Self {
        let Convolution { input: [.., channels], output: [.., outputs], .. } = *convolution;
        let pack = |phase: &Phase| {
            let weights = phase.weights(convolution, filter);
            PackedMatrix::pack(isa, outputs, phase.taps.len() * channels, &weights, bias)
        };
        let phases = Phase::all(convolution).0.iter().map(pack).collect();
        Self { phases, bias: bias.map_or_else(|| vec![0.0; outputs], <[f32]>::to_vec) }
    }
}

impl Storable for PackedTransposeFilter {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.field(&self.bias);
        self.phases.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let &[outputs, channels, ref phases @ ..] = parameters else { return None };
        let (bias, mut phases, mut packed) = (parts.field(outputs)?, phases, Vec::new());
        while let Some((taps, rest)) = phases.split_first() {
            packed.push(PackedMatrix::load(parts, &[outputs, taps.checked_mul(channels)?])?);
            phases = rest.get(*taps..)?;
        }
        Some(Self { phases: packed, bias })
    }
}

/// Returns the phases along `axis` that have taps, in ascending order; at most as many as the kernel is long.
fn reading(convolution: &Convolution, axis: usize) -> Vec<usize> {
    let (stride, kernel) = (convolution.strides[axis], convolution.kernel[axis]);
    let phases = stride.min(convolution.output[axis]);
    // Phase `p` has taps if `(p + before) mod stride` is a tap of the kernel.
    let shift = convolution.before[axis] % stride;
    let mut reading: Vec<usize> = (0..kernel.min(stride)).map(|tap| (tap + stride - shift) % stride).collect();
    reading.retain(|phase| *phase < phases);
    reading.sort_unstable();
    reading
}

/// Computes a transposed convolution. `convolution.input` is the smaller side, `strides` are in output pixels, and
/// `before` is the number of output pixels cropped above and to the left. Bias and bounds apply to every output pixel.
///
/// # Panics
///
/// Panics if the lengths of `input` and `output` do not match the convolution, if groups or dilations are not 1, if a
/// stride is 0, or if the filter was packed for another number of output channels.
pub fn transpose_convolve(
    engine: Engine,
    convolution: &Convolution,
    input: &[f32],
    filter: &PackedTransposeFilter,
    output: &mut [f32],
) {
    convolution.check(input, output);
    assert!(convolution.groups == 1 && convolution.dilations == [1, 1], "no groups or dilations");
    let outputs = convolution.output[2];
    assert_eq!(filter.bias.len(), outputs, "the filter was packed for this convolution");
    let (phases, all) = Phase::all(convolution);
    if !all {
        let (low, high) = convolution.clamp;
        let bias: Vec<f32> = filter.bias.iter().map(|bias| bias.max(low).min(high)).collect();
        output.chunks_exact_mut(outputs.max(1)).for_each(|pixel| pixel.copy_from_slice(&bias));
    }
    for (phase, matrix) in phases.iter().zip(&filter.phases) {
        let target = output[phase.first..].as_mut_ptr();
        // SAFETY: the phase's pixels are the strides apart, starting at its first one, and inside of the output.
        unsafe { phase.direct.run(engine, &input, std::slice::from_ref(matrix), &convolution.clamp, target) }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::testing::{Random, assert_close};

    fn naive(convolution: &Convolution, input: &[f32], filter: &[f32], bias: &[f32]) -> Vec<f32> {
        let Convolution { batches, input: [h, w, c], output: [oh, ow, o], kernel: [kh, kw], .. } = *convolution;
        let mut output: Vec<f32> = (0..batches * oh * ow).flat_map(|_| bias.iter().copied()).collect();
        for pixel in 0..batches * h * w {
            let (n, y, x) = (pixel / (h * w), pixel / w % h, pixel % w);
            for tap in 0..kh * kw {
                let oy = (y * convolution.strides[0] + tap / kw).wrapping_sub(convolution.before[0]);
                let ox = (x * convolution.strides[1] + tap % kw).wrapping_sub(convolution.before[1]);
                if oy < oh && ox < ow {
                    for channel in 0..o {
                        let weights = &filter[(channel * kh * kw + tap) * c..][..c];
                        let sum: f32 = input[pixel * c..][..c].iter().zip(weights).map(|(a, b)| a * b).sum();
                        output[((n * oh + oy) * ow + ox) * o + channel] += sum;
                    }
                }
            }
        }
        output.iter().map(|value| value.clamp(convolution.clamp.0, convolution.clamp.1)).collect()
    }

    #[test]
    fn every_isa_matches_the_scattered_sum() {
        let mut random = Random::new(8);
        for isa in Isa::available() {
            for _ in 0..150 {
                let convolution = random.transposed_convolution();
                let count = |extents: [usize; 3]| convolution.batches * extents.iter().product::<usize>();
                let input = random.floats(count(convolution.input));
                let filter = random.floats(
                    convolution.output[2] * convolution.kernel.iter().product::<usize>() * convolution.input[2],
                );
                let bias = random.floats(convolution.output[2]);
                let packed = PackedTransposeFilter::pack(isa, &convolution, &filter, Some(&bias));
                let mut output = vec![9.0; count(convolution.output)];
                let engine = Engine { isa, parallel: &Serial };
                transpose_convolve(engine, &convolution, &input, &packed, &mut output);
                let expected = naive(&convolution, &input, &filter, &bias);
                assert_close(&output, &expected, 1e-5, || format!("{} {convolution:?}", isa.name()));
            }
        }
    }
}
