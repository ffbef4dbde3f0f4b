//! Nodes that pass tensors on as a whole, or update one in place.

use attache_base::{DataType, Shape, SharedBuffer, Strings};
use attache_graph::{Cache, Eval, Graph, Handle, Node, OpError, PassedTensor, TensorId, VariableUse};

use super::super::host::NodeHost;
use super::super::memory::{Memory, writable};
use super::super::passing::updated;
use super::super::plan::Plan;
use super::super::poison::poison;
use super::{inferred_now, runtime_shapes};

/// A node with what the plan knows about its step.
#[derive(Clone, Copy)]
pub(crate) struct Planned<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) node: &'a Node,
    pub(crate) plan: &'a Plan,
    pub(crate) step: usize,
}

/// How a node runs, because of the tensors that are passed by reference.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// It computes its outputs from its inputs.
    Evaluate,
    /// It copies this tensor, which lies in the arena, from or to a resource variable.
    Copy(TensorId),
    /// It [passes tensors on](attache_graph::Op::passes_tensors).
    Pass,
    /// It only changes the shape of a tensor, whose value the output takes.
    Reshape(TensorId),
    /// It updates this tensor, whose value the output takes.
    Update(TensorId),
}

impl Way {
    /// Returns how to run a node with this memory.
    pub(crate) fn of(node: &Node, memory: &Memory) -> Self {
        let input = |index: usize| node.inputs.get(index).copied().flatten();
        if node.op.passes_tensors() {
            let value = match node.op.variable_use() {
                Some(VariableUse::Read { .. }) => node.outputs.first().copied(),
                Some(VariableUse::Assign { value, .. }) => input(value),
                _ => None,
            };
            return value.filter(|id| memory.is_in_arena(*id)).map_or(Self::Pass, Self::Copy);
        }
        let [output] = node.outputs[..] else { return Self::Evaluate };
        if !memory.is_passed(output) && !memory.is_own(output) {
            return Self::Evaluate;
        }
        let by_reference =
            if node.op.is_reshape() { input(0).map(Self::Reshape) } else { updated(node).map(Self::Update) };
        by_reference.unwrap_or(Self::Evaluate)
    }
}

impl Planned<'_> {
    /// Whether the node may take the value of the input with this index.
    fn may_take(&self, input: usize) -> bool {
        self.plan.taken[self.step].get(input).is_some_and(|taken| *taken)
    }
}

/// Takes or shares the value of an input.
fn take(
    planned: Planned<'_>,
    memory: &mut Memory,
    (id, is_last): (TensorId, bool),
    host: &mut NodeHost<'_>,
) -> Result<PassedTensor, OpError> {
    let value = memory.pass(planned.graph, id, is_last)?;
    let (tensor, copied) = value.ok_or_else(|| OpError::unsupported("an input has no value"))?;
    host.subgraphs.note_copied(copied);
    Ok(tensor)
}

/// Runs a node that passes tensors on.
pub(crate) fn run_passing(planned: Planned<'_>, memory: &mut Memory, host: &mut NodeHost<'_>) -> Result<(), OpError> {
    let Planned { graph, node, .. } = planned;
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for (index, id) in node.inputs.iter().enumerate() {
        let value = id.map(|id| take(planned, memory, (id, planned.may_take(index)), host));
        inputs.push(value.transpose()?);
    }
    let outputs = node.op.pass(inputs, host)?;
    if outputs.len() != node.outputs.len() {
        let reason = format!("it makes {} outputs where {} were planned", outputs.len(), node.outputs.len());
        return Err(OpError::invalid(reason));
    }
    for (index, (id, output)) in node.outputs.iter().zip(outputs).enumerate() {
        check(graph, index, *id, &output)?;
        host.limits.check_size(output.bytes.len())?;
        let copied = memory.set(*id, output.shape, output.bytes)?;
        host.subgraphs.note_copied(copied);
    }
    Ok(())
}

/// Checks that what was passed fits the output with this index.
fn check(graph: &Graph, index: usize, id: TensorId, made: &PassedTensor) -> Result<(), OpError> {
    let (fact, shape) = (graph.fact(id), &made.shape);
    if made.data_type != fact.data_type {
        let (is, planned) = (made.data_type, fact.data_type);
        return Err(OpError::invalid(format!("output {index} is of type {is} where {planned} was planned")));
    }
    if let Some(planned) = fact.shape.as_ref().filter(|planned| *planned != shape) {
        return Err(OpError::invalid(format!("output {index} is of the shape {shape} where {planned} was planned")));
    }
    match fact.data_type {
        DataType::String => {
            let strings = Strings::new(&made.bytes, shape.elements());
            strings.map(drop).map_err(|error| OpError::invalid(format!("what it makes: {error}")))
        }
        _ if fact.byte_size_as(shape) == Some(made.bytes.len()) => Ok(()),
        _ => Err(OpError::unsupported(format!("{} bytes for an output of shape {shape}", made.bytes.len()))),
    }
}

