//! What the rules did.

use std::fmt;

use attache_graph::{Graph, NodeId, Patch};

use crate::Rule;

/// A node that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The rule that removed it.
    pub rule: &'static str,
    /// The operator's name.
    pub operator: String,
    /// Indices of the file's operators whose work it was.
    pub origins: Vec<usize>,
    /// What became of it, as `constant`.
    pub fate: &'static str,
}

/// A node that a rule is for, but that it left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline {
    /// The rule.
    pub rule: &'static str,
    /// The operator's name.
    pub operator: String,
    /// Indices of the file's operators whose work it is.
    pub origins: Vec<usize>,
    /// Why.
    pub reason: String,
}

/// What the rules did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Nodes that are gone, in the order in which they went.
    pub removed: Vec<Removal>,
    /// What was declined in the last round.
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
