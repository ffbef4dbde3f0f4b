//! Gives advice on a model before it runs: which of its properties make it slow in Attaché, and why. The
//! advice does not concern other runtimes.
//!
//! The advice depends on shapes and on the cost of operators, never on names.

use attache::graph::{Graph, TensorId};
use attache::{Cost, Shape};

use crate::console::counted;

/// Number of operations of a model below which a round trip to the GPU takes longer than computing them on
/// the CPU.
const TINY: u64 = 20_000_000;
/// Maximum number of tensors that a line of advice names as examples.
const EXAMPLES: usize = 3;

/// Returns the lines of advice on a graph, if there is any. `name` formats the name of a tensor.
pub(crate) fn advice(graph: &Graph, name: impl Fn(&str) -> String) -> Vec<String> {
    [channels(graph, name), tiny(graph)].into_iter().flatten().collect()
}

fn image(graph: &Graph, id: TensorId) -> Option<&Shape> {
    graph.fact(id).shape.as_ref().filter(|shape| shape.rank() == 4)
}

/// Whether the number of channels of a tensor `[batch, height, width, channels]` with more than one pixel is
/// not a multiple of 4.
fn odd_channels(shape: &Shape) -> bool {
    shape[1].saturating_mul(shape[2]) > 1 && !shape[3].is_multiple_of(4)
}

fn examples(all: &[String]) -> String {
    let more = if all.len() > EXAMPLES { ", …" } else { "" };
    format!("{}{more}", all[..all.len().min(EXAMPLES)].join(", "))
}

/// Returns advice on outputs of operators whose number of channels is not a multiple of 4; `None` if there
/// are none. GPU kernels process four channels at a time where they can (`lanes` in `attache-gpu`).
fn channels(graph: &Graph, name: impl Fn(&str) -> String) -> Option<String> {
    let outputs = graph.nodes.iter().flat_map(|node| &node.outputs);
    let odd = outputs.filter_map(|id| Some((image(graph, *id).filter(|shape| odd_channels(shape))?, id)));
    let odd: Vec<_> = odd.map(|(shape, id)| format!("{} {shape}", name(&graph.tensor(*id).name))).collect();
    (!odd.is_empty()).then(|| {
        let tensors = counted(odd.len(), "tensor has", "tensors have");
        format!(
            "{tensors} a number of channels that is no multiple of 4 ({}): on a GPU, Attaché's kernels take four channels \
            at a time of a multiple of 4, and of others one",
            examples(&odd)
        )
    })
}

/// Returns advice on a model with less than [`TINY`] operations, for which a round trip to the device costs
/// more than the model itself; `None` for other models.
fn tiny(graph: &Graph) -> Option<String> {
    let work: Option<u64> = graph.nodes.iter().map(|node| Cost::of(graph, node).operations).sum();
    work.filter(|work| *work < TINY).map(|work| {
        let millions = work as f64 / 1e6;
        format!(
            "about {millions:.1} million operations: a model this small is likely to be faster on the CPU than the way \
            to a GPU and back; `attache bench` with --delegate cpu and gpu tells"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use attache::DataType;
    use attache::graph::{Eval, Fact, Inferred, Node, Op, OpError};

    use super::*;

    /// An operator that does nothing.
    #[derive(Debug)]
    struct Plain;

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
    }

    fn graph(input: [usize; 4], output: [usize; 4]) -> Graph {
        let mut graph = Graph::default();
        let x = graph.add_tensor("x", Fact::new(DataType::Float32, input));
        let y = graph.add_tensor("y", Fact::new(DataType::Float32, output));
        let node =
            Node { op: Arc::new(Plain), inputs: vec![Some(x)], outputs: vec![y], origins: vec![0], inlined: None };
        graph.nodes.push(node);
        (graph.inputs, graph.outputs) = (vec![x], vec![y]);
        graph
    }

    #[test]
    fn each_trouble_has_its_line() {
        let advice = |input, output| advice(&graph(input, output), str::to_uppercase);
        assert_eq!(advice([1, 4096, 4096, 3], [1, 4096, 4096, 4]), [] as [String; 0]);
        let odd = advice([1, 4096, 4096, 4], [1, 4096, 4096, 5]);
        assert!(odd.len() == 1 && odd[0].contains("Y [1, 4096, 4096, 5]"), "{odd:?}");
        let tiny = advice([1, 8, 8, 4], [1, 8, 8, 4]);
        assert!(tiny.len() == 1 && tiny[0].contains("0.0 million"), "{tiny:?}");
    }
}
