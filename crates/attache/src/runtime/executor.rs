//! The [`Executor`], which runs the steps of a prepared subgraph one after the other.
//!
//! Contract: outputs are unchanged until the next run. Inputs and variables are unchanged until they are
//! written. Shapes that are known only at run time are inferred in each run from the actual inputs, and these
//! tensors get buffers outside the arena.

mod bindings;
mod calls;

pub(crate) use calls::CarriedValues;

use std::mem;
use std::sync::Arc;

use attache_base::parallel::Succession;
use attache_base::{AlignedBuffer, Parallel, Serial, Shape, Stopwatch, copy};
use attache_graph::{Cache, Graph, Node, NodeId, OpError, TensorId, WorkingMemory};

#[cfg(not(attache_small))]
use super::few_threads::FewThreads;
use super::host::{NodeHost, Subgraphs, watch};
use super::memory::{Memory, writable};
use super::node::bands::{Kept, run_banded};
use super::node::by_reference::{Planned, Way, run_passing, run_reshape, run_update};
use super::node::{Lists, keep_states, run_node, run_resized};
use super::options::Options;
use super::prepare::{Prepared, PreparedStep, location};
use super::run_queue::{RunId, RunQueue, gone};
use crate::delegate::guard::RunEnd;
use crate::limits::require_memory;
use crate::partition::assign::Delegated;
use crate::partition::link::link;
use crate::{Error, ErrorKind, KernelProfile};

/// One step of a run.
enum Step {
    /// A node on the CPU. `cache` is its cache, and `working` the memory that its next run allocates.
    /// `runtime_shapes` are the shapes of inputs and outputs in the last run; `None` if all shapes are
    /// planned.
    Node { id: NodeId, way: Way, cache: Cache, working: WorkingMemory, runtime_shapes: Option<Vec<Shape>> },
    /// Nodes on the CPU that run together, those of the prepared step with the same index.
    Banded(Kept),
    /// A partition, which runs on a delegate.
    Partition(Delegated),
}

/// A prepared subgraph that can run in one interpreter: its steps and their memory.
pub(crate) struct Executor {
    prepared: Arc<Prepared>,
    steps: Vec<Step>,
    memory: Memory,
    /// The run queue, if the only step is a partition whose kernel has slots for several runs.
    run_queue: Option<RunQueue>,
    /// What inputs and outputs are bound to.
    bound: bindings::Bound,
    /// Inputs and outputs that were carried over from run to run.
    carried: calls::Carried,
    /// Whether the last run succeeded, so that the memory contains its outputs. Unused with a run queue.
    made: bool,
    /// Whether the memory is used by the CPU alone and stays as long as the program has no part in it: no delegate runs a
    /// part of the graph, and none that fails elsewhere makes the interpreter prepare everything again.
    is_fixed: bool,
    /// Whether values that are carried over may stay on a device: nothing else takes over from it.
    stays: bool,
    /// The milliseconds of each node on the CPU in the last run, in execution order; `None` if they are not
    /// recorded.
    times: Option<Vec<(NodeId, f64)>>,
    lists: Lists,
    #[cfg(not(attache_small))]
    few_threads: FewThreads,
}

