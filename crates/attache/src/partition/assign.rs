//! Assigns the nodes of a graph to delegates. Delegates are asked in order, each about the nodes that earlier
//! ones left.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use attache_base::order_by;
use attache_graph::{Graph, NodeId, TensorId, Unsupported};
use attache_model::Model;
use attache_ops::OpResolver;
use attache_passes::{Effects, effects};

use crate::cache::{Answer, AnswerPlace, Offer, Respondent, StoredAnswer};
use crate::delegate::guard::{Kernel, Prepared, guarded};
use crate::error::counted;
use crate::partition::{Readers, Unit, Waits, cluster};
use crate::{
    Claim, Clustering, Delegate, DelegateError, DelegateErrorKind, Error, GraphClaims, GraphContext, NodeContext,
    Partition, Partitioning, PreparedPartition,
};

/// One step of an execution plan.
pub(crate) enum PlacedStep {
    /// A node that runs on the CPU.
    Node(NodeId),
    /// Nodes that run on the CPU together, some rows of their outputs after the other.
    #[cfg_attr(attache_small, expect(dead_code))]
    Banded(BandedNodes),
    /// A partition that runs on a delegate.
    Partition(Box<PlacedPartition>),
}

/// Nodes that run on the CPU together.
pub(crate) struct BandedNodes {
    /// The smallest libraries have no such nodes, and thereby no code for them.
    #[cfg(attache_small)]
    pub(crate) none: std::convert::Infallible,
    /// The nodes in execution order.
    pub(crate) nodes: Vec<NodeId>,
    /// What they make and others read, in execution order.
    pub(crate) outputs: Vec<TensorId>,
}

/// A partition that a delegate has prepared.
pub(crate) struct PlacedPartition {
    /// The delegate's name.
    pub(crate) delegate: String,
    /// The place of the delegate in the order in which they are asked.
    pub(crate) asked: usize,
    /// The nodes in execution order.
    pub(crate) nodes: Vec<NodeId>,
    /// Non-constant tensors that the partition reads from outside, ascending.
    pub(crate) inputs: Vec<TensorId>,
    /// Tensors that the partition makes and that are read outside of it, and variables that it may write, ascending.
    pub(crate) outputs: Vec<TensorId>,
    /// What the delegate prepared, from which the kernel of each interpreter is made.
    pub(crate) prepared: Prepared,
}

/// A partition of one interpreter, with the kernel that runs it.
pub(crate) struct Delegated {
    /// The delegate's name.
    pub(crate) delegate: String,
    /// Non-constant tensors that the partition reads from outside, ascending.
    pub(crate) inputs: Vec<TensorId>,
    /// Tensors that the partition makes and that are read outside of it, and variables that it may write, ascending.
    pub(crate) outputs: Vec<TensorId>,
    /// The kernel that runs the partition.
    pub(crate) kernel: Box<Kernel>,
}

impl PlacedPartition {
    /// Makes the partition of an interpreter.
    pub(crate) fn delegated(&self) -> Result<Delegated, Error> {
        let kernel = self.prepared.kernel().map_err(|error| Error::delegate(&self.delegate, &error))?;
        Ok(Delegated {
            delegate: self.delegate.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            kernel: Box::new(kernel),
        })
    }
}

impl Delegated {
    /// Returns the error of the interpreter for a failure of the kernel.
    pub(crate) fn failed(&self, error: &DelegateError) -> Error {
        Error::delegate(&self.delegate, error)
    }
}

impl PlacedStep {
    /// Returns the node of a step on the CPU; `None` for a partition.
    fn node(&self) -> Option<NodeId> {
        match self {
            PlacedStep::Node(id) => Some(*id),
            PlacedStep::Banded(_) | PlacedStep::Partition(_) => None,
        }
    }

