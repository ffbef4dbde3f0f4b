//! Shapes that became known because a value did.

use attache_graph::Graph;

/// Infers the outputs of nodes whose shapes only a run told so far. A failure leaves them so: the run will tell it.
pub(crate) fn refresh(graph: &mut Graph) {
    for index in 0..graph.nodes.len() {
        let node = &graph.nodes[index];
        if node.outputs.iter().all(|id| graph.fact(*id).shape.is_some()) {
            continue;
        }
        let Ok(inferred) = node.op.infer(&graph.input_facts(node)) else { continue };
        for (id, inferred) in node.outputs.clone().into_iter().zip(inferred) {
            let countable = inferred.shape.filter(|shape| shape.checked_elements().is_some());
            graph.tensors[id.index()].fact.shape = countable;
        }
    }
}
