//! Graph passes: named rewrite rules ([`RULES`]) that simplify a graph without changing its results, and
//! [`run`], which applies them.
//!
//! A rule inspects a graph and returns a patch, together with the nodes that it declined to change and why.
//! [`run`] applies all rules until none changes anything, and returns a log of the removed and the declined
//! nodes. Rules decide by attributes and facts, never by names of tensors or operators. The crate depends on
//! neither model files nor devices.

mod effects;
mod fold_constants;
mod fold_requantization;
mod inline_calls;
mod log;
mod refresh;
mod remove_unused;
#[cfg(test)]
mod testing;
mod unroll;
mod visits;

use attache_base::Bytes;
use attache_graph::{Fact, Graph, Node, NodeId, Patch};

pub use effects::{Effects, Variable, effects, has_side_effects};
pub use log::{Decline, Log, Removal};

/// A named graph rewrite.
#[derive(Debug)]
pub struct Rule {
    /// Name of the rule, which is also the name of its source file.
    pub name: &'static str,
    /// What becomes of the operators that the rule removes, such as `constant`; shown as the placement of
    /// these operators.
    pub fate: &'static str,
    /// Computes what the rule would change in a graph, without changing it. The patch is empty if there is
    /// nothing to change.
    pub find: fn(&Graph, &dyn FoldedConstants) -> Found,
}

/// Results of constant folding that an earlier process has stored.
pub trait FoldedConstants {
    /// Returns the outputs, of these sizes in bytes, of a node with these constant inputs; `None` if they are not stored.
    fn find(&self, node: &Node, inputs: &[Option<Fact>], sizes: &[usize]) -> Option<Vec<Bytes>>;

    /// Takes note of outputs that were computed because they were not found, so that they can be stored.
    fn made(&self, node: &Node, inputs: &[Option<Fact>], outputs: &[Bytes]);
}

/// No stored results.
#[derive(Clone, Copy, Debug)]
pub struct NothingFolded;

impl FoldedConstants for NothingFolded {
    fn find(&self, _: &Node, _: &[Option<Fact>], _: &[usize]) -> Option<Vec<Bytes>> {
        None
    }

    fn made(&self, _: &Node, _: &[Option<Fact>], _: &[Bytes]) {}
}

/// What a rule finds in a graph.
#[derive(Debug, Default)]
pub struct Found {
    /// The change to the graph.
    pub patch: Patch,
    /// Nodes that the rule matches but leaves unchanged, and why.
    pub declined: Vec<(NodeId, String)>,
}

/// All rules, in the order in which each round applies them.
pub static RULES: &[Rule] = &[inline_calls::RULE, fold_constants::RULE, fold_requantization::RULE, remove_unused::RULE];

/// Number of rounds in which calls are replaced. Calls in calls take a round each, and so do branches whose conditions other
/// branches give, of which a file may hold a chain of any length.
const CALL_ROUNDS: usize = 64;

/// Applies all rules as [`run_with`] does, without stored constants.
///
/// # Panics
///
/// As [`run_with`].
pub fn run(graph: &mut Graph) -> Log {
    run_with(graph, &NothingFolded)
}

/// Applies all rules in rounds until a round changes nothing. Large constants are taken from `folded` if they are there
/// instead of being computed. Returns the nodes that were removed in any
/// round, and those that were declined in the last round.
///
/// # Panics
///
/// In debug builds, panics if a rule leaves a graph that is not valid by [`Graph::validate`].
pub fn run_with(graph: &mut Graph, folded: &dyn FoldedConstants) -> Log {
    let mut log = Log::default();
    for round in 0.. {
        log.declined.clear();
        let mut changed = false;
        for rule in RULES.iter().filter(|rule| round < CALL_ROUNDS || rule.name != inline_calls::RULE.name) {
            let Found { patch, declined } = (rule.find)(graph, folded);
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
            break;
        }
    }
    log
}
