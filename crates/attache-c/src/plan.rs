//! The nodes of a subgraph as programs see them: those of the file, or, where delegates run some, a node for each
//! partition in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;

use attache::model::{Operator, Subgraph};
use attache::{Model, NodePlacement, Outcome, Placement};
use attache_external::FileNodes;

/// The nodes of a subgraph, and the order in which they run.
pub(crate) struct Plan {
    pub(crate) nodes: FileNodes,
    pub(crate) order: Vec<c_int>,
    /// Where each node of the file runs.
    places: Vec<Place>,
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
        let mut numbers: BTreeMap<Unit, c_int> = BTreeMap::new();
        for (unit, own) in &members {
            let number = match (unit, &places[own[0]]) {
                (Unit::Partition(_), Place::Partition(_, delegate)) => {
                    let (inputs, outputs) = crossing(source, own, &places);
                    nodes.add_partition(delegate, &inputs, &outputs);
                    nodes.len() - 1
                }
                _ => own[0],
            };
            numbers.insert(*unit, number as c_int);
        }
        let order = order(&source.operators, &members).iter().map(|unit| numbers[unit]).collect();
        Self { nodes, order, places }
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

/// Returns the units in an order in which each comes after those whose tensors it reads, and otherwise in that of the file.
fn order(operators: &[Operator], members: &BTreeMap<Unit, Vec<usize>>) -> Vec<Unit> {
    let makes = |(unit, own): (&Unit, &Vec<usize>)| -> Vec<(usize, Unit)> {
        own.iter().flat_map(|node| &operators[*node].outputs).map(|tensor| (*tensor, *unit)).collect()
    };
    let makers: BTreeMap<usize, Unit> = members.iter().flat_map(makes).collect();
    let mut waiting: Vec<(&Unit, &Vec<usize>)> = members.iter().collect();
    waiting.sort_by_key(|(_, own)| own[0]);
    let mut order = Vec::new();
    while !waiting.is_empty() {
        let is_ready = |(unit, own): &(&Unit, &Vec<usize>)| {
            let mut reads = own.iter().flat_map(|node| operators[*node].inputs.iter().flatten());
            reads.all(|tensor| makers.get(tensor).is_none_or(|maker| maker == *unit || order.contains(maker)))
        };
        let next = waiting.iter().position(is_ready).unwrap_or(0);
        order.push(*waiting.remove(next).0);
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
        let operators = &model.subgraphs()[0].operators;
        let members = BTreeMap::from([(Unit::Partition(0), vec![1, 2]), (Unit::Node(0), vec![0])]);
        assert_eq!(order(operators, &members), [Unit::Node(0), Unit::Partition(0)]);
        let places = [Place::Cpu, Place::Cpu, Place::Cpu];
        assert_eq!(crossing(&model.subgraphs()[0], &[1, 2], &places), (vec![1], vec![3]));
        let places = [Place::Cpu, Place::Cpu, Place::Nowhere];
        assert_eq!(crossing(&model.subgraphs()[0], &[0, 1], &places), (vec![0], vec![]));
        let apart = BTreeMap::from([(Unit::Partition(0), vec![2]), (Unit::Partition(1), vec![0, 1])]);
        assert_eq!(order(operators, &apart), [Unit::Partition(1), Unit::Partition(0)]);
    }
}