    /// Returns the nodes of a step on the CPU; none for a partition.
    pub(crate) fn nodes_on_cpu(&self) -> &[NodeId] {
        match self {
            PlacedStep::Node(id) => std::slice::from_ref(id),
            PlacedStep::Banded(banded) => &banded.nodes,
            PlacedStep::Partition(_) => &[],
        }
    }
}

impl Unit for PlacedStep {
    fn inputs(&self, graph: &Graph) -> Vec<TensorId> {
        match self {
            PlacedStep::Node(id) => graph.node(*id).inputs.iter().flatten().copied().collect(),
            PlacedStep::Banded(BandedNodes { nodes, .. }) => {
                let made: HashSet<TensorId> = nodes.iter().flat_map(|id| graph.node(*id).outputs.clone()).collect();
                let read = nodes.iter().flat_map(|id| graph.node(*id).inputs.iter().flatten().copied());
                read.filter(|id| !made.contains(id)).collect()
            }
            PlacedStep::Partition(partition) => partition.inputs.clone(),
        }
    }

    fn outputs(&self, graph: &Graph) -> Vec<TensorId> {
        match self {
            PlacedStep::Node(id) => graph.node(*id).outputs.clone(),
            PlacedStep::Banded(banded) => banded.outputs.clone(),
            // Variables keep their order by side effects: a partition that reads one does not wait for itself.
            PlacedStep::Partition(partition) => {
                partition.outputs.iter().copied().filter(|id| !graph.fact(*id).is_variable).collect()
            }
        }
    }

    fn effects(&self, graph: &Graph, makers: &[Option<NodeId>]) -> Effects {
        let mut variables = Vec::new();
        let nodes = match self {
            PlacedStep::Partition(partition) => &partition.nodes[..],
            _ => self.nodes_on_cpu(),
        };
        for id in nodes {
            match effects(graph, makers, graph.node(*id)) {
                Effects::Anything => return Effects::Anything,
                Effects::Variables(touched) => variables.extend(touched),
            }
        }
        Effects::Variables(variables)
    }
}

/// Whether each unit, given by its nodes, is claimed as a whole.
fn wanted(units: &[Vec<NodeId>], claimed: &[NodeId]) -> Vec<bool> {
    let claimed: HashSet<NodeId> = claimed.iter().copied().collect();
    units.iter().map(|nodes| !nodes.is_empty() && nodes.iter().all(|id| claimed.contains(id))).collect()
}

/// The assignment of nodes to delegates, with the reasons why nodes are not delegated.
pub(crate) struct Assignment {
    /// All steps in execution order.
    pub(crate) steps: Vec<PlacedStep>,
    /// For each node, by index: the name of each delegate that was asked and does not run the node, with the
    /// reason.
    pub(crate) reasons: Vec<Vec<(String, String)>>,
    /// For each delegate, in the order asked: the nodes that it does not support, as `OPERATOR: reason`.
    pub(crate) unsupported: Vec<BTreeSet<String>>,
    /// For each delegate, in the order asked: the error because of which it runs nothing; `None` if it did
    /// not fail.
    pub(crate) failures: Vec<Option<DelegateError>>,
    /// The delegates' names, in the order asked.
    pub(crate) names: Vec<String>,
    /// Messages of delegates that panicked.
    pub(crate) panics: Vec<String>,
}

/// Assigns the nodes of a graph to `delegates`, asking them in order. `source` is the model, and the index of the
/// subgraph that the graph was imported from; `resolver` has the operators that the program registered; `threads` is the
/// number of threads that run operators on the CPU. Nodes that no
/// delegate takes stay on the CPU.
pub(crate) fn assign(
    graph: &Graph,
    source: (&Model, usize),
    delegates: &[Arc<dyn Delegate>],
    resolver: &OpResolver,
    threads: usize,
) -> Assignment {
    let steps = (0..graph.nodes.len()).map(|index| PlacedStep::Node(NodeId(index as u32))).collect();
    let reasons = vec![Vec::new(); graph.nodes.len()];
    let (unsupported, failures, names, panics) = Default::default();
    let mut assignment = Assignment { steps, reasons, unsupported, failures, names, panics };
    delegates.iter().for_each(|delegate| assignment.take(graph, source, (resolver, threads), &**delegate));
    assignment
}

