//! [`Random`], the generator of random inputs, which are the same on every machine for the same seed.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood 2014): state += 0x9E3779B97F4A7C15, then the variant-13 mixer.
//! One sequence covers all inputs in order. A float is (top 24 bits) / 2²³ − 1: uniform in [−1, 1), exact in f32.
//! Strings are words of small letters. Booleans are the top bit, 8- and 16-bit integers the top bits. Wider integers are 0 to 99, as in TensorFlow Lite's
//! benchmark, because they tend to be indices.

use attache::DataType;
use half::f16;

/// A generator of random elements; the number is its state.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a float, uniform in [−1, 1).
    pub(crate) fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    /// Returns an integer, uniform from 0 to 99.
    fn index(&mut self) -> u64 {
        self.next() % 100
    }

    /// Returns the bytes of `count` uniform random elements, whose ranges the comment of this module
    /// describes; `None` for types without random values.
    pub(crate) fn bytes(&mut self, data_type: DataType, count: usize) -> Option<Vec<u8>> {
        let push: fn(&mut Self, &mut Vec<u8>) = match data_type {
            DataType::Float32 => |random, bytes| bytes.extend(random.float().to_ne_bytes()),
            DataType::Float64 => |random, bytes| bytes.extend((random.float() as f64).to_ne_bytes()),
            // Scaled so that rounding does not reach 1.
            DataType::Float16 => |random, bytes| {
                bytes.extend(f16::from_f32(random.float() * (1.0 - 1.0 / 2048.0)).to_ne_bytes());
            },
            DataType::Bool => |random, bytes| bytes.push((random.next() >> 63) as u8),
            DataType::Int8 | DataType::UInt8 => |random, bytes| bytes.push((random.next() >> 56) as u8),
            DataType::Int16 | DataType::UInt16 => {
                |random, bytes| bytes.extend(((random.next() >> 48) as u16).to_ne_bytes())
            }
            DataType::Int32 | DataType::UInt32 => |random, bytes| bytes.extend((random.index() as u32).to_ne_bytes()),
            DataType::Int64 | DataType::UInt64 => |random, bytes| bytes.extend(random.index().to_ne_bytes()),
            _ => return None,
        };
        let mut bytes = Vec::with_capacity(data_type.byte_size(count)?);
        (0..count).for_each(|_| push(self, &mut bytes));
        Some(bytes)
    }

    /// Returns `count` words of 3 to 8 small letters.
    pub(crate) fn words(&mut self, count: usize) -> Vec<String> {
        let mut word = || {
            let length = 3 + self.next() % 6;
            (0..length).map(|_| char::from(b'a' + (self.next() % 26) as u8)).collect()
        };
        (0..count).map(|_| word()).collect()
    }

    /// Returns a value in [0, 1) with the density of a Gaussian of mean 1/2 and deviation 1/3: a uniform x is
    /// accepted with the probability exp(−(x − 1/2)² / (2/9)).
    fn gaussian(&mut self) -> f64 {
        let mut uniform = || (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        loop {
            let (x, chance) = (uniform(), uniform());
            if chance < (-4.5 * (x - 0.5) * (x - 0.5)).exp() {
                return x;
            }
        }
    }

    /// Returns the bytes of `count` random elements, Gaussian around the middle of a range. The range is −1
    /// to 1 for floats, 0 to 99 for integers of more than 16 bits, which tend to be indices, and the whole
    /// range of the type for others. `None` for types without random values.
    pub(crate) fn gaussian_bytes(&mut self, data_type: DataType, count: usize) -> Option<Vec<u8>> {
        /// Returns one of `count` integers starting at `low`, Gaussian around their middle.
        fn integer(random: &mut Random, low: i64, count: i64) -> i64 {
            low + (random.gaussian() * count as f64) as i64
        }
        let push: fn(&mut Self, &mut Vec<u8>) = match data_type {
            DataType::Float32 => |random, bytes| bytes.extend((2.0 * random.gaussian() as f32 - 1.0).to_ne_bytes()),
            DataType::Float64 => |random, bytes| bytes.extend((2.0 * random.gaussian() - 1.0).to_ne_bytes()),
            DataType::Float16 => |random, bytes| {
                bytes.extend(f16::from_f64(2.0 * random.gaussian() - 1.0).to_ne_bytes());
            },
            DataType::Bool => |random, bytes| bytes.push(u8::from(random.gaussian() >= 0.5)),
            DataType::UInt8 => |random, bytes| bytes.push(integer(random, 0, 1 << 8) as u8),
            DataType::Int8 => |random, bytes| bytes.push(integer(random, -1 << 7, 1 << 8) as u8),
            DataType::UInt16 => |random, bytes| bytes.extend((integer(random, 0, 1 << 16) as u16).to_ne_bytes()),
            DataType::Int16 => |random, bytes| bytes.extend((integer(random, -1 << 15, 1 << 16) as i16).to_ne_bytes()),
            DataType::Int32 | DataType::UInt32 => {
                |random, bytes| bytes.extend((integer(random, 0, 100) as u32).to_ne_bytes())
            }
            DataType::Int64 | DataType::UInt64 => |random, bytes| bytes.extend(integer(random, 0, 100).to_ne_bytes()),
            _ => return None,
        };
        let mut bytes = Vec::with_capacity(data_type.byte_size(count)?);
        (0..count).for_each(|_| push(self, &mut bytes));
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        let mut random = Random::new(1234567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!([random.next(), random.next(), random.next()], expected);
    }

    #[test]
    fn floats_fill_the_interval() {
        let mut random = Random::new(7);
        let values: Vec<f32> = (0..10_000).map(|_| random.float()).collect();
        assert!(values.iter().all(|value| (-1.0..1.0).contains(value)));
        assert!((values.iter().sum::<f32>() / 10_000.0).abs() < 0.02);
        assert!(values.iter().any(|value| *value < -0.99) && values.iter().any(|value| *value > 0.99));
    }

    #[test]
    fn elements_have_the_size_of_their_type() {
        for code in 0..23 {
            let data_type = DataType::from_code(code).unwrap();
            if let Some(bytes) = Random::new(0).bytes(data_type, 5) {
                assert_eq!(Some(bytes.len()), data_type.byte_size(5), "{data_type}");
            }
        }
        assert_eq!(Random::new(0).bytes(DataType::String, 5), None);
    }

    /// Checks the mean, 1/2, and the variance. The variance of a Gaussian with deviation σ = 1/3, truncated
    /// at 1.5 σ on both sides, is σ² (1 − 2 · 1.5 φ(1.5) / (2 Φ(1.5) − 1)) = 0.0613.
    #[test]
    fn gaussian_numbers_have_their_mean_and_variance() {
        let mut random = Random::new(7);
        let numbers: Vec<f64> = (0..100_000).map(|_| random.gaussian()).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 3e-3, "{mean}");
        assert!((variance - 0.0613).abs() < 1e-3, "{variance}");
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
    }

    #[test]
    fn gaussian_bytes_fill_the_range_of_their_type() {
        let bytes = |data_type| Random::new(1).gaussian_bytes(data_type, 10_000);
        let integers = bytes(DataType::Int8).unwrap();
        let signed = || integers.iter().map(|byte| *byte as i8);
        assert!(signed().min() < Some(-120) && signed().max() > Some(120));
        let floats = bytes(DataType::Float32).unwrap();
        let floats = || floats.chunks_exact(4).map(|chunk| f32::from_ne_bytes(chunk.try_into().unwrap()));
        assert!(floats().all(|float| (-1.0..=1.0).contains(&float)) && floats().any(|float| float < -0.9));
        let indices = bytes(DataType::Int32).unwrap();
        assert!(indices.chunks_exact(4).all(|chunk| chunk[0] < 100 && chunk[1..] == [0; 3]));
        assert_eq!(bytes(DataType::Int64), bytes(DataType::Int64), "the same seed gives the same numbers");
        assert_eq!(bytes(DataType::String), None);
    }
}
