//! [`GpuError`], the error type of this crate.

use std::fmt;

/// An error of a GPU device, or of the preparation of work for it: a kind and a message.
#[derive(Clone, Debug)]
pub struct GpuError {
    kind: GpuErrorKind,
    message: String,
}

/// The kind of a [`GpuError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuErrorKind {
    /// No device matches the request, or the device cannot be opened.
    NoDevice,
    /// The device or this crate does not support the request, or the request exceeds the device's limits.
    Unsupported,
    /// The device ran out of memory.
    OutOfMemory,
    /// The device was lost: reset, removed or hung. All objects created on it are unusable.
    DeviceLost,
    /// The device failed, or rejected a command or resource.
    Failed,
    /// The caller named memory that cannot be used: too small, without a usage, or of another device.
    Usage,
}

impl GpuError {
    pub(crate) fn new(kind: GpuErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns the error of a lost device. `what` names the operation that detected the loss.
    pub(crate) fn lost(what: impl fmt::Display) -> Self {
        Self::new(GpuErrorKind::DeviceLost, format!("the device was lost ({what}); open it anew"))
    }

    /// Returns the kind of the error.
    #[must_use]
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
