//! Stands for the GPU where this command was built without it.

use attache::graph::{Graph, NodeId, Refusal};
use attache::{Claim, DelegateError, DelegateKernel, Island, Limits, Model};

use super::{Adapter, Ceilings, Gpu, Wish};
use crate::arguments::QuantizedName;
use crate::arguments::Stage;
use crate::failure::Failure;

const ABSENT: &str = "this command was built without the feature `gpu`";

/// A delegate that there can't be.
pub(super) enum Delegate {}

impl attache::Delegate for Delegate {
    fn name(&self) -> &str {
        match *self {}
    }

    fn claim(&self, _: &Graph, _: NodeId) -> Result<Claim, Refusal> {
        match *self {}
    }

    fn prepare(&self, _: Island<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        match *self {}
    }
}

/// The adapters of this machine: none that can be seen.
pub(crate) fn adapters() -> Vec<Adapter> {
    Vec::new()
}

/// No GPU; an error where one was asked for.
pub(super) fn open(wish: &Wish) -> Result<Option<Gpu>, Failure> {
    if wish.software { Err(Failure::unsupported(ABSENT)) } else { Ok(None) }
}

/// Nothing can be timed.
pub(super) fn profiled(_: &Gpu) -> Result<Gpu, Failure> {
    Err(Failure::unsupported(ABSENT))
}

/// Nor measured.
pub(super) fn ceilings(_: &Gpu) -> Result<Ceilings, Failure> {
    Err(Failure::unsupported(ABSENT))
}

impl Gpu {
    /// There is none that could have variants.
    pub(super) fn with_variant(&self, _: &'static str) -> Self {
        match *self.delegate {}
    }

    /// As above.
    pub(super) fn variants(&self) -> Vec<(&'static str, Option<&'static str>)> {
        match *self.delegate {}
    }
}

/// There is no such stage.
pub(super) fn stage(_: &Gpu, _: &Model, _: Stage, _: &Limits) -> Result<String, Failure> {
    Err(Failure::unsupported(ABSENT))
}

/// What a GPU would say about a node.
pub(crate) struct Claims;

impl Claims {
    pub(crate) fn new(_: QuantizedName) -> Self {
        Self
    }

    /// Why the GPU doesn't take the node.
    pub(crate) fn refusal(&self, _: &Graph, _: NodeId) -> Option<String> {
        Some(ABSENT.to_owned())
    }
}
