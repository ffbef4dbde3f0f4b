//! What the GPU would make of a model, asked without preparing or running anything.
//!
//! The answers come from the questions that an interpreter really asks: a delegate of our own takes every operator, with
//! a kernel that is never run, and notes what the GPU says of each. So a file whose operators nobody implements can be
//! looked at too.

use std::sync::{Arc, Mutex, PoisonError};

use attache::graph::{Graph, NodeId, Refusal, TensorMut, TensorRef};
use attache::{Claim, Delegate, DelegateError, DelegateKernel, ErrorKind, Interpreter, Island, Model, Outcome, stages};

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

/// What was said of a node: the file's operators that it stands for, why the GPU refuses it, why it can't run at all.
struct Note {
    origins: Vec<usize>,
    refusal: Option<String>,
    missing: Option<String>,
}

#[derive(Default)]
struct Seen {
    graph: Graph,
    notes: Vec<Note>,
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
        let node = graph.node(id);
        let missing = node.op.missing().map(str::to_owned);
        let note = Note { origins: node.origins.clone(), refusal: self.gpu.refusal(graph, id), missing };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.notes.is_empty() {
            seen.graph = graph.clone();
        }
        seen.notes.push(note);
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
    let mut gaps = Vec::new();
    for subgraph in 1..model.subgraphs().len() {
        let probe = Arc::new(Probe { gpu: Claims::new(), seen: Mutex::default() });
        ignore_gaps(stages::partition(model, subgraph, &[probe.clone()]))?;
        gaps.extend(found_gaps(model, subgraph, &take(&probe).notes));
    }
    let probe = Arc::new(Probe { gpu: Claims::new(), seen: Mutex::default() });
    let built = ignore_gaps(Interpreter::builder(model).threads(1).delegate(probe.clone()).build())?;
    let Seen { graph, notes } = take(&probe);
    let outcomes: Vec<Option<Outcome>> = match built {
        Some(interpreter) => interpreter.placement().nodes.iter().map(|node| Some(node.outcome.clone())).collect(),
        None => vec![None; model.subgraphs()[0].operators.len()],
    };
    let operators = model.subgraphs()[0].operators.iter().zip(outcomes).enumerate();
    let answers = operators.map(|(index, (operator, outcome))| {
        let note = notes.iter().find(|note| note.origins.contains(&index));
        let (delegated, reason) = match (note, outcome) {
            (Some(note), _) => (note.refusal.is_none(), note.refusal.clone()),
            (None, Some(Outcome::Folded { into })) => (true, Some(into)),
            (None, _) => (false, Some(UNKNOWN_SHAPES.to_owned())),
        };
        Answer { index, operator: operator.code.name(), version: operator.code.version, delegated, reason }
    });
    let answers = answers.collect();
    gaps.splice(0..0, found_gaps(model, 0, &notes));
    Ok(Survey { graph, answers, gaps })
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

fn found_gaps(model: &Model, subgraph: usize, notes: &[Note]) -> Vec<Gap> {
    let gap = |note: &Note| {
        let (reason, index) = (note.missing.clone()?, *note.origins.first()?);
        let code = &model.subgraphs()[subgraph].operators[index].code;
        Some(Gap { subgraph, index, operator: code.name(), version: code.version, reason })
    };
    notes.iter().filter_map(gap).collect()
}
