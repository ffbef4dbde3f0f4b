//! The rule `fold_requantization`: removes conversions that reproduce the original quantized elements. These
//! are a QUANTIZE of the output of a DEQUANTIZE to the original type and quantization parameters, and a
//! QUANTIZE between equal types and quantization parameters.
//!
//! Neither changes a bit: a float `scale × n` divided by the same scale is nearer to `n` than to any other
//! integer, and a factor of 1 is exact in fixed-point arithmetic too. Conversions to other parameters round
//! and are kept.

use std::collections::HashMap;

use attache_graph::{Conversion, Fact, Graph, Node, TensorId};

use crate::{FoldedConstants, Found, Rule, visits};

pub(crate) const RULE: Rule = Rule { name: "fold_requantization", fate: "removed: it changes nothing", find };

fn find(graph: &Graph, _: &dyn FoldedConstants) -> Found {
    let mut found = Found::default();
    let makers = visits::makers(graph);
    let mut is_output = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| is_output[id.index()] = true);
    // A replaced tensor may be the input of a later node that is removed too. Nodes are visited in execution
    // order, so one walk finds all of them.
    let mut replaced: HashMap<TensorId, TensorId> = HashMap::new();
    for (id, node) in visits::nodes(graph) {
        if node.op.conversion() != Some(Conversion::ToStored) {
            continue;
        }
        let ([Some(input)], [output]) = (&node.inputs[..], &node.outputs[..]) else { continue };
        let instead = |tensor: TensorId| replaced.get(&tensor).copied().unwrap_or(tensor);
        let source = instead(source(makers[instead(*input).index()]).unwrap_or_else(|| instead(*input)));
        match unchanged(graph, source, *output, is_output[output.index()]) {
            Ok(()) => {
                replaced.insert(*output, source);
                found.patch.replace.push((*output, source));
                found.patch.remove.push(id);
            }
            Err(Some(reason)) => found.declined.push((id, reason.into())),
            Err(None) => {}
        }
    }
    found
}

/// Returns the quantized input of the node that writes a tensor, if that node is a DEQUANTIZE.
fn source(maker: Option<&Node>) -> Option<TensorId> {
    let maker = maker.filter(|node| node.op.conversion() == Some(Conversion::ToReal))?;
    if let [Some(source)] = maker.inputs[..] { Some(source) } else { None }
}

/// Checks that the output of a QUANTIZE can be replaced by `source`: that both have the same type and
/// quantization parameters, that `output` is not an output of the graph, and that neither is a variable. The
/// error is the reason; `None` if `source` is not quantized, so that the rule does not apply at all.
fn unchanged(graph: &Graph, source: TensorId, output: TensorId, is_output: bool) -> Result<(), Option<&'static str>> {
    let (from, to): (&Fact, &Fact) = (graph.fact(source), graph.fact(output));
    if from.quantization.is_none() {
        return Err(None);
    }
    if from.data_type != to.data_type || from.quantization != to.quantization {
        return Err(Some("it goes to another type or scale"));
    }
    if is_output {
        return Err(Some("it makes an output of the graph"));
    }
    if from.is_variable || to.is_variable {
        return Err(Some("it keeps the value of a variable"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use attache_base::{DataType, Quantization};

    use super::*;
    use crate::testing::{Double, Fake, graph};

    fn stored(scale: f32) -> Fact {
        let quantization = Quantization { scale: vec![scale], zero_point: vec![0], axis: 0 };
        Fact { quantization: Some(quantization), ..Fact::new(DataType::Int8, [3]) }
    }

    /// Builds a graph in which a tensor of scale 0.5 is dequantized, quantized with `scale` and read by
    /// another node.
    fn chain(scale: f32) -> Graph {
        let mut graph = graph(3);
        let (y, x) = (graph.outputs[0], graph.add_tensor("x", stored(0.5)));
        let (real, back) = (graph.add_tensor("real", crate::testing::fact(3)), graph.add_tensor("back", stored(scale)));
        graph.inputs = vec![x];
        let node = |conversion, input, output, origin| Fake::Convert(conversion).node(&[input], output, origin);
        graph.nodes = vec![
            node(Conversion::ToReal, x, real, 0),
            node(Conversion::ToStored, real, back, 1),
            Double::node(back, y, 2),
        ];
        graph
    }

    #[test]
    fn there_and_back_is_nothing() {
        let mut graph = chain(0.5);
        let log = crate::run(&mut graph);
        assert_eq!(graph.nodes.len(), 1);
        assert_eq!(graph.nodes[0].inputs, [Some(graph.inputs[0])]);
        assert_eq!((log.removed[0].rule, &log.removed[0].origins[..]), (RULE.name, &[1][..]));
    }

    #[test]
    fn another_scale_is_declined() {
        let mut graph = chain(0.25);
        let log = crate::run(&mut graph);
        assert_eq!((graph.nodes.len(), log.declined[0].reason.as_str()), (3, "it goes to another type or scale"));
    }

    #[test]
    fn outputs_of_the_graph_are_made() {
        let mut graph = chain(0.5);
        graph.outputs.push(graph.nodes[1].outputs[0]);
        let log = crate::run(&mut graph);
        assert_eq!((graph.nodes.len(), log.declined[0].reason.as_str()), (3, "it makes an output of the graph"));
    }
}
