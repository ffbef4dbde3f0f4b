//! Changes to a graph, as values: a rule returns one, the rewriter applies it.

use attache_base::Constant;

use crate::{Graph, NodeId, TensorId};

/// A change to a graph.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// Tensors whose value is now known.
    pub constants: Vec<(TensorId, Constant)>,
    /// Tensors, and those of the same value that are to be read in their place. Never outputs of the graph, and what is
    /// read instead is no other one's tensor to be replaced.
    pub replace: Vec<(TensorId, TensorId)>,
    /// Nodes that need not run any more.
    pub remove: Vec<NodeId>,
}

impl Patch {
    /// Whether the patch changes nothing.
    pub fn is_empty(&self) -> bool {
        self.constants.is_empty() && self.replace.is_empty() && self.remove.is_empty()
    }

    /// Applies the change. Node indices shift: a patch is good for the graph it was made from.
    pub fn apply(self, graph: &mut Graph) {
        for (id, constant) in self.constants {
            let fact = &mut graph.tensors[id.index()].fact;
            fact.shape = Some(constant.shape.clone());
            fact.constant = Some(constant);
        }
        for input in graph.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().flatten()) {
            if let Some((_, other)) = self.replace.iter().find(|(id, _)| id == input) {
                *input = *other;
            }
        }
        let mut index = 0;
        graph.nodes.retain(|_| {
            index += 1;
            !self.remove.contains(&NodeId(index - 1))
        });
    }
}
