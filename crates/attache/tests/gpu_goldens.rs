//! Every golden case on a GPU under Vulkan's validation layer, or through OpenGL where the environment has
//! `ATTACHE_TEST_BACKEND=gl`: in 32-bit floats, and in 16-bit floats in each of the ways to store them.
//!
//! No operator may be left to the CPU, except in the cases of `conformance/expectations/gpu_f32.txt`, and of `gpu_graphs.txt`
//! beside it: what is left there and why has to be as those lists say, to the letter. With the feature `poison` whatever the CPU computes is
//! overwritten; the other cases still have to agree.
//!
//! Quantized tensors are taken in both ways: exactly, so that bits must agree, and seen as reals, so that steps count; the
//! cases of `conformance/expectations/gpu_view.txt` then depart further, each for its reason. Which operators are refused
//! where bits must agree, `conformance/expectations/gpu_exact.txt` lists, by the type of the cases' numbers: `f32` are
//! floats that meet stored numbers.

#[path = "../../attache-gpu/tests/validation/mod.rs"]
mod validation;

mod goldens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use attache::diff::Tolerance;
use attache::gpu::{Backend, Needs, Precision, Quantized, Variants, variants};
use attache::{Delegate, ErrorKind, GpuDelegate, GpuDelegateOptions};
use goldens::{Case, assert_none, cases};

/// Error that is allowed in 32-bit floats, relative to the largest number of the case.
const TOLERANCE: f32 = 2e-5;

/// Error that is allowed in 16-bit floats.
const TOLERANCE_OF_HALVES: f32 = 2e-3;

/// Cases that a variant sees in each form though another is preferred, unless the deep check runs.
const MOST_FORCED: usize = 8;

/// Whether the CPU's results are overwritten. An operator alone is judged by what the CPU makes of it, so that graphs which are
/// judged operator by operator are left to the suite without that.
const POISONED: bool = cfg!(feature = "poison");

fn delegate(precision: Precision, no_shader_f16: bool) -> GpuDelegate {
    open(GpuDelegateOptions::default().precision(precision).no_shader_f16(no_shader_f16).quantized(Quantized::Exact))
}

fn open(options: GpuDelegateOptions) -> GpuDelegate {
    let options = if through_gl() {
        options.backend(Backend::Gl)
    } else {
        validation::listen();
        options.backend(Backend::Vulkan).validation(true)
    };
    let delegate = GpuDelegate::new(options);
    delegate.expect("a device (on Debian: mesa-vulkan-drivers; for OpenGL: libegl1, libgles2) to test on")
}

fn through_gl() -> bool {
    match std::env::var("ATTACHE_TEST_BACKEND").as_deref() {
        Ok("gl") => true,
        Ok(other) => panic!("ATTACHE_TEST_BACKEND is {other}; only gl is another way than Vulkan"),
        Err(_) => false,
    }
}

/// What became of a case that didn't fail.
enum Outcome {
    /// It agrees, and the GPU had all of it.
    Agrees,
    /// What the GPU refused, and why. The CPU took that over, and the case agrees.
    Refused(Vec<String>),
}

