//! The placement report: where each operator runs, and why.

use std::fmt;

use attache_graph::{Graph, NodeId};
use attache_model::Model;
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
        match &self.reason {
            Some(reason) => write!(f, " ({reason})"),
            None => Ok(()),
        }
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
    let operators = model.subgraphs()[subgraph].operators.iter().enumerate();
    let nodes = operators.map(|(index, operator)| NodePlacement {
        index,
        operator: operator.code.name(),
        version: operator.code.version,
        outcome: Outcome::Cpu,
        merged: None,
        reason: None,
    });
    let mut placement = Placement { nodes: nodes.collect(), ..Placement::default() };
    for removal in &passes.removed {
        for origin in &removal.origins {
            placement.nodes[*origin].outcome = Outcome::Folded { into: removal.fate.to_owned() };
        }
    }
    for step in &assignment.steps {
        match step {
            PlacedStep::Node(_) | PlacedStep::Banded(_) => {
                for id in step.nodes_on_cpu() {
                    placement.at(graph, *id, |node| {
                        node.reason = reason(&assignment.reasons[id.index()], assignment.names.len());
                    });
                }
            }
            PlacedStep::Partition(partition) => {
                let index = placement.partitions;
                placement.partitions += 1;
                for id in &partition.nodes {
                    let outcome = Outcome::On { delegate: partition.delegate.clone(), partition: index };
                    placement.at(graph, *id, |node| node.outcome = outcome.clone());
                }
                for (id, into) in &partition.prepared.report().merged {
                    placement.at(graph, *id, |node| node.merged = Some(into.clone()));
                }
            }
        }
    }
    placement.write_log(assignment);
    placement
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
    fn at(&mut self, graph: &Graph, id: NodeId, change: impl Fn(&mut NodePlacement)) {
        let Some(node) = graph.nodes.get(id.index()) else { return };
        node.origins.iter().for_each(|origin| change(&mut self.nodes[*origin]));
    }

    /// Sets `reason` for all operators that were not on the CPU in `before` and are now, and adds a line
    /// about it to the log.
    pub(crate) fn fall_back(&mut self, before: &Placement, reason: &str) {
        for (node, before) in self.nodes.iter_mut().zip(&before.nodes) {
            if node.outcome == Outcome::Cpu && before.outcome != Outcome::Cpu {
                node.reason = Some(reason.to_owned());
            }
        }
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
