//! Runs nodes together, some rows of all their outputs after the other.

use std::mem;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use attache_base::{IntegerRounding, Parallel, Serial, Shape, Stopwatch};
use attache_graph::{
    Band, Cache, Eval, Graph, Host, Node, NodeId, OpError, PassedTensor, RowUse, TensorId, TensorMut, TensorRef,
    WorkingMemory,
};
use attache_kernels::{Engine, Isa, scratch};
use smallvec::SmallVec;

use super::super::bands::{BandedNode, Bands, LARGEST_BYTES, Place};
use super::super::host::NodeHost;
use super::super::memory::{Few, Memory, Readable};
use super::super::poison::poison;
use super::Lists;
use crate::limits::require_memory;

/// Size of the rows of a band that only the nodes of the group read, in bytes. They fit in a large cache of the second level;
/// in smaller bands, more of the time goes to rows that windows of two bands read, and to reading weights again.
const BAND_BYTES: usize = 1 << 20;

/// Largest size of a band that is made larger so that it has enough pixels.
const LARGEST_BAND: usize = 1 << 22;

/// Fewest pixels of a band, of which a matrix product computes several at once.
const LEAST_PIXELS: usize = 48;

/// Time that a part takes for a node, in nanoseconds, from which on threads have several parts.
const LONG: f64 = 3e4;

/// What a group keeps from run to run.
pub(crate) struct Kept {
    /// For each part into which the rows are divided.
    parts: Vec<KeptPart>,
    /// The memory that the next run allocates.
    working: WorkingMemory,
}

impl Kept {
    /// Keeps nothing yet.
    pub(crate) fn new(working: WorkingMemory) -> Self {
        Self { parts: Vec::new(), working }
    }
}

#[derive(Default)]
struct KeptPart {
    nodes: Vec<KeptNode>,
}

/// What a node keeps from band to band.
struct KeptNode {
    cache: Cache,
    /// The shapes of the inputs in the last band, where they are parts of images, and of the output.
    inputs: Vec<Shape>,
    output: Shape,
    lists: Lists,
    /// Milliseconds that the node took in the last run.
    milliseconds: f64,
}

impl KeptNode {
    fn new(graph: &Graph, node: &BandedNode) -> Self {
        let shape = |id: &TensorId| graph.fact(*id).shape.clone().unwrap_or_default();
        let Node { inputs, outputs, .. } = graph.node(node.id);
        let inputs = inputs.iter().map(|id| id.as_ref().map_or_else(Shape::default, shape)).collect();
        let (cache, output) = (Cache::new(node.shared.clone()), shape(&outputs[0]));
        Self { cache, inputs, output, lists: Lists::default(), milliseconds: 0.0 }
    }
}

/// The error of a node of a group.
pub(crate) type Failed = (NodeId, OpError);

/// Runs a group once. With `times`, appends how many milliseconds each node took: its share of the time that all threads
/// together took, of the time from beginning to end.
pub(crate) fn run_banded(
    graph: &Graph,
    bands: &Bands,
    kept: &mut Kept,
    memory: &mut Memory,
    host: &NodeHost<'_>,
    times: Option<&mut Vec<(NodeId, f64)>>,
) -> Result<(), Failed> {
    let start = times.is_some().then(Stopwatch::start);
    let working = mem::take(&mut kept.working.kept).saturating_add(kept.working.scratch);
    require_memory(working).map_err(|error| (bands.nodes[0].id, error))?;
    let (readable, mut written) = memory.split(&bands.outputs);
    let division = Division::new(bands, host.parallel);
    if kept.parts.len() < division.parts {
        kept.parts.resize_with(division.parts, KeptPart::default);
    }
    let run = Run { graph, bands, readable, rounding: host.subgraphs.rounding(), is_timed: start.is_some() };
    let part = |(index, kept)| {
        let rows = division.part(bands.rows, index);
        let size = |rest: &[u8]| rest.len() / (bands.rows - rows.start) * rows.len();
        let outputs = written.iter_mut().map(|rest| cut(rest, size(rest))).collect();
        Mutex::new(Part { outputs, rows, kept, result: Ok(()) })
    };
    let parts: SmallVec<[_; 8]> = kept.parts.iter_mut().take(division.parts).enumerate().map(part).collect();
    let work = |index: usize, parallel: &dyn Parallel| {
        let mut part = parts[index].lock().unwrap_or_else(PoisonError::into_inner);
        part.result = part.run(&run, division.band, parallel);
    };
    match division.parts {
        1 => work(0, host.parallel),
        count => host.parallel.run(count, &|index| work(index, &Serial)),
    }
    let results = parts.into_iter().map(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner).result);
    results.fold(Ok(()), Result::and)?;
    if let (Some(times), Some(start)) = (times, start) {
        let parts = &kept.parts[..division.parts];
        let of =
            |index: usize| parts.iter().filter_map(|part| part.nodes.get(index)).map(|node| node.milliseconds).sum();
        let spent: Vec<f64> = (0..bands.nodes.len()).map(of).collect();
        let scale = start.milliseconds() / spent.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        times.extend(bands.nodes.iter().zip(spent).map(|(node, spent)| (node.id, spent * scale)));
    }
    Ok(())
}

