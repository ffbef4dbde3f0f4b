//! Test utilities: reproducible random numbers and convolutions, and a comparison relative to the largest value.

use std::ops::Range;

use attache_base::Padding;

use crate::convolution::Convolution;

/// Returns a convolution of one image by 3 × 3 windows, whose output has the height and the width of the input.
pub(crate) fn three_by_three(input: [usize; 3], outputs: usize) -> Convolution {
    Convolution {
        batches: 1,
        input,
        output: [input[0], input[1], outputs],
        kernel: [3, 3],
        strides: [1, 1],
        dilations: [1, 1],
        before: [1, 1],
        first: 0,
        groups: 1,
        clamp: (f32::NEG_INFINITY, f32::INFINITY),
    }
}

#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }

    /// Returns `count` pseudo-random values in [−1, 1).
    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0).collect()
    }

    fn pair(&mut self, bound: usize) -> [usize; 2] {
        [1 + self.below(bound), 1 + self.below(bound)]
    }

    /// Returns a random small convolution with a non-empty output. It may have groups, strides and dilations.
    pub(crate) fn convolution(&mut self) -> Convolution {
        loop {
            let [h, w] = [1 + self.below(15), 1 + self.below(30)];
            let (kernel, strides) = (self.pair(4), self.pair(3));
            let dilations = if self.below(3) == 0 { [1 + self.below(8), 1 + self.below(60)] } else { [1, 1] };
            let padding = if self.below(2) == 0 { Padding::Same } else { Padding::Valid };
            let groups = if self.below(3) == 0 { 1 + self.below(3) } else { 1 };
            let [rows, columns] =
                [0, 1].map(|a| padding.window([h, w][a], kernel[a], strides[a], dilations[a]).unwrap());
            if rows.output * columns.output > 0 {
                return Convolution {
                    batches: 1 + self.below(2),
                    input: [h, w, groups * (1 + self.below(7))],
                    output: [rows.output, columns.output, groups * (1 + self.below(40))],
                    kernel,
                    strides,
                    dilations,
                    before: [rows.before, columns.before],
                    first: 0,
                    groups,
                    clamp: (-1.5, 2.0),
                };
            }
        }
    }

    /// Returns a part of a depthwise convolution with `elements` elements of output, and those that it computes.
    pub(crate) fn part(&mut self, convolution: &Convolution, elements: usize) -> (Convolution, Range<usize>) {
        let channels = convolution.output[2];
        let pixels = elements / channels;
        let first = self.below(pixels + 1);
        let end = first + self.below(pixels - first + 1);
        (Convolution { first, ..*convolution }, first * channels..end * channels)
    }

    /// Returns a random small transposed convolution. It may be cropped on every side, and may have output
    /// rows and columns that no input element contributes to.
    pub(crate) fn transposed_convolution(&mut self) -> Convolution {
        let ([h, w], kernel, strides) = (self.pair(9), self.pair(5), self.pair(4));
        let cut = [self.below(kernel[0]), self.below(kernel[1])];
        let full = |axis: usize| ([h, w][axis] - 1) * strides[axis] + kernel[axis];
        let extra = [self.below(3), self.below(3)];
        Convolution {
            batches: 1 + self.below(2),
            input: [h, w, 1 + self.below(7)],
            output: [full(0) - cut[0] + extra[0], full(1) - cut[1] + extra[1], 1 + self.below(40)],
            kernel,
            strides,
            dilations: [1, 1],
            before: [self.below(cut[0] + 1), self.below(cut[1] + 1)],
            first: 0,
            groups: 1,
            clamp: (-1.5, 2.0),
        }
    }
}

/// Asserts that each element of `actual` differs from that of `expected` by at most `tolerance` × the largest
/// expected magnitude (at least 1). `what` describes the case in the panic message.
pub(crate) fn assert_close(actual: &[f32], expected: &[f32], tolerance: f32, what: impl Fn() -> String) {
    assert_eq!(actual.len(), expected.len(), "{}", what());
    let scale = expected.iter().fold(1f32, |largest, value| largest.max(value.abs()));
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!((a - e).abs() <= tolerance * scale, "{}: {a} where {e} belongs at {index}", what());
    }
}
