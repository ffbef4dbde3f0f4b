//! Side effects of nodes. A node with side effects is kept even if nothing reads its outputs.

use attache_base::DataType;
use attache_graph::{Graph, Node, NodeId, TensorId, VariableUse};

/// Whether a node has an effect besides writing its outputs: its operator declares one, it has no outputs, or
/// one of its tensors is a variable or of type `RESOURCE` or `VARIANT`, whose state persists between runs.
#[must_use]
pub fn has_side_effects(graph: &Graph, node: &Node) -> bool {
    let touches = |fact: &attache_graph::Fact| {
        fact.is_variable || matches!(fact.data_type, DataType::Resource | DataType::Variant)
    };
    let tensors = node.inputs.iter().flatten().chain(&node.outputs);
    node.op.has_side_effects() || node.outputs.is_empty() || tensors.copied().any(|id| touches(graph.fact(id)))
}

/// What the side effects of a node touch. Two nodes keep their order if both touch the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effects {
    /// Anything.
    Anything,
    /// These variables; none for a node without side effects, or one that only makes the handle of a variable.
    Variables(Vec<Variable>),
}

/// A variable that side effects touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    /// A variable tensor.
    Tensor(TensorId),
    /// The resource variable with this name in this container.
    Resource {
        /// The container.
        container: String,
        /// The name.
        name: String,
    },
}

/// Returns what the side effects of a node touch. `makers` has the node that makes each tensor
/// ([`Graph::producers`]).
#[must_use]
pub fn effects(graph: &Graph, makers: &[Option<NodeId>], node: &Node) -> Effects {
    let is_handle = matches!(node.op.variable_use(), Some(VariableUse::Handle { .. }));
    if is_handle || !has_side_effects(graph, node) {
        return Effects::Variables(Vec::new());
    }
    let tensors = node.inputs.iter().flatten().chain(&node.outputs).copied();
    let mut variables = Vec::new();
    for id in tensors {
        let fact = graph.fact(id);
        match fact.data_type {
            _ if fact.is_variable => variables.push(Variable::Tensor(id)),
            DataType::Resource | DataType::Variant => match resource(graph, makers, id) {
                Some(resource) => variables.push(resource),
                None => return Effects::Anything,
            },
            _ => {}
        }
    }
    if node.op.has_side_effects() || variables.is_empty() { Effects::Anything } else { Effects::Variables(variables) }
}

/// Returns the variable of a handle that a node of the graph makes; `None` for other tensors.
fn resource(graph: &Graph, makers: &[Option<NodeId>], handle: TensorId) -> Option<Variable> {
    let maker = makers.get(handle.index()).copied().flatten()?;
    match graph.node(maker).op.variable_use()? {
        VariableUse::Handle { container, name } => {
            Some(Variable::Resource { container: container.to_owned(), name: name.to_owned() })
        }
        VariableUse::Read { .. } | VariableUse::Assign { .. } => None,
    }
}
