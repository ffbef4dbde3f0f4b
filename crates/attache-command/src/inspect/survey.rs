//! Determines which operators of a model the GPU would run, without preparing or running anything.
//!
//! Each node of the graph that a delegate would see is judged alone, so files with unimplemented operators
//! can be inspected too.

use std::collections::BTreeMap;

use attache::graph::{Graph, Node, NodeId};
use attache::model::Subgraph;
use attache::{Cost, Model, stages};

use crate::arguments::QuantizedName;
use crate::arguments::entry::Entry;
use crate::device::Claims;
use crate::failure::Failure;

/// An operator of the first subgraph, and whether the GPU would run it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) index: usize,
    pub(crate) operator: String,
    pub(crate) version: i32,
    pub(crate) delegated: bool,
    /// Why the GPU would not run the operator, or what the graph passes made of it, e.g. `constant`.
    pub(crate) reason: Option<String>,
    /// The cost of the operator; `None` if it was removed, or if it was merged into an operator before it.
    pub(crate) cost: Option<Cost>,
}

/// An operator of any subgraph that is not implemented.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gap {
    pub(crate) subgraph: usize,
    pub(crate) index: usize,
    pub(crate) operator: String,
    pub(crate) version: i32,
    pub(crate) reason: String,
}

/// The result of inspecting a model.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The graph of the chosen subgraph after the graph passes, as delegates see it.
    pub(crate) graph: Graph,
    /// All operators of the chosen subgraph, each with whether the GPU would run it.
    pub(crate) answers: Vec<Answer>,
    /// All unimplemented operators of any subgraph.
    pub(crate) gaps: Vec<Gap>,
}

/// Finds the operators of the model that are not implemented, and the operators of the chosen subgraph that
/// the GPU would run. `quantized` is how the GPU would compute on quantized tensors.
pub(crate) fn survey(entry: &Entry<'_>, quantized: QuantizedName) -> Result<Survey, Failure> {
    let model = entry.model;
    let failure = |error| entry.failure(error);
    let (graph, fates) = stages::graph(model, entry.index, &entry.shapes).map_err(failure)?;
    let mut gaps = Vec::new();
    for subgraph in 0..model.subgraphs().len() {
        match subgraph == entry.index {
            true => gaps.extend(found_gaps(model, subgraph, &graph)),
            false => {
                let (graph, _) = stages::graph(model, subgraph, &[]).map_err(failure)?;
                gaps.extend(found_gaps(model, subgraph, &graph));
            }
        }
    }
    let answers = answers(entry.subgraph(), &graph, &fates, &Claims::new(quantized));
    Ok(Survey { graph, answers, gaps })
}

/// Determines for each operator of the subgraph whether the GPU would run it. `fates` has the operators
/// that the graph passes removed, with what became of them.
fn answers(subgraph: &Subgraph, graph: &Graph, fates: &BTreeMap<usize, String>, claims: &Claims) -> Vec<Answer> {
    // Several nodes may have taken the place of a call.
    let mut nodes: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
    for (id, node) in graph.nodes.iter().enumerate() {
        node.origins.iter().for_each(|origin| nodes.entry(*origin).or_default().push(NodeId(id as u32)));
    }
    let judge = |index: usize| match nodes.get(&index) {
        Some(ids) => {
            let reason = ids.iter().find_map(|id| {
                let (node, reason) = (graph.node(*id), claims.unsupported_reason(graph, *id)?);
                Some(if node.inlined.is_some() { format!("{}: {reason}", node.label()) } else { reason })
            });
            (reason.is_none(), reason)
        }
        None => (true, fates.get(&index).cloned()),
    };
    let operators = subgraph.operators.iter().enumerate();
    operators
        .map(|(index, operator)| {
            let (delegated, reason) = judge(index);
            let nodes = nodes.get(&index).into_iter().flatten().map(|id| graph.node(*id));
            let costs = nodes.filter(|node| node.origins[0] == index).map(|node| Cost::of(graph, node));
            let add = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
            let cost = costs.reduce(|mut sum, cost| {
                (sum.operations, sum.bytes) = (add(sum.operations, cost.operations), add(sum.bytes, cost.bytes));
                sum
            });
            Answer { index, operator: operator.code.name(), version: operator.code.version, delegated, reason, cost }
        })
        .collect()
}

fn found_gaps(model: &Model, subgraph: usize, graph: &Graph) -> Vec<Gap> {
    let gap = |node: &Node| {
        let (reason, (subgraph, index)) = (node.op.missing()?.to_owned(), node.place(subgraph)?);
        let code = &model.subgraphs()[subgraph].operators[index].code;
        Some(Gap { subgraph, index, operator: code.name(), version: code.version, reason })
    };
    graph.nodes.iter().filter_map(gap).collect()
}

#[cfg(test)]
mod tests {
    use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

    use super::*;

    #[test]
    fn an_operator_whose_shapes_nobody_knows_is_a_gap() {
        let mut builder = ModelBuilder::new("unknown");
        let main = builder.subgraph("main");
        let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [2]));
        let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, []));
        builder.operator(main, OperatorBuilder::custom("NoSuchOperator", [], [x], [y]));
        builder.inputs(main, &[x]).outputs(main, &[y]);
        let survey =
            survey(&Entry::first(&Model::from_bytes(builder.finish()).unwrap(), "m", Vec::new()), QuantizedName::View)
                .unwrap();
        assert_eq!(survey.gaps.iter().map(|gap| gap.operator.as_str()).collect::<Vec<_>>(), ["NoSuchOperator"]);
        assert_eq!((survey.answers.len(), survey.answers[0].delegated), (1, false));
    }
}
