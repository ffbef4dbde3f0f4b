//! Which nodes on the CPU run together, a band of rows after the other ([`group`]), and what is prepared for that
//! ([`Bands`]).
//!
//! A node of a group reads of what the group makes no rows but those that it computes, so that one thread can compute a few
//! rows of all nodes while they are in its caches, and threads meet once for the group instead of once for each node.
//! Where all nodes can compute parts of rows, pixels are divided instead of rows. Tensors that only the group reads are not
//! in the arena: a band of them is in the scratch memory of a thread.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::sync::Arc;

use attache_base::DataType;
use attache_graph::{Fact, Graph, Node, NodeId, RowUse, SharedCache, TensorId, WorkingMemory};
use attache_kernels::Isa;

use super::passing::{Owners, in_arena};
use crate::limits::{multiply_adds, working_memory};
use crate::partition::Unit;
use crate::partition::assign::{BandedNodes, PlacedStep};

/// Most nodes of a group. More would not stay in a cache together.
const MOST_NODES: usize = 16;

/// Largest row of an output, in bytes. Rows are in scratch memory, which is no part of the arena.
const LARGEST_ROW: usize = 1 << 18;

/// Largest size of all rows that only the nodes of a group read, where they are computed node by node.
pub(crate) const LARGEST_BYTES: usize = 1 << 24;

/// Replaces steps that follow each other by one where their nodes may run together. `is_passed` says which tensors are
/// passed by reference.
pub(crate) fn group(graph: &Graph, owners: &Owners, steps: &mut Vec<PlacedStep>, is_passed: impl Fn(TensorId) -> bool) {
    let mut uses = vec![0usize; graph.tensors.len()];
    let used = steps.iter().flat_map(|step| step.inputs(graph)).chain(graph.outputs.iter().copied());
    used.for_each(|id| uses[owners.of(id).index()] += 1);
    let last_reads = last_reads(graph, owners, steps);
    let mut grouped = Vec::with_capacity(steps.len());
    let mut open = Group::default();
    for (index, step) in mem::take(steps).into_iter().enumerate() {
        let candidate = match &step {
            PlacedStep::Node(id) => Candidate::new(graph, *id).filter(|candidate| !candidate.touches(&is_passed)),
            PlacedStep::Banded(_) | PlacedStep::Partition(_) => None,
        };
        match candidate {
            Some(candidate) if open.accepts(&candidate, owners, index + NEAR, &last_reads) => {
                open.push(candidate, owners)
            }
            candidate => {
                mem::take(&mut open).close(graph, owners, &uses, &mut grouped);
                match candidate {
                    Some(candidate) => open.push(candidate, owners),
                    None => grouped.push(step),
                }
            }
        }
    }
    open.close(graph, owners, &uses, &mut grouped);
    *steps = grouped;
}

/// Within so many steps, what a node makes from nothing of its group is read for the last time. Otherwise the group would
/// keep tensors in memory at once that follow each other.
const NEAR: usize = 4;

/// Returns for each owner of memory the last step that reads it; the greatest number for outputs of the graph.
fn last_reads(graph: &Graph, owners: &Owners, steps: &[PlacedStep]) -> Vec<usize> {
    let mut last = vec![0; graph.tensors.len()];
    for (index, step) in steps.iter().enumerate() {
        step.inputs(graph).into_iter().for_each(|id| last[owners.of(id).index()] = index);
    }
    graph.outputs.iter().for_each(|id| last[owners.of(*id).index()] = usize::MAX);
    last
}

/// A node that computes rows alone.
struct Candidate<'a> {
    id: NodeId,
    node: &'a Node,
    uses: Vec<RowUse>,
    rows: usize,
}

