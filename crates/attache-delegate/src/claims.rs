//! Which nodes of an execution plan the GPU delegate claims.
//!
//! A model of the whole plan is compiled with a delegate that claims what the GPU delegate claims and prepares nothing.
//! The assignment is therefore that of Attaché's own interpreter: the graph passes run, shapes are inferred in execution
//! order, and nodes of unknown shapes are left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use attache::graph::{Eval, Fact, Inferred, Lowering, Op, OpError, TensorId, TensorMut, TensorRef, Unsupported};
use attache::{
    Claim, CompiledModel, DataType, Declaration, Delegate, DelegateError, DelegateKernel, Error, ErrorKind,
    GpuDelegate, Interpreter, NodeContext, OpResolver, Outcome, Partition, Partitioning, PreparedPartition, Shape,
};

use crate::graph::{Graph, Node, PartModel, UNKNOWN};

/// The name of the GPU delegate in a placement.
const GPU: &str = "GPU";

/// The nodes that the delegate claims.
pub(crate) struct Claims {
    /// Whether each node of the plan is claimed.
    pub(crate) claimed: Vec<bool>,
    /// For each node of the plan that is left to the runtime, the reason.
    pub(crate) reasons: BTreeMap<usize, String>,
    /// The shapes of the runtime's tensors, as inferred from those of the inputs.
    pub(crate) shapes: BTreeMap<usize, Shape>,
}

impl Claims {
    /// Asks the GPU delegate about a plan. `outputs` are the tensors that the plan makes for others. Nodes that are
    /// invalid are left to the runtime.
    pub(crate) fn new(
        graph: &mut Graph,
        outputs: &[usize],
        gpu: &GpuDelegate,
        partitioning: &Partitioning,
    ) -> Result<Self, Error> {
        let mut resolver = OpResolver::new();
        resolver.add_custom(UNKNOWN, 1..=i32::MAX, |declaration| Ok(Arc::new(UnknownOperator::new(declaration))));
        loop {
            let inputs = graph.inputs_of(graph.nodes.iter());
            let part = graph.model(graph.nodes.iter(), &inputs, outputs, &BTreeMap::new(), false)?;
            let types = part.model.subgraphs()[0].tensors.iter().map(|tensor| tensor.data_type).collect();
            let (gpu, partitioning, answers) = (gpu.clone(), partitioning.clone(), Mutex::default());
            let asked = Arc::new(Asked { gpu, partitioning, types, answers });
            let builder = Interpreter::builder(&part.model).threads(1);
            match builder.operators(&resolver).delegate(asked.clone()).compile() {
                Ok(compiled) => return Ok(Self::of(graph, &part, &compiled, &asked)),
                Err(error) if !obscure(&mut graph.nodes, &error) => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn of(graph: &Graph, part: &PartModel, compiled: &CompiledModel, asked: &Asked) -> Self {
        let answers = std::mem::take(&mut *asked.answers.lock().unwrap_or_else(PoisonError::into_inner));
        let placement = &compiled.placement().nodes;
        let mut claimed: Vec<bool> = placement.iter().map(|node| is_on_gpu(&node.outcome)).collect();
        let folded = placement.iter().map(|node| matches!(node.outcome, Outcome::Folded { .. }));
        claim_folded(&graph.nodes, &folded.collect::<Vec<bool>>(), &mut claimed);
        // Tensors that graph passes add are not the runtime's.
        let known = |(tensor, shape)| Some((*part.tensors.get::<usize>(tensor)?, shape));
        let shapes = answers.shapes.into_iter().filter_map(known).collect();
        let mut reasons = answers.reasons;
        for (position, node) in graph.nodes.iter().enumerate().filter(|(position, _)| !claimed[*position]) {
            if let Some(obstacle) = node.obstacle() {
                reasons.insert(position, obstacle.to_owned());
            }
            reasons.entry(position).or_insert_with(|| reason_of(&placement[position].outcome).to_owned());
        }
        reasons.retain(|position, _| !claimed[*position]);
        Self { claimed, reasons, shapes }
    }
}

fn is_on_gpu(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::On { delegate, .. } if delegate == GPU)
}

/// Returns why the GPU delegate has no node that it did not refuse.
fn reason_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Folded { .. } => "its result needs no computation, and no operation on the GPU reads it",
        Outcome::On { .. } | Outcome::Cpu => "its shapes are known only at run time, or its partition is not taken",
    }
}

