//! Replaces `gpu.rs` in builds without the feature `gpu`: the same functions, which find no GPU.

use attache::graph::{Graph, NodeId, Unsupported};
use attache::{Claim, DelegateError, Interpreter, Limits, NodeContext, Partition, PreparedPartition};

use super::{Adapter, DevicePeaks, Gpu, OpenTimes, Wish};
use crate::arguments::Stage;
use crate::arguments::entry::Entry;
use crate::arguments::{IoName, QuantizedName};
use crate::failure::Failure;

const ABSENT: &str = "this command was built without the feature `gpu`";

/// The delegate of a GPU, which cannot exist: the enum has no variants.
pub(super) enum Delegate {}

impl attache::Delegate for Delegate {
    fn name(&self) -> &str {
        match *self {}
    }

    fn claim(&self, _: NodeContext<'_>) -> Result<Claim, Unsupported> {
        match *self {}
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        match *self {}
    }
}

/// Returns no adapters, because none are visible.
pub(crate) fn adapters() -> Vec<Adapter> {
    Vec::new()
}

/// Returns `None` for no GPU, or an error if the command line requests one.
pub(super) fn open(wish: &Wish) -> Result<Option<Gpu>, Failure> {
    let remedy = "build it with that, or leave out --delegate, --backend and --adapter";
    if wish.software { Err(Failure::unsupported(format!("{ABSENT}; {remedy}"))) } else { Ok(None) }
}

/// Returns an error, because no dispatch can be timed.
pub(super) fn profiled(_: &Gpu) -> Result<Gpu, Failure> {
    Err(Failure::unsupported(ABSENT))
}

/// Returns an error, because there is no memory of a GPU.
pub(super) fn bind(_: &Gpu, _: &mut Interpreter, _: &[Vec<u8>], _: IoName) -> Result<(), Failure> {
    Err(Failure::unsupported(ABSENT))
}

/// Returns an error, because no peak can be measured.
pub(super) fn peaks(_: &Gpu) -> Result<DevicePeaks, Failure> {
    Err(Failure::unsupported(ABSENT))
}

impl Gpu {
    /// Returns what opening the GPU took; never called, because there is no GPU.
    pub(super) fn open_times(&self) -> OpenTimes {
        match *self.delegate {}
    }

    /// Returns the GPU with another kernel variant; never called, because there is no GPU.
    pub(super) fn with_variant(&self, _: &'static str) -> Self {
        match *self.delegate {}
    }

    /// Returns the GPU's kernel variants; never called, because there is no GPU.
    pub(super) fn variants(&self) -> Vec<(&'static str, Option<&'static str>)> {
        match *self.delegate {}
    }
}

/// Returns an error, because there is no GPU stage.
pub(super) fn stage(_: &Gpu, _: &Entry<'_>, _: Stage, _: &Limits) -> Result<String, Failure> {
    Err(Failure::unsupported(ABSENT))
}

/// Determines whether the GPU delegate would run a node, which is never the case.
pub(crate) struct Claims;

impl Claims {
    pub(crate) fn new(_: QuantizedName) -> Self {
        Self
    }

    /// Returns the reason that the GPU delegate does not run the node.
    pub(crate) fn unsupported_reason(&self, _: &Graph, _: NodeId) -> Option<String> {
        Some(ABSENT.to_owned())
    }
}
