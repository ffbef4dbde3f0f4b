//! Constant tensors. Their bytes are reference-counted slices, so weights stay in the mapped file and are shared, not
//! copied.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::{AlignedBuffer, DataType, Element, Shape};

/// A range of bytes, kept alive by a shared owner (a mapped file or a vector). Cheap to clone.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// All bytes of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner, range }
    }

    /// The bytes of a vector.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self::new(Arc::new(bytes))
    }

    /// A subrange of these bytes with the same owner; `None` if it extends past the end.
    pub fn slice(&self, range: Range<usize>) -> Option<Self> {
        let start = self.range.start.checked_add(range.start)?;
        let end = self.range.start.checked_add(range.end)?;
        (start <= end && end <= self.range.end).then(|| Self { owner: self.owner.clone(), range: start..end })
    }
}

impl Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.range.len())
    }
}

/// A tensor whose value is known before the first run.
#[derive(Clone, Debug)]
pub struct Constant {
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents per axis, outermost first.
    pub shape: Shape,
    /// Little-endian elements; at least as many bytes as the shape requires. The address may be unaligned.
    pub bytes: Bytes,
}

impl Constant {
    /// Creates a constant from values.
    ///
    /// # Panics
    ///
    /// Panics if `values` does not have as many elements as `shape`.
    pub fn from_values<T: Element>(shape: impl Into<Shape>, values: &[T]) -> Self {
        let shape = shape.into();
        assert_eq!(shape.elements(), values.len(), "a constant has as many values as its shape");
        Self { data_type: T::DATA_TYPE, shape, bytes: Bytes::from_vec(bytemuck::cast_slice(values).to_vec()) }
    }

    /// Exactly the bytes that the shape requires, aligned for their elements; copied only if they are unaligned.
    ///
    /// `None` if there are too few bytes, if elements have no fixed size, or if memory for the copy cannot be
    /// allocated.
    pub fn aligned_bytes(&self) -> Option<Bytes> {
        let size = self.data_type.byte_size(self.shape.checked_elements()?)?;
        let bytes = self.bytes.slice(0..size)?;
        let alignment = self.data_type.bits()?.div_ceil(8);
        if bytes.as_ptr().addr().is_multiple_of(alignment) {
            return Some(bytes);
        }
        let mut copy = AlignedBuffer::zeroed(size).ok()?;
        copy.copy_from_slice(&bytes);
        Some(Bytes::new(Arc::new(copy)))
    }

    /// The elements, copied only if they are unaligned; `None` if `T` is not the element type or there are too few
    /// bytes.
    pub fn values<T: Element>(&self) -> Option<Cow<'_, [T]>> {
        if T::DATA_TYPE != self.data_type {
            return None;
        }
        let bytes = self.bytes.get(..self.data_type.byte_size(self.shape.elements())?)?;
        Some(match bytemuck::try_cast_slice(bytes) {
            Ok(values) => Cow::Borrowed(values),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(bytes)),
        })
    }

    /// The elements as f32, converted from f16 where necessary; `None` for other types.
    pub fn floats(&self) -> Option<Cow<'_, [f32]>> {
        match self.data_type {
            DataType::Float16 => {
                Some(self.values::<half::f16>()?.iter().map(|value| value.to_f32()).collect::<Vec<_>>().into())
            }
            _ => self.values(),
        }
    }

    /// Integer elements of 4 to 64 bits widened to `i64`, with `true` as 1; `None` for other types.
    pub fn integers(&self) -> Option<Vec<i64>> {
        fn widen<T: Element + Into<i64>>(constant: &Constant) -> Option<Vec<i64>> {
            Some(constant.values::<T>()?.iter().map(|value| (*value).into()).collect())
        }
        match self.data_type {
            // Two elements per byte, the first in the low half.
            DataType::Int4 => {
                let elements = self.shape.elements();
                let halves = self.bytes.get(..elements.div_ceil(2))?.iter().flat_map(|byte| [byte << 4, *byte]);
                Some(halves.take(elements).map(|half| i64::from(half as i8 >> 4)).collect())
            }
            DataType::Int8 => widen::<i8>(self),
            DataType::UInt8 => widen::<u8>(self),
            DataType::Bool => {
                let truths = self.bytes.get(..self.shape.elements())?;
                Some(truths.iter().map(|truth| i64::from(*truth != 0)).collect())
            }
            DataType::Int16 => widen::<i16>(self),
            DataType::Int32 => widen::<i32>(self),
            DataType::UInt32 => widen::<u32>(self),
            DataType::Int64 => widen::<i64>(self),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_at_any_address() {
        let bytes: Vec<u8> = [0u8].into_iter().chain(1.5f32.to_le_bytes()).chain(2.5f32.to_le_bytes()).collect();
        let bytes = Bytes::from_vec(bytes).slice(1..9).unwrap();
        let constant = Constant { data_type: DataType::Float32, shape: [2].into(), bytes };
        assert_eq!(&*constant.values::<f32>().unwrap(), [1.5, 2.5]);
        assert!(constant.values::<i32>().is_none());
        assert!(constant.bytes.slice(4..9).is_none());
        let aligned = constant.aligned_bytes().unwrap();
        assert_eq!((aligned.as_ptr().addr() % 4, &aligned[..]), (0, &constant.bytes[..]));
        assert!(Constant { shape: [3].into(), ..constant }.aligned_bytes().is_none());
    }

    #[test]
    fn integers_of_four_bits_lie_two_to_a_byte() {
        let bytes = Bytes::from_vec(vec![0x7f, 0x08]);
        let constant = Constant { data_type: DataType::Int4, shape: [3].into(), bytes };
        assert_eq!(constant.integers().unwrap(), [-1, 7, -8]);
    }
}
