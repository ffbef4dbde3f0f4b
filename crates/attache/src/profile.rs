//! Timing of a run on delegates, per dispatch: [`Profile`] for the caller, [`KernelProfile`] from a delegate.

use attache_graph::{Graph, NodeId};
use attache_model::Subgraph;

/// Time and work of one dispatch in the last run of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DispatchProfile {
    /// Name that the delegate gives the dispatch. On the GPU it is the name of the kernel variant.
    pub name: &'static str,
    /// The nodes that the dispatch computes.
    pub nodes: Vec<NodeId>,
    /// Nanoseconds from the start of the partition's first dispatch to the start of this one.
    pub begin_ns: f64,
    /// Nanoseconds from the start of the partition's first dispatch to the end of this one.
    pub end_ns: f64,
    /// Number of arithmetic operations. A multiply-add counts as two.
    pub operations: u64,
    /// Whether the dispatch uses the device's matrix units (cooperative matrix instructions).
    pub on_matrices: bool,
    /// Bytes that the dispatch reads from device memory, computed from shapes and not measured.
    pub bytes_read: u64,
    /// Bytes that the dispatch writes to device memory, computed from shapes and not measured.
    pub bytes_written: u64,
}

/// Timing of the last run of a partition. `dispatches` is empty if the delegate does not measure it.
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
    /// Index of the partition, as in [`Outcome::On`](crate::Outcome::On).
    pub partition: usize,
    /// Index and name of each operator that the dispatch computes, in ascending order of the index in the
    /// file's subgraph.
    pub operators: Vec<(usize, String)>,
    /// Time and work of the dispatch.
    pub dispatch: DispatchProfile,
}

/// Timing of the last run on the delegates that measure it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The timed dispatches of all partitions, in the order in which the partitions run.
    pub dispatches: Vec<ProfiledDispatch>,
    /// Number of barriers between dispatches, summed over all partitions; `None` if a partition does not
    /// report it.
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

/// Returns index and name of each operator in the file that `nodes` were made from, ascending and without
/// duplicates.
fn operators(subgraph: &Subgraph, graph: &Graph, nodes: &[NodeId]) -> Vec<(usize, String)> {
    // A delegate may return node indices that do not exist.
    let known = nodes.iter().filter_map(|id| graph.nodes.get(id.index()));
    let mut indices: Vec<usize> = known.flat_map(|node| node.origins.iter().copied()).collect();
    indices.sort_unstable();
    indices.dedup();
    indices.into_iter().map(|index| (index, subgraph.operators[index].code.name())).collect()
}
