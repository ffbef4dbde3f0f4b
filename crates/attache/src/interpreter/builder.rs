//! The builder of interpreters and compiled models.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use attache_base::{Idle, IntegerRounding, Shape};
use attache_kernels::Isa;
use attache_model::Model;
use attache_ops::OpResolver;

use super::tensor::OwnedKey;
use super::{CompiledModel, Interpreter, TensorKey, signature};
use crate::cache::open_packed;
use crate::runtime::{KeptTensors, Options, default_threads};
use crate::{Delegate, Error, ErrorKind, Limits};

/// Configures and builds an [`Interpreter`] or a [`CompiledModel`].
#[must_use]
#[derive(Clone)]
pub struct InterpreterBuilder {
    model: Model,
    options: Options,
    signature: Option<String>,
    /// The shapes of inputs. Of several for one input, the last one counts.
    shapes: Vec<(OwnedKey, Shape)>,
    /// The tensors to keep.
    kept: Vec<OwnedKey>,
    preserves_all: bool,
}

impl InterpreterBuilder {
    pub(crate) fn new(model: &Model) -> Self {
        let options = Options::new(default_threads(), &Limits::default());
        let (signature, shapes, kept) = Default::default();
        Self { model: model.clone(), options, signature, shapes, kept, preserves_all: false }
    }

    /// Sets the number of threads that work on the CPU at the same time, including the calling thread. The
    /// default is the number of CPUs that the process can use, but at most four. 0 counts as 1, and numbers
    /// above 256 count as 256.
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// Sets whether the threads of [`threads`](Self::threads) sleep as soon as they have nothing to do. This takes the least
    /// energy, for instance on batteries; most models then run more slowly on several threads. By default they stay awake within
    /// a run, for at most two milliseconds without work, and for 0.3 milliseconds after it.
    pub fn save_energy(mut self, saved: bool) -> Self {
        self.options.idle = if saved { Idle::Asleep } else { Idle::Awake };
        self
    }

    /// Sets how the CPU rounds the results of quantized operators. The default is [`IntegerRounding::Reference`].
    ///
    /// Delegates round in their own way: the GPU delegate's exact form has the bits of the reference kernels, whatever is set
    /// here. Constants that are computed from constants before the first run have the bits of the reference kernels as well.
    /// Libraries that were built to be as small as possible have no other rounding; [`compile`](Self::compile) then fails.
    pub fn rounding(mut self, rounding: IntegerRounding) -> Self {
        self.options.rounding = rounding;
        self
    }

    /// Adds a delegate: by value, or an `Arc` of one that several builders share. Delegates are asked in the order in
    /// which they are added, each about the nodes that earlier ones left.
    pub fn delegate(mut self, delegate: impl Delegate + 'static) -> Self {
        self.options.delegates.push(Arc::new(delegate));
        self
    }

    /// Sets whether [`build`](InterpreterBuilder::build) fails if any operator is left to the CPU. The error
    /// lists all of these operators with their reasons.
    pub fn require_delegation(mut self, required: bool) -> Self {
        self.options.required = required;
        self
    }

    /// Sets whether the CPU takes over permanently if a delegate's device is lost or out of memory, or if a
    /// delegate fails in a run. Without this option these are errors. A run that fails is repeated on the CPU
    /// from the inputs and variables with which it started. Other failures of a delegate while the
    /// interpreter is built are never errors: its nodes run elsewhere. The fallback is reported in
    /// [`Interpreter::report`], in [`Interpreter::placement`] and as a warning in the log.
    pub fn cpu_fallback(mut self, fallback: bool) -> Self {
        self.options.cpu_fallback = fallback;
        self
    }

    /// Sets whether inputs and outputs have memory at addresses that stay, which [`Interpreter::input_memory`] and
    /// [`Interpreter::output_memory`] return, even where operators could pass them by reference. Then an operator that
    /// updates an input, such as a cache, copies it to its output in each run, but nothing else does; and
    /// [`Interpreter::carry`] copies. The default is false.
    pub fn fixed_addresses(mut self, fixed: bool) -> Self {
        self.options.fixed_addresses = fixed;
        self
    }

