//! Infers output shapes again after a patch has made the values of tensors known.

use attache_graph::{Graph, Node, NodeId};

use crate::visits;

/// Infers the output shapes of all nodes that have an output of unknown shape, and stores them in the graph.
/// If the inference of a node fails, its shapes stay unknown, and the error is reported at run time.
pub(crate) fn refresh(graph: &mut Graph) {
    let is_open = |node: &Node| node.outputs.iter().any(|id| graph.fact(*id).shape.is_none());
    let open: Vec<NodeId> = visits::nodes(graph).filter(|(_, node)| is_open(node)).map(|(id, _)| id).collect();
    for id in open {
        let node = graph.node(id);
        let Ok(inferred) = node.op.infer(&graph.input_facts(node)) else { continue };
        for (id, inferred) in node.outputs.clone().into_iter().zip(inferred) {
            let countable = inferred.shape.filter(|shape| shape.checked_elements().is_some());
            graph.tensors[id.index()].fact.shape = countable;
        }
    }
}
