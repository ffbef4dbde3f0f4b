//! Synthetic weights for the built-in models: pseudo-random values of a chosen variance.

/// A pseudo-random number generator, SplitMix64. The sequence depends only on the seed.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 pseudo-random bits, by SplitMix64 (Steele, Lea and Flood 2014).
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns the next value, uniform in [-1, 1).
    pub(super) fn uniform(&mut self) -> f32 {
        unit((self.next() >> 32) as u32)
    }

    /// Fills `values` with values uniform in [-limit, limit).
    pub(super) fn fill(&mut self, values: &mut [f32], limit: f32) {
        for pair in values.chunks_mut(2) {
            let bits = self.next();
            for (value, half) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
                *value = limit * unit(half);
            }
        }
    }
}

/// Converts the upper 24 bits, which is the precision of an f32, to a value in [-1, 1).
fn unit(bits: u32) -> f32 {
    (bits >> 8) as f32 * (2.0 / (1u32 << 24) as f32) - 1.0
}

/// Gain for [`filters`] of a layer that reads pixels uniform in [-1, 1) and has a rectifier. It turns the
/// mean square of the pixels, 1/3, into outputs of mean square 1.
pub(super) const PIXELS: f32 = 6.0;

/// Gain for [`filters`] of a layer followed by a rectifier (RELU or RELU6).
pub(super) const RECTIFIED: f32 = 2.0;

/// Gain for [`filters`] of a layer without an activation function.
pub(super) const LINEAR: f32 = 1.0;

/// Gain for [`filters`] of the layer that computes the scores of a classifier.
pub(super) const LOGITS: f32 = 8.0;

/// Generates the weights of a layer with `channels` outputs and `fan_in` weights per output, one output after
/// the other. A weight has the variance `gain / fan_in` on average, so that a layer with a rectifier
/// multiplies the mean square of its input by `gain / 2` on average. A `gain` of 2 therefore preserves the
/// magnitude of activations (He et al. 2015, equation 10). The magnitudes of different outputs differ by up
/// to a factor of 2, as in trained networks.
pub(super) fn filters(random: &mut Random, channels: usize, fan_in: usize, gain: f32) -> Vec<f32> {
    let mut values = vec![0.0; channels * fan_in];
    // A uniform distribution on [-limit, limit) has a variance of limit² / 3.
    let limit = (3.0 * gain / fan_in as f32).sqrt();
    for filter in values.chunks_exact_mut(fan_in) {
        let limit = limit * (1.0 + random.uniform() / 3.0);
        random.fill(filter, limit);
    }
    values
}

/// Weights and biases of a layer.
#[derive(Clone, Debug)]
pub(super) struct Weights {
    /// The weights, `[outputs, fan_in]` in row-major order: equally many for each output, one output after
    /// the other.
    pub(super) filters: Vec<f32>,
    /// The biases, one for each output.
    pub(super) biases: Vec<f32>,
}

impl Weights {
    /// Generates weights by [`filters`] and biases by [`biases`] for `channels` outputs.
    pub(super) fn new(random: &mut Random, channels: usize, fan_in: usize, gain: f32) -> Self {
        let filters = filters(random, channels, fan_in, gain);
        Self { filters, biases: biases(random, channels) }
    }

    /// Returns the weights of the output with index `channel`, for writing.
    pub(super) fn filter(&mut self, channel: usize) -> &mut [f32] {
        let fan_in = self.filters.len() / self.biases.len();
        &mut self.filters[channel * fan_in..][..fan_in]
    }
}

/// Generates `channels` small biases, uniform in [-0.1, 0.1).
pub(super) fn biases(random: &mut Random, channels: usize) -> Vec<f32> {
    let mut values = vec![0.0; channels];
    random.fill(&mut values, 0.1);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_the_spread_that_is_asked_for() {
        let values = filters(&mut Random::new(1), 512, 64, 2.0);
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let square = values.iter().map(|value| value * value).sum::<f32>() / values.len() as f32;
        assert!(mean.abs() < 0.01, "{mean}");
        assert!((square * 64.0 / 2.0 - 1.0).abs() < 0.1, "{square}");
        assert_eq!(filters(&mut Random::new(1), 512, 64, 2.0), values);
        assert_ne!(filters(&mut Random::new(2), 512, 64, 2.0), values);
    }

    #[test]
    fn numbers_keep_within_their_limit() {
        let mut values = vec![0.0; 100_001];
        Random::new(7).fill(&mut values, 0.5);
        let (low, high) = values.iter().fold((0f32, 0f32), |(low, high), value| (low.min(*value), high.max(*value)));
        assert!((-0.5..-0.499).contains(&low) && (0.499..0.5).contains(&high), "{low} {high}");
        assert_eq!((unit(0), unit(1 << 31)), (-1.0, 0.0));
    }
}
