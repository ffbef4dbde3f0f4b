//! The graph of a model's subgraph ([`Graph`]): tensors, and nodes in topological order.

use std::fmt;
use std::sync::Arc;

use attache_base::{DataType, Shape};

use crate::{Fact, Op, Unsupported};

/// Identifies a tensor of a graph by its index in [`Graph::tensors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u32);

/// Identifies a node of a graph by its index in [`Graph::nodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl TensorId {
    /// Returns the index of the tensor in [`Graph::tensors`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Returns the index of the node in [`Graph::nodes`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor of a graph: its name and what is known about it.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name in the model file; may be empty and need not be unique.
    pub name: String,
    /// What is known about the tensor: element type, shape, value, quantization parameters.
    pub fact: Fact,
}

/// A node: an operator with the tensors that it reads and writes.
#[derive(Clone, Debug)]
pub struct Node {
    /// The operator, with its attributes.
    pub op: Arc<dyn Op>,
    /// The tensors that the operator reads, in the order of its inputs; `None` for an optional input that is
    /// left out.
    pub inputs: Vec<Option<TensorId>>,
    /// The tensors that the operator writes, in the order of its outputs.
    pub outputs: Vec<TensorId>,
    /// The operators of the model file that this node implements: their indices in the subgraph, ascending. For a node of
    /// a called subgraph, the operator of this one that leads to the call.
    pub origins: Vec<usize>,
    /// Where the node is from, if it is one of those that took the place of a call.
    pub inlined: Option<Inlined>,
}

/// The operator of a called subgraph that a node implements, where the nodes of that subgraph took the place of the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inlined {
    /// The call.
    pub call: Arc<InlinedCall>,
    /// The operator's index in the called subgraph.
    pub operator: usize,
}

/// A call that the nodes of a subgraph took the place of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InlinedCall {
    /// The name of what is called ([`Body::name`]), after those of the calls around it: `outer/inner`.
    pub name: String,
    /// Index of the called subgraph in the model.
    pub subgraph: usize,
    /// Where the call itself is from, if it is a node of a called subgraph.
    pub around: Option<Inlined>,
}

/// What an operator that calls a subgraph does: the nodes of this graph, and nothing else.
#[derive(Clone, Debug)]
pub struct Body {
    /// What is called, for people: the name of a composite, else that of the operator.
    pub name: String,
    /// Index of the called subgraph in the model.
    pub subgraph: usize,
    /// The subgraph, with the shapes that follow from the arguments.
    pub graph: Graph,
    /// Index of the operator's input that is the first input of the graph.
    pub first: usize,
}

/// What an operator repeats that is a loop: a condition and a body, which both take the values of the loop. Values that the
/// body returns are those of the next turn.
pub trait Loop {
    /// Returns the graph whose output is whether the body runs once more, for values of these shapes.
    ///
    /// # Errors
    ///
    /// Fails with the reason why the graph is not available.
    fn condition(&self, shapes: &[Option<Shape>]) -> Result<Graph, String>;

    /// Returns the body for values of these shapes.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the nodes of the subgraph can't take the place of the loop.
    fn body(&self, shapes: &[Option<Shape>]) -> Result<Body, String>;
}

impl Node {
    /// Returns where the first operator that the node implements is in the model, as indices of a subgraph and of an
    /// operator in it; `None` if there is no such operator. `subgraph` is the subgraph of the node's graph.
    #[must_use]
    pub fn place(&self, subgraph: usize) -> Option<(usize, usize)> {
        match &self.inlined {
            Some(Inlined { call, operator }) if !cfg!(attache_small) => Some((call.subgraph, *operator)),
            _ => Some((subgraph, *self.origins.first()?)),
        }
    }

    /// Returns the operator's name, after those of the calls in whose place it is: `odml.rms_norm/MUL`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.inlined {
            Some(inlined) if !cfg!(attache_small) => format!("{}/{}", inlined.call.name, self.op.name()),
            _ => self.op.name().to_owned(),
        }
    }
}

