//! Stands for `bands.rs` in the smallest libraries, where each node runs alone.

use attache_graph::{Graph, NodeId, OpError, WorkingMemory};

use super::super::bands::Bands;
use super::super::host::NodeHost;
use super::super::memory::Memory;

pub(crate) struct Kept;

impl Kept {
    pub(crate) fn new(_: WorkingMemory) -> Self {
        Self
    }
}

pub(crate) fn run_banded(
    _: &Graph,
    bands: &Bands,
    _: &mut Kept,
    _: &mut Memory,
    _: &NodeHost<'_>,
    _: Option<&mut Vec<(NodeId, f64)>>,
) -> Result<(), (NodeId, OpError)> {
    match *bands {}
}
