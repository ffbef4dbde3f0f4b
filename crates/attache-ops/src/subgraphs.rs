//! The model's other subgraphs during the import of one: the shapes of their outputs, and the shapes of resource
//! variables. Independent of the operators.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use attache_base::Shape;
use attache_model::Model;

/// Shapes of resource variables by container and name.
pub(crate) type Held = BTreeMap<(String, String), Shape>;

/// Limit on nested calls that are inferred. Deeper calls have shapes that are known only at run time.
const MOST_NESTED: usize = 16;
/// Limit on operators and tensors inferred in called subgraphs, however often they call each other.
const MOST_LOOKED_AT: usize = 1 << 18;

/// Shapes of several tensors; `None` where a shape is known only at run time.
pub(crate) type Shapes = Vec<Option<Shape>>;

/// Infers the output shapes of a subgraph from its input shapes; `None` where the subgraph is invalid.
pub(crate) type Infer = fn(&Callees, usize, Shapes) -> Option<Shapes>;

/// The model's subgraphs, as seen from one of them.
#[derive(Clone)]
pub(crate) struct Callees {
    model: Model,
    /// Shapes of resource variables.
    pub(crate) held: Arc<Held>,
    /// The chain of callers, outermost first.
    around: Vec<usize>,
    known: Arc<Mutex<Known>>,
    infer: Infer,
}

/// Inference results of called subgraphs so far.
#[derive(Default)]
struct Known {
    /// Output shapes by subgraph and input shapes.
    outputs: HashMap<(usize, Shapes), Shapes>,
    /// Number of operators and tensors inferred so far.
    looked_at: usize,
}

impl Callees {
    /// The view from outside of all subgraphs.
    pub(crate) fn new(model: &Model, held: Held, infer: Infer) -> Self {
        Self { model: model.clone(), held: Arc::new(held), around: Vec::new(), known: Arc::default(), infer }
    }

    /// The view from within a subgraph that is called from here.
    pub(crate) fn within(&self, subgraph: usize) -> Self {
        Self { around: self.around.iter().copied().chain([subgraph]).collect(), ..self.clone() }
    }

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The output shapes of a subgraph for these input shapes, as far as they are known.
    pub(crate) fn shapes(&self, subgraph: usize, inputs: &[Option<Shape>]) -> Shapes {
        let source = &self.model.subgraphs()[subgraph];
        let unknown = vec![None; source.outputs.len()];
        // A subgraph that calls itself never runs.
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
