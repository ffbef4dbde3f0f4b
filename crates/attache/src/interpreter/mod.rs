//! The interpreter: tensors in, run, tensors out.

mod builder;
mod signature;

use attache_base::{DataType, Element, Quantization, Shape};
use attache_graph::{Graph, TensorId};
use attache_model::{Model, Tensor};

use crate::delegate::guard::Delegates;
use crate::runtime::{Environment, Moment, Options, Prepared, Run, State, prepare};
use crate::{Error, Placement, Profile, Report};

pub use builder::InterpreterBuilder;
pub use signature::SignatureRunner;

/// An input or an output.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// The file's name for it; may be empty, need not be unique.
    pub name: String,
    /// Type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first. For an output whose shape only a run tells: that of the last run, and what the file
    /// states before the first one.
    pub shape: Shape,
    /// As many extents as the shape, -1 where the caller decides; `None` where the file doesn't say.
    pub shape_signature: Option<Vec<i32>>,
    /// How stored numbers stand for real ones, for quantized tensors.
    pub quantization: Option<Quantization>,
}

/// Runs a subgraph of a model.
///
/// Inputs keep their values from run to run; outputs are good until the next run.
pub struct Interpreter {
    model: Model,
    subgraph: usize,
    options: Options,
    shapes: Vec<Option<Shape>>,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
    prepared: Prepared,
    environment: Environment,
    /// Runs that were started, to be waited for.
    started: u64,
    /// The last of them, where it ended at once and nothing ran since, and whether it was waited for.
    ended: Option<(Run, bool)>,
}

impl Interpreter {
    /// Starts the description of an interpreter for the model's first subgraph.
    pub fn builder(model: &Model) -> InterpreterBuilder {
        InterpreterBuilder::new(model)
    }

    pub(crate) fn new(
        model: Model,
        subgraph: usize,
        options: Options,
        wanted: Vec<(usize, Shape)>,
    ) -> Result<Self, Error> {
        let count = model.subgraphs()[subgraph].inputs.len();
        let mut shapes = vec![None; count];
        for (input, shape) in wanted {
            let slot = shapes.get_mut(input);
            *slot.ok_or_else(|| Error::usage(format!("a shape for input {input}; the model has {count}")))? =
                Some(shape);
        }
        let prepared = prepare(&model, subgraph, &options, &shapes, Moment::First)?;
        let (inputs, outputs) = infos(&model, subgraph, prepared.executor.graph());
        let environment = Environment::new(&model, subgraph, &options);
        Ok(Self { model, subgraph, options, shapes, inputs, outputs, prepared, environment, started: 0, ended: None })
    }

    /// The model that runs.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Index of the subgraph that runs.
    pub fn subgraph(&self) -> usize {
        self.subgraph
    }

