//! Where the time of a run went on delegates, dispatch by dispatch.

use attache_graph::{Graph, NodeId};
use attache_model::Subgraph;

/// What one dispatch took and did in the last run of an island.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DispatchProfile {
    /// What the delegate calls it.
    pub name: &'static str,
    /// The nodes whose work it is.
    pub nodes: Vec<NodeId>,
    /// Nanoseconds from the begin of the island's first dispatch to its own.
    pub begin_ns: f64,
    /// The same to its end.
    pub end_ns: f64,
    /// Arithmetic operations, two for each multiply-add.
    pub operations: u64,
    /// Whether the device's units for matrices do them.
    pub on_matrices: bool,
    /// Bytes read from the device's memory.
    pub bytes_read: u64,
    /// Bytes written to the device's memory.
    pub bytes_written: u64,
}

/// Where the time of an island's last run went. Empty where a delegate doesn't know.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelProfile {
    /// The dispatches, in the order in which they begin.
    pub dispatches: Vec<DispatchProfile>,
    /// How often some of them wait for others, where that is known.
    pub barriers: Option<usize>,
}

/// A dispatch and whose work it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledDispatch {
    /// The partition, as the placement report counts them.
    pub partition: usize,
    /// The operators of the file whose work it is, ascending: index and name.
    pub operators: Vec<(usize, String)>,
    /// What it took and did.
    pub dispatch: DispatchProfile,
}

/// Where the time of the last run went on delegates that measure it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The dispatches, partition by partition.
    pub dispatches: Vec<ProfiledDispatch>,
    /// How often some of them wait for others, where every partition knows.
    pub barriers: Option<usize>,
}

impl Profile {
    /// Of the partitions of a subgraph, in the order in which they run.
    pub(crate) fn of(subgraph: &Subgraph, graph: &Graph, partitions: Vec<KernelProfile>) -> Self {
        let barriers = partitions.iter().map(|kernel| kernel.barriers).sum();
        let numbered = partitions.into_iter().enumerate();
        let dispatches = numbered.flat_map(|(partition, kernel)| {
            kernel.dispatches.into_iter().map(move |dispatch| {
                let operators = operators(subgraph, graph, &dispatch.nodes);
                ProfiledDispatch { partition, operators, dispatch }
            })
        });
        Self { dispatches: dispatches.collect(), barriers }
    }
}

/// The file's operators that are behind these nodes.
fn operators(subgraph: &Subgraph, graph: &Graph, nodes: &[NodeId]) -> Vec<(usize, String)> {
    // A delegate may name any.
    let known = nodes.iter().filter_map(|id| graph.nodes.get(id.index()));
    let mut indices: Vec<usize> = known.flat_map(|node| node.origins.iter().copied()).collect();
    indices.sort_unstable();
    indices.dedup();
    indices.into_iter().map(|index| (index, subgraph.operators[index].code.name())).collect()
}
