//! The model's other subgraphs, as the import of one sees them: which shapes they make, and what variables hold. Knows no
//! operator.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use attache_base::Shape;
use attache_model::Model;

/// Shapes of variables by container and name.
pub(crate) type Held = BTreeMap<(String, String), Shape>;

/// Subgraphs that are looked into within each other. Of what lies deeper only a run tells the shapes.
const MOST_NESTED: usize = 16;
/// Operators and tensors that are looked at for the shapes of called subgraphs, however often these call each other.
const MOST_LOOKED_AT: usize = 1 << 18;

/// Shapes of several tensors; `None` for one that only a run tells.
pub(crate) type Shapes = Vec<Option<Shape>>;

/// Infers the shapes that a subgraph makes of inputs of these shapes; `None` where the subgraph is wrong.
pub(crate) type Infer = fn(&Callees, usize, Shapes) -> Option<Shapes>;

/// A model whose subgraphs call each other, as seen from within one of them.
#[derive(Clone)]
pub(crate) struct Callees {
    model: Model,
    /// What resource variables hold.
    pub(crate) held: Arc<Held>,
    /// The subgraphs around this place, the outermost first.
    around: Vec<usize>,
    known: Arc<Mutex<Known>>,
    infer: Infer,
}

/// What is known of called subgraphs so far.
#[derive(Default)]
struct Known {
    /// Shapes of outputs by subgraph and shapes of inputs.
    outputs: HashMap<(usize, Shapes), Shapes>,
    /// Operators and tensors looked at.
    looked_at: usize,
}

impl Callees {
    /// From outside of all subgraphs.
    pub(crate) fn new(model: &Model, held: Held, infer: Infer) -> Self {
        Self { model: model.clone(), held: Arc::new(held), around: Vec::new(), known: Arc::default(), infer }
    }

    /// From within this subgraph, which is called from here.
    pub(crate) fn within(&self, subgraph: usize) -> Self {
        Self { around: self.around.iter().copied().chain([subgraph]).collect(), ..self.clone() }
    }

    /// The model.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// The shapes that a subgraph makes of inputs of these shapes, as far as they are known.
    pub(crate) fn shapes(&self, subgraph: usize, inputs: &[Option<Shape>]) -> Shapes {
        let source = &self.model.subgraphs()[subgraph];
        let unknown = vec![None; source.outputs.len()];
        // One that calls itself never runs.
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
