//! Log of the changes made by the rules.

use std::fmt;

use attache_graph::{Graph, NodeId, Patch};

use crate::Rule;

/// A removed node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The rule that removed it.
    pub rule: &'static str,
    /// The operator's name.
    pub operator: String,
    /// Indices of the file's operators that the node implemented.
    pub origins: Vec<usize>,
    /// What became of it, such as `constant`.
    pub fate: &'static str,
}

/// A node that a rule matches but left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline {
    /// The rule.
    pub rule: &'static str,
    /// The operator's name.
    pub operator: String,
    /// Indices of the file's operators that the node implements.
    pub origins: Vec<usize>,
    /// The reason.
    pub reason: String,
}

/// The changes made by the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Removed nodes, in order of removal.
    pub removed: Vec<Removal>,
    /// Nodes declined in the last round.
    pub declined: Vec<Decline>,
}

impl Log {
    pub(crate) fn note_removed(&mut self, rule: &Rule, graph: &Graph, patch: &Patch) {
        self.removed.extend(patch.remove.iter().map(|id| {
            let node = graph.node(*id);
            let (operator, origins) = (node.op.name().to_owned(), node.origins.clone());
            Removal { rule: rule.name, operator, origins, fate: rule.fate }
        }));
    }

    pub(crate) fn note_declined(&mut self, rule: &Rule, graph: &Graph, declined: Vec<(NodeId, String)>) {
        self.declined.extend(declined.into_iter().map(|(id, reason)| {
            let node = graph.node(id);
            let (operator, origins) = (node.op.name().to_owned(), node.origins.clone());
            Decline { rule: rule.name, operator, origins, reason }
        }));
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Removal { rule, operator, origins, fate } in &self.removed {
            writeln!(f, "{rule}: {operator} {origins:?}: {fate}")?;
        }
        for Decline { rule, operator, origins, reason } in &self.declined {
            writeln!(f, "{rule}: {operator} {origins:?}: declined: {reason}")?;
        }
        Ok(())
    }
}
