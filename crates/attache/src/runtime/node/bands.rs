//! Runs nodes together, some rows or pixels of all their outputs after the other.

use std::mem;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use attache_base::{AlignedBuffer, IntegerRounding, Parallel, Serial, Shape, Stopwatch};
use attache_graph::{
    Band, Cache, Eval, Graph, Host, Node, NodeId, OpError, PassedTensor, RowUse, TensorId, TensorMut, TensorRef,
    WorkingMemory,
};
use attache_kernels::{Engine, Isa, scratch};
use smallvec::SmallVec;

use super::super::bands::{BandedNode, Bands, LARGEST_BYTES, Place, Share, UnitKind};
use super::super::host::NodeHost;
use super::super::memory::{Few, Memory, Readable};
use super::super::observer::Watch;
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

/// Time that a part takes for a node, in nanoseconds, from which on threads have two parts.
const LONG: f64 = 1e4;

/// About how long the last parts of a thread take for all nodes, in nanoseconds, where threads have more than two: others take
/// these from a thread whose core is busy.
const SHORTEST: f64 = 2e5;

/// Most parts of a thread.
const MOST_PARTS: usize = 6;

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

/// Runs a group once, node by node if an observer is told about them. With `times`, appends how many milliseconds each node took: its share of the time that all threads
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
    let division = match host.watch.is_some() {
        true => Division::node_by_node(bands).map_err(|error| (bands.nodes[0].id, error))?,
        false => Division::new(bands, host.parallel),
    };
    let grains = division.grains(bands.units, host.parallel);
    kept.parts.iter_mut().flat_map(|part| &mut part.nodes).for_each(|node| node.milliseconds = 0.0);
    if kept.parts.len() < division.parts {
        kept.parts.resize_with(division.parts, KeptPart::default);
    }
    let (rounding, watch, is_timed) = (host.subgraphs.rounding(), &host.watch, start.is_some());
    let run = Run { graph, bands, readable, rounding, watch, is_timed };
    let part = |(index, kept)| {
        let Range { start, end } = grains.range(index);
        let units = start * division.grain..end * division.grain;
        let size = |rest: &[u8]| rest.len() / (bands.units - units.start).max(1) * units.len();
        let outputs = written.iter_mut().map(|rest| cut(rest, size(rest))).collect();
        Mutex::new(Part { outputs, units, kept, result: Ok(()) })
    };
    let parts: SmallVec<[_; 8]> = kept.parts.iter_mut().take(division.parts).enumerate().map(part).collect();
    let work = |index: usize, parallel: &dyn Parallel| {
        let mut part = parts[index].lock().unwrap_or_else(PoisonError::into_inner);
        part.result = part.run(&run, &division, parallel);
    };
    match division.parts {
        1 => work(0, host.parallel),
        _ => host.parallel.run_division(&grains, &|index, _| work(index, &Serial)),
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

/// How the units of a group are divided.
struct Division {
    /// Number of parts, which threads compute at once.
    parts: usize,
    /// Most units of a band.
    band: usize,
    /// Parts and bands begin at multiples of so many units.
    grain: usize,
}

/// From so many rows of a part on, parts of pixels have whole rows, which operators on windows compute faster. One row more
/// or less makes little difference to a thread then.
const WHOLE_ROWS: usize = 8;

impl Division {
    fn new(bands: &Bands, parallel: &dyn Parallel) -> Self {
        let threads = parallel.threads();
        let unit: usize = bands.slots.iter().sum();
        let least = LEAST_PIXELS.div_ceil(bands.pixels());
        let band = (BAND_BYTES / unit.max(1)).max(least.min(LARGEST_BAND / unit.max(1))).max(1);
        // Each thread has a part, or more where they are so long that evaluating their nodes again adds little.
        let each = bands.nanoseconds / threads as f64;
        let long = (each / bands.nodes.len() as f64 / LONG) as usize;
        let pixels = bands.units * bands.pixels() / threads;
        let halves = (each / SHORTEST).min((pixels / LEAST_PIXELS) as f64).max(1.0).log2() as usize;
        let more = halves.saturating_sub(1);
        let most = threads * (long.clamp(1, 2) + more).min(MOST_PARTS);
        let most = most.min(bands.units * bands.pixels() / LEAST_PIXELS).max(threads);
        let parts = Engine::new(parallel).tasks(bands.nanoseconds, most.min(bands.units));
        let parts = if parts > threads { parts / threads * threads } else { parts };
        match parts > 1
            && unit.saturating_mul(bands.units) <= LARGEST_BYTES
            && is_better_node_by_node(bands, parts.min(threads), threads)
        {
            true => Self::whole(bands),
            false => {
                let has_whole_rows = bands.unit == UnitKind::Pixel && bands.units / bands.columns / parts >= WHOLE_ROWS;
                let grain = if has_whole_rows { bands.columns } else { 1 };
                Self { parts, band: (band / grain * grain).max(grain), grain }
            }
        }
    }

    /// The one part and band of all units, whose memory there has to be.
    fn node_by_node(bands: &Bands) -> Result<Self, OpError> {
        let unit: usize = bands.slots.iter().sum();
        require_memory(unit.saturating_mul(bands.units) as u64)?;
        Ok(Self::whole(bands))
    }

    fn whole(bands: &Bands) -> Self {
        Self { parts: 1, band: bands.units, grain: 1 }
    }

    /// Divides so many units, in grains, into the parts: by the speeds of the threads if each has one part, or more, of which
    /// another thread may take all but the first.
    fn grains(&self, units: usize, parallel: &dyn Parallel) -> attache_base::Division {
        match self.parts / parallel.threads() {
            0 => attache_base::Division::even(units / self.grain, self.parts),
            1 => parallel.division(units / self.grain),
            2 => parallel.division(units / self.grain).in_two(),
            parts => parallel.division(units / self.grain).in_halves(parts),
        }
    }
}

/// Whether threads that divide each node take less time than threads that divide the units of all nodes. There may be too few
/// units for them to have the same number each, or to multiply matrices well, and all of them read all weights; but they
/// meet once for each node, and read what other threads have made.
fn is_better_node_by_node(bands: &Bands, parts: usize, threads: usize) -> bool {
    let share = bands.units.div_ceil(parts);
    let slower = if share * bands.pixels() < 2 * Isa::detect().lanes() { 1.5 } else { 1.0 };
    let banded = bands.nanoseconds * share as f64 / bands.units as f64 * slower + bands.whole as f64 / READ;
    let meetings = bands.nodes.len().saturating_sub(1) as f64 * (MEETING + MEETING_EACH * threads as f64);
    let exchanged = bands.made as f64 * bands.units as f64 / threads as f64 / FETCHED;
    bands.nanoseconds / threads as f64 + meetings + exchanged < banded
}

/// About how long it takes threads to meet, in nanoseconds, and how much longer with each of them.
const MEETING: f64 = 1500.0;
const MEETING_EACH: f64 = 150.0;

/// About how many bytes a thread reads in a nanosecond: of weights, and of what others have made, from their caches.
const READ: f64 = 64.0;
const FETCHED: f64 = 1.5;

/// What all parts of a run have in common.
struct Run<'a> {
    graph: &'a Graph,
    bands: &'a Bands,
    /// What the group does not make.
    readable: Readable<'a>,
    rounding: IntegerRounding,
    watch: &'a Watch,
    is_timed: bool,
}

