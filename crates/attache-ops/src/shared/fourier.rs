//! The discrete Fourier transform of a power of two of numbers, in 64 bits.

use std::f64::consts::TAU;

/// A complex number: its real and its imaginary part.
pub(crate) type Complex = [f64; 2];

fn times([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a * c - b * d, a * d + b * c]
}

/// Returns a power of the root of unity, `exp(−2πi index / length)`.
pub(crate) fn root(index: usize, length: usize) -> Complex {
    let angle = -TAU * index as f64 / length as f64;
    [angle.cos(), angle.sin()]
}

/// A transform of a power of two of complex numbers.
pub(crate) struct Transform {
    /// The powers of the root of unity, `exp(−2πi k / length)`, for the first half of the circle.
    roots: Vec<Complex>,
    length: usize,
}

impl Transform {
    /// Prepares the transform of `length` numbers, a power of two.
    pub(crate) fn new(length: usize) -> Self {
        Self { roots: (0..length / 2).map(|index| root(index, length)).collect(), length }
    }

    /// Returns how many numbers are transformed.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Replaces the numbers by their transform: `X[k] = Σ x[n] exp(−2πi k n / length)`. Source: Cooley and Tukey.
    pub(crate) fn run(&self, values: &mut [Complex]) {
        let bits = self.length.trailing_zeros();
        for index in 0..self.length {
            let reversed = index.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0);
            if index < reversed {
                values.swap(index, reversed);
            }
        }
        let mut half = 1;
        while half < self.length {
            let step = self.length / (2 * half);
            for block in values.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (place, (low, high)) in low.iter_mut().zip(high).enumerate() {
                    let [real, imaginary] = times(*high, self.roots[place * step]);
                    *high = [low[0] - real, low[1] - imaginary];
                    *low = [low[0] + real, low[1] + imaginary];
                }
            }
            half *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_are_sums() {
        for length in [1, 2, 8, 16] {
            let values: Vec<Complex> = (0..length).map(|n| [(n * n % 7) as f64, (n % 3) as f64]).collect();
            let mut made = values.clone();
            Transform::new(length).run(&mut made);
            for (k, made) in made.iter().enumerate() {
                let term = |(n, value): (usize, &Complex)| {
                    let angle = -TAU * (n * k) as f64 / length as f64;
                    times(*value, [angle.cos(), angle.sin()])
                };
                let terms = values.iter().enumerate().map(term);
                let sum = terms.fold([0.0; 2], |sum, term| [sum[0] + term[0], sum[1] + term[1]]);
                assert!((sum[0] - made[0]).hypot(sum[1] - made[1]) < 1e-9, "{length} {k}");
            }
        }
    }
}
