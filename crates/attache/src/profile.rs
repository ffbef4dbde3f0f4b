//! Timing of a run: [`Profile`] for the caller, with the dispatches of delegates and the operators on the
//! CPU, and [`KernelProfile`] from a delegate.

use attache_graph::{Graph, Node, NodeId};
use attache_model::Subgraph;

/// Time and work of one dispatch in the last run of a partition.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
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
#[non_exhaustive]
pub struct KernelProfile {
    /// The dispatches in the order in which they start.
    pub dispatches: Vec<DispatchProfile>,
    /// Number of barriers between dispatches, if known.
    pub barriers: Option<usize>,
}

/// A dispatch with the partition and the operators that it belongs to.
#[derive(Clone, Debug, PartialEq, Default)]
#[non_exhaustive]
pub struct ProfiledDispatch {
    /// Index of the partition, as in [`Outcome::On`](crate::Outcome::On).
    pub partition: usize,
    /// Index and name of each operator that the dispatch computes, in ascending order of the index in the
    /// file's subgraph. An operator of a called subgraph has the index of the call, and a name such as
    /// `odml.rms_norm/MUL`.
    pub operators: Vec<(usize, String)>,
    /// Time and work of the dispatch.
    pub dispatch: DispatchProfile,
}

/// Time of one operator on the CPU.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ProfiledOperator {
    /// Index and name of each operator of the file that was computed, in ascending order of the index in the
    /// file's subgraph. There are several if the preparation merged them. An operator of a called subgraph has the index
    /// of the call, and a name such as `odml.rms_norm/MUL`.
    pub operators: Vec<(usize, String)>,
    /// Milliseconds that the operator took, with the subgraphs that it calls.
    pub milliseconds: f64,
}

/// Timing of the last run: of delegates that measure it, and of operators on the CPU.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Profile {
    /// The timed dispatches of all partitions, in the order in which the partitions run.
    pub dispatches: Vec<ProfiledDispatch>,
    /// Number of barriers between dispatches, summed over all partitions; `None` if a partition does not
    /// report it.
    pub barriers: Option<usize>,
    /// The operators on the CPU, in the order in which they run. Empty unless the interpreter was built with
    /// [`InterpreterBuilder::profile`](crate::InterpreterBuilder::profile).
    pub operators: Vec<ProfiledOperator>,
}

impl Profile {
    /// Merges the profiles of a subgraph's partitions, which are in the order in which they run, and the
    /// milliseconds of nodes on the CPU.
    pub(crate) fn of(
        subgraph: &Subgraph,
        graph: &Graph,
        partitions: Vec<KernelProfile>,
        on_cpu: &[(NodeId, f64)],
    ) -> Self {
        let barriers = partitions.iter().map(|kernel| kernel.barriers).sum();
        let numbered = partitions.into_iter().enumerate();
        let dispatches = numbered.flat_map(|(partition, kernel)| {
            kernel.dispatches.into_iter().map(move |dispatch| {
                let operators = operators(subgraph, graph, &dispatch.nodes);
                ProfiledDispatch { partition, operators, dispatch }
            })
        });
        let operator = |(id, milliseconds): &(NodeId, f64)| ProfiledOperator {
            operators: operators(subgraph, graph, &[*id]),
            milliseconds: *milliseconds,
        };
        let operators = on_cpu.iter().map(operator).collect();
        Self { dispatches: dispatches.collect(), barriers, operators }
    }
}

/// Returns index and name of each operator in the file that `nodes` were made from, ascending and without
/// duplicates. For a node that took the place of a call, these are the call's index and the node's label.
fn operators(subgraph: &Subgraph, graph: &Graph, nodes: &[NodeId]) -> Vec<(usize, String)> {
    // A delegate may return node indices that do not exist.
    let known = nodes.iter().filter_map(|id| graph.nodes.get(id.index()));
    let name = |node: &Node, index: usize| match node.inlined {
        Some(_) => node.label(),
        None => subgraph.operators[index].code.name(),
    };
    let named = |node: &'_ Node| node.origins.iter().map(|index| (*index, name(node, *index))).collect::<Vec<_>>();
    let mut operators: Vec<_> = known.flat_map(named).collect();
    operators.sort_unstable();
    operators.dedup();
    operators
}
