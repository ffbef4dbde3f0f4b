//! The nodes of a subgraph as programs see them: those of the file, or, where delegates run some, a node for each
//! partition in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

use attache::model::Subgraph;
use attache::{Model, NodePlacement, Outcome, Placement};
#[cfg(not(attache_small))]
use attache_abi::TfLiteDelegate;
use attache_external::FileNodes;

/// The nodes of a subgraph, and the order in which they run.
pub(crate) struct Plan {
    pub(crate) nodes: FileNodes,
    pub(crate) order: Vec<c_int>,
    /// Where each node of the file runs.
    places: Vec<Place>,
    /// The name of the delegate of each partition, and the tensors that others read of it.
    written: Vec<(String, Vec<usize>)>,
    /// The names of kernels of delegates of C, for each partition.
    #[cfg(not(attache_small))]
    kernels: Vec<Option<String>>,
}

/// Where a node of the file runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// In a partition on a delegate of this name.
    Partition(usize, String),
    Cpu,
    /// Nowhere, since graph passes removed it.
    Nowhere,
}

/// A node of the plan: one of the file, or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Node(usize),
    Partition(usize),
}

impl Place {
    fn of(node: &NodePlacement) -> Self {
        match &node.outcome {
            Outcome::On { delegate, partition } => Self::Partition(*partition, delegate.clone()),
            Outcome::Cpu => Self::Cpu,
            Outcome::Folded { .. } => Self::Nowhere,
        }
    }

    fn unit(&self, node: usize) -> Option<Unit> {
        match self {
            Self::Partition(partition, _) => Some(Unit::Partition(*partition)),
            Self::Cpu => Some(Unit::Node(node)),
            Self::Nowhere => None,
        }
    }
}

/// Returns where the nodes of a subgraph run. Without delegates, all run on the CPU as the file has them.
fn places(model: &Model, subgraph: usize, placement: Option<&Placement>) -> Vec<Place> {
    match placement.filter(|placement| placement.partitions > 0) {
        Some(placement) => placement.nodes.iter().map(Place::of).collect(),
        None => vec![Place::Cpu; model.subgraphs()[subgraph].operators.len()],
    }
}

impl Plan {
    /// Makes the plan of a subgraph. `placement` is `None` if the subgraph is not prepared.
    pub(crate) fn new(model: &Model, subgraph: usize, placement: Option<&Placement>) -> Self {
        let source = &model.subgraphs()[subgraph];
        let places = places(model, subgraph, placement);
        let mut nodes = FileNodes::new(model, subgraph);
        let mut members: BTreeMap<Unit, Vec<usize>> = BTreeMap::new();
        for (node, place) in places.iter().enumerate() {
            place.unit(node).into_iter().for_each(|unit| members.entry(unit).or_default().push(node));
        }
        let mut numbers = vec![0; places.len()];
        let mut written = Vec::new();
        for (unit, own) in &members {
            numbers[own[0]] = match (unit, &places[own[0]]) {
                (Unit::Partition(_), Place::Partition(_, delegate)) => {
                    let (inputs, outputs) = crossing(source, own, &places);
                    nodes.add_partition(delegate, &inputs, &outputs);
                    written.push((delegate.clone(), outputs.iter().map(|output| *output as usize).collect()));
                    nodes.len() - 1
                }
                _ => own[0],
            };
        }
        let order = order(source, &members).iter().map(|first| numbers[*first] as c_int).collect();
        Self {
            nodes,
            order,
            places,
            written,
            #[cfg(not(attache_small))]
            kernels: Vec::new(),
        }
    }

    /// Returns the name of the delegate of each partition, and the tensors that others read of it.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&str, Vec<usize>)> {
        self.written.iter().map(|(name, tensors)| (name.as_str(), tensors.clone()))
    }

    /// Returns the index of the node that stands for each partition, and its name.
    #[cfg(not(attache_small))]
    pub(crate) fn partitions(&self) -> BTreeMap<usize, (usize, String)> {
        let partition =
            |place: &Place| if let Place::Partition(partition, _) = place { Some(*partition) } else { None };
        let all: BTreeSet<usize> = self.places.iter().filter_map(partition).collect();
        let node = |(rank, partition): (usize, usize)| {
            let shown = self.kernels.get(rank).cloned().flatten();
            let name = shown.or_else(|| self.written.get(rank).map(|(delegate, _)| delegate.clone()));
            (partition, (self.places.len() + rank, name.unwrap_or_default()))
        };
        all.into_iter().enumerate().map(node).collect()
    }

    /// Has the nodes that stand for partitions show their delegates and kernels, which `find` returns for the name of a
    /// delegate of C.
    #[cfg(not(attache_small))]
    pub(crate) fn show_kernels(&mut self, find: impl Fn(&str) -> Option<(*mut TfLiteDelegate, String)>) {
        self.kernels.clear();
        for (rank, (delegate, _)) in self.written.iter().enumerate() {
            let found = find(delegate);
            if let Some((delegate, name)) = &found {
                self.nodes.show_kernel(self.places.len() + rank, *delegate, name);
            }
            self.kernels.push(found.map(|(_, name)| name));
        }
    }

    /// Whether the plan is still that of the subgraph.
    pub(crate) fn is_of(&self, model: &Model, subgraph: usize, placement: Option<&Placement>) -> bool {
        self.places == places(model, subgraph, placement)
    }
}

