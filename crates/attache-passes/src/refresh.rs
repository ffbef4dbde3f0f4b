//! Infers shapes again after a value has become known.

use attache_graph::{Graph, Node, NodeId};

use crate::visits;

/// Infers the outputs of nodes with an output of unknown shape. Where inference fails the shape stays unknown, and the
/// error is reported at run time.
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