/// Some units of all nodes.
struct Part<'a> {
    units: Range<usize>,
    /// These units of each output of the group.
    outputs: Few<&'a mut [u8]>,
    kept: &'a mut KeptPart,
    result: Result<(), Failed>,
}

impl Part<'_> {
    /// Computes the units of the part, one band after the other.
    fn run(&mut self, run: &Run<'_>, division: &Division, parallel: &dyn Parallel) -> Result<(), Failed> {
        let (nodes, kept) = (&run.bands.nodes, &mut self.kept.nodes);
        if kept.is_empty() {
            kept.extend(nodes.iter().map(|node| KeptNode::new(run.graph, node)));
        }
        // Bands of the same number of units, but for the last one.
        let count = self.units.len().div_ceil(division.band);
        let band = self.units.len().div_ceil(count.max(1)).next_multiple_of(division.grain);
        let sizes = run.bands.slots.iter().map(|unit| (unit * band).next_multiple_of(ALIGNMENT));
        let size = sizes.clone().sum();
        let compute = |mut rest: &mut [u8]| {
            let slots = sizes.map(|size| cut(&mut rest, size)).collect();
            let mut places = Places { first: self.units.start, outputs: mem::take(&mut self.outputs), slots };
            for first in self.units.clone().step_by(band) {
                let units = first..(first + band).min(self.units.end);
                for (index, kept) in kept.iter_mut().enumerate() {
                    let _begun = run.watch.node(run.graph.node(nodes[index].id));
                    let start = run.is_timed.then(Stopwatch::start);
                    let result = places.evaluate(run, index, &units, kept, parallel);
                    result.map_err(|error| (nodes[index].id, error))?;
                    kept.milliseconds += start.map_or(0.0, |start| start.milliseconds());
                }
            }
            Ok(())
        };
        if size <= LARGEST_BYTES {
            return scratch::with(size, compute);
        }
        // Only nodes that an observer looks at take so much, which threads shall not keep.
        let no_memory =
            |error| (nodes[0].id, OpError::out_of_memory(format!("what a group of operators makes: {error}")));
        compute(&mut AlignedBuffer::zeroed(size).map_err(no_memory)?)
    }
}

