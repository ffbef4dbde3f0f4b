//! The memory plan of a graph ([`Plan`]): which tensors share memory, at which steps each is live, and its
//! byte range in the arena.

use std::collections::HashSet;
use std::ops::Range;

use attache_base::{AlignedBuffer, DataType, arena};
use attache_graph::{Fact, Graph, Node, TensorId};
use attache_model::ModelLocation;

use super::bands::{group, scratch_bytes};
use super::passing::{Caller, Owners, in_arena, last_uses, passed, sole_outputs, taken, updated_variables};
use super::shared_weights::NodeKey;
use crate::limits::exceeded;
use crate::partition::Unit;
use crate::partition::assign::PlacedStep;
use crate::{Error, ErrorKind, Limits};

/// The memory plan of a graph.
pub(crate) struct Plan {
    /// Byte range in the arena of each tensor, by tensor index; `None` for tensors that are not in the arena.
    pub(crate) ranges: Vec<Option<Range<usize>>>,
    /// Size of the arena in bytes.
    pub(crate) size: usize,
    /// The place of each tensor that is passed by reference, by tensor index: the same for those with the same memory.
    pub(crate) passed: Vec<Option<usize>>,
    /// Bytes that the tensors that are passed by reference take at most at one time.
    pub(crate) passed_bytes: usize,
    /// For each step the tensors outside the arena that are not used after it.
    pub(crate) last_uses: Vec<Vec<TensorId>>,
    /// For each step whether its node may take the values of its inputs; none for a node that only reads them.
    pub(crate) taken: Vec<Vec<bool>>,
    /// For each output of the graph whether no other one has its memory.
    pub(crate) sole_outputs: Vec<bool>,
    /// For each step the handle of the variable whose value it may update in place.
    pub(crate) updated_variables: Vec<Option<TensorId>>,
    /// Maximum number of bytes that are live at one step; no arena can be smaller.
    pub(crate) lower_bound: usize,
    /// The limits that the plan was checked against. They also apply to tensors that are sized at run time.
    pub(crate) limits: Limits,
}

/// Plans the arena for a run of `steps`. Removes from `steps` the reshapes whose output shares the memory of
/// their input, and groups nodes that run together. Fails if a tensor, or the arena with the tensors that are passed
/// by reference and the scratch memory of groups, exceeds `limits`. `caller` is the one of this subgraph.
pub(crate) fn plan(
    graph: &Graph,
    (subgraph, caller): (usize, Caller),
    steps: &mut Vec<PlacedStep>,
    limits: &Limits,
) -> Result<Plan, Error> {
    check_variables(graph, subgraph)?;
    let owners = Owners::new(share(graph, steps));
    let is_passed = passed(graph, &owners, steps, caller);
    group(graph, &owners, steps, |id| is_passed[id.index()]);
    let needed = needed(graph, &owners, steps, |id| caller == Caller::Subgraph && is_passed[id.index()]);
    let (mut lifetimes, mut elsewhere) = (Vec::new(), Vec::new());
    let (mut slots, mut places) = (vec![None; graph.tensors.len()], vec![None; graph.tensors.len()]);
    for (index, steps) in needed.into_iter().enumerate() {
        let Some((first, last)) = steps else { continue };
        // At least one byte, so that tensors without elements have distinct addresses.
        let size = size(graph, subgraph, TensorId(index as u32), limits)?.max(1);
        let (list, slot) = match is_passed[index] {
            true => (&mut elsewhere, &mut places[index]),
            false => (&mut lifetimes, &mut slots[index]),
        };
        *slot = Some(list.len());
        list.push(arena::Lifetime { size, first, last });
    }
    let arena = arena::plan(&lifetimes, AlignedBuffer::ALIGNMENT);
    let passed_bytes = arena::plan(&elsewhere, AlignedBuffer::ALIGNMENT).size;
    let nodes = steps.iter().flat_map(PlacedStep::nodes_on_cpu).map(|id| graph.node(*id));
    let scratch = steps.iter().map(|step| scratch_bytes(graph, step)).max().unwrap_or(0);
    let size = arena.size.saturating_add(passed_bytes).saturating_add(scratch);
    let mut known = HashSet::new();
    let keeps_own = |node: &Node| cfg!(attache_small) || known.insert(NodeKey::of(graph, subgraph, node));
    limits.check_memory(graph, subgraph, size, nodes, keeps_own)?;
    let owner = |index: usize| owners.of(TensorId(index as u32)).index();
    let range = |index: usize| -> Option<Range<usize>> {
        let offset = arena.offsets[slots[owner(index)]?];
        Some(offset..offset.saturating_add(graph.tensors[index].fact.byte_size()?))
    };
    let ranges = (0..graph.tensors.len()).map(range).collect();
    let passed: Vec<_> = (0..graph.tensors.len()).map(|index| places[owner(index)]).collect();
    let is_unplanned = |id: TensorId| graph.fact(id).constant.is_none() && !in_arena(graph.fact(id));
    let last_uses = last_uses(graph, &owners, steps, |id| passed[id.index()].is_some() || is_unplanned(id));
    let updated_variables = updated_variables(graph, &owners, steps);
    lifetimes.append(&mut elsewhere);
    Ok(Plan {
        ranges,
        size: arena.size,
        passed,
        passed_bytes,
        taken: taken(graph, &owners, steps, &last_uses),
        last_uses,
        sole_outputs: sole_outputs(graph, &owners),
        updated_variables,
        lower_bound: arena::lower_bound(&lifetimes),
        limits: limits.clone(),
    })
}