/// Maximum number of rounds in which several partitions of a delegate may be kept and the others dropped.
/// After that, only the largest partition is kept, which ends the search.
const MOST_ROUNDS: usize = 32;

/// For each node, by index: the claim of the delegate that is being asked; `None` if it did not claim the
/// node or the claim was dropped.
type Claims = Vec<Option<Claim>>;

/// The delegate that is being asked, with its name and its partitioning options.
struct Asked<'a> {
    delegate: &'a dyn Delegate,
    name: &'a str,
    partitioning: Partitioning,
    /// The model, and the index of the subgraph.
    source: (&'a Model, usize),
    /// The operators that the program registered.
    resolver: &'a OpResolver,
    /// The number of threads that run operators on the CPU.
    threads: usize,
}

impl Assignment {
    /// Offers a delegate the nodes that are still on the CPU and replaces those that it takes by partitions.
    /// If the delegate fails, it gets none.
    fn take(
        &mut self,
        graph: &Graph,
        source: (&Model, usize),
        (resolver, threads): (&OpResolver, usize),
        delegate: &dyn Delegate,
    ) {
        self.unsupported.push(BTreeSet::new());
        let named = guarded("a", "name", || delegate.name().to_owned());
        let name = named.as_ref().map_or("nameless", String::as_str).to_owned();
        let presented = named.and_then(|_| guarded(&name, "partitioning", || delegate.partitioning()));
        let taken = match presented {
            Ok(partitioning) => {
                self.offer(graph, &Asked { delegate, name: &name, partitioning, source, resolver, threads })
            }
            Err(failure) => {
                let left: Vec<_> = self.steps.iter().filter_map(PlacedStep::node).collect();
                self.note_failure(&left, &name, &failure);
                Err(failure)
            }
        };
        if let Err(failure) = &taken {
            tracing::warn!("{name} delegate: {failure}; its operations will run elsewhere");
            if failure.kind == DelegateErrorKind::Panicked {
                self.panics.push(format!("{name} delegate: {failure}"));
            }
        }
        self.failures.push(taken.err());
        self.names.push(name);
    }

    fn offer(&mut self, graph: &Graph, asked: &Asked<'_>) -> Result<(), DelegateError> {
        let left: Vec<NodeId> = self.steps.iter().filter_map(PlacedStep::node).collect();
        let (model, subgraph) = asked.source;
        let offer = Offer { model, subgraph, graph, resolver: asked.resolver, nodes: &left };
        let cache = guarded(asked.name, "cache", || asked.delegate.cache()).unwrap_or_default();
        let place = cache.as_ref().map(|cache| {
            let (name, model_token, description) = (asked.name, cache.model_token, cache.description.as_str());
            cache.cache.place(Respondent { name, key: &cache.key, description, model_token }, &offer)
        });
        if let Some(stored) = place.as_ref().and_then(|place| place.load()) {
            match self.restore(graph, asked, stored) {
                Ok(()) => return Ok(()),
                Err(error) => tracing::warn!("a stored plan is not used, and made again: {error}"),
            }
        }
        let asked_about = self.ask(graph, asked);
        let mut claims = asked_about.inspect_err(|error| self.note_failure(&left, asked.name, error))?;
        let partitions = self.choose(graph, asked, &mut claims);
        let wanted = self.wanted(|id| claims[id.index()].is_some());
        let prepared = self.prepare(graph, asked, &wanted, partitions.clone(), |_, mut partition| {
            let claim = |(id, empty)| (id, claims[NodeId::index(id)].take().unwrap_or(empty));
            partition.nodes = partition.nodes.into_iter().map(claim).collect();
            asked.delegate.prepare(partition)
        });
        prepared.inspect_err(|error| self.note_failure(&partitions.concat(), asked.name, error))?;
        if let Some(place) = &place {
            self.store(&**place, asked);
        }
        Ok(())
    }

