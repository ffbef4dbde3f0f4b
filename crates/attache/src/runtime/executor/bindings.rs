//! Inputs and outputs that are bound to memory on a device, where one partition is the whole graph.

use std::any::Any;

use attache_graph::{Graph, TensorId};
use attache_model::ModelLocation;

use super::super::run_queue::RunQueue;
use super::{Executor, Step, variables};
use crate::partition::assign::Delegated;
use crate::{DelegateError, Error, ErrorKind};

/// What the errors of this module begin with.
const RULE: &str = "inputs and outputs are bound where one delegate runs the whole graph";

/// The whole graph, as one partition with a queue.
struct Whole<'a> {
    graph: &'a Graph,
    run_queue: &'a mut RunQueue,
    partition: &'a mut Delegated,
}

impl Executor {
    /// Binds an input of the graph to memory on the device, or unbinds it.
    pub(crate) fn bind_input(&mut self, input: usize, memory: Option<&dyn Any>) -> Result<(), Error> {
        if memory.is_some() {
            // The arena has the value when the input is unbound.
            self.keep_input(input)?;
        }
        let Whole { graph, run_queue, partition } = self.whole()?;
        // An input that nothing reads has no memory.
        let Some(index) = run_queue.partition_input(input) else { return Ok(()) };
        let id = graph.inputs[input];
        let bound = partition.kernel.bind_input(index, graph.fact(id), memory);
        bound.map_err(|error| partition.failed(&named(error, "input", input, graph, id)))?;
        run_queue.set_input_bound(index, memory.is_some());
        Ok(())
    }

    /// Binds an output of the graph to memory on the device, or unbinds it.
    pub(crate) fn bind_output(&mut self, output: usize, memory: Option<&dyn Any>) -> Result<(), Error> {
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
            _ => {}
        }
        let bound = partition.kernel.bind_output(index, graph.fact(id), memory);
        bound.map_err(|error| partition.failed(&named(error, "output", output, graph, id)))?;
        run_queue.set_bound_output(index, memory.map(|_| output));
        Ok(())
    }

    /// Adds the commands of a run to `commands`, whose type the delegate knows. Outputs have no value for the host
    /// afterwards.
    pub(crate) fn encode(&mut self, commands: &mut dyn Any) -> Result<(), Error> {
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
                let why = match variables(&self.prepared.graph).next() {
                    Some(_) => "this one has variables, which are in host memory".to_owned(),
                    None => format!("the delegate {} binds no memory", partition.delegate),
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
