//! Compiled models: what all interpreters of a model have in common.

use std::fmt;
use std::sync::Arc;

use attache_base::Shape;
use attache_model::Model;

use super::Interpreter;
use super::instance::Core;
use crate::runtime::{Key, Options, Plans, PrepareMode};
use crate::{Error, Placement};

/// A model that is ready to run: its graph, the placement of its operators, packed weights, and what delegates prepared,
/// such as pipelines and weights on the device.
///
/// A compiled model is made once ([`InterpreterBuilder::compile`](crate::InterpreterBuilder::compile)). Interpreters of
/// it are cheap: each has memory for its own inputs, outputs, variables and intermediate tensors, and all of them use
/// one copy of the weights, for all input shapes. Clones are cheap and refer to the same compiled model. It can be used
/// from several threads at once.
///
/// ```no_run
/// # fn main() -> Result<(), attache::Error> {
/// let model = attache::Model::from_path("model.tflite")?;
/// let compiled = attache::Interpreter::builder(&model).threads(1).compile()?;
/// let (mut a, mut b) = (compiled.interpreter()?, compiled.interpreter()?);
/// std::thread::scope(|scope| {
///     scope.spawn(|| a.invoke());
///     scope.spawn(|| b.invoke());
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct CompiledModel {
    plans: Arc<Plans>,
    subgraph: usize,
    /// The shapes that interpreters start with; `None` for the shape that the file states.
    shapes: Vec<Option<Shape>>,
    placement: Arc<Placement>,
}

impl CompiledModel {
    pub(super) fn of(
        model: &Model,
        subgraph: usize,
        options: &Options,
        shapes: Vec<Option<Shape>>,
    ) -> Result<Self, Error> {
        let plans = Plans::new(model, options);
        let key = Key { subgraph, shapes, mode: PrepareMode::First, is_called: false };
        let placement = plans.prepared(&key)?.placement.clone();
        Ok(Self { plans, subgraph, shapes: key.shapes, placement })
    }

    /// Makes an interpreter.
    ///
    /// # Errors
    ///
    /// If there is too little memory, or if a delegate fails.
    pub fn interpreter(&self) -> Result<Interpreter, Error> {
        let core = Core::new(self.plans.clone(), self.subgraph, self.shapes.clone())?;
        Ok(Interpreter::new(self.subgraph, core))
    }

    /// Returns the model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.plans.model
    }

    /// Returns the placement report: where each operator runs, and why.
    #[must_use]
    pub fn placement(&self) -> &Placement {
        &self.placement
    }
}

impl fmt::Debug for CompiledModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledModel").field("subgraph", &self.subgraph).finish_non_exhaustive()
    }
}
