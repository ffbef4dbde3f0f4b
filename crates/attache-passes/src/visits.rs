//! Node iterators that count visits in tests: no rule may visit more than n log n nodes of a graph of n nodes.

#[cfg(not(test))]
mod counter {
    /// Does nothing outside of tests.
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

    /// Number of visited nodes plus their inputs and outputs, since the last call on this thread.
    pub(crate) fn take() -> usize {
        VISITS.take()
    }
}

use attache_graph::{Graph, Node, NodeId, TensorId};

/// All nodes, in execution order.
pub(crate) fn nodes(graph: &Graph) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> {
    graph.nodes.iter().enumerate().map(|(index, node)| {
        counter::add(1 + node.inputs.len() + node.outputs.len());
        (NodeId(index as u32), node)
    })
}

/// The node that produces each tensor.
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

    /// A chain of conversions to the scale that the tensor already has.
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

    /// A chain of dequantize and quantize pairs.
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

    /// One float tensor that many nodes quantize, each for its own reader.
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

    /// A chain of reshapes of unknown result shape, each to the extents of the previous result.
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

    /// A chain of nodes with constant inputs, or of nodes whose results are not read.
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

    /// Makes a graph with the given number of nodes.
    type Make = fn(usize) -> Graph;

    /// A graph's name, its constructor, and the number of nodes left after the rules.
    type Form = (&'static str, Make, fn(usize) -> usize);

    /// Visits of all rules in a graph with `count` nodes, and the number of nodes that are left.
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
