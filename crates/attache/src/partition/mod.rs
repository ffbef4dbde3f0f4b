//! Clustering of nodes into islands that run as one.
//!
//! TensorFlow Lite's greedy algorithm: an epoch takes, of one kind (wanted or not), every node whose inputs are ready,
//! until none is left that is; the first node not yet taken sets the kind. The epochs in their order are an order in
//! which everything can run. Knows nothing of delegates.

pub(crate) mod assign;
pub(crate) mod link;
pub(crate) mod placement;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

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

/// The epochs over `units`, which must be in an order in which they can run. Takes time in proportion to units and
/// tensors, but for a logarithm, however many epochs there are.
pub(crate) fn cluster<U: Unit>(graph: &Graph, units: &[U], wanted: &[bool]) -> Vec<Cluster> {
    let Waits { mut pending, followers } = Waits::new(graph, units);
    // The units that can run now, of each kind.
    let mut ready = [BinaryHeap::new(), BinaryHeap::new()];
    let kind = |unit: usize| usize::from(wanted[unit]);
    (0..units.len()).filter(|unit| pending[*unit] == 0).for_each(|unit| ready[kind(unit)].push(Reverse(unit)));
    let mut clusters = Vec::new();
    // The first unit that is left can always run, so it is among the ready ones.
    while let Some(Reverse(first)) = ready.iter().filter_map(BinaryHeap::peek).max() {
        let kind_now = kind(*first);
        let mut taken = Vec::new();
        // What a unit makes ready comes behind it, so units are taken in their order.
        while let Some(Reverse(unit)) = ready[kind_now].pop() {
            taken.push(unit);
            for &follower in &followers[unit] {
                pending[follower] -= 1;
                if pending[follower] == 0 {
                    ready[kind(follower)].push(Reverse(follower));
                }
            }
        }
        clusters.push(Cluster { wanted: kind_now == 1, units: taken });
    }
    clusters
}

/// Which units wait for which.
struct Waits {
    /// For each unit how often others name it as one of their followers.
    pending: Vec<usize>,
    /// For each unit those that read what it makes, once for each time they do, and the next one with side effects where
    /// it has such: these keep their order.
    followers: Vec<Vec<usize>>,
}

impl Waits {
    fn new<U: Unit>(graph: &Graph, units: &[U]) -> Self {
        let mut makers = vec![None; graph.tensors.len()];
        for (unit, outputs) in units.iter().map(|unit| unit.outputs(graph)).enumerate() {
            outputs.iter().for_each(|id| makers[id.index()] = Some(unit));
        }
        let mut waits = Self { pending: vec![0; units.len()], followers: vec![Vec::new(); units.len()] };
        let mut last = None;
        for (unit, one) in units.iter().enumerate() {
            let makers = one.inputs(graph).into_iter().filter_map(|id| makers[id.index()]);
            makers.for_each(|maker| waits.add(maker, unit));
            if one.has_side_effects(graph) {
                last.replace(unit).into_iter().for_each(|before| waits.add(before, unit));
            }
        }
        waits
    }

    fn add(&mut self, before: usize, unit: usize) {
        self.followers[before].push(unit);
        self.pending[unit] += 1;
    }
}

/// Who reads what, for [`Readers::border`] of many sets of nodes.
pub(crate) struct Readers {
    consumers: Vec<Vec<NodeId>>,
    is_output: Vec<bool>,
}

impl Readers {
    pub(crate) fn new(graph: &Graph) -> Self {
        let mut is_output = vec![false; graph.tensors.len()];
        graph.outputs.iter().for_each(|id| is_output[id.index()] = true);
        Self { consumers: graph.consumers(), is_output }
    }

    /// Tensors that cross the border of nodes that run as one: read from outside without constants, and made for others
    /// or for the graph's outputs; both ascending. Looks at these nodes and at who reads what they make.
    pub(crate) fn border(&self, graph: &Graph, nodes: &[NodeId]) -> (Vec<TensorId>, Vec<TensorId>) {
        let inside: HashSet<NodeId> = nodes.iter().copied().collect();
        let mut made: Vec<_> = nodes.iter().flat_map(|id| graph.node(*id).outputs.iter().copied()).collect();
        made.sort_unstable();
        made.dedup();
        let mut inputs: Vec<_> = nodes.iter().flat_map(|id| graph.node(*id).inputs.iter().flatten().copied()).collect();
        inputs.retain(|id| graph.fact(*id).constant.is_none() && made.binary_search(id).is_err());
        inputs.sort_unstable();
        inputs.dedup();
        let is_read = |id: &TensorId| {
            self.is_output[id.index()] || self.consumers[id.index()].iter().any(|id| !inside.contains(id))
        };
        made.retain(is_read);
        (inputs, made)
    }
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

    /// Reads the tensor of its number and makes the next one; counts how often it is asked.
    struct Link(u32, std::cell::Cell<usize>);

    impl Unit for Link {
        fn inputs(&self, _: &Graph) -> Vec<TensorId> {
            self.1.set(self.1.get() + 1);
            vec![TensorId(self.0)]
        }

        fn outputs(&self, _: &Graph) -> Vec<TensorId> {
            self.1.set(self.1.get() + 1);
            vec![TensorId(self.0 + 1)]
        }

        fn has_side_effects(&self, _: &Graph) -> bool {
            self.1.set(self.1.get() + 1);
            false
        }
    }

    #[test]
    fn units_are_asked_once_however_many_epochs_there_are() {
        let count = 2000;
        let mut graph = Graph::default();
        for _ in 0..=count {
            graph.add_tensor("", Fact::new(DataType::Float32, [1]));
        }
        let units: Vec<Link> = (0..count).map(|number| Link(number, Default::default())).collect();
        let wanted: Vec<bool> = (0..count).map(|number| number % 2 == 0).collect();
        let clusters = cluster(&graph, &units, &wanted);
        assert_eq!(clusters.len(), count as usize);
        assert!(clusters.iter().enumerate().all(|(index, cluster)| cluster.units == [index]));
        assert!(units.iter().all(|unit| unit.1.get() <= 3));
    }
}
