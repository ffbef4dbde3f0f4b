//! Which tensors of a graph are passed by reference ([`passed`]), when a run is done with them ([`last_uses`], [`taken`]), and which
//! operators may change the value of a resource variable where it lies ([`updated_variables`]).
//!
//! Contract: a tensor that is passed by reference has a buffer outside the arena. It goes to subgraphs and back, and to
//! variables and back, without a copy, and an operator that changes a part of it does so in place if nothing else needs the
//! old value.

use std::collections::{HashMap, HashSet};

use attache_base::DataType;
use attache_graph::{Fact, Graph, Node, TensorId, VariableUse};
use attache_passes::{Effects, Variable};

use crate::partition::Unit;
use crate::partition::assign::PlacedStep;

/// Which tensor's memory each tensor has: that of another one, or its own.
pub(crate) struct Owners(Vec<TensorId>);

impl Owners {
    /// Creates the list from the owner of each tensor.
    pub(crate) fn new(owners: Vec<TensorId>) -> Self {
        Self(owners)
    }

    pub(crate) fn of(&self, id: TensorId) -> TensorId {
        self.0[id.index()]
    }
}

/// Whether the tensor gets memory in the arena. Constants, strings and tensors of unknown shape do not.
pub(crate) fn in_arena(fact: &Fact) -> bool {
    fact.constant.is_none() && fact.shape.is_some() && fact.data_type != DataType::String
}

/// Who writes the inputs of a graph and reads its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A program, which may carry outputs over to inputs.
    Program,
    /// A program that uses inputs and outputs at addresses that stay, so that both are in the arena.
    ProgramAtAddresses,
    /// Another subgraph.
    Subgraph,
}

/// Size in bytes of the smallest tensor that is passed by reference. Copying a smaller one takes less time than a buffer.
const LEAST: usize = 4096;

/// Returns for each tensor whether it is passed by reference: one that an operator passes on or updates, and an input or
/// output of a called subgraph, with all that share its memory. Delegates write to the arena, so what they make is not.
pub(crate) fn passed(graph: &Graph, owners: &Owners, steps: &[PlacedStep], caller: Caller) -> Vec<bool> {
    let is_called = caller == Caller::Subgraph;
    let ends = || graph.inputs.iter().chain(&graph.outputs);
    let mut asked = vec![false; graph.tensors.len()];
    let mut ask = |id: TensorId| asked[owners.of(id).index()] = true;
    for node in steps.iter().filter_map(|step| node_of(graph, step)) {
        if node.op.passes_tensors() {
            node.inputs.iter().flatten().chain(&node.outputs).for_each(|id| ask(*id));
        }
        if let Some(operand) = updated(node) {
            [operand].iter().chain(&node.outputs).for_each(|id| ask(*id));
        }
    }
    if is_called {
        ends().for_each(|id| ask(*id));
    }
    let mut may = vec![true; graph.tensors.len()];
    for (index, tensor) in graph.tensors.iter().enumerate() {
        let fact = &tensor.fact;
        let is_large = fact.byte_size().is_some_and(|size| size >= LEAST);
        if !in_arena(fact) || fact.is_variable || !is_large {
            may[owners.of(TensorId(index as u32)).index()] = false;
        }
    }
    for step in steps.iter().filter(|step| matches!(step, PlacedStep::Partition(_))) {
        step.outputs(graph).into_iter().for_each(|id| may[owners.of(id).index()] = false);
    }
    if caller == Caller::ProgramAtAddresses {
        ends().for_each(|id| may[owners.of(*id).index()] = false);
    }
    let on_host = steps.iter().any(|step| matches!(step, PlacedStep::Node(_))) || steps.is_empty() && is_called;
    let is_passed = |index| {
        let owner = owners.of(TensorId(index as u32)).index();
        on_host && asked[owner] && may[owner]
    };
    (0..graph.tensors.len()).map(is_passed).collect()
}

/// Returns the tensor that a node may update in place.
pub(crate) fn updated(node: &Node) -> Option<TensorId> {
    let operand = node.op.updates().filter(|_| node.outputs.len() == 1)?;
    node.inputs.get(operand).copied().flatten()
}

fn node_of<'a>(graph: &'a Graph, step: &PlacedStep) -> Option<&'a Node> {
    match step {
        PlacedStep::Node(id) => Some(graph.node(*id)),
        PlacedStep::Banded(_) | PlacedStep::Partition(_) => None,
    }
}

/// Returns for each step the tensors outside the arena that no later step and no output of the graph uses: one of those
/// that share memory.
pub(crate) fn last_uses(
    graph: &Graph,
    owners: &Owners,
    steps: &[PlacedStep],
    is_outside: impl Fn(TensorId) -> bool,
) -> Vec<Vec<TensorId>> {
    let mut last: HashMap<TensorId, usize> = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        let used = step.inputs(graph).into_iter().chain(step.outputs(graph));
        last.extend(used.filter(|id| is_outside(*id)).map(|id| (owners.of(id), index)));
    }
    for id in &graph.outputs {
        last.remove(&owners.of(*id));
    }
    let mut uses = vec![Vec::new(); steps.len()];
    last.into_iter().for_each(|(id, step)| uses[step].push(id));
    uses
}

