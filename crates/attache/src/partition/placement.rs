//! The placement report: where each operator runs, and why.

use std::fmt;

use attache_graph::{Graph, Inlined, NodeId};
use attache_model::{Model, Operator};
use attache_passes::Log;

use crate::error::counted;
use crate::partition::assign::{Assignment, PlacedStep};

/// Where an operator of the model runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The operator runs in a partition on a delegate.
    On {
        /// The delegate's name.
        delegate: String,
        /// Index of the partition, counted over all delegates in execution order.
        partition: usize,
    },
    /// The operator runs on the CPU.
    Cpu,
    /// The graph passes removed the operator, so it does not run at all.
    Folded {
        /// What became of the operator, for example `constant`.
        into: String,
    },
}

/// The placement of one operator of a subgraph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodePlacement {
    /// Index of the operator in its subgraph of the file.
    pub index: usize,
    /// Index of that subgraph in the model.
    pub subgraph: usize,
    /// TensorFlow Lite's name of the operator.
    pub operator: String,
    /// Version of the operator, as the file states it.
    pub version: i32,
    /// Where the operator runs.
    pub outcome: Outcome,
    /// If the operator was fused with other nodes of its partition into one kernel: a text that names them,
    /// for example `one kernel with node 4`.
    pub merged: Option<String>,
    /// Why the operator runs on the CPU; `None` if it does not, or if there is no delegate.
    pub reason: Option<String>,
    /// The operators of the subgraph that the operator calls, if they take its place. The operator then counts as one on
    /// the CPU if one of them runs there, else as one of the first one's partition.
    pub inlined: Vec<NodePlacement>,
}

/// Sets `reason` for the operators, also for inlined ones, that were not on the CPU in `before` and are now.
fn mark_fallen(nodes: &mut [NodePlacement], before: &[NodePlacement], reason: &str) {
    for (node, before) in nodes.iter_mut().zip(before) {
        if node.outcome == Outcome::Cpu && before.outcome != Outcome::Cpu {
            node.reason = Some(reason.to_owned());
        }
        if !cfg!(attache_small) {
            mark_fallen(&mut node.inlined, &before.inlined, reason);
        }
    }
}

/// The placement report of a subgraph: where each operator runs, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// All operators of the subgraph, in the order of the file.
    pub nodes: Vec<NodePlacement>,
    /// Number of partitions that run on delegates.
    pub partitions: usize,
    /// Log lines that summarize the placement, worded as in TensorFlow Lite.
    pub log: Vec<String>,
}

impl Placement {
    /// Returns the number of operators that run on delegates. Operators that the graph passes removed count
    /// as well, unless no delegate runs anything.
    #[must_use]
    pub fn delegated(&self) -> usize {
        if self.partitions == 0 {
            return 0;
        }
        self.nodes.iter().filter(|node| node.outcome != Outcome::Cpu).count()
    }

    /// Returns the operators that run on the CPU.
    pub fn left_behind(&self) -> impl Iterator<Item = &NodePlacement> {
        self.nodes.iter().filter(|node| node.outcome == Outcome::Cpu)
    }
}

impl fmt::Display for NodePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} version {}: ", self.index, self.operator, self.version)?;
        match &self.outcome {
            Outcome::On { delegate, partition } => write!(f, "{delegate}, partition {partition}")?,
            Outcome::Cpu => write!(f, "CPU")?,
            Outcome::Folded { into } => write!(f, "{into}")?,
        }
        if let Some(into) = &self.merged {
            write!(f, ", {into}")?;
        }
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        for inside in self.inlined.iter().filter(|_| !cfg!(attache_small)) {
            // The lines of what is inside that are in turn inside have their own indentation.
            let lines = inside.to_string().replace('\n', "\n    ");
            write!(f, "\n    subgraph {}, {lines}", inside.subgraph)?;
        }
        Ok(())
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.nodes.iter().try_for_each(|node| writeln!(f, "{node}"))?;
        self.log.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Creates the placement report of a subgraph from the log of the graph passes and the assignment to
