//! Tensors of the file whose shapes are inferred to be others than the file states.

use attache_base::Shape;
use attache_graph::Graph;
use attache_model::Model;

/// The tensors, by their indices in the file. Those whose shapes only a run shows are not among them.
#[derive(Debug, Default)]
pub(crate) struct Inferred(pub(crate) Vec<(usize, Shape)>);

impl Inferred {
    /// Compares a graph as it was imported with the file.
    pub(super) fn new(graph: &Graph, model: &Model, subgraph: usize) -> Self {
        let stated = model.subgraphs()[subgraph].tensors.iter().enumerate();
        let changed = stated.filter_map(|(index, tensor)| {
            let shape = graph.tensors.get(index)?.fact.shape.as_ref()?;
            (shape[..] != tensor.shape[..]).then(|| (index, shape.clone()))
        });
        Self(changed.collect())
    }
}
