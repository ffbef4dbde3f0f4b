//! Runs all golden cases and random graphs on the CPU, without exceptions.
//!
//! With the feature `_poison`, the test checks the feature itself: each case in which the CPU computes an
//! output must fail.

mod goldens;

use goldens::{Case, assert_none, cases};

/// Maximum error of an output element, relative to the largest magnitude in the computation of the case.
const TOLERANCE: f32 = 1e-5;

#[test]
fn the_cpu_agrees_with_every_case() {
    let check = |case: &Case| {
        let mut interpreter = case.interpreter(|builder| builder).map_err(|error| error.to_string())?;
        case.check_with_cpu(&mut interpreter, TOLERANCE)
    };
    let failure = |case: Case| Some(format!("{}: {}", case.name, check(&case).err()?));
    assert_none(&cases().into_iter().filter_map(failure).collect::<Vec<_>>());
}
