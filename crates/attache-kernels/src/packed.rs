//! The memory of packed weights.

use std::ops::Deref;

use attache_base::Bytes;
use attache_base::storable::{Parts, StoredBlock, StoredParts};

use crate::AlignedFloats;

/// The elements of packed weights, as words of 32 bits: packed by this process, or a part of a mapped file, which
/// several processes share.
#[derive(Clone)]
pub(crate) enum PackedValues {
    Packed(AlignedFloats),
    Mapped(Bytes),
}

impl PackedValues {
    pub(crate) fn store<'a>(&'a self, parts: &mut Parts<'a>) {
        parts.block(bytemuck::cast_slice(self));
    }

    /// Reads exactly this many words.
    pub(crate) fn load(parts: &mut StoredParts<'_>, words: usize) -> Option<Self> {
        Some(match parts.block(words.checked_mul(size_of::<f32>())?)? {
            StoredBlock::Small(bytes) => {
                let mut values = AlignedFloats::zeros(words);
                bytemuck::cast_slice_mut(&mut values).copy_from_slice(bytes);
                Self::Packed(values)
            }
            StoredBlock::Mapped(bytes) => Self::Mapped(bytes),
        })
    }

    /// Returns the elements for writing; a copy of them if they are mapped.
    pub(crate) fn to_mut(&mut self) -> &mut [f32] {
        if let Self::Mapped(_) = self {
            *self = Self::Packed(AlignedFloats::from(&**self));
        }
        match self {
            Self::Packed(values) => values,
            Self::Mapped(_) => unreachable!("they were copied"),
        }
    }
}

impl Deref for PackedValues {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self {
            Self::Packed(values) => values,
            // Blocks are aligned.
            Self::Mapped(bytes) => bytemuck::cast_slice(bytes),
        }
    }
}

impl From<AlignedFloats> for PackedValues {
    fn from(values: AlignedFloats) -> Self {
        Self::Packed(values)
    }
}

/// Returns the number of values of a packed matrix or its like: one line of bias and `lines` lines of weights for each of
/// `columns` columns, which are padded to whole vectors of `lanes`. `None` if it is too large to be counted.
pub(crate) fn lines(columns: usize, lanes: usize, lines: usize) -> Option<usize> {
    columns.checked_next_multiple_of(lanes)?.checked_mul(lines.checked_add(1)?)
}