/// Returns the first bytes of `rest`, which has the others afterwards.
fn cut<'a>(rest: &mut &'a mut [u8], size: usize) -> &'a mut [u8] {
    rest.split_off_mut(..size).unwrap_or_default()
}

/// Alignment of slots in bytes.
const ALIGNMENT: usize = 64;

/// The memory of what the nodes make: the outputs of a part, whose first unit is `first`, and the slots of a band.
struct Places<'o, 's> {
    first: usize,
    outputs: Few<&'o mut [u8]>,
    slots: Few<&'s mut [u8]>,
}

impl Places<'_, '_> {
    /// Returns the bytes of units of `size` bytes each in the memory of a place.
    fn range(&self, place: Place, units: &Range<usize>, size: usize) -> Range<usize> {
        let start = match place {
            Place::Output(_) => (units.start - self.first) * size,
            Place::Slot(_) => 0,
        };
        start..start + units.len() * size
    }

    /// Computes units of the node with this index.
    fn evaluate(
        &mut self,
        run: &Run<'_>,
        index: usize,
        units: &Range<usize>,
        kept: &mut KeptNode,
        parallel: &dyn Parallel,
    ) -> Result<(), OpError> {
        let node = &run.bands.nodes[index];
        if node.share == Share::Nothing {
            return Ok(());
        }
        // What is read is in other places.
        run.bands.unit.set(&mut kept.output, units.len());
        let range = self.range(node.place, units, node.unit);
        match node.place {
            Place::Output(place) => {
                let memory = mem::take(&mut self.outputs[place]);
                let result = self.evaluate_to(run, index, units, &mut memory[range], (kept, parallel));
                self.outputs[place] = memory;
                result
            }
            Place::Slot(place) => {
                let memory = mem::take(&mut self.slots[place]);
                let result = self.evaluate_to(run, index, units, &mut memory[range], (kept, parallel));
                self.slots[place] = memory;
                result
            }
        }
    }

