//! What an interpreter owns ([`Core`]): its subgraphs ([`Instance`]), which are the first subgraph and those of other
//! signatures, and what they share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use attache_base::{DataType, Element, Shape, Strings, strings};
use attache_graph::{Graph, TensorId};
use attache_model::{Model, Subgraph, Tensor};

use super::{InputTensor, OutputTensor, TensorInfo, TensorKey, same_type};
use crate::error::counted;
use crate::runtime::executor::Executor;
use crate::runtime::{Environment, Key, MOST_PANICS, Options, Plans, RunId, StartedRun, State};
use crate::{Error, ErrorKind, Placement, Report};

/// A subgraph of an interpreter: its executor for the current input shapes, and what users ask about it.
pub(super) struct Instance {
    pub(super) executor: Executor,
    /// The shape of each input that the caller has chosen; `None` for the shape that the file states.
    shapes: Vec<Option<Shape>>,
    pub(super) inputs: Vec<TensorInfo>,
    pub(super) outputs: Vec<TensorInfo>,
    /// The tensors that are kept for the caller, with their indices in the file. They follow the outputs in the
    /// executor.
    pub(super) kept: Vec<(usize, TensorInfo)>,
    pub(super) placement: Arc<Placement>,
    pub(super) report: Report,
}

/// Everything that runs of an interpreter use and change.
pub(super) struct Core {
    pub(super) plans: Arc<Plans>,
    pub(super) instances: BTreeMap<usize, Instance>,
    pub(super) environment: Environment,
}

impl Instance {
    fn new(
        plans: &Plans,
        subgraph: usize,
        shapes: Vec<Option<Shape>>,
        environment: &Environment,
    ) -> Result<Self, Error> {
        let key = Key { subgraph, shapes, mode: environment.prepare_mode(), is_called: false };
        let prepared = plans.prepared(&key)?;
        let (inputs, mut outputs) = infos(&plans.model, subgraph, &prepared.graph);
        let own = plans.model.subgraphs()[subgraph].outputs.len();
        let ids = prepared.graph.outputs[own..].iter().map(|id| id.index());
        let kept = ids.zip(outputs.split_off(own)).collect();
        let (placement, report) = (prepared.placement.clone(), prepared.report.clone());
        let mut executor = Executor::new(prepared, &plans.options)?;
        set_first_values(&mut executor, &plans.model.subgraphs()[subgraph], &inputs)?;
        Ok(Self { executor, shapes: key.shapes, inputs, outputs, kept, placement, report })
    }

    /// Takes over the messages of panics and the reason of the CPU fallback from the instance `before`, which this
    /// one replaces, and the values of inputs and variables of equal shape.
    fn follow(&mut self, before: &Self) {
        self.executor.keep_values_of(&before.executor);
        let own = std::mem::take(&mut self.report.panics);
        let panics = before.panics().into_iter().chain(own);
        self.report.panics = panics.collect::<BTreeSet<_>>().into_iter().take(MOST_PANICS).collect();
        self.report.fallback = self.report.fallback.take().or_else(|| before.report.fallback.clone());
    }

    /// Returns the messages of delegates that panicked, during preparation or in a run.
    pub(super) fn panics(&self) -> Vec<String> {
        self.report.panics.iter().cloned().chain(self.executor.panics()).collect()
    }

