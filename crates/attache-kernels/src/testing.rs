//! What tests share: reproducible random numbers and a comparison relative to the largest value.

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

    /// Values in [−1, 1).
    pub(crate) fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0).collect()
    }
}

/// Asserts that values are equal within `tolerance` × the largest expected magnitude (at least 1).
pub(crate) fn assert_close(actual: &[f32], expected: &[f32], tolerance: f32, what: impl Fn() -> String) {
    assert_eq!(actual.len(), expected.len(), "{}", what());
    let scale = expected.iter().fold(1f32, |largest, value| largest.max(value.abs()));
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!((a - e).abs() <= tolerance * scale, "{}: {a} where {e} belongs at {index}", what());
    }
}
