//! The rule `inline_calls`: the nodes of a called subgraph take the place of the call, where it is certain which subgraph
//! that is: for a composite, for a branch whose condition is constant, and for a loop that runs a known number of times.
//!
//! The caller's tensors take the places of the subgraph's inputs and outputs. Calls in the subgraph are nodes of the graph
//! from then on, which the next round replaces. [`Op::body`](attache_graph::Op::body) and [`Unroller`] bound how many that
//! become.

use std::collections::HashMap;
use std::sync::Arc;

use attache_graph::{Body, Fact, Graph, Inlined, InlinedCall, Node, Patch, TensorId};

use crate::unroll::Unroller;
use crate::{FoldedConstants, Found, Rule, visits};

pub(crate) const RULE: Rule =
    Rule { name: "inline_calls", fate: "replaced by the operators of the subgraph that it calls", find };

fn find(graph: &Graph, _: &dyn FoldedConstants) -> Found {
    let mut found = Found::default();
    if cfg!(attache_small) {
        return found;
    }
    let mut is_output = vec![false; graph.tensors.len()];
    graph.outputs.iter().for_each(|id| is_output[id.index()] = true);
    let mut calls = Calls { graph, is_output, passed_on: HashMap::new() };
    let mut unroller = Unroller::new(graph);
    for (id, node) in visits::nodes(graph) {
        let body = || node.op.body(&graph.input_facts(node));
        let unrolled = || node.op.as_loop().map(|own| unroller.unroll(&graph.input_facts(node), own));
        let Some(body) = body().or_else(unrolled) else { continue };
        match body.and_then(|body| calls.replace(node, body, &mut found.patch)) {
            Ok(nodes) => {
                unroller.replaced(nodes.len());
                found.patch.expand.push((id, nodes));
            }
            Err(reason) => found.declined.push((id, reason)),
        }
    }
    let mut passed_on: Vec<_> = calls.passed_on.into_iter().collect();
    passed_on.sort_unstable();
    found.patch.replace = passed_on;
    found
}

/// The calls of a graph that are replaced.
struct Calls<'a> {
    graph: &'a Graph,
    /// For each tensor, whether it is an output of the graph.
    is_output: Vec<bool>,
    /// The outputs of calls that are an argument or another output, with that tensor.
    passed_on: HashMap<TensorId, TensorId>,
}