    /// The inputs.
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.inputs
    }

    /// The outputs.
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.outputs
    }

    /// The first input with this name: a tensor's, or that of a signature.
    pub fn input_index(&self, name: &str) -> Option<usize> {
        let tensors = &self.model.subgraphs()[self.subgraph].inputs;
        self.inputs.iter().position(|info| info.name == name).or_else(|| {
            let signatures = self.own_signatures();
            let tensor = signatures.flat_map(|signature| &signature.inputs).find(|input| input.0 == name)?.1;
            tensors.iter().position(|index| *index == tensor)
        })
    }

    /// The first output with this name: a tensor's, or that of a signature.
    pub fn output_index(&self, name: &str) -> Option<usize> {
        let tensors = &self.model.subgraphs()[self.subgraph].outputs;
        self.outputs.iter().position(|info| info.name == name).or_else(|| {
            let signatures = self.own_signatures();
            let tensor = signatures.flat_map(|signature| &signature.outputs).find(|output| output.0 == name)?.1;
            tensors.iter().position(|index| *index == tensor)
        })
    }

    fn own_signatures(&self) -> impl Iterator<Item = &attache_model::Signature> {
        self.model.signatures().iter().filter(|signature| signature.subgraph == self.subgraph)
    }

    /// Sets an input.
    pub fn write<T: Element>(&mut self, input: usize, values: &[T]) -> Result<(), Error> {
        let Some(info) = self.inputs.get(input) else { return Err(no_such("input", input, self.inputs.len())) };
        same_type("input", input, info, T::DATA_TYPE)?;
        let size = self.input_size(input)? / size_of::<T>();
        if size != values.len() {
            return Err(Error::usage(format!("input {input} has {size} elements, not {}", values.len())));
        }
        self.prepared.executor.write(input, bytemuck::cast_slice(values));
        Ok(())
    }

    /// Sets an input from its bytes: little-endian elements.
    pub fn write_bytes(&mut self, input: usize, bytes: &[u8]) -> Result<(), Error> {
        let size = self.input_size(input)?;
        if size != bytes.len() {
            return Err(Error::usage(format!("input {input} has {size} bytes, not {}", bytes.len())));
        }
        self.prepared.executor.write(input, bytes);
        Ok(())
    }

    fn input_size(&self, input: usize) -> Result<usize, Error> {
        self.prepared.executor.input_size(input).ok_or_else(|| no_such("input", input, self.inputs.len()))
    }

    /// The elements of an input, to be filled in place.
    pub fn input_mut<T: Element>(&mut self, input: usize) -> Result<&mut [T], Error> {
        let Some(info) = self.inputs.get(input) else { return Err(no_such("input", input, self.inputs.len())) };
        same_type("input", input, info, T::DATA_TYPE)?;
        let bytes = self.input_bytes_mut(input)?;
        bytemuck::try_cast_slice_mut(bytes).map_err(|error| Error::usage(format!("input {input}: {error}")))
    }

    /// The bytes of an input, to be filled in place: little-endian elements. Where they were written before, and a device
    /// alone has them, it must hand them back the first time.
    pub fn input_bytes_mut(&mut self, input: usize) -> Result<&mut [u8], Error> {
        let count = self.inputs.len();
        let bytes = self.prepared.executor.input_mut(input)?;
        bytes.ok_or_else(|| no_such("input", input, count))
    }

    /// The elements of an output of the last run, or of the one that was waited for last: an error before that, after a run
    /// that failed and after a resize. They are where the device left them, if
    /// the host sees its memory, so that nothing is copied.
    pub fn read<T: Element>(&self, output: usize) -> Result<&[T], Error> {
        let Some(info) = self.outputs.get(output) else { return Err(no_such("output", output, self.outputs.len())) };
        same_type("output", output, info, T::DATA_TYPE)?;
        let bytes = self.read_bytes(output)?;
        bytemuck::try_cast_slice(bytes).map_err(|error| Error::usage(format!("output {output}: {error}")))
    }

    /// The bytes of an output of the last run: little-endian elements.
    pub fn read_bytes(&self, output: usize) -> Result<&[u8], Error> {
        if output >= self.outputs.len() {
            return Err(no_such("output", output, self.outputs.len()));
        }
        let tensor = self.prepared.executor.output(output)?;
        tensor.map(|(_, bytes)| bytes).ok_or_else(|| no_value(output))
    }

    /// Copies an output of the last run, as [`Interpreter::read`] shows it: a large one on several threads, and its first
    /// part while the device hands over the next.
    pub fn read_into<T: Element>(&self, output: usize, values: &mut [T]) -> Result<(), Error> {
        let Some(info) = self.outputs.get(output) else { return Err(no_such("output", output, self.outputs.len())) };
        same_type("output", output, info, T::DATA_TYPE)?;
        let size = self.output_size(output)? / size_of::<T>();
        if size != values.len() {
            return Err(Error::usage(format!("output {output} has {size} elements, not {}", values.len())));
        }
        self.read_bytes_into(output, bytemuck::cast_slice_mut(values))
    }

    /// As [`Interpreter::read_into`], the output's bytes.
    pub fn read_bytes_into(&self, output: usize, bytes: &mut [u8]) -> Result<(), Error> {
        let size = self.output_size(output)?;
        if size != bytes.len() {
            return Err(Error::usage(format!("output {output} has {size} bytes, not {}", bytes.len())));
        }
        if self.prepared.executor.read(output, bytes)? { Ok(()) } else { Err(no_value(output)) }
    }

    fn output_size(&self, output: usize) -> Result<usize, Error> {
        if output >= self.outputs.len() {
            return Err(no_such("output", output, self.outputs.len()));
        }
        self.prepared.executor.output_size(output).map(|(_, size)| size).ok_or_else(|| no_value(output))
    }

    /// Gives an input another shape, and plans and prepares everything anew. The other inputs and the variables keep
    /// their values. Where it fails the interpreter stays as it was.
    pub fn resize_input(&mut self, input: usize, shape: &[usize]) -> Result<(), Error> {
        self.resize_inputs(&[(input, shape)])
    }

    /// Gives several inputs other shapes at once, as [`Interpreter::resize_input`].
    pub fn resize_inputs(&mut self, changes: &[(usize, &[usize])]) -> Result<(), Error> {
        let mut shapes = self.shapes.clone();
        shapes.resize(self.inputs.len(), None);
        for (input, shape) in changes {
            let count = self.inputs.len();
            *shapes.get_mut(*input).ok_or_else(|| no_such("input", *input, count))? = Some(Shape::from(*shape));
        }
        let stays = |input: &usize| shapes[*input].as_ref().is_none_or(|shape| *shape == self.inputs[*input].shape);
        (0..self.inputs.len()).filter(stays).try_for_each(|input| self.prepared.executor.keep_input(input))?;
        let mut prepared = prepare(&self.model, self.subgraph, &self.options, &shapes, self.environment.moment())?;
        prepared.executor.keep_values_of(&self.prepared.executor);
        prepared.remember(&self.prepared);
        (self.inputs, self.outputs) = infos(&self.model, self.subgraph, prepared.executor.graph());
        (self.prepared, self.shapes, self.ended) = (prepared, shapes, None);
        Ok(())
    }

    /// Runs the subgraph on the inputs as they are.
    pub fn invoke(&mut self) -> Result<(), Error> {
        self.invoke_repeatedly(1)
    }

    /// Runs the subgraph several times on the same inputs. Where one delegate has all of it, nothing waits for the outputs of
    /// runs before the last, which may go on beside each other, on the GPU in memory of their own. No runs leave everything
    /// as it is.
    pub fn invoke_repeatedly(&mut self, times: usize) -> Result<(), Error> {
        if times == 0 {
            return Ok(());
        }
        self.ended = None;
        self.run(times)?;
        self.note_shapes();
        Ok(())
    }

    /// Starts a run on the inputs as they are and returns; [`Interpreter::wait`] gives its outputs. The inputs may be written
    /// for the next run at once. Up to [`Interpreter::queue_depth`] runs may be under way or not waited for: one more waits
    /// for the oldest of them, whose outputs are lost.
    ///
    /// Where the CPU or several partitions have a part in a run, or where the CPU is to take over from a delegate that
    /// fails, the run ends before this returns.
    pub fn invoke_async(&mut self) -> Result<Run, Error> {
        self.started += 1;
        let run = Run(self.started);
        let started = if self.options.cpu_fallback { None } else { self.prepared.executor.start(run, 1) };
        match started {
            Some(started) => started?,
            None => {
                self.invoke()?;
                self.ended = Some((run, false));
            }
        }
        Ok(run)
    }

    /// As [`Interpreter::invoke_async`]; `None` where outputs would be lost.
    pub fn try_invoke_async(&mut self) -> Result<Option<Run>, Error> {
        let is_unread = matches!(self.ended, Some((_, false)));
        if is_unread || self.prepared.executor.is_full() {
            return Ok(None);
        }
        self.invoke_async().map(Some)
    }

    /// Waits for a run, whose outputs are then read; those that were started before it may be waited for later. An error
    /// where its outputs were lost, or inputs were resized since.
    pub fn wait(&mut self, run: Run) -> Result<(), Error> {
        match &mut self.ended {
            Some((ended, waited)) if *ended == run => *waited = true,
            _ => self.prepared.executor.wait(run)?,
        }
        Ok(())
    }

    /// How many runs may be under way or not waited for; 1 where each ends before [`Interpreter::invoke_async`] returns.
    pub fn queue_depth(&self) -> usize {
        if self.options.cpu_fallback { 1 } else { self.prepared.executor.depth() }
    }

    /// Outputs' shapes are those of the last run.
    fn note_shapes(&mut self) {
        for (index, info) in self.outputs.iter_mut().enumerate() {
            if let Some((shape, _)) = self.prepared.executor.output_size(index)
                && info.shape != *shape
            {
                info.shape = shape.clone();
            }
        }
    }

    /// Runs; where a delegate fails and the CPU is to take over, it does the rest.
    fn run(&mut self, times: usize) -> Result<(), Error> {
        if !self.options.cpu_fallback || self.options.delegates.is_empty() {
            return self.prepared.executor.run(times, &mut self.environment);
        }
        let mut left = times;
        while left > 0 {
            let now = if self.prepared.executor.is_whole_island() { left } else { 1 };
            let state = State::of(&self.prepared.executor, &self.environment);
            let run = self.prepared.executor.run(now, &mut self.environment);
            match run.and_then(|()| self.prepared.executor.settle()) {
                Ok(()) => left -= now,
                Err(error) => {
                    // What the host has not seen may be wrong though the run itself went well.
                    self.prepared.executor.forget_outputs();
                    if !error.is_delegates() {
                        return Err(error);
                    }
                    self.leave_delegates(&error, state)?;
                    return self.prepared.executor.run(left, &mut self.environment);
                }
            }
        }
        Ok(())
    }

    /// Puts the CPU in the place of delegates, after a failure, with the variables as they were before. Where that fails
    /// too, delegates keep their place.
    fn leave_delegates(&mut self, error: &Error, state: State) -> Result<(), Error> {
        let also = |other: Error| Error::new(other.kind(), format!("{error}; and the CPU cannot take over: {other}"));
        let options = Options { delegates: Delegates::default(), required: false, ..self.options.clone() };
        state.restore(&mut self.prepared.executor, &mut self.environment);
        let moment = self.environment.moment();
        let mut prepared = prepare(&self.model, self.subgraph, &options, &self.shapes, moment).map_err(also)?;
        self.environment.leave_delegates().map_err(also)?;
        prepared.executor.keep_values_of(&self.prepared.executor);
        prepared.blame(&self.prepared, error);
        (self.prepared, self.options) = (prepared, options);
        Ok(())
    }

    /// Makes all variables as they are before the first run: variable tensors zero, resource variables without a value.
    pub fn reset_variables(&mut self) {
        self.prepared.executor.reset_variables();
        self.environment.reset_variables();
    }

    /// Which operator runs where, and why.
    pub fn placement(&self) -> &Placement {
        &self.prepared.placement
    }

    /// Where the time of the last run went, on delegates that measure it: `GpuDelegate::profiled` gives one. What branches
    /// and loops run is left out.
    pub fn profile(&mut self) -> Result<Profile, Error> {
        let partitions = self.prepared.executor.profile()?;
        let subgraph = &self.model.subgraphs()[self.subgraph];
        Ok(Profile::of(subgraph, self.prepared.executor.graph(), partitions))
    }

    /// Figures about the interpreter.
    pub fn report(&self) -> Report {
        let mut report = self.prepared.report.clone();
        report.panics = self.prepared.panics().into_iter().chain(self.environment.panics()).collect();
        report
    }
}

