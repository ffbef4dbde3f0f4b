//! Runs one node on the CPU: [`run_node`] if its shapes are planned, [`run_resized`] if some are known only
//! at run time. `by_reference` has the nodes that pass tensors on or update them in place.

#[cfg_attr(attache_small, path = "node/no_bands.rs")]
pub(super) mod bands;
pub(super) mod by_reference;

use attache_base::{AlignedBuffer, Constant, DataType, Shape, Strings};
use attache_graph::{Cache, Eval, Fact, Graph, Inferred, Node, OpError, TensorId, TensorMut, TensorRef};

use super::host::NodeHost;
use super::memory::{Few, Memory, Readable, empty_strings, writable};
use super::poison::{poison, poison_strings};
use crate::Limits;

/// Lists of inputs and outputs, empty between the nodes, so that their memory serves all nodes of a run.
#[derive(Default)]
pub(crate) struct Lists {
    inputs: Vec<Option<TensorRef<'static>>>,
    outputs: Vec<TensorMut<'static>>,
}

impl Lists {
    /// Takes the memory of the lists.
    fn take<'a>(&mut self) -> (Vec<Option<TensorRef<'a>>>, Vec<TensorMut<'a>>) {
        let Self { inputs, outputs } = std::mem::take(self);
        (inputs.into_iter().collect(), outputs.into_iter().collect())
    }

    /// Keeps the memory of lists for the next node. Collecting an empty list from another keeps its memory.
    fn keep(&mut self, mut inputs: Vec<Option<TensorRef<'_>>>, mut outputs: Vec<TensorMut<'_>>) {
        inputs.clear();
        outputs.clear();
        self.inputs = inputs.into_iter().map(|_| None).collect();
        self.outputs = outputs.into_iter().map_while(|_| None).collect();
    }
}

fn read<'a>(graph: &'a Graph, node: &Node, readable: &Readable<'a>) -> Result<Vec<Option<TensorRef<'a>>>, OpError> {
    let mut inputs = Vec::with_capacity(node.inputs.len());
    read_into(&mut inputs, graph, node, readable)?;
    Ok(inputs)
}

fn read_into<'a>(
    inputs: &mut Vec<Option<TensorRef<'a>>>,
    graph: &'a Graph,
    node: &Node,
    readable: &Readable<'a>,
) -> Result<(), OpError> {
    for id in &node.inputs {
        let tensor = id.map(|id| {
            let tensor = readable.tensor(graph, id);
            tensor.ok_or_else(|| OpError::unsupported("an input has no value"))
        });
        inputs.push(tensor.transpose()?);
    }
    Ok(())
}

