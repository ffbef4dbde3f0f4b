//! The preparation of a subgraph: import, graph passes, assignment to delegates, and memory plan.

use std::sync::Arc;

use attache_base::{Shape, Stopwatch};
use attache_graph::{Graph, Node, NodeId, SharedCache, WorkingMemory};
use attache_model::{Model, ModelLocation};
use attache_ops::{NOT_IMPLEMENTED, OpResolver};

use super::Options;
use super::bands::Bands;
use super::inferred::Inferred;
use super::passing::Caller;
use super::plan::{Plan, plan};
use super::shared_weights::SharedWeights;
use crate::limits::working_memory;
use crate::partition::Unit;
use crate::partition::assign::{Assignment, PlacedPartition, PlacedStep, assign};
use crate::partition::placement::{NodePlacement, Placement};
use crate::{DelegateError, DelegateErrorKind, Error, ErrorKind, Limits, Report};

/// Maximum number of panic messages that a report or an [`Environment`](super::Environment) keeps. A delegate
/// may panic once for each of many input shapes.
pub(crate) const MOST_PANICS: usize = 64;

/// A prepared subgraph: everything that its interpreters have in common, for one set of input shapes.
pub(crate) struct Prepared {
    pub(crate) graph: Graph,
    /// The index of the subgraph in the model.
    pub(crate) subgraph: usize,
    /// Whether other subgraphs call it, which then pass the inputs.
    pub(crate) is_called: bool,
    /// The steps of a run, in execution order.
    pub(crate) steps: Vec<PreparedStep>,
    pub(crate) plan: Plan,
    /// For each tensor, whether a step or an output of the graph accesses it in host memory.
    pub(crate) touched: Vec<bool>,
    /// For each tensor, whether a node on the CPU reads it or it is an output of the graph. A reshape that shares
    /// memory counts as a node.
    pub(crate) on_host: Vec<bool>,
    /// Where each operator of the model file runs.
    pub(crate) placement: Arc<Placement>,
    /// The tensors of the file whose shapes are others than the file states, by their indices.
    pub(crate) inferred: Inferred,
    pub(crate) report: Report,
}

/// One step of a prepared subgraph.
pub(crate) enum PreparedStep {
    /// A node on the CPU.
    Node {
        id: NodeId,
        /// The packed weights of the node.
        cache: Arc<SharedCache>,
        /// The memory that a run of the node allocates.
        working: WorkingMemory,
    },
    /// Nodes on the CPU that run together.
    Banded(Bands),
    /// A partition, which runs on a delegate.
    Partition(Box<PlacedPartition>),
}

/// Whether the preparation of a subgraph may infer the shapes of resource variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrepareMode {
    /// For the subgraph of an interpreter in which no resource variable has a value yet: shapes of variables
    /// are inferred from all assignments in the model.
    First,
    /// For the subgraph of an interpreter in which a resource variable has a value, and for every called
    /// subgraph: shapes of variables are unknown.
    Later,
}

/// Prepares a subgraph for these input shapes; `None`, or no entry, for an input that keeps the shape of the
/// model file. `is_called` says whether other subgraphs call it. Constants and packed weights that are in `shared` are used
/// again.
pub(crate) fn prepare(
    model: &Model,
    subgraph: usize,
    options: &Options,
    (shapes, is_called): (&[Option<Shape>], bool),
    mode: PrepareMode,
    shared: &mut SharedWeights,
) -> Result<Prepared, Error> {
    let start = Stopwatch::start();
    options.limits.check_operators(subgraph, model.subgraphs()[subgraph].operators.len())?;
    let mut graph = import(model, subgraph, shapes, mode, &options.resolver)?;
    let inferred = Inferred::new(&graph, model, subgraph);
    options.kept.add_to(&mut graph, subgraph);
    // The limits are checked before constants are folded, and again afterwards because folding may make more
    // shapes known.
    options.limits.check_graph(&graph, subgraph)?;
    let log = attache_passes::run_with(&mut graph, &*shared.folded(subgraph));
    options.limits.check_graph(&graph, subgraph)?;
    shared.share_constants(&mut graph, subgraph);
    let assignment = assign(&graph, (model, subgraph), &options.delegates, &options.resolver, options.threads);
    let fault = match fault(&assignment) {
        Some(fault) if !options.cpu_fallback => return Err(fault),
        fault => fault,
    };
    check_implemented(&graph, subgraph, &assignment)?;
    let placement = crate::partition::placement::placement(model, subgraph, &graph, &log, &assignment);
    if options.required {
        check_delegated(subgraph, &placement)?;
    }
    let mut report = delegates_report(&assignment);
    report.fallback = fault.map(|fault| fault.to_string());
    let caller = match is_called {
        true => Caller::Subgraph,
        false if options.fixed_addresses => Caller::ProgramAtAddresses,
        false => Caller::Program,
    };
    let mut prepared = Prepared::new(graph, (subgraph, caller), assignment.steps, &options.limits, shared)?;
    report.nodes = placement.nodes.len();
    report.nodes_delegated = placement.delegated();
    report.partitions = placement.partitions;
    report.cpu_arena_bytes = prepared.plan.size.saturating_add(prepared.plan.passed_bytes);
    report.cpu_arena_lower_bound_bytes = prepared.plan.lower_bound;
    report.prepare_ms = start.milliseconds();
    placement.log.iter().chain(&report.notes).for_each(|line| tracing::info!("{line}"));
    (prepared.placement, prepared.inferred, prepared.report) = (Arc::new(placement), inferred, report);
    Ok(prepared)
}