    /// Places the partitions of a stored answer. If one cannot be restored, or if they are not the partitions that the
    /// answer leads to, nothing changes.
    fn restore(&mut self, graph: &Graph, asked: &Asked<'_>, stored: StoredAnswer) -> Result<(), DelegateError> {
        let StoredAnswer { answer, parts } = stored;
        let taken: BTreeSet<u32> = answer.partitions.iter().flat_map(|(nodes, _)| nodes).copied().collect();
        let wanted = self.wanted(|id| taken.contains(&id.0));
        let partitions = self.partitions(graph, &wanted);
        let stored = answer.partitions.iter().map(|(nodes, _)| nodes.clone());
        let known = |(id, _): &(u32, String)| (*id as usize) < graph.nodes.len();
        let found = partitions.iter().map(|nodes| nodes.iter().map(|id| id.0).collect::<Vec<u32>>());
        if !found.eq(stored) || !answer.reasons.iter().all(known) {
            return Err(DelegateError::new("its partitions are not those of the graph"));
        }
        self.prepare(graph, asked, &wanted, partitions, |index, partition| {
            asked.delegate.restore(partition, &parts[index])
        })?;
        for (id, reason) in answer.reasons {
            self.reasons[id as usize].push((asked.name.to_owned(), reason));
        }
        if let Some(last) = self.unsupported.last_mut() {
            *last = answer.unsupported;
        }
        Ok(())
    }

    /// Stores the answer of the delegate that was asked last, if it gives the parts of all of its partitions.
    fn store(&self, place: &dyn AnswerPlace, asked: &Asked<'_>) {
        let mut partitions = Vec::new();
        let mut parts = Vec::new();
        for step in &self.steps {
            let PlacedStep::Partition(partition) = step else { continue };
            if partition.asked != self.names.len() {
                continue;
            }
            let Some(taken) = partition.prepared.take_parts() else { return };
            partitions.push((partition.nodes.iter().map(|id| id.0).collect(), taken.len()));
            parts.push(taken);
        }
        let reasons = self.reasons.iter().enumerate().flat_map(|(index, reasons)| {
            let own = reasons.iter().filter(|(name, _)| name == asked.name);
            own.map(move |(_, reason)| (index as u32, reason.clone()))
        });
        let (reasons, unsupported) = (reasons.collect(), self.unsupported.last().cloned().unwrap_or_default());
        place.store(&Answer { partitions, reasons, unsupported }, parts);
    }

    /// Records for each of `nodes` that the delegate called `name` failed.
    fn note_failure(&mut self, nodes: &[NodeId], name: &str, failure: &DelegateError) {
        for id in nodes {
            self.reasons[id.index()].push((name.to_owned(), format!("the delegate failed: {failure}")));
        }
    }

