//! Inputs and outputs that are bound to memory on a device, where one partition is the whole graph.

use std::any::Any;
use std::sync::Arc;

use attache_graph::{Graph, TensorId};
use attache_model::ModelLocation;

use super::super::run_queue::RunQueue;
use super::{Executor, Step, variables};
use crate::partition::assign::Delegated;
use crate::{DelegateError, Error, ErrorKind, InputMemory, OutputMemory};

/// What the errors of this module begin with.
const RULE: &str = "inputs and outputs are bound where one delegate runs the whole graph";

/// The whole graph, as one partition with a queue.
struct Whole<'a> {
    graph: &'a Graph,
    run_queue: &'a mut RunQueue,
    partition: &'a mut Delegated,
}

/// The memory that inputs and outputs of the graph are bound to.
#[derive(Default)]
pub(super) struct Bound {
    inputs: Memories<dyn InputMemory>,
    outputs: Memories<dyn OutputMemory>,
}

/// The inputs or the outputs that are bound, each with its memory; `None` where it went when the shape changed.
struct Memories<T: ?Sized>(Vec<(usize, Option<Arc<T>>)>);

impl<T: ?Sized> Default for Memories<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: ?Sized> Memories<T> {
    fn set(&mut self, index: usize, memory: Option<Arc<T>>) {
        self.remove(index);
        self.0.push((index, memory));
    }

    fn remove(&mut self, index: usize) {
        self.0.retain(|(other, _)| *other != index);
    }

    /// Returns the indices of those whose memory went.
    fn gone(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter(|(_, memory)| memory.is_none()).map(|(index, _)| *index)
    }
}

impl Bound {
    /// Records that the caller has written an input.
    pub(super) fn written(&mut self, input: usize) {
        self.inputs.0.retain(|(index, memory)| *index != input || memory.is_some());
    }

    /// Fails if an input or output is to be bound again because its shape has changed.
    pub(super) fn check(&self, graph: &Graph) -> Result<(), Error> {
        let (what, index, id, remedy) = match (self.inputs.gone().min(), self.outputs.gone().min()) {
            (Some(input), _) => ("input", input, graph.inputs[input], "bind it again, or write or unbind it"),
            (_, Some(output)) => ("output", output, graph.outputs[output], "bind it again, or unbind it"),
            (None, None) => return Ok(()),
        };
        let name = &graph.tensors[id.index()].name;
        Err(Error::usage(format!("{what} {index} (\"{name}\") was bound before its shape changed; {remedy}")))
    }
}

impl Executor {
    /// Binds an input of the graph to memory on the device, or unbinds it.
    pub(crate) fn bind_input(&mut self, input: usize, memory: Option<Arc<dyn InputMemory>>) -> Result<(), Error> {
        if memory.is_none() && self.bound.inputs.gone().any(|gone| gone == input) {
            self.bound.inputs.remove(input);
            return Ok(());
        }
        if memory.is_some() {
            // The arena has the value when the input is unbound.
            self.keep_input(input)?;
        }
        let Whole { graph, run_queue, partition } = self.whole()?;
        let Some(index) = run_queue.partition_input(input) else {
            let unread = format!("input {input} has no memory: nothing reads it; leave it unbound");
            return if memory.is_some() { Err(Error::usage(unread)) } else { Ok(()) };
        };
        let id = graph.inputs[input];
        if memory.is_none() && !run_queue.is_input_bound(input) {
            return Ok(());
        }
        let bound = partition.kernel.bind_input(index, graph.fact(id), memory.as_deref().map(|memory| memory as _));
        bound.map_err(|error| partition.failed(&named(error, "input", input, graph, id)))?;
        run_queue.set_input_bound(index, memory.is_some());
        match memory {
            Some(memory) => self.bound.inputs.set(input, Some(memory)),
            None => self.bound.inputs.remove(input),
        }
        Ok(())
    }

    /// Binds an output of the graph to memory on the device, or unbinds it.
    pub(crate) fn bind_output(&mut self, output: usize, memory: Option<Arc<dyn OutputMemory>>) -> Result<(), Error> {
        if memory.is_none() && self.bound.outputs.gone().any(|gone| gone == output) {
            self.bound.outputs.remove(output);
            return Ok(());
        }
        if memory.is_some() {
            // Nothing is carried from the output any more.
            (0..self.prepared.graph.inputs.len()).try_for_each(|input| self.end_carry(input, true))?;
        }
        let Whole { graph, run_queue, partition } = self.whole()?;
        let id = graph.outputs[output];
        let Some(index) = run_queue.partition_output(output) else {
            let constant = format!("output {output} is a constant, which can be read and not bound");
            return if memory.is_some() { Err(Error::usage(constant)) } else { Ok(()) };
        };
        match run_queue.bound_output(index) {
            Some(other) if other != output => {
                let text = format!("output {output} is the same tensor as output {other}, which is bound");
                return if memory.is_some() { Err(Error::usage(text)) } else { Ok(()) };
            }
            None if memory.is_none() => return Ok(()),
            _ => {}
        }
        let bound = partition.kernel.bind_output(index, graph.fact(id), memory.as_deref().map(|memory| memory as _));
        bound.map_err(|error| partition.failed(&named(error, "output", output, graph, id)))?;
        run_queue.set_bound_output(index, memory.as_ref().map(|_| output));
        match memory {
            Some(memory) => self.bound.outputs.set(output, Some(memory)),
            None => self.bound.outputs.remove(output),
        }
        Ok(())
    }