impl Executor {
    /// Makes the kernels of the partitions, and allocates the memory of the plan.
    pub(crate) fn new(prepared: Arc<Prepared>, options: &Options) -> Result<Self, Error> {
        let graph = &prepared.graph;
        let mut memory = Memory::new(graph, &prepared.plan, &prepared.touched)?;
        if !prepared.is_called {
            memory.keep_inputs(graph)?;
        }
        let step = |step: &PreparedStep| match step {
            PreparedStep::Partition(partition) => Ok(Step::Partition(partition.delegated()?)),
            PreparedStep::Banded(bands) => Ok(Step::Banded(Kept::new(bands.working_memory(graph)))),
            PreparedStep::Node { id, cache, working } => {
                let node = graph.node(*id);
                let mut tensors = node.inputs.iter().flatten().chain(&node.outputs);
                let unknown = tensors.any(|id| memory.is_own(*id));
                let kept = if cache.is_empty() { working.kept } else { 0 };
                let working = WorkingMemory { kept, ..*working };
                Ok(Step::Node {
                    id: *id,
                    way: Way::of(node, &memory),
                    cache: Cache::new(cache.clone()),
                    working,
                    runtime_shapes: unknown.then(Vec::new),
                })
            }
        };
        let mut steps: Vec<Step> = prepared.steps.iter().map(step).collect::<Result<_, Error>>()?;
        let partitions = steps.iter_mut().filter_map(|step| match step {
            Step::Partition(partition) => Some(partition),
            Step::Node { .. } | Step::Banded(_) => None,
        });
        link(graph, &mut partitions.collect::<Vec<_>>(), &prepared.on_host);
        let run_queue = match &steps[..] {
            // With the CPU fallback, the arena must contain the inputs when the device is lost.
            [Step::Partition(partition)] => RunQueue::new(graph, partition, options.cpu_fallback),
            _ => None,
        };
        let times = options.profile.then(Vec::new);
        let (bound, carried, lists) = Default::default();
        let is_replaced = options.cpu_fallback && !options.delegates.is_empty();
        let is_fixed = !is_replaced && !steps.iter().any(|step| matches!(step, Step::Partition(_)));
        let (made, stays) = (false, !is_replaced);
        let mut executor = Self {
            prepared,
            steps,
            memory,
            run_queue,
            bound,
            carried,
            made,
            is_fixed,
            stays,
            times,
            lists,
            #[cfg(not(attache_small))]
            few_threads: FewThreads::default(),
        };
        executor.reset_variables();
        Ok(executor)
    }

