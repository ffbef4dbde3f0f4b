//! Failures on demand: what is to fail on a device, and when. For tests.

use std::sync::atomic::AtomicUsize;

use crate::kernel::GpuErrorKind;

/// A failure to come. From then on the same fails again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of failure.
    pub kind: GpuErrorKind,
    /// What fails.
    pub moment: FaultMoment,
    /// How often that goes well before, on the whole device.
    pub after: usize,
}

/// What a fault makes fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultMoment {
    /// Recording a plan, with the memory that it takes.
    Record,
    /// Handing a run to the device.
    Submit,
    /// Waiting for runs.
    Wait,
    /// Bringing a run's outputs to the host, when they are asked for first.
    Read,
}

/// A fault, and how often its moment came.
pub(crate) struct Planted {
    pub(crate) fault: Fault,
    /// How often its moment came.
    pub(crate) met: AtomicUsize,
}

impl Planted {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, met: AtomicUsize::new(0) }
    }
}
