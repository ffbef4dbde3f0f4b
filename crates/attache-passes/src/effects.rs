//! Side effects of nodes. A node with side effects is kept even if nothing reads its outputs.

use attache_base::DataType;
use attache_graph::{Graph, Node};

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
