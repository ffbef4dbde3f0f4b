//! Aligned, zero-initialized memory for tensors, whose allocation fails with an error instead of an abort.

use std::collections::TryReserveError;
use std::ops::{Deref, DerefMut};

use bytemuck::allocation::try_zeroed_slice_box;

/// A byte buffer whose first byte is aligned to [`AlignedBuffer::ALIGNMENT`].
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

/// Size in bytes from which the system's allocator takes new pages for each buffer, which are zero already. Smaller ones may
/// be memory that is used again, which it would fill with zeros.
const FRESH: usize = 32 << 20;

impl AlignedBuffer {
    /// Alignment in bytes: the size of a cache line and of the widest vector register that the kernels use.
    pub const ALIGNMENT: usize = 64;

    /// Allocates a buffer of `length` zero bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory cannot be allocated.
    pub fn zeroed(length: usize) -> Result<Self, TryReserveError> {
        let size = length.saturating_add(Self::ALIGNMENT);
        // This takes pages that the system has already zeroed, so that large buffers cost nothing until they are used.
        let storage = match try_zeroed_slice_box(size) {
            Ok(storage) => storage.into_vec(),
            Err(()) => {
                Vec::<u8>::new().try_reserve_exact(size)?;
                vec![0; size]
            }
        };
        Ok(Self { start: Self::start(&storage), storage, length })
    }

    /// Allocates a buffer with these bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the memory cannot be allocated.
    pub fn copied(bytes: &[u8]) -> Result<Self, TryReserveError> {
        if cfg!(attache_small) || bytes.len() >= FRESH {
            let mut buffer = Self::zeroed(bytes.len())?;
            crate::copy(&mut buffer, bytes);
            return Ok(buffer);
        }
        let mut storage = Vec::new();
        storage.try_reserve_exact(bytes.len().saturating_add(Self::ALIGNMENT))?;
        // The vector keeps its place, since it has room for everything.
        let start = Self::start(&storage);
        storage.resize(start, 0);
        storage.extend_from_slice(bytes);
        Ok(Self { storage, start, length: bytes.len() })
    }

    /// Returns the index of the first aligned byte.
    fn start(storage: &[u8]) -> usize {
        let address = storage.as_ptr().addr();
        address.next_multiple_of(Self::ALIGNMENT) - address
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.storage[self.start..self.start + self.length]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.length]
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_even_where_empty() {
        for length in [0, 1, 63, 1000] {
            let buffer = AlignedBuffer::zeroed(length).unwrap();
            assert_eq!((buffer.len(), buffer.as_ptr().addr() % AlignedBuffer::ALIGNMENT), (length, 0));
            assert!(buffer.iter().all(|byte| *byte == 0));
            let copy = AlignedBuffer::copied(&vec![7; length]).unwrap();
            assert_eq!((&copy[..], copy.as_ptr().addr() % AlignedBuffer::ALIGNMENT), (&vec![7; length][..], 0));
        }
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(AlignedBuffer::zeroed(usize::MAX).is_err());
        assert!(AlignedBuffer::zeroed(isize::MAX as usize).is_err());
    }
}
