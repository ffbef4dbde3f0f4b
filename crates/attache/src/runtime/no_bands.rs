//! Stands for `bands.rs` in the smallest libraries, where each node runs alone.

use std::sync::Arc;

use attache_graph::{Graph, Node, SharedCache, TensorId, WorkingMemory};

use super::passing::Owners;
use crate::partition::assign::{BandedNodes, PlacedStep};

pub(crate) fn group(_: &Graph, _: &Owners, _: &mut Vec<PlacedStep>, _: impl Fn(TensorId) -> bool) {}

/// There are none.
pub(crate) enum Bands {}

impl Bands {
    pub(crate) fn new(_: &Graph, group: BandedNodes, _: impl FnMut(&Node) -> Arc<SharedCache>) -> Self {
        match group.none {}
    }

    pub(crate) fn working_memory(&self, _: &Graph) -> WorkingMemory {
        match *self {}
    }
}

pub(crate) fn scratch_bytes(_: &Graph, _: &PlacedStep) -> usize {
    0
}
