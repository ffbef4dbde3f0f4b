//! The run queue ([`RunQueue`]): the asynchronous runs of a graph that a single delegate partition runs as a
//! whole, if the delegate's kernel has slots for several runs (is a [`DelegateQueue`](crate::DelegateQueue)).
//!
//! Each slot has memory for the inputs and outputs of a run. In general, the caller writes inputs to the
//! arena, and before a run starts, its slot receives the inputs that changed since the slot last had them. As
//! an exception, if a slot is free and the kernel exposes the slot's memory, an input is written directly to
//! the slot of the next run and not to the arena. If it is then needed in the arena, it is read back from the
//! slot, and later writes of it go to both. Outputs stay in the memory that the device wrote. A slot whose
//! run was not waited for is reused only if no other slot is free.

use attache_base::{copy, copy_to_all};
use attache_graph::{Graph, TensorId};

use super::memory::Memory;
use crate::delegate::guard::RunEnd;
use crate::partition::assign::Delegated;
use crate::{DelegateError, Error};

/// Identifies a run of an interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RunId(pub(crate) u64);

impl RunId {
    /// Identifies every synchronous run. There is at most one, since it is waited for immediately.
    pub(crate) const UNCOUNTED: Self = Self(0);
}

/// Which memory contains the current value of one of the partition's inputs. Each written value has a
/// version.
#[derive(Clone)]
struct Input {
    /// Version of the current value; each write increments it.
    version: u64,
    /// Version of the value in the arena.
    arena_version: u64,
    /// Whether writes that go to a slot go to the arena as well.
    writes_arena: bool,
    /// Where runs read it.
    place: Place,
}

/// Where runs read an input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In their slots.
    Slots,
    /// In memory that the caller has bound it to.
    Bound,
    /// In memory of the device where runs leave the output that is carried to it.
    Carried,
}

impl Input {
    /// Records that the arena contains a new value of the input.
    fn touch(&mut self) {
        self.version += 1;
        self.arena_version = self.version;
    }
}

/// What a slot of the kernel's queue contains.
#[derive(Clone, Default)]
struct Slot {
    /// Version of the value of each of the partition's inputs in the slot; 0 before the first one.
    inputs: Vec<u64>,
    /// The run in the slot, from its start until it is waited for; `None` if the slot is free.
    run: Option<RunId>,
}

/// The run queue of a graph that is a single partition.
pub(crate) struct RunQueue {
    /// For each input of the graph, its index among the partition's inputs; `None` if the partition does not
    /// read it.
    inputs: Vec<Option<usize>>,
    /// For each output of the graph, its index among the partition's outputs; `None` if it is a constant.
    outputs: Vec<Option<usize>>,
    /// The state of each of the partition's inputs, in the partition's order.
    partition_inputs: Vec<Input>,
    /// For each of the partition's outputs, the output of the graph that was bound to memory; `None` if it is not bound.
    bound_outputs: Vec<Option<usize>>,
    slots: Vec<Slot>,
    /// Index of the slot of the run that was started last.
    last: usize,
    /// The run that was waited for last and the index of its slot, while its outputs can be read.
    waited: Option<(usize, RunId)>,
}