    /// Asks a delegate to claim nodes that are still on the CPU. Returns the claims and records the reasons for the
    /// nodes that it does not claim. Fails if the delegate decides on the graph as a whole and fails in that.
    fn ask(&mut self, graph: &Graph, asked: &Asked<'_>) -> Result<Claims, DelegateError> {
        let Asked { delegate, name, partitioning, source: (model, subgraph), threads, .. } = asked;
        let (first, last) = (partitioning.first_delegate_node_index, partitioning.last_delegate_node_index);
        let (mut refused, mut nodes) = (Vec::new(), Vec::new());
        for id in self.steps.iter().filter_map(PlacedStep::node) {
            if graph.node(id).origins.iter().any(|origin| !(first..=last).contains(origin)) {
                let reason = format!("it is not among the operators {first} to {last} that the delegate may take");
                self.reasons[id.index()].push(((*name).to_owned(), reason));
            } else if let Err(Unsupported(reason)) = graph.check_no_strings(graph.node(id)) {
                refused.push((id, reason));
            } else if has_known_shapes(graph, id) {
                nodes.push(id);
            } else {
                refused.push((id, "its shapes are known only at run time".to_owned()));
            }
        }
        let clustering = self.clustering(graph);
        let context = GraphContext { model, subgraph: *subgraph, graph, nodes, threads: *threads, clustering };
        let (answers, panics) = answers(*delegate, name, &context)?;
        let mut claims: Claims = (0..graph.nodes.len()).map(|_| None).collect();
        for (id, answer) in context.nodes.iter().zip(answers) {
            match answer {
                Ok(claim) => claims[id.index()] = Some(claim),
                Err(Unsupported(reason)) => refused.push((*id, reason)),
            }
        }
        let text = |(id, reason): &(NodeId, String)| format!("{}: {reason}", graph.node(*id).op.name());
        if let Some(last) = self.unsupported.last_mut() {
            *last = refused.iter().map(text).collect();
        }
        refused.into_iter().for_each(|(id, reason)| self.reasons[id.index()].push(((*name).to_owned(), reason)));
        self.panics.extend(panics);
        Ok(claims)
    }

    /// Returns what tells a delegate which partitions it gets of the nodes that are still on the CPU.
    fn clustering(&self, graph: &Graph) -> Clustering {
        let waits = Waits::new(graph, &self.steps);
        let units: Vec<Option<NodeId>> = self.steps.iter().map(PlacedStep::node).collect();
        let units: Vec<Vec<NodeId>> = units.into_iter().map(|unit| unit.into_iter().collect()).collect();
        Clustering::new(move |earlier, claimed| {
            let (mut waits, mut units) = (waits.clone(), units.clone());
            for claimed in earlier {
                let (joined, steps) = waits.joined(waits.cluster(&wanted(&units, claimed)));
                let nodes = |step: Vec<usize>| step.into_iter().flat_map(|unit| units[unit].clone()).collect();
                (waits, units) = (joined, steps.into_iter().map(nodes).collect());
            }
            let clusters = waits.cluster(&wanted(&units, claimed)).into_iter().filter(|cluster| cluster.wanted);
            clusters.map(|cluster| cluster.units.into_iter().flat_map(|unit| units[unit].clone()).collect()).collect()
        })
    }

    /// Returns the nodes of each partition that meets the delegate's partitioning options, in execution
    /// order. Drops all other claims and records the reasons.
    fn choose(&mut self, graph: &Graph, asked: &Asked<'_>, claims: &mut Claims) -> Vec<Vec<NodeId>> {
        let Partitioning { max_delegated_partitions, min_nodes_per_partition, .. } = asked.partitioning;
        let mut rounds = 0;
        loop {
            let partitions = self.partitions(graph, &self.wanted(|id| claims[id.index()].is_some()));
            let by_size = order_by(partitions.len(), |index| (usize::MAX - partitions[index].len(), 0));
            let by_size: Vec<&Vec<NodeId>> = by_size.into_iter().map(|index| &partitions[index]).collect();
            let large = by_size.partition_point(|nodes| nodes.len() >= min_nodes_per_partition);
            let kept = large.min(max_delegated_partitions.unwrap_or(usize::MAX));
            if kept == partitions.len() {
                return partitions;
            }
            // If one partition is kept, dropping the others cannot split it. If several are kept, it can.
            let kept = if rounds < MOST_ROUNDS { kept } else { kept.min(1) };
            rounds += 1;
            // Dropped nodes may merge with their neighbours, so the partitions are computed again.
            for (index, nodes) in by_size.iter().enumerate().skip(kept) {
                let reason = if index < large {
                    format!("its partition is not among the {kept} largest")
                } else {
                    let count = counted(nodes.len(), "node");
                    format!("its partition has {count}; at least {min_nodes_per_partition} are asked for")
                };
                for id in *nodes {
                    claims[id.index()] = None;
                    self.reasons[id.index()].push((asked.name.to_owned(), reason.clone()));
                }
            }
        }
    }

