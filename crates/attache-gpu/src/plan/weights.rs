//! Weights: a plan's constants and what kernels packed of them, in one block of bytes as the device stores them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Buffer, BufferRange};
use crate::kernel::GpuError;

/// Rounded up to what copies ask for.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.max(4).next_multiple_of(4)
}

/// One piece of the block of weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// Of which values it was made, and in which packing, as `%3 f16` or `%3 %4 contract_blocked`.
    pub name: String,
    /// Where in the block it begins.
    pub offset: usize,
    /// Its bytes.
    pub size: usize,
}

impl Weight {
    pub(super) fn range(&self) -> BufferRange {
        BufferRange { buffer: Buffer::Weights, offset: self.offset, size: self.size }
    }
}

/// Gives the block of a plan's weights when a recording asks for it.
pub trait WeightSource: Sync {
    /// As many bytes as [`Plan::weight_bytes`](super::Plan::weight_bytes).
    ///
    /// # Errors
    ///
    /// Where a constant can't be stored on a device.
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError>;
}

impl WeightSource for Vec<u8> {
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        Ok(Cow::Borrowed(self))
    }
}
