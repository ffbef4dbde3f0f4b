//! The memory plan: which tensors share memory, how long each is live, and its byte range in the arena.

use std::ops::Range;

use attache_base::{AlignedBuffer, arena};
use attache_graph::{Fact, Graph, TensorId};
use attache_model::ModelLocation;

use crate::limits::exceeded;
use crate::partition::Unit;
use crate::partition::assign::PlacedStep;
use crate::{Error, ErrorKind, Limits};

/// The memory plan.
pub(crate) struct Plan {
    /// For each tensor in the arena, its byte range.
    pub(crate) ranges: Vec<Option<Range<usize>>>,
    /// Size of the arena in bytes.
    pub(crate) size: usize,
    /// Lower bound in bytes on the size of any plan.
    pub(crate) lower_bound: usize,
    /// The limits of the plan. They apply to tensors that are sized at run time as well.
    pub(crate) limits: Limits,
}

/// Plans the arena. Removes from `steps` the reshapes whose output shares the memory of their input.
pub(crate) fn plan(
    graph: &Graph,
    subgraph: usize,
    steps: &mut Vec<PlacedStep>,
    limits: &Limits,
) -> Result<Plan, Error> {
    let owners = share(graph, steps);
    let needed = needed(graph, &owners, steps);
    let mut lifetimes = Vec::new();
    let mut slots = vec![None; graph.tensors.len()];
    for (index, steps) in needed.into_iter().enumerate() {
        let Some((first, last)) = steps else { continue };
        // At least one byte, so that tensors without elements have distinct addresses.
        let size = size(graph, subgraph, TensorId(index as u32), limits)?.max(1);
        slots[index] = Some(lifetimes.len());
        lifetimes.push(arena::Lifetime { size, first, last });
    }
    let arena = arena::plan(&lifetimes, AlignedBuffer::ALIGNMENT);
    let nodes = steps.iter().filter_map(|step| match step {
        PlacedStep::Node(id) => Some(graph.node(*id)),
        PlacedStep::Partition(_) => None,
    });
    limits.check_memory(graph, subgraph, arena.size, nodes)?;
    let range = |index: usize| -> Option<Range<usize>> {
        let offset = arena.offsets[slots[owners[index].index()]?];
        Some(offset..offset.saturating_add(graph.tensors[index].fact.byte_size()?))
    };
    let ranges = (0..graph.tensors.len()).map(range).collect();
    Ok(Plan { ranges, size: arena.size, lower_bound: arena::lower_bound(&lifetimes), limits: limits.clone() })
}

/// Whether a tensor is in the arena, rather than being a constant or made in a separate buffer in each run.
fn in_arena(fact: &Fact) -> bool {
    fact.constant.is_none() && fact.shape.is_some()
}

/// For each tensor, the tensor whose memory it shares, or itself. Each tensor is written only once, so sharing is safe
/// while both are live. The exception is an output of the graph, which must not change when an input or a variable is
/// written.
fn share(graph: &Graph, steps: &mut Vec<PlacedStep>) -> Vec<TensorId> {
    let mut owners: Vec<_> = (0..graph.tensors.len()).map(|index| TensorId(index as u32)).collect();
    let mut is_outside: Vec<_> = graph.tensors.iter().map(|tensor| tensor.fact.is_variable).collect();
    graph.inputs.iter().for_each(|id| is_outside[id.index()] = true);
    let mut is_output = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| is_output[id.index()] = true);
    steps.retain(|step| {
        let PlacedStep::Node(id) = step else { return true };
        let node = graph.node(*id);
        let (true, Some(Some(input)), [output]) = (node.op.is_reshape(), node.inputs.first(), &node.outputs[..]) else {
            return true;
        };
        let (from, to) = (graph.fact(*input), graph.fact(*output));
        let owner = owners[input.index()];
        let may = in_arena(from) && in_arena(to) && from.byte_size() == to.byte_size();
        // A variable may change during a run after it was read.
        let may = may && !graph.fact(owner).is_variable;
        if may && !(is_outside[owner.index()] && is_output[output.index()]) {
            owners[output.index()] = owner;
            return false;
        }
        true
    });
    owners
}

/// For each tensor that owns memory in the arena, the first and the last step at which it is live. Inputs and variables
/// are live from run to run, outputs until the next run.
fn needed(graph: &Graph, owners: &[TensorId], steps: &[PlacedStep]) -> Vec<Option<(usize, usize)>> {
    let mut needed: Vec<Option<(usize, usize)>> = vec![None; graph.tensors.len()];
    let mut need = |id: TensorId, step: usize| {
        if in_arena(graph.fact(id)) {
            let slot = &mut needed[owners[id.index()].index()];
            *slot = Some(slot.map_or((step, step), |(first, last)| (first.min(step), last.max(step))));
        }
    };
    let variables = (0..graph.tensors.len()).map(|index| TensorId(index as u32));
    let variables = variables.filter(|id| graph.fact(*id).is_variable);
    for id in graph.inputs.iter().copied().chain(variables) {
        need(id, 0);
        need(id, steps.len());
    }
    for (index, step) in steps.iter().enumerate() {
        step.inputs(graph).into_iter().chain(step.outputs(graph)).for_each(|id| need(id, index));
    }
    graph.outputs.iter().for_each(|id| need(*id, steps.len()));
    needed
}

fn size(graph: &Graph, subgraph: usize, id: TensorId, limits: &Limits) -> Result<usize, Error> {
    let tensor = graph.tensor(id);
    let reason = match tensor.fact.byte_size() {
        Some(size) if size as u64 <= limits.tensor_bytes => return Ok(size),
        Some(size) => exceeded("tensor_bytes", format_args!("{size} bytes"), limits.tensor_bytes),
        None => format!("tensors of type {} are not implemented", tensor.fact.data_type),
    };
    let location =
        ModelLocation { subgraph: Some(subgraph), operator: None, tensor: Some((id.index(), tensor.name.clone())) };
    Err(Error::list(ErrorKind::Unsupported, "", vec![(location, reason)]))
}
