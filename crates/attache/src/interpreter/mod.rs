//! Interpreters and compiled models: [`CompiledModel`] is what all interpreters of a model have in common, and an
//! [`Interpreter`] sets the inputs of a subgraph, runs it and reads its outputs.

mod bindings;
mod builder;
mod carry;
mod compiled;
mod instance;
mod run;
mod signature;
mod tensor;
#[cfg(feature = "ndarray")]
mod tensor_ndarray;
mod variables;

use std::borrow::Borrow;
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use attache_base::{DataType, Element, Quantization, Shape};
use attache_model::Model;

use crate::runtime::{Cancellation, RunId};
use crate::{Error, ErrorKind, Placement, Profile, Report};

pub use builder::InterpreterBuilder;
pub use compiled::CompiledModel;
use instance::{Core, Instance};
pub use run::Run;
use run::Worker;
pub use signature::SignatureRunner;
pub use tensor::{InputTensor, OutputTensor, TensorKey};

/// Description of an input or an output of the subgraph.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
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

impl TensorInfo {
    /// Creates the description of a tensor that is not quantized and whose shape is fixed. A program's own tests may need
    /// one.
    #[must_use]
    pub fn new(name: &str, data_type: DataType, shape: Shape) -> Self {
        Self { name: name.to_owned(), data_type, shape, shape_signature: None, quantization: None }
    }
}

/// Runs a model: its first subgraph, and the subgraphs of its signatures.
///
/// Inputs keep their values from run to run. Outputs are valid until the next run.
///
/// Inputs and outputs are given by their names or by their positions in [`Interpreter::inputs`] and
/// [`Interpreter::outputs`]. Elements are passed in row-major order, outermost extent first. An input or output that
/// does not exist, a type that is not that of the tensor and a wrong number of elements are errors of kind
/// [`ErrorKind::Usage`].
///
/// An interpreter is used by one thread at a time. Several interpreters of one [`CompiledModel`] run at once.
pub struct Interpreter {
    /// The subgraph that the methods without a signature use.
    main: usize,
    /// Everything that runs use; empty while the worker does a run.
    core: OnceCell<Box<Core>>,
    /// Where the worker puts the core after its run.
    away: Option<Receiver<Box<Core>>>,
    worker: Worker,
    cancellation: Cancellation,
    /// Its address is the identity of the interpreter.
    identity: Arc<()>,
    /// The run that the worker was given last, and whether it was waited for, until something else runs.
    last: Option<(Run, bool)>,
}

impl Interpreter {
    /// Creates a builder for an interpreter of the model's first subgraph.
    pub fn builder(model: &Model) -> InterpreterBuilder {
        InterpreterBuilder::new(model)
    }

    fn new(main: usize, core: Core) -> Self {
        Self {
            main,
            cancellation: Cancellation::default(),
            core: OnceCell::from(Box::new(core)),
            away: None,
            worker: Worker::default(),
            identity: Arc::default(),
            last: None,
        }
    }

    /// Returns the core. Waits for the worker if that has it.
    fn core(&self) -> &Core {
        self.core.get_or_init(|| {
            let core = self.away.as_ref().and_then(|away| away.recv().ok());
            core.expect("the worker returns the core after every run")
        })
    }

    fn core_mut(&mut self) -> &mut Core {
        self.core();
        self.core.get_mut().expect("the core was just waited for")
    }

    fn instance(&self) -> &Instance {
        self.instance_of(self.main)
    }

    fn instance_mut(&mut self) -> &mut Instance {
        self.instance_of_mut(self.main)
    }

    fn instance_of(&self, subgraph: usize) -> &Instance {
        &self.core().instances[&subgraph]
    }

