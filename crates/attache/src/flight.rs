//! Runs under way, where one delegate has the whole graph and its kernel is a queue.
//!
//! Inputs live in the arena. One that is written goes to the slot of the next run at the same time, where that is free;
//! else a slot gets those that changed since it last had them, at the latest when its run starts.
//! Outputs stay where the device left them. A slot whose run nobody waited for yet is only taken when there is no other.

use attache_base::{copy, copy_to_all};
use attache_graph::{Graph, TensorId};

use crate::assign::Delegated;
use crate::memory::Memory;
use crate::{DelegateError, DelegateQueue, Error};

/// A run that was started by [`Interpreter::invoke_async`](crate::Interpreter::invoke_async).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run(pub(crate) u64);

impl Run {
    /// One that is waited for at once.
    pub(crate) const UNCOUNTED: Self = Self(0);
}

/// A slot of the queue.
#[derive(Clone, Default)]
struct Slot {
    /// The version of each input that it has.
    inputs: Vec<u64>,
    /// The run that is under way or was not waited for.
    run: Option<Run>,
}

/// Runs under way.
pub(crate) struct Flight {
    /// For each input of the graph its place among the island's; for each output likewise.
    inputs: Vec<Option<usize>>,
    outputs: Vec<Option<usize>>,
    /// How often each of the island's inputs was touched.
    versions: Vec<u64>,
    slots: Vec<Slot>,
    /// The slot that was used last.
    last: usize,
    /// The slot whose run was waited for last, and that run.
    shown: Option<(usize, Run)>,
}

impl Flight {
    /// Of an island that is all there is to run; `None` where its kernel is no queue, or where anything but the island's
    /// own tensors would cross.
    pub(crate) fn new(graph: &Graph, island: &Delegated) -> Option<Self> {
        let slots = island.kernel.queue()?.slots();
        let is_input = |id: &TensorId| graph.inputs.contains(id) && !graph.fact(*id).is_variable;
        let is_made = |id: &TensorId| island.outputs.contains(id) || graph.fact(*id).constant.is_some();
        if slots == 0 || !island.inputs.iter().all(is_input) || !graph.outputs.iter().all(is_made) {
            return None;
        }
        let places = |ids: &[TensorId], among: &[TensorId]| {
            ids.iter().map(|id| among.iter().position(|other| other == id)).collect()
        };
        let count = island.inputs.len();
        Some(Self {
            inputs: places(&graph.inputs, &island.inputs),
            outputs: places(&graph.outputs, &island.outputs),
            versions: vec![1; count],
            slots: vec![Slot { inputs: vec![0; count], run: None }; slots],
            last: 0,
            shown: None,
        })
    }

    /// How many runs may be under way at once.
    pub(crate) fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Notes that an input of the graph changes.
    pub(crate) fn touch(&mut self, input: usize) {
        if let Some(Some(place)) = self.inputs.get(input) {
            self.versions[*place] += 1;
        }
    }

    /// The slot for the next run: the last one where it is free, else another free one, else that of the oldest run.
    fn next(&self) -> usize {
        let count = self.slots.len();
        let in_turn = || (0..count).map(|step| (self.last + step) % count);
        let free = in_turn().find(|slot| self.slots[*slot].run.is_none());
        free.or_else(|| in_turn().min_by_key(|slot| self.slots[*slot].run.map(|run| run.0))).unwrap_or(self.last)
    }

    /// Whether every slot has a run that nobody waited for.
    pub(crate) fn is_full(&self) -> bool {
        self.slots[self.next()].run.is_some()
    }

    /// Sets an input of the graph, in the next slot too where that means no wait: before a run is asked for, there is time.
    /// What fails there fails again at the run.
    pub(crate) fn write(
        &mut self,
        (input, bytes): (usize, &[u8]),
        graph: &Graph,
        memory: &mut Memory,
        island: &mut Delegated,
    ) {
        self.touch(input);
        let Some(kept) = memory.bytes_mut(graph.inputs[input]) else { return };
        let (slot, fits) = (self.next(), kept.len());
        let place = self.inputs[input].filter(|_| !self.is_full());
        let there = place.and_then(|place| {
            let memory = island.kernel.queue_mut()?.input_mut(slot, place).ok()??;
            (memory.len() == fits).then_some((place, memory))
        });
        match there {
            Some((place, there)) => {
                copy_to_all([kept, there], bytes);
                self.slots[slot].inputs[place] = self.versions[place];
            }
            None => copy(kept, bytes),
        }
        drop(self.prefetch(graph, memory, island));
    }

