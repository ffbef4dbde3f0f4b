//! Changes to a graph as values: a graph pass returns a [`Patch`], and the code that runs the passes applies
//! it.

use std::collections::{HashMap, HashSet};

use attache_base::Constant;

use crate::{Graph, Node, NodeId, Tensor, TensorId};

/// A change to a graph: tensors that are added or become constants, inputs of nodes that are replaced, and nodes that
/// are replaced by others or removed.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// Tensors that are added after those of the graph.
    pub tensors: Vec<Tensor>,
    /// Nodes, ascending, each with those that take its place. A patch with such nodes removes none. The smallest libraries
    /// leave them as they are.
    pub expand: Vec<(NodeId, Vec<Node>)>,
    /// Tensors that become constants, each with its value.
    pub constants: Vec<(TensorId, Constant)>,
    /// Pairs of a tensor and a tensor of equal value, which all nodes that read the first one read instead.
    /// The first tensor is never an output of the graph, and the second is never itself replaced by the
    /// patch.
    pub replace: Vec<(TensorId, TensorId)>,
    /// Nodes to remove.
    pub remove: Vec<NodeId>,
}

impl Patch {
    /// Whether the patch changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.constants.is_empty() && self.replace.is_empty() && self.remove.is_empty() && self.expand.is_empty()
    }

    /// Applies the change to the graph from which the patch was computed, in time proportional to the sizes
    /// of the graph and the patch. Removing nodes changes the [`NodeId`]s of later nodes, so a patch is valid
    /// for no other graph.
    ///
    /// # Panics
    ///
    /// Panics if a tensor in `constants` does not exist in the graph.
    pub fn apply(self, graph: &mut Graph) {
        graph.tensors.extend(self.tensors);
        for (id, constant) in self.constants {
            let fact = &mut graph.tensors[id.index()].fact;
            fact.shape = Some(constant.shape.clone());
            fact.constant = Some(constant);
        }
        if !cfg!(attache_small) && !self.expand.is_empty() {
            debug_assert!(self.remove.is_empty(), "a patch that expands nodes removes none");
            let mut expand = self.expand.into_iter().peekable();
            for (index, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
                match expand.next_if(|(id, _)| id.index() == index) {
                    Some((_, nodes)) => graph.nodes.extend(nodes),
                    None => graph.nodes.push(node),
                }
            }
        }
        if !self.replace.is_empty() {
            let replace: HashMap<TensorId, TensorId> = self.replace.into_iter().collect();
            for input in graph.nodes.iter_mut().flat_map(|node| node.inputs.iter_mut().flatten()) {
                *input = replace.get(input).copied().unwrap_or(*input);
            }
        }
        if !self.remove.is_empty() {
            let remove: HashSet<NodeId> = self.remove.into_iter().collect();
            let mut ids = (0..).map(NodeId);
            graph.nodes.retain(|_| ids.next().is_none_or(|id| !remove.contains(&id)));
        }
    }
}
