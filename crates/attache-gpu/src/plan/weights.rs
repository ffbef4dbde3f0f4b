//! The weights of a plan: its constants and packed weights, in one block of bytes in the device's format.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{BufferRange, PlanBuffer};
use crate::kernel::GpuError;

/// Returns a size in bytes rounded up to a multiple of four, and to at least four, as copies and bindings
/// require.
pub(crate) fn padded(bytes: usize) -> usize {
    bytes.max(4).next_multiple_of(4)
}

/// One constant or packed weight tensor in the block of weights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// The constants that the weight was made from, and their storage format, or the variant that packed
    /// them: for example `%3 Half` or `%3 %4 conv_blocked`.
    pub name: String,
    /// The offset of the weight in the block, in bytes.
    pub offset: usize,
    /// The size of the weight in bytes, without padding.
    pub size: usize,
}

impl Weight {
    pub(super) fn range(&self) -> BufferRange {
        BufferRange { buffer: PlanBuffer::Weights, offset: self.offset, size: self.size }
    }
}

/// Supplies the block of a plan's weights. A recording asks for the block when it is made.
pub trait WeightSource: Sync {
    /// Returns the block, of [`Plan::weight_bytes`](super::Plan::weight_bytes) bytes.
    ///
    /// # Errors
    ///
    /// If a constant cannot be stored on a device.
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError>;

    /// Returns the BLAKE3 hash of each weight, if they are known.
    fn hashes(&self) -> Option<&[[u8; 32]]> {
        None
    }
}

impl WeightSource for Vec<u8> {
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        Ok(Cow::Borrowed(self))
    }
}