fn run(case: &Case, delegate: &Arc<dyn Delegate>, tolerance: f32) -> Result<Outcome, String> {
    match case.interpreter(|builder| builder.delegate(delegate.clone()).require_gpu(true)) {
        Ok(mut interpreter) => case.check(&mut interpreter, tolerance).map(|()| Outcome::Agrees),
        Err(error) if error.kind() == ErrorKind::NotDelegated => {
            let mut interpreter =
                case.interpreter(|builder| builder.delegate(delegate.clone())).map_err(|error| error.to_string())?;
            let reason = |node: &attache::NodePlacement| {
                format!("{}: {}", node.operator, node.reason.as_deref().unwrap_or("no reason"))
            };
            let reasons: Vec<String> = interpreter.placement().left_behind().map(reason).collect();
            case.check_with_cpu(&mut interpreter, tolerance)?;
            Ok(Outcome::Refused(reasons))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the deep check runs, which compares everything in every form. Elsewhere a driver that compiles on the CPU would take
/// minutes for that.
fn is_deep() -> bool {
    std::env::var_os("ATTACHE_DEEP").is_some()
}

/// The cases that fail, by name with what is wrong. What is refused has to be as expected.
fn failures(delegate: GpuDelegate, tolerance: f32) -> BTreeMap<String, String> {
    failures_of(cases(), true, delegate, tolerance)
}

/// As [`failures`], of every third case unless the deep check runs.
fn sampled_failures(delegate: GpuDelegate, tolerance: f32) -> BTreeMap<String, String> {
    let step = if is_deep() { 1 } else { 3 };
    failures_of(cases().into_iter().step_by(step).collect(), is_deep(), delegate, tolerance)
}

fn failures_of(cases: Vec<Case>, are_all: bool, delegate: GpuDelegate, tolerance: f32) -> BTreeMap<String, String> {
    let delegate: Arc<dyn Delegate> = Arc::new(delegate);
    let (mut failures, mut operators) = (BTreeMap::new(), BTreeSet::new());
    let (mut refused, mut refused_of_graphs) = (String::new(), String::new());
    for case in cases {
        match run(&case, &delegate, tolerance) {
            Ok(Outcome::Agrees) => {}
            Ok(Outcome::Refused(reasons)) => {
                let list = if case.is_graph() { &mut refused_of_graphs } else { &mut refused };
                writeln!(list, "{}: {}", case.name, reasons.join("; ")).expect("a string takes any text");
                let kind = case.name.split('_').next().expect("a name has a first part");
                let is_listed = case.is_quantized() && !case.is_graph();
                operators.extend(reasons.iter().filter(|_| is_listed).map(|one| format!("{kind} {one}\n")));
            }
            // Floats that such a graph has between stored numbers are rounded to 16 bits: each operator is right by itself.
            Err(_) if tolerance == TOLERANCE_OF_HALVES && case.is_graph() && case.is_quantized() => {
                if POISONED {
                    continue;
                }
                let tolerance = Tolerance { relative: f64::from(tolerance), steps: "2:99.5:1".parse().expect("steps") };
                if let Err(error) = case.check_alone(&delegate, &tolerance) {
                    failures.insert(case.name, error);
                }
            }
            Err(error) => drop(failures.insert(case.name, error)),
        }
    }
    if !through_gl() {
        validation::assert_silent();
    }
    let lists = [
        ("gpu_f32", include_str!("../../../conformance/expectations/gpu_f32.txt"), refused),
        ("gpu_graphs", include_str!("../../../conformance/expectations/gpu_graphs.txt"), refused_of_graphs),
        (
            "gpu_exact",
            include_str!("../../../conformance/expectations/gpu_exact.txt"),
            Vec::from_iter(operators).concat(),
        ),
    ];
    for (name, expected, found) in lists {
        let is_listed = |line: &str| expected.lines().any(|other| other == line);
        let agrees = if are_all { found == expected } else { found.lines().all(is_listed) };
        assert!(agrees, "conformance/expectations/{name}.txt should read, or have:\n{found}");
    }
    failures
}

fn described(failures: &BTreeMap<String, String>) -> Vec<String> {
    failures.iter().map(|(name, error)| format!("{name}: {error}")).collect()
}

#[test]
fn the_gpu_agrees_with_every_case() {
    let _alone = validation::alone();
    assert_none(&described(&failures(delegate(Precision::F32, false), TOLERANCE)));
}

/// With the kernels that hardware has: other variants, and parameters in the text.
#[test]
fn the_gpu_agrees_as_hardware() {
    let _alone = validation::alone();
    let options = GpuDelegateOptions::default().quantized(Quantized::Exact).as_hardware(true);
    assert_none(&described(&sampled_failures(open(options), TOLERANCE)));
}

/// Binary16 in pairs, and as a type of shaders where the interface can have that: there also with the kernels of hardware
/// that multiplies matrices.
#[test]
fn the_gpu_agrees_in_16_bits() {
    let _alone = validation::alone();
    let in_pairs = delegate(Precision::F16, true);
    assert!(!in_pairs.adapter().shader_f16);
    assert_none(&described(&sampled_failures(in_pairs, TOLERANCE_OF_HALVES)));
    if !through_gl() {
        let native = delegate(Precision::F16, false);
        assert!(native.adapter().shader_f16, "a Vulkan device with binary16 in shaders is needed, as Mesa's is");
        assert_none(&described(&sampled_failures(native, TOLERANCE_OF_HALVES)));
        let options = GpuDelegateOptions::default().precision(Precision::F16).quantized(Quantized::Exact);
        let on_matrices = open(options.as_hardware(true).emulate_matrices(true));
        assert_eq!(on_matrices.lacks(Needs::Matrices), None);
        assert_none(&described(&sampled_failures(on_matrices, TOLERANCE_OF_HALVES)));
    }
}

/// Seen as reals, quantized cases are within a step for nearly all elements, and within two for all. In graphs steps add up
/// from operator to operator, so that each of those is looked at alone.
#[test]
fn the_gpu_agrees_in_steps() {
    let _alone = validation::alone();
    let delegate: Arc<dyn Delegate> = Arc::new(open(GpuDelegateOptions::default().quantized(Quantized::View)));
    let tolerance = Tolerance { relative: 1e-4, steps: "2:99.5:1".parse().expect("steps") };
    let listed = include_str!("../../../conformance/expectations/gpu_view.txt").lines();
    let listed: BTreeMap<&str, &str> = listed.map(|line| line.split_once(": ").expect("a case and a reason")).collect();
    let mut failures = BTreeMap::new();
    for case in cases().into_iter().filter(Case::is_quantized) {
        if case.is_graph() {
            if !POISONED && let Err(error) = case.check_alone(&delegate, &tolerance) {
                failures.insert(case.name, error);
            }
            continue;
        }
        let interpreter = case.interpreter(|builder| builder.delegate(delegate.clone()).require_gpu(true));
        let checked = interpreter.map_err(|error| error.to_string());
        let checked = checked.and_then(|mut interpreter| case.check_in_steps(&mut interpreter, &tolerance));
        if let Err(error) = checked {
            failures.insert(case.name, error);
        }
    }
    let others: Vec<&&str> = listed.keys().filter(|name| !failures.contains_key(**name)).collect();
    assert!(others.is_empty(), "these agree, and are listed as not agreeing: {others:?}");
    failures.retain(|name, _| !listed.contains_key(name.as_str()));
    assert_none(&described(&failures));
}

/// Each variant that applies to a case, cheap or not, in the precisions and ways with quantized tensors in which there may
/// be such; every variant sees a case in one of them, unless it needs what the interface lacks.
#[test]
fn every_variant_agrees() {
    let _alone = validation::alone();
    let forms =
        [(Precision::F32, Quantized::View), (Precision::F32, Quantized::Exact), (Precision::F16, Quantized::View)];
    let delegates = forms.map(|(precision, quantized)| {
        open(GpuDelegateOptions::default().precision(precision).quantized(quantized).emulate_matrices(true))
    });
    let (mut failures, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let most = if is_deep() { usize::MAX } else { MOST_FORCED };
    for (delegate, (precision, quantized)) in delegates.iter().zip(forms) {
        let tolerance = if precision == Precision::F32 { TOLERANCE } else { TOLERANCE_OF_HALVES };
        let cheapest: Arc<dyn Delegate> = Arc::new(delegate.clone());
        // What is seen as reals has limits of its own, and a suite.
        let cases = cases().into_iter().filter(|case| case.is_quantized() == (quantized == Quantized::Exact));
        let mut forced = BTreeMap::<&str, usize>::new();
        for case in cases {
            let Ok(interpreter) = case.interpreter(|builder| builder.delegate(cheapest.clone())) else { continue };
            let report = interpreter.report();
            seen.extend(report.variants);
            for name in report.alternatives {
                seen.insert(name);
                let count = forced.entry(name).or_default();
                *count += 1;
                if *count > most {
                    continue;
                }
                let forced: Arc<dyn Delegate> = Arc::new(delegate.with_variants(Variants::Named(name)));
                if let Err(error) = run(&case, &forced, tolerance) {
                    failures.insert(format!("{} {name}", case.name), error);
                }
            }
        }
    }
    // GL has no binary16 in shaders, without which there are no matrices.
    assert!(through_gl() || delegates.iter().any(|delegate| delegate.lacks(Needs::Matrices).is_none()));
    let lacks = |needs| delegates.iter().all(|delegate| delegate.lacks(needs).is_some());
    let unseen: Vec<_> =
        variants().filter(|(name, needs)| !seen.contains(name) && !lacks(*needs)).map(|(name, _)| name).collect();
    assert!(unseen.is_empty(), "these variants saw no case: {unseen:?}");
    assert_none(&described(&failures));
}