/// One subgraph of a model.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name of the subgraph in the model file.
    pub name: String,
    /// All tensors. Graph passes add tensors and never remove any, so the model file's tensor indices stay
    /// valid.
    pub tensors: Vec<Tensor>,
    /// All nodes, in execution order.
    pub nodes: Vec<Node>,
    /// The inputs of the subgraph: tensors whose values the caller provides.
    pub inputs: Vec<TensorId>,
    /// The outputs of the subgraph: tensors that the caller reads. One may also be an input or a constant, or
    /// be listed twice.
    pub outputs: Vec<TensorId>,
}

/// Error of [`Graph::validate`]: the first node that breaks a rule, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {reason}")]
pub struct InvalidGraph {
    /// Index of the node in [`Graph::nodes`], or the number of nodes if an output of the graph is wrong.
    pub node: usize,
    /// What is wrong with the node or with the output of the graph.
    pub reason: String,
}

impl Graph {
    /// Returns the tensor with this id.
    ///
    /// # Panics
    ///
    /// Panics where there is no such tensor.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.index()]
    }

    /// Returns what is known about the tensor with this id.
    ///
    /// # Panics
    ///
    /// Panics where there is no such tensor.
    #[must_use]
    pub fn fact(&self, id: TensorId) -> &Fact {
        &self.tensors[id.index()].fact
    }

    /// Returns the node with this id.
    ///
    /// # Panics
    ///
    /// Panics where there is no such node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Adds a tensor to the graph and returns its id.
    pub fn add_tensor(&mut self, name: impl Into<String>, fact: Fact) -> TensorId {
        self.tensors.push(Tensor { name: name.into(), fact });
        TensorId(self.tensors.len() as u32 - 1)
    }

    /// Returns the facts of the node's inputs, in their order; `None` for an optional input that is left out.
    #[must_use]
    pub fn input_facts(&self, node: &Node) -> Vec<Option<&Fact>> {
        node.inputs.iter().map(|id| id.map(|id| self.fact(id))).collect()
    }

    /// Checks that the node reads and writes no strings, which are in the memory of the host only.
    ///
    /// # Errors
    ///
    /// Fails with the reason why a delegate cannot run the node.
    pub fn check_no_strings(&self, node: &Node) -> Result<(), Unsupported> {
        let mut tensors = node.inputs.iter().flatten().chain(&node.outputs);
        match tensors.any(|id| self.fact(*id).data_type == DataType::String) {
            true => Err(Unsupported::new("strings stay on the CPU")),
            false => Ok(()),
        }
    }

    /// Returns for each tensor the node that writes it; `None` for graph inputs, constants, variables and
    /// tensors that nothing writes.
    #[must_use]
    pub fn producers(&self) -> Vec<Option<NodeId>> {
        let mut producers = vec![None; self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for output in &node.outputs {
                producers[output.index()] = Some(NodeId(index as u32));
            }
        }
        producers
    }

    /// Returns for each tensor the nodes that read it, in execution order. A node that reads the tensor
    /// through several of its inputs is listed once per input.
    #[must_use]
    pub fn consumers(&self) -> Vec<Vec<NodeId>> {
        let mut consumers = vec![Vec::new(); self.tensors.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for input in node.inputs.iter().flatten() {
                consumers[input.index()].push(NodeId(index as u32));
            }
        }
        consumers
    }

    /// Checks that all tensors of nodes and graph outputs exist, that no tensor is written twice, that no
    /// node writes a graph input, a constant or a variable, and that every tensor has a value or is written
    /// before a node or the caller reads it.
    ///
    /// # Errors
    ///
    /// Fails with the first node that breaks these rules, or else with the first such graph output.
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
            write!(f, "{outputs} = {} {:?}({inputs})  # {origins}", node.op.name(), node.op)?;
            match &node.inlined {
                Some(Inlined { call, operator }) if !cfg!(attache_small) => {
                    writeln!(f, ": {}, subgraph {}, operator {operator}", call.name, call.subgraph)?;
                }
                _ => writeln!(f)?,
            }
        }
        for id in &self.outputs {
            writeln!(f, "output {} \"{}\"", describe(id), self.tensor(*id).name)?;
        }
        Ok(())
    }
}
