//! Memory that several tensors have in common ([`SharedBuffer`]).

use std::collections::TryReserveError;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::{AlignedBuffer, Bytes};

/// The bytes of a tensor that is passed by reference. Clones share the memory; one that is to be written is copied first,
/// unless it is the only one ([`SharedBuffer::make_unique`]).
#[derive(Clone)]
pub struct SharedBuffer(Memory);

#[derive(Clone)]
enum Memory {
    /// A buffer, which the only owner may write.
    Buffer(Arc<AlignedBuffer>),
    /// Bytes that nobody writes, such as those of a constant in a mapped file.
    Constant(Bytes),
}

impl SharedBuffer {
    /// Allocates `length` zero bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory cannot be allocated.
    pub fn zeroed(length: usize) -> Result<Self, TryReserveError> {
        Ok(AlignedBuffer::zeroed(length)?.into())
    }

    /// Copies `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory cannot be allocated.
    pub fn copied(bytes: &[u8]) -> Result<Self, TryReserveError> {
        Ok(AlignedBuffer::copied(bytes)?.into())
    }

    /// Refers to bytes that nobody writes. They are aligned for the elements of the tensor.
    #[must_use]
    pub fn constant(bytes: Bytes) -> Self {
        Self(Memory::Constant(bytes))
    }

    /// Returns the bytes for writing; `None` if other owners share them.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Buffer(buffer) => Arc::get_mut(buffer).map(|buffer| &mut buffer[..]),
            Memory::Constant(_) => None,
        }
    }

    /// Copies the bytes if other owners share them, so that [`SharedBuffer::get_mut`] returns them. Returns the number of
    /// bytes that were copied.
    ///
    /// # Errors
    ///
    /// Returns an error if memory for the copy cannot be allocated.
    pub fn make_unique(&mut self) -> Result<usize, TryReserveError> {
        if self.get_mut().is_some() {
            return Ok(0);
        }
        *self = Self::copied(self)?;
        Ok(self.len())
    }

    /// Whether both are the same memory.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(&raw const **self, &raw const **other)
    }

    /// Returns the bytes as those of a constant, which shares the memory.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Memory::Buffer(buffer) => Bytes::new(buffer.clone()),
            Memory::Constant(bytes) => bytes.clone(),
        }
    }

    /// Returns the buffer; `None` if other owners share it.
    #[must_use]
    pub fn into_buffer(self) -> Option<AlignedBuffer> {
        match self.0 {
            Memory::Buffer(buffer) => Arc::into_inner(buffer),
            Memory::Constant(_) => None,
        }
    }
}

impl From<AlignedBuffer> for SharedBuffer {
    fn from(buffer: AlignedBuffer) -> Self {
        Self(Memory::Buffer(Arc::new(buffer)))
    }
}

impl Deref for SharedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Buffer(buffer) => buffer,
            Memory::Constant(bytes) => bytes,
        }
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_owner_writes_in_place() {
        let mut one = SharedBuffer::copied(&[1, 2, 3]).unwrap();
        let address = one.as_ptr();
        assert_eq!(one.make_unique().unwrap(), 0);
        one.get_mut().unwrap()[0] = 7;
        assert_eq!((&*one, one.as_ptr()), (&[7, 2, 3][..], address));
    }

    #[test]
    fn what_others_share_is_copied_once() {
        let mut one = SharedBuffer::copied(&[1, 2, 3]).unwrap();
        let other = one.clone();
        assert!(one.is_same(&other) && one.get_mut().is_none());
        assert_eq!((one.make_unique().unwrap(), one.make_unique().unwrap()), (3, 0));
        one.get_mut().unwrap()[0] = 7;
        assert_eq!((&*one, &*other), (&[7, 2, 3][..], &[1, 2, 3][..]));
        assert!(!one.is_same(&other) && other.into_buffer().is_some());
    }

    #[test]
    fn constants_are_never_written() {
        let mut one = SharedBuffer::constant(Bytes::from_vec(vec![1, 2]));
        assert!(one.get_mut().is_none() && one.clone().into_buffer().is_none());
        assert_eq!(one.make_unique().unwrap(), 2);
        assert!(one.get_mut().is_some());
    }
}
