//! A run on the CPU that keeps every tensor, and comparisons of delegates with it.
//!
//! A trace and all comparisons use the graph after the passes, which is the graph that delegates see, and the
//! values of one run that starts with variables in their initial state.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use attache_base::Shape;
use attache_graph::{Fact, Graph, Node, TensorId};
use attache_model::Model;
use attache_ops::OpResolver;

use super::{Difference, Tolerance};
use crate::partition::assign::{Assignment, PlacedStep, assign};
use crate::runtime::executor::Executor;
use crate::runtime::passing::Caller;
use crate::runtime::prepare::check_implemented;
use crate::runtime::shared_weights::SharedWeights;
use crate::runtime::{Environment, Options, Plans, PrepareMode, Prepared, import};
use crate::{Delegate, Error, ErrorKind, Limits};

/// The value of an input for [`Trace::new`].
#[derive(Clone, Debug, PartialEq)]
pub struct TraceInput {
    /// Extents, outermost first.
    pub shape: Shape,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
}

/// A run on the CPU that keeps every tensor.
pub struct Trace {
    pub(super) model: Model,
    pub(super) subgraph: usize,
    pub(super) graph: Graph,
    options: Options,
    executor: Executor,
    /// For each tensor whose value was kept, its index among the executor's outputs.
    kept: HashMap<TensorId, usize>,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("subgraph", &self.subgraph).finish_non_exhaustive()
    }
}

/// Comparison of one operator between delegates and the CPU. The delegates run the operator alone, on the
/// inputs that it had on the CPU.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OperatorComparison {
    /// Index of the operator in its subgraph of the file.
    pub operator: usize,
    /// TensorFlow Lite's name of the operator.
    pub name: String,
    /// The difference of each output from the CPU's, or the reason why no delegate runs the operator.
    pub outcome: Result<Vec<Difference>, String>,
}

/// The first tensor, in execution order, that differs between delegates and the CPU by more than the
/// tolerance.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FirstDivergence {
    /// Index in the [`Trace`] of the node that makes the tensor.
    pub node: usize,
    /// Index of the node's operator in its subgraph of the file.
    pub operator: usize,
    /// TensorFlow Lite's name of the operator.
    pub name: String,
    /// Name of the tensor in the file.
    pub tensor: String,
    /// How much the tensor differs from the CPU's; `None` if the shapes differ or the delegate made no value.
    pub difference: Option<Difference>,
}

impl Trace {
    /// Runs a subgraph on the CPU with `inputs`, one value for each of its inputs. `limits` apply to this run
    /// and to all comparisons with it. The arena is larger than an interpreter's, because every tensor is
    /// kept.
    ///
    /// # Errors
    ///
    /// If the subgraph does not exist, the inputs do not fit it, it exceeds the limits, an operator is not implemented,
    /// or the run fails.
    pub fn new(
        model: &Model,
        subgraph: usize,
        inputs: &[TraceInput],
        threads: usize,
        limits: &Limits,
    ) -> Result<Self, Error> {
        let source = model.subgraphs().get(subgraph);
        let source = source.ok_or_else(|| Error::usage(format!("there is no subgraph {subgraph}")))?;
        if source.inputs.len() != inputs.len() {
            let text = format!("{} values for the {} inputs of the model", inputs.len(), source.inputs.len());
            return Err(Error::usage(text));
        }
        let shapes: Vec<_> = inputs.iter().map(|input| Some(input.shape.clone())).collect();
        limits.check_operators(subgraph, source.operators.len())?;
        let mut graph = import(model, subgraph, &shapes, PrepareMode::First, &OpResolver::new())?;
        limits.check_graph(&graph, subgraph)?;
        attache_passes::run(&mut graph);
        limits.check_graph(&graph, subgraph)?;
        let made = graph.nodes.iter().flat_map(|node| &node.outputs);
        let mut outputs: Vec<_> = graph.inputs.iter().chain(made).copied().collect();
        outputs.retain(|id| is_comparable(graph.fact(*id)));
        outputs.sort_unstable();
        outputs.dedup();
        let kept = outputs.iter().enumerate().map(|(index, id)| (*id, index)).collect();
        let values: Vec<_> = inputs.iter().map(|input| &input.bytes[..]).collect();
        let options = Options::new(threads, limits);
        let executor = run(Graph { outputs, ..graph.clone() }, (model, subgraph), &options, &values)?;
        Ok(Self { model: model.clone(), subgraph, graph, options, executor, kept })
    }

