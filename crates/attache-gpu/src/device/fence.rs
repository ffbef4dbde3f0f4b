//! The end of work of the device.

use std::time::Duration;

use crate::kernel::GpuError;

/// The end of a run, for which any thread can wait.
pub trait Fence: Send + Sync {
    /// Waits until the run has ended, but at most this long. Returns whether it has ended.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn wait(&self, timeout: Duration) -> Result<bool, GpuError>;
}