impl<'a> Candidate<'a> {
    fn new(graph: &'a Graph, id: NodeId) -> Option<Self> {
        let node = graph.node(id);
        let [output] = node.outputs[..] else { return None };
        let extents @ [1, rows, ..] = image(graph.fact(output))? else { return None };
        let uses = node.op.row_uses(&graph.input_facts(node), extents)?;
        let fits = |(input, usage): (&Option<TensorId>, &RowUse)| {
            let Some(input) = input else { return *usage == RowUse::Whole };
            let fact = graph.fact(*input);
            match usage {
                RowUse::Whole => (fact.constant.is_some() || in_arena(fact)) && !fact.is_variable,
                RowUse::Same => image(fact).is_some_and(|extents| extents[..2] == [1, rows]),
                RowUse::Pixels => image(fact).is_some_and(|read| read[..3] == extents[..3]),
                RowUse::Window { .. } => image(fact).is_some_and(|extents| extents[0] == 1),
            }
        };
        let made = graph.fact(output);
        let fits_in_scratch = made.byte_size().is_some_and(|size| size / rows <= LARGEST_ROW);
        let is_whole = in_arena(made) && node.inputs.len() == uses.len();
        (rows > 1 && fits_in_scratch && is_whole && node.inputs.iter().zip(&uses).all(fits)).then_some(Self {
            id,
            node,
            uses,
            rows,
        })
    }

    fn touches(&self, is_any: impl Fn(TensorId) -> bool) -> bool {
        self.node.inputs.iter().flatten().chain(&self.node.outputs).any(|id| is_any(*id))
    }
}

/// Returns the extents of a tensor with four axes whose elements have whole bytes, and which has some.
fn image(fact: &Fact) -> Option<[usize; 4]> {
    let extents = <[usize; 4]>::try_from(&fact.shape.as_ref()?[..]).ok()?;
    let is_plain = fact.data_type.bits().is_some_and(|bits| bits % 8 == 0) && fact.data_type != DataType::String;
    (is_plain && !fact.is_variable && extents.iter().all(|extent| *extent > 0)).then_some(extents)
}

/// Nodes that may run together.
#[derive(Default)]
struct Group {
    nodes: Vec<NodeId>,
    rows: usize,
    made: HashSet<TensorId>,
    /// The owners of the memory of what is made.
    owners: HashSet<TensorId>,
}

impl Group {
    /// Whether a node may follow: it computes as many rows, reads of what the group makes only the same ones, and reads some
    /// of it, or makes what no step after `near` reads.
    fn accepts(&self, candidate: &Candidate<'_>, owners: &Owners, near: usize, last_reads: &[usize]) -> bool {
        let Candidate { node, uses, rows, .. } = candidate;
        let reads = |(input, usage): (&Option<TensorId>, &RowUse)| {
            input.is_none_or(|id| match self.made.contains(&id) {
                true => matches!(usage, RowUse::Same | RowUse::Pixels),
                false => !self.owners.contains(&owners.of(id)),
            })
        };
        let is_alike = self.rows == *rows && self.nodes.len() < MOST_NODES;
        let is_joined = node.inputs.iter().flatten().any(|id| self.made.contains(id));
        let is_brief = || node.outputs.iter().all(|id| last_reads[owners.of(*id).index()] <= near);
        is_alike && node.inputs.iter().zip(uses).all(reads) && (is_joined || is_brief())
    }

    fn push(&mut self, candidate: Candidate<'_>, owners: &Owners) {
        self.nodes.push(candidate.id);
        self.rows = candidate.rows;
        self.made.extend(&candidate.node.outputs);
        self.owners.extend(candidate.node.outputs.iter().map(|id| owners.of(*id)));
    }

    /// Appends the step that runs the nodes; none if there is no node. `uses` counts what reads each owner of memory.
    fn close(self, graph: &Graph, owners: &Owners, uses: &[usize], steps: &mut Vec<PlacedStep>) {
        match self.nodes[..] {
            [] => {}
            [id] => steps.push(PlacedStep::Node(id)),
            _ => {
                let mut within: HashMap<TensorId, usize> = HashMap::new();
                let read = self.nodes.iter().flat_map(|id| graph.node(*id).inputs.iter().flatten());
                read.for_each(|id| *within.entry(owners.of(*id)).or_default() += 1);
                // What nothing reads is written too: there is a place for each output of a node then.
                let is_read_elsewhere = |id: &TensorId| {
                    let owner = owners.of(*id);
                    within.get(&owner).is_none_or(|count| *count < uses[owner.index()])
                };
                let made = self.nodes.iter().map(|id| graph.node(*id).outputs[0]);
                let outputs = made.filter(is_read_elsewhere).collect();
                steps.push(PlacedStep::Banded(BandedNodes { nodes: self.nodes, outputs }));
            }
        }
    }
}

