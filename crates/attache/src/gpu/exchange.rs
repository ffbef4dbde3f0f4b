//! Converts tensors between the host's element types and the formats in which the device stores them.

use std::borrow::Cow;

use attache_base::DataType;
use attache_gpu::StorageFormat;
use attache_gpu_ir::{ByteType, Scalar};
use half::f16;

/// Returns the type of the elements that a device has for those of a tensor, and their number: a complex number is two
/// floats.
pub(super) fn parts(data_type: DataType) -> (DataType, usize) {
    if data_type == DataType::Complex64 { (DataType::Float32, 2) } else { (data_type, 1) }
}

/// Whether elements of type `data_type` have the same bytes on the host as in the device's format `storage`.
pub(super) fn is_stored(data_type: DataType, storage: StorageFormat) -> bool {
    match storage {
        StorageFormat::Bytes(_) => matches!(data_type, DataType::Int8 | DataType::UInt8),
        _ => matches!(data_type, DataType::Float32 | DataType::Int32 | DataType::UInt32),
    }
}

/// Whether an input of type `data_type` is copied to the device without conversion. An Int32 tensor that the
/// program reads as floats is converted.
pub(super) fn is_taken(data_type: DataType, scalar: Scalar, storage: StorageFormat) -> bool {
    is_stored(data_type, storage) && !(data_type == DataType::Int32 && scalar == Scalar::F32)
}

/// Applies `map` to each element of `N` bytes and returns the concatenated elements of `M` bytes.
fn mapped<const N: usize, const M: usize>(bytes: &[u8], map: impl Fn([u8; N]) -> [u8; M]) -> Vec<u8> {
    let elements: Vec<[u8; M]> = bytes.as_chunks::<N>().0.iter().map(|element| map(*element)).collect();
    elements.into_flattened()
}

/// Converts integers of `N` bytes to 32-bit floats or integers as `scalar` requires, or to bytes if the
/// device stores bytes.
fn integers_to_device<const N: usize>(
    (scalar, storage): (Scalar, StorageFormat),
    bytes: &[u8],
    integer: impl Fn([u8; N]) -> i64,
) -> Vec<u8> {
    let clamped = |integer: i64| integer.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    match scalar {
        _ if matches!(storage, StorageFormat::Bytes(_)) => mapped(bytes, |element| [integer(element) as u8]),
        Scalar::F32 => mapped(bytes, |element| (integer(element) as f32).to_le_bytes()),
        Scalar::I32 => mapped(bytes, |element| clamped(integer(element)).to_le_bytes()),
    }
}

/// Converts the elements of an input to the format of the device: 32-bit floats or integers as `scalar`
/// requires, or bytes if the device stores bytes. Returns `bytes` itself if no conversion is needed. Integers
/// outside the 32-bit range are clamped. Inputs are converted before every run, so each type has its own
/// loop.
pub(super) fn to_device(data_type: DataType, scalar: Scalar, storage: StorageFormat, bytes: &[u8]) -> Cow<'_, [u8]> {
    if is_taken(data_type, scalar, storage) {
        return Cow::Borrowed(bytes);
    }
    let representation = (scalar, storage);
    Cow::Owned(match data_type {
        DataType::Float16 => mapped(bytes, |half| f16::from_le_bytes(half).to_f32().to_le_bytes()),
        DataType::Int32 => integers_to_device(representation, bytes, |bytes| i32::from_le_bytes(bytes).into()),
        DataType::Int8 => integers_to_device(representation, bytes, |bytes| i8::from_le_bytes(bytes).into()),
        DataType::UInt8 => integers_to_device(representation, bytes, |bytes| u8::from_le_bytes(bytes).into()),
        DataType::Bool => integers_to_device(representation, bytes, |[truth]| (truth != 0).into()),
        DataType::Int16 => integers_to_device(representation, bytes, |bytes| i16::from_le_bytes(bytes).into()),
        DataType::UInt16 => integers_to_device(representation, bytes, |bytes| u16::from_le_bytes(bytes).into()),
        DataType::Int64 => integers_to_device(representation, bytes, i64::from_le_bytes),
        _ => return Cow::Borrowed(bytes),
    })
}