    /// Returns pairs of an input and an output of the graph of which the second is the first with some elements replaced, as
    /// far as the delegate that runs the whole graph knows.
    pub(crate) fn updates(&mut self) -> Vec<[usize; 2]> {
        let Ok(Whole { graph, run_queue, partition }) = self.whole() else { return Vec::new() };
        let find = |count: usize, is: &dyn Fn(usize) -> bool| (0..count).find(|index| is(*index));
        let pair = |[input, output]: [usize; 2]| {
            let input = find(graph.inputs.len(), &|index| run_queue.partition_input(index) == Some(input))?;
            let output = find(graph.outputs.len(), &|index| run_queue.partition_output(index) == Some(output))?;
            Some([input, output])
        };
        partition.kernel.updates().into_iter().filter_map(pair).collect()
    }

    /// Binds the inputs and outputs that are bound in `other`, an executor of the same subgraph, if their
    /// shapes are equal. The others have to be bound again before the next run.
    pub(crate) fn keep_bindings_of(&mut self, other: &Self) -> Result<(), Error> {
        let (before, now) = (other.prepared.clone(), self.prepared.clone());
        let shape = |graph: &Graph, id: TensorId| graph.fact(id).shape.clone();
        let stays = |one, another| shape(&before.graph, one).is_some_and(|one| Some(one) == shape(&now.graph, another));
        // Outputs come first: an input may be bound only because an output that has its elements is.
        for (output, memory) in &other.bound.outputs.0 {
            match memory.clone().filter(|_| stays(before.graph.outputs[*output], now.graph.outputs[*output])) {
                Some(memory) => self.bind_output(*output, Some(memory))?,
                None => self.bound.outputs.set(*output, None),
            }
        }
        for (input, memory) in &other.bound.inputs.0 {
            match memory.clone().filter(|_| stays(before.graph.inputs[*input], now.graph.inputs[*input])) {
                Some(memory) => self.bind_input(*input, Some(memory))?,
                None => self.bound.inputs.set(*input, None),
            }
        }
        Ok(())
    }

    /// Adds the commands of a run to `commands`, whose type the delegate knows. Outputs have no value for the host
    /// afterwards.
    pub(crate) fn encode(&mut self, commands: &mut dyn Any) -> Result<(), Error> {
        self.bound.check(&self.prepared.graph)?;
        let Whole { graph, run_queue, partition } = self.whole()?;
        let unbound = (0..graph.inputs.len())
            .find(|input| run_queue.partition_input(*input).is_some() && !run_queue.is_input_bound(*input));
        if let Some(input) = unbound {
            let name = &graph.tensors[graph.inputs[input].index()].name;
            let remedy = "bind it, or use `invoke`, which submits by itself";
            return Err(Error::usage(format!("input {input} (\"{name}\") is not bound; {remedy}")));
        }
        partition.kernel.encode(commands).map_err(|error| partition.failed(&error))?;
        run_queue.forget_outputs();
        Ok(())
    }

    /// Whether an input of the graph is bound to memory on the device.
    pub(crate) fn is_input_bound(&self, input: usize) -> bool {
        self.run_queue.as_ref().is_some_and(|queue| queue.is_input_bound(input))
    }

    /// Whether an output of the graph is bound to memory on the device.
    pub(crate) fn is_output_bound(&self, output: usize) -> bool {
        self.run_queue.as_ref().is_some_and(|queue| {
            queue.partition_output(output).is_some_and(|index| queue.bound_output(index).is_some())
        })
    }

    /// Returns the partition that is the whole graph. Fails with the reasons why there is none.
    fn whole(&mut self) -> Result<Whole<'_>, Error> {
        if !matches!((&self.run_queue, &self.steps[..]), (Some(_), [Step::Partition(_)])) {
            return Err(self.not_whole());
        }
        match (&mut self.run_queue, &mut self.steps[..]) {
            (Some(run_queue), [Step::Partition(partition)]) => {
                Ok(Whole { graph: &self.prepared.graph, run_queue, partition })
            }
            _ => Err(Error::new(ErrorKind::Internal, RULE)),
        }
    }

    fn not_whole(&self) -> Error {
        let (subgraph, placement) = (self.prepared.subgraph, &self.prepared.placement);
        let left = placement.left_behind().map(|node| {
            let operator = Some((node.index, node.operator.clone()));
            let reason = node.reason.clone().unwrap_or_else(|| "there is no delegate".to_owned());
            (ModelLocation { subgraph: Some(subgraph), operator, tensor: None }, reason)
        });
        let mut left: Vec<_> = left.collect();
        if let [(_, reason)] = left.as_mut_slice() {
            *reason = format!("{RULE}; this operator runs on the CPU: {reason}");
        }
        let heading = format!("{RULE}; these operators run on the CPU");
        match (left.is_empty(), &self.steps[..]) {
            (false, _) => Error::list(ErrorKind::NotDelegated, &heading, left),
            (true, [Step::Partition(partition)]) => {
                let graph = &self.prepared.graph;
                let passed_on = graph.outputs.iter().position(|id| graph.inputs.contains(id));
                let why = match (variables(graph).next(), passed_on) {
                    (Some(_), _) => "this one has variables, which are in host memory".to_owned(),
                    (None, Some(output)) => format!("output {output} of this one is an input, which no run writes"),
                    (None, None) => format!("the delegate {} binds no memory", partition.delegate),
                };
                Error::new(ErrorKind::Unsupported, format!("{RULE}; {why}"))
            }
            (true, steps) => {
                Error::new(ErrorKind::NotDelegated, format!("{RULE}; this one is in {} partitions", steps.len()))
            }
        }
    }
}

/// Returns the error of a delegate with the input or output that it is about.
fn named(error: DelegateError, what: &str, index: usize, graph: &Graph, id: TensorId) -> DelegateError {
    let name = &graph.tensors[id.index()].name;
    DelegateError { reason: format!("{what} {index} (\"{name}\"): {}", error.reason), ..error }
}