    /// Returns the number of nodes of the graph after the passes, which may have removed operators of the
    /// file.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.graph.nodes.len()
    }

    /// Runs one node alone on delegates and compares its outputs with the CPU's.
    ///
    /// # Errors
    ///
    /// If the node does not exist, or if a delegate panics or fails to run the node. If no delegate supports
    /// the node or can prepare it, that is not an error but the outcome of the comparison.
    pub fn compare_operator(&self, node: usize, delegates: &[Arc<dyn Delegate>]) -> Result<OperatorComparison, Error> {
        let node = self.node(node)?;
        let graph = self.graph_of(node);
        let joined = |reasons: &[(String, String)]| {
            let reasons: Vec<_> = reasons.iter().map(|(_, reason)| reason.as_str()).collect();
            if reasons.is_empty() { "there is no delegate".to_owned() } else { reasons.join("; ") }
        };
        let assignment =
            assign(&graph, (&self.model, self.subgraph), delegates, &OpResolver::new(), self.options.threads);
        check_panics(&assignment)?;
        let is_taken = assignment.steps.iter().any(|step| matches!(step, PlacedStep::Partition(_)));
        let outcome = if is_taken {
            let outputs = graph.outputs.clone();
            let inputs = self.values(&graph.inputs)?;
            let executor = run(graph, (&self.model, self.subgraph), &self.options_with(delegates), &inputs)?;
            let difference =
                |(index, id)| Ok(self.difference(id, executor.output(index)?).unwrap_or_else(incomparable));
            Ok(outputs.into_iter().enumerate().map(difference).collect::<Result<_, Error>>()?)
        } else {
            Err(joined(&assignment.reasons[0]))
        };
        Ok(OperatorComparison { operator: origin(node), name: node.label(), outcome })
    }

    /// Finds the first operator, in execution order, with an output that differs from the CPU's by more than
    /// the tolerance when the graph runs on delegates; see [`Difference::is_within`]. `None` if all outputs
    /// are within the tolerance.
    ///
    /// The search is a binary search over the number of nodes. Each step runs the first nodes as a separate
    /// graph, which is fused as in the whole graph except at the cut, and compares all tensors that cross the
    /// cut. A difference may shrink before it reaches a cut, and the binary search then finds a later node.
    /// Therefore a final run compares all tensors up to the node found. In that run every tensor is an
    /// output, so fewer nodes are fused.
    ///
    /// # Errors
    ///
    /// If a delegate panics, fails to prepare or fails to run, or if an operator that no delegate takes is not
    /// implemented.
    pub fn first_divergence(
        &self,
        delegates: &[Arc<dyn Delegate>],
        tolerance: &Tolerance,
    ) -> Result<Option<FirstDivergence>, Error> {
        let (mut agrees, mut differs) = (0, self.nodes());
        let mut found = self.divergence(differs, self.frontier(differs), delegates, tolerance)?;
        while found.is_some() && differs - agrees > 1 {
            let middle = agrees.midpoint(differs);
            match self.divergence(middle, self.frontier(middle), delegates, tolerance)? {
                None => agrees = middle,
                earlier => (differs, found) = (middle, earlier),
            }
        }
        let earliest = self.divergence(differs, self.made_by(differs), delegates, tolerance)?;
        Ok(earliest.or(found))
    }

    /// Returns the tensors whose values were kept.
    pub(super) fn tensors(&self) -> impl Iterator<Item = TensorId> {
        self.kept.keys().copied()
    }

    /// Runs a node on the CPU with the bytes in `values` as its inputs. Returns the bytes of each output.
    pub(super) fn run_node(
        &self,
        node: usize,
        values: &HashMap<TensorId, Vec<u8>>,
    ) -> Result<Vec<(TensorId, Vec<u8>)>, Error> {
        let graph = self.graph_of(self.node(node)?);
        let outputs = graph.outputs.clone();
        let given = |id: &TensorId| values.get(id).map(Vec::as_slice).ok_or_else(|| self.not_kept(*id));
        let inputs: Vec<&[u8]> = graph.inputs.iter().map(given).collect::<Result<_, Error>>()?;
        let executor = run(graph, (&self.model, self.subgraph), &self.options, &inputs)?;
        let made = |(index, id)| Ok(executor.output(index)?.map(|(_, bytes)| (id, bytes.to_vec())));
        outputs.into_iter().enumerate().filter_map(|output| made(output).transpose()).collect()
    }

    /// Returns the options of the run on the CPU, but with `delegates`.
    fn options_with(&self, delegates: &[Arc<dyn Delegate>]) -> Options {
        Options { delegates: delegates.into(), ..self.options.clone() }
    }

    /// Runs the first `nodes` nodes on delegates and returns the first of `tensors`, in execution order, that
    /// differs from the CPU's by more than the tolerance.
    fn divergence(
        &self,
        nodes: usize,
        tensors: Vec<TensorId>,
        delegates: &[Arc<dyn Delegate>],
        tolerance: &Tolerance,
    ) -> Result<Option<FirstDivergence>, Error> {
        if tensors.is_empty() {
            return Ok(None);
        }
        let mut graph = Graph { outputs: tensors.clone(), ..self.graph.clone() };
        graph.nodes.truncate(nodes);
        let inputs = self.values(&graph.inputs)?;
        let executor = run(graph, (&self.model, self.subgraph), &self.options_with(delegates), &inputs)?;
        let producers = self.graph.producers();
        let difference = |(index, id): (usize, &TensorId)| Ok(self.difference(*id, executor.output(index)?));
        let differences: Vec<_> = tensors.iter().enumerate().map(difference).collect::<Result<_, Error>>()?;
        let divergence = |(id, difference): (TensorId, Option<Difference>)| {
            if difference.as_ref().is_some_and(|difference| difference.is_within(tolerance)) {
                return None;
            }
            let (node, tensor) = (producers[id.index()]?.index(), self.graph.tensor(id).name.clone());
            let made_by = &self.graph.nodes[node];
            let (operator, name) = (origin(made_by), made_by.label());
            Some(FirstDivergence { node, operator, name, tensor, difference })
        };
        Ok(tensors.into_iter().zip(differences).filter_map(divergence).min_by_key(|divergence| divergence.node))
    }

    /// Returns the kept tensors that the first `nodes` nodes make, in execution order.
    fn made_by(&self, nodes: usize) -> Vec<TensorId> {
        let made = self.graph.nodes[..nodes].iter().flat_map(|node| &node.outputs).copied();
        made.filter(|id| self.kept.contains_key(id)).collect()
    }

    /// Returns those tensors of [`Trace::made_by`] that later nodes read, that are outputs of the graph or
    /// that the last of the `nodes` nodes makes.
    fn frontier(&self, nodes: usize) -> Vec<TensorId> {
        let mut crosses = vec![false; self.graph.tensors.len()];
        let later = self.graph.nodes[nodes..].iter().flat_map(|node| node.inputs.iter().flatten());
        let last = self.graph.nodes[..nodes].last().into_iter().flat_map(|node| &node.outputs);
        later.chain(&self.graph.outputs).chain(last).for_each(|id| crosses[id.index()] = true);
        let mut made = self.made_by(nodes);
        made.retain(|id| crosses[id.index()]);
        made
    }

    /// Returns a graph of one node, whose inputs and outputs have the shapes of the run.
    fn graph_of(&self, node: &Node) -> Graph {
        let (inputs, mut outputs) = (self.fed(node), node.outputs.clone());
        outputs.retain(|id| self.kept.contains_key(id));
        let mut graph = Graph { nodes: vec![node.clone()], inputs, outputs, ..self.graph.clone() };
        for id in graph.inputs.iter().chain(&graph.outputs) {
            if let (Some((shape, _)), fact) = (self.value(*id), &mut graph.tensors[id.index()].fact) {
                fact.shape.get_or_insert_with(|| shape.clone());
            }
        }
        graph
    }

    /// Returns the tensors that a node reads, without constants and variables, each once, ascending.
    pub(super) fn fed(&self, node: &Node) -> Vec<TensorId> {
        let mut fed: Vec<_> = node.inputs.iter().flatten().copied().collect();
        fed.retain(|id| self.graph.fact(*id).constant.is_none() && !self.graph.fact(*id).is_variable);
        fed.sort_unstable();
        fed.dedup();
        fed
    }

    pub(super) fn node(&self, node: usize) -> Result<&Node, Error> {
        let count = self.nodes();
        self.graph.nodes.get(node).ok_or_else(|| Error::usage(format!("there is no node {node} of {count}")))
    }

    /// Returns shape and bytes of a tensor in the run on the CPU; `None` if its value was not kept.
    pub(super) fn value(&self, id: TensorId) -> Option<(&Shape, &[u8])> {
        self.executor.output(*self.kept.get(&id)?).ok()?
    }

    /// Returns the bytes of these tensors in the run on the CPU. Fails if one was not kept, because its elements
    /// are not numbers.
    fn values(&self, ids: &[TensorId]) -> Result<Vec<&[u8]>, Error> {
        let bytes = |id: &TensorId| self.value(*id).map(|(_, bytes)| bytes).ok_or_else(|| self.not_kept(*id));
        ids.iter().map(bytes).collect()
    }

    fn not_kept(&self, id: TensorId) -> Error {
        let (name, data_type) = (&self.graph.tensor(id).name, self.graph.fact(id).data_type);
        let text = format!("tensor {} (\"{name}\") of type {data_type} cannot be compared", id.index());
        Error::new(ErrorKind::Unsupported, text)
    }

    /// Compares `test`, a tensor's value on delegates, with the CPU's; `None` if the shapes differ or a value
    /// is missing.
    fn difference(&self, id: TensorId, test: Option<(&Shape, &[u8])>) -> Option<Difference> {
        let ((shape, reference), (test_shape, test)) = (self.value(id)?, test?);
        (shape == test_shape).then(|| Difference::of(self.graph.fact(id).data_type, reference, test))?
    }
}

