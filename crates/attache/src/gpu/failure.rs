//! Errors of the device as errors of the delegate.

use attache_gpu::{GpuError, GpuErrorKind};

use crate::{DelegateError, DelegateErrorKind};

/// Converts an error of the device in a run.
pub(super) fn failed(error: GpuError) -> DelegateError {
    failure("Invoke", &error)
}

/// Converts a device error to a delegate error. `phase` is `Prepare`, `Invoke`, `Bind` or `Encode`.
pub(super) fn failure(phase: &str, error: &GpuError) -> DelegateError {
    let kind = match error.kind() {
        GpuErrorKind::OutOfMemory => DelegateErrorKind::OutOfMemory,
        GpuErrorKind::DeviceLost => DelegateErrorKind::DeviceLost,
        GpuErrorKind::Usage => DelegateErrorKind::Usage,
        _ => DelegateErrorKind::Failed,
    };
    DelegateError::new(format!("TfLiteGpuDelegate {phase}: {error}")).with_kind(kind)
}