/// Nodes that run together, with what all runs have in common.
pub(crate) struct Bands {
    pub(crate) nodes: Vec<BandedNode>,
    /// The tensors that are written to memory as a whole, in the order of the nodes that make them.
    pub(crate) outputs: Vec<TensorId>,
    /// What threads and bands divide: the rows of each output, or its pixels where all nodes can compute parts of rows.
    pub(crate) unit: UnitKind,
    /// Number of units of each output.
    pub(crate) units: usize,
    /// Size of one unit of each slot: the memory of a band for tensors that only the group reads, one after the other.
    pub(crate) slots: Vec<usize>,
    /// Size of one unit of all tensors that only the group reads.
    pub(crate) made: usize,
    /// About how long one thread takes, in nanoseconds.
    pub(crate) nanoseconds: f64,
    /// Size of the weights and other operands that are read as a whole, in bytes.
    pub(crate) whole: usize,
    /// Number of pixels in a row of the narrowest output.
    pub(crate) columns: usize,
}

/// What the outputs of a group consist of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitKind {
    Row,
    Pixel,
}

impl UnitKind {
    /// Returns what nodes with these uses of inputs divide, whose outputs have these extents.
    fn of<'a>(uses: impl IntoIterator<Item = &'a RowUse>, outputs: &[[usize; 4]]) -> Self {
        let may_divide = |usage: &RowUse| match usage {
            RowUse::Whole | RowUse::Pixels => true,
            RowUse::Window { in_parts, .. } => *in_parts,
            RowUse::Same => false,
        };
        let are_alike = outputs.windows(2).all(|pair| pair[0][..3] == pair[1][..3]);
        if are_alike && uses.into_iter().all(may_divide) { Self::Pixel } else { Self::Row }
    }
}

/// A node of a group.
pub(crate) struct BandedNode {
    pub(crate) id: NodeId,
    pub(crate) uses: Vec<RowUse>,
    pub(crate) shared: Arc<SharedCache>,
    /// For each input the index of the node in the group that makes it; `None` for one from outside.
    pub(crate) makers: Vec<Option<usize>>,
    pub(crate) share: Share,
    pub(crate) place: Place,
    /// Size of one unit of what it makes, in bytes.
    pub(crate) unit: usize,
}

/// What of its computation a node does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Share {
    /// All of it.
    Own,
    /// Nothing: only the node with the other share reads the output, and computes it itself.
    Nothing,
    /// The product of this input and its logistic function, the other input, which is not read.
    TimesLogistic(usize),
}

/// Where the units of what a node makes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// To the output of the group with this index.
    Output(usize),
    /// To the slot with this index.
    Slot(usize),
}

impl Bands {
    /// Returns the number of pixels in a unit of the narrowest output.
    pub(crate) fn pixels(&self) -> usize {
        if self.unit == UnitKind::Pixel { 1 } else { self.columns }
    }