    /// Returns an input, for the caller to write.
    pub(super) fn input(&mut self, index: usize) -> Result<InputTensor<'_>, Error> {
        self.check_not_bound(index)?;
        let bytes = self.executor.input_mut(index)?.ok_or_else(|| no_memory(index))?;
        Ok(InputTensor { info: &self.inputs[index], index, bytes })
    }

    /// Returns an output of the last run, or of the run that was waited for last.
    pub(super) fn output(&self, index: usize) -> Result<OutputTensor<'_>, Error> {
        Ok(OutputTensor { info: &self.outputs[index], index, bytes: self.read_bytes(index)? })
    }

    /// Returns a tensor of the last run that was kept, by its name or by its index in the file.
    pub(super) fn kept_tensor(&self, tensor: &impl TensorKey) -> Result<OutputTensor<'_>, Error> {
        let names = self.kept.iter().map(|(_, info)| info.name.as_str());
        let index = |name: &str| Some(self.kept.iter().find(|(_, info)| info.name == name)?.0);
        let place = tensor.index(index).and_then(|tensor| self.kept.iter().position(|(index, _)| *index == tensor));
        let place = place.ok_or_else(|| tensor.unknown("kept tensor", names.collect()))?;
        let (info, index) = (&self.kept[place].1, self.outputs.len() + place);
        self.check_readable(index, &format!("tensor \"{}\"", info.name))?;
        let value = self.executor.output(index)?;
        let (_, bytes) = value.ok_or_else(|| no_value(&format!("tensor \"{}\"", info.name)))?;
        Ok(OutputTensor { info, index, bytes })
    }

    pub(super) fn write<T: Element>(&mut self, input: usize, values: &[T]) -> Result<(), Error> {
        same_type("input", input, &self.inputs[input], T::DATA_TYPE)?;
        let size = self.input_size(input)? / size_of::<T>();
        if size != values.len() {
            return Err(Error::usage(format!("input {input} has {}, not {}", counted(size, "element"), values.len())));
        }
        self.executor.write(input, bytemuck::cast_slice(values))
    }

    pub(super) fn write_strings<'t>(
        &mut self,
        input: usize,
        texts: impl ExactSizeIterator<Item = &'t [u8]> + Clone,
    ) -> Result<(), Error> {
        same_type("input", input, &self.inputs[input], DataType::String)?;
        let (elements, count) = (self.inputs[input].shape.elements(), texts.len());
        if count != elements {
            return Err(Error::usage(format!("input {input} has {}, not {count}", counted(elements, "string"))));
        }
        let too_large = || {
            Error::usage(format!(
                "the strings for input {input} exceed 2 GiB or the memory; pass fewer or shorter ones"
            ))
        };
        self.write_bytes(input, &strings::encoded(texts).ok_or_else(too_large)?)
    }

    pub(super) fn write_bytes(&mut self, input: usize, bytes: &[u8]) -> Result<(), Error> {
        let size = self.input_size(input)?;
        if self.inputs[input].data_type == DataType::String {
            let wrong = |error| Error::usage(format!("the bytes for input {input} are no tensor of strings: {error}"));
            Strings::new(bytes, self.inputs[input].shape.elements()).map_err(wrong)?;
            self.executor.check_size(bytes.len())?;
            return self.executor.write(input, bytes);
        }
        if size != bytes.len() {
            return Err(Error::usage(format!("input {input} has {}, not {}", counted(size, "byte"), bytes.len())));
        }
        self.executor.write(input, bytes)
    }

    /// Fails if an input is bound to memory on a device, which the host does not write.
    pub(super) fn check_not_bound(&self, input: usize) -> Result<(), Error> {
        match self.executor.is_input_bound(input) {
            true => Err(Error::usage(format!("input {input} is bound; write to its memory, or unbind it"))),
            false => Ok(()),
        }
    }

    fn input_size(&self, input: usize) -> Result<usize, Error> {
        self.check_not_bound(input)?;
        self.executor.input_size(input).ok_or_else(|| no_memory(input))
    }

    pub(super) fn read<T: Element>(&self, output: usize) -> Result<&[T], Error> {
        same_type("output", output, &self.outputs[output], T::DATA_TYPE)?;
        let bytes = self.read_bytes(output)?;
        bytemuck::try_cast_slice(bytes).map_err(|error| Error::usage(format!("output {output}: {error}")))
    }

    pub(super) fn read_bytes(&self, output: usize) -> Result<&[u8], Error> {
        self.check_readable(output, &format!("output {output}"))?;
        let tensor = self.executor.output(output)?;
        tensor.map(|(_, bytes)| bytes).ok_or_else(|| no_output(output))
    }

    pub(super) fn read_into<T: Element>(&self, output: usize, values: &mut [T]) -> Result<(), Error> {
        same_type("output", output, &self.outputs[output], T::DATA_TYPE)?;
        let size = self.output_size(output)? / size_of::<T>();
        if size != values.len() {
            return Err(Error::usage(format!(
                "output {output} has {}, not {}",
                counted(size, "element"),
                values.len()
            )));
        }
        self.read_bytes_into(output, bytemuck::cast_slice_mut(values))
    }

    pub(super) fn read_bytes_into(&self, output: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let size = self.output_size(output)?;
        if size != bytes.len() {
            return Err(Error::usage(format!("output {output} has {}, not {}", counted(size, "byte"), bytes.len())));
        }
        if self.executor.read(output, bytes)? { Ok(()) } else { Err(no_output(output)) }
    }

    fn output_size(&self, output: usize) -> Result<usize, Error> {
        self.check_readable(output, &format!("output {output}"))?;
        self.executor.output_size(output).map(|(_, size)| size).ok_or_else(|| no_output(output))
    }

    /// Fails if an output or kept tensor, `what` for people, is bound to memory on a device.
    pub(super) fn check_readable(&self, output: usize, what: &str) -> Result<(), Error> {
        match self.executor.is_output_bound(output) {
            true => Err(Error::usage(format!("{what} is bound; read the memory that it is bound to, or unbind it"))),
            false => Ok(()),
        }
    }

    /// Sets the shapes in the descriptions of the outputs to those of the last run.
    pub(super) fn note_shapes(&mut self) {
        let kept = self.kept.iter_mut().map(|(_, info)| info);
        for (index, info) in self.outputs.iter_mut().chain(kept).enumerate() {
            if let Some((shape, _)) = self.executor.output_size(index)
                && info.shape != *shape
            {
                info.shape = shape.clone();
            }
        }
    }
}