/// Whether the values of a tensor are numbers and are not constant, so that they can be compared.
fn is_comparable(fact: &Fact) -> bool {
    fact.constant.is_none() && super::numbers(fact.data_type, &[]).is_some()
}

/// Returns the difference of tensors that cannot be compared. It is within no tolerance.
fn incomparable() -> Difference {
    Difference { scale: 1.0, contradictions: 1, ..Difference::default() }
}

/// Returns the index, in the file's subgraph, of the first operator that a node was made from.
pub(super) fn origin(node: &Node) -> usize {
    node.origins.first().copied().unwrap_or_default()
}

/// Returns an error if a delegate panicked: the nodes that it does not run are then not really unsupported.
fn check_panics(assignment: &Assignment) -> Result<(), Error> {
    match assignment.panics.first() {
        Some(panic) => Err(Error::new(ErrorKind::Device, panic.clone())),
        None => Ok(()),
    }
}

/// Runs a graph once on the delegates in `options` and returns the executor with the outputs. A delegate that
/// fails is an error here, so that the CPU is not compared with itself.
fn run(
    graph: Graph,
    (model, subgraph): (&Model, usize),
    options: &Options,
    inputs: &[&[u8]],
) -> Result<Executor, Error> {
    let mut assignment = assign(&graph, (model, subgraph), &options.delegates, &options.resolver, options.threads);
    check_panics(&assignment)?;
    if let Some(failure) = assignment.failures.drain(..).flatten().next() {
        return Err(Error::new(ErrorKind::Device, failure.to_string()));
    }
    check_implemented(&graph, subgraph, &assignment)?;
    let weights = &mut SharedWeights::default();
    let prepared = Prepared::new(graph, (subgraph, Caller::Program), assignment.steps, &options.limits, weights)?;
    let mut executor = Executor::new(Arc::new(prepared), options)?;
    for (index, bytes) in inputs.iter().enumerate() {
        // An input without memory is not read by any node.
        let Some(into) = executor.input_mut(index)? else { continue };
        if into.len() != bytes.len() {
            return Err(Error::usage(format!("input {index} has {} bytes, not {}", into.len(), bytes.len())));
        }
        into.copy_from_slice(bytes);
    }
    let mut environment = Environment::new(Plans::new(model, options));
    environment.set_running(subgraph, None);
    executor.run(1, &mut environment)?;
    Ok(executor)
}