/// Claims nodes that the graph passes removed, if nodes that read their outputs are claimed: these were claimed without
/// them.
fn claim_folded(nodes: &[Node], folded: &[bool], claimed: &mut [bool]) {
    let mut read = BTreeSet::new();
    for (position, node) in nodes.iter().enumerate().rev() {
        claimed[position] |= folded[position] && node.outputs.iter().any(|output| read.contains(output));
        if claimed[position] {
            read.extend(node.reads());
        }
    }
}

/// Makes the nodes of which an error says that they are invalid unknown ones. Returns whether there are any.
fn obscure(nodes: &mut [Node], error: &Error) -> bool {
    if !matches!(error.kind(), ErrorKind::Model | ErrorKind::Unsupported) {
        return false;
    }
    let operators = error.places().iter().filter_map(|place| Some(place.operator.as_ref()?.0));
    let mut changed = false;
    for operator in operators {
        if let Some(node) = nodes.get_mut(operator).filter(|node| node.obstacle().is_none()) {
            let what = if error.kind() == ErrorKind::Model { "it is invalid" } else { "it is not implemented" };
            node.obscure(format!("{what}: {error}"));
            changed = true;
        }
    }
    changed
}

/// A node that the runtime runs, of which nothing but its outputs is known.
#[derive(Debug)]
struct UnknownOperator {
    /// Why no model can contain the node.
    reason: String,
    outputs: Vec<Inferred>,
}

impl UnknownOperator {
    /// The options are the reason. As in files, an empty shape may stand for an unknown one.
    fn new(declaration: &Declaration<'_>) -> Self {
        let reason = String::from_utf8_lossy(declaration.custom_options()).into_owned();
        let stated = |output: &Inferred| Inferred {
            shape: output.shape.clone().filter(|shape| shape.rank() > 0),
            ..output.clone()
        };
        Self { reason, outputs: declaration.outputs.iter().map(stated).collect() }
    }
}

impl Op for UnknownOperator {
    fn name(&self) -> &str {
        UNKNOWN
    }

    fn infer(&self, _: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        Ok(self.outputs.clone())
    }

    fn eval(&self, _: &mut Eval<'_>) -> Result<(), OpError> {
        Err(OpError::unsupported(&self.reason))
    }

    fn lower(&self, _: &mut Lowering<'_>) -> Result<(), Unsupported> {
        Err(Unsupported::new(&self.reason))
    }

    fn has_side_effects(&self) -> bool {
        true
    }
}

/// Claims what the GPU delegate claims, and prepares nothing.
struct Asked {
    gpu: GpuDelegate,
    partitioning: Partitioning,
    /// The types of the runtime's tensors, by the index in the model.
    types: Vec<DataType>,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    /// By the operator's index in the model.
    reasons: BTreeMap<usize, String>,
    /// By the tensor's index in the model.
    shapes: BTreeMap<usize, Shape>,
}

impl Delegate for Asked {
    fn name(&self) -> &str {
        GPU
    }

    fn partitioning(&self) -> Partitioning {
        self.partitioning.clone()
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        // The runtime has memory for the type that the file states, whatever the operator makes.
        let is_other =
            |id: &TensorId| self.types.get(id.index()).is_some_and(|stated| *stated != node.graph.fact(*id).data_type);
        let claim = match node.node().outputs.iter().any(is_other) {
            true => Err(Unsupported::new("the file states another type for what it makes")),
            false => self.gpu.claim(node).map(|_| Claim::new(())),
        };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for id in node.node().inputs.iter().flatten().chain(&node.node().outputs) {
            answers.shapes.extend(node.graph.fact(*id).shape.clone().map(|shape| (id.index(), shape)));
        }
        if let Err(reason) = &claim {
            answers.reasons.extend(node.node().origins.iter().map(|origin| (*origin, reason.to_string())));
        }
        claim
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        Ok(Box::new(no_kernel))
    }
}

fn no_kernel() -> Result<Box<dyn DelegateKernel>, DelegateError> {
    Ok(Box::new(NoKernel))
}

struct NoKernel;

impl DelegateKernel for NoKernel {
    fn invoke(&mut self, _: &[TensorRef<'_>], _: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        Err(DelegateError::new("it was only asked what it claims"))
    }
}