impl Core {
    pub(super) fn new(plans: Arc<Plans>, subgraph: usize, shapes: Vec<Option<Shape>>) -> Result<Self, Error> {
        let environment = Environment::new(plans.clone());
        let instance = Instance::new(&plans, subgraph, shapes, &environment)?;
        Ok(Self { plans, instances: BTreeMap::from([(subgraph, instance)]), environment })
    }

    /// Prepares a subgraph of the model, unless it has been prepared.
    pub(super) fn require(&mut self, subgraph: usize) -> Result<(), Error> {
        if !self.instances.contains_key(&subgraph) {
            let count = self.plans.model.subgraphs()[subgraph].inputs.len();
            let instance = Instance::new(&self.plans, subgraph, vec![None; count], &self.environment)?;
            self.instances.insert(subgraph, instance);
        }
        Ok(())
    }

    /// Changes the shapes of inputs of a subgraph. If it cannot be prepared for them, nothing changes.
    pub(super) fn resize(&mut self, subgraph: usize, changes: &[(usize, &[usize])]) -> Result<(), Error> {
        let Self { plans, instances, environment } = self;
        let Some(instance) = instances.get_mut(&subgraph) else { return Ok(()) };
        let (mut shapes, count) = (instance.shapes.clone(), instance.inputs.len());
        shapes.resize(count, None);
        for (input, shape) in changes {
            // A tensor that is an input several times has the shape of the first of them.
            let ids = &instance.executor.graph().inputs;
            let first = ids.get(*input).and_then(|tensor| ids.iter().position(|id| id == tensor));
            shapes[first.ok_or_else(|| super::no_such("input", *input, count))?] = Some(Shape::from(*shape));
        }
        let stays = |input: &usize| shapes[*input].as_ref().is_none_or(|shape| *shape == instance.inputs[*input].shape);
        (0..count).filter(stays).try_for_each(|input| instance.executor.keep_input(input))?;
        let mut other = Instance::new(plans, subgraph, shapes, environment)?;
        other.follow(instance);
        other.executor.keep_bindings_of(&instance.executor)?;
        *instance = other;
        Ok(())
    }

    /// Runs a subgraph `times` times. If a delegate fails and the CPU fallback is enabled, the CPU does the
    /// remaining runs. A run that is cancelled leaves the variables as they were before.
    pub(super) fn run(&mut self, subgraph: usize, times: usize, started: StartedRun) -> Result<(), Error> {
        self.environment.set_running(subgraph, Some(started));
        self.run_times(subgraph, times)
    }

    fn run_times(&mut self, subgraph: usize, times: usize) -> Result<(), Error> {
        let falls_back = self.plans.options.cpu_fallback && !self.plans.options.delegates.is_empty();
        let mut left = times;
        while left > 0 {
            let Some(instance) = self.instances.get_mut(&subgraph) else { return Ok(()) };
            let is_restored = falls_back || self.environment.is_cancellable();
            let now = if !is_restored || instance.executor.is_whole_partition() { left } else { 1 };
            let state = is_restored.then(|| State::of(&instance.executor, &self.environment));
            // Others ask before each step.
            let run = self.environment.check_run(!cfg!(attache_small) && instance.executor.is_whole_partition());
            let run = run.and_then(|()| instance.executor.run(now, &mut self.environment));
            let run = run.and_then(|()| if falls_back { instance.executor.settle() } else { Ok(()) });
            match (run.and_then(|()| self.environment.check_run(false)), state) {
                (Ok(()), _) => left -= now,
                (Err(error), state) => {
                    // Outputs that were not read may be wrong even though the run itself succeeded.
                    instance.executor.forget_outputs();
                    if let Some(state) = state {
                        state.restore(&mut instance.executor, &mut self.environment);
                    }
                    if !falls_back || !error.is_delegates() {
                        return Err(error);
                    }
                    self.leave_delegates(subgraph, &error)?;
                    return self.run_times(subgraph, left);
                }
            }
        }
        if let Some(instance) = self.instances.get_mut(&subgraph) {
            instance.note_shapes();
        }
        self.plans.save_packed();
        Ok(())
    }