    /// Sets whether each run records how long every operator on the CPU takes, for [`Interpreter::profile`].
    /// The default is false. Delegates have options of their own, such as `GpuDelegate::profiled`.
    pub fn profile(mut self, profile: bool) -> Self {
        self.options.profile = profile;
        self
    }

    /// Sets the upper limits on what the model may use, such as memory and arithmetic.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Keeps the value of a tensor that is no output until the next run, for [`Interpreter::tensor`]. The tensor is
    /// given by its name or by its index in the subgraph that the interpreter runs ([`InterpreterBuilder::signature`]);
    /// tensors of other signatures are kept by [`InterpreterBuilder::preserve_all_tensors`].
    /// [`InterpreterBuilder::build`] fails if there is no such tensor. Kept tensors take memory of their own, and keep
    /// delegates from fusing the operators that compute and read them.
    pub fn keep_tensor(mut self, tensor: impl TensorKey) -> Self {
        self.kept.push(tensor.owned());
        self
    }

    /// Keeps the values of all tensors that operators compute until the next run, for [`Interpreter::tensor`]. Named
    /// after TensorFlow Lite's `experimental_preserve_all_tensors`.
    pub fn preserve_all_tensors(mut self, preserved: bool) -> Self {
        self.preserves_all = preserved;
        self
    }

    /// Sets the operators that the program registers: custom ones, and others in place of builtin ones.
    pub fn operators(mut self, resolver: &OpResolver) -> Self {
        self.options.resolver = resolver.clone();
        self
    }

    /// Stores the weights that the CPU packs in a folder, such as [`CacheFolder::user_folder`](crate::CacheFolder::user_folder), and
    /// finds them there at later starts. The first run then packs nothing: the kernels read the weights from the file, and
    /// processes that use the same file share its memory. The default is no folder.
    ///
    /// Weights are found again for the same content of the model file (or [`model_token`](Self::model_token)), version
    /// of Attaché and instruction set. The first run that packs weights stores them afterwards, on a thread of its own; a
    /// compiled model and its interpreters wait for that thread when the last of them is dropped. A process that ends
    /// earlier stores nothing. Weights that are packed later, for other input shapes or subgraphs, are added.
    ///
    /// The folder is created if it is missing, and may be deleted at any time. What cannot be read or written there, or
    /// was damaged, is packed anew, with a line in the log; it is never an error. [`CacheFolder`](crate::CacheFolder) says which
    /// folders are used, and lists and deletes what is in one.
    pub fn cache(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.cache = Some((folder.into(), open_packed));
        self
    }

    /// Sets a name that stands for the content of the model in [`cache`](Self::cache), so that starts need not read the
    /// whole file to recognize it. The name must be another one whenever the weights change, for instance the version
    /// of the model: with weights of the same sizes under the name of others, results are those of the others. Models
    /// that differ in anything else than large weights are told apart. Without a name, the content of the file is hashed.
    pub fn model_token(mut self, token: impl Into<String>) -> Self {
        self.options.model_token = Some(token.into());
        self
    }

    /// Selects the subgraph of the signature with this key instead of the first subgraph. The key may be
    /// empty if the model has exactly one signature. [`InterpreterBuilder::build`] fails if the signature
    /// does not exist.
    pub fn signature(mut self, key: &str) -> Self {
        self.signature = Some(key.to_owned());
        self
    }

    /// Overrides the shape of an input, given by its name or by its index. [`InterpreterBuilder::build`] fails if the
    /// input does not exist.
    pub fn input_shape(mut self, input: impl TensorKey, shape: &[usize]) -> Self {
        self.shapes.push((input.owned(), Shape::from(shape)));
        self
    }

