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

#[cfg(test)]
mod tests {
    use attache_base::DataType;
    use attache_graph::Fact;

    use super::*;

    /// Reads these tensors and makes one.
    struct Fake(&'static [u32], u32, bool);

    impl Unit for Fake {
        fn inputs(&self, _: &Graph) -> Vec<TensorId> {
            self.0.iter().map(|id| TensorId(*id)).collect()
        }

        fn outputs(&self, _: &Graph) -> Vec<TensorId> {
            vec![TensorId(self.1)]
        }

        fn has_side_effects(&self, _: &Graph) -> bool {
            self.2
        }
    }

    /// The epochs as text: `+` for a wanted one, then the units.
    fn clusters(units: &[Fake], wanted: &[bool]) -> Vec<String> {
        let mut graph = Graph::default();
        for _ in 0..10 {
            graph.add_tensor("", Fact::new(DataType::Float32, [1]));
        }
        let text = |cluster: Cluster| format!("{}{:?}", if cluster.wanted { "+" } else { "-" }, cluster.units);
        cluster(&graph, units, wanted).into_iter().map(text).collect()
    }

    fn plain(inputs: &'static [u32], output: u32) -> Fake {
        Fake(inputs, output, false)
    }

    #[test]
    fn an_epoch_takes_all_that_is_ready_of_its_kind() {
        // Two chains from tensor 0, interleaved: wanted, other, wanted in each, and a join.
        let units = [
            plain(&[0], 1),
            plain(&[0], 2),
            plain(&[1], 3),
            plain(&[2], 4),
            plain(&[3], 5),
            plain(&[4], 6),
            plain(&[5, 6], 7),
        ];
        let wanted = [true, true, false, false, true, true, false];
        assert_eq!(clusters(&units, &wanted), ["+[0, 1]", "-[2, 3]", "+[4, 5]", "-[6]"]);
        assert_eq!(clusters(&units, &[true; 7]), ["+[0, 1, 2, 3, 4, 5, 6]"]);
        assert_eq!(clusters(&units[..2], &[false, true]), ["-[0]", "+[1]"], "the first unit sets the kind");
    }

    #[test]
    fn side_effects_keep_their_order() {
        let effect = |output| Fake(&[0], output, true);
        let units = [effect(1), effect(2), effect(3), plain(&[0], 4)];
        assert_eq!(clusters(&units, &[true, false, true, true]), ["+[0, 3]", "-[1]", "+[2]"]);
    }
}
