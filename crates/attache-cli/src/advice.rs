//! Advice on a model before anything runs, from what the field says of models on GPUs.
//!
//! It looks at shapes and at what operators declare of themselves, never at their names, and costs a rough count of
//! multiplications: an operator with weights multiplies each output by `weights / output channels` of them, which is
//! right for convolutions, depthwise ones and fully connected layers.

use attache::Shape;
use attache::graph::{Graph, Node, TensorId};

/// Below so many multiplications, handing the work to a GPU and back takes longer than doing it.
const TINY: usize = 10_000_000;
/// Examples that a line of advice names.
const EXAMPLES: usize = 3;

/// Lines of advice; none where there is nothing to say.
pub(crate) fn advice(graph: &Graph) -> Vec<String> {
    [channels(graph), reshapes(graph), rgb(graph), tiny(graph)].into_iter().flatten().collect()
}

fn image(graph: &Graph, id: TensorId) -> Option<&Shape> {
    graph.fact(id).shape.as_ref().filter(|shape| shape.rank() == 4)
}

/// Whether channels leave a rest of 4 in a tensor that has more than one pixel.
fn odd_channels(shape: &Shape) -> bool {
    shape[1].saturating_mul(shape[2]) > 1 && !shape[3].is_multiple_of(4)
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn examples(all: &[String]) -> String {
    let more = if all.len() > EXAMPLES { ", …" } else { "" };
    format!("{}{more}", all[..all.len().min(EXAMPLES)].join(", "))
}

/// GPUs take channels four at a time.
fn channels(graph: &Graph) -> Option<String> {
    let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
    let odd = outputs.filter_map(|id| Some((image(graph, *id).filter(|shape| odd_channels(shape))?, id)));
    let odd: Vec<_> = odd.map(|(shape, id)| format!("{} {shape}", graph.tensor(*id).name)).collect();
    (!odd.is_empty()).then(|| {
        let tensors = count(odd.len(), "tensor has", "tensors have");
        format!(
            "{tensors} a number of channels that is no multiple of 4 ({}): GPUs take channels four at a time, so a \
            multiple of 4 is as fast or faster",
            examples(&odd)
        )
    })
}

/// What is free on the CPU may be a copy on the GPU.
fn reshapes(graph: &Graph) -> Option<String> {
    let reshapes = graph.nodes.iter().enumerate().filter(|(_, node)| node.op.is_reshape());
    let names: Vec<_> = reshapes.map(|(index, node)| format!("{} at {index}", node.op.name())).collect();
    (!names.is_empty()).then(|| {
        let operators = count(names.len(), "operator changes", "operators change");
        format!(
            "{operators} a shape and nothing else ({}): no work here, but many GPU runtimes copy the tensor, so leave \
            out those that the network does not need",
            examples(&names)
        )
    })
}

/// Four channels lie in memory as GPUs want them, three don't.
fn rgb(graph: &Graph) -> Option<String> {
    let of = |id: &&TensorId| image(graph, **id).is_some_and(|shape| shape[3] == 3);
    let inputs: Vec<_> = graph.inputs.iter().filter(of).map(|id| graph.tensor(*id).name.clone()).collect();
    (!inputs.is_empty()).then(|| {
        format!(
            "input {} has 3 channels: cameras and GPUs hold RGBA, and a model that takes 4 channels (the weights of \
            the fourth being 0) saves the caller a conversion at no cost",
            examples(&inputs)
        )
    })
}

/// Multiplications of an operator and, for those without weights, its outputs.
fn work(graph: &Graph, node: &Node) -> usize {
    let shape = |id: &TensorId| graph.fact(*id).shape.as_ref();
    let output = node.outputs.first().and_then(shape);
    let (outputs, channels) = output.map_or((0, 1), |shape| (shape.elements(), shape.last().copied().unwrap_or(1)));
    let constants = node.inputs.iter().flatten().filter(|id| graph.fact(**id).constant.is_some());
    let weights = constants.filter_map(shape).filter(|shape| shape.rank() > 1).map(Shape::elements).max();
    outputs.saturating_mul(weights.map_or(1, |weights| (weights / channels.max(1)).max(1)))
}

/// A round trip to the device costs more than small models do.
fn tiny(graph: &Graph) -> Option<String> {
    let work = graph.nodes.iter().fold(0usize, |sum, node| sum.saturating_add(work(graph, node)));
    (work < TINY).then(|| {
        let millions = work as f64 / 1e6;
        format!(
            "about {millions:.1} million multiplications: a model this small is likely to be faster on the CPU than \
            the way to the GPU and back; `attache bench` with --delegate cpu and gpu tells"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use attache::DataType;
    use attache::graph::{Eval, Fact, Inferred, Op, OpError};

    use super::*;

    /// An operator that does nothing and calls itself reshape-like or not.
    #[derive(Debug)]
    struct Plain(bool);

    impl Op for Plain {
        fn name(&self) -> &str {
            "PLAIN"
        }

        fn infer(&self, _: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
            Ok(Vec::new())
        }

        fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
            Ok(())
        }

        fn is_reshape(&self) -> bool {
            self.0
        }
    }

    fn graph(input: [usize; 4], output: [usize; 4], is_reshape: bool) -> Graph {
        let mut graph = Graph::default();
        let x = graph.add_tensor("x", Fact::new(DataType::Float32, input));
        let y = graph.add_tensor("y", Fact::new(DataType::Float32, output));
        let node = Node { op: Arc::new(Plain(is_reshape)), inputs: vec![Some(x)], outputs: vec![y], origins: vec![0] };
        graph.nodes.push(node);
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        graph
    }

    #[test]
    fn each_trouble_has_its_line() {
        let fine = graph([1, 2048, 2048, 4], [1, 2048, 2048, 4], false);
        assert_eq!(advice(&fine), [] as [String; 0]);
        let odd = advice(&graph([1, 2048, 2048, 4], [1, 2048, 2048, 5], false));
        assert!(odd.len() == 1 && odd[0].contains("y [1, 2048, 2048, 5]"), "{odd:?}");
        let reshape = advice(&graph([1, 2048, 2048, 4], [1, 1024, 4096, 4], true));
        assert!(reshape.len() == 1 && reshape[0].contains("PLAIN at 0"), "{reshape:?}");
        let rgb = advice(&graph([1, 2048, 2048, 3], [1, 2048, 2048, 4], false));
        assert!(rgb.len() == 1 && rgb[0].contains("input x has 3 channels"), "{rgb:?}");
        let tiny = advice(&graph([1, 8, 8, 4], [1, 8, 8, 4], false));
        assert!(tiny.len() == 1 && tiny[0].contains("0.0 million"), "{tiny:?}");
    }
}
