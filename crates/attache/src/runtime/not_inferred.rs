//! Stands for `inferred.rs` in the smallest libraries, which do not show these shapes.

use attache_graph::Graph;
use attache_model::Model;

#[derive(Debug, Default)]
pub(crate) struct Inferred;

impl Inferred {
    pub(super) fn new(_: &Graph, _: &Model, _: usize) -> Self {
        Self
    }
}
