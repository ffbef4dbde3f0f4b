//! How an interpreter is asked for.

use std::sync::Arc;

use attache_base::Shape;
use attache_model::Model;

use super::{Interpreter, signature};
use crate::runtime::Options;
use crate::{Delegate, Error, Limits};

/// Most threads that are used unless the caller asks for more.
const DEFAULT_THREADS: usize = 4;

/// Describes an [`Interpreter`] and makes it.
#[derive(Clone)]
pub struct InterpreterBuilder {
    model: Model,
    options: Options,
    signature: Option<String>,
    shapes: Vec<(usize, Shape)>,
}

impl InterpreterBuilder {
    pub(crate) fn new(model: &Model) -> Self {
        let available = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        let options = Options::new(available.min(DEFAULT_THREADS), &Limits::default());
        Self { model: model.clone(), options, signature: None, shapes: Vec::new() }
    }

    /// How many threads work at once on the CPU, the caller's own included. Unless set: as many as the machine has, but
    /// no more than four. More than 256 count as 256.
    pub fn threads(mut self, threads: usize) -> Self {
        self.options.threads = threads.max(1);
        self
    }

    /// Adds a delegate. The first one added is asked first; a later one gets what is left.
    pub fn delegate(mut self, delegate: Arc<dyn Delegate>) -> Self {
        self.options.delegates.push(delegate);
        self
    }

    /// Makes it an error that lists them all, each with its reason, if any operator is left to the CPU.
    pub fn require_delegation(mut self, required: bool) -> Self {
        self.options.required = required;
        self
    }

    /// [`InterpreterBuilder::require_delegation`], as those call it who have but the GPU for a delegate.
    pub fn require_gpu(self, required: bool) -> Self {
        self.require_delegation(required)
    }

    /// Has the CPU take over for good where a device is lost or out of memory, or a delegate fails otherwise, instead of
    /// an error: a run that fails is done again from its inputs and variables as they were. The report and the placement
    /// say so, and so does a warning in the log.
    pub fn cpu_fallback(mut self, fallback: bool) -> Self {
        self.options.cpu_fallback = fallback;
        self
    }

    /// The most that the model may ask for.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.options.limits = limits;
        self
    }

    /// Chooses the subgraph of a signature instead of the first one.
    pub fn signature(mut self, key: &str) -> Self {
        self.signature = Some(key.to_owned());
        self
    }

    /// Gives an input another shape than the file's. [`InterpreterBuilder::build`] fails where there is no such input.
    pub fn input_shape(mut self, input: usize, shape: &[usize]) -> Self {
        self.shapes.retain(|(other, _)| *other != input);
        self.shapes.push((input, Shape::from(shape)));
        self
    }

    /// Makes the interpreter. Fails where the model is wrong, where an operator is neither implemented nor taken by a
    /// delegate, or where delegation was required and something was left behind. A delegate that fails is reported in
    /// the placement, and its operators run elsewhere; but a device that is lost or out of memory is an error, unless
    /// [`InterpreterBuilder::cpu_fallback`] was asked for.
    pub fn build(self) -> Result<Interpreter, Error> {
        let subgraph = match &self.signature {
            None => 0,
            Some(key) => signature::find(&self.model, key)?.subgraph,
        };
        Interpreter::new(self.model, subgraph, self.options, self.shapes)
    }
}
