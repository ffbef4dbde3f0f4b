//! The graph: tensors, and nodes in topological order.

use std::fmt;
use std::sync::Arc;

use crate::{Fact, Op};

/// Identifies a tensor of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// Identifies a node of a graph by its index in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl TensorId {
    /// Index in [`Graph::tensors`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Index in [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor: its name and what is known about it.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name in the file; may be empty and need not be unique.
    pub name: String,
    /// What is known about it.
    pub fact: Fact,
}

/// An operator applied to tensors.
#[derive(Clone, Debug)]
pub struct Node {
    /// The operator.
    pub op: Arc<dyn Op>,
    /// The inputs; `None` for an optional input that is left out.
    pub inputs: Vec<Option<TensorId>>,
    /// The outputs.
    pub outputs: Vec<TensorId>,
    /// Ascending indices of the file's operators that this node implements.
    pub origins: Vec<usize>,
}

/// One subgraph of a model.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name in the file.
    pub name: String,
    /// All tensors. Passes add tensors and never remove any, so the file's indices stay valid.
    pub tensors: Vec<Tensor>,
    /// All nodes, in execution order.
    pub nodes: Vec<Node>,
    /// Tensors that the caller provides.
    pub inputs: Vec<TensorId>,
    /// Tensors that the caller reads. One may be an input or a constant, or be listed twice.
    pub outputs: Vec<TensorId>,
}

/// Error for a graph with wrong order or indices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {reason}")]
pub struct InvalidGraph {
    /// Index of the node; the number of nodes where a graph output is wrong.
    pub node: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl Graph {
    /// A tensor.
    ///
    /// # Panics
    ///
    /// Panics where there is no such tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// What is known about a tensor.
    ///
    /// # Panics
    ///
    /// Panics where there is no such tensor.
    pub fn fact(&self, id: TensorId) -> &Fact {
        &self.tensors[id.index()].fact
    }

    /// A node.
    ///
    /// # Panics
    ///
    /// Panics where there is no such node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Adds a tensor.
    pub fn add_tensor(&mut self, name: impl Into<String>, fact: Fact) -> TensorId {
        self.tensors.push(Tensor { name: name.into(), fact });
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// The facts of a node's inputs.
    pub fn input_facts(&self, node: &Node) -> Vec<Option<&Fact>> {
        node.inputs.iter().map(|id| id.map(|id| self.fact(id))).collect()
    }

    /// The node that produces each tensor.
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for output in &node.outputs {
                producers[output.index()] = Some(NodeId(index as u32));
            }
        }
        producers
    }

    /// The nodes that read each tensor, once for each input slot.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                consumers[input.index()].push(NodeId(index as u32));
            }
        }
        consumers
    }

    /// Checks that indices exist, that no tensor is produced twice and that every tensor is produced before it is read.
    ///
    /// # Errors
    ///
    /// Fails with the first node or graph output that breaks these rules.
    ///
    /// # Panics
    ///
    /// Panics where a graph input does not exist.
    pub fn validate(&self) -> Result<(), InvalidGraph> {
        let mut known: Vec<bool> =
            self.tensors.iter().map(|tensor| tensor.fact.constant.is_some() || tensor.fact.is_variable).collect();
        self.inputs.iter().for_each(|id| known[id.index()] = true);
        for (node, Node { inputs, outputs, .. }) in self.nodes.iter().enumerate() {
            let wrong = |reason: String| Err(InvalidGraph { node, reason });
            for input in inputs.iter().flatten() {
                if !known.get(input.index()).copied().unwrap_or(false) {
                    return wrong(format!("tensor {} is read before it is made", input.0));
                }
            }
            for output in outputs {
                match known.get_mut(output.index()) {
                    Some(slot) if !*slot => *slot = true,
                    _ => return wrong(format!("tensor {} is made twice, or is not the node's to make", output.0)),
                }
            }
        }
        match self.outputs.iter().find(|id| !known.get(id.index()).copied().unwrap_or(false)) {
            Some(id) => Err(InvalidGraph { node: self.nodes.len(), reason: format!("output {} is never made", id.0) }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let describe = |id: &TensorId| {
            let fact = self.fact(*id);
            let shape = fact.shape.as_ref().map_or("[?]".to_owned(), |shape| shape.to_string());
            format!("%{} {}{shape}{}", id.0, fact.data_type, if fact.constant.is_some() { " constant" } else { "" })
        };
        for id in &self.inputs {
            writeln!(f, "input {} \"{}\"", describe(id), self.tensor(*id).name)?;
        }
        for node in &self.nodes {
            let outputs: Vec<_> = node.outputs.iter().map(describe).collect();
            let inputs: Vec<_> = node.inputs.iter().map(|id| id.as_ref().map_or("-".to_owned(), describe)).collect();
            let origins: Vec<_> = node.origins.iter().map(|origin| origin.to_string()).collect();
            let (outputs, inputs, origins) = (outputs.join(", "), inputs.join(", "), origins.join(", "));
            writeln!(f, "{outputs} = {} {:?}({inputs})  # {origins}", node.op.name(), node.op)?;
        }
        for id in &self.outputs {
            writeln!(f, "output {} \"{}\"", describe(id), self.tensor(*id).name)?;
        }
        Ok(())
    }
}