impl RunQueue {
    /// Creates the run queue of a partition that is the whole graph. `None` if its kernel has no slots, if it
    /// reads a tensor that is not an input of the graph, or if an output of the graph is neither the
    /// partition's nor a constant. With `writes_arena`, the arena always contains the current value of all
    /// inputs.
    pub(crate) fn new(graph: &Graph, partition: &Delegated, writes_arena: bool) -> Option<Self> {
        let slots = partition.kernel.slots();
        let is_input = |id: &TensorId| graph.inputs.contains(id) && !graph.fact(*id).is_variable;
        let is_made = |id: &TensorId| partition.outputs.contains(id) || graph.fact(*id).constant.is_some();
        if slots == 0 || !partition.inputs.iter().all(is_input) || !graph.outputs.iter().all(is_made) {
            return None;
        }
        let indices = |ids: &[TensorId], among: &[TensorId]| {
            ids.iter().map(|id| among.iter().position(|other| other == id)).collect()
        };
        let count = partition.inputs.len();
        Some(Self {
            inputs: indices(&graph.inputs, &partition.inputs),
            outputs: indices(&graph.outputs, &partition.outputs),
            partition_inputs: vec![Input { version: 1, arena_version: 1, writes_arena, place: Place::Slots }; count],
            bound_outputs: vec![None; partition.outputs.len()],
            slots: vec![Slot { inputs: vec![0; count], run: None }; slots],
            last: 0,
            waited: None,
        })
    }

    /// Returns the index of an input of the graph among the partition's inputs; `None` if the partition does not read it.
    pub(crate) fn partition_input(&self, input: usize) -> Option<usize> {
        *self.inputs.get(input)?
    }

    /// Returns the index of an output of the graph among the partition's outputs; `None` if it is a constant.
    pub(crate) fn partition_output(&self, output: usize) -> Option<usize> {
        *self.outputs.get(output)?
    }

    /// Whether an input of the graph is bound to memory.
    pub(crate) fn is_input_bound(&self, input: usize) -> bool {
        self.partition_input(input).is_some_and(|index| self.partition_inputs[index].place == Place::Bound)
    }

    /// Whether an output is carried to one of the partition's inputs on the device.
    pub(crate) fn is_carried(&self, index: usize) -> bool {
        self.partition_inputs[index].place == Place::Carried
    }

    /// Records whether an output is carried to one of the partition's inputs on the device. If not, the arena has its value.
    pub(crate) fn set_carried(&mut self, index: usize, is_carried: bool) {
        self.set_place(index, if is_carried { Place::Carried } else { Place::Slots });
        self.partition_inputs[index].touch();
    }

    /// Records whether one of the partition's inputs is bound. The arena has the value that it has otherwise.
    pub(crate) fn set_input_bound(&mut self, index: usize, is_bound: bool) {
        self.set_place(index, if is_bound { Place::Bound } else { Place::Slots });
    }

    fn set_place(&mut self, index: usize, place: Place) {
        self.partition_inputs[index].place = place;
        // Runs may have overwritten the input in their slots.
        self.slots.iter_mut().for_each(|slot| slot.inputs[index] = 0);
    }

    /// Returns the output of the graph as which one of the partition's outputs was bound; `None` if it is not bound.
    pub(crate) fn bound_output(&self, index: usize) -> Option<usize> {
        self.bound_outputs[index]
    }

    /// Records as which output of the graph one of the partition's outputs is bound.
    pub(crate) fn set_bound_output(&mut self, index: usize, output: Option<usize>) {
        self.bound_outputs[index] = output;
    }

    /// Returns the number of slots: of runs that can be in progress at the same time.
    pub(crate) fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Records that the caller is about to change an input of the graph in the arena, which must contain the
    /// current value of the input.
    pub(crate) fn touch(&mut self, input: usize) {
        if let Some(Some(index)) = self.inputs.get(input) {
            self.partition_inputs[*index].touch();
        }
    }

    /// Copies the current value of an input of the graph to the arena, if only a slot contains it.
    pub(crate) fn keep(
        &mut self,
        input: usize,
        graph: &Graph,
        memory: &mut Memory,
        partition: &mut Delegated,
    ) -> Result<(), Error> {
        match self.inputs.get(input) {
            Some(Some(index)) => self.keep_partition_input(*index, graph.inputs[input], memory, partition),
            _ => Ok(()),
        }
    }

