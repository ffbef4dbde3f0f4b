//! Random numbers, the same on every machine: SplitMix64 (Steele, Lea and Flood 2014).

/// Increment of the generator's state per step.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A stream of random numbers.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent generator for stream `index`, seeded from this generator's state.
    pub(crate) fn fork(mut self, index: u64) -> Self {
        let base = self.next();
        Self(Self(base ^ index.wrapping_mul(STEP)).next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A uniform integer from 0 to `count` − 1.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((self.next() >> 32) as usize * count) >> 32
    }

    /// A uniform integer from `least` to `most`, both inclusive.
    pub(crate) fn within(&mut self, least: usize, most: usize) -> usize {
        least + self.below(most + 1 - least)
    }

    /// True with a probability of `chance` percent.
    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A uniform float in [−1, 1).
    pub(crate) fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}
