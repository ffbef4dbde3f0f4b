//! Named rules that simplify a graph without changing its results.
//!
//! A rule inspects a graph and returns a patch, together with the nodes it declined and why. [`run`] applies all rules
//! until none changes anything, and reports what became of every removed operator. Rules look at attributes and facts,
//! never at names. The crate is independent of files and devices.

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

/// A named graph rewrite.
#[derive(Debug)]
pub struct Rule {
    /// Its name, which is the name of its file.
    pub name: &'static str,
    /// What becomes of the operators that it removes, such as `constant`.
    pub fate: &'static str,
    /// Computes the change for a graph; an empty patch where there is none.
    pub find: fn(&Graph) -> Found,
}

/// What a rule would change.
#[derive(Debug, Default)]
pub struct Found {
    /// The change.
    pub patch: Patch,
    /// Nodes that the rule matches but leaves unchanged, and why.
    pub declined: Vec<(NodeId, String)>,
}

/// All rules, in the order in which they are tried.
pub static RULES: &[Rule] = &[fold_constants::RULE, fold_requantization::RULE, remove_unused::RULE];

/// Applies all rules until none changes anything.
///
/// # Panics
///
/// In debug builds, panics where a rule leaves a graph whose order or indices are wrong.
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
