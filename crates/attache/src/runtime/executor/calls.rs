//! Values that are passed to an executor and from it without a copy: those of a subgraph that another one calls, and those
//! that the caller of the interpreter carries over from one run to the next.

use std::collections::BTreeSet;

use attache_base::{Parallel, SharedBuffer};
use attache_graph::{Graph, PassedTensor};

use super::{Executor, RunQueue, Step, Subgraphs};
use crate::{Error, ErrorKind};

/// Inputs and outputs of the graph that were carried over.
#[derive(Clone, Default)]
pub(super) struct Carried {
    /// Inputs whose values the next run uses up.
    next: BTreeSet<usize>,
    /// Inputs without a value, because a run has used up what was carried to them.
    used_up: BTreeSet<usize>,
    /// Outputs whose values were carried away.
    given: BTreeSet<usize>,
}

/// The values of the inputs that the next run uses up.
pub(crate) type CarriedValues = Vec<(usize, Option<SharedBuffer>)>;

impl Carried {
    /// Notes that the caller has written an input.
    pub(super) fn written(&mut self, input: usize) {
        self.next.remove(&input);
        self.used_up.remove(&input);
    }

    pub(super) fn is_given(&self, output: usize) -> bool {
        self.given.contains(&output)
    }

    /// Notes that `times` runs start. Fails if an input has no value for one of them.
    pub(super) fn start(&mut self, graph: &Graph, times: usize) -> Result<(), Error> {
        let again = if times > 1 { self.next.first() } else { None };
        if let Some(input) = self.used_up.first().or(again) {
            let name = &graph.tensor(graph.inputs[*input]).name;
            return Err(Error::usage(format!(
                "input {input} (\"{name}\") has no value: one run uses up what was carried to it; carry an output to it \
                before each run, or write it"
            )));
        }
        self.used_up = std::mem::take(&mut self.next);
        self.given.clear();
        Ok(())
    }
}

impl Executor {
    /// Runs the subgraph once on these inputs, for an operator of another one, and returns the outputs. It keeps none of
    /// the values.
    pub(crate) fn call(
        &mut self,
        inputs: Vec<PassedTensor>,
        parallel: &dyn Parallel,
        environment: &mut dyn Subgraphs,
    ) -> Result<Vec<PassedTensor>, Error> {
        let set = inputs.into_iter().enumerate().try_for_each(|(index, input)| {
            environment.note_copied(self.set_input(index, input)?);
            Ok(())
        });
        let outputs = set.and_then(|()| self.run_with(parallel, environment));
        let outputs = outputs.and_then(|()| self.pass_outputs(environment));
        self.memory.clear_all();
        outputs
    }

    fn pass_outputs(&mut self, environment: &mut dyn Subgraphs) -> Result<Vec<PassedTensor>, Error> {
        let mut outputs = Vec::with_capacity(self.prepared.graph.outputs.len());
        for index in 0..self.prepared.graph.outputs.len() {
            let missing = || Error::new(ErrorKind::Unsupported, format!("output {index} of a subgraph has no value"));
            let (output, copied) = self.pass_output(index)?.ok_or_else(missing)?;
            environment.note_copied(copied);
            outputs.push(output);
        }
        Ok(outputs)
    }

    /// Gives an input a value. Returns the number of bytes that were copied.
    fn set_input(&mut self, index: usize, input: PassedTensor) -> Result<usize, Error> {
        if self.run_queue.is_some() {
            self.write(index, &input.bytes)?;
            return Ok(input.bytes.len());
        }
        let wrong = || Error::new(ErrorKind::Model, format!("input {index} of a subgraph does not fit"));
        let id = *self.prepared.graph.inputs.get(index).ok_or_else(wrong)?;
        self.memory.set(id, input.shape, input.bytes).map_err(|_| wrong())
    }

    /// Takes the value of an output, which has none afterwards if no other output is the same tensor, and returns the
    /// number of bytes that were copied; `None` if the output has no value.
    fn pass_output(&mut self, output: usize) -> Result<Option<(PassedTensor, usize)>, Error> {
        let no_memory =
            |error: &dyn std::fmt::Display| Error::new(ErrorKind::OutOfMemory, format!("an output: {error}"));
        let graph = &self.prepared.graph;
        let id = graph.outputs[output];
        if self.run_queue.is_some() {
            let Some((shape, bytes)) = self.output(output)? else { return Ok(None) };
            let bytes = SharedBuffer::copied(bytes).map_err(|error| no_memory(&error))?;
            let (data_type, size) = (graph.fact(id).data_type, bytes.len());
            return Ok(Some((PassedTensor { data_type, shape: shape.clone(), bytes }, size)));
        }
        if self.output_size(output).is_none() {
            return Ok(None);
        }
        self.memory.pass(graph, id, self.prepared.plan.sole_outputs[output]).map_err(|error| no_memory(&error))
    }