    /// Hands the next slot what changed, where that means no wait.
    fn prefetch(&mut self, graph: &Graph, memory: &Memory, island: &mut Delegated) -> Result<(), Error> {
        if self.is_full() { Ok(()) } else { self.hand_over(self.next(), graph, memory, island) }
    }

    fn hand_over(&mut self, slot: usize, graph: &Graph, memory: &Memory, island: &mut Delegated) -> Result<(), Error> {
        for (place, id) in island.inputs.iter().enumerate() {
            let known = &mut self.slots[slot].inputs[place];
            if *known != self.versions[place] {
                let missing = || DelegateError::new("a tensor that crosses to it has no value");
                let written = memory.tensor(graph, *id).ok_or_else(missing);
                let queue = queue(&mut *island.kernel)?;
                let written = written.and_then(|(_, bytes)| queue.write(slot, place, bytes));
                written.map_err(|error| Error::delegate(&island.delegate, &error))?;
                *known = self.versions[place];
            }
        }
        Ok(())
    }

    /// Starts a run, `times` over, on the inputs as they are. Where the queue is full, the oldest run is given up.
    pub(crate) fn start(
        &mut self,
        (run, times): (Run, usize),
        graph: &Graph,
        memory: &Memory,
        island: &mut Delegated,
    ) -> Result<(), Error> {
        let slot = self.next();
        self.slots[slot].run = None;
        self.shown = self.shown.filter(|(shown, _)| *shown != slot);
        self.hand_over(slot, graph, memory, island)?;
        let queue = queue(&mut *island.kernel)?;
        queue.submit(slot, times).map_err(|error| Error::delegate(&island.delegate, &error))?;
        self.last = slot;
        self.slots[slot].run = Some(run);
        Ok(())
    }

    /// Waits for a run, whose outputs are those that are read from now on.
    pub(crate) fn wait(&mut self, run: Run, island: &mut Delegated) -> Result<(), Error> {
        let Some(slot) = self.slots.iter().position(|slot| slot.run == Some(run)) else {
            let is_shown = self.shown.is_some_and(|(_, shown)| shown == run);
            return if is_shown { Ok(()) } else { Err(gone(run)) };
        };
        let waited = queue(&mut *island.kernel)?.wait(slot);
        self.slots[slot].run = None;
        waited.map_err(|error| Error::delegate(&island.delegate, &error))?;
        self.shown = Some((slot, run));
        Ok(())
    }

    /// Whether an output of the graph is the island's, rather than a constant.
    pub(crate) fn makes(&self, output: usize) -> bool {
        self.outputs.get(output).is_some_and(Option::is_some)
    }

    /// The bytes of an output, of the run that was waited for last, once they are there.
    pub(crate) fn output<'a>(
        &self,
        output: usize,
        size: usize,
        island: &'a Delegated,
    ) -> Result<Option<&'a [u8]>, Error> {
        let Some((queue, slot, place)) = self.shown(output, island) else { return Ok(None) };
        let bytes = queue.output(slot, place, size).map_err(|error| Error::delegate(&island.delegate, &error))?;
        Ok(bytes.and_then(|bytes| bytes.get(..size)))
    }

    /// Copies an output, of the run that was waited for last; false where there is none.
    pub(crate) fn read(&self, output: usize, into: &mut [u8], island: &Delegated) -> Result<bool, Error> {
        let Some((queue, slot, place)) = self.shown(output, island) else { return Ok(false) };
        queue.read(slot, place, into).map_err(|error| Error::delegate(&island.delegate, &error))
    }

    fn shown<'a>(&self, output: usize, island: &'a Delegated) -> Option<(&'a dyn DelegateQueue, usize, usize)> {
        Some((island.kernel.queue()?, self.shown?.0, (*self.outputs.get(output)?)?))
    }
}

/// The error of a run that nobody can wait for any more.
pub(crate) fn gone(run: Run) -> Error {
    let remedy = "wait for runs before as many others are started as may be under way, and before inputs are resized";
    Error::usage(format!("the outputs of run {} are gone: {remedy}", run.0))
}

/// A kernel that was a queue when it was asked first.
fn queue(kernel: &mut dyn crate::DelegateKernel) -> Result<&mut dyn DelegateQueue, Error> {
    kernel.queue_mut().ok_or_else(|| Error::usage("a delegate's kernel is no queue any more"))
}
