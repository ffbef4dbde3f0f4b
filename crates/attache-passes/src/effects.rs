//! What keeps a node in its place though nobody reads its outputs.

use attache_base::DataType;
use attache_graph::{Graph, Node};

/// Whether a node does something besides making its outputs: it says so, it has none, or it touches what lives on between
/// runs.
pub fn has_side_effects(graph: &Graph, node: &Node) -> bool {
    let touches = |fact: &attache_graph::Fact| {
        fact.is_variable || matches!(fact.data_type, DataType::Resource | DataType::Variant)
    };
    let tensors = node.inputs.iter().flatten().chain(&node.outputs);
    node.op.has_side_effects() || node.outputs.is_empty() || tensors.copied().any(|id| touches(graph.fact(id)))
}
