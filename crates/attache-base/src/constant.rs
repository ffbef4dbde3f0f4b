//! Constant tensors: [`Constant`], and [`Bytes`] for its elements, a range of bytes with a reference-counted
//! owner. Weights can therefore stay in the mapped model file and be shared by all users without a copy.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::{AlignedBuffer, DataType, Element, Shape, Strings, small_integers};

/// A range of bytes of a reference-counted owner (a mapped file or a vector). Clones share the owner and copy
/// no bytes.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl Bytes {
    /// Creates a range of all bytes of `owner`.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner, range }
    }

    /// Takes ownership of a vector and returns the range of all its bytes.
    #[must_use]
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self::new(Arc::new(bytes))
    }

    /// Returns the subrange `range`, relative to the start of these bytes, with the same owner; `None` if it
    /// extends past the end.
    #[must_use]
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
    /// Extents per axis, in elements, outermost first.
    pub shape: Shape,
    /// The elements in row-major order, little-endian. At least as many bytes as the shape requires, possibly
    /// more. The address may be unaligned for the element type.
    pub bytes: Bytes,
}

impl Constant {
    /// Creates a constant with a copy of `values`, in row-major order.
    ///
    /// # Panics
    ///
    /// Panics if `values` does not have as many elements as `shape`.
    pub fn from_values<T: Element>(shape: impl Into<Shape>, values: &[T]) -> Self {
        let shape = shape.into();
        assert_eq!(shape.elements(), values.len(), "a constant has as many values as its shape");
        Self { data_type: T::DATA_TYPE, shape, bytes: Bytes::from_vec(bytemuck::cast_slice(values).to_vec()) }
    }

    /// Creates a constant that owns these elements. Its bytes are the elements in memory, which are not copied.
    ///
    /// # Panics
    ///
    /// If the shape has another number of elements.
    #[must_use]
    pub fn from_vec<T: Element>(shape: impl Into<Shape>, values: Vec<T>) -> Self {
        struct Owner<T>(Vec<T>);
        impl<T: Element> AsRef<[u8]> for Owner<T> {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        let shape = shape.into();
        assert_eq!(shape.elements(), values.len(), "a constant has as many values as its shape");
        Self { data_type: T::DATA_TYPE, shape, bytes: Bytes::new(Arc::new(Owner(values))) }
    }

    /// Returns exactly the bytes that the shape requires, at an address aligned for the element type. They
    /// are copied only if they are unaligned. All bytes of a tensor of strings are returned.
    ///
    /// `None` if there are too few bytes, if elements are neither of fixed size nor strings, if the size overflows,
    /// or if memory for the copy cannot be allocated.
    #[must_use]
    pub fn aligned_bytes(&self) -> Option<Bytes> {
        if self.data_type == DataType::String {
            return self.strings().map(|_| self.bytes.clone());
        }
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

    /// Returns the elements, copied only if they are unaligned. `None` if `T` does not correspond to the
    /// element type or if there are too few bytes.
    #[must_use]
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

    /// Returns the elements of a `STRING` constant. `None` for other types, or if there are fewer strings than the shape
    /// requires or their offsets are wrong.
    #[must_use]
    pub fn strings(&self) -> Option<Strings<'_>> {
        let elements = self.shape.checked_elements()?;
        (self.data_type == DataType::String).then(|| Strings::new(&self.bytes, elements).ok())?
    }

    /// Returns the elements of a `FLOAT32` or `FLOAT16` constant as f32. `None` for other types or if there
    /// are too few bytes.
    #[must_use]
    pub fn floats(&self) -> Option<Cow<'_, [f32]>> {
        match self.data_type {
            DataType::Float16 => {
                Some(self.values::<half::f16>()?.iter().map(|value| value.to_f32()).collect::<Vec<_>>().into())
            }
            _ => self.values(),
        }
    }

    /// Returns the elements of an `INT2`, `INT4`, `UINT4`, `INT8`, `UINT8`, `BOOL`, `INT16`, `UINT16`, `INT32`, `UINT32` or
    /// `INT64` constant widened to `i64`, with `true` as 1. `None` for other types or if there are too few bytes.
    #[must_use]
    pub fn integers(&self) -> Option<Vec<i64>> {
        self.converted(|integer| integer)
    }

    /// Returns the elements that [`Constant::integers`] returns as floats, rounded to nearest.
    #[must_use]
    pub fn integers_as_floats(&self) -> Option<Vec<f32>> {
        self.converted(|integer| integer as f32)
    }

    /// Returns what `convert` makes of each integer element.
    fn converted<To>(&self, convert: impl Fn(i64) -> To) -> Option<Vec<To>> {
        fn widen<T: Element + Into<i64>, To>(constant: &Constant, convert: impl Fn(i64) -> To) -> Option<Vec<To>> {
            Some(constant.values::<T>()?.iter().map(|value| convert((*value).into())).collect())
        }
        match self.data_type {
            DataType::Int2 | DataType::Int4 | DataType::UInt4 => {
                let elements = self.shape.elements();
                let bytes = self.bytes.get(..self.data_type.byte_size(elements)?)?;
                let integers = small_integers::unpack(self.data_type, bytes, elements)?;
                Some(integers.into_iter().map(|integer| convert(i64::from(integer))).collect())
            }
            DataType::Int8 => widen::<i8, To>(self, convert),
            DataType::UInt8 => widen::<u8, To>(self, convert),
            DataType::Bool => {
                let truths = self.bytes.get(..self.shape.elements())?;
                Some(truths.iter().map(|truth| convert(i64::from(*truth != 0))).collect())
            }
            DataType::Int16 => widen::<i16, To>(self, convert),
            DataType::UInt16 => widen::<u16, To>(self, convert),
            DataType::Int32 => widen::<i32, To>(self, convert),
            DataType::UInt32 => widen::<u32, To>(self, convert),
            DataType::Int64 => widen::<i64, To>(self, convert),
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
    fn strings_are_whole_or_none() {
        let bytes = crate::strings::encoded([&b"ab"[..], b""].into_iter()).unwrap();
        let constant = Constant { data_type: DataType::String, shape: [2].into(), bytes: Bytes::from_vec(bytes) };
        assert_eq!(constant.strings().unwrap().get(0), b"ab");
        assert_eq!(constant.aligned_bytes().unwrap().len(), constant.bytes.len());
        assert!(Constant { shape: [3].into(), ..constant }.aligned_bytes().is_none());
    }

    #[test]
    fn integers_of_four_bits_lie_two_to_a_byte() {
        let bytes = Bytes::from_vec(vec![0x7f, 0x08]);
        let constant = Constant { data_type: DataType::Int4, shape: [3].into(), bytes };
        assert_eq!(constant.integers().unwrap(), [-1, 7, -8]);
    }
}