/// delegates.
pub(crate) fn placement(
    model: &Model,
    subgraph: usize,
    graph: &Graph,
    passes: &Log,
    assignment: &Assignment,
) -> Placement {
    let mut placement = Placement { nodes: on_cpu(model, subgraph), ..Placement::default() };
    // A call is replaced before what takes its place is removed.
    for removal in &passes.removed {
        placement.at(&removal.origins, removal.inlined.as_ref(), |node| {
            node.outcome = Outcome::Folded { into: removal.fate.to_owned() };
            if cfg!(attache_small) {
                return;
            }
            // The turns of a loop may run other branches of a call.
            let is_new = |subgraph: &usize| node.inlined.iter().all(|inside| inside.subgraph != *subgraph);
            let replaced_by = removal.replaced_by.filter(is_new);
            node.inlined.extend(replaced_by.into_iter().flat_map(|subgraph| on_cpu(model, subgraph)));
        });
    }
    for step in &assignment.steps {
        match step {
            PlacedStep::Node(_) | PlacedStep::Banded(_) => {}
            PlacedStep::Partition(partition) => {
                let index = placement.partitions;
                placement.partitions += 1;
                for id in &partition.nodes {
                    let outcome = Outcome::On { delegate: partition.delegate.clone(), partition: index };
                    placement.at_node(graph, *id, |node| node.outcome = outcome.clone());
                }
                for (id, into) in &partition.prepared.report().merged {
                    placement.at_node(graph, *id, |node| node.merged = Some(into.clone()));
                }
            }
        }
    }
    for id in assignment.steps.iter().flat_map(PlacedStep::nodes_on_cpu) {
        let is_inlined = !cfg!(attache_small) && graph.nodes.get(id.index()).is_some_and(|node| node.inlined.is_some());
        placement.at_node(graph, *id, |node| {
            node.reason = reason(&assignment.reasons[id.index()], assignment.names.len());
            // In other turns of a loop, a delegate may run the operator, or it may be constant.
            if is_inlined {
                node.outcome = Outcome::Cpu;
            }
        });
    }
    if !cfg!(attache_small) {
        placement.nodes.iter_mut().for_each(NodePlacement::summarize);
    }
    placement.write_log(assignment);
    placement
}

/// Returns the placement of all operators of a subgraph on the CPU.
fn on_cpu(model: &Model, subgraph: usize) -> Vec<NodePlacement> {
    let node = |(index, operator): (usize, &Operator)| NodePlacement {
        index,
        subgraph,
        operator: operator.code.name(),
        version: operator.code.version,
        outcome: Outcome::Cpu,
        merged: None,
        reason: None,
        inlined: Vec::new(),
    };
    model.subgraphs()[subgraph].operators.iter().enumerate().map(node).collect()
}

impl NodePlacement {
    /// Returns the placement of an operator of a subgraph that took the place of this one.
    fn inside(&mut self, (subgraph, operator): (usize, usize)) -> Option<&mut Self> {
        let is_it = |inside: &Self| (inside.subgraph, inside.index) == (subgraph, operator);
        // Those of the first such subgraph are at their indices.
        let place = match self.inlined.get(operator).is_some_and(is_it) {
            true => operator,
            false => self.inlined.iter().position(is_it)?,
        };
        self.inlined.get_mut(place)
    }

    /// Sets the outcome of an operator from the outcomes of those that took its place.
    fn summarize(&mut self) {
        self.inlined.iter_mut().for_each(Self::summarize);
        let outcome = |wanted: fn(&Outcome) -> bool| {
            let found = self.inlined.iter().find(|inside| wanted(&inside.outcome))?;
            Some((found.outcome.clone(), found.reason.as_ref().map(|reason| format!("{}: {reason}", found.operator))))
        };
        let on_cpu = outcome(|outcome| matches!(outcome, Outcome::Cpu));
        if let Some(found) = on_cpu.or_else(|| outcome(|outcome| matches!(outcome, Outcome::On { .. }))) {
            (self.outcome, self.reason) = found;
        }
    }
}