/// Returns for each step the handle of the resource variable whose value the step updates, if what it makes is assigned
/// to that variable before anything else can see it. The step may then update the value where it lies.
pub(crate) fn updated_variables(graph: &Graph, owners: &Owners, steps: &[PlacedStep]) -> Vec<Option<TensorId>> {
    let makers = graph.producers();
    let mut values = HeldValues::default();
    let mut handles = vec![None; steps.len()];
    for (index, step) in steps.iter().enumerate() {
        let node = node_of(graph, step);
        if let Some((node, operand)) = node.and_then(|node| Some((node, updated(node)?))) {
            values.update(index, owners.of(operand), owners.of(node.outputs[0]));
            continue;
        }
        let Effects::Variables(variables) = step.effects(graph, &makers) else {
            values.forgotten = index;
            continue;
        };
        let usage = node.and_then(|node| node.op.variable_use());
        match (node, usage, &variables[..]) {
            (Some(node), Some(VariableUse::Read { handle }), [variable]) if node.outputs.len() == 1 => {
                values.forget(variable, index);
                if let Some(handle) = node.inputs.get(handle).copied().flatten() {
                    let value = HeldValue { variable: variable.clone(), handle, read: index, update: None };
                    values.values.insert(owners.of(node.outputs[0]), value);
                }
            }
            (Some(node), Some(VariableUse::Assign { value, .. }), [variable]) => {
                let value = node.inputs.get(value).copied().flatten();
                let mut next = value.map(|id| owners.of(id)).filter(|id| values.is_of(*id, variable));
                while let Some(value) = next.and_then(|id| values.values.get(&id)) {
                    next = value.update.map(|(step, operand)| {
                        handles[step] = Some(value.handle);
                        operand
                    });
                }
                values.forget(variable, index);
            }
            _ => variables.iter().for_each(|variable| values.forget(variable, index)),
        }
    }
    handles
}

/// The tensors that have the value of a variable, or were made from it by updates.
#[derive(Default)]
struct HeldValues {
    values: HashMap<TensorId, HeldValue>,
    /// The last step that used a variable otherwise than by updates.
    used: HashMap<Variable, usize>,
    /// The last step that may use any variable.
    forgotten: usize,
}

struct HeldValue {
    variable: Variable,
    handle: TensorId,
    /// The step that read the variable.
    read: usize,
    /// The step that made this value, and the tensor that it updated; `None` for the value that was read.
    update: Option<(usize, TensorId)>,
}

impl HeldValues {
    fn update(&mut self, step: usize, operand: TensorId, output: TensorId) {
        if let Some(HeldValue { variable, handle, read, .. }) = self.values.get(&operand) {
            let (variable, handle, read) = (variable.clone(), *handle, *read);
            self.values.insert(output, HeldValue { variable, handle, read, update: Some((step, operand)) });
        }
    }

    /// Notes that something else than an update uses a variable.
    fn forget(&mut self, variable: &Variable, step: usize) {
        self.used.insert(variable.clone(), step);
    }

    /// Whether a tensor has the value of this variable, and nothing else has used the variable since it was read.
    fn is_of(&self, id: TensorId, variable: &Variable) -> bool {
        self.values.get(&id).is_some_and(|value| {
            let is_last = self.used.get(variable).is_none_or(|used| *used == value.read);
            value.variable == *variable && is_last && value.read >= self.forgotten
        })
    }
}

/// Returns for each step and each input of its node whether the node may take the value: its last use is there, and no
/// later input has the same memory. An operator that updates a tensor takes it only if no other input has its memory. The
/// list is empty for a node that computes its outputs from its inputs. `last_uses` are those of the steps.
pub(crate) fn taken(
    graph: &Graph,
    owners: &Owners,
    steps: &[PlacedStep],
    last_uses: &[Vec<TensorId>],
) -> Vec<Vec<bool>> {
    let of_step = |(step, last): (&PlacedStep, &Vec<TensorId>)| {
        let node = node_of(graph, step);
        let by_reference = |node: &&Node| node.op.passes_tensors() || node.op.is_reshape() || updated(node).is_some();
        let Some(node) = node.filter(by_reference) else { return Vec::new() };
        let last: HashSet<TensorId> = last.iter().copied().collect();
        let mut uses: HashMap<TensorId, usize> = HashMap::new();
        let mut taken = vec![false; node.inputs.len()];
        for (index, id) in node.inputs.iter().enumerate() {
            let Some(owner) = id.map(|id| owners.of(id)).filter(|owner| last.contains(owner)) else { continue };
            taken[index] = true;
            if let Some(before) = uses.insert(owner, index) {
                taken[before] = false;
                taken[index] = node.op.passes_tensors();
            }
        }
        taken
    };
    steps.iter().zip(last_uses).map(of_step).collect()
}

/// Returns for each output of the graph whether no other output has its memory.
pub(crate) fn sole_outputs(graph: &Graph, owners: &Owners) -> Vec<bool> {
    let mut counts: HashMap<TensorId, usize> = HashMap::new();
    graph.outputs.iter().for_each(|id| *counts.entry(owners.of(*id)).or_default() += 1);
    graph.outputs.iter().map(|id| counts[&owners.of(*id)] == 1).collect()
}
