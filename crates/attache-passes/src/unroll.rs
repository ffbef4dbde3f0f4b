//! Loops that run a known number of times: what decides how often is constant before the first turn and computed from itself
//! in each one, as counters and their limits are. The turns become one graph.

use std::collections::HashMap;

use attache_base::{Constant, Shape};
use attache_graph::{Body, Fact, Graph, Loop, Node, Tensor, TensorId};

use crate::fold_constants::fold;
use crate::{NothingFolded, has_side_effects};

/// Maximum number of turns of a loop.
const MOST_TURNS: usize = 256;

/// Maximum number of nodes that a graph has after its loops are replaced.
const MOST_NODES: usize = 1 << 12;

/// Maximum size of all turns that are made of the loops of a graph in one round, in units of [`size`].
const MOST_MADE: usize = 1 << 18;

/// Maximum number of bytes of a loop's constants times its turns: arenas are bounded and devices filled as if each turn had
/// weights of its own.
const MOST_CONSTANTS: usize = 32 << 20;

/// Maximum work to count the turns of all loops of a graph in one round: tensors and nodes that are looked at, and
/// [`COMPUTED`] for each node that is computed.
const MOST_WORK: usize = 1 << 20;
const COMPUTED: usize = 1 << 7;

/// Maximum number of values that decide how often a loop runs, and maximum bytes of a tensor from which that is computed.
const MOST_DECIDING: usize = 16;
const MOST_BYTES: usize = 1 << 8;

/// Replaces the loops of one graph.
pub(crate) struct Unroller {
    /// Number of nodes of the graph with those that take the place of loops.
    nodes: usize,
    /// The size that may still be made.
    room: usize,
    /// The work that may still be done.
    rest: usize,
}

impl Unroller {
    pub(crate) fn new(graph: &Graph) -> Self {
        Self { nodes: graph.nodes.len(), room: MOST_MADE, rest: MOST_WORK }
    }

    /// Returns what a loop does whose values before the first turn are `inputs`: the nodes of all turns. Fails with the reason
    /// if the loop stays. The caller tells by [`Unroller::replaced`] that they took its place.
    pub(crate) fn unroll(&mut self, inputs: &[Option<&Fact>], repeated: &dyn Loop) -> Result<Body, String> {
        let shapes: Vec<Option<Shape>> = inputs.iter().map(|fact| fact.and_then(|fact| fact.shape.clone())).collect();
        let constants: Vec<Option<Constant>> =
            inputs.iter().map(|fact| fact.and_then(|fact| fact.constant.clone())).collect();
        if constants.iter().all(Option::is_none) {
            return Err(unknown());
        }
        let condition = repeated.condition(&shapes)?;
        check(&condition)?;
        let asked = self.slice(&condition, condition.outputs.get(..1).unwrap_or_default())?;
        require_constant(&asked.inputs, &constants)?;
        let mut body = repeated.body(&shapes)?;
        check_body(&body.graph)?;
        let turns = self.turns(&asked, &body.graph, constants)?;
        self.reserve(turns, &body.graph)?;
        let mut unrolled = Unrolled::new(&body.graph);
        for _ in 0..turns {
            let shapes = unrolled.shapes();
            if shapes != shapes_of(&body.graph) {
                body = repeated.body(&shapes)?;
                check_body(&body.graph)?;
            }
            unrolled.add(&body.graph);
        }
        Ok(Body { graph: unrolled.finish(), ..body })
    }

    /// Counts the nodes that took the place of a loop.
    pub(crate) fn replaced(&mut self, nodes: usize) {
        self.nodes += nodes;
    }