impl Calls<'_> {
    /// Returns the nodes that take the place of the call `node`, and adds to the patch the tensors that they need and the
    /// constants that the call returns. Fails with the reason why the call stays, without a change.
    fn replace(&mut self, node: &Node, body: Body, patch: &mut Patch) -> Result<Vec<Node>, String> {
        let Body { name, subgraph, graph: inner, first } = body;
        let arguments = node.inputs.get(first..).unwrap_or_default();
        let arguments: Vec<TensorId> = arguments.iter().copied().collect::<Option<_>>().ok_or("an input is missing")?;
        self.check(&inner, &arguments, &node.outputs)?;
        // For each tensor of the subgraph, the one that takes its place.
        let mut ids = vec![None; inner.tensors.len()];
        for (id, argument) in inner.inputs.iter().zip(arguments) {
            ids[id.index()] = Some(self.passed_on.get(&argument).copied().unwrap_or(argument));
        }
        let (mut constants, mut passed_on) = (Vec::new(), Vec::new());
        for (id, output) in inner.outputs.iter().zip(&node.outputs) {
            let argument = ids[id.index()];
            let constant = match argument {
                Some(argument) => self.graph.tensors.get(argument.index()).and_then(|own| own.fact.constant.as_ref()),
                None => inner.fact(*id).constant.as_ref(),
            };
            match (argument, constant) {
                (_, Some(constant)) => constants.push((*output, constant.clone())),
                (Some(_), None) if self.is_output[output.index()] => {
                    return Err("an output of the graph would be another tensor of the graph".into());
                }
                (Some(other), None) => passed_on.push((*output, other)),
                (None, None) => ids[id.index()] = Some(*output),
            }
        }
        patch.constants.extend(constants);
        self.passed_on.extend(passed_on);
        let name = match &node.inlined {
            Some(around) => format!("{}/{name}", around.call.name),
            None => name,
        };
        let call = Arc::new(InlinedCall { name, subgraph, around: node.inlined.clone() });
        let next = self.graph.tensors.len();
        let mut outer = |id: TensorId| {
            *ids[id.index()].get_or_insert_with(|| {
                patch.tensors.push(inner.tensor(id).clone());
                TensorId((next + patch.tensors.len() - 1) as u32)
            })
        };
        let expanded = inner.nodes.iter().map(|inside| Node {
            op: inside.op.clone(),
            inputs: inside.inputs.iter().map(|id| id.map(&mut outer)).collect(),
            outputs: inside.outputs.iter().map(|id| outer(*id)).collect(),
            origins: node.origins.clone(),
            inlined: inside.place(subgraph).map(|(_, operator)| Inlined { call: call.clone(), operator }),
        });
        Ok(expanded.collect())
    }

    /// Checks that the tensors of a call can take the places of the subgraph's inputs and outputs, and that its nodes do the
    /// same in any graph.
    fn check(&self, inner: &Graph, arguments: &[TensorId], outputs: &[TensorId]) -> Result<(), String> {
        let is_same = |(inside, outside): (&TensorId, &TensorId)| {
            let (inside, outside): (&Fact, &Fact) = (inner.fact(*inside), self.graph.fact(*outside));
            let is_variable = inside.is_variable || outside.is_variable;
            !is_variable && (inside.data_type, &inside.quantization) == (outside.data_type, &outside.quantization)
        };
        if (inner.inputs.len(), inner.outputs.len()) != (arguments.len(), outputs.len()) {
            return Err("its subgraph has other numbers of inputs and outputs".into());
        }
        if !inner.inputs.iter().zip(arguments).all(is_same) || !inner.outputs.iter().zip(outputs).all(is_same) {
            return Err("its tensors are variables, or of other types or scales than those of its subgraph".into());
        }
        let mut inputs = inner.inputs.clone();
        inputs.sort_unstable();
        if inputs.windows(2).any(|two| two[0] == two[1]) || inputs.iter().any(|id| inner.fact(*id).constant.is_some()) {
            return Err("an input of its subgraph is constant or there twice".into());
        }
        inner.validate().map_err(|error| format!("its subgraph is invalid: {error}"))?;
        if inner.nodes.iter().any(|node| node.op.missing().is_some() || node.op.is_registered()) {
            return Err("its subgraph has operators that are registered or not implemented".into());
        }
        if inner.nodes.iter().any(|node| node.op.has_side_effects() && !node.op.passes_tensors()) {
            return Err("its subgraph has an operator with a state, which all calls of the subgraph share".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::{Eval, Inferred, Op, OpError};

    use super::*;
    use crate::testing::{Double, fact, graph};

    /// Calls a subgraph that doubles its input and returns it as well.
    #[derive(Debug)]
    struct Call;

    impl Op for Call {
        fn name(&self) -> &str {
            "CALL"
        }

        fn infer(&self, _: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
            Err(OpError::unsupported("shapes are known"))
        }

        fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
            Err(OpError::unsupported("it is replaced"))
        }

        fn body(&self, _: &[Option<&Fact>]) -> Option<Result<Body, String>> {
            let mut graph = graph(3);
            graph.nodes = vec![Double::node(graph.inputs[0], graph.outputs[0], 0)];
            graph.outputs.push(graph.inputs[0]);
            Some(Ok(Body { name: "test".into(), subgraph: 7, graph, first: 0 }))
        }
    }

    fn call(input: TensorId, outputs: [TensorId; 2], origin: usize) -> Node {
        let (inputs, outputs) = (vec![Some(input)], outputs.to_vec());
        Node { op: Arc::new(Call), inputs, outputs, origins: vec![origin], inlined: None }
    }

    #[test]
    fn nodes_take_the_place_of_their_call() {
        let mut graph = graph(3);
        let (x, y) = (graph.inputs[0], graph.outputs[0]);
        let [a, same, b, same_again] = [(); 4].map(|()| graph.add_tensor("", fact(3)));
        graph.outputs.push(b);
        graph.nodes = vec![call(x, [a, same], 0), call(same, [b, same_again], 1), Double::node(same_again, y, 2)];
        let log = crate::run(&mut graph);
        // Nothing reads what the first call doubles.
        assert_eq!(graph.nodes.iter().map(|node| node.inputs[0]).collect::<Vec<_>>(), [Some(x), Some(x)]);
        let labels: Vec<_> = graph.nodes.iter().map(|node| (node.label(), node.origins[0], node.place(0))).collect();
        let expected = [("test/Double", 1, Some((7, 0))), ("Double", 2, Some((0, 2)))];
        assert_eq!(labels, expected.map(|(label, origin, place)| (label.to_owned(), origin, place)));
        let removed: Vec<_> =
            log.removed.iter().map(|removal| (removal.operator.as_str(), removal.replaced_by)).collect();
        assert_eq!(removed, [("CALL", Some(7)), ("CALL", Some(7)), ("test/Double", None)]);
    }

    #[test]
    fn an_output_of_the_graph_stays_a_tensor_of_its_own() {
        let mut graph = graph(3);
        let (x, y) = (graph.inputs[0], graph.outputs[0]);
        let doubled = graph.add_tensor("", fact(3));
        graph.nodes = vec![call(x, [doubled, y], 0)];
        let log = crate::run(&mut graph);
        let reason = "an output of the graph would be another tensor of the graph";
        assert_eq!((graph.nodes.len(), log.declined[0].reason.as_str()), (1, reason));
    }
}
