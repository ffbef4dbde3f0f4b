//! Replaces the GPU in builds without the feature `gpu`.

use attache::graph::{Graph, NodeId, Unsupported};
use attache::{Claim, DelegateError, DelegateKernel, Limits, Model, Partition};

use super::{Adapter, DevicePeaks, Gpu, Wish};
use crate::arguments::QuantizedName;
use crate::arguments::Stage;
use crate::failure::Failure;

const ABSENT: &str = "this command was built without the feature `gpu`";

/// A delegate that cannot exist.
pub(super) enum Delegate {}

impl attache::Delegate for Delegate {
    fn name(&self) -> &str {
        match *self {}
    }

    fn claim(&self, _: &Graph, _: NodeId) -> Result<Claim, Unsupported> {
        match *self {}
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        match *self {}
    }
}

/// The adapters of this machine: none are visible.
pub(crate) fn adapters() -> Vec<Adapter> {
    Vec::new()
}

/// No GPU; an error if one was asked for.
pub(super) fn open(wish: &Wish) -> Result<Option<Gpu>, Failure> {
    if wish.software { Err(Failure::unsupported(ABSENT)) } else { Ok(None) }
}

/// Always an error: no dispatch can be timed.
pub(super) fn profiled(_: &Gpu) -> Result<Gpu, Failure> {
    Err(Failure::unsupported(ABSENT))
}

/// Always an error: no peak can be measured.
pub(super) fn peaks(_: &Gpu) -> Result<DevicePeaks, Failure> {
    Err(Failure::unsupported(ABSENT))
}

impl Gpu {
    /// Never called: there is no GPU that could have variants.
    pub(super) fn with_variant(&self, _: &'static str) -> Self {
        match *self.delegate {}
    }

    /// Never called: there is no GPU that could have variants.
    pub(super) fn variants(&self) -> Vec<(&'static str, Option<&'static str>)> {
        match *self.delegate {}
    }
}

/// Always an error: there is no GPU stage.
pub(super) fn stage(_: &Gpu, _: &Model, _: Stage, _: &Limits) -> Result<String, Failure> {
    Err(Failure::unsupported(ABSENT))
}

/// Whether a GPU would take nodes.
pub(crate) struct Claims;

impl Claims {
    pub(crate) fn new(_: QuantizedName) -> Self {
        Self
    }

    /// Why the GPU does not take the node.
    pub(crate) fn unsupported_reason(&self, _: &Graph, _: NodeId) -> Option<String> {
        Some(ABSENT.to_owned())
    }
}