/// Joins the reasons of a node to one line; `None` if there are none. Each reason names its delegate unless
/// there is exactly one delegate.
fn reason(reasons: &[(String, String)], delegates: usize) -> Option<String> {
    let lines = reasons.iter().map(|(delegate, reason)| match delegates {
        1 => reason.clone(),
        _ => format!("{delegate}: {reason}"),
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("; "))
}

impl Placement {
    /// Applies `change` to the placements of all operators that a node was made from.
    fn at_node(&mut self, graph: &Graph, id: NodeId, change: impl Fn(&mut NodePlacement)) {
        let Some(node) = graph.nodes.get(id.index()) else { return };
        self.at(&node.origins, node.inlined.as_ref(), change);
    }

    /// Applies `change` to the placements of these operators, or of the one that took the place of a call among them.
    fn at(&mut self, origins: &[usize], inlined: Option<&Inlined>, change: impl Fn(&mut NodePlacement)) {
        let mut path = Vec::new();
        // The smallest libraries replace no calls.
        if !cfg!(attache_small) {
            let calls = std::iter::successors(inlined, |inlined| inlined.call.around.as_ref());
            path.extend(calls.map(|one| (one.call.subgraph, one.operator)));
        }
        for origin in origins {
            let mut node = self.nodes.get_mut(*origin);
            if !cfg!(attache_small) {
                node = path.iter().rev().fold(node, |node, place| node?.inside(*place));
            }
            node.map(&change);
        }
    }

    /// Sets `reason` for all operators that were not on the CPU in `before` and are now, and adds a line
    /// about it to the log.
    pub(crate) fn fall_back(&mut self, before: &Placement, reason: &str) {
        mark_fallen(&mut self.nodes, &before.nodes, reason);
        let all = match self.nodes.len() {
            1 => "the only operation runs".to_owned(),
            count => format!("all {count} operations run"),
        };
        self.log.push(format!("{reason}; the CPU takes over: {all} there."));
    }

    /// Writes the log lines in the words of TensorFlow Lite, one group per delegate.
    fn write_log(&mut self, assignment: &Assignment) {
        let total = self.nodes.len();
        let mut delegated = 0;
        self.log.extend(assignment.panics.iter().cloned());
        for ((name, unsupported), failure) in
            assignment.names.iter().zip(&assignment.unsupported).zip(&assignment.failures)
        {
            if !unsupported.is_empty() {
                self.log.push(format!("Following operations are not supported by {name} delegate:"));
                self.log.extend(unsupported.iter().cloned());
            }
            if let Some(failure) = failure {
                self.log.push(format!("{name} delegate: {failure}; its operations will run elsewhere."));
            }
            let on = |node: &&NodePlacement| matches!(&node.outcome, Outcome::On { delegate, .. } if delegate == name);
            let mut taken = self.nodes.iter().filter(on).count();
            if taken > 0 && delegated == 0 {
                taken += self.nodes.iter().filter(|node| matches!(node.outcome, Outcome::Folded { .. })).count();
            }
            delegated += taken;
            let left = total.saturating_sub(delegated);
            let (taken, rest) = match (taken, left) {
                (0, 1) => ("No operations".to_owned(), "the only operation".to_owned()),
                (0, _) => ("No operations".to_owned(), format!("all {left} operations")),
                _ => (counted(taken, "operation"), format!("the remaining {}", counted(left, "operation"))),
            };
            self.log.push(format!("{taken} will run on the {name}, and {rest} will run on the CPU."));
            let is_own =
                |step: &&PlacedStep| matches!(step, PlacedStep::Partition(partition) if partition.delegate == *name);
            let kernels = assignment.steps.iter().filter(is_own).count();
            if kernels > 0 {
                self.log.push(format!("Created TensorFlow Lite delegate for {name}."));
                self.log.push(format!("Created {}.", counted(kernels, &format!("{name} delegate kernel"))));
            }
        }
    }
}
