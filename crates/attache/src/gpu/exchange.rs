//! Elements of tensors as the 32-bit words that a device stores, and back.

use std::borrow::Cow;

use attache_base::DataType;
use attache_gpu::Storage;
use attache_gpu_ir::{Bytes, Scalar};
use half::f16;

/// Whether a device that stores a value so holds elements of this type as they are.
pub(super) fn is_stored(data_type: DataType, storage: Storage) -> bool {
    match storage {
        Storage::Bytes(_) => matches!(data_type, DataType::Int8 | DataType::UInt8),
        _ => matches!(data_type, DataType::Float32 | DataType::Int32),
    }
}

/// Whether a device that stores a value of this scalar so takes elements of this type as they are.
pub(super) fn is_taken(data_type: DataType, scalar: Scalar, storage: Storage) -> bool {
    is_stored(data_type, storage) && !(data_type == DataType::Int32 && scalar == Scalar::F32)
}

/// Bytes of `N` each, as the numbers that they stand for.
fn numbers<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    bytes.as_chunks::<N>().0.iter().map(move |bytes| number(*bytes))
}

/// A tensor's elements as words of this scalar, or as they are where the device stores bytes. Integers that 32 bits don't
/// hold become the nearest that they do.
pub(super) fn to_device(data_type: DataType, scalar: Scalar, storage: Storage, bytes: &[u8]) -> Cow<'_, [u8]> {
    if is_taken(data_type, scalar, storage) {
        return Cow::Borrowed(bytes);
    }
    let integers: Box<dyn Iterator<Item = i64>> = match data_type {
        DataType::Float16 => {
            return numbers(bytes, f16::from_le_bytes).flat_map(|half| half.to_f32().to_le_bytes()).collect();
        }
        DataType::Int32 => Box::new(numbers(bytes, i32::from_le_bytes).map(i64::from)),
        DataType::Int8 => Box::new(numbers(bytes, i8::from_le_bytes).map(i64::from)),
        DataType::UInt8 => Box::new(numbers(bytes, u8::from_le_bytes).map(i64::from)),
        DataType::Bool => Box::new(bytes.iter().map(|truth| i64::from(*truth != 0))),
        DataType::Int16 => Box::new(numbers(bytes, i16::from_le_bytes).map(i64::from)),
        DataType::Int64 => Box::new(numbers(bytes, i64::from_le_bytes)),
        _ => return Cow::Borrowed(bytes),
    };
    match scalar {
        _ if matches!(storage, Storage::Bytes(_)) => integers.map(|integer| integer as u8).collect(),
        Scalar::F32 => integers.flat_map(|integer| (integer as f32).to_le_bytes()).collect(),
        Scalar::I32 => {
            let clamped = |integer: i64| integer.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            integers.flat_map(|integer| clamped(integer).to_le_bytes()).collect()
        }
    }
}

/// A device's words, or bytes where it stores such, as a tensor's elements, for types that it doesn't store.
pub(super) fn from_device(data_type: DataType, storage: Storage, words: &[u8], bytes: &mut [u8]) {
    fn put<const N: usize>(bytes: &mut [u8], elements: impl Iterator<Item = [u8; N]>) {
        bytes.as_chunks_mut::<N>().0.iter_mut().zip(elements).for_each(|(to, element)| *to = element);
    }
    let integers = || -> Box<dyn Iterator<Item = i32>> {
        match storage {
            Storage::Bytes(Bytes::Signed) => Box::new(words.iter().map(|byte| i32::from(*byte as i8))),
            Storage::Bytes(Bytes::Unsigned) => Box::new(words.iter().map(|byte| i32::from(*byte))),
            _ => Box::new(numbers(words, i32::from_le_bytes)),
        }
    };
    match data_type {
        DataType::Int32 => put(bytes, integers().map(i32::to_le_bytes)),
        DataType::Float16 => {
            put(bytes, numbers(words, f32::from_le_bytes).map(|number| f16::from_f32(number).to_le_bytes()));
        }
        DataType::Int64 => put(bytes, integers().map(|integer| i64::from(integer).to_le_bytes())),
        DataType::Int16 => put(bytes, integers().map(|integer| (integer as i16).to_le_bytes())),
        DataType::Bool => put(bytes, integers().map(|integer| [u8::from(integer != 0)])),
        _ => put(bytes, integers().map(|integer| [integer as u8])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_go_there_and_back() {
        for (data_type, bytes) in [
            (DataType::Int8, vec![0xff, 0x80, 0x7f]),
            (DataType::UInt8, vec![0xff, 0x00, 0x7f]),
            (DataType::Bool, vec![1, 0, 1]),
            (DataType::Int16, vec![0xff, 0xff, 0x00, 0x80]),
            (DataType::Int64, [-5i64, 1 << 30].iter().flat_map(|integer| integer.to_le_bytes()).collect()),
            (
                DataType::Float16,
                [f16::from_f32(1.5), f16::from_f32(-0.25)].iter().flat_map(|h| h.to_le_bytes()).collect(),
            ),
        ] {
            let scalar = if data_type == DataType::Float16 { Scalar::F32 } else { Scalar::I32 };
            let words = to_device(data_type, scalar, Storage::I32, &bytes).into_owned();
            let mut back = vec![0; bytes.len()];
            from_device(data_type, Storage::I32, &words, &mut back);
            assert_eq!(back, bytes, "{data_type}");
        }
    }

    #[test]
    fn bytes_stay_bytes_and_become_other_integers() {
        let (storage, stored) = (Storage::Bytes(Bytes::Signed), [0xff, 0x05]);
        assert_eq!(&*to_device(DataType::Int8, Scalar::I32, storage, &stored), stored);
        let mut wide = [0; 8];
        from_device(DataType::Int32, storage, &stored, &mut wide);
        assert_eq!(wide, [0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0]);
    }

    #[test]
    fn integers_can_be_read_as_reals() {
        let bytes = (-3i64).to_le_bytes();
        assert_eq!(&*to_device(DataType::Int64, Scalar::F32, Storage::F32, &bytes), (-3f32).to_le_bytes());
        assert_eq!(
            &*to_device(DataType::Int64, Scalar::I32, Storage::I32, &i64::MAX.to_le_bytes()),
            i32::MAX.to_le_bytes()
        );
    }
}
