//! Writes byte vectors whose data is aligned to 16 bytes from the start of the file.
//!
//! The schema requires that alignment for tensor data, but the Rust code generated from it does not apply it.

#![allow(unsafe_code)]

use bytemuck::TransparentWrapper;
use flatbuffers::{FlatBufferBuilder, Push, PushAlignment, Vector, WIPOffset};

/// Alignment of tensor data in the file, in bytes.
pub(super) const ALIGNMENT: usize = 16;

/// A byte that `FlatBufferBuilder` aligns like tensor data.
#[derive(Clone, Copy, TransparentWrapper)]
#[repr(transparent)]
struct Aligned(u8);

impl Push for Aligned {
    type Output = u8;

    // SAFETY: the trait declares the function unsafe for implementations that trust the length of `destination`; this
    // one uses checked indexing.
    unsafe fn push(&self, destination: &mut [u8], _: usize) {
        destination[0] = self.0;
    }

    fn alignment() -> PushAlignment {
        PushAlignment::new(ALIGNMENT)
    }
}

/// Writes a byte vector whose first byte is at a multiple of [`ALIGNMENT`] from the start of the file.
pub(super) fn push_aligned<'a>(builder: &mut FlatBufferBuilder<'a>, bytes: &[u8]) -> WIPOffset<Vector<'a, u8>> {
    builder.create_vector(Aligned::wrap_slice(bytes))
}
