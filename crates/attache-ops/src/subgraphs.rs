//! The model's subgraphs, for the import of one that calls others: infers and caches the output shapes of
//! called subgraphs, and holds the shapes of resource variables. Independent of the operators.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use attache_base::Shape;
use attache_graph::Graph;
use attache_model::{Model, Subgraph, Tensor};

/// Shapes of resource variables, by the variable's container and name, in their order.
#[derive(Clone, Default)]
pub(crate) struct Held(pub(crate) Vec<((String, String), Shape)>);

impl Held {
    pub(crate) fn get(&self, container: &str, name: &str) -> Option<&Shape> {
        let place = self.0.binary_search_by(|((of, named), _)| (of.as_str(), named.as_str()).cmp(&(container, name)));
        place.ok().map(|index| &self.0[index].1)
    }
}

/// Maximum depth of nested calls that are inferred. The output shapes of deeper calls are known only at run
/// time.
const MOST_NESTED: usize = 16;
/// Maximum number of operators and tensors that are inferred in called subgraphs during one import, however
/// often subgraphs call each other.
const MOST_LOOKED_AT: usize = 1 << 18;

/// Maximum size of the subgraphs whose nodes take the place of calls, see [`size`], over all subgraphs that programs run.
/// Each has an equal share, so that the size is bounded for a file, and independent of what else was imported.
const MOST_INLINED: usize = 1 << 16;

/// Number of bytes of a tensor's name and scales that count as one tensor more.
const BYTES: usize = 64;

/// Returns the number of operators and tensors of a subgraph. A tensor with a long name or many scales counts several times.
fn size(subgraph: &Subgraph) -> usize {
    let bytes = |tensor: &Tensor| {
        let scales = tensor.quantization.as_ref().map_or(0, |it| 4 * it.scale.len() + 8 * it.zero_point.len());
        tensor.name.len().saturating_add(scales)
    };
    let tensors = subgraph.tensors.iter().map(|tensor| 1 + bytes(tensor) / BYTES);
    tensors.fold(1 + subgraph.operators.len(), usize::saturating_add)
}

/// Shapes of several tensors; `None` for a shape that is known only at run time.
pub(crate) type Shapes = Vec<Option<Shape>>;

/// A function that imports a subgraph, given by its index, for its input shapes. It returns `None` if an operator of the
/// subgraph is invalid.
pub(crate) type Import = Arc<dyn Fn(&Callees, usize, Shapes) -> Option<Graph> + Send + Sync>;

/// Access to the model's subgraphs from one of them, with the chain of calls that leads to it.
#[derive(Clone)]
pub(crate) struct Callees {
    model: Model,
    /// Shapes of the resource variables at every read, as far as they are known.
    pub(crate) held: Arc<Held>,
    /// Indices of the subgraphs on the chain of calls, outermost first, including the current one.
    around: Vec<usize>,
    known: Arc<Mutex<Known>>,
    import: Import,
}

/// The results of inferring called subgraphs so far.
#[derive(Default)]
struct Known {
    /// Output shapes, by the subgraph's index and its input shapes.
    outputs: HashMap<(usize, Shapes), Shapes>,
    /// Size of the subgraphs that [`Callees::graph`] has returned.
    inlined: usize,
    /// Size of the subgraphs that [`Callees::examined`] has returned.
    examined: usize,
    /// Number of operators and tensors inferred so far. A subgraph counts again for each combination of input
    /// shapes.
    looked_at: usize,
}

impl Callees {
    /// Creates the access from outside of all subgraphs, with an empty chain of calls.
    pub(crate) fn new(model: &Model, held: Held, import: Import) -> Self {
        Self { model: model.clone(), held: Arc::new(held), around: Vec::new(), known: Arc::default(), import }
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
        let graph = (self.import)(self, subgraph, inputs.to_vec());
        let shapes = |graph: Graph| graph.outputs.iter().map(|id| graph.fact(*id).shape.clone()).collect();
        let outputs = graph.map_or(unknown, shapes);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.outputs.insert(key, outputs.clone());
        outputs
    }

    /// Returns the graph of a subgraph for these input shapes, so that its nodes can take the place of a call.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the call is recursive or nested too deeply, if programs do not run the outermost subgraph
    /// themselves, if all such graphs together become too large, or if the subgraph is invalid.
    pub(crate) fn graph(&self, subgraph: usize, inputs: Shapes) -> Result<Graph, &'static str> {
        if cfg!(attache_small) {
            return Err("the smallest libraries replace no calls");
        }
        let entries = self.check_replaceable(subgraph)?;
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let inlined = known.inlined.saturating_add(size(&self.model.subgraphs()[subgraph]));
            if inlined > MOST_INLINED / entries {
                return Err("the subgraphs that are called would become too many nodes");
            }
            known.inlined = inlined;
        }
        (self.import)(self, subgraph, inputs).ok_or("its subgraph is invalid")
    }

    /// Returns the graph of a subgraph like [`Callees::graph`], for who decides whether its nodes can take the place of a call
    /// and bounds their number.
    pub(crate) fn examined(&self, subgraph: usize, inputs: Shapes) -> Result<Graph, &'static str> {
        let entries = self.check_replaceable(subgraph)?;
        {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let examined = known.examined.saturating_add(size(&self.model.subgraphs()[subgraph]));
            if examined > MOST_LOOKED_AT / entries {
                return Err("there are too many and too large loops");
            }
            known.examined = examined;
        }
        (self.import)(self, subgraph, inputs).ok_or("its subgraph is invalid")
    }

    /// Fails with the reason if the nodes of a subgraph cannot take the place of a call. Returns the number of subgraphs that
    /// programs run.
    fn check_replaceable(&self, subgraph: usize) -> Result<usize, &'static str> {
        if self.around.contains(&subgraph) || self.around.len() == MOST_NESTED {
            return Err("subgraphs call each other too often");
        }
        let entries: BTreeSet<usize> =
            self.model.signatures().iter().map(|signature| signature.subgraph).chain([0]).collect();
        if !self.around.first().is_some_and(|first| entries.contains(first)) {
            return Err("the call is in a subgraph that is called itself");
        }
        Ok(entries.len())
    }
}

impl std::fmt::Debug for Callees {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callees").finish_non_exhaustive()
    }
}