    /// Returns what the interpreters of the subgraph have in common.
    pub(crate) fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }

    /// Returns the graph whose steps run.
    pub(crate) fn graph(&self) -> &Graph {
        &self.prepared.graph
    }

    /// Returns the bytes of an input in the arena, for reading and writing; `None` if there is no such input.
    pub(crate) fn input_mut(&mut self, input: usize) -> Result<Option<&mut [u8]>, Error> {
        self.keep_input(input)?;
        self.bound.written(input);
        self.carried.written(input);
        if let Some(run_queue) = &mut self.run_queue {
            run_queue.touch(input);
        }
        let graph = &self.prepared.graph;
        let Some(id) = graph.inputs.get(input) else { return Ok(None) };
        self.memory.input_mut(graph, *id)
    }

    /// Copies the value of an input to the arena if only the memory of the device contains it. Required
    /// before [`Executor::keep_values_of`], which reads the arena.
    pub(crate) fn keep_input(&mut self, input: usize) -> Result<(), Error> {
        self.end_carry(input, true)?;
        let Self { prepared, steps, memory, run_queue, .. } = self;
        let graph = &prepared.graph;
        match (run_queue, &mut steps[..]) {
            (Some(run_queue), [Step::Partition(partition)]) => run_queue.keep(input, graph, memory, partition),
            _ => Ok(()),
        }
    }

    /// Returns the size of an input in bytes; `None` if there is no such input.
    pub(crate) fn input_size(&self, input: usize) -> Option<usize> {
        let id = *self.prepared.graph.inputs.get(input)?;
        if self.memory.is_passed(id) {
            return self.prepared.graph.fact(id).byte_size();
        }
        self.memory.tensor(&self.prepared.graph, id).map(|(_, bytes)| bytes.len())
    }

    /// Writes an input, to host memory or directly to the memory of the device. `bytes` must have the size of
    /// the input, unless it is one of strings.
    pub(crate) fn write(&mut self, input: usize, bytes: &[u8]) -> Result<(), Error> {
        self.end_carry(input, false)?;
        self.bound.written(input);
        self.carried.written(input);
        let Self { prepared, steps, memory, run_queue, .. } = self;
        let graph = &prepared.graph;
        match (run_queue, &mut steps[..]) {
            (Some(run_queue), [Step::Partition(partition)]) => {
                run_queue.write((input, bytes), graph, memory, partition);
                Ok(())
            }
            _ => memory.write_input(graph, graph.inputs[input], bytes),
        }
    }

    /// Returns an error if an input of this size is larger than the limits allow.
    pub(crate) fn check_size(&self, size: usize) -> Result<(), Error> {
        let checked = self.prepared.plan.limits.check_size(size);
        checked.map_err(|error| Error::new(ErrorKind::LimitExceeded, error.to_string()))
    }

    /// Returns the shape and the size in bytes of an output; `None` if the output has no value.
    pub(crate) fn output_size(&self, output: usize) -> Option<(&Shape, usize)> {
        if !self.has_outputs() || self.carried.is_given(output) {
            return None;
        }
        let id = *self.prepared.graph.outputs.get(output)?;
        let fact = self.prepared.graph.fact(id);
        match self.maker(output) {
            Some(_) => Some((fact.shape.as_ref()?, fact.byte_size()?)),
            None => self.memory.tensor(&self.prepared.graph, id).map(|(shape, bytes)| (shape, bytes.len())),
        }
    }

    /// Returns the shape and the bytes of an output, after all of them have arrived from the device; `None`
    /// if the output has no value.
    pub(crate) fn output(&self, output: usize) -> Result<Option<(&Shape, &[u8])>, Error> {
        let Some((shape, size)) = self.output_size(output) else { return Ok(None) };
        let bytes = match self.maker(output) {
            Some((run_queue, partition)) => run_queue.output(output, size, partition)?,
            None => {
                self.memory.tensor(&self.prepared.graph, self.prepared.graph.outputs[output]).map(|(_, bytes)| bytes)
            }
        };
        Ok(bytes.map(|bytes| (shape, bytes)))
    }

    /// Copies an output into `into`, which must have the size of the output. Returns false if the output has
    /// no value.
    pub(crate) fn read(&self, output: usize, into: &mut [u8]) -> Result<bool, Error> {
        if let Some((run_queue, partition)) = self.maker(output) {
            return run_queue.read(output, into, partition);
        }
        let made = self.output(output)?;
        made.iter().for_each(|(_, bytes)| copy(into, bytes));
        Ok(made.is_some())
    }

    /// Whether the last run, or with a run queue the run that was waited for last, succeeded. Otherwise no
    /// output has a value, not even one that is a constant or an input.
    fn has_outputs(&self) -> bool {
        self.run_queue.as_ref().map_or(self.made, RunQueue::has_outputs)
    }

    /// Makes all outputs have no value until the next successful run.
    pub(crate) fn forget_outputs(&mut self) {
        self.made = false;
        if let Some(run_queue) = &mut self.run_queue {
            run_queue.forget_outputs();
        }
    }

    /// Returns the run queue and the partition that computes an output; `None` without a run queue or if the
    /// output is a constant.
    fn maker(&self, output: usize) -> Option<(&RunQueue, &Delegated)> {
        match (&self.run_queue, &self.steps[..]) {
            (Some(run_queue), [Step::Partition(partition)]) => {
                run_queue.makes(output).then_some((run_queue, partition))
            }
            _ => None,
        }
    }

    /// Waits until all outputs have arrived from the device, so that a failure of the device during their
    /// transfer is returned here at the latest.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        (0..self.prepared.graph.outputs.len()).try_for_each(|output| self.output(output).map(drop))
    }

    /// Returns the number of runs that can be in progress at the same time; 1 without a run queue.
    pub(crate) fn depth(&self) -> usize {
        self.run_queue.as_ref().map_or(1, RunQueue::depth)
    }

    /// Whether every slot of the run queue has a run that was not waited for; false without a run queue.
    pub(crate) fn is_full(&self) -> bool {
        self.run_queue.as_ref().is_some_and(RunQueue::is_full)
    }

    /// Starts `times` runs in the run queue under the single id `run`, and does not wait for them; `None`
    /// without a run queue.
    pub(crate) fn start(&mut self, run: RunId, times: usize) -> Option<Result<(), Error>> {
        let Self { prepared, steps, memory, run_queue, bound, carried, .. } = self;
        let graph = &prepared.graph;
        match (run_queue, &mut steps[..]) {
            (Some(run_queue), [Step::Partition(partition)]) => {
                let checked = bound.check(graph).and_then(|()| carried.start(graph, times));
                Some(checked.and_then(|()| run_queue.start((run, times), graph, memory, partition)))
            }
            _ => None,
        }
    }

    /// Returns an object with which any thread can wait for a run that [`start`](Self::start) started; `None` without
    /// a run queue, or if the run was waited for or its outputs were discarded.
    pub(crate) fn completion(&self, run: RunId) -> Option<Result<RunEnd, Error>> {
        match (&self.run_queue, &self.steps[..]) {
            (Some(run_queue), [Step::Partition(partition)]) => run_queue.completion(run, partition),
            _ => None,
        }
    }

    /// Whether runs can be started without waiting for them.
    pub(crate) fn has_queue(&self) -> bool {
        self.run_queue.is_some()
    }

    /// Waits for a run that [`start`](Self::start) started. Fails without a run queue.
    pub(crate) fn wait(&mut self, run: RunId) -> Result<(), Error> {
        match (&mut self.run_queue, &mut self.steps[..]) {
            (Some(run_queue), [Step::Partition(partition)]) => run_queue.wait(run, partition),
            _ => Err(gone(run)),
        }
    }

    /// Resets all variable tensors to their initial values.
    pub(crate) fn reset_variables(&mut self) {
        for id in variables(&self.prepared.graph) {
            if let Some(bytes) = self.memory.bytes_mut(id) {
                bytes.fill(self.prepared.graph.fact(id).first_byte());
            }
        }
    }

    /// Returns a copy of the bytes of every variable tensor, in the order of the tensors.
    pub(crate) fn variables(&self) -> Vec<Vec<u8>> {
        let bytes = |id| self.memory.tensor(&self.prepared.graph, id).map_or(Vec::new(), |(_, bytes)| bytes.to_vec());
        variables(&self.prepared.graph).map(bytes).collect()
    }

    /// Restores every variable tensor to the bytes that [`Executor::variables`] returned.
    pub(crate) fn set_variables(&mut self, values: &[Vec<u8>]) {
        for (id, value) in variables(&self.prepared.graph).zip(values) {
            if let Some(bytes) = self.memory.bytes_mut(id).filter(|bytes| bytes.len() == value.len()) {
                bytes.copy_from_slice(value);
            }
        }
    }

    /// Returns the bytes of a variable tensor, for reading and writing; `None` if it is none, or has no memory.
    pub(crate) fn variable_mut(&mut self, id: TensorId) -> Option<&mut [u8]> {
        let tensor = self.prepared.graph.tensors.get(id.index())?;
        if tensor.fact.is_variable { self.memory.bytes_mut(id) } else { None }
    }

    /// Returns the bytes of an input whose place in memory stays the same as long as the executor exists; `None` if it
    /// does not.
    pub(crate) fn input_memory(&mut self, input: usize) -> Option<&mut [u8]> {
        let id = self.prepared.graph.inputs.get(input).filter(|_| self.is_fixed)?;
        self.carried.written(input);
        self.memory.bytes_mut(*id)
    }

    /// Returns the bytes of an output, as [`Executor::input_memory`] does those of an input.
    pub(crate) fn output_memory(&mut self, output: usize) -> Option<&mut [u8]> {
        let id = self.prepared.graph.outputs.get(output).filter(|_| self.is_fixed)?;
        self.memory.bytes_mut(*id)
    }

    /// Whether an output has a shape only after a run.
    pub(crate) fn is_dynamic(&self, output: usize) -> bool {
        self.prepared.graph.outputs.get(output).is_some_and(|id| self.memory.is_own(*id))
    }

    /// Whether the only step is a partition. Its runs then write nothing but outputs and variables.
    pub(crate) fn is_whole_partition(&self) -> bool {
        matches!(self.steps[..], [Step::Partition(_)])
    }

    /// Takes over the inputs and variables of equal shape from `other`, an executor of the same subgraph whose
    /// arena contains its inputs.
    pub(crate) fn keep_values_of(&mut self, other: &Self) {
        let graph = &self.prepared.graph;
        for id in graph.inputs.iter().copied().chain(variables(graph)) {
            if let Some((shape, bytes)) = other.memory.tensor(&other.prepared.graph, id)
                && graph.fact(id).shape.as_ref() == Some(shape)
            {
                // Where memory for strings is lacking, they stay empty.
                match other.memory.shared(id) {
                    Some(shared) => drop(self.memory.set(id, shape.clone(), shared)),
                    None => drop(self.memory.write_input(graph, id, bytes)),
                }
            }
        }
        self.keep_carried_of(other);
    }

    /// Returns the panic messages of delegate kernels that panicked after their preparation.
    pub(crate) fn panics(&self) -> Vec<String> {
        let panicked = self.steps.iter().filter_map(|step| match step {
            Step::Partition(partition) => partition.kernel.panicked(),
            Step::Node { .. } | Step::Banded(_) => None,
        });
        panicked.collect()
    }

    /// Returns the bytes of inputs and outputs that delegates copied so far; `None` if one of them does not count them.
    pub(crate) fn io_bytes(&self) -> Option<u64> {
        let counted = self.steps.iter().filter_map(|step| match step {
            Step::Partition(partition) => Some(partition.kernel.io_bytes()),
            Step::Node { .. } | Step::Banded(_) => None,
        });
        counted.sum()
    }

    /// Returns the milliseconds of each node on the CPU in the last run, in execution order; none if they are
    /// not recorded.
    pub(crate) fn times(&self) -> &[(NodeId, f64)] {
        self.times.as_deref().unwrap_or_default()
    }

    /// Returns the times of the last run of each partition, in execution order.
    pub(crate) fn profile(&mut self) -> Result<Vec<KernelProfile>, Error> {
        let partitions = self.steps.iter_mut().filter_map(|step| match step {
            Step::Partition(partition) => Some(partition),
            Step::Node { .. } | Step::Banded(_) => None,
        });
        partitions
            .map(|partition| partition.kernel.profile().map_err(|error| Error::delegate(&partition.delegate, &error)))
            .collect()
    }

    /// Runs all steps `times` times and waits for the last run.
    pub(crate) fn run(&mut self, times: usize, environment: &mut dyn Subgraphs) -> Result<(), Error> {
        if times == 0 {
            return Ok(());
        }
        let _begun = match &self.steps[..] {
            [Step::Partition(partition)] => {
                Some(watch(environment, self.prepared.subgraph).partition(0, &partition.delegate))
            }
            _ => None,
        };
        if let Some(started) = self.start(RunId::UNCOUNTED, times) {
            started?;
            return self.wait(RunId::UNCOUNTED);
        }
        self.bound.check(&self.prepared.graph)?;
        self.carried.start(&self.prepared.graph, times)?;
        self.made = false;
        let Self { prepared, steps, memory, .. } = self;
        let graph = &prepared.graph;
        if let [Step::Partition(partition)] = &mut steps[..] {
            run_partition(graph, memory, partition, times)?;
            self.made = true;
            return Ok(());
        }
        let on_cpu = self.steps.iter().any(|step| !matches!(step, Step::Partition(_)));
        let parallel = if on_cpu { environment.threads() } else { Arc::new(Serial) };
        #[cfg(attache_small)]
        let _awake = Succession::new(&*parallel);
        for _ in 0..times {
            environment.start();
            #[cfg(attache_small)]
            self.run_with(&*parallel, environment)?;
            #[cfg(not(attache_small))]
            self.run_faster(&*parallel, environment)?;
        }
        Ok(())
    }

    /// Runs all steps once, with CPU kernels on the threads `parallel`, or on the calling thread alone where this is faster.
    #[cfg(not(attache_small))]
    fn run_faster(&mut self, parallel: &dyn Parallel, environment: &mut dyn Subgraphs) -> Result<(), Error> {
        if parallel.threads() == 1 {
            return self.run_with(parallel, environment);
        }
        let (is_alone, is_measured) = self.few_threads.begin(parallel.threads());
        let parallel = if is_alone { &Serial } else { parallel };
        let start = is_measured.then(Stopwatch::start);
        let _awake = Succession::new(parallel);
        self.run_with(parallel, environment)?;
        self.few_threads.end(start.map(|start| start.milliseconds()));
        Ok(())
    }

    /// Runs all steps once, with CPU kernels on the threads `parallel`.
    pub(crate) fn run_with(&mut self, parallel: &dyn Parallel, environment: &mut dyn Subgraphs) -> Result<(), Error> {
        if self.run_queue.is_some() {
            return self.run(1, environment);
        }
        self.made = false;
        let Self { prepared, steps, memory, times, lists, .. } = self;
        let Prepared { graph, subgraph, plan, .. } = &**prepared;
        memory.clear(graph);
        times.iter_mut().for_each(Vec::clear);
        let mut host = NodeHost::new((environment, *subgraph), parallel, &plan.limits);
        let mut partitions = 0;
        // The clock is read only on request: reading it takes longer than a small node.
        let is_timed = times.is_some() || (!cfg!(attache_small) && tracing::enabled!(tracing::Level::TRACE));
        for (index, step) in steps.iter_mut().enumerate() {
            let _begun = match step {
                Step::Partition(partition) => {
                    partitions += 1;
                    Some(host.watch.partition(partitions - 1, &partition.delegate))
                }
                Step::Node { id, .. } => Some(host.watch.node(graph.node(*id))),
                // A group tells about each of its nodes.
                Step::Banded(_) => None,
            };
            host.subgraphs.check_cancelled()?;
            match step {
                Step::Partition(partition) => run_partition(graph, memory, partition, 1)?,
                Step::Banded(kept) => {
                    let PreparedStep::Banded(bands) = &prepared.steps[index] else { continue };
                    let mut spent = Vec::new();
                    let result = run_banded(graph, bands, kept, memory, &host, is_timed.then_some(&mut spent));
                    result.map_err(|(id, error)| Error::operator(location(*subgraph, graph.node(id)), &error))?;
                    for (id, milliseconds) in spent {
                        trace_node(graph.node(id), milliseconds);
                        times.iter_mut().for_each(|times| times.push((id, milliseconds)));
                    }
                }
                Step::Node { id, .. } => {
                    let (id, node) = (*id, graph.node(*id));
                    let start = is_timed.then(Stopwatch::start);
                    let planned = Planned { graph, node, plan, step: index };
                    let result = run_step(planned, step, memory, (&mut host, lists));
                    let result = result.and_then(|()| keep_states(graph, node, memory, &mut host.states));
                    let failure = |error| Error::operator(location(*subgraph, node), &error);
                    result.map_err(|error| host.subgraphs.failure().unwrap_or_else(|| failure(error)))?;
                    if let Some(milliseconds) = start.map(|start| start.milliseconds()) {
                        trace_node(node, milliseconds);
                        times.iter_mut().for_each(|times| times.push((id, milliseconds)));
                    }
                }
            }
            plan.last_uses[index].iter().for_each(|id| memory.release(*id));
        }
        self.made = true;
        Ok(())
    }
}

