//! The log of what the rules did to a graph, which [`run`](crate::run) returns: removed nodes and declined
//! nodes.

use std::fmt;

use attache_graph::{Graph, Inlined, NodeId, Patch};

use crate::Rule;

/// A node that a rule removed or replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Name of the rule that removed the node.
    pub rule: &'static str,
    /// TensorFlow Lite's name of the node's operator, with those of the calls in whose place it is.
    pub operator: String,
    /// Indices, in the subgraph of the model file, of the operators that the node implemented.
    pub origins: Vec<usize>,
    /// Where the node is from, if it took the place of a call.
    pub inlined: Option<Inlined>,
    /// What became of the node, such as `constant`; see [`Rule::fate`].
    pub fate: &'static str,
    /// The subgraph whose nodes took the place of the node.
    pub replaced_by: Option<usize>,
}

/// A node to which a rule could apply but that it left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decline {
    /// Name of the rule.
    pub rule: &'static str,
    /// TensorFlow Lite's name of the node's operator, with those of the calls in whose place it is.
    pub operator: String,
    /// Indices, in the subgraph of the model file, of the operators that the node implements.
    pub origins: Vec<usize>,
    /// Why the rule left the node unchanged.
    pub reason: String,
}

/// What the rules did to a graph. Its text form has one line per removed or declined node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Removed nodes, in order of removal.
    pub removed: Vec<Removal>,
    /// Nodes that rules declined to change in the last round.
    pub declined: Vec<Decline>,
}

impl Log {
    pub(crate) fn note_removed(&mut self, rule: &Rule, graph: &Graph, patch: &Patch) {
        let mut note = |id: &NodeId, replaced_by| {
            let node = graph.node(*id);
            let (operator, origins, inlined) = (node.label(), node.origins.clone(), node.inlined.clone());
            self.removed.push(Removal { rule: rule.name, operator, origins, inlined, fate: rule.fate, replaced_by });
        };
        patch.remove.iter().for_each(|id| note(id, None));
        // The smallest libraries replace no calls.
        for (id, nodes) in patch.expand.iter().filter(|_| !cfg!(attache_small)) {
            note(id, nodes.first().and_then(|node| Some(node.inlined.as_ref()?.call.subgraph)));
        }
    }

    pub(crate) fn note_declined(&mut self, rule: &Rule, graph: &Graph, declined: Vec<(NodeId, String)>) {
        self.declined.extend(declined.into_iter().map(|(id, reason)| {
            let node = graph.node(id);
            let (operator, origins) = (node.label(), node.origins.clone());
            Decline { rule: rule.name, operator, origins, reason }
        }));
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Removal { rule, operator, origins, fate, .. } in &self.removed {
            writeln!(f, "{rule}: {operator} {origins:?}: {fate}")?;
        }
        for Decline { rule, operator, origins, reason } in &self.declined {
            writeln!(f, "{rule}: {operator} {origins:?}: declined: {reason}")?;
        }
        Ok(())
    }
}