    /// Takes the value of an output for another run, and returns the number of bytes that were copied; `None` if the
    /// output has no value.
    pub(crate) fn give_output(&mut self, output: usize) -> Result<Option<(PassedTensor, usize)>, Error> {
        let given = self.pass_output(output)?;
        if given.is_some() {
            self.carried.given.insert(output);
        }
        Ok(given)
    }

    /// Gives an input a value that the next run uses up. Returns the number of bytes that were copied.
    pub(crate) fn carry_input(&mut self, input: usize, value: PassedTensor) -> Result<usize, Error> {
        self.bound.written(input);
        let copied = self.set_input(input, value)?;
        self.memory.use_up(self.prepared.graph.inputs[input]);
        self.carried.written(input);
        self.carried.next.insert(input);
        Ok(copied)
    }

    /// Gives an input of the next run the value of an output of the last one where it is on the device. Returns the number of
    /// bytes that were copied, or `None` if that cannot be, for instance because the CPU runs a part of the graph.
    pub(crate) fn carry_on_device(&mut self, output: usize, input: usize) -> Result<Option<usize>, Error> {
        let graph = &self.prepared.graph;
        let is_sole = graph.inputs.iter().filter(|id| **id == graph.inputs[input]).count() == 1;
        let (Some(run_queue), [Step::Partition(partition)]) = (&mut self.run_queue, &mut self.steps[..]) else {
            return Ok(None);
        };
        let (Some((slot, from)), Some(to)) = (run_queue.output_slot(output), run_queue.partition_input(input)) else {
            return Ok(None);
        };
        if !self.stays || !is_sole {
            return Ok(None);
        }
        if !partition.kernel.carry(slot, from, to).map_err(|error| partition.failed(&error))? {
            return Ok(None);
        }
        // The first value comes from the host, which has read it after the run.
        let is_first = !run_queue.is_carried(to);
        let copied = if is_first { graph.fact(graph.inputs[input]).byte_size().unwrap_or(0) } else { 0 };
        if is_first {
            run_queue.set_carried(to, true);
        }
        self.carried.given.insert(output);
        self.carried.written(input);
        self.carried.next.insert(input);
        Ok(Some(copied))
    }

    /// Whether runs read an input where the one before has left an output, on a device.
    fn is_carried_on_device(&self, input: usize) -> bool {
        let is_carried = |queue: &RunQueue| queue.partition_input(input).is_some_and(|index| queue.is_carried(index));
        self.run_queue.as_ref().is_some_and(is_carried)
    }

    /// Makes runs read an input that an output is carried to on the device from host memory again, if it is one. The arena
    /// gets the value of the input if `is_kept` is true and a run has not used it up.
    pub(super) fn end_carry(&mut self, input: usize, is_kept: bool) -> Result<(), Error> {
        let Self { prepared, steps, memory, run_queue, carried, .. } = self;
        let (Some(run_queue), [Step::Partition(partition)]) = (run_queue, &mut steps[..]) else { return Ok(()) };
        let Some(index) = run_queue.partition_input(input).filter(|index| run_queue.is_carried(*index)) else {
            return Ok(());
        };
        let is_kept = is_kept && carried.next.contains(&input);
        let value = memory.bytes_mut(prepared.graph.inputs[input]).filter(|_| is_kept);
        let ended = partition.kernel.end_carry(index, value).map_err(|error| partition.failed(&error));
        run_queue.set_carried(index, false);
        ended
    }

    /// Returns the values of the inputs that the next run uses up, so that they can be restored after it has failed.
    pub(crate) fn carried_values(&self) -> CarriedValues {
        let value = |input: &usize| (*input, self.memory.shared(self.prepared.graph.inputs[*input]));
        self.carried.next.iter().map(value).collect()
    }

    /// Restores the values that [`Executor::carried_values`] returned. A run that has started may have changed those that are
    /// on a device, which stay used up.
    pub(crate) fn restore_carried(&mut self, values: CarriedValues) {
        for (input, value) in values {
            if self.carried.used_up.contains(&input) && self.is_carried_on_device(input) {
                continue;
            }
            let id = self.prepared.graph.inputs[input];
            if let (Some(value), Some(shape)) = (value, &self.prepared.graph.fact(id).shape) {
                drop(self.memory.set(id, shape.clone(), value));
                self.memory.use_up(id);
            }
            self.carried.written(input);
            self.carried.next.insert(input);
        }
    }

    /// Notes which inputs of equal shape have in `other` a value for one run, or none any more.
    pub(super) fn keep_carried_of(&mut self, other: &Self) {
        let (graph, before) = (&self.prepared.graph, &other.prepared.graph);
        let stays = |input: &usize| graph.fact(graph.inputs[*input]).shape == before.fact(before.inputs[*input]).shape;
        self.carried.next = other.carried.next.iter().copied().filter(stays).collect();
        self.carried.used_up = other.carried.used_up.iter().copied().filter(stays).collect();
        self.carried.next.iter().for_each(|input| self.memory.use_up(graph.inputs[*input]));
    }
}