/// How the rows of a group are divided.
struct Division {
    /// Number of parts, which threads compute at once.
    parts: usize,
    /// Most rows of a band.
    band: usize,
}

impl Division {
    fn new(bands: &Bands, parallel: &dyn Parallel) -> Self {
        let threads = parallel.threads();
        let row: usize = bands.slots.iter().sum();
        let least = LEAST_PIXELS.div_ceil(bands.width);
        let band = (BAND_BYTES / row.max(1)).max(least.min(LARGEST_BAND / row.max(1))).max(1);
        // Each thread has a part, and several where they are so long that evaluating their nodes adds little.
        let long = bands.nanoseconds / (threads * bands.nodes.len()) as f64 / LONG;
        let most = (threads * (long as usize).clamp(1, 16)).min(bands.rows * bands.width / LEAST_PIXELS).max(threads);
        let parts = Engine::new(parallel).tasks(bands.nanoseconds, most.min(bands.rows));
        let parts = if parts > threads { parts / threads * threads } else { parts };
        match parts > 1
            && row.saturating_mul(bands.rows) <= LARGEST_BYTES
            && is_better_node_by_node(bands, parts.min(threads), threads)
        {
            true => Self { parts: 1, band: bands.rows },
            false => Self { parts, band },
        }
    }

    /// Returns the rows of a part.
    fn part(&self, rows: usize, index: usize) -> Range<usize> {
        rows * index / self.parts..rows * (index + 1) / self.parts
    }
}

/// Whether threads that divide each node take less time than threads that divide the rows of all nodes. There may be too few
/// rows for them to have the same number each, or to multiply matrices well; but they meet once for each node.
fn is_better_node_by_node(bands: &Bands, parts: usize, threads: usize) -> bool {
    let share = bands.rows.div_ceil(parts);
    let slower = if share * bands.width < 2 * Isa::detect().lanes() { 1.5 } else { 1.0 };
    let banded = bands.nanoseconds * share as f64 / bands.rows as f64 * slower;
    let meetings = (bands.nodes.len() - 1) as f64 * (MEETING + MEETING_EACH * threads as f64);
    bands.nanoseconds / threads as f64 + meetings < banded
}

/// About how long it takes threads to meet, in nanoseconds, and how much longer with each of them.
const MEETING: f64 = 1500.0;
const MEETING_EACH: f64 = 150.0;

/// What all parts of a run have in common.
struct Run<'a> {
    graph: &'a Graph,
    bands: &'a Bands,
    /// What the group does not make.
    readable: Readable<'a>,
    rounding: IntegerRounding,
    is_timed: bool,
}

/// Some rows of all nodes.
struct Part<'a> {
    rows: Range<usize>,
    /// These rows of each output of the group.
    outputs: Few<&'a mut [u8]>,
    kept: &'a mut KeptPart,
    result: Result<(), Failed>,
}

impl Part<'_> {
    /// Computes the rows of the part, at most `most` at once.
    fn run(&mut self, run: &Run<'_>, most: usize, parallel: &dyn Parallel) -> Result<(), Failed> {
        let (nodes, kept) = (&run.bands.nodes, &mut self.kept.nodes);
        if kept.is_empty() {
            kept.extend(nodes.iter().map(|node| KeptNode::new(run.graph, node)));
        }
        kept.iter_mut().for_each(|node| node.milliseconds = 0.0);
        // Bands of the same number of rows, but for the last one.
        let count = self.rows.len().div_ceil(most);
        let band = self.rows.len().div_ceil(count.max(1));
        let sizes = run.bands.slots.iter().map(|row| (row * band).next_multiple_of(ALIGNMENT));
        scratch::with(sizes.clone().sum(), |mut rest: &mut [u8]| {
            let slots = sizes.map(|size| cut(&mut rest, size)).collect();
            let mut places = Places { first: self.rows.start, outputs: mem::take(&mut self.outputs), slots };
            for first in self.rows.clone().step_by(band) {
                let rows = first..(first + band).min(self.rows.end);
                for (index, kept) in kept.iter_mut().enumerate() {
                    let start = run.is_timed.then(Stopwatch::start);
                    let result = places.evaluate(run, index, &rows, kept, parallel);
                    result.map_err(|error| (nodes[index].id, error))?;
                    kept.milliseconds += start.map_or(0.0, |start| start.milliseconds());
                }
            }
            Ok(())
        })
    }
}

/// Returns the first bytes of `rest`, which has the others afterwards.
fn cut<'a>(rest: &mut &'a mut [u8], size: usize) -> &'a mut [u8] {
    rest.split_off_mut(..size).unwrap_or_default()
}