    /// Fails if the turns of a body would become too large.
    fn reserve(&mut self, turns: usize, body: &Graph) -> Result<(), String> {
        let (nodes, used) = (turns.saturating_mul(body.nodes.len()), used(body));
        if nodes.saturating_add(self.nodes) > MOST_NODES {
            let each = body.nodes.len();
            return Err(format!("its {turns} turns of {each} operators would become too many nodes"));
        }
        let constants = used.iter().filter_map(|id| body.fact(*id).constant.as_ref());
        let bytes = constants.map(|constant| constant.bytes.len()).fold(0, usize::saturating_add);
        if turns > 1 && bytes.saturating_mul(turns) > MOST_CONSTANTS {
            return Err(format!("its {turns} turns with {bytes} bytes of constants each would take too much memory"));
        }
        let made = turns.saturating_mul(size(body, &used));
        self.room = self.room.checked_sub(made).ok_or("loops would become too many nodes and tensors")?;
        Ok(())
    }

    /// Returns the number of turns of a loop with these constants among its values before the first one. `asked` computes
    /// whether there is one more.
    fn turns(
        &mut self,
        asked: &Slice<'_>,
        body: &Graph,
        mut constants: Vec<Option<Constant>>,
    ) -> Result<usize, String> {
        let answer = asked.graph.outputs.first().copied().ok_or_else(unknown)?;
        let (deciding, next) = self.deciding(asked, body)?;
        let has_effects = |node: &Node| has_side_effects(asked.graph, node);
        if asked.graph.nodes.iter().any(has_effects) {
            return Err(unknown());
        }
        require_constant(&deciding, &constants)?;
        for turns in 0..=MOST_TURNS {
            let made = self.compute(asked, &constants)?;
            match asked.value(answer, &constants, &made).and_then(Constant::integers).as_deref() {
                Some([0]) => return Ok(turns),
                Some([_]) => {}
                _ => return Err(unknown()),
            }
            let made = self.compute(&next, &constants)?;
            let values = |index: &usize| next.value(body.outputs[*index], &constants, &made).cloned();
            let values: Option<Vec<Constant>> = deciding.iter().map(values).collect();
            for (index, value) in deciding.iter().zip(values.ok_or_else(unknown)?) {
                constants[*index] = Some(value);
            }
        }
        Err(format!("it runs more than {MOST_TURNS} times"))
    }