/// Runs a node whose inputs and outputs are all of known shape.
pub(crate) fn run_node(
    graph: &Graph,
    node: &Node,
    memory: &mut Memory,
    cache: &mut Cache,
    (host, lists): (&mut NodeHost<'_>, &mut Lists),
) -> Result<(), OpError> {
    if node.outputs.iter().any(|id| memory.is_own(*id) || memory.is_passed(*id)) {
        return run_outside(graph, node, memory, cache, host);
    }
    let (readable, written) = memory.split(&node.outputs);
    let (mut inputs, mut outputs) = lists.take();
    read_into(&mut inputs, graph, node, &readable)?;
    for (id, bytes) in node.outputs.iter().zip(written) {
        outputs.push(writable(graph, *id, planned_shape(graph, *id)?, bytes));
    }
    let mut eval = Eval { inputs, outputs, cache, parallel: host.parallel, host };
    node.op.eval(&mut eval)?;
    poison(&mut eval.outputs);
    lists.keep(eval.inputs, eval.outputs);
    Ok(())
}

fn planned_shape(graph: &Graph, id: TensorId) -> Result<&Shape, OpError> {
    graph.fact(id).shape.as_ref().ok_or_else(|| OpError::unsupported("an output has no shape"))
}

/// Runs a node some of whose outputs, all of known shape, have buffers outside the arena.
fn run_outside(
    graph: &Graph,
    node: &Node,
    memory: &mut Memory,
    cache: &mut Cache,
    host: &mut NodeHost<'_>,
) -> Result<(), OpError> {
    let mut outside: Few<Option<AlignedBuffer>> = Few::new();
    for id in &node.outputs {
        outside.push(memory.outside(*id, graph.fact(*id).byte_size().unwrap_or(0))?);
    }
    let (readable, written) = memory.split(&node.outputs);
    let (inputs, mut outputs) = (read(graph, node, &readable)?, Vec::with_capacity(node.outputs.len()));
    for ((id, bytes), outside) in node.outputs.iter().zip(written).zip(&mut outside) {
        let bytes = outside.as_deref_mut().unwrap_or(bytes);
        outputs.push(writable(graph, *id, planned_shape(graph, *id)?, bytes));
    }
    evaluate(node, Eval { inputs, outputs, cache, parallel: host.parallel, host })?;
    drop(readable);
    for (id, buffer) in node.outputs.iter().zip(outside) {
        if let (Some(buffer), Some(shape)) = (buffer, &graph.fact(*id).shape) {
            memory.set(*id, shape.clone(), buffer.into())?;
        }
    }
    Ok(())
}

/// Copies the new values that a node set for its variable inputs into these variables. `states` are pairs of
/// an input index and the bytes; none is left. Called after the evaluation, during which the node still reads the old
/// values.
#[inline]
pub(crate) fn keep_states(
    graph: &Graph,
    node: &Node,
    memory: &mut Memory,
    states: &mut Vec<(usize, Vec<u8>)>,
) -> Result<(), OpError> {
    if states.is_empty() {
        return Ok(());
    }
    for (input, value) in states.drain(..) {
        let id = node.inputs.get(input).copied().flatten().filter(|id| graph.fact(*id).is_variable);
        let bytes = id.and_then(|id| memory.bytes_mut(id)).filter(|bytes| bytes.len() == value.len());
        let wrong =
            || OpError::invalid(format!("it sets input {input}, which is no variable of {} bytes", value.len()));
        bytes.ok_or_else(wrong)?.copy_from_slice(&value);
    }
    Ok(())
}

fn evaluate(node: &Node, mut eval: Eval<'_>) -> Result<(), OpError> {
    node.op.eval(&mut eval)?;
    poison(&mut eval.outputs);
    Ok(())
}

/// Runs a node with an input or output whose shape is known only at run time. Infers the output shapes from
/// the actual inputs, checks them against `limits`, and allocates buffers for the outputs that are not in the
/// arena. `known` are the shapes of the last run; if they differ, the cache is cleared.
pub(crate) fn run_resized(
    graph: &Graph,
    node: &Node,
    memory: &mut Memory,
    cache: &mut Cache,
    known: &mut Vec<Shape>,
    (host, limits): (&mut NodeHost<'_>, &Limits),
) -> Result<(), OpError> {
    let (facts, inferred) = inferred_now(graph, node, memory)?;
    if !is_whole(&inferred) {
        return run_unsized(graph, node, memory, cache, host);
    }
    let shapes = runtime_shapes(graph, node, inferred)?;
    let made: Vec<_> = node.outputs.iter().map(|id| graph.fact(*id).data_type).zip(&shapes).collect();
    limits.check_node(&*node.op, &facts, &made)?;
    let now = facts.iter().flatten().filter_map(|fact| fact.shape.clone()).chain(shapes.iter().cloned());
    let now: Vec<_> = now.collect();
    if *known != now {
        cache.clear();
        *known = now;
    }
    host.made = node.outputs.iter().map(|_| None).collect();
    let mut outside: Few<Option<AlignedBuffer>> = Few::new();
    for (id, shape) in node.outputs.iter().zip(&shapes) {
        let size = match graph.fact(*id).data_type {
            // The operator passes strings to the host.
            DataType::String => 0,
            _ => graph.fact(*id).byte_size_as(shape).unwrap_or(usize::MAX),
        };
        outside.push(memory.outside(*id, size)?);
    }
    {
        let (readable, written) = memory.split(&node.outputs);
        let inputs = read(graph, node, &readable)?;
        let outputs = node.outputs.iter().zip(&shapes).zip(written.into_iter().zip(&mut outside));
        let outputs = outputs.map(|((id, shape), (bytes, outside))| {
            writable(graph, *id, shape, outside.as_deref_mut().unwrap_or(bytes))
        });
        let outputs = outputs.collect();
        evaluate(node, Eval { inputs, outputs, cache, parallel: host.parallel, host })?;
    }
    for (output, ((id, shape), buffer)) in node.outputs.iter().zip(shapes).zip(outside).enumerate() {
        let Some(buffer) = buffer else { continue };
        let (shape, bytes) = match graph.fact(*id).data_type {
            DataType::String => checked_strings(&shape, host.made[output].take())?,
            _ => (shape, buffer),
        };
        memory.set(*id, shape, bytes.into())?;
    }
    Ok(())
}

/// Returns the strings that an operator made for an output of this shape. Where it has no elements, the operator need not
/// have run.
fn checked_strings(shape: &Shape, made: Option<(Shape, AlignedBuffer)>) -> Result<(Shape, AlignedBuffer), OpError> {
    let Some((made_shape, bytes)) = made else {
        let bytes = (shape.elements() == 0).then(|| empty_strings(0).ok()).flatten();
        return Ok((shape.clone(), bytes.ok_or_else(|| OpError::unsupported("it has made no strings"))?));
    };
    if made_shape != *shape {
        return Err(OpError::invalid(format!("it makes the shape {made_shape} where {shape} was planned")));
    }
    Strings::new(&bytes, shape.elements()).map_err(|error| OpError::invalid(format!("what it makes: {error}")))?;
    Ok((made_shape, poison_strings(shape.elements(), bytes)))
}

/// Runs a node whose output shapes cannot be inferred even from the values of its inputs. The operator passes
/// its outputs to [`NodeHost::set_output`](attache_graph::Host::set_output).
fn run_unsized(
    graph: &Graph,
    node: &Node,
    memory: &mut Memory,
    cache: &mut Cache,
    host: &mut NodeHost<'_>,
) -> Result<(), OpError> {
    host.made = node.outputs.iter().map(|_| None).collect();
    {
        let (readable, _) = memory.split(&[]);
        let inputs = read(graph, node, &readable)?;
        evaluate(node, Eval { inputs, outputs: Vec::new(), cache, parallel: host.parallel, host })?;
    }
    for (id, made) in node.outputs.iter().zip(host.made.drain(..)) {
        let (shape, bytes) = made.ok_or_else(|| OpError::unsupported("its shape isn't known even at run time"))?;
        let fact = graph.fact(*id);
        if fact.data_type == DataType::String {
            let planned = fact.shape.clone().unwrap_or_else(|| shape.clone());
            let (shape, bytes) = checked_strings(&planned, Some((shape, bytes)))?;
            memory.set(*id, shape, bytes.into())?;
            continue;
        }
        if fact.byte_size_as(&shape) != Some(bytes.len()) {
            return Err(OpError::unsupported(format!("{} bytes for an output of shape {shape}", bytes.len())));
        }
        if let Some(planned) = fact.shape.as_ref().filter(|planned| **planned != shape) {
            return Err(OpError::invalid(format!("it makes the shape {shape} where {planned} was planned")));
        }
        memory.set(*id, shape, bytes.into())?;
    }
    Ok(())
}

/// Returns the facts of the node's inputs with their actual shapes, and what is inferred from them. Values are copied only
/// where shapes do not follow from shapes alone.
fn inferred_now(graph: &Graph, node: &Node, memory: &Memory) -> Result<(Vec<Option<Fact>>, Vec<Inferred>), OpError> {
    let infer = |facts: &[Option<Fact>]| node.op.infer(&facts.iter().map(Option::as_ref).collect::<Vec<_>>());
    let facts = runtime_facts(graph, node, memory, false)?;
    // The smallest libraries copy values always.
    if !cfg!(attache_small)
        && let Ok(inferred) = infer(&facts)
        && is_whole(&inferred)
    {
        return Ok((facts, inferred));
    }
    let facts = runtime_facts(graph, node, memory, true)?;
    let inferred = infer(&facts)?;
    Ok((facts, inferred))
}

/// Whether the shapes of all outputs are known.
fn is_whole(inferred: &[Inferred]) -> bool {
    inferred.iter().all(|inferred| inferred.shape.is_some())
}

/// Returns the facts of the node's inputs with their actual shapes, and, if asked for, with their values as constants.
fn runtime_facts(graph: &Graph, node: &Node, memory: &Memory, with_values: bool) -> Result<Vec<Option<Fact>>, OpError> {
    let fact = |id: &Option<TensorId>| {
        let Some(id) = id else { return Ok(None) };
        let fact = graph.fact(*id);
        if fact.constant.is_some() {
            return Ok(Some(fact.clone()));
        }
        let no_value = || OpError::unsupported("an input has no value");
        if !with_values {
            let (shape, _) = memory.tensor(graph, *id).ok_or_else(no_value)?;
            return Ok(Some(Fact { shape: Some(shape.clone()), ..fact.clone() }));
        }
        let (shape, bytes) = memory.constant(graph, *id)?.ok_or_else(no_value)?;
        let constant = Constant { data_type: fact.data_type, shape: shape.clone(), bytes };
        Ok(Some(Fact { shape: Some(shape), constant: Some(constant), ..fact.clone() }))
    };
    node.inputs.iter().map(fact).collect()
}

/// Returns the inferred shapes of the outputs. Fails if one is unknown, has too many elements, or differs
/// from the shape that was planned.
fn runtime_shapes(graph: &Graph, node: &Node, inferred: Vec<Inferred>) -> Result<Vec<Shape>, OpError> {
    let shape = |(id, inferred): (&TensorId, Inferred)| {
        let fact = graph.fact(*id);
        let shape = inferred.shape.filter(|shape| shape.checked_elements().is_some());
        let shape = shape.ok_or_else(|| OpError::unsupported("its shape isn't known even at run time"))?;
        match &fact.shape {
            Some(planned) if *planned != shape => {
                Err(OpError::invalid(format!("it makes the shape {shape} where {planned} was planned")))
            }
            _ => Ok(shape),
        }
    };
    node.outputs.iter().zip(inferred).map(shape).collect()
}
