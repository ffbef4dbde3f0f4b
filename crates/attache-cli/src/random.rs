//! Inputs out of nothing, the same on every machine for the same seed.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood 2014): state += 0x9E3779B97F4A7C15, then the variant-13 mixer. One
//! stream runs through all inputs in order. A float is (top 24 bits) / 2²³ − 1: uniform in [−1, 1), exact in f32.
//! Booleans are the top bit, 8- and 16-bit integers the top bits, wider integers 0 to 99, as TensorFlow Lite's
//! benchmark has them, because they tend to be indices.

use attache::DataType;
use half::f16;

/// A stream of random numbers.
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

    /// Uniform in [−1, 1).
    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    /// 0 to 99.
    fn index(&mut self) -> u64 {
        self.next() % 100
    }

    /// The bytes of `count` elements; `None` for types that have no random numbers.
    pub(crate) fn bytes(&mut self, data_type: DataType, count: usize) -> Option<Vec<u8>> {
        let push: fn(&mut Self, &mut Vec<u8>) = match data_type {
            DataType::Float32 => |random, bytes| bytes.extend(random.float().to_ne_bytes()),
            DataType::Float64 => |random, bytes| bytes.extend((random.float() as f64).to_ne_bytes()),
            // Kept below 1 when rounded.
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
}