/// Applies `map` to each element of `N` bytes in `from` and writes the elements of `M` bytes to `to`.
fn put<const N: usize, const M: usize>(from: &[u8], to: &mut [u8], map: impl Fn([u8; N]) -> [u8; M]) {
    let elements = from.as_chunks::<N>().0;
    to.as_chunks_mut::<M>().0.iter_mut().zip(elements).for_each(|(to, element)| *to = map(*element));
}

/// Converts an output from the format of the device, 32-bit words or bytes, to the elements of a tensor. This
/// is for tensor types that the device does not store.
pub(super) fn from_device(data_type: DataType, storage: StorageFormat, words: &[u8], bytes: &mut [u8]) {
    if data_type == DataType::Float16 {
        return put(words, bytes, |word| f16::from_f32(f32::from_le_bytes(word)).to_le_bytes());
    }
    match storage {
        StorageFormat::Bytes(ByteType::Signed) => {
            integers_from_device(data_type, words, bytes, |[byte]| i32::from(byte as i8))
        }
        StorageFormat::Bytes(ByteType::Unsigned) => {
            integers_from_device(data_type, words, bytes, |[byte]| i32::from(byte))
        }
        _ => integers_from_device(data_type, words, bytes, i32::from_le_bytes),
    }
}

fn integers_from_device<const N: usize>(
    data_type: DataType,
    from: &[u8],
    to: &mut [u8],
    integer: impl Fn([u8; N]) -> i32,
) {
    match data_type {
        DataType::Int32 | DataType::UInt32 => put(from, to, |element| integer(element).to_le_bytes()),
        DataType::Int64 => put(from, to, |element| i64::from(integer(element)).to_le_bytes()),
        DataType::Int16 | DataType::UInt16 => put(from, to, |element| (integer(element) as i16).to_le_bytes()),
        DataType::Bool => put(from, to, |element| [u8::from(integer(element) != 0)]),
        _ => put(from, to, |element| [integer(element) as u8]),
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
            (DataType::UInt16, vec![0xff, 0xff, 0x00, 0x80]),
            (DataType::UInt32, vec![0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x80]),
            (DataType::Int64, [-5i64, 1 << 30].iter().flat_map(|integer| integer.to_le_bytes()).collect()),
            (
                DataType::Float16,
                [f16::from_f32(1.5), f16::from_f32(-0.25)].iter().flat_map(|h| h.to_le_bytes()).collect(),
            ),
        ] {
            let scalar = if data_type == DataType::Float16 { Scalar::F32 } else { Scalar::I32 };
            let words = to_device(data_type, scalar, StorageFormat::I32, &bytes).into_owned();
            let mut back = vec![0; bytes.len()];
            from_device(data_type, StorageFormat::I32, &words, &mut back);
            assert_eq!(back, bytes, "{data_type}");
        }
    }

    #[test]
    fn bytes_stay_bytes_and_become_other_integers() {
        let (storage, stored) = (StorageFormat::Bytes(ByteType::Signed), [0xff, 0x05]);
        assert_eq!(&*to_device(DataType::Int8, Scalar::I32, storage, &stored), stored);
        let mut wide = [0; 8];
        from_device(DataType::Int32, storage, &stored, &mut wide);
        assert_eq!(wide, [0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0]);
    }

    #[test]
    fn integers_can_be_read_as_reals() {
        let bytes = (-3i64).to_le_bytes();
        assert_eq!(&*to_device(DataType::Int64, Scalar::F32, StorageFormat::F32, &bytes), (-3f32).to_le_bytes());
        assert_eq!(
            &*to_device(DataType::Int64, Scalar::I32, StorageFormat::I32, &i64::MAX.to_le_bytes()),
            i32::MAX.to_le_bytes()
        );
    }
}
