//! A pseudorandom number generator, with which tests generate programs and inputs.

use attache_base::Shape;

/// A generator that returns the same numbers in every run of the tests. The field is its state.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// Returns `count` numbers between -2 and 2 that are exact in f16.
    pub(crate) fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.below(2049) as f32 / 512.0 - 2.0).collect()
    }

    pub(crate) fn channels(&mut self) -> usize {
        self.pick(&[1, 2, 3, 4, 5, 8, 12, 16, 21])
    }

    pub(crate) fn image(&mut self) -> Shape {
        [self.pick(&[1, 1, 2]), 1 + self.below(9), 1 + self.below(9), self.channels()].into()
    }
}
