//! Weights: a plan's constants and packed weights, in one block of bytes in the format of the device.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{BufferRange, PlanBuffer};
use crate::kernel::GpuError;

/// The size rounded up to a multiple of four bytes, as copies require.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.max(4).next_multiple_of(4)
}

/// One piece of the block of weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// The values that it was packed from and the format or variant, for example `%3 f16` or `%3 %4 conv_blocked`.
    pub name: String,
    /// The offset in the block, in bytes.
    pub offset: usize,
    /// The size in bytes.
    pub size: usize,
}

impl Weight {
    pub(super) fn range(&self) -> BufferRange {
        BufferRange { buffer: PlanBuffer::Weights, offset: self.offset, size: self.size }
    }
}

/// Supplies the block of a plan's weights when a recording is made.
pub trait WeightSource: Sync {
    /// The block, of [`Plan::weight_bytes`](super::Plan::weight_bytes) bytes.
    ///
    /// # Errors
    ///
    /// If a constant cannot be stored on a device.
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError>;
}

impl WeightSource for Vec<u8> {
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        Ok(Cow::Borrowed(self))
    }
}
