//! What can go wrong on a device.

use std::fmt;

/// A device's failure.
#[derive(Clone, Debug)]
pub struct GpuError {
    kind: GpuErrorKind,
    message: String,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuErrorKind {
    /// There is no such device, or it can't be opened.
    NoDevice,
    /// What was asked for isn't implemented, or is more than the device allows.
    Unsupported,
    /// The device ran out of memory.
    OutOfMemory,
    /// The device was lost: reset, removed or hung. Nothing that was made on it works any more.
    DeviceLost,
    /// The device failed, or refused what it was given.
    Failed,
}

impl GpuError {
    pub(crate) fn new(kind: GpuErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The loss of a device, noticed at this.
    pub(crate) fn lost(what: impl fmt::Display) -> Self {
        Self::new(GpuErrorKind::DeviceLost, format!("the device was lost ({what}); open it anew"))
    }

    /// What kind of failure.
    pub fn kind(&self) -> GpuErrorKind {
        self.kind
    }
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for GpuError {}

impl From<wgpu::Error> for GpuError {
    fn from(error: wgpu::Error) -> Self {
        let kind = match error {
            wgpu::Error::OutOfMemory { .. } => GpuErrorKind::OutOfMemory,
            _ => GpuErrorKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}