impl Prepared {
    /// Plans the memory of a graph with these steps, without a placement and a report.
    pub(crate) fn new(
        graph: Graph,
        (subgraph, caller): (usize, Caller),
        mut placed: Vec<PlacedStep>,
        limits: &Limits,
        shared: &mut SharedWeights,
    ) -> Result<Self, Error> {
        let on_host = on_host(&graph, &placed);
        let plan = plan(&graph, (subgraph, caller), &mut placed, limits)?;
        let mut touched = vec![false; graph.tensors.len()];
        let ids = placed.iter().flat_map(|step| step.inputs(&graph).into_iter().chain(step.outputs(&graph)));
        ids.chain(graph.outputs.iter().copied()).for_each(|id| touched[id.index()] = true);
        let step = |step| match step {
            PlacedStep::Partition(partition) => PreparedStep::Partition(partition),
            PlacedStep::Banded(group) => {
                PreparedStep::Banded(Bands::new(&graph, group, |node| shared.cache(&graph, subgraph, node)))
            }
            PlacedStep::Node(id) => {
                let node = graph.node(id);
                let (cache, working) = (shared.cache(&graph, subgraph, node), working_memory(&graph, node));
                PreparedStep::Node { id, cache, working }
            }
        };
        let steps = placed.into_iter().map(step).collect();
        let (placement, inferred, report) = Default::default();
        let is_called = caller == Caller::Subgraph;
        Ok(Self { graph, subgraph, is_called, steps, plan, touched, on_host, placement, inferred, report })
    }
}

/// Returns for each tensor whether a node on the CPU reads it or it is an output of the graph.
fn on_host(graph: &Graph, placed: &[PlacedStep]) -> Vec<bool> {
    let mut on_host = vec![false; graph.tensors.len()];
    let nodes = placed.iter().filter(|step| matches!(step, PlacedStep::Node(_)));
    let ids = nodes.flat_map(|step| step.inputs(graph)).chain(graph.outputs.iter().copied());
    ids.for_each(|id| on_host[id.index()] = true);
    on_host
}

/// Imports a subgraph as a graph. Fails with an error that lists all invalid operators of the subgraph.
pub(crate) fn import(
    model: &Model,
    subgraph: usize,
    shapes: &[Option<Shape>],
    mode: PrepareMode,
    resolver: &OpResolver,
) -> Result<Graph, Error> {
    check_shapes(shapes)?;
    let (graph, errors) = match mode {
        PrepareMode::First => attache_ops::import_first(model, subgraph, shapes, resolver),
        PrepareMode::Later => attache_ops::import(model, subgraph, shapes, resolver),
    };
    if !errors.is_empty() {
        let problem = |error: attache_ops::ImportError| {
            let operator = Some((error.operator, error.name));
            (ModelLocation { subgraph: Some(error.subgraph), operator, tensor: None }, error.error.to_string())
        };
        let heading = format!("{} operators are wrong", errors.len());
        return Err(Error::list(ErrorKind::Model, &heading, errors.into_iter().map(problem).collect()));
    }
    if let Err(error) = graph.validate() {
        let operator = graph.nodes.get(error.node).map(|node| (error.node, node.op.name().to_owned()));
        let location = ModelLocation { subgraph: Some(subgraph), operator, tensor: None };
        return Err(Error::list(ErrorKind::Model, "", vec![(location, error.reason)]));
    }
    Ok(graph)
}

/// Returns an error if one of the input shapes asked for is too large: an extent that does not fit in an
/// `i32`, or more than `isize::MAX / 16` elements.
fn check_shapes(shapes: &[Option<Shape>]) -> Result<(), Error> {
    let fits = |shape: &Shape| {
        let is_countable = shape.checked_elements().is_some_and(|elements| elements <= isize::MAX as usize / 16);
        is_countable && shape.iter().all(|extent| i32::try_from(*extent).is_ok())
    };
    let too_large =
        shapes.iter().enumerate().find_map(|(input, shape)| Some((input, shape.as_ref()?)).filter(|s| !fits(s.1)));
    match too_large {
        Some((input, shape)) => Err(Error::usage(format!(
            "the shape {shape} for input {input} is too large to be addressed; give it smaller extents"
        ))),
        None => Ok(()),
    }
}

