//! Loops that run a known number of times: what decides how often is constant before the first turn and computed from itself
//! in each one, as counters and their limits are. The turns become one graph.

use std::collections::HashMap;

use attache_base::{Constant, Shape};
use attache_graph::{Body, Fact, Graph, Loop, Node, TensorId};

use crate::fold_constants::fold;
use crate::{NothingFolded, has_side_effects};

/// Maximum number of turns of a loop.
const MOST_TURNS: usize = 256;

/// Maximum number of nodes that a graph has after its loops are replaced.
const MOST_NODES: usize = 1 << 12;

/// Maximum number of nodes that are computed to count the turns of all loops of a graph, and of bytes of a tensor of theirs.
const MOST_COMPUTED: usize = 1 << 12;
const MOST_BYTES: usize = 1 << 8;

/// Replaces the loops of one graph.
pub(crate) struct Unroller {
    /// Number of nodes of the graph with those that take the place of loops.
    nodes: usize,
    /// Number of nodes that may still be computed.
    rest: usize,
}

impl Unroller {
    pub(crate) fn new(graph: &Graph) -> Self {
        Self { nodes: graph.nodes.len(), rest: MOST_COMPUTED }
    }

    /// Returns what a loop does whose values before the first turn are `inputs`: the nodes of all turns. Fails with the reason
    /// if the loop stays.
    pub(crate) fn unroll(&mut self, inputs: &[Option<&Fact>], repeated: &dyn Loop) -> Result<Body, String> {
        let shapes: Vec<Option<Shape>> = inputs.iter().map(|fact| fact.and_then(|fact| fact.shape.clone())).collect();
        let constants: Vec<Option<Constant>> =
            inputs.iter().map(|fact| fact.and_then(|fact| fact.constant.clone())).collect();
        if constants.iter().all(Option::is_none) {
            return Err(unknown());
        }
        let (condition, mut body) = (repeated.condition(&shapes)?, repeated.body(&shapes)?);
        check(&body.graph)?;
        let turns = self.turns(&condition, &body.graph, constants)?;
        let nodes = turns.checked_mul(body.graph.nodes.len()).and_then(|nodes| nodes.checked_add(self.nodes));
        self.nodes = nodes.filter(|nodes| *nodes <= MOST_NODES).ok_or_else(|| {
            format!("its {turns} turns of {} operators would become too many nodes", body.graph.nodes.len())
        })?;
        let mut unrolled = Unrolled::new(&body.graph);
        for _ in 0..turns {
            let shapes = unrolled.shapes();
            if shapes != shapes_of(&body.graph) {
                body = repeated.body(&shapes)?;
                check(&body.graph)?;
                unrolled.constants.clear();
            }
            unrolled.add(&body.graph);
        }
        Ok(Body { graph: unrolled.finish(), ..body })
    }

    /// Returns the number of turns of a loop with these constants among its values before the first one.
    fn turns(
        &mut self,
        condition: &Graph,
        body: &Graph,
        mut constants: Vec<Option<Constant>>,
    ) -> Result<usize, String> {
        let answer = condition.outputs.first().copied().ok_or_else(unknown)?;
        let asked = Slice::new(condition, &[answer]);
        let (deciding, next) = deciding(&asked, body);
        if condition.nodes.iter().any(|node| has_side_effects(condition, node))
            || deciding.iter().any(|index| constants.get(*index).is_none_or(Option::is_none))
        {
            return Err(unknown());
        }
        for turns in 0..=MOST_TURNS {
            let made = self.compute(&asked, &constants)?;
            match value(condition, answer, &constants, &made).and_then(Constant::integers).as_deref() {
                Some([0]) => return Ok(turns),
                Some([_]) => {}
                _ => return Err(unknown()),
            }
            let made = self.compute(&next, &constants)?;
            let values = |index: &usize| value(body, body.outputs[*index], &constants, &made).cloned();
            let values: Option<Vec<Constant>> = deciding.iter().map(values).collect();
            for (index, value) in deciding.iter().zip(values.ok_or_else(unknown)?) {
                constants[*index] = Some(value);
            }
        }
        Err(format!("it runs more than {MOST_TURNS} times"))
    }

    /// Computes the nodes of a slice from constant inputs, and returns what they make.
    fn compute(
        &mut self,
        slice: &Slice<'_>,
        inputs: &[Option<Constant>],
    ) -> Result<HashMap<TensorId, Constant>, String> {
        let graph = slice.graph;
        self.rest = self.rest.checked_sub(1 + slice.nodes.len()).ok_or("to count its turns takes too long")?;
        let mut made = HashMap::new();
        for node in &slice.nodes {
            let fact = |id: &TensorId| {
                let constant =
                    value(graph, *id, inputs, &made).filter(|constant| constant.bytes.len() <= MOST_BYTES)?;
                let (shape, constant) = (Some(constant.shape.clone()), Some(constant.clone()));
                Some(Fact { shape, constant, ..graph.fact(*id).clone() })
            };
            let facts: Option<Vec<Option<Fact>>> =
                node.inputs.iter().map(|id| id.as_ref().map_or(Some(None), |id| fact(id).map(Some))).collect();
            let facts = facts.filter(|_| !has_side_effects(graph, node)).ok_or_else(unknown)?;
            let outputs = fold(graph, node, &facts, MOST_BYTES as u64, &NothingFolded).map_err(|_| unknown())?;
            made.extend(node.outputs.iter().copied().zip(outputs));
        }
        Ok(made)
    }
}

