//! The interpreter, which sets the inputs of a subgraph, runs it and reads its outputs.

mod builder;
mod signature;

use attache_base::{DataType, Element, Quantization, Shape};
use attache_graph::{Graph, TensorId};
use attache_model::{Model, Tensor};

use crate::delegate::guard::Delegates;
use crate::runtime::{Environment, Options, PrepareMode, Prepared, Run, State, prepare};
use crate::{Error, Placement, Profile, Report};

pub use builder::InterpreterBuilder;
pub use signature::SignatureRunner;

/// Description of an input or an output of the subgraph.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorInfo {
    /// Name in the file. It may be empty and need not be unique.
    pub name: String,
    /// Data type of the elements.
    pub data_type: DataType,
    /// Extents in elements, outermost first. If the shape of an output is known only at run time, this is the
    /// shape in the last run, or before the first run the shape that the file states.
    pub shape: Shape,
    /// The shape as the file states it, with -1 for each extent that the caller may choose; `None` if the
    /// file has no such shape.
    pub shape_signature: Option<Vec<i32>>,
    /// Quantization parameters, for quantized tensors.
    pub quantization: Option<Quantization>,
}

/// Runs a subgraph of a model.
///
/// Inputs keep their values from run to run. Outputs are valid until the next run.
///
/// Input and output indices are positions in [`Interpreter::inputs`] and [`Interpreter::outputs`]. Elements are passed
/// in row-major order, outermost extent first. An index that does not exist, a type that is not that of the tensor and
/// a wrong number of elements are errors of kind [`ErrorKind::Usage`](crate::ErrorKind::Usage).
pub struct Interpreter {
    model: Model,
    subgraph: usize,
    options: Options,
    shapes: Vec<Option<Shape>>,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
    prepared: Prepared,
    environment: Environment,
    /// Number of runs that were started with `invoke_async`.
    started: u64,
    /// The run that `invoke_async` last started, if it ended before `invoke_async` returned and nothing ran
    /// since. The flag tells whether it was waited for.
    ended: Option<(Run, bool)>,
}

impl Interpreter {
    /// Creates a builder for an interpreter of the model's first subgraph.
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
        let prepared = prepare(&model, subgraph, &options, &shapes, PrepareMode::First)?;
        let (inputs, outputs) = infos(&model, subgraph, prepared.executor.graph());
        let environment = Environment::new(&model, subgraph, &options);
        Ok(Self { model, subgraph, options, shapes, inputs, outputs, prepared, environment, started: 0, ended: None })
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the index of the subgraph that the interpreter runs.
    pub fn subgraph(&self) -> usize {
        self.subgraph
    }