    fn instance_of_mut(&mut self, subgraph: usize) -> &mut Instance {
        self.core_mut().instances.get_mut(&subgraph).expect("subgraphs are prepared before they are used")
    }

    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.core().plans.model
    }

    /// Returns the index of the subgraph that the interpreter runs.
    pub fn subgraph(&self) -> usize {
        self.main
    }

    /// Returns the descriptions of the inputs.
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.instance().inputs
    }

    /// Returns the descriptions of the outputs.
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.instance().outputs
    }

    /// Returns the index of the first input with this name. Tensor names are searched first, then the input
    /// names in the subgraph's signatures.
    pub fn input_index(&self, name: &str) -> Option<usize> {
        signature::input_index(self.model(), self.main, name)
    }

    /// Returns the index of the first output with this name. Tensor names are searched first, then the output
    /// names in the subgraph's signatures.
    pub fn output_index(&self, name: &str) -> Option<usize> {
        signature::output_index(self.model(), self.main, name)
    }

    fn find_input(&self, key: &impl TensorKey) -> Result<usize, Error> {
        let names = self.inputs().iter().map(|info| info.name.as_str());
        key.find("input", names.collect(), |name| self.input_index(name))
    }

    fn find_output(&self, key: &impl TensorKey) -> Result<usize, Error> {
        let names = self.outputs().iter().map(|info| info.name.as_str());
        key.find("output", names.collect(), |name| self.output_index(name))
    }

    /// Returns an input, for the caller to write: with its type, shape and quantization parameters.
    ///
    /// # Errors
    ///
    /// If the input does not exist or cannot be read back from the device.
    pub fn input(&mut self, input: impl TensorKey) -> Result<InputTensor<'_>, Error> {
        let index = self.find_input(&input)?;
        self.instance_mut().input(index)
    }

    /// Returns an output of the last run, or of the run that was waited for last: with its type, shape and quantization
    /// parameters.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], except that the data type does not matter.
    pub fn output(&self, output: impl TensorKey) -> Result<OutputTensor<'_>, Error> {
        self.instance().output(self.find_output(&output)?)
    }

    /// Returns a tensor of the last run that [`InterpreterBuilder::keep_tensor`] or
    /// [`InterpreterBuilder::preserve_all_tensors`] kept, by its name or by its index in the subgraph of the file. Outputs
    /// are found with [`Interpreter::output`].
    ///
    /// # Errors
    ///
    /// If the tensor was not kept, for example because a graph pass removed the operator that computes it, or as
    /// [`Interpreter::read`].
    pub fn tensor(&self, tensor: impl TensorKey) -> Result<OutputTensor<'_>, Error> {
        self.instance().kept_tensor(&tensor)
    }

    /// Copies `values` into an input. Their number must equal the input's number of elements.
    ///
    /// # Errors
    ///
    /// If the input does not exist, is not of type `T` or has a different number of elements.
    pub fn write<T: Element>(&mut self, input: impl TensorKey, values: &[T]) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.instance_mut().write(input, values)
    }

    /// Copies `bytes`, which are little-endian elements, into an input. Their number must equal the input's
    /// size in bytes, except for strings (as `attache::Strings` has them), whose size may change.
    ///
    /// # Errors
    ///
    /// If the input does not exist or has a different size, or if bytes of strings are damaged.
    pub fn write_bytes(&mut self, input: impl TensorKey, bytes: &[u8]) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.instance_mut().write_bytes(input, bytes)
    }

    /// Writes strings, which are any bytes, into an input of type STRING. Their number must equal the input's number of
    /// elements. [`OutputTensor::strings`] reads those of outputs.
    ///
    /// # Errors
    ///
    /// If the input does not exist, is not of type STRING or has a different number of elements, or if the strings exceed
    /// 2 GiB or [`Limits::tensor_bytes`](crate::Limits::tensor_bytes).
    pub fn write_strings<T: AsRef<[u8]>>(&mut self, input: impl TensorKey, strings: &[T]) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.instance_mut().write_strings(input, strings.iter().map(AsRef::as_ref))
    }

    /// Returns the elements of an input, for the caller to write in place.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::input_bytes_mut`], or if the input is not of type `T`.
    pub fn input_mut<T: Element>(&mut self, input: impl TensorKey) -> Result<&mut [T], Error> {
        self.input(input)?.into_slice()
    }

    /// Returns the bytes of an input, little-endian elements, for the caller to write in place. If the input
    /// was last written directly to device memory, the first call copies it back from the device.
    ///
    /// # Errors
    ///
    /// If the input does not exist or cannot be read back from the device.
    pub fn input_bytes_mut(&mut self, input: impl TensorKey) -> Result<&mut [u8], Error> {
        Ok(self.input(input)?.bytes)
    }

    /// Returns the elements of an output of the last run, or of the run that was waited for last. If the host
    /// can see device memory, the slice refers to the memory that the device wrote and nothing is copied.
    ///
    /// # Errors
    ///
    /// If the output does not exist or is not of type `T`, if the device fails, or if the output has no
    /// value. An output has no value before the first run, after a run that failed and after a resize of the
    /// inputs.
    pub fn read<T: Element>(&self, output: impl TensorKey) -> Result<&[T], Error> {
        self.instance().read(self.find_output(&output)?)
    }

    /// Returns the bytes, little-endian elements, of the output that [`Interpreter::read`] returns.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], except that the data type does not matter.
    pub fn read_bytes(&self, output: impl TensorKey) -> Result<&[u8], Error> {
        self.instance().read_bytes(self.find_output(&output)?)
    }

    /// Copies an output of the last run into `values`, whose length must equal the number of elements. Large outputs
    /// are copied by several threads, and copying starts while the device still transfers the rest.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read`], or if the output has a different number of elements.
    pub fn read_into<T: Element>(&self, output: impl TensorKey, values: &mut [T]) -> Result<(), Error> {
        self.instance().read_into(self.find_output(&output)?, values)
    }

    /// Copies the bytes of an output into `bytes`, as [`Interpreter::read_into`] copies the elements. The
    /// length of `bytes` must equal the output's size in bytes.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::read_bytes`], or if the output has a different size.
    pub fn read_bytes_into(&self, output: impl TensorKey, bytes: &mut [u8]) -> Result<(), Error> {
        self.instance().read_bytes_into(self.find_output(&output)?, bytes)
    }

    /// Changes the shape of an input. The other inputs and the variables keep their values, and inputs and
    /// outputs of unchanged shape their bindings ([`Interpreter::bind_input`]). Outputs have no value until
    /// the next run. The subgraph is prepared for the new shapes, including delegates and memory, unless an
    /// interpreter of the compiled model has used these shapes lately.
    ///
    /// # Errors
    ///
    /// As [`InterpreterBuilder::build`], or if an input that keeps its shape cannot be read back from the
    /// device, or an input or output that does cannot be bound as before. The interpreter is then unchanged.
    pub fn resize_input(&mut self, input: impl TensorKey, shape: &[usize]) -> Result<(), Error> {
        let input = self.find_input(&input)?;
        self.resize(self.main, &[(input, shape)])
    }

    /// Changes the shapes of several inputs and prepares the subgraph once. `changes` contains the name or the index of
    /// each input, and its new shape. Otherwise like [`Interpreter::resize_input`].
    ///
    /// # Errors
    ///
    /// As [`Interpreter::resize_input`].
    pub fn resize_inputs<K: TensorKey>(&mut self, changes: &[(K, &[usize])]) -> Result<(), Error> {
        let index = |(input, shape): &(K, _)| Ok((self.find_input(input)?, *shape));
        let changes: Vec<_> = changes.iter().map(index).collect::<Result<_, Error>>()?;
        self.resize(self.main, &changes)
    }

    fn resize(&mut self, subgraph: usize, changes: &[(usize, &[usize])]) -> Result<(), Error> {
        self.core_mut().resize(subgraph, changes)?;
        self.last = None;
        Ok(())
    }

    /// Runs the subgraph once on the current inputs and returns when the run has ended.
    ///
    /// # Errors
    ///
    /// If an operator, a delegate or a device fails, if a limit is exceeded, or if the run is cancelled. The outputs
    /// then have no value.
    pub fn invoke(&mut self) -> Result<(), Error> {
        self.invoke_repeatedly(1)
    }

    /// Runs the subgraph `times` times on the same inputs. Outputs are those of the last run. If one delegate runs the
    /// whole graph, only the last run is waited for, and runs may overlap; on the GPU, overlapping runs use separate
    /// memory; a cancellation then ends all that were submitted together. Zero runs have no effect.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke`].
    pub fn invoke_repeatedly(&mut self, times: usize) -> Result<(), Error> {
        self.run(self.main, times)
    }

    fn run(&mut self, subgraph: usize, times: usize) -> Result<(), Error> {
        if times == 0 {
            return Ok(());
        }
        // A run that is still under way has ended here, and the number of this one comes after it.
        self.core();
        let started = self.cancellation.start();
        let run = self.core_mut().run(subgraph, times, started);
        self.last = None;
        run
    }

    /// Starts a run on the current inputs and returns without waiting for it. [`Interpreter::wait`] makes its outputs
    /// available.
    ///
    /// If one delegate runs the whole graph, the inputs may be written for the next run immediately, and up to
    /// [`Interpreter::queue_depth`] runs can be in progress or not yet waited for. Starting one more waits for the
    /// oldest of them and discards its outputs. Otherwise the run is done on a thread of the interpreter, and every
    /// method of the interpreter waits until it has ended.
    ///
    /// # Errors
    ///
    /// If the device fails. The error of a run on a thread is returned by the handle and by [`Interpreter::wait`].
    pub fn invoke_async(&mut self) -> Result<Run, Error> {
        self.start(self.main)
    }

    fn start(&mut self, subgraph: usize) -> Result<Run, Error> {
        let source = (self.identity.clone(), subgraph);
        let falls_back = self.core().options().cpu_fallback;
        // A run that is still under way has ended here.
        let started = self.cancellation.start();
        let executor = &mut self.instance_of_mut(subgraph).executor;
        if !falls_back && executor.has_queue() {
            started.ask()?;
            let id = started.id();
            executor.start(id, 1).unwrap_or(Ok(()))?;
            let end = executor.completion(id).ok_or_else(|| no_completion(id))??;
            self.last = None;
            return Ok(Run::on_device(started, source, end, &self.worker));
        }
        let run = Run::on_thread(started.clone(), source, &self.worker);
        let mut core = self.core.take().expect("the core was just used");
        let (sender, away) = channel();
        let theirs = run.clone();
        self.away = Some(away);
        self.worker.submit(Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| core.run(subgraph, 1, started)));
            // The interpreter may have been dropped.
            drop(sender.send(core));
            drop(theirs.end(result.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a run panicked")))));
        }));
        self.last = Some((run.clone(), false));
        Ok(run)
    }

    /// Starts a run like [`Interpreter::invoke_async`], but returns `None` and starts nothing if that would
    /// discard the outputs of a run that was not waited for.
    ///
    /// # Errors
    ///
    /// As [`Interpreter::invoke_async`].
    pub fn try_invoke_async(&mut self) -> Result<Option<Run>, Error> {
        self.try_start(self.main)
    }

    fn try_start(&mut self, subgraph: usize) -> Result<Option<Run>, Error> {
        let is_unread = matches!(self.last, Some((_, false)));
        if is_unread || self.instance_of(subgraph).executor.is_full() {
            return Ok(None);
        }
        self.start(subgraph).map(Some)
    }

    /// Waits for a run. Afterwards, the reading methods return its outputs: those of the runner of its signature, if it
    /// was started by one. Runs that were started earlier may be waited for later.
    /// A run that was cancelled while a device worked on it is waited for until the device has ended it.
    ///
    /// # Errors
    ///
    /// If the run failed or was cancelled, if another interpreter started it, if its outputs were discarded, or if inputs
    /// were resized after it was started.
    pub fn wait(&mut self, run: impl Borrow<Run>) -> Result<(), Error> {
        let run = run.borrow();
        if !run.is_of(&self.identity) {
            return Err(Error::usage("the run is one of another interpreter"));
        }
        match &mut self.last {
            Some((last, waited)) if last.id() == run.id() => {
                *waited = true;
                run.wait_timeout(std::time::Duration::MAX).unwrap_or(Ok(()))
            }
            _ => match self.core_mut().wait(run.subgraph(), run.id()) {
                Ok(()) => run.end_on_device().inspect_err(|_| self.core_mut().forget_outputs(run.subgraph())),
                Err(error) => Err(run.failure().unwrap_or(error)),
            },
        }
    }

    /// Returns the maximum number of runs that can be in progress or not yet waited for at the same time. It
    /// is 1 unless one delegate runs the whole graph.
    pub fn queue_depth(&self) -> usize {
        self.depth(self.main)
    }

    fn depth(&self, subgraph: usize) -> usize {
        if self.core().options().cpu_fallback { 1 } else { self.instance_of(subgraph).executor.depth() }
    }

    /// Returns a handle with which any thread can cancel the interpreter's runs that are under way then.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Sets who is told when the parts of runs begin and end; `None` for nobody. Nodes on the CPU that run together otherwise
    /// run one after the other then. Runs that [`Interpreter::invoke_async`] leaves to a device are not told about.
    ///
    /// ```
    /// # fn main() -> Result<(), attache::Error> {
    /// # use std::sync::{Arc, Mutex};
    /// # use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder, model::schema::BuiltinOperator};
    /// # let mut builder = ModelBuilder::new("relu");
    /// # let main = builder.subgraph("main");
    /// # let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [2]));
    /// # let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [2]));
    /// # builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
    /// # builder.inputs(main, &[x]).outputs(main, &[y]);
    /// # let model = attache::Model::from_bytes(builder.finish())?;
    /// #[derive(Default)]
    /// struct Operators(Mutex<Vec<usize>>);
    ///
    /// impl attache::Observer for Operators {
    ///     fn begin(&self, event: &attache::RunEvent) {
    ///         if let attache::RunEvent::Operator { operator, .. } = event {
    ///             self.0.lock().unwrap().push(*operator);
    ///         }
    ///     }
    ///
    ///     fn end(&self, _: &attache::RunEvent) {}
    /// }
    ///
    /// let mut interpreter = attache::Interpreter::builder(&model).build()?;
    /// let operators = Arc::new(Operators::default());
    /// interpreter.observe(Some(operators.clone()));
    /// interpreter.invoke()?;
    /// assert_eq!(*operators.0.lock().unwrap(), [0]);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(not(attache_small))]
    pub fn observe(&mut self, observer: Option<Arc<dyn crate::Observer>>) {
        self.core_mut().environment.observing.set(observer);
    }

    /// Resets all variables to their state before the first run. The elements of variable tensors become
    /// zero, or the zero point if they are quantized int8. Resource variables have no value.
    pub fn reset_variables(&mut self) {
        self.reset_variable_tensors();
        self.core_mut().environment.reset_resources();
    }

    /// Resets variable tensors alone, as TensorFlow Lite does. Resource variables, such as weights that a signature trained,
    /// and hash tables keep their values.
    pub fn reset_variable_tensors(&mut self) {
        let core = self.core_mut();
        core.instances.values_mut().for_each(|instance| instance.executor.reset_variables());
        core.environment.reset_variable_tensors();
    }

    /// Returns the tensors whose shapes are others than the file states, for the shapes that inputs have now, by their indices
    /// in the file. Those whose shapes only a run shows are not among them.
    #[cfg(not(attache_small))]
    pub fn inferred_shapes(&self) -> &[(usize, Shape)] {
        &self.instance().executor.prepared().inferred.0
    }

    /// Returns the placement report: where each operator runs, and why.
    pub fn placement(&self) -> &Placement {
        &self.instance().placement
    }

    /// Returns the timing of the last run: of delegates that measure it, such as one from
    /// `GpuDelegate::profiled`, and, with [`InterpreterBuilder::profile`], of operators on the CPU. Subgraphs
    /// that branches and loops run are included in the times of these operators, and not listed.
    ///
    /// ```
    /// # fn main() -> Result<(), attache::Error> {
    /// # use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder, model::schema::BuiltinOperator};
    /// # let mut builder = ModelBuilder::new("relu");
    /// # let main = builder.subgraph("main");
    /// # let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [2]));
    /// # let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [2]));
    /// # builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
    /// # builder.inputs(main, &[x]).outputs(main, &[y]);
    /// # let model = attache::Model::from_bytes(builder.finish())?;
    /// let mut interpreter = attache::Interpreter::builder(&model).profile(true).build()?;
    /// interpreter.invoke()?;
    /// let profile = interpreter.profile()?;
    /// assert_eq!(profile.operators[0].operators, [(0, "RELU".to_owned())]);
    /// assert!(profile.operators[0].milliseconds >= 0.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If a delegate cannot read its measurement from the device.
    pub fn profile(&mut self) -> Result<Profile, Error> {
        let partitions = self.instance_mut().executor.profile()?;
        let subgraph = &self.model().subgraphs()[self.main];
        let executor = &self.instance().executor;
        Ok(Profile::of(subgraph, executor.graph(), partitions, executor.times()))
    }

    /// Returns statistics about the interpreter.
    pub fn report(&self) -> Report {
        let instance = self.instance();
        let panics = instance.panics().into_iter().chain(self.core().environment.panics()).collect();
        let (io_bytes, copied_bytes) = (instance.executor.io_bytes(), self.core().environment.copied());
        Report { panics, io_bytes, copied_bytes, ..instance.report.clone() }
    }
}

impl std::fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interpreter").field("subgraph", &self.main).finish_non_exhaustive()
    }
}

fn no_such(what: &str, index: usize, count: usize) -> Error {
    Error::usage(format!("there is no {what} {index}; their number is {count}"))
}

fn no_completion(id: RunId) -> Error {
    Error::new(ErrorKind::Internal, format!("run {} is not in the queue", id.0))
}

fn same_type(what: &str, index: usize, info: &TensorInfo, asked: DataType) -> Result<(), Error> {
    if info.data_type == asked {
        return Ok(());
    }
    let remedy = match (info.quantization.is_some() && asked == DataType::Float32, what) {
        (true, "input") => "; InputTensor::quantize_from takes floats",
        (true, _) => "; OutputTensor::dequantize returns floats",
        (false, _) => "",
    };
    let name = &info.name;
    Err(Error::usage(format!("{what} {index} (\"{name}\") is of type {}, not {asked}{remedy}", info.data_type)))
}
