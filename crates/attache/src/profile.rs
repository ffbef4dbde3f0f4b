//! Timing of a run on delegates, per dispatch.

use attache_graph::{Graph, NodeId};
use attache_model::Subgraph;

/// Time and work of one dispatch in the last run of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DispatchProfile {
    /// The delegate's name for the dispatch.
    pub name: &'static str,
    /// The nodes that the dispatch computes.
    pub nodes: Vec<NodeId>,
    /// Nanoseconds from the start of the partition's first dispatch to the start of this one.
    pub begin_ns: f64,
    /// Nanoseconds from the start of the partition's first dispatch to the end of this one.
    pub end_ns: f64,
    /// Arithmetic operations, two per multiply-add.
    pub operations: u64,
    /// Whether the operations run on the device's matrix units.
    pub on_matrices: bool,
    /// Bytes read from device memory.
    pub bytes_read: u64,
    /// Bytes written to device memory.
    pub bytes_written: u64,
}

/// Timing of the last run of a partition. Empty if the delegate does not measure it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelProfile {
    /// The dispatches in the order in which they start.
    pub dispatches: Vec<DispatchProfile>,
    /// Number of barriers between dispatches, if known.
    pub barriers: Option<usize>,
}

/// A dispatch with the partition and the operators that it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledDispatch {
    /// Index of the partition, as in the placement report.
    pub partition: usize,
    /// Index and name of each operator in the file that the dispatch computes, ascending.
    pub operators: Vec<(usize, String)>,
    /// Time and work of the dispatch.
    pub dispatch: DispatchProfile,
}

/// Timing of the last run on the delegates that measure it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The dispatches, partition by partition.
    pub dispatches: Vec<ProfiledDispatch>,
    /// Number of barriers between dispatches, if every partition reports it.
    pub barriers: Option<usize>,
}

impl Profile {
    /// Merges the profiles of a subgraph's partitions, which are in the order in which they run.
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

/// The operators of the file that these nodes were made from.
fn operators(subgraph: &Subgraph, graph: &Graph, nodes: &[NodeId]) -> Vec<(usize, String)> {
    // A delegate may return node indices that do not exist.
    let known = nodes.iter().filter_map(|id| graph.nodes.get(id.index()));
    let mut indices: Vec<usize> = known.flat_map(|node| node.origins.iter().copied()).collect();
    indices.sort_unstable();
    indices.dedup();
    indices.into_iter().map(|index| (index, subgraph.operators[index].code.name())).collect()
}
