//! Host memory that devices can import.

use std::fmt;

/// Bytes of the host at an aligned address, zero at first, for [`DeviceMemory::of_host`](crate::DeviceMemory::of_host).
pub struct AlignedBytes {
    block: Vec<u8>,
    start: usize,
    size: usize,
}

impl AlignedBytes {
    /// Allocates at least `size` bytes: as many as are a multiple of `alignment`, at an address that is one.
    #[must_use]
    pub fn new(size: usize, alignment: usize) -> Self {
        let alignment = alignment.max(1);
        let size = size.max(1).next_multiple_of(alignment);
        let block = vec![0; size + alignment];
        let start = (block.as_ptr() as usize).next_multiple_of(alignment) - block.as_ptr() as usize;
        Self { block, start, size }
    }
}

impl AsRef<[u8]> for AlignedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.block[self.start..self.start + self.size]
    }
}

impl AsMut<[u8]> for AlignedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.block[self.start..self.start + self.size]
    }
}

impl fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBytes({})", self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_size_are_aligned() {
        for (size, alignment) in [(0, 4096), (1, 1), (4096, 4096), (4097, 4096), (10, 64), (3, 0)] {
            let mut bytes = AlignedBytes::new(size, alignment);
            let slice = bytes.as_mut();
            assert!(slice.len() >= size.max(1) && slice.len() < size.max(1) + alignment.max(1));
            assert!(slice.len().is_multiple_of(alignment.max(1)));
            assert!((slice.as_ptr() as usize).is_multiple_of(alignment.max(1)));
        }
    }
}
