//! What a delegate sees that decides on a graph as a whole.

use std::fmt;
use std::sync::Arc;

use attache_graph::{Graph, NodeId, Unsupported};
use attache_model::Model;

use super::{Claim, NodeContext};

/// The answers of a delegate about the nodes of a graph: for each a claim, or the reason why there is none.
pub type GraphClaims = Vec<Result<Claim, Unsupported>>;

/// The nodes of a graph that a delegate may claim.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GraphContext<'a> {
    /// The model.
    pub model: &'a Model,
    /// The index of the graph's subgraph.
    pub subgraph: usize,
    /// The graph.
    pub graph: &'a Graph,
    /// The nodes of known shapes that no earlier delegate runs, in execution order.
    pub nodes: Vec<NodeId>,
    /// The number of threads that the interpreter runs operators on.
    pub threads: usize,
    /// Tells which partitions claims lead to.
    pub clustering: Clustering,
}

impl<'a> GraphContext<'a> {
    /// Returns the nodes, with the operators that they were made from.
    pub fn contexts(&self) -> impl Iterator<Item = NodeContext<'a>> {
        let (model, subgraph, graph) = (self.model, self.subgraph, self.graph);
        self.nodes.iter().map(move |id| NodeContext { model, subgraph, graph, id: *id })
    }
}

/// Tells which partitions a delegate gets of a graph, given the nodes that it claims.
#[derive(Clone)]
pub struct Clustering(Arc<Partitions>);

/// Returns the nodes of each partition, given the nodes that were claimed before, and those that are claimed.
type Partitions = dyn Fn(&[Vec<NodeId>], &[NodeId]) -> Vec<Vec<NodeId>> + Send + Sync;

impl Clustering {
    pub(crate) fn new(
        partitions: impl Fn(&[Vec<NodeId>], &[NodeId]) -> Vec<Vec<NodeId>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(partitions))
    }

    /// Returns the nodes of each partition, in execution order, if the delegate claims these nodes. Conditions of
    /// [`Delegate::partitioning`](super::Delegate::partitioning) do not count here.
    #[must_use]
    pub fn partitions(&self, claimed: &[NodeId]) -> Vec<Vec<NodeId>> {
        self.partitions_after(&[], claimed)
    }

    /// Returns the nodes of each partition that `claimed` makes, if the delegate claims nodes several times: the
    /// partitions of each list in `earlier`, which are in the order of the claims, run as one step each.
    #[must_use]
    pub fn partitions_after(&self, earlier: &[Vec<NodeId>], claimed: &[NodeId]) -> Vec<Vec<NodeId>> {
        (self.0)(earlier, claimed)
    }
}

impl fmt::Debug for Clustering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clustering").finish_non_exhaustive()
    }
}
