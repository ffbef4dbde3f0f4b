//! [`Twister`], the generator of TensorFlow Lite's benchmark: MT19937 with its default seed (Matsumoto and Nishimura
//! 1998). Numbers are drawn from it as the GNU C++ library draws them: a float is a word divided by 2³², and an integer
//! of a range is found by multiplication (Lemire 2019).

use attache::DataType;
use half::{bf16, f16};

/// Number of words of the state.
const WORDS: usize = 624;
/// Distance of the word that is mixed into another.
const MIDDLE: usize = 397;
/// The default seed.
const SEED: u32 = 5489;

/// A generator of random elements.
pub(crate) struct Twister {
    state: [u32; WORDS],
    next: usize,
}

/// The range of the elements of an input; integers include `high`, floats do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Range {
    /// Returns the range of elements for which the command line gives none; `None` for types without random elements.
    pub(crate) fn usual(data_type: DataType) -> Option<Self> {
        let (low, high) = match data_type {
            DataType::Float16 | DataType::BFloat16 | DataType::Float32 | DataType::Float64 => (-0.5, 0.5),
            DataType::Bool => (0.0, 1.0),
            DataType::UInt8 => (0.0, 254.0),
            DataType::Int8 => (-127.0, 127.0),
            DataType::Int16 | DataType::UInt16 => (0.0, 99.0),
            DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64 => (0.0, 99.0),
            _ => return None,
        };
        Some(Self { low, high })
    }

    /// Checks that elements of a type can be drawn from the range; otherwise returns what is wrong. Every draw has 32
    /// random bits.
    pub(crate) fn check(self, data_type: DataType) -> Result<(), String> {
        let Some((least, most)) = limits(data_type) else { return Ok(()) };
        let is_outside = |end: f64| end < least || end > most;
        if is_outside(self.low) || is_outside(self.high) {
            return Err(format!("{data_type} has the values {} to {}", short(least), short(most)));
        }
        let width = self.high - self.low;
        let is_float =
            matches!(data_type, DataType::Float16 | DataType::BFloat16 | DataType::Float32 | DataType::Float64);
        match is_float {
            true if width > f64::from(f32::MAX) => Err(format!("it is wider than {:e}", f32::MAX)),
            false if width >= 4_294_967_296.0 => Err("it is wider than 32 bits".to_owned()),
            _ => Ok(()),
        }
    }
}

/// Formats the end of a range, with an exponent if it is long.
pub(crate) fn short(number: f64) -> String {
    if number.abs() < 1e16 { number.to_string() } else { format!("{number:e}") }
}

/// Returns the least and the largest number that ranges of a type may have; `None` for types without random elements.
fn limits(data_type: DataType) -> Option<(f64, f64)> {
    // The largest double below 2⁶³; integers are drawn as 64 bits with a sign.
    let most = 9_223_372_036_854_774_784.0;
    Some(match data_type {
        DataType::Float16 => (f64::from(f16::MIN), f64::from(f16::MAX)),
        DataType::BFloat16 => (f64::from(bf16::MIN), f64::from(bf16::MAX)),
        DataType::Float32 | DataType::Float64 => (f64::from(f32::MIN), f64::from(f32::MAX)),
        DataType::Bool => (0.0, 1.0),
        DataType::UInt8 => (0.0, f64::from(u8::MAX)),
        DataType::Int8 => (f64::from(i8::MIN), f64::from(i8::MAX)),
        DataType::UInt16 => (0.0, f64::from(u16::MAX)),
        DataType::Int16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        DataType::UInt32 => (0.0, f64::from(u32::MAX)),
        DataType::Int32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DataType::UInt64 => (0.0, most),
        DataType::Int64 => (-most, most),
        _ => return None,
    })
}

impl Twister {
    /// Creates the generator with its default seed.
    pub(crate) fn new() -> Self {
        let mut state = [SEED; WORDS];
        for index in 1..WORDS {
            let before = state[index - 1];
            state[index] = 1_812_433_253u32.wrapping_mul(before ^ (before >> 30)).wrapping_add(index as u32);
        }
        Self { state, next: WORDS }
    }

    fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.twist();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn twist(&mut self) {
        for index in 0..WORDS {
            let joined = (self.state[index] & 0x8000_0000) | (self.state[(index + 1) % WORDS] & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[index] = self.state[(index + MIDDLE) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// Returns a float of the range, without its upper end.
    fn float(&mut self, range: Range) -> f32 {
        let unit = (self.word() as f32 / 4_294_967_296.0).min(1.0f32.next_down());
        unit * (range.high - range.low) as f32 + range.low as f32
    }

    /// Returns an integer of the range, with both ends. A range is no wider than 32 bits.
    fn integer(&mut self, range: Range) -> i64 {
        let (low, high) = (range.low as i64, range.high as i64);
        let count = (high - low + 1).clamp(1, 1 << 32) as u64;
        if count == 1 << 32 {
            return low + i64::from(self.word());
        }
        // The lowest products are as many as do not fill a whole range; they would make some numbers more likely.
        let excess = (1u64 << 32) % count;
        loop {
            let product = u64::from(self.word()) * count;
            if product as u32 as u64 >= excess {
                return low + (product >> 32) as i64;
            }
        }
    }

    /// Returns the bytes of `count` random elements; `None` for types without them.
    pub(crate) fn bytes(&mut self, data_type: DataType, count: usize, range: Range) -> Option<Vec<u8>> {
        let push: fn(&mut Self, Range, &mut Vec<u8>) = match data_type {
            DataType::Float32 => |from, range, bytes| bytes.extend(from.float(range).to_ne_bytes()),
            DataType::Float64 => |from, range, bytes| bytes.extend(f64::from(from.float(range)).to_ne_bytes()),
            DataType::Float16 => |from, range, bytes| bytes.extend(f16::from_f32(from.float(range)).to_ne_bytes()),
            DataType::BFloat16 => |from, range, bytes| bytes.extend(bf16::from_f32(from.float(range)).to_ne_bytes()),
            DataType::Bool | DataType::Int8 | DataType::UInt8 => {
                |from, range, bytes| bytes.push(from.integer(range) as u8)
            }
            DataType::Int16 | DataType::UInt16 => {
                |from, range, bytes| bytes.extend((from.integer(range) as u16).to_ne_bytes())
            }
            DataType::Int32 | DataType::UInt32 => {
                |from, range, bytes| bytes.extend((from.integer(range) as u32).to_ne_bytes())
            }
            DataType::Int64 | DataType::UInt64 => |from, range, bytes| bytes.extend(from.integer(range).to_ne_bytes()),
            _ => return None,
        };
        let mut bytes = Vec::with_capacity(data_type.byte_size(count)?);
        (0..count).for_each(|_| push(self, range, &mut bytes));
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard states the 10,000th number.
    #[test]
    fn the_stream_is_the_standard_one() {
        let mut twister = Twister::new();
        let last = (0..10_000).map(|_| twister.word()).last();
        assert_eq!(last, Some(4_123_659_995));
    }

    #[test]
    fn ranges_fit_their_types() {
        let check = |data_type, low, high| Range { low, high }.check(data_type);
        for (data_type, low, high) in [
            (DataType::UInt8, 0.0, 1e30),
            (DataType::UInt8, 0.0, 300.0),
            (DataType::UInt8, -1.0, 5.0),
            (DataType::Int8, 0.0, 128.0),
            (DataType::Bool, 0.0, 2.0),
            (DataType::Int64, 0.0, 4_294_967_296.0),
            (DataType::UInt64, 0.0, 1e19),
            (DataType::Float16, 0.0, 65_536.0),
            (DataType::Float32, 0.0, 1e300),
            (DataType::Float32, -3e38, 3e38),
        ] {
            assert!(check(data_type, low, high).is_err(), "{data_type} {low} {high}");
        }
        let most = 9_223_372_036_854_774_784.0;
        for (data_type, low, high) in [
            (DataType::UInt8, 0.0, 255.0),
            (DataType::Int32, f64::from(i32::MIN), f64::from(i32::MAX)),
            (DataType::UInt32, 0.0, f64::from(u32::MAX)),
            (DataType::Int64, most - 4096.0, most),
            (DataType::Int64, -most, -most),
            (DataType::Float32, 0.0, 3e38),
        ] {
            assert_eq!(check(data_type, low, high), Ok(()), "{data_type} {low} {high}");
            let bytes = Twister::new().bytes(data_type, 100, Range { low, high }).unwrap();
            let values = crate::io::numbers::numbers(data_type, &bytes).unwrap();
            assert!(values.iter().all(|value| (low..=high).contains(value)), "{data_type} {low} {high}");
        }
    }

    #[test]
    fn elements_fill_their_ranges() {
        let mut twister = Twister::new();
        let mut drawn = |data_type| twister.bytes(data_type, 20_000, Range::usual(data_type).unwrap()).unwrap();
        let floats: Vec<f32> =
            drawn(DataType::Float32).chunks_exact(4).map(|it| f32::from_ne_bytes(it.try_into().unwrap())).collect();
        assert!(floats.iter().all(|float| (-0.5..0.5).contains(float)));
        assert!(floats.iter().any(|float| *float < -0.49) && floats.iter().any(|float| *float > 0.49));
        let bytes = drawn(DataType::UInt8);
        assert_eq!((bytes.iter().min(), bytes.iter().max()), (Some(&0), Some(&254)));
        let signed: Vec<i8> = drawn(DataType::Int8).iter().map(|byte| *byte as i8).collect();
        assert_eq!((signed.iter().min(), signed.iter().max()), (Some(&-127), Some(&127)));
        let indices: Vec<i32> =
            drawn(DataType::Int32).chunks_exact(4).map(|it| i32::from_ne_bytes(it.try_into().unwrap())).collect();
        assert_eq!((indices.iter().min(), indices.iter().max()), (Some(&0), Some(&99)));
        assert_eq!(drawn(DataType::Bool).iter().max(), Some(&1));
        assert!(Range::usual(DataType::String).is_none());
    }
}
