//! The model's subgraphs, for the import of one that calls others: infers and caches the output shapes of
//! called subgraphs, and holds the shapes of resource variables. Independent of the operators.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use attache_base::Shape;
use attache_model::Model;

/// Shapes of resource variables, by the variable's container and name.
pub(crate) type Held = BTreeMap<(String, String), Shape>;

/// Maximum depth of nested calls that are inferred. The output shapes of deeper calls are known only at run
/// time.
const MOST_NESTED: usize = 16;
/// Maximum number of operators and tensors that are inferred in called subgraphs during one import, however
/// often subgraphs call each other.
const MOST_LOOKED_AT: usize = 1 << 18;

/// Shapes of several tensors; `None` for a shape that is known only at run time.
pub(crate) type Shapes = Vec<Option<Shape>>;

/// A function that infers the output shapes of a subgraph, given by its index, from its input shapes. It
/// returns `None` if an operator of the subgraph is invalid.
pub(crate) type Infer = Arc<dyn Fn(&Callees, usize, Shapes) -> Option<Shapes> + Send + Sync>;

/// Access to the model's subgraphs from one of them, with the chain of calls that leads to it.
#[derive(Clone)]
pub(crate) struct Callees {
    model: Model,
    /// Shapes of the resource variables at every read, as far as they are known.
    pub(crate) held: Arc<Held>,
    /// Indices of the subgraphs on the chain of calls, outermost first, including the current one.
    around: Vec<usize>,
    known: Arc<Mutex<Known>>,
    infer: Infer,
}

/// The results of inferring called subgraphs so far.
#[derive(Default)]
struct Known {
    /// Output shapes, by the subgraph's index and its input shapes.
    outputs: HashMap<(usize, Shapes), Shapes>,
    /// Number of operators and tensors inferred so far. A subgraph counts again for each combination of input
    /// shapes.
    looked_at: usize,
}

impl Callees {
    /// Creates the access from outside of all subgraphs, with an empty chain of calls.
    pub(crate) fn new(model: &Model, held: Held, infer: Infer) -> Self {
        Self { model: model.clone(), held: Arc::new(held), around: Vec::new(), known: Arc::default(), infer }
    }

    /// Returns the access from within a subgraph that the current one calls.
    pub(crate) fn within(&self, subgraph: usize) -> Self {
        Self { around: self.around.iter().copied().chain([subgraph]).collect(), ..self.clone() }
    }

    /// Returns the model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the output shapes of a subgraph for these input shapes; `None` for a shape that is not known
    /// before run time. All are `None` if the call is recursive, nested too deeply or too costly to infer, or
    /// if the subgraph is invalid.
    pub(crate) fn shapes(&self, subgraph: usize, inputs: &[Option<Shape>]) -> Shapes {
        let source = &self.model.subgraphs()[subgraph];
        let unknown = vec![None; source.outputs.len()];
        // A subgraph that calls itself is never run.
        if self.around.contains(&subgraph) || self.around.len() == MOST_NESTED {
            return unknown;
        }
        let key = (subgraph, inputs.to_vec());
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(outputs) = known.outputs.get(&key) {
                return outputs.clone();
            }
            let (ends, inside) = (inputs.len() + unknown.len(), source.operators.len() + source.tensors.len());
            let looked_at = known.looked_at.saturating_add(ends + inside + 1);
            if looked_at > MOST_LOOKED_AT {
                return unknown;
            }
            known.looked_at = looked_at;
        }
        let outputs = (self.infer)(self, subgraph, inputs.to_vec()).unwrap_or(unknown);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.outputs.insert(key, outputs.clone());
        outputs
    }
}

impl std::fmt::Debug for Callees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callees").finish_non_exhaustive()
    }
}