    /// Prepares a group. `cache` returns the shared cache of a node.
    pub(crate) fn new(graph: &Graph, group: BandedNodes, mut cache: impl FnMut(&Node) -> Arc<SharedCache>) -> Self {
        let BandedNodes { nodes: ids, outputs } = group;
        let made: Vec<TensorId> = ids.iter().map(|id| graph.node(*id).outputs[0]).collect();
        let maker = |id: &Option<TensorId>| id.and_then(|id| made.iter().position(|made| *made == id));
        let makers: Vec<Vec<Option<usize>>> =
            ids.iter().map(|id| graph.node(*id).inputs.iter().map(maker).collect()).collect();
        let extents: Vec<[usize; 4]> = made.iter().map(|id| image(graph.fact(*id)).unwrap_or([1; 4])).collect();
        let uses = |(id, output): (&NodeId, &[usize; 4])| {
            let node = graph.node(*id);
            node.op.row_uses(&graph.input_facts(node), *output).unwrap_or_default()
        };
        let mut all_uses: Vec<Vec<RowUse>> = ids.iter().zip(&extents).map(uses).collect();
        let columns = extents.iter().map(|extents| extents[2]).min().unwrap_or(1);
        let unit = UnitKind::of(all_uses.iter().flatten(), &extents);
        let rows = extents.first().map_or(1, |extents| extents[1]);
        let units = if unit == UnitKind::Pixel { rows * columns } else { rows };
        let mut slots = Slots::default();
        let (mut nodes, mut nanoseconds, mut whole) = (Vec::with_capacity(ids.len()), 0.0, 0usize);
        let shares = shares(graph, &ids, &makers, |index| outputs.contains(&made[index]));
        for (index, id) in ids.iter().enumerate() {
            let node = graph.node(*id);
            let is_computed = shares[index] != Share::Nothing;
            let size = if is_computed { graph.fact(made[index]).byte_size().unwrap_or(0) } else { 0 };
            let uses = mem::take(&mut all_uses[index]);
            let read_whole = node.inputs.iter().zip(&uses).filter(|(_, usage)| **usage == RowUse::Whole);
            whole = read_whole.filter_map(|(id, _)| graph.fact((*id)?).byte_size()).fold(whole, usize::saturating_add);
            let place = match outputs.iter().position(|output| *output == made[index]) {
                Some(output) => Place::Output(output),
                None => {
                    let last = makers.iter().rposition(|makers| makers.contains(&Some(index))).unwrap_or(index);
                    Place::Slot(slots.take(index, last, size / units))
                }
            };
            let products = multiply_adds(graph, node).unwrap_or(0) as f64;
            let terms = products / (size as f64).max(1.0);
            nanoseconds += products / products_in_nanosecond(graph.fact(made[index]), terms) + size as f64 / BYTES;
            let (makers, shared, share) = (makers[index].clone(), cache(node), shares[index]);
            nodes.push(BandedNode { id: *id, uses, shared, makers, share, place, unit: size / units });
        }
        let is_kept = |node: &&BandedNode| matches!(node.place, Place::Slot(_));
        let made = nodes.iter().filter(is_kept).map(|node| node.unit).sum();
        Self { nodes, outputs, unit, units, slots: slots.sizes, made, nanoseconds, whole, columns }
    }

    /// Returns the memory that the nodes need besides inputs and outputs.
    pub(crate) fn working_memory(&self, graph: &Graph) -> WorkingMemory {
        let of = |node: &BandedNode| {
            let memory = working_memory(graph, graph.node(node.id));
            WorkingMemory { kept: if node.shared.is_empty() { memory.kept } else { 0 }, ..memory }
        };
        let slots = self.slots.iter().fold(0usize, |sum, unit| sum.saturating_add(unit.saturating_mul(self.units)));
        let scratch = self.nodes.iter().map(|node| of(node).scratch).max().unwrap_or(0);
        WorkingMemory {
            kept: self.nodes.iter().map(|node| of(node).kept).fold(0, u64::saturating_add),
            scratch: scratch.saturating_add(slots.min(LARGEST_BYTES) as u64),
        }
    }
}

/// Returns what each node computes. A product of floats and their logistic function computes both, where nothing else reads
/// the logistic function. `is_output` says of which nodes a group makes the output for others.
fn shares(
    graph: &Graph,
    nodes: &[NodeId],
    makers: &[Vec<Option<usize>>],
    is_output: impl Fn(usize) -> bool,
) -> Vec<Share> {
    let mut shares = vec![Share::Own; nodes.len()];
    for index in 0..nodes.len() {
        let Some((input, logistic)) = product_of_logistic(graph, nodes, index, &makers[index]) else { continue };
        let readers = makers.iter().flatten().filter(|maker| **maker == Some(logistic)).count();
        if readers == 1 && !is_output(logistic) {
            (shares[index], shares[logistic]) = (Share::TimesLogistic(input), Share::Nothing);
        }
    }
    shares
}

