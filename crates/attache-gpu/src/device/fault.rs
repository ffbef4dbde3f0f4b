//! Fault injection for tests: which operation of a device fails, and when.

use std::sync::atomic::AtomicUsize;

use crate::kernel::GpuErrorKind;

/// A fault to inject into a device. Once the operation at `point` has failed, every later operation of the
/// same kind on the device fails as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the error with which the operation fails.
    pub kind: GpuErrorKind,
    /// The operation that fails.
    pub point: FaultPoint,
    /// Number of operations at `point` that succeed before the first one fails, counted over all recordings
    /// on the device.
    pub after: usize,
}

/// The operation that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// Recording a plan, including the allocation of its memory and the upload of its weights.
    Record,
    /// Submitting a run.
    Submit,
    /// Waiting for runs.
    Wait,
    /// Reading a run's outputs on the host for the first time.
    Read,
}

/// An injected fault, and how often the operation that it affects was attempted.
pub(crate) struct Planted {
    pub(crate) fault: Fault,
    /// Number of attempts of the operation at the fault's point, including those that failed.
    pub(crate) met: AtomicUsize,
}

impl Planted {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, met: AtomicUsize::new(0) }
    }
}