/// Runs a node that changes only the shape of the tensor `id`.
pub(crate) fn run_reshape(
    planned: Planned<'_>,
    id: TensorId,
    memory: &mut Memory,
    host: &mut NodeHost<'_>,
) -> Result<(), OpError> {
    let output = planned.node.outputs[0];
    let shape = output_shape(planned, memory, host)?;
    let value = take(planned, memory, (id, planned.may_take(0)), host)?;
    memory.set(output, shape, value.bytes).map(drop)
}

/// Returns the shape of the only output: the planned one, or the one for the inputs' actual shapes and values.
fn output_shape(planned: Planned<'_>, memory: &Memory, host: &NodeHost<'_>) -> Result<Shape, OpError> {
    let Planned { graph, node, .. } = planned;
    let is_own = |id: &TensorId| memory.is_own(*id);
    if let Some(shape) = &graph.fact(node.outputs[0]).shape
        && !node.inputs.iter().flatten().chain(&node.outputs).any(is_own)
    {
        return Ok(shape.clone());
    }
    let (facts, inferred) = inferred_now(graph, node, memory)?;
    let shapes = runtime_shapes(graph, node, inferred)?;
    let made: Vec<_> = node.outputs.iter().map(|id| graph.fact(*id).data_type).zip(&shapes).collect();
    host.limits.check_node(&*node.op, &facts, &made)?;
    shapes.into_iter().next().ok_or_else(|| OpError::invalid("it has no output"))
}

/// Runs a node that updates the tensor `operand` in place, or in a copy if something else needs the value.
pub(crate) fn run_update(
    planned: Planned<'_>,
    operand: TensorId,
    memory: &mut Memory,
    (cache, host): (&mut Cache, &mut NodeHost<'_>),
) -> Result<(), OpError> {
    let Planned { graph, node, plan, step } = planned;
    let shape = output_shape(planned, memory, host)?;
    let is_last = node.op.updates().is_some_and(|input| planned.may_take(input));
    let PassedTensor { data_type, mut bytes, .. } = take(planned, memory, (operand, is_last), host)?;
    if graph.fact(node.outputs[0]).byte_size_as(&shape) != Some(bytes.len()) {
        return Err(OpError::invalid(format!("{} bytes for an output of shape {shape}", bytes.len())));
    }
    let handle = match plan.updated_variables[step].filter(|_| is_last) {
        Some(handle) => memory.tensor(graph, handle).map(|(_, bytes)| Handle::from_bytes(bytes)).transpose()?,
        None => None,
    };
    let released = handle.filter(|handle| host.subgraphs.release_variable(*handle, &bytes));
    let result = update(planned, operand, memory, (&shape, &mut bytes), (cache, host));
    if let Some(handle) = released {
        // After a failure the elements are the old ones.
        let (shape, bytes) = (shape.clone(), bytes.clone());
        host.subgraphs.set_variable(handle, PassedTensor { data_type, shape, bytes })?;
    }
    result?;
    memory.set(node.outputs[0], shape, bytes).map(drop)
}

/// Evaluates the node on an output that has the elements of `operand`: the only owner of these may write them, else they
/// are copied.
fn update(
    planned: Planned<'_>,
    operand: TensorId,
    memory: &mut Memory,
    (shape, bytes): (&Shape, &mut SharedBuffer),
    (cache, host): (&mut Cache, &mut NodeHost<'_>),
) -> Result<(), OpError> {
    let Planned { graph, node, .. } = planned;
    let copied = bytes.make_unique().map_err(|error| OpError::out_of_memory(error.to_string()))?;
    host.subgraphs.note_copied(copied);
    let bytes = bytes.get_mut().ok_or_else(|| OpError::invalid("an output that others share"))?;
    let (readable, _) = memory.split(&[]);
    let place = node.inputs.iter().position(|id| *id == Some(operand));
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for (index, id) in node.inputs.iter().enumerate() {
        let id = id.filter(|_| Some(index) != place);
        let value =
            id.map(|id| readable.tensor(graph, id).ok_or_else(|| OpError::unsupported("an input has no value")));
        inputs.push(value.transpose()?);
    }
    let outputs = vec![writable(graph, node.outputs[0], shape, bytes)];
    let mut eval = Eval { inputs, outputs, cache, parallel: host.parallel, host };
    node.op.eval(&mut eval)?;
    poison(&mut eval.outputs);
    Ok(())
}