    fn keep_partition_input(
        &mut self,
        index: usize,
        id: TensorId,
        memory: &mut Memory,
        partition: &mut Delegated,
    ) -> Result<(), Error> {
        let input = &mut self.partition_inputs[index];
        if input.arena_version == input.version {
            return Ok(());
        }
        let slot = self.slots.iter().position(|slot| slot.inputs[index] == input.version);
        let (slot, bytes) = slot.zip(memory.bytes_mut(id)).ok_or_else(|| Error::usage("an input has no value"))?;
        let read = partition.kernel.read_input(slot, index, bytes);
        read.map_err(|error| partition.failed(&error))?;
        (input.arena_version, input.writes_arena) = (input.version, true);
        Ok(())
    }

    /// Returns the index of the slot for the next run: that of the last run if it is free, else another free
    /// slot, else the slot with the oldest run.
    fn next(&self) -> usize {
        let count = self.slots.len();
        let in_turn = || (0..count).map(|step| (self.last + step) % count);
        let free = in_turn().find(|slot| self.slots[*slot].run.is_none());
        free.or_else(|| in_turn().min_by_key(|slot| self.slots[*slot].run.map(|run| run.0))).unwrap_or(self.last)
    }

    /// Whether no slot is free: every slot has a run that was not waited for.
    pub(crate) fn is_full(&self) -> bool {
        self.slots[self.next()].run.is_some()
    }

    /// Writes an input of the graph. If the slot of the next run is free, the value is transferred to it
    /// already here, so that the run starts without the delay of the transfer.
    pub(crate) fn write(
        &mut self,
        (input, bytes): (usize, &[u8]),
        graph: &Graph,
        memory: &mut Memory,
        partition: &mut Delegated,
    ) {
        let Some(arena) = memory.bytes_mut(graph.inputs[input]) else { return };
        let (slot, size) = (self.next(), arena.len());
        let there = self.inputs[input].filter(|_| !self.is_full()).and_then(|index| {
            let memory = partition.kernel.input_mut(slot, index).ok()??;
            (memory.len() == size).then_some((index, memory))
        });
        match there {
            Some((index, there)) => {
                let input = &mut self.partition_inputs[index];
                input.version += 1;
                match input.writes_arena {
                    true => {
                        copy_to_all([arena, there], bytes);
                        input.arena_version = input.version;
                    }
                    false => copy(there, bytes),
                }
                self.slots[slot].inputs[index] = input.version;
            }
            None => {
                copy(arena, bytes);
                self.touch(input);
            }
        }
        if !self.is_full() {
            // An error here is ignored: the same transfer fails again when the run starts.
            drop(self.hand_over(slot, |input| input.arena_version == input.version, graph, memory, partition));
        }
    }

    /// Copies to a slot the inputs whose current value it does not contain yet and for which `wanted` is
    /// true.
    fn hand_over(
        &mut self,
        slot: usize,
        wanted: impl Fn(&Input) -> bool,
        graph: &Graph,
        memory: &mut Memory,
        partition: &mut Delegated,
    ) -> Result<(), Error> {
        for index in 0..self.partition_inputs.len() {
            let version = self.partition_inputs[index].version;
            let input = &self.partition_inputs[index];
            if input.place != Place::Slots || self.slots[slot].inputs[index] == version || !wanted(input) {
                continue;
            }
            let id = partition.inputs[index];
            self.keep_partition_input(index, id, memory, partition)?;
            let no_value = || DelegateError::new("a tensor that crosses to it has no value");
            let written = memory.tensor(graph, id).ok_or_else(no_value);
            let written = written.and_then(|(_, bytes)| partition.kernel.write(slot, index, bytes));
            written.map_err(|error| partition.failed(&error))?;
            self.slots[slot].inputs[index] = version;
        }
        Ok(())
    }

