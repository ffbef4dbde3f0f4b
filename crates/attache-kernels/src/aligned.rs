//! f32 buffers aligned to cache lines.

use std::ops::{Deref, DerefMut};

#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// An `f32` buffer whose first element is aligned to 64 bytes.
///
/// A vector load that straddles two cache lines takes twice as long as one that does not, so kernels run
/// faster on tensors in such buffers.
#[derive(Clone, Default)]
pub struct AlignedFloats {
    lines: Vec<Line>,
    length: usize,
}

impl AlignedFloats {
    /// Returns a buffer of `length` zeros.
    pub fn zeros(length: usize) -> Self {
        Self { lines: vec![Line([0.0; 16]); length.div_ceil(16)], length }
    }
}

impl Deref for AlignedFloats {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl DerefMut for AlignedFloats {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

impl From<&[f32]> for AlignedFloats {
    fn from(values: &[f32]) -> Self {
        let mut copy = Self::zeros(values.len());
        copy.copy_from_slice(values);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_start_at_a_line() {
        for length in [0, 1, 16, 17, 1000] {
            let floats = AlignedFloats::zeros(length);
            assert_eq!((floats.len(), floats.as_ptr() as usize % 64), (length, 0));
        }
    }
}
