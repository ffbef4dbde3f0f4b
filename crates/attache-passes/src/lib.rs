//! Named rules that turn a graph into a simpler one with the same results.
//!
//! A rule looks at a graph and returns a patch, together with what it declined and why; [`run`] applies all rules until
//! none finds anything, and tells what became of every operator that is gone. Rules look at attributes and at what is
//! known of tensors, never at names. Knows nothing of files or devices.

mod effects;
mod fold_constants;
mod fold_requantization;
mod log;
mod refresh;
mod remove_unused;
#[cfg(test)]
mod testing;
mod visits;

use attache_graph::{Graph, NodeId, Patch};

pub use effects::has_side_effects;
pub use log::{Decline, Log, Removal};

/// A named change.
#[derive(Debug)]
pub struct Rule {
    /// Its name, that of its file.
    pub name: &'static str,
    /// What becomes of the operators that it removes, as `constant`.
    pub fate: &'static str,
    /// What it would do to a graph. Doing nothing is an empty patch.
    pub find: fn(&Graph) -> Found,
}

/// What a rule would do.
#[derive(Debug, Default)]
pub struct Found {
    /// The change.
    pub patch: Patch,
    /// Nodes that the rule is for, but that it leaves as they are, and why.
    pub declined: Vec<(NodeId, String)>,
}

/// Every rule, in the order in which they are tried.
pub static RULES: &[Rule] = &[fold_constants::RULE, fold_requantization::RULE, remove_unused::RULE];

/// Applies all rules until none changes anything.
///
/// In debug builds panics where a rule leaves a graph whose order or indices are wrong.
pub fn run(graph: &mut Graph) -> Log {
    let mut log = Log::default();
    loop {
        log.declined.clear();
        let mut changed = false;
        for rule in RULES {
            let Found { patch, declined } = (rule.find)(graph);
            log.note_declined(rule, graph, declined);
            if !patch.is_empty() {
                changed = true;
                log.note_removed(rule, graph, &patch);
                patch.apply(graph);
                refresh::refresh(graph);
                debug_assert_eq!(graph.validate(), Ok(()), "after {}", rule.name);
            }
        }
        if !changed {
            return log;
        }
    }
}
