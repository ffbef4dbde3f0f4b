//! Runs all golden cases and random graphs on the CPU, without exceptions.
//!
//! With the feature `_poison`, the test checks the feature itself: each case in which the CPU computes an
//! output must fail.

mod goldens;

use attache::IntegerRounding;
use goldens::{Case, assert_none, cases, rounded_once};

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

#[test]
fn the_cpu_rounds_as_litert_s_default_interpreter_where_that_is_asked_for() {
    let check = |case: &Case, rounding: IntegerRounding| {
        let interpreter = case.interpreter(|builder| builder.rounding(rounding));
        case.check_with_cpu(&mut interpreter.map_err(|error| error.to_string())?, 0.0)
    };
    let failure = |case: &Case| Some(format!("{}: {}", case.name, check(case, IntegerRounding::XnnPack).err()?));
    assert_none(&rounded_once().iter().filter_map(failure).collect::<Vec<_>>());
    if !cfg!(feature = "_poison") {
        let alike = |case: &Case| check(case, IntegerRounding::Reference).ok().map(|()| case.name.clone());
        assert_none(&rounded_once().iter().filter_map(alike).collect::<Vec<_>>());
    }
}
