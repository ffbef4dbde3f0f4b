//! Clusters nodes into partitions, with TensorFlow Lite's greedy algorithm.
//!
//! The algorithm computes a sequence of epochs, which is a valid execution order. An epoch contains nodes of
//! one kind: wanted (claimed by a delegate) or not wanted. It repeatedly takes every node of that kind whose
//! inputs are ready. The first node not yet taken determines the kind of the next epoch. The clustering
//! itself does not depend on delegates; the submodules use it to assign nodes to them.

pub(crate) mod assign;
pub(crate) mod link;
pub(crate) mod placement;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use attache_graph::{Graph, NodeId, TensorId};

/// A node or a partition, which runs as one step.
pub(crate) trait Unit {
    /// Returns the tensors that the unit reads, including constants.
    fn inputs(&self, graph: &Graph) -> Vec<TensorId>;
    /// Returns the tensors that the unit makes and that other units may read.
    fn outputs(&self, graph: &Graph) -> Vec<TensorId>;
    /// Whether the unit must keep its order relative to other units with side effects.
    fn has_side_effects(&self, graph: &Graph) -> bool;
}

/// The units of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Whether the units of the epoch are wanted; all of them are of one kind.
    pub(crate) wanted: bool,
    /// Indices of the units in the argument of [`cluster`], ascending.
    pub(crate) units: Vec<usize>,
}

/// Computes the epochs over `units`, which must be in a valid execution order; `wanted` has one element per
/// unit. The time is O(n log n) in the number of units and tensors, and independent of the number of epochs.
pub(crate) fn cluster<U: Unit>(graph: &Graph, units: &[U], wanted: &[bool]) -> Vec<Cluster> {
    Waits::new(graph, units).cluster(wanted)
}

/// Dependencies between units.
#[derive(Clone)]
pub(crate) struct Waits {
    /// For each unit, the number of times that it occurs in `followers`, that is, the number of its
    /// dependencies that must run first.
    pending: Vec<usize>,
    /// For each unit, the units that read its outputs, once per read. A unit with side effects also has the next unit
    /// with side effects as a follower, so that their order is kept.
    followers: Vec<Vec<usize>>,
}

impl Waits {
    pub(crate) fn new<U: Unit>(graph: &Graph, units: &[U]) -> Self {
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

    /// Makes each wanted cluster one step, and each other unit a step of its own, in execution order. Returns the
    /// dependencies between the steps, and the units of each step.
    pub(crate) fn joined(&self, clusters: Vec<Cluster>) -> (Self, Vec<Vec<usize>>) {
        let mut steps = Vec::new();
        for cluster in clusters {
            match cluster.wanted {
                true => steps.push(cluster.units),
                false => steps.extend(cluster.units.into_iter().map(|unit| vec![unit])),
            }
        }
        let mut step_of = vec![0; self.pending.len()];
        for (step, units) in steps.iter().enumerate() {
            units.iter().for_each(|unit| step_of[*unit] = step);
        }
        let mut joined = Self { pending: vec![0; steps.len()], followers: vec![Vec::new(); steps.len()] };
        for (unit, followers) in self.followers.iter().enumerate() {
            let others = followers.iter().filter(|follower| step_of[**follower] != step_of[unit]);
            others.for_each(|follower| joined.add(step_of[unit], step_of[*follower]));
        }
        (joined, steps)
    }

    /// Computes the epochs; `wanted` has one element per unit.
    pub(crate) fn cluster(&self, wanted: &[bool]) -> Vec<Cluster> {
        let (mut pending, followers) = (self.pending.clone(), &self.followers);
        // The units that are ready to run: first those that are not wanted, then those that are.
        let mut ready = [BinaryHeap::new(), BinaryHeap::new()];
        let kind = |unit: usize| usize::from(wanted[unit]);
        (0..wanted.len()).filter(|unit| pending[*unit] == 0).for_each(|unit| ready[kind(unit)].push(Reverse(unit)));
        let mut clusters = Vec::new();
        // The first remaining unit can always run, so it is among the ready ones.
        while let Some(Reverse(first)) = ready.iter().filter_map(BinaryHeap::peek).max() {
            let kind_now = kind(*first);
            let mut taken = Vec::new();
            // A unit only makes later units ready, so units are taken in their original order.
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
}

/// The readers of all tensors of a graph, computed once so that [`Readers::border`] can be called many times.
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

    /// Returns the tensors that cross the border of a set of nodes: first the non-constant tensors read from
    /// outside, then the tensors made inside that are read outside or are outputs of the graph, and the variables
    /// that the nodes read, since they may also write them. Both lists are ascending. The time depends on `nodes`
    /// and on the readers of their outputs, not on the size of the graph.
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
        made.extend(inputs.iter().filter(|id| graph.fact(**id).is_variable));
        made.sort_unstable();
        (inputs, made)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::DataType;
    use attache_graph::Fact;

    use super::*;

    /// A unit that reads the tensors with the first numbers, makes the tensor with the second number, and has
    /// side effects if the third field is true.
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

    /// Returns the epochs as text: `+` for wanted or `-` for not wanted, then the indices of the units.
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
        // Two interleaved chains from tensor 0, each of a wanted, an unwanted and a wanted unit, and a unit
        // that joins them.
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

    /// A unit that reads the tensor with the number in the first field and makes the one with the next
    /// number. The second field counts the calls of its methods.
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