/// Returns an error that lists all nodes that the assignment leaves to the CPU and that the CPU does not
/// implement, if there are any.
pub(crate) fn check_implemented(graph: &Graph, subgraph: usize, assignment: &Assignment) -> Result<(), Error> {
    let on_cpu = assignment.steps.iter().flat_map(PlacedStep::nodes_on_cpu).map(|id| graph.node(*id));
    let unresolved = on_cpu.filter_map(|node| Some((location(subgraph, node), node.op.missing()?.to_owned())));
    let mut unresolved: Vec<_> = unresolved.collect();
    // Registering helps where an operator is unknown, not where a form or version of it is.
    let remedy = match unresolved.iter().any(|(_, reason)| reason == NOT_IMPLEMENTED) {
        true => {
            "convert the model without them, or let a program register them (OpResolver, InterpreterBuilder::operators)"
        }
        false => "convert the model without them",
    };
    match unresolved.as_mut_slice() {
        [] => return Ok(()),
        [(_, reason)] => *reason += &format!("; {}", remedy.replace("them", "it")),
        _ => {}
    }
    let heading = format!("{} operators are not implemented; {remedy}", unresolved.len());
    Err(Error::list(ErrorKind::Unsupported, &heading, unresolved))
}

/// Returns where the operator of a node is in the model. `subgraph` is the subgraph of the node's graph.
pub(crate) fn location(subgraph: usize, node: &Node) -> ModelLocation {
    match node.place(subgraph) {
        Some((subgraph, index)) => {
            let operator = Some((index, node.op.name().to_owned()));
            ModelLocation { subgraph: Some(subgraph), operator, tensor: None }
        }
        None => ModelLocation { subgraph: Some(subgraph), ..ModelLocation::default() },
    }
}

/// Returns an error that lists all operators that the assignment leaves to the CPU, if there are any.
fn check_delegated(subgraph: usize, placement: &Placement) -> Result<(), Error> {
    let problem = |node: &NodePlacement| {
        let operator = Some((node.index, node.operator.clone()));
        let reason = node.reason.clone().unwrap_or_else(|| "there is no delegate".into());
        (ModelLocation { subgraph: Some(subgraph), operator, tensor: None }, reason)
    };
    const REMEDY: &str = "without require_delegation they run on the CPU";
    let mut left: Vec<_> = placement.left_behind().map(problem).collect();
    match left.as_mut_slice() {
        [] => return Ok(()),
        [(_, reason)] => *reason = format!("it is not delegated: {reason}; {}", REMEDY.replace("they run", "it runs")),
        _ => {}
    }
    let heading = format!("{} of {} operators are not delegated; {REMEDY}", left.len(), placement.nodes.len());
    Err(Error::list(ErrorKind::NotDelegated, &heading, left))
}

/// Returns an error for the first delegate whose device was lost or out of memory during its preparation;
/// `None` if there is none. Without the CPU fallback, such an error ends the preparation.
fn fault(assignment: &Assignment) -> Option<Error> {
    let is_devices = |failure: &&DelegateError| match failure.kind {
        DelegateErrorKind::OutOfMemory | DelegateErrorKind::DeviceLost => true,
        DelegateErrorKind::Failed | DelegateErrorKind::Panicked | DelegateErrorKind::Usage => false,
    };
    let mut failures = assignment
        .names
        .iter()
        .zip(&assignment.failures)
        .filter_map(|(name, failure)| Some(Error::delegate(name, failure.as_ref().filter(is_devices)?)));
    failures.next()
}

fn delegates_report(assignment: &Assignment) -> Report {
    let mut sum = Report { panics: assignment.panics.clone(), ..Report::default() };
    for step in &assignment.steps {
        let PlacedStep::Partition(partition) = step else { continue };
        let report = partition.prepared.report();
        sum.dispatches += report.dispatches;
        sum.variants.extend(&report.variants);
        sum.alternatives.extend(&report.alternatives);
        sum.notes.extend(report.notes.iter().map(|note| format!("{} delegate: {note}", partition.delegate)));
        sum.arena_bytes += report.arena_bytes;
        sum.arena_lower_bound_bytes += report.arena_lower_bound_bytes;
        sum.weights_bytes += report.weights_bytes;
        sum.restored_partitions += usize::from(report.is_restored);
        sum.compile_ms += report.compile_ms;
        sum.upload_ms += report.upload_ms;
    }
    sum
}