/// Alignment of slots in bytes.
const ALIGNMENT: usize = 64;

/// The memory of what the nodes make: the outputs of a part, whose first row is `first`, and the slots of a band.
struct Places<'o, 's> {
    first: usize,
    outputs: Few<&'o mut [u8]>,
    slots: Few<&'s mut [u8]>,
}

impl Places<'_, '_> {
    /// Returns the bytes of rows of `row` bytes each in the memory of a place.
    fn range(&self, place: Place, rows: &Range<usize>, row: usize) -> Range<usize> {
        let start = match place {
            Place::Output(_) => (rows.start - self.first) * row,
            Place::Slot(_) => 0,
        };
        start..start + rows.len() * row
    }

    /// Computes rows of the node with this index.
    fn evaluate(
        &mut self,
        run: &Run<'_>,
        index: usize,
        rows: &Range<usize>,
        kept: &mut KeptNode,
        parallel: &dyn Parallel,
    ) -> Result<(), OpError> {
        let node = &run.bands.nodes[index];
        // What is read is in other places.
        set_rows(&mut kept.output, rows.len());
        let range = self.range(node.place, rows, node.row);
        match node.place {
            Place::Output(place) => {
                let memory = mem::take(&mut self.outputs[place]);
                let result = self.evaluate_to(run, index, rows, &mut memory[range], (kept, parallel));
                self.outputs[place] = memory;
                result
            }
            Place::Slot(place) => {
                let memory = mem::take(&mut self.slots[place]);
                let result = self.evaluate_to(run, index, rows, &mut memory[range], (kept, parallel));
                self.slots[place] = memory;
                result
            }
        }
    }

    /// Computes rows of the node with this index, and writes them to `bytes`.
    fn evaluate_to(
        &self,
        run: &Run<'_>,
        index: usize,
        rows: &Range<usize>,
        bytes: &mut [u8],
        (kept, parallel): (&mut KeptNode, &dyn Parallel),
    ) -> Result<(), OpError> {
        let (node, KeptNode { cache, inputs: shapes, output, lists, .. }) = (&run.bands.nodes[index], kept);
        let (mut inputs, mut outputs) = lists.take();
        let mut before = 0;
        for (input, shape) in shapes.iter_mut().enumerate() {
            let Some(id) = run.graph.node(node.id).inputs[input] else {
                inputs.push(None);
                continue;
            };
            let tensor = match node.makers[input] {
                Some(maker) => {
                    set_rows(shape, rows.len());
                    let (fact, made) = (run.graph.fact(id), &run.bands.nodes[maker]);
                    let bytes = &self.read(made.place)[self.range(made.place, rows, made.row)];
                    let (data_type, quantization) = (fact.data_type, fact.quantization.as_ref());
                    TensorRef { data_type, shape, bytes, quantization, is_constant: false }
                }
                None => {
                    let tensor = run.readable.tensor(run.graph, id);
                    let tensor = tensor.ok_or_else(|| OpError::unsupported("an input has no value"))?;
                    match node.uses[input] {
                        RowUse::Whole => tensor,
                        usage => {
                            let row = tensor.bytes.len() / tensor.shape[1];
                            let (read, above) = usage.read(rows, tensor.shape[1]);
                            before = before.max(above);
                            set_rows(shape, read.len());
                            TensorRef { bytes: &tensor.bytes[read.start * row..read.end * row], shape, ..tensor }
                        }
                    }
                }
            };
            inputs.push(Some(tensor));
        }
        let fact = run.graph.fact(run.graph.node(node.id).outputs[0]);
        let (data_type, quantization) = (fact.data_type, fact.quantization.as_ref());
        outputs.push(TensorMut { data_type, shape: output, bytes, quantization });
        let mut host = BandHost { band: Band { rows: rows.len(), before }, rounding: run.rounding };
        let mut eval = Eval { inputs, outputs, cache, parallel, host: &mut host };
        let result = run.graph.node(node.id).op.eval(&mut eval);
        poison(&mut eval.outputs);
        lists.keep(eval.inputs, eval.outputs);
        result
    }

    fn read(&self, place: Place) -> &[u8] {
        match place {
            Place::Output(index) => self.outputs[index],
            Place::Slot(index) => self.slots[index],
        }
    }
}

/// Gives an image another number of rows.
fn set_rows(shape: &mut Shape, rows: usize) {
    if shape[1] != rows {
        *shape = Shape::from([1, rows, shape[2], shape[3]]);
    }
}

/// The host of a node that computes a band.
struct BandHost {
    band: Band,
    rounding: IntegerRounding,
}

impl Host for BandHost {
    fn run_subgraph(&mut self, _: usize, _: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
        Err(OpError::unsupported("an operator that computes rows alone runs no subgraph"))
    }

    fn rounding(&self) -> IntegerRounding {
        self.rounding
    }

    fn band(&self) -> Option<Band> {
        Some(self.band)
    }
}