    /// Starts `times` runs on the current inputs, under the single id `run`, and does not wait for them. The
    /// outputs are those of the last one. If no slot is free, discards the outputs of the oldest run.
    pub(crate) fn start(
        &mut self,
        (run, times): (RunId, usize),
        graph: &Graph,
        memory: &mut Memory,
        partition: &mut Delegated,
    ) -> Result<(), Error> {
        let slot = self.next();
        self.slots[slot].run = None;
        self.waited = self.waited.filter(|(other, _)| *other != slot);
        let handed_over = self.hand_over(slot, |_| true, graph, memory, partition);
        let submitted =
            handed_over.and_then(|()| partition.kernel.submit(slot, times).map_err(|error| partition.failed(&error)));
        submitted.inspect_err(|_| self.forget_outputs())?;
        self.last = slot;
        self.slots[slot].run = Some(run);
        Ok(())
    }

    /// Returns an object with which any thread can wait for a run; `None` if it was waited for, or its outputs were
    /// discarded.
    pub(crate) fn completion(&self, run: RunId, partition: &Delegated) -> Option<Result<RunEnd, Error>> {
        let slot = self.slots.iter().position(|slot| slot.run == Some(run))?;
        Some(partition.kernel.completion(slot).map_err(|error| partition.failed(&error)))
    }

    /// Waits for a run, so that [`read`](Self::read) and [`output`](Self::output) return its outputs from now
    /// on. Fails if its outputs have been discarded.
    pub(crate) fn wait(&mut self, run: RunId, partition: &mut Delegated) -> Result<(), Error> {
        let Some(slot) = self.slots.iter().position(|slot| slot.run == Some(run)) else {
            let was_waited_for = self.waited.is_some_and(|(_, other)| other == run);
            return if was_waited_for { Ok(()) } else { Err(gone(run)) };
        };
        let waited = partition.kernel.wait(slot);
        self.slots[slot].run = None;
        self.forget_outputs();
        waited.map_err(|error| partition.failed(&error))?;
        self.waited = Some((slot, run));
        Ok(())
    }

    /// Whether the run that was waited for last succeeded and its outputs are still available.
    pub(crate) fn has_outputs(&self) -> bool {
        self.waited.is_some()
    }

    /// Makes the outputs unavailable until another run is waited for.
    pub(crate) fn forget_outputs(&mut self) {
        self.waited = None;
    }

    /// Whether the partition computes this output of the graph. Otherwise the output is a constant.
    pub(crate) fn makes(&self, output: usize) -> bool {
        self.outputs.get(output).is_some_and(Option::is_some)
    }

    /// Returns the `size` bytes of an output of the run that was waited for last, after all of them have
    /// arrived from the device; `None` if no outputs are available.
    pub(crate) fn output<'a>(
        &self,
        output: usize,
        size: usize,
        partition: &'a Delegated,
    ) -> Result<Option<&'a [u8]>, Error> {
        let Some((slot, index)) = self.output_slot(output) else { return Ok(None) };
        let bytes = partition.kernel.output(slot, index, size).map_err(|error| partition.failed(&error))?;
        Ok(bytes.and_then(|bytes| bytes.get(..size)))
    }

    /// Copies the first `into.len()` bytes of an output of the run that was waited for last. Returns false if
    /// no outputs are available.
    pub(crate) fn read(&self, output: usize, into: &mut [u8], partition: &Delegated) -> Result<bool, Error> {
        let Some((slot, index)) = self.output_slot(output) else { return Ok(false) };
        partition.kernel.read(slot, index, into).map_err(|error| partition.failed(&error))
    }

    /// Returns the slot of the run that was waited for last, and the index of an output among the partition's
    /// outputs; `None` if no outputs are available or the output is a constant.
    pub(crate) fn output_slot(&self, output: usize) -> Option<(usize, usize)> {
        Some((self.waited?.0, (*self.outputs.get(output)?)?))
    }
}

/// Returns the error for waiting for a run whose outputs have been discarded.
pub(crate) fn gone(run: RunId) -> Error {
    let remedy = "wait for runs before as many others are started as may be under way, and before inputs are resized";
    Error::usage(format!("the outputs of run {} are gone: {remedy}", run.0))
}