/// Returns for each tensor the tensor whose memory it shares, or itself, and removes from `steps` the
/// reshapes that thereby have nothing to do. The output of a reshape shares the memory of its input, since no
/// tensor is written twice in a run. Exceptions are inputs that are variables, which may change during a run,
/// and graph outputs whose memory would be that of a graph input, which may change after the run.
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
        // A variable may be assigned later in the run than it is read.
        let may = may && !graph.fact(owner).is_variable;
        if may && !(is_outside[owner.index()] && is_output[output.index()]) {
            owners[output.index()] = owner;
            return false;
        }
        true
    });
    owners
}

/// Returns for each tensor that owns memory in the arena the first and the last step at which it is live;
/// `None` for other tensors. Inputs and variables are live at all steps, outputs from the step that computes
/// them to the end. An input that is `given` by a caller is live up to its last use.
fn needed(
    graph: &Graph,
    owners: &Owners,
    steps: &[PlacedStep],
    given: impl Fn(TensorId) -> bool,
) -> Vec<Option<(usize, usize)>> {
    let mut needed: Vec<Option<(usize, usize)>> = vec![None; graph.tensors.len()];
    let mut need = |id: TensorId, step: usize| {
        if in_arena(graph.fact(id)) {
            let slot = &mut needed[owners.of(id).index()];
            *slot = Some(slot.map_or((step, step), |(first, last)| (first.min(step), last.max(step))));
        }
    };
    let variables = (0..graph.tensors.len()).map(|index| TensorId(index as u32));
    let variables = variables.filter(|id| graph.fact(*id).is_variable);
    for id in graph.inputs.iter().copied().filter(|id| !given(*id)).chain(variables) {
        need(id, 0);
        need(id, steps.len());
    }
    for (index, step) in steps.iter().enumerate() {
        step.inputs(graph).into_iter().chain(step.outputs(graph)).for_each(|id| need(id, index));
    }
    graph.outputs.iter().for_each(|id| need(*id, steps.len()));
    for id in graph.inputs.iter().filter(|id| given(**id)) {
        if let Some((first, _)) = &mut needed[owners.of(*id).index()] {
            *first = 0;
        }
    }
    needed
}

/// Fails if a variable tensor has strings, whose size may change.
fn check_variables(graph: &Graph, subgraph: usize) -> Result<(), Error> {
    let is_wrong = |fact: &Fact| fact.is_variable && fact.data_type == DataType::String;
    let Some(index) = graph.tensors.iter().position(|tensor| is_wrong(&tensor.fact)) else { return Ok(()) };
    let reason = "variable tensors of strings are not implemented; convert the model without them".to_owned();
    Err(Error::list(ErrorKind::Unsupported, "", vec![(location(graph, subgraph, index), reason)]))
}

fn location(graph: &Graph, subgraph: usize, tensor: usize) -> ModelLocation {
    let tensor = Some((tensor, graph.tensors[tensor].name.clone()));
    ModelLocation { subgraph: Some(subgraph), operator: None, tensor }
}

fn size(graph: &Graph, subgraph: usize, id: TensorId, limits: &Limits) -> Result<usize, Error> {
    let tensor = graph.tensor(id);
    let (kind, reason) = match tensor.fact.byte_size() {
        Some(size) if size as u64 <= limits.tensor_bytes => return Ok(size),
        Some(size) => {
            (ErrorKind::LimitExceeded, exceeded("tensor_bytes", format_args!("{size} bytes"), limits.tensor_bytes))
        }
        None => (
            ErrorKind::Unsupported,
            format!("tensors of type {} are not implemented; convert the model without them", tensor.fact.data_type),
        ),
    };
    Err(Error::list(kind, "", vec![(location(graph, subgraph, id.index()), reason)]))
}
