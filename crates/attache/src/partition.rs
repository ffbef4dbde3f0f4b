//! Clustering of nodes into islands that run as one.
//!
//! TensorFlow Lite's greedy algorithm: an epoch takes, of one kind (wanted or not), every node whose inputs are ready,
//! until none is left that is; the first node not yet taken sets the kind. The epochs in their order are an order in
//! which everything can run. Knows nothing of delegates.

use attache_graph::{Graph, NodeId, TensorId};

/// Something that runs as one.
pub(crate) trait Unit {
    /// The tensors that it reads, constants among them.
    fn inputs(&self, graph: &Graph) -> Vec<TensorId>;
    /// The tensors that it makes and others may read.
    fn outputs(&self, graph: &Graph) -> Vec<TensorId>;
    /// Whether its order among others of the kind matters.
    fn has_side_effects(&self, graph: &Graph) -> bool;
}

/// Units that one epoch took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Whether they are of the wanted kind.
    pub(crate) wanted: bool,
    /// Indices of the units, ascending.
    pub(crate) units: Vec<usize>,
}

/// The epochs over `units`, which must be in an order in which they can run.
pub(crate) fn cluster<U: Unit>(graph: &Graph, units: &[U], wanted: &[bool]) -> Vec<Cluster> {
    let inputs: Vec<_> = units.iter().map(|unit| unit.inputs(graph)).collect();
    let outputs: Vec<_> = units.iter().map(|unit| unit.outputs(graph)).collect();
    let mut waiting = vec![false; graph.tensors.len()];
    outputs.iter().flatten().for_each(|id| waiting[id.index()] = true);
    let mut left: Vec<usize> = (0..units.len()).collect();
    let mut clusters = Vec::new();
    while let Some(first) = left.first() {
        let kind = wanted[*first];
        let mut taken = Vec::new();
        let mut held = false; // a unit with side effects was passed over: none after it may run before it
        // The order lets everything run, so one sweep finds all that a second one would.
        left.retain(|&unit| {
            let effects = units[unit].has_side_effects(graph);
            let ready = inputs[unit].iter().all(|id| !waiting[id.index()]) && !(effects && held);
            if wanted[unit] != kind || !ready {
                held |= effects;
                return true;
            }
            outputs[unit].iter().for_each(|id| waiting[id.index()] = false);
            taken.push(unit);
            false
        });
        clusters.push(Cluster { wanted: kind, units: taken });
    }
    clusters
}

/// Tensors that cross the border of nodes that run as one: read from outside without constants, and made for others or
/// for the graph's outputs; both ascending.
pub(crate) fn border(graph: &Graph, nodes: &[NodeId]) -> (Vec<TensorId>, Vec<TensorId>) {
    let mut inside = vec![false; graph.nodes.len()];
    nodes.iter().for_each(|id| inside[id.index()] = true);
    let mut made: Vec<_> = nodes.iter().flat_map(|id| graph.node(*id).outputs.iter().copied()).collect();
    made.sort_unstable();
    let mut inputs: Vec<_> = nodes.iter().flat_map(|id| graph.node(*id).inputs.iter().flatten().copied()).collect();
    inputs.retain(|id| graph.fact(*id).constant.is_none() && made.binary_search(id).is_err());
    let others = graph.nodes.iter().zip(&inside).filter(|(_, inside)| !**inside).map(|(node, _)| node);
    let read = others.flat_map(|node| node.inputs.iter().flatten()).chain(&graph.outputs);
    let mut outputs: Vec<_> = read.filter(|id| made.binary_search(id).is_ok()).copied().collect();
    for list in [&mut inputs, &mut outputs] {
        list.sort_unstable();
        list.dedup();
    }
    (inputs, outputs)
}
