//! What the GPU would make of a model, asked without preparing or running anything.
//!
//! The answers come from the questions that an interpreter really asks: a delegate of our own takes every operator, with
//! a kernel that is never run, and notes what the GPU says of each. So a file whose operators nobody implements can be
//! looked at too.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use attache::graph::{Graph, Node, NodeId, Refusal, TensorMut, TensorRef};
use attache::{
    Claim, Delegate, DelegateError, DelegateKernel, ErrorKind, Interpreter, Island, Model, Outcome, Placement, stages,
};

use crate::device::Claims;
use crate::failure::Failure;

/// Why the GPU isn't asked.
const UNKNOWN_SHAPES: &str = "its shapes are known only at run time";

/// An operator of the first subgraph.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) index: usize,
    pub(crate) operator: String,
    pub(crate) version: i32,
    pub(crate) delegated: bool,
    /// Why it isn't delegated, or what became of it before anything could be.
    pub(crate) reason: Option<String>,
}

/// An operator that isn't implemented.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gap {
    pub(crate) subgraph: usize,
    pub(crate) index: usize,
    pub(crate) operator: String,
    pub(crate) version: i32,
    pub(crate) reason: String,
}

/// What was learnt of a model.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The first subgraph as delegates see it.
    pub(crate) graph: Graph,
    /// Every operator of the first subgraph.
    pub(crate) answers: Vec<Answer>,
    /// Every operator of any subgraph that isn't implemented.
    pub(crate) gaps: Vec<Gap>,
}

/// What was said: the graph, and for the nodes that were asked about why the GPU refuses them, if it does.
#[derive(Default)]
struct Seen {
    graph: Graph,
    refusals: HashMap<NodeId, Option<String>>,
}

/// Takes every operator and notes what the GPU says.
struct Probe {
    gpu: Claims,
    seen: Mutex<Seen>,
}

impl Delegate for Probe {
    fn name(&self) -> &str {
        "survey"
    }

    fn claim(&self, graph: &Graph, id: NodeId) -> Result<Claim, Refusal> {
        let refusal = self.gpu.refusal(graph, id);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.refusals.is_empty() {
            seen.graph = graph.clone();
        }
        seen.refusals.insert(id, refusal);
        Ok(Claim::new(()))
    }

    fn prepare(&self, _: Island<'_>) -> Result<Box<dyn DelegateKernel>, DelegateError> {
        Ok(Box::new(NeverRun))
    }
}

struct NeverRun;

impl DelegateKernel for NeverRun {
    fn invoke(&mut self, _: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        Err(DelegateError::new("a survey runs nothing"))
    }
}

/// Asks about every operator of the model.
pub(crate) fn survey(model: &Model) -> Result<Survey, Failure> {
    let probe = || Arc::new(Probe { gpu: Claims::new(), seen: Mutex::default() });
    let first = probe();
    let built = ignore_gaps(Interpreter::builder(model).threads(1).delegate(first.clone()).build())?;
    let Seen { graph, refusals } = take(&first);
    let placement = built.map(|interpreter| interpreter.placement().clone());
    let mut gaps = found_gaps(model, 0, &graph);
    for subgraph in 1..model.subgraphs().len() {
        let probe = probe();
        ignore_gaps(stages::partition(model, subgraph, &[probe.clone() as Arc<dyn Delegate>]))?;
        gaps.extend(found_gaps(model, subgraph, &take(&probe).graph));
    }
    let answers = answers(model, &graph, &refusals, placement.as_ref());
    Ok(Survey { graph, answers, gaps })
}

/// What is to be said of every operator of the first subgraph.
fn answers(
    model: &Model,
    graph: &Graph,
    refusals: &HashMap<NodeId, Option<String>>,
    placement: Option<&Placement>,
) -> Vec<Answer> {
    let node = |index: usize| graph.nodes.iter().position(|node| node.origins.contains(&index));
    let fate = |index: usize| match placement.map(|placement| &placement.nodes[index].outcome) {
        Some(Outcome::Folded { into }) => Some(into.clone()),
        _ => None,
    };
    let judge = |index: usize| match node(index) {
        None => (true, Some(fate(index).unwrap_or_else(|| "nothing is left of it to run".to_owned()))),
        Some(id) => match refusals.get(&NodeId(id as u32)) {
            Some(refusal) => (refusal.is_none(), refusal.clone()),
            None => (false, Some(graph.nodes[id].op.missing().unwrap_or(UNKNOWN_SHAPES).to_owned())),
        },
    };
    let operators = model.subgraphs()[0].operators.iter().enumerate();
    operators
        .map(|(index, operator)| {
            let (delegated, reason) = judge(index);
            Answer { index, operator: operator.code.name(), version: operator.code.version, delegated, reason }
        })
        .collect()
}

fn take(probe: &Probe) -> Seen {
    std::mem::take(&mut *probe.seen.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What isn't implemented is what a survey is for.
fn ignore_gaps<T>(result: Result<T, attache::Error>) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn found_gaps(model: &Model, subgraph: usize, graph: &Graph) -> Vec<Gap> {
    let gap = |node: &Node| {
        let (reason, index) = (node.op.missing()?.to_owned(), *node.origins.first()?);
        let code = &model.subgraphs()[subgraph].operators[index].code;
        Some(Gap { subgraph, index, operator: code.name(), version: code.version, reason })
    };
    graph.nodes.iter().filter_map(gap).collect()
}
