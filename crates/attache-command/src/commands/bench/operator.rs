//! The operators of the model file that a profile names, and figures over their times.

use serde::{Deserialize, Serialize};

use crate::measure::timing::Statistics;

/// An operator of the model file: its index in the subgraph and its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Operator {
    pub(super) index: usize,
    pub(super) name: String,
}

/// Returns the names of operators, each once, joined by ` + `.
pub(super) fn names(operators: &[Operator]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for operator in operators {
        if !names.contains(&operator.name.as_str()) {
            names.push(&operator.name);
        }
    }
    if names.is_empty() { "-".to_owned() } else { names.join(" + ") }
}

/// Returns a short list of operators: the index and name of the first three, and how many more.
pub(super) fn label(operators: &[Operator]) -> String {
    const MOST: usize = 3;
    let named = operators.iter().take(MOST).map(|operator| format!("{} {}", operator.index, operator.name));
    let named = named.collect::<Vec<_>>().join(", ");
    match operators.len() {
        0 => "-".to_owned(),
        count if count > MOST => format!("{named} and {} more", count - MOST),
        _ => named,
    }
}

/// Returns the median; 0 if there are no times.
pub(super) fn median(times: &[f64]) -> f64 {
    Statistics::of(times).map_or(0.0, |durations| durations.median)
}

/// Returns `part` in percent of `whole`; 0 if `whole` is 0.
pub(super) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}
