//! Runs every operator alone on the delegate, with the CPU's inputs, and compares its outputs with the CPU's.

use attache::diff::{Difference, OperatorComparison, Tolerance, Trace};
use serde_json::{Value, json};

use super::Delegates;
use crate::console::Console;
use crate::failure::Failure;

/// The comparison with the CPU of each operator, in order of execution.
pub(super) struct Operators(Vec<OperatorComparison>);

impl Operators {
    pub(super) fn compare(console: &Console, trace: &Trace, delegates: &Delegates) -> Result<Self, Failure> {
        let progress = console.progress(trace.nodes());
        let mut all = Vec::with_capacity(trace.nodes());
        for node in 0..trace.nodes() {
            all.push(trace.compare_operator(node, delegates)?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(Self(all))
    }

    /// Whether all operators that the delegate runs are within the tolerance.
    pub(super) fn pass(&self, limit: &Tolerance) -> bool {
        self.0.iter().all(|operator| passes(operator, limit) != Some(false))
    }

    pub(super) fn text(&self, console: &Console, limit: &Tolerance) -> String {
        let heading = ["operator", "name", "average", "largest", "relative", "passes"];
        let row = |operator: &OperatorComparison| {
            let mut row = vec![operator.operator.to_string(), console.name(&operator.name)];
            match worst(operator) {
                Some(Difference { average, largest, .. }) => {
                    let relative = worst(operator).map_or(0.0, Difference::relative);
                    row.extend([*average, *largest, relative].map(|number| format!("{number:.3e}")));
                }
                None => row.extend(["-", "-", "-"].map(str::to_owned)),
            }
            row.push(match (&operator.outcome, passes(operator, limit)) {
                (Err(reason), _) => format!("not delegated: {reason}"),
                (_, Some(false)) => "no".to_owned(),
                _ => "yes".to_owned(),
            });
            row
        };
        console.table(&heading, &self.0.iter().map(row).collect::<Vec<_>>())
    }

    pub(super) fn json(&self, limit: &Tolerance) -> Value {
        let object = |operator: &OperatorComparison| {
            let worst = worst(operator);
            json!({
                "index": operator.operator,
                "operator": operator.name,
                "average": worst.map(|worst| worst.average),
                "largest": worst.map(|worst| worst.largest),
                "relative": worst.map(Difference::relative),
                "nonfinite_reference": worst.map(|worst| worst.nonfinite_reference),
                "nonfinite_test": worst.map(|worst| worst.nonfinite_test),
                "passes": passes(operator, limit),
                "reason": operator.outcome.as_ref().err(),
            })
        };
        self.0.iter().map(object).collect()
    }
}

/// Whether all outputs of an operator are within the tolerance; `None` if the delegate does not run the
/// operator.
fn passes(operator: &OperatorComparison, limit: &Tolerance) -> Option<bool> {
    let differences = operator.outcome.as_ref().ok()?;
    Some(differences.iter().all(|difference| difference.is_within(limit)))
}

/// Returns the difference of the output that differs most; `None` if the delegate does not run the operator.
fn worst(operator: &OperatorComparison) -> Option<&Difference> {
    let key = |difference: &Difference| (difference.contradictions, difference.relative());
    let differences = operator.outcome.as_ref().ok()?.iter();
    differences.max_by(|a, b| {
        let ((a_count, a), (b_count, b)) = (key(a), key(b));
        a_count.cmp(&b_count).then(a.total_cmp(&b))
    })
}