    /// Prepares all subgraphs again without delegates, after a delegate failed in the subgraph `failed` with
    /// `error`. If a preparation fails, the delegates stay.
    fn leave_delegates(&mut self, failed: usize, error: &Error) -> Result<(), Error> {
        let also = |other: Error| Error::new(other.kind(), format!("{error}; and the CPU cannot take over: {other}"));
        let plans = self.plans.without_delegates();
        let mut made = BTreeMap::new();
        for (index, before) in &self.instances {
            let shapes = before.shapes.clone();
            let mut instance = Instance::new(&plans, *index, shapes, &self.environment).map_err(also)?;
            instance.follow(before);
            if *index == failed {
                tracing::warn!("{error}; the CPU takes over");
            }
            let mut placement = (*instance.placement).clone();
            placement.fall_back(&before.placement, &error.to_string());
            (instance.placement, instance.report.fallback) = (Arc::new(placement), Some(error.to_string()));
            made.insert(*index, instance);
        }
        self.environment.leave_delegates(plans.clone()).map_err(also)?;
        (self.instances, self.plans) = (made, plans);
        Ok(())
    }

    /// Waits for a run of a subgraph that its run queue started.
    pub(super) fn wait(&mut self, subgraph: usize, run: RunId) -> Result<(), Error> {
        let Some(instance) = self.instances.get_mut(&subgraph) else {
            return Err(Error::new(ErrorKind::Internal, "a run of a subgraph that is not prepared"));
        };
        instance.executor.wait(run)
    }

    /// Makes the outputs of a subgraph have no value until its next run.
    pub(super) fn forget_outputs(&mut self, subgraph: usize) {
        if let Some(instance) = self.instances.get_mut(&subgraph) {
            instance.executor.forget_outputs();
        }
    }

    pub(super) fn options(&self) -> &Options {
        &self.plans.options
    }
}

/// Writes the inputs for which the file has data, in its shape.
fn set_first_values(executor: &mut Executor, source: &Subgraph, inputs: &[TensorInfo]) -> Result<(), Error> {
    for (input, (tensor, info)) in source.inputs.iter().zip(inputs).enumerate() {
        let Tensor { constant: Some(constant), is_sparse: false, .. } = &source.tensors[*tensor] else { continue };
        if info.shape == constant.shape {
            executor.write(input, &constant.aligned_bytes().ok_or_else(|| no_memory(input))?)?;
        }
    }
    Ok(())
}

fn infos(model: &Model, subgraph: usize, graph: &Graph) -> (Vec<TensorInfo>, Vec<TensorInfo>) {
    let tensors = &model.subgraphs()[subgraph].tensors;
    let list = |ids: &[TensorId]| ids.iter().map(|id| info(&tensors[id.index()], graph, *id)).collect();
    (list(&graph.inputs), list(&graph.outputs))
}

fn info(tensor: &Tensor, graph: &Graph, id: TensorId) -> TensorInfo {
    TensorInfo {
        name: tensor.name.clone(),
        data_type: graph.fact(id).data_type,
        shape: graph.fact(id).shape.clone().unwrap_or_else(|| tensor.shape.clone()),
        shape_signature: tensor.shape_signature.clone(),
        quantization: tensor.quantization.clone(),
    }
}

fn no_memory(input: usize) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!("input {input} has no memory: nothing reads it, or its shape is unknown"),
    )
}

pub(super) fn no_output(output: usize) -> Error {
    no_value(&format!("output {output}"))
}

fn no_value(what: &str) -> Error {
    Error::usage(format!("{what} has no value yet: it has one after a run that ended well, until inputs are resized"))
}