fn infos(model: &Model, subgraph: usize, graph: &Graph) -> (Vec<TensorInfo>, Vec<TensorInfo>) {
    let tensors = &model.subgraphs()[subgraph].tensors;
    let list = |ids: &[TensorId]| ids.iter().map(|id| info(&tensors[id.index()], graph, *id)).collect();
    (list(&graph.inputs), list(&graph.outputs))
}

fn info(tensor: &Tensor, graph: &Graph, id: TensorId) -> TensorInfo {
    TensorInfo {
        name: tensor.name.clone(),
        data_type: tensor.data_type,
        shape: graph.fact(id).shape.clone().unwrap_or_else(|| tensor.shape.clone()),
        shape_signature: tensor.shape_signature.clone(),
        quantization: tensor.quantization.clone(),
    }
}

fn no_such(what: &str, index: usize, count: usize) -> Error {
    Error::usage(format!("there is no {what} {index}: the model has {count}"))
}

fn no_value(output: usize) -> Error {
    let remedy = "it has one after a run that ended well, until inputs are resized";
    Error::usage(format!("output {output} has no value yet: {remedy}"))
}

fn same_type(what: &str, index: usize, info: &TensorInfo, asked: DataType) -> Result<(), Error> {
    if info.data_type == asked {
        return Ok(());
    }
    let name = &info.name;
    Err(Error::usage(format!("{what} {index} (\"{name}\") is of type {}, not {asked}", info.data_type)))
}
