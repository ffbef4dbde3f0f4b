//! Iterators over the nodes of a graph, for use by all rules. In tests they count visited nodes, so that a
//! test can check that the rules take a number of visits proportional to the number of nodes.

#[cfg(not(test))]
mod counter {
    /// Does nothing, because visits are counted only in tests.
    pub(super) fn add(_: usize) {}
}

#[cfg(test)]
pub(crate) mod counter {
    use std::cell::Cell;

    thread_local! {
        static VISITS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn add(visits: usize) {
        VISITS.set(VISITS.get() + visits);
    }

    /// Returns the number of visits since the last call on this thread: for each visited node 1, plus the
    /// numbers of its inputs and outputs. Resets the count to 0.
    pub(crate) fn take() -> usize {
        VISITS.take()
    }
}

use attache_graph::{Graph, Node, NodeId, TensorId};

/// Iterates over all nodes in execution order, with their ids.
pub(crate) fn nodes(graph: &Graph) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> {
    graph.nodes.iter().enumerate().map(|(index, node)| {
        counter::add(1 + node.inputs.len() + node.outputs.len());
        (NodeId(index as u32), node)
    })
}

/// Returns for each tensor the node that writes it; `None` for graph inputs, constants, variables and tensors
/// that nothing writes.
pub(crate) fn makers(graph: &Graph) -> Vec<Option<&Node>> {
    let mut makers = vec![None; graph.tensors.len()];
    for (_, node) in nodes(graph) {
        node.outputs.iter().for_each(|TensorId(index)| makers[*index as usize] = Some(node));
    }
    makers
}

#[cfg(test)]
mod tests {
    use attache_base::{DataType, Quantization};
    use attache_graph::{Conversion, Fact};

    use super::*;
    use crate::testing::{Double, Fake, fact, graph};

    fn stored() -> Fact {
        let quantization = Quantization { scale: vec![0.5], zero_point: vec![0], axis: 0 };
        Fact { quantization: Some(quantization), ..Fact::new(DataType::Int8, [3]) }
    }

    /// Builds a graph with a chain of `count` QUANTIZE nodes, each to the scale that its input already has.
    fn conversions(count: usize) -> Graph {
        let mut graph = graph(3);
        let mut last = graph.add_tensor("x", stored());
        graph.inputs = vec![last];
        for origin in 0..count {
            let next = graph.add_tensor("", stored());
            graph.nodes.push(Fake::Convert(Conversion::ToStored).node(&[last], next, origin));
            last = next;
        }
        graph.nodes.push(Double::node(last, graph.outputs[0], count));
        graph
    }

    /// Builds a graph with a chain of `count / 2` pairs of DEQUANTIZE and QUANTIZE nodes with the same scale.
    fn there_and_back(count: usize) -> Graph {
        let mut graph = graph(3);
        let mut last = graph.add_tensor("x", stored());
        graph.inputs = vec![last];
        for origin in 0..count / 2 {
            let (real, next) = (graph.add_tensor("", fact(3)), graph.add_tensor("", stored()));
            graph.nodes.push(Fake::Convert(Conversion::ToReal).node(&[last], real, 2 * origin));
            graph.nodes.push(Fake::Convert(Conversion::ToStored).node(&[real], next, 2 * origin + 1));
            last = next;
        }
        graph.nodes.push(Double::node(last, graph.outputs[0], count));
        graph
    }

    /// Builds a graph in which `count / 2` nodes quantize the same float tensor, each for a reader of its
    /// own.
    fn fan(count: usize) -> Graph {
        let mut graph = graph(3);
        let (x, real) = (graph.add_tensor("x", stored()), graph.add_tensor("real", fact(3)));
        (graph.inputs, graph.outputs) = (vec![x], Vec::new());
        graph.nodes.push(Fake::Convert(Conversion::ToReal).node(&[x], real, 0));
        for origin in 0..count / 2 {
            let (back, y) = (graph.add_tensor("", stored()), graph.add_tensor("", fact(3)));
            graph.nodes.push(Fake::Convert(Conversion::ToStored).node(&[real], back, 2 * origin + 1));
            graph.nodes.push(Double::node(back, y, 2 * origin + 2));
            graph.outputs.push(y);
        }
        graph
    }

    /// Builds a graph with a chain of `count / 2` reshapes whose output shapes are unknown, each to the
    /// extents of its own input, which another node computes.
    fn shapes(count: usize) -> Graph {
        let mut graph = graph(3);
        let mut last = graph.inputs[0];
        for origin in 0..count / 2 {
            let extents = graph.add_tensor("", Fact::new(DataType::Int32, [1]));
            let next = graph.add_tensor("", Fact { shape: None, ..fact(3) });
            graph.nodes.push(Fake::Extents.node(&[last], extents, 2 * origin));
            graph.nodes.push(Fake::Reshape.node(&[last, extents], next, 2 * origin + 1));
            last = next;
        }
        graph.nodes.push(Double::node(last, graph.outputs[0], count));
        graph
    }

    /// Builds a graph with a chain of `count` nodes, beside one node that computes the output. The chain
    /// begins with a constant if `is_constant`, otherwise with the graph input. Nothing reads its result.
    fn chain(count: usize, is_constant: bool) -> Graph {
        let mut graph = graph(3);
        let mut last = graph.inputs[0];
        if is_constant {
            let values = attache_base::Constant::from_values([3], &[0.0f32; 3]);
            last = graph.add_tensor("c", Fact::constant(values));
        }
        for origin in 0..count {
            let next = graph.add_tensor("", fact(3));
            graph.nodes.push(Double::node(last, next, origin));
            last = next;
        }
        graph.nodes.push(Double::node(graph.inputs[0], graph.outputs[0], count));
        graph
    }

    /// Builds a graph with about the given number of nodes.
    type Make = fn(usize) -> Graph;

    /// The name of a kind of graph, its constructor, and the number of nodes that the rules leave of a graph
    /// built for a given number of nodes.
    type Form = (&'static str, Make, fn(usize) -> usize);

    /// Applies the rules to a graph built for `count` nodes. Returns the number of visits and the number of
    /// nodes that are left.
    fn visits(make: Make, count: usize) -> (usize, usize) {
        let mut graph = make(count);
        counter::take();
        crate::run(&mut graph);
        (counter::take(), graph.nodes.len())
    }

    #[test]
    fn rules_look_at_each_node_a_bounded_number_of_times() {
        let forms: [Form; 6] = [
            ("conversions", conversions, |_| 1),
            ("there and back", there_and_back, |_| 1),
            ("fan", fan, |count| count / 2),
            ("shapes", shapes, |count| count / 2 + 1),
            ("constants", |count| chain(count, true), |_| 1),
            ("unused", |count| chain(count, false), |_| 1),
        ];
        for (name, make, left) in forms {
            for count in [64, 4096] {
                let (visits, nodes) = visits(make, count);
                assert_eq!(nodes, left(count), "{name}");
                assert!(visits <= 60 * count, "{name}: {visits} visits of {count} nodes");
            }
        }
    }
}