    /// Computes units of the node with this index, and writes them to `bytes`.
    fn evaluate_to(
        &self,
        run: &Run<'_>,
        index: usize,
        units: &Range<usize>,
        bytes: &mut [u8],
        (kept, parallel): (&mut KeptNode, &dyn Parallel),
    ) -> Result<(), OpError> {
        let (node, KeptNode { cache, inputs: shapes, output, lists, .. }) = (&run.bands.nodes[index], kept);
        let (mut inputs, mut outputs) = lists.take();
        let mut band = run.bands.band(units);
        for (input, shape) in shapes.iter_mut().enumerate() {
            let Some(id) = run.graph.node(node.id).inputs[input] else {
                inputs.push(None);
                continue;
            };
            let tensor = match node.makers[input] {
                Some(maker) => {
                    run.bands.unit.set(shape, units.len());
                    let (fact, made) = (run.graph.fact(id), &run.bands.nodes[maker]);
                    let bytes = &self.read(made.place)[self.range(made.place, units, made.unit)];
                    let (data_type, quantization) = (fact.data_type, fact.quantization.as_ref());
                    TensorRef { data_type, shape, bytes, quantization, is_constant: false }
                }
                None => {
                    let tensor = run.readable.tensor(run.graph, id);
                    let tensor = tensor.ok_or_else(|| OpError::unsupported("an input has no value"))?;
                    run.bands.read(tensor, node.uses[input], units, &mut band, shape)
                }
            };
            inputs.push(Some(tensor));
        }
        let fact = run.graph.fact(run.graph.node(node.id).outputs[0]);
        let (data_type, quantization) = (fact.data_type, fact.quantization.as_ref());
        outputs.push(TensorMut { data_type, shape: output, bytes, quantization });
        let mut host = BandHost { band, rounding: run.rounding };
        let mut eval = Eval { inputs, outputs, cache, parallel, host: &mut host };
        let op = &run.graph.node(node.id).op;
        let result = match node.share {
            Share::TimesLogistic(input) => op.eval_times_logistic(&mut eval, input),
            Share::Own | Share::Nothing => op.eval(&mut eval),
        };
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

impl UnitKind {
    /// Makes a shape that of so many units of an image: of rows, or of one row with so many pixels.
    fn set(self, shape: &mut Shape, units: usize) {
        let [_, _, width, channels] = shape[..] else { return };
        let [rows, columns] = if self == UnitKind::Pixel { [1, units] } else { [units, width] };
        if shape[1..3] != [rows, columns] {
            *shape = Shape::from([1, rows, columns, channels]);
        }
    }
}

impl Bands {
    /// Returns the band of these units for operators that read no windows.
    fn band(&self, units: &Range<usize>) -> Band {
        Band { rows: if self.unit == UnitKind::Pixel { 1 } else { units.len() }, before: 0, first: 0 }
    }

    /// Returns what of an input from outside of the group is read for these units, whose shape is set in `shape`. `band`
    /// becomes that of windows if it is read by windows.
    fn read<'t>(
        &self,
        tensor: TensorRef<'t>,
        usage: RowUse,
        units: &Range<usize>,
        band: &mut Band,
        shape: &'t mut Shape,
    ) -> TensorRef<'t> {
        let [_, height, width, channels] = tensor.shape[..] else { return tensor };
        let (read, count) = match (usage, self.unit) {
            (RowUse::Whole, _) => return tensor,
            (RowUse::Window { .. }, unit) => {
                let per_row = if unit == UnitKind::Pixel { self.columns } else { 1 };
                let rows = units.start / per_row..units.end.div_ceil(per_row);
                let (read, before) = usage.read(&rows, height);
                *band = Band { rows: rows.len(), before, first: units.start % per_row };
                *shape = Shape::from([1, read.len(), width, channels]);
                (read, height)
            }
            (RowUse::Same | RowUse::Pixels, unit) => {
                unit.set(shape, units.len());
                (units.clone(), if unit == UnitKind::Pixel { height * width } else { height })
            }
        };
        let size = tensor.bytes.len() / count;
        TensorRef { bytes: &tensor.bytes[read.start * size..read.end * size], shape, ..tensor }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bands(unit: UnitKind, [rows, columns]: [usize; 2], nanoseconds: f64) -> Bands {
        let units = if unit == UnitKind::Pixel { rows * columns } else { rows };
        let (slots, outputs) = (vec![100], Vec::new());
        Bands { nodes: Vec::new(), outputs, unit, units, slots, made: 100, nanoseconds, whole: 0, columns }
    }

    #[test]
    fn parts_have_every_unit_once_and_whole_rows_where_these_are_many() {
        let pool = attache_base::Pool::new(4);
        for (unit, extents, nanoseconds) in [
            (UnitKind::Row, [17, 17], 1e6),
            (UnitKind::Pixel, [17, 17], 1e6),
            (UnitKind::Pixel, [200, 30], 1e6),
            (UnitKind::Pixel, [3, 2], 1e6),
            (UnitKind::Pixel, [1000, 5], 1e6),
            (UnitKind::Pixel, [300, 90], 1e8),
            (UnitKind::Pixel, [20, 90], 1e8),
            (UnitKind::Row, [90, 90], 1e8),
        ] {
            let bands = bands(unit, extents, nanoseconds);
            let division = Division::new(&bands, &pool);
            let grains = division.grains(bands.units, &pool);
            let part =
                |index: usize| grains.range(index).start * division.grain..grains.range(index).end * division.grain;
            let parts: Vec<_> = (0..grains.parts()).map(part).collect();
            assert_eq!(parts.len(), division.parts);
            let ends: Vec<usize> = [0].into_iter().chain(parts.iter().map(|part| part.end)).collect();
            assert_eq!(parts.iter().map(|part| part.start).collect::<Vec<_>>(), ends[..parts.len()]);
            assert_eq!(ends.last(), Some(&bands.units));
            let longest = parts.iter().map(|part| part.len()).max().unwrap();
            let whole = parts.iter().all(|part| part.start % extents[1] == 0);
            match unit {
                UnitKind::Pixel if extents[0] / parts.len() >= WHOLE_ROWS => assert!(whole, "{extents:?}"),
                _ => assert!(longest <= bands.units.div_ceil(parts.len().min(4)), "{extents:?}"),
            }
            assert_eq!(division.band % division.grain, 0);
        }
    }

    #[test]
    fn a_band_of_pixels_reads_the_rows_of_their_windows() {
        let bands = bands(UnitKind::Pixel, [5, 4], 1e3);
        let (fact, bytes) = (Shape::from([1, 5, 4, 2]), vec![0; 40]);
        let tensor = TensorRef {
            data_type: attache_base::DataType::Int8,
            shape: &fact,
            bytes: &bytes,
            quantization: None,
            is_constant: false,
        };
        let read = |usage, units: Range<usize>| {
            let (mut band, mut shape) = (bands.band(&units), fact.clone());
            let read = bands.read(tensor, usage, &units, &mut band, &mut shape);
            let first = read.bytes.as_ptr().addr() - bytes.as_ptr().addr();
            (first, read.bytes.len(), read.shape.to_vec(), band)
        };
        let window = RowUse::Window { size: 3, stride: 1, before: 1, in_parts: true };
        let band = Band { rows: 2, before: 0, first: 2 };
        assert_eq!(read(window, 6..10), (0, 32, vec![1, 4, 4, 2], band), "pixels of rows 1 and 2 read rows 0 to 3");
        let band = Band { rows: 1, before: 1, first: 0 };
        assert_eq!(read(window, 0..4), (0, 16, vec![1, 2, 4, 2], band));
        let band = Band { rows: 1, before: 0, first: 0 };
        assert_eq!(read(RowUse::Pixels, 6..10), (12, 8, vec![1, 1, 4, 2], band));
        assert_eq!(read(RowUse::Whole, 6..10), (0, 40, vec![1, 5, 4, 2], band));
    }
}
