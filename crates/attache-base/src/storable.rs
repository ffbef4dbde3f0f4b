//! Values that are stored in a file and read back without a copy of their large parts: packed weights.
//!
//! A stored value consists of *fields*, which are copied, and of *blocks*, which are used where the file is mapped.

use std::sync::Arc;

use bytemuck::Pod;

use crate::Bytes;

/// The multiple of bytes at which blocks begin in memory.
pub const BLOCK_ALIGNMENT: usize = 64;

/// The size in bytes up to which a block is stored among the fields.
const SMALL: usize = 1 << 12;

/// A value that can be stored.
pub trait Storable: Sized {
    /// Appends the value.
    fn store<'a>(&'a self, parts: &mut Parts<'a>);

    /// Reads a value that was made for these parameters, the numbers from which its extents follow. `None` if it is not
    /// one that [`Storable::store`] wrote for them: what is returned has the extents on which those who use it rely,
    /// whatever the parts contain.
    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self>;
}

/// The fields and blocks of a value that is being stored.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    fields: Vec<u8>,
    blocks: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    /// Appends a number as a field.
    pub fn number(&mut self, number: i64) {
        self.fields.extend(number.to_le_bytes());
    }

    /// Appends elements as a field.
    pub fn field<T: Pod>(&mut self, elements: &[T]) {
        self.fields.extend_from_slice(bytemuck::cast_slice(elements));
    }

    /// Appends bytes as a block; as a field if there are few.
    pub fn block(&mut self, bytes: &'a [u8]) {
        match bytes.len() <= SMALL {
            true => self.field(bytes),
            false => self.blocks.push(bytes),
        }
    }

    /// Returns the fields.
    #[must_use]
    pub fn fields(&self) -> &[u8] {
        &self.fields
    }

    /// Returns the blocks.
    #[must_use]
    pub fn blocks(&self) -> &[&'a [u8]] {
        &self.blocks
    }

    /// Whether the value is so small that it is made again sooner than it is stored.
    #[must_use]
    pub fn is_small(&self) -> bool {
        self.blocks.is_empty() && self.fields.len() <= SMALL
    }
}

/// The fields and blocks of a stored value that have not been read yet.
#[derive(Clone, Debug)]
pub struct StoredParts<'a> {
    fields: &'a [u8],
    blocks: &'a [Bytes],
}

/// A block of a stored value.
#[derive(Clone, Debug)]
pub enum StoredBlock<'a> {
    /// A small block, to be copied.
    Small(&'a [u8]),
    /// A part of the file, which begins at a multiple of [`BLOCK_ALIGNMENT`].
    Mapped(Bytes),
}

impl<'a> StoredParts<'a> {
    /// Creates a reader of these fields and blocks.
    #[must_use]
    pub fn new(fields: &'a [u8], blocks: &'a [Bytes]) -> Self {
        Self { fields, blocks }
    }

    /// Reads a number.
    pub fn number(&mut self) -> Option<i64> {
        let (number, rest) = self.fields.split_first_chunk()?;
        self.fields = rest;
        Some(i64::from_le_bytes(*number))
    }

    /// Reads this many elements.
    pub fn field<T: Pod>(&mut self, count: usize) -> Option<Vec<T>> {
        let (elements, rest) = self.fields.split_at_checked(count.checked_mul(size_of::<T>())?)?;
        self.fields = rest;
        Some(bytemuck::pod_collect_to_vec(elements))
    }

    /// Reads a block of exactly this many bytes.
    pub fn block(&mut self, bytes: usize) -> Option<StoredBlock<'a>> {
        if bytes <= SMALL {
            let (block, rest) = self.fields.split_at_checked(bytes)?;
            self.fields = rest;
            return Some(StoredBlock::Small(block));
        }
        let (block, rest) = self.blocks.split_first()?;
        self.blocks = rest;
        let fits = block.len() == bytes && block.as_ptr().addr().is_multiple_of(BLOCK_ALIGNMENT);
        fits.then(|| StoredBlock::Mapped(block.clone()))
    }

    /// Whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.blocks.is_empty()
    }
}

/// Two values that were made for the same parameters.
impl<A: Storable, B: Storable> Storable for (A, B) {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.0.store(parts);
        self.1.store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        Some((A::load(parts, parameters)?, B::load(parts, parameters)?))
    }
}

/// Values that were made for the same parameters. Their number is the first parameter of the list.
impl<T: Storable> Storable for Vec<T> {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        self.iter().for_each(|value| value.store(parts));
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        let (count, parameters) = parameters.split_first()?;
        (0..*count).map(|_| T::load(parts, parameters)).collect()
    }
}

impl<T: Storable> Storable for Arc<T> {
    fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        (**self).store(parts);
    }

    fn load(parts: &mut StoredParts<'_>, parameters: &[usize]) -> Option<Self> {
        T::load(parts, parameters).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AlignedBuffer;

    #[test]
    fn fields_and_blocks_come_back() {
        let large = AlignedBuffer::zeroed(SMALL + 64).unwrap();
        let mut parts = Parts::default();
        parts.number(-7);
        parts.field(&[1.5f32, 2.5]);
        parts.block(b"small");
        parts.block(&large);
        assert!(!parts.is_small());
        let fields = parts.fields().to_vec();
        let blocks = [Bytes::new(Arc::new(large))];
        let stored = StoredParts::new(&fields, &blocks);
        let mut reader = stored.clone();
        assert_eq!((reader.number(), reader.field::<f32>(2)), (Some(-7), Some(vec![1.5, 2.5])));
        assert!(matches!(reader.block(5), Some(StoredBlock::Small(b"small"))));
        assert!(matches!(reader.block(SMALL + 64), Some(StoredBlock::Mapped(block)) if block.len() == SMALL + 64));
        assert!(reader.is_empty() && reader.number().is_none() && reader.block(SMALL + 64).is_none());
        let mut reader = stored;
        assert!(reader.field::<u64>(usize::MAX).is_none() && reader.field::<u8>(100).is_none());
        assert!(reader.block(SMALL + 63).is_none(), "another size");
    }
}