    /// Returns the index of the selected subgraph.
    fn subgraph(&self) -> Result<usize, Error> {
        match &self.signature {
            None => Ok(0),
            Some(key) => Ok(signature::signature_of(&self.model, key)?.subgraph),
        }
    }

    /// Returns the shape of each input of the subgraph; `None` for the one that the file states.
    fn shapes_in(&self, subgraph: usize) -> Result<Vec<Option<Shape>>, Error> {
        let (model, source) = (&self.model, &self.model.subgraphs()[subgraph]);
        let names = source.inputs.iter().map(|index| source.tensors[*index].name.as_str());
        let mut shapes = vec![None; source.inputs.len()];
        for (input, shape) in &self.shapes {
            let find = |name: &str| signature::input_index(model, subgraph, name);
            shapes[input.find("input", names.clone().collect(), find)?] = Some(shape.clone());
        }
        Ok(shapes)
    }

    /// Returns the tensors to keep, each by its subgraph and its index.
    fn kept_in(&self, subgraph: usize) -> Result<Vec<(usize, usize)>, Error> {
        let tensors = &self.model.subgraphs()[subgraph].tensors;
        let names = tensors.iter().map(|tensor| tensor.name.as_str());
        let find = |name: &str| tensors.iter().position(|tensor| tensor.name == name);
        self.kept.iter().map(|tensor| Ok((subgraph, tensor.find("tensor", names.clone().collect(), find)?))).collect()
    }

    /// Compiles the model: imports the graph, assigns its operators to delegates and the CPU, prepares the delegates
    /// and plans memory. [`CompiledModel::interpreter`] makes interpreters of it.
    ///
    /// A delegate that fails is reported in the placement and its operators run elsewhere. A device that is lost or out
    /// of memory is an error, unless [`InterpreterBuilder::cpu_fallback`] is set.
    ///
    /// # Errors
    ///
    /// If the model is invalid or exceeds the limits, if an operator is neither implemented nor taken by a delegate, if
    /// delegation is required and an operator is left to the CPU, if the signature or an input with a shape does not
    /// exist, if a delegate's device is lost or out of memory, if the library was built without the rounding, or if
    /// the environment variable `ATTACHE_MAX_ISA` names no instruction set.
    pub fn compile(self) -> Result<CompiledModel, Error> {
        if cfg!(attache_small) && self.options.rounding != IntegerRounding::Reference {
            return Err(Error::new(ErrorKind::Unsupported, "this small library rounds as the reference kernels alone"));
        }
        Isa::check_limit().map_err(Error::usage)?;
        let subgraph = self.subgraph()?;
        let (shapes, kept) = (self.shapes_in(subgraph)?, self.kept_in(subgraph)?);
        let kept = match self.preserves_all {
            true => KeptTensors::All,
            false if kept.is_empty() => KeptTensors::None,
            false => KeptTensors::Some(kept),
        };
        let resolver = self.options.resolver.for_model(self.options.threads);
        let options = Options { kept, resolver, ..self.options };
        CompiledModel::of(&self.model, subgraph, &options, shapes)
    }

    /// Compiles the model and makes an interpreter of it.
    ///
    /// # Errors
    ///
    /// As [`InterpreterBuilder::compile`] and [`CompiledModel::interpreter`].
    pub fn build(self) -> Result<Interpreter, Error> {
        self.compile()?.interpreter()
    }
}

impl fmt::Debug for InterpreterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterpreterBuilder")
            .field("model", &self.model)
            .field("signature", &self.signature)
            .finish_non_exhaustive()
    }
}

impl CompiledModel {
    /// Compiles a model for the CPU, with the default options. [`Interpreter::builder`] has options and delegates.
    ///
    /// # Errors
    ///
    /// As [`InterpreterBuilder::compile`].
    pub fn new(model: &Model) -> Result<Self, Error> {
        InterpreterBuilder::new(model).compile()
    }
}