/// Returns the tensors that some operators read and do not make, and those that they make for others, in ascending order.
fn crossing(source: &Subgraph, own: &[usize], places: &[Place]) -> (Vec<c_int>, Vec<c_int>) {
    let operators = &source.operators;
    let is_other = |index: &usize| !own.contains(index) && places[*index] != Place::Nowhere;
    let made: BTreeSet<usize> = own.iter().flat_map(|node| operators[*node].outputs.iter().copied()).collect();
    let read: BTreeSet<usize> = own.iter().flat_map(|node| operators[*node].inputs.iter().flatten().copied()).collect();
    let others = operators.iter().enumerate().filter(|(index, _)| is_other(index));
    let wanted: BTreeSet<usize> =
        others.flat_map(|(_, operator)| operator.inputs.iter().flatten()).chain(&source.outputs).copied().collect();
    let number = |tensor: &usize| *tensor as c_int;
    (read.difference(&made).map(number).collect(), made.intersection(&wanted).map(number).collect())
}

/// Returns the first nodes of all units, in an order in which each unit comes after those whose tensors it reads, and
/// otherwise in that of the file.
fn order(source: &Subgraph, members: &BTreeMap<Unit, Vec<usize>>) -> Vec<usize> {
    let operators = &source.operators;
    let mut units: Vec<Option<&Vec<usize>>> = vec![None; operators.len()];
    let mut makers: Vec<Option<usize>> = vec![None; source.tensors.len()];
    for own in members.values() {
        units[own[0]] = Some(own);
        own.iter().flat_map(|node| &operators[*node].outputs).for_each(|tensor| makers[*tensor] = Some(own[0]));
    }
    let mut is_done = vec![false; operators.len()];
    let is_ready = |first: usize, own: &[usize], is_done: &[bool]| {
        let mut reads = own.iter().flat_map(|node| operators[*node].inputs.iter().flatten());
        reads.all(|tensor| makers[*tensor].is_none_or(|maker| maker == first || is_done[maker]))
    };
    let mut order = Vec::new();
    for start in 0..operators.len() {
        while let (Some(_), false) = (units[start], is_done[start]) {
            let waiting = (start..operators.len()).filter(|first| !is_done[*first]);
            let mut ready = waiting.filter(|first| units[*first].is_some_and(|own| is_ready(*first, own, &is_done)));
            let next = ready.next().unwrap_or(start);
            is_done[next] = true;
            order.push(next);
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use attache::model::schema::BuiltinOperator;
    use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

    use super::*;

    /// `c = neg(exp(a))`, `e = abs(c)`.
    fn model() -> Model {
        let mut builder = ModelBuilder::new("test");
        let main = builder.subgraph("main");
        let names = ["a", "b", "c", "d"];
        let ids = names.map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [4])));
        let operators = [BuiltinOperator::EXP, BuiltinOperator::NEG, BuiltinOperator::ABS];
        for (index, operator) in operators.into_iter().enumerate() {
            builder.operator(main, OperatorBuilder::new(operator, [ids[index]], [ids[index + 1]]));
        }
        builder.inputs(main, &[ids[0]]).outputs(main, &[ids[3]]);
        Model::from_bytes(builder.finish()).unwrap()
    }

    #[test]
    fn without_delegates_the_plan_is_the_files() {
        let plan = Plan::new(&model(), 0, None);
        assert_eq!((plan.order, plan.nodes.len()), (vec![0, 1, 2], 3));
    }

    #[test]
    fn partitions_come_after_what_they_read() {
        let model = model();
        let main = &model.subgraphs()[0];
        let members = BTreeMap::from([(Unit::Partition(0), vec![1, 2]), (Unit::Node(0), vec![0])]);
        assert_eq!(order(main, &members), [0, 1]);
        let places = [Place::Cpu, Place::Cpu, Place::Cpu];
        assert_eq!(crossing(main, &[1, 2], &places), (vec![1], vec![3]));
        let places = [Place::Cpu, Place::Cpu, Place::Nowhere];
        assert_eq!(crossing(main, &[0, 1], &places), (vec![0], vec![]));
        let apart = BTreeMap::from([(Unit::Partition(0), vec![2]), (Unit::Partition(1), vec![0, 1])]);
        assert_eq!(order(main, &apart), [0, 2]);
    }
}
