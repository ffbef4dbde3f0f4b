//! The graph: tensors, and nodes in an order in which each tensor is made before it is read.

use std::fmt;
use std::sync::Arc;

use crate::{Fact, Op};

/// A tensor of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// A node of a graph: its place in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl TensorId {
    /// Its place in [`Graph::tensors`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Its place in [`Graph::nodes`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor: its name and what is known about it.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// The file's name for it; may be empty, need not be unique.
    pub name: String,
    /// What is known about it.
    pub fact: Fact,
}

/// An operator applied to tensors.
#[derive(Clone, Debug)]
pub struct Node {
    /// What is done.
    pub op: Arc<dyn Op>,
    /// To which tensors; `None` for an optional input that is left out.
    pub inputs: Vec<Option<TensorId>>,
    /// The tensors made.
    pub outputs: Vec<TensorId>,
    /// Indices of the file's operators whose work this is, ascending.
    pub origins: Vec<usize>,
}

/// One subgraph of a model.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The file's name for it.
    pub name: String,
    /// Every tensor. Passes add to them and never take any away, so indices of the file stay good.
    pub tensors: Vec<Tensor>,
    /// Every node, in the order in which they run.
    pub nodes: Vec<Node>,
    /// Tensors that come from outside.
    pub inputs: Vec<TensorId>,
    /// Tensors that go outside. One may be an input or a constant, or be named twice.
    pub outputs: Vec<TensorId>,
}

/// A graph whose order or indices are wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {reason}")]
pub struct InvalidGraph {
    /// The node.
    pub node: usize,
    /// What is wrong with it.
    pub reason: String,
}

impl Graph {
    /// The tensor.
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// What is known about the tensor.
    pub fn fact(&self, id: TensorId) -> &Fact {
        &self.tensors[id.index()].fact
    }

    /// The node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// A new tensor.
    pub fn add_tensor(&mut self, name: impl Into<String>, fact: Fact) -> TensorId {
        self.tensors.push(Tensor { name: name.into(), fact });
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// What is known about a node's inputs.
    pub fn input_facts(&self, node: &Node) -> Vec<Option<&Fact>> {
        node.inputs.iter().map(|id| id.map(|id| self.fact(id))).collect()
    }

    /// Which node makes each tensor.
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for output in &node.outputs {
                producers[output.index()] = Some(NodeId(index as u32));
            }
        }
        producers
    }

    /// Which nodes read each tensor, once for each time they do.
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                consumers[input.index()].push(NodeId(index as u32));
            }
        }
        consumers
    }

    /// Checks that indices exist, that nothing is made twice and that everything is made before it is read.
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
            writeln!(f, "{} = {:?}({})  # {}", outputs.join(", "), node.op, inputs.join(", "), origins.join(", "))?;
        }
        for id in &self.outputs {
            writeln!(f, "output {} \"{}\"", describe(id), self.tensor(*id).name)?;
        }
        Ok(())
    }
}
