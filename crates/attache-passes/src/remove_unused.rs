//! The rule `remove_unused`: removes nodes without side effects whose outputs nothing reads, and transitively
//! the nodes whose outputs only removed nodes read.

use attache_graph::{Graph, Patch};

use crate::{FoldedConstants, Found, Rule, has_side_effects, visits};

pub(crate) const RULE: Rule = Rule { name: "remove_unused", fate: "removed: nothing reads it", find };

fn find(graph: &Graph, _: &dyn FoldedConstants) -> Found {
    let mut read = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| read[id.index()] = true);
    let mut remove = Vec::new();
    for (id, node) in visits::nodes(graph).rev() {
        if !has_side_effects(graph, node) && node.outputs.iter().all(|id| !read[id.index()]) {
            remove.push(id);
        } else {
            node.inputs.iter().flatten().for_each(|id| read[id.index()] = true);
        }
    }
    remove.reverse();
    Found { patch: Patch { remove, ..Patch::default() }, ..Found::default() }
}

#[cfg(test)]
mod tests {
    use attache_graph::NodeId;

    use super::*;
    use crate::NothingFolded;
    use crate::testing::{Double, graph};

    #[test]
    fn a_chain_that_nobody_reads_goes_at_once() {
        let mut graph = graph(3);
        let (x, a, b) = (graph.inputs[0], graph.outputs[0], graph.add_tensor("b", crate::testing::fact(3)));
        let c = graph.add_tensor("c", crate::testing::fact(3));
        graph.nodes = vec![Double::node(x, b, 0), Double::node(x, a, 1), Double::node(b, c, 2)];
        assert_eq!(find(&graph, &NothingFolded).patch.remove, [NodeId(0), NodeId(2)]);
    }

    #[test]
    fn what_touches_variables_stays() {
        let mut graph = graph(3);
        let (x, a, b) = (graph.inputs[0], graph.outputs[0], graph.add_tensor("b", crate::testing::fact(3)));
        let state = graph.add_tensor("state", attache_graph::Fact { is_variable: true, ..crate::testing::fact(3) });
        graph.nodes = vec![Double::node(x, a, 0), Double::node(state, b, 1)];
        assert!(find(&graph, &NothingFolded).patch.is_empty());
    }
}