/// Traces how long a node took, which the smallest libraries do not.
fn trace_node(node: &Node, milliseconds: f64) {
    if !cfg!(attache_small) {
        tracing::trace!(operator = node.op.name(), us = (1e3 * milliseconds) as u64, "node");
    }
}

/// Runs the node of a step on the CPU.
fn run_step(
    planned: Planned<'_>,
    step: &mut Step,
    memory: &mut Memory,
    (host, lists): (&mut NodeHost<'_>, &mut Lists),
) -> Result<(), OpError> {
    let Step::Node { way, cache, working, runtime_shapes, .. } = step else { return Ok(()) };
    let Planned { graph, node, plan, .. } = planned;
    match *way {
        Way::Pass => return run_passing(planned, memory, host),
        Way::Reshape(input) => return run_reshape(planned, input, memory, host),
        Way::Update(operand) => return run_update(planned, operand, memory, (cache, host)),
        Way::Copy(value) => host.subgraphs.note_copied(graph.fact(value).byte_size().unwrap_or(0)),
        Way::Evaluate => {}
    }
    match runtime_shapes {
        None => require_memory(mem::take(&mut working.kept).saturating_add(working.scratch))
            .and_then(|()| run_node(graph, node, memory, cache, (host, lists))),
        Some(shapes) => run_resized(graph, node, memory, cache, shapes, (host, &plan.limits)),
    }
}

fn variables(graph: &Graph) -> impl Iterator<Item = TensorId> {
    let variables = graph.tensors.iter().enumerate().filter(|(_, tensor)| tensor.fact.is_variable);
    variables.map(|(index, _)| TensorId(index as u32))
}

/// Runs a partition `times` times. All of its inputs and outputs are of known shape.
fn run_partition(graph: &Graph, memory: &mut Memory, partition: &mut Delegated, times: usize) -> Result<(), Error> {
    let is_variable = |id: &TensorId| graph.fact(*id).is_variable;
    if !partition.outputs.iter().any(is_variable) {
        return invoke(graph, memory, partition, times, &mut []);
    }
    // The kernel reads the values before the run, so it writes those after the run to memory of their own.
    let variables: Vec<TensorId> = partition.outputs.iter().copied().filter(is_variable).collect();
    for _ in 0..times {
        let mut states = variables.iter().map(|id| copied(graph, memory, *id)).collect::<Result<Vec<_>, _>>()?;
        invoke(graph, memory, partition, 1, &mut states)?;
        for (id, state) in variables.iter().zip(&states) {
            if let Some(bytes) = memory.bytes_mut(*id) {
                bytes.copy_from_slice(state);
            }
        }
    }
    Ok(())
}

/// Returns a copy of a tensor's bytes, aligned for elements of every type.
fn copied(graph: &Graph, memory: &Memory, id: TensorId) -> Result<AlignedBuffer, Error> {
    let bytes = memory.tensor(graph, id).map_or(&[][..], |(_, bytes)| bytes);
    let copy = AlignedBuffer::zeroed(bytes.len());
    let mut copy = copy.map_err(|error| Error::new(ErrorKind::OutOfMemory, format!("a variable: {error}")))?;
    copy.copy_from_slice(bytes);
    Ok(copy)
}

/// Calls the kernel of a partition. The values of outputs that are variables are written to `states`, in their order.
fn invoke(
    graph: &Graph,
    memory: &mut Memory,
    partition: &mut Delegated,
    times: usize,
    states: &mut [AlignedBuffer],
) -> Result<(), Error> {
    let is_state = |id: &&TensorId| graph.fact(**id).is_variable;
    let made: Vec<TensorId> = partition.outputs.iter().filter(|id| !is_state(id)).copied().collect();
    let (readable, written) = memory.split(&made);
    let inputs = partition.inputs.iter().map(|id| readable.tensor(graph, *id)).collect::<Option<Vec<_>>>();
    let (mut written, mut states) = (written.into_iter(), states.iter_mut());
    let outputs = partition.outputs.iter().map(|id| {
        let shape = graph.fact(*id).shape.as_ref()?;
        let bytes = if is_state(&id) { &mut states.next()?[..] } else { written.next()? };
        Some(writable(graph, *id, shape, bytes))
    });
    let (Some(inputs), Some(mut outputs)) = (inputs, outputs.collect::<Option<Vec<_>>>()) else {
        return Err(Error::new(ErrorKind::Device, "a tensor that crosses to a delegate has no value"));
    };
    partition.kernel.invoke(times, &inputs, &mut outputs).map_err(|error| partition.failed(&error))
}