/// Returns the input whose product with its logistic function the node with this index is, and the index of the node that
/// computes that function; `None` for another node.
fn product_of_logistic(
    graph: &Graph,
    nodes: &[NodeId],
    index: usize,
    makers: &[Option<usize>],
) -> Option<(usize, usize)> {
    let node = graph.node(nodes[index]);
    let [left, right] = node.inputs[..] else { return None };
    let fact = graph.fact(node.outputs[0]);
    let find = |input: usize, value: Option<TensorId>| {
        let maker = makers[1 - input]?;
        let function = graph.node(nodes[maker]);
        let is_alike = graph.fact(value?).data_type == DataType::Float32 && graph.fact(value?).shape == fact.shape;
        let is_it = function.op.is_logistic() && function.inputs[..] == [value] && is_alike;
        is_it.then_some((input, maker))
    };
    if node.op.is_product() { find(0, left).or_else(|| find(1, right)) } else { None }
}

/// Returns an upper bound of the scratch memory, in bytes, for what only the nodes of a step read.
pub(crate) fn scratch_bytes(graph: &Graph, step: &PlacedStep) -> usize {
    let PlacedStep::Banded(BandedNodes { nodes, outputs, .. }) = step else { return 0 };
    let made = nodes.iter().flat_map(|id| &graph.node(*id).outputs).filter(|id| !outputs.contains(id));
    made.filter_map(|id| graph.fact(*id).byte_size()).fold(0, usize::saturating_add).min(LARGEST_BYTES)
}

/// About how many bytes one thread writes in a nanosecond.
const BYTES: f64 = 16.0;

/// About how many multiply-adds one thread computes in a nanosecond for such an output, whose bytes have sums of so many
/// `terms`: with each vector of floats two or three, with one of bytes twice as many, and in tile registers several times as
/// many. Whether a product of bytes takes place there is guessed from the terms, which depthwise convolutions have few of.
fn products_in_nanosecond(output: &Fact, terms: f64) -> f64 {
    let isa = Isa::detect();
    2.5 * isa.lanes() as f64
        * match output.data_type {
            DataType::Float32 => 1.0,
            DataType::Int8 if isa.has_tiles() && terms >= LEAST_TERMS => 12.0,
            _ => 2.0,
        }
}

/// Terms of sums that fill a tile register.
const LEAST_TERMS: f64 = 64.0;

/// The assignment of slots to tensors: a slot whose tensor is read no more is used again.
#[derive(Default)]
struct Slots {
    sizes: Vec<usize>,
    /// The last node that reads each.
    last: Vec<usize>,
}

impl Slots {
    /// Returns a slot for units of `size` bytes that node `first` writes and nodes up to `last` read.
    fn take(&mut self, first: usize, last: usize, size: usize) -> usize {
        let slot = self.last.iter().position(|last| *last < first).unwrap_or(self.sizes.len());
        if slot == self.sizes.len() {
            self.sizes.push(0);
            self.last.push(0);
        }
        (self.sizes[slot], self.last[slot]) = (self.sizes[slot].max(size), last);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_rows_are_divided_where_all_nodes_compute_them() {
        let window = |in_parts| RowUse::Window { size: 3, stride: 1, before: 1, in_parts };
        let images = [[1, 5, 7, 3], [1, 5, 7, 4]];
        let pixels = [window(true), RowUse::Whole, RowUse::Pixels];
        assert_eq!(UnitKind::of(&pixels, &images), UnitKind::Pixel);
        for usage in [window(false), RowUse::Same] {
            assert_eq!(UnitKind::of([&pixels[..], &[usage]].concat().iter(), &images), UnitKind::Row);
        }
        assert_eq!(UnitKind::of(&pixels, &[[1, 5, 7, 3], [1, 5, 6, 3]]), UnitKind::Row);
    }

    #[test]
    fn slots_are_used_again_when_they_are_read_no_more() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(0, 1, 5), slots.take(1, 3, 7), slots.take(2, 3, 9), slots.take(4, 4, 6)], [0, 1, 0, 0]);
        assert_eq!(slots.sizes, [9, 7]);
    }
}