fn unknown() -> String {
    "how often it runs is not known before it does".into()
}

/// Returns the values that decide how often a loop runs, as indices, and the part of the body that computes them. `asked` is
/// the condition.
fn deciding<'a>(asked: &Slice<'_>, body: &'a Graph) -> (Vec<usize>, Slice<'a>) {
    let mut deciding = asked.inputs.clone();
    loop {
        let outputs: Vec<TensorId> = deciding.iter().filter_map(|index| body.outputs.get(*index)).copied().collect();
        let next = Slice::new(body, &outputs);
        let before = deciding.len();
        deciding.extend(&next.inputs);
        deciding.sort_unstable();
        deciding.dedup();
        if deciding.len() == before {
            return (deciding, next);
        }
    }
}

/// Checks that each value has the type and the quantization before a turn that it has after it: the bytes are the same.
fn check(body: &Graph) -> Result<(), String> {
    let is_same = |(before, after): (&TensorId, &TensorId)| {
        let (before, after) = (body.fact(*before), body.fact(*after));
        let is_variable = before.is_variable || after.is_variable;
        !is_variable && (before.data_type, &before.quantization) == (after.data_type, &after.quantization)
    };
    let is_plain = |id: &TensorId| body.fact(*id).constant.is_none();
    let mut inputs = body.inputs.clone();
    inputs.sort_unstable();
    inputs.dedup();
    let are_apart = inputs.len() == body.inputs.len() && inputs.iter().all(is_plain);
    let are_same = body.inputs.len() == body.outputs.len() && body.inputs.iter().zip(&body.outputs).all(is_same);
    match are_apart && are_same {
        true => body.validate().map_err(|error| format!("its subgraph is invalid: {error}")),
        false => Err("a value of it has another type or scale after a turn than before, or is a variable".into()),
    }
}

/// Returns a tensor of a graph if it is constant where these are the inputs' constants, and the nodes made these.
fn value<'a>(
    graph: &'a Graph,
    id: TensorId,
    inputs: &'a [Option<Constant>],
    made: &'a HashMap<TensorId, Constant>,
) -> Option<&'a Constant> {
    let input = || graph.inputs.iter().position(|input| *input == id);
    let own = || graph.fact(id).constant.as_ref();
    made.get(&id).or_else(own).or_else(|| inputs.get(input()?)?.as_ref())
}

/// The nodes of a graph that some of its tensors depend on, and the indices of the inputs that they depend on.
struct Slice<'a> {
    graph: &'a Graph,
    nodes: Vec<&'a Node>,
    inputs: Vec<usize>,
}

impl<'a> Slice<'a> {
    fn new(graph: &'a Graph, tensors: &[TensorId]) -> Self {
        let mut is_needed = vec![false; graph.tensors.len()];
        tensors.iter().for_each(|id| is_needed[id.index()] = true);
        let mut nodes = Vec::new();
        for node in graph.nodes.iter().rev() {
            if node.outputs.iter().any(|id| is_needed[id.index()]) {
                node.inputs.iter().flatten().for_each(|id| is_needed[id.index()] = true);
                nodes.push(node);
            }
        }
        nodes.reverse();
        let inputs = graph.inputs.iter().enumerate().filter(|(_, id)| is_needed[id.index()]);
        Self { graph, nodes, inputs: inputs.map(|(index, _)| index).collect() }
    }
}

fn shapes_of(body: &Graph) -> Vec<Option<Shape>> {
    body.inputs.iter().map(|id| body.fact(*id).shape.clone()).collect()
}

/// The graph of the turns of a loop so far.
struct Unrolled {
    graph: Graph,
    /// The values of the loop after these turns.
    values: Vec<TensorId>,
    /// The constants of the body, which all turns share, with their places here.
    constants: HashMap<TensorId, TensorId>,
}

impl Unrolled {
    fn new(body: &Graph) -> Self {
        let mut graph = Graph { name: body.name.clone(), ..Graph::default() };
        let values: Vec<TensorId> = body.inputs.iter().map(|id| add(&mut graph, body, *id)).collect();
        graph.inputs.clone_from(&values);
        Self { graph, values, constants: HashMap::new() }
    }

    fn shapes(&self) -> Vec<Option<Shape>> {
        self.values.iter().map(|id| self.graph.fact(*id).shape.clone()).collect()
    }

    /// Adds a turn.
    fn add(&mut self, body: &Graph) {
        let Self { graph, values, constants } = self;
        let mut ids: HashMap<TensorId, TensorId> = body.inputs.iter().copied().zip(values.iter().copied()).collect();
        let mut place = |graph: &mut Graph, id: TensorId| {
            let known = if body.fact(id).constant.is_some() { &mut *constants } else { &mut ids };
            *known.entry(id).or_insert_with(|| add(graph, body, id))
        };
        for node in &body.nodes {
            let inputs = node.inputs.iter().map(|id| id.map(|id| place(graph, id))).collect();
            let outputs = node.outputs.iter().map(|id| place(graph, *id)).collect();
            graph.nodes.push(Node { inputs, outputs, ..node.clone() });
        }
        *values = body.outputs.iter().map(|id| place(graph, *id)).collect();
    }

    fn finish(mut self) -> Graph {
        self.graph.outputs = self.values;
        self.graph
    }
}

/// Adds a tensor of a body.
fn add(graph: &mut Graph, body: &Graph, id: TensorId) -> TensorId {
    graph.tensors.push(body.tensor(id).clone());
    TensorId(graph.tensors.len() as u32 - 1)
}
