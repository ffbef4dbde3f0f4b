//! Fault injection for tests: which operation of a device fails, and when.

use std::sync::atomic::AtomicUsize;

use crate::kernel::GpuErrorKind;

/// An injected fault. Once it has occurred, every further operation of this kind fails as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of error.
    pub kind: GpuErrorKind,
    /// The operation that fails.
    pub point: FaultPoint,
    /// How many of these operations succeed first, counted over the whole device.
    pub after: usize,
}

/// The operation that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultPoint {
    /// Recording a plan, including the allocation of its memory.
    Record,
    /// Submitting a run.
    Submit,
    /// Waiting for runs.
    Wait,
    /// Reading a run's outputs on the host for the first time.
    Read,
}

/// An injected fault and the count of its operations.
pub(crate) struct Planted {
    pub(crate) fault: Fault,
    /// How often the operation was attempted.
    pub(crate) met: AtomicUsize,
}

impl Planted {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, met: AtomicUsize::new(0) }
    }
}
