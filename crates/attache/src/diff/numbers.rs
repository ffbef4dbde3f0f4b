//! Converts elements of any numeric type to `f64`.

use attache_base::DataType;
use half::{bf16, f16};

/// Returns the elements as `f64`, in order; `None` for data types that are not real numbers. `bytes` are
/// elements in native byte order. Integers beyond 2⁵³ lose digits.
pub fn numbers(data_type: DataType, bytes: &[u8]) -> Option<Vec<f64>> {
    fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.chunks_exact(N).map(|chunk| number(chunk.try_into().expect("chunks have this size"))).collect()
    }
    Some(match data_type {
        DataType::Float16 => each(bytes, |b| f16::from_ne_bytes(b).to_f64()),
        DataType::BFloat16 => each(bytes, |b| bf16::from_ne_bytes(b).to_f64()),
        DataType::Float32 => each(bytes, |b| f32::from_ne_bytes(b) as f64),
        DataType::Float64 => each(bytes, f64::from_ne_bytes),
        DataType::Bool | DataType::UInt8 => each(bytes, |b| u8::from_ne_bytes(b) as f64),
        DataType::Int8 => each(bytes, |b| i8::from_ne_bytes(b) as f64),
        DataType::Int16 => each(bytes, |b| i16::from_ne_bytes(b) as f64),
        DataType::UInt16 => each(bytes, |b| u16::from_ne_bytes(b) as f64),
        DataType::Int32 => each(bytes, |b| i32::from_ne_bytes(b) as f64),
        DataType::UInt32 => each(bytes, |b| u32::from_ne_bytes(b) as f64),
        DataType::Int64 => each(bytes, |b| i64::from_ne_bytes(b) as f64),
        DataType::UInt64 => each(bytes, |b| u64::from_ne_bytes(b) as f64),
        _ => return None,
    })
}

/// Whether the type is a float type, for which differences due to rounding are expected.
#[must_use]
pub fn is_float(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::BFloat16 | DataType::Float32 | DataType::Float64)
}

/// Whether the type may be quantized, so that differences are counted in quantization steps.
#[must_use]
pub fn is_stepped(data_type: DataType) -> bool {
    matches!(data_type, DataType::Int8 | DataType::UInt8 | DataType::Int16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_value() {
        assert_eq!(numbers(DataType::Int8, &[255, 1]), Some(vec![-1.0, 1.0]));
        assert_eq!(numbers(DataType::Float16, &f16::from_f32(0.5).to_ne_bytes()), Some(vec![0.5]));
        assert_eq!(numbers(DataType::Int64, &(-3i64).to_ne_bytes()), Some(vec![-3.0]));
        assert_eq!(numbers(DataType::String, &[]), None);
    }
}