    /// Returns the descriptions of the inputs.
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.inputs
    }

    /// Returns the descriptions of the outputs.
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.outputs
    }

    /// Returns the index of the first input with this name. Tensor names are searched first, then the input
    /// names in the subgraph's signatures.
    pub fn input_index(&self, name: &str) -> Option<usize> {
        let tensors = &self.model.subgraphs()[self.subgraph].inputs;
        self.inputs.iter().position(|info| info.name == name).or_else(|| {
            let signatures = self.own_signatures();
            let tensor = signatures.flat_map(|signature| &signature.inputs).find(|input| input.0 == name)?.1;
            tensors.iter().position(|index| *index == tensor)
        })
    }

    /// Returns the index of the first output with this name. Tensor names are searched first, then the output
    /// names in the subgraph's signatures.
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

    /// Copies `values` into an input. Their number must equal the input's number of elements.
    ///
    /// # Errors
    ///
    /// If the input does not exist, is not of type `T` or has a different number of elements.
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

    /// Copies `bytes`, which are little-endian elements, into an input. Their number must equal the input's
    /// size in bytes.
    ///
    /// # Errors
    ///
    /// If the input does not exist or has a different size.
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

    /// Returns the elements of an input, for the caller to write in place.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::input_bytes_mut`], or if the input is not of type `T`.
    pub fn input_mut<T: Element>(&mut self, input: usize) -> Result<&mut [T], Error> {
        let Some(info) = self.inputs.get(input) else { return Err(no_such("input", input, self.inputs.len())) };
        same_type("input", input, info, T::DATA_TYPE)?;
        let bytes = self.input_bytes_mut(input)?;
        bytemuck::try_cast_slice_mut(bytes).map_err(|error| Error::usage(format!("input {input}: {error}")))
    }

    /// Returns the bytes of an input, little-endian elements, for the caller to write in place. If the input
    /// was last written directly to device memory, the first call copies it back from the device.
    ///
    /// # Errors
    ///
    /// If the input does not exist or cannot be read back from the device.
    pub fn input_bytes_mut(&mut self, input: usize) -> Result<&mut [u8], Error> {
        let count = self.inputs.len();
        let bytes = self.prepared.executor.input_mut(input)?;
        bytes.ok_or_else(|| no_such("input", input, count))
    }

    /// Returns the elements of an output of the last run, or of the run that was waited for last. If the host
    /// can see device memory, the slice refers to the memory that the device wrote and nothing is copied.
    ///
    /// # Errors
    ///
    /// If the output does not exist or is not of type `T`, if the device fails, or if the output has no
    /// value. An output has no value before the first run, after a run that failed and after a resize of the
    /// inputs.
    pub fn read<T: Element>(&self, output: usize) -> Result<&[T], Error> {
        let Some(info) = self.outputs.get(output) else { return Err(no_such("output", output, self.outputs.len())) };
        same_type("output", output, info, T::DATA_TYPE)?;
        let bytes = self.read_bytes(output)?;
        bytemuck::try_cast_slice(bytes).map_err(|error| Error::usage(format!("output {output}: {error}")))
    }

    /// Returns the bytes, little-endian elements, of the output that [`Interpreter::read`] returns.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], except that the data type does not matter.
    pub fn read_bytes(&self, output: usize) -> Result<&[u8], Error> {
        if output >= self.outputs.len() {
            return Err(no_such("output", output, self.outputs.len()));
        }
        let tensor = self.prepared.executor.output(output)?;
        tensor.map(|(_, bytes)| bytes).ok_or_else(|| no_value(output))
    }

    /// Copies an output of the last run into `values`, whose length must equal the number of elements. Large outputs
    /// are copied by several threads, and copying starts while the device still transfers the rest.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], or if the output has a different number of elements.
    pub fn read_into<T: Element>(&self, output: usize, values: &mut [T]) -> Result<(), Error> {
        let Some(info) = self.outputs.get(output) else { return Err(no_such("output", output, self.outputs.len())) };
        same_type("output", output, info, T::DATA_TYPE)?;
        let size = self.output_size(output)? / size_of::<T>();
        if size != values.len() {
            return Err(Error::usage(format!("output {output} has {size} elements, not {}", values.len())));
        }
        self.read_bytes_into(output, bytemuck::cast_slice_mut(values))
    }

    /// Copies the bytes of an output into `bytes`, as [`Interpreter::read_into`] copies the elements. The
    /// length of `bytes` must equal the output's size in bytes.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read_bytes`], or if the output has a different size.
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

    /// Changes the shape of an input and prepares the subgraph again, including delegates and memory. The
    /// other inputs and the variables keep their values. Outputs have no value until the next run.
    ///
    /// # Errors
    ///
    /// As [`InterpreterBuilder::build`], or if an input that keeps its shape cannot be read back from the
    /// device. The interpreter is then unchanged.
    pub fn resize_input(&mut self, input: usize, shape: &[usize]) -> Result<(), Error> {
        self.resize_inputs(&[(input, shape)])
    }

    /// Changes the shapes of several inputs and prepares the subgraph once. `changes` contains the index and
    /// the new shape of each input. Otherwise like [`Interpreter::resize_input`].
    ///
    /// # Errors
    ///
    /// As [`Interpreter::resize_input`].
    pub fn resize_inputs(&mut self, changes: &[(usize, &[usize])]) -> Result<(), Error> {
        let mut shapes = self.shapes.clone();
        shapes.resize(self.inputs.len(), None);
        for (input, shape) in changes {
            let count = self.inputs.len();
            *shapes.get_mut(*input).ok_or_else(|| no_such("input", *input, count))? = Some(Shape::from(*shape));
        }
        let stays = |input: &usize| shapes[*input].as_ref().is_none_or(|shape| *shape == self.inputs[*input].shape);
        (0..self.inputs.len()).filter(stays).try_for_each(|input| self.prepared.executor.keep_input(input))?;
        let mut prepared =
            prepare(&self.model, self.subgraph, &self.options, &shapes, self.environment.prepare_mode())?;
        prepared.executor.keep_values_of(&self.prepared.executor);
        prepared.remember(&self.prepared);
        (self.inputs, self.outputs) = infos(&self.model, self.subgraph, prepared.executor.graph());
        (self.prepared, self.shapes, self.ended) = (prepared, shapes, None);
        Ok(())
    }

    /// Runs the subgraph once on the current inputs and returns when the run has ended.
    ///
    /// # Errors
    ///
    /// If an operator, a delegate or a device fails, or if a limit is exceeded. The outputs then have no value.
    pub fn invoke(&mut self) -> Result<(), Error> {
        self.invoke_repeatedly(1)
    }

    /// Runs the subgraph `times` times on the same inputs. Outputs are those of the last run. If one delegate runs the
    /// whole graph, only the last run is waited for, and runs may overlap; on the GPU, overlapping runs use separate
    /// memory. Zero runs have no effect.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke`].
    pub fn invoke_repeatedly(&mut self, times: usize) -> Result<(), Error> {
        if times == 0 {
            return Ok(());
        }
        self.ended = None;
        self.run(times)?;
        self.note_shapes();
        Ok(())
    }

    /// Starts a run on the current inputs and returns without waiting for it. [`Interpreter::wait`] makes its outputs
    /// available. The inputs may be written for the next run immediately. Up to [`Interpreter::queue_depth`] runs can
    /// be in progress or not yet waited for. Starting one more waits for the oldest of them and discards its outputs.
    ///
    /// The run ends before this method returns if the CPU or several partitions take part in it, or if
    /// [`InterpreterBuilder::cpu_fallback`] is set.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke`].
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

    /// Starts a run like [`Interpreter::invoke_async`], but returns `None` and starts nothing if that would
    /// discard the outputs of a run that was not waited for.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke_async`].
    pub fn try_invoke_async(&mut self) -> Result<Option<Run>, Error> {
        let is_unread = matches!(self.ended, Some((_, false)));
        if is_unread || self.prepared.executor.is_full() {
            return Ok(None);
        }
        self.invoke_async().map(Some)
    }

    /// Waits for a run. Afterwards, the reading methods return its outputs. Runs that were started earlier
    /// may be waited for later.
    ///
    /// # Errors
    ///
    /// If the run failed, if its outputs were discarded, or if inputs were resized after it was started.
    pub fn wait(&mut self, run: Run) -> Result<(), Error> {
        match &mut self.ended {
            Some((ended, waited)) if *ended == run => *waited = true,
            _ => self.prepared.executor.wait(run)?,
        }
        Ok(())
    }

    /// Returns the maximum number of runs that can be in progress or not yet waited for at the same time. It
    /// is 1 if each run ends before [`Interpreter::invoke_async`] returns.
    pub fn queue_depth(&self) -> usize {
        if self.options.cpu_fallback { 1 } else { self.prepared.executor.depth() }
    }

    /// Sets the shapes in the descriptions of the outputs to those of the last run.
    fn note_shapes(&mut self) {
        for (index, info) in self.outputs.iter_mut().enumerate() {
            if let Some((shape, _)) = self.prepared.executor.output_size(index)
                && info.shape != *shape
            {
                info.shape = shape.clone();
            }
        }
    }

    /// Runs the subgraph `times` times. If a delegate fails and the CPU fallback is enabled, the CPU does the
    /// remaining runs.
    fn run(&mut self, times: usize) -> Result<(), Error> {
        if !self.options.cpu_fallback || self.options.delegates.is_empty() {
            return self.prepared.executor.run(times, &mut self.environment);
        }
        let mut left = times;
        while left > 0 {
            let now = if self.prepared.executor.is_whole_partition() { left } else { 1 };
            let state = State::of(&self.prepared.executor, &self.environment);
            let run = self.prepared.executor.run(now, &mut self.environment);
            match run.and_then(|()| self.prepared.executor.settle()) {
                Ok(()) => left -= now,
                Err(error) => {
                    // Outputs that were not read may be wrong even though the run itself succeeded.
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

    /// Prepares the subgraph again without delegates after a delegate failed, and restores the variables from
    /// `state`. If that preparation fails, the delegates stay.
    fn leave_delegates(&mut self, error: &Error, state: State) -> Result<(), Error> {
        let also = |other: Error| Error::new(other.kind(), format!("{error}; and the CPU cannot take over: {other}"));
        let options = Options { delegates: Delegates::default(), required: false, ..self.options.clone() };
        state.restore(&mut self.prepared.executor, &mut self.environment);
        let mode = self.environment.prepare_mode();
        let mut prepared = prepare(&self.model, self.subgraph, &options, &self.shapes, mode).map_err(also)?;
        self.environment.leave_delegates().map_err(also)?;
        prepared.executor.keep_values_of(&self.prepared.executor);
        prepared.record_fallback(&self.prepared, error);
        (self.prepared, self.options) = (prepared, options);
        Ok(())
    }

    /// Resets all variables to their state before the first run. The elements of variable tensors become
    /// zero, or the zero point if they are quantized int8. Resource variables have no value.
    pub fn reset_variables(&mut self) {
        self.prepared.executor.reset_variables();
        self.environment.reset_variables();
    }

    /// Returns the placement report: where each operator runs, and why.
    pub fn placement(&self) -> &Placement {
        &self.prepared.placement
    }

    /// Returns the timing of the last run on delegates that measure it, such as one from
    /// `GpuDelegate::profiled`. Subgraphs that branches and loops run are not included.
    ///
    /// # Errors
    ///
    /// If a delegate cannot read its measurement from the device.
    pub fn profile(&mut self) -> Result<Profile, Error> {
        let partitions = self.prepared.executor.profile()?;
        let subgraph = &self.model.subgraphs()[self.subgraph];
        Ok(Profile::of(subgraph, self.prepared.executor.graph(), partitions))
    }

    /// Returns statistics about the interpreter.
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