    /// Returns the nodes of each partition of the wanted steps, in execution order.
    fn partitions(&self, graph: &Graph, wanted: &[bool]) -> Vec<Vec<NodeId>> {
        let clusters = cluster(graph, &self.steps, wanted);
        let nodes = |units: Vec<usize>| {
            let nodes = units.into_iter().filter_map(|unit| self.steps[unit].node());
            nodes.collect()
        };
        clusters.into_iter().filter(|cluster| cluster.wanted).map(|cluster| nodes(cluster.units)).collect()
    }

    /// Returns for each step whether it is a node that is wanted.
    fn wanted(&self, is_wanted: impl Fn(NodeId) -> bool) -> Vec<bool> {
        let wanted = self.steps.iter().map(|step| step.node().is_some_and(&is_wanted));
        wanted.collect()
    }

    /// Prepares all partitions of a delegate with `prepare`, which gets the index of each, and replaces their nodes by
    /// them in the list of steps. The claims of their nodes are empty. If one partition cannot be prepared, the steps
    /// are unchanged.
    fn prepare(
        &mut self,
        graph: &Graph,
        Asked { name, source: (model, subgraph), .. }: &Asked<'_>,
        wanted: &[bool],
        partitions: Vec<Vec<NodeId>>,
        mut prepare: impl FnMut(usize, Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError>,
    ) -> Result<(), DelegateError> {
        let readers = Readers::new(graph);
        let mut prepared = Vec::with_capacity(partitions.len());
        for (index, nodes) in partitions.into_iter().enumerate() {
            let (inputs, outputs) = readers.border(graph, &nodes);
            let unclaimed = nodes.iter().map(|id| (*id, Claim::empty())).collect();
            let (model, subgraph) = (*model, *subgraph);
            let (ins, outs) = (inputs.clone(), outputs.clone());
            let partition = Partition { model, subgraph, graph, nodes: unclaimed, inputs: ins, outputs: outs };
            let made = Prepared::new(name, || prepare(index, partition))?;
            let (delegate, asked) = ((*name).to_owned(), self.names.len());
            prepared.push(Box::new(PlacedPartition { delegate, asked, nodes, inputs, outputs, prepared: made }));
        }
        let clusters = cluster(graph, &self.steps, wanted);
        let mut steps: Vec<_> = self.steps.drain(..).map(Some).collect();
        let mut prepared = prepared.into_iter();
        for cluster in clusters {
            if cluster.wanted {
                self.steps.extend(prepared.next().map(PlacedStep::Partition));
            } else {
                self.steps.extend(cluster.units.into_iter().filter_map(|unit| steps[unit].take()));
            }
        }
        Ok(())
    }
}

/// Asks a delegate about the nodes, together if it decides on them together, else about each alone. Also returns the
/// messages of the nodes at which it panicked.
fn answers(
    delegate: &dyn Delegate,
    name: &str,
    context: &GraphContext<'_>,
) -> Result<(GraphClaims, Vec<String>), DelegateError> {
    if let Some(claims) = guarded(name, "claim_graph", || delegate.claim_graph(context))?? {
        return match (claims.len(), context.nodes.len()) {
            (answered, asked) if answered == asked => Ok((claims, Vec::new())),
            (answered, asked) => Err(DelegateError::new(format!("it answers about {answered} of {asked} nodes"))),
        };
    }
    let mut panics = Vec::new();
    let answer = |node: NodeContext<'_>| {
        guarded(name, "claim", || delegate.claim(node)).unwrap_or_else(|panic| {
            panics.push(format!("{name} delegate, {}: {panic}", node.node().op.name()));
            Err(Unsupported::new(panic.to_string()))
        })
    };
    let claims = context.contexts().map(answer).collect();
    Ok((claims, panics))
}

fn has_known_shapes(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    node.inputs.iter().flatten().chain(&node.outputs).all(|id| graph.fact(*id).shape.is_some())
}