    /// Returns the values that decide how often a loop runs, as indices, and the part of the body that computes them. `asked`
    /// is the condition.
    fn deciding<'a>(&mut self, asked: &Slice<'_>, body: &'a Graph) -> Result<(Vec<usize>, Slice<'a>), String> {
        let mut deciding = asked.inputs.clone();
        loop {
            if deciding.len() > MOST_DECIDING {
                return Err(unknown());
            }
            let outputs: Vec<TensorId> =
                deciding.iter().filter_map(|index| body.outputs.get(*index)).copied().collect();
            let next = self.slice(body, &outputs)?;
            let before = deciding.len();
            deciding.extend(&next.inputs);
            deciding.sort_unstable();
            deciding.dedup();
            if deciding.len() == before {
                return Ok((deciding, next));
            }
        }
    }

    fn slice<'a>(&mut self, graph: &'a Graph, tensors: &[TensorId]) -> Result<Slice<'a>, String> {
        let reads = graph.nodes.iter().map(|node| 1 + node.inputs.len() + node.outputs.len());
        self.work(reads.fold(graph.tensors.len() + graph.inputs.len(), usize::saturating_add))?;
        Ok(Slice::new(graph, tensors))
    }

    fn work(&mut self, units: usize) -> Result<(), String> {
        self.rest = self.rest.checked_sub(units).ok_or("to count its turns takes too long")?;
        Ok(())
    }

    /// Computes the nodes of a slice from constant inputs, and returns what they make.
    fn compute(
        &mut self,
        slice: &Slice<'_>,
        inputs: &[Option<Constant>],
    ) -> Result<HashMap<TensorId, Constant>, String> {
        let graph = slice.graph;
        let reads = slice.nodes.iter().map(|node| COMPUTED + node.inputs.len() + node.outputs.len());
        self.work(reads.fold(COMPUTED, usize::saturating_add))?;
        let mut made = HashMap::new();
        for node in &slice.nodes {
            let fact = |id: &TensorId| {
                let constant = slice.value(*id, inputs, &made).filter(|constant| constant.bytes.len() <= MOST_BYTES)?;
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

/// Fails unless all these values are constant.
fn require_constant(values: &[usize], constants: &[Option<Constant>]) -> Result<(), String> {
    let is_constant = |index: &usize| constants.get(*index).is_some_and(Option::is_some);
    if values.iter().all(is_constant) { Ok(()) } else { Err(unknown()) }
}

/// Checks that a subgraph is valid, and that each input is a tensor of its own that only the caller gives a value.
fn check(graph: &Graph) -> Result<(), String> {
    let mut inputs = graph.inputs.clone();
    inputs.sort_unstable();
    inputs.dedup();
    let is_plain = |id: &TensorId| graph.fact(*id).constant.is_none() && !graph.fact(*id).is_variable;
    match inputs.len() == graph.inputs.len() && inputs.iter().all(is_plain) {
        true => graph.validate().map_err(|error| format!("its subgraph is invalid: {error}")),
        false => Err("an input of its subgraph is constant, a variable or there twice".into()),
    }
}

/// Checks a body like [`check`], and that each value has the type and the quantization before a turn that it has after it: the
/// bytes are the same.
fn check_body(body: &Graph) -> Result<(), String> {
    let is_same = |(before, after): (&TensorId, &TensorId)| {
        let (before, after) = (body.fact(*before), body.fact(*after));
        !after.is_variable && (before.data_type, &before.quantization) == (after.data_type, &after.quantization)
    };
    let are_same = body.inputs.len() == body.outputs.len() && body.inputs.iter().zip(&body.outputs).all(is_same);
    match are_same {
        true => check(body),
        false => Err("a value of it has another type or scale after a turn than before, or is a variable".into()),
    }
}

/// Returns the tensors that the nodes of a graph use.
fn used(graph: &Graph) -> Vec<TensorId> {
    let used = graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten().chain(&node.outputs));
    let mut used: Vec<TensorId> = used.copied().collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// Returns the number of nodes, of their inputs and outputs, and of the scales of the tensors that they use.
fn size(graph: &Graph, used: &[TensorId]) -> usize {
    let nodes = graph.nodes.iter().map(|node| 1 + node.inputs.len() + node.outputs.len());
    let scales = |id: &TensorId| graph.fact(*id).quantization.as_ref().map_or(0, |it| it.scale.len());
    nodes.chain(used.iter().map(|id| 1 + scales(id))).fold(0, usize::saturating_add)
}

/// The nodes of a graph that some of its tensors depend on, and the indices of the inputs that they depend on.
struct Slice<'a> {
    graph: &'a Graph,
    nodes: Vec<&'a Node>,
    inputs: Vec<usize>,
    /// The index of each of these inputs, by its tensor.
    places: HashMap<TensorId, usize>,
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
        let places: HashMap<TensorId, usize> =
            graph.inputs.iter().copied().zip(0..).filter(|(id, _)| is_needed[id.index()]).collect();
        let mut inputs: Vec<usize> = places.values().copied().collect();
        inputs.sort_unstable();
        Self { graph, nodes, inputs, places }
    }

    /// Returns a tensor of the graph if it is constant where these are the inputs' constants, and the nodes made these.
    fn value<'b>(
        &'b self,
        id: TensorId,
        inputs: &'b [Option<Constant>],
        made: &'b HashMap<TensorId, Constant>,
    ) -> Option<&'b Constant> {
        let own = || self.graph.fact(id).constant.as_ref();
        made.get(&id).or_else(own).or_else(|| inputs.get(*self.places.get(&id)?)?.as_ref())
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

    /// Adds a turn. The graphs of a body have the same tensors and constants whatever the shapes of its values.
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

/// Adds a tensor of a body, without its name, which may be long and is that of one tensor.
fn add(graph: &mut Graph, body: &Graph, id: TensorId) -> TensorId {
    graph.tensors.push(Tensor { name: String::new(), fact: body.fact(id).clone() });
    TensorId(graph.tensors.len() as u32 - 1)
}
