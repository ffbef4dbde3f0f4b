//! Runs all golden cases and random graphs on a GPU, in f32 and in f16 with each storage. The GPU is used
//! through Vulkan under its validation layer, or through OpenGL if `ATTACHE_TEST_BACKEND=gl` is set.
//!
//! The GPU must run all operators, except in the cases of `conformance/expectations/gpu_f32.txt` and `gpu_graphs.txt`.
//! For these, the operators that are left to the CPU and the reasons must be exactly those in the lists. With the
//! feature `_poison`, everything that the CPU computes is overwritten; the other cases must still agree.
//!
//! Quantized tensors are tested both as exact integers and as floats. As exact integers, the bits must agree.
//! As floats, differences are measured in quantization steps; the cases of
//! `conformance/expectations/gpu_view.txt` may differ by more, each for the given reason.
//! `conformance/expectations/gpu_exact.txt` lists the operators that are unsupported in exact arithmetic, by
//! the element type of the cases, where `f32` means floats combined with quantized tensors.

#[path = "../../attache-gpu/tests/validation/mod.rs"]
mod validation;

mod goldens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use attache::diff::Tolerance;
use attache::gpu::{Backend, Precision, Quantized, VariantChoice, VariantRequirement, variants};
use attache::{Delegate, ErrorKind, GpuDelegate, GpuDelegateOptions};
use goldens::{Case, assert_none, cases};

/// Maximum error of an output element in f32, relative to the largest magnitude in the computation of the
/// case.
const TOLERANCE: f32 = 2e-5;

/// Maximum error of an output element in f16, relative to the largest magnitude in the computation of the
/// case.
const TOLERANCE_OF_HALVES: f32 = 2e-3;

/// Maximum number of cases on which each variant that is not preferred is forced, for each delegate, unless
/// the deep check runs.
const MOST_FORCED: usize = 8;

/// Whether the feature `_poison` overwrites the outputs of CPU kernels. Graphs that are checked operator by
/// operator, by comparison with the CPU, are then omitted.
const POISONED: bool = cfg!(feature = "_poison");

fn delegate(precision: Precision, no_shader_f16: bool) -> GpuDelegate {
    open(
        GpuDelegateOptions::default()
            .software(true)
            .precision(precision)
            .no_shader_f16(no_shader_f16)
            .quantized(Quantized::Exact),
    )
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

/// The outcome of a case that did not fail.
enum Outcome {
    /// The outputs agree, and the GPU ran all operators.
    Agrees,
    /// The outputs agree, but the CPU ran operators that the GPU does not support: each as
    /// `OPERATOR: reason`.
    Unsupported(Vec<String>),
}

fn run(case: &Case, delegate: &Arc<dyn Delegate>, tolerance: f32) -> Result<Outcome, String> {
    match case.interpreter(|builder| builder.delegate(delegate.clone()).require_delegation(true)) {
        Ok(mut interpreter) => case.check(&mut interpreter, tolerance).map(|()| Outcome::Agrees),
        Err(error) if error.kind() == ErrorKind::NotDelegated => {
            let mut interpreter =
                case.interpreter(|builder| builder.delegate(delegate.clone())).map_err(|error| error.to_string())?;
            let reason = |node: &attache::NodePlacement| {
                format!("{}: {}", node.operator, node.reason.as_deref().unwrap_or("no reason"))
            };
            let reasons: Vec<String> = interpreter.placement().left_behind().map(reason).collect();
            case.check_with_cpu(&mut interpreter, tolerance)?;
            Ok(Outcome::Unsupported(reasons))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the deep check runs (`ATTACHE_DEEP` is set), which checks all cases in each configuration.
/// Otherwise fewer are checked, since a driver that compiles on the CPU takes minutes for all of them.
fn is_deep() -> bool {
    std::env::var_os("ATTACHE_DEEP").is_some()
}

/// Runs all cases on a delegate. Returns the name of each case that fails, with the reason. Panics if the
/// unsupported operators are not exactly those of `conformance/expectations`.
fn failures(delegate: GpuDelegate, tolerance: f32) -> BTreeMap<String, String> {
    failures_of(cases(), true, delegate, tolerance)
}

/// Runs every third case, or all of them in the deep check, and returns the failures as [`failures`] does.
/// The unsupported operators must all be in `conformance/expectations`.
fn sampled_failures(delegate: GpuDelegate, tolerance: f32) -> BTreeMap<String, String> {
    let step = if is_deep() { 1 } else { 3 };
    failures_of(cases().into_iter().step_by(step).collect(), is_deep(), delegate, tolerance)
}

fn failures_of(cases: Vec<Case>, are_all: bool, delegate: GpuDelegate, tolerance: f32) -> BTreeMap<String, String> {
    let delegate: Arc<dyn Delegate> = Arc::new(delegate);
    let (mut failures, mut operators) = (BTreeMap::new(), BTreeSet::new());
    let (mut unsupported, mut unsupported_of_graphs) = (String::new(), String::new());
    for case in cases {
        match run(&case, &delegate, tolerance) {
            Ok(Outcome::Agrees) => {}
            Ok(Outcome::Unsupported(reasons)) => {
                let list = if case.is_graph() { &mut unsupported_of_graphs } else { &mut unsupported };
                writeln!(list, "{}: {}", case.name, reasons.join("; ")).expect("a string takes any text");
                let kind = case.name.split('_').next().expect("a name has a first part");
                let is_listed = case.is_quantized() && !case.is_graph();
                operators.extend(reasons.iter().filter(|_| is_listed).map(|one| format!("{kind} {one}\n")));
            }
            // Floats between quantized tensors of such a graph are rounded to f16, so each operator is checked alone.
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
        ("gpu_f32", include_str!("../../../conformance/expectations/gpu_f32.txt"), unsupported),
        ("gpu_graphs", include_str!("../../../conformance/expectations/gpu_graphs.txt"), unsupported_of_graphs),
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

/// Runs the shaders that hardware gets: other kernel variants, and parameters in the source of the shaders.
#[test]
fn the_gpu_agrees_as_hardware() {
    let _alone = validation::alone();
    let options = GpuDelegateOptions::default().software(true).quantized(Quantized::Exact).as_hardware(true);
    assert_none(&described(&sampled_failures(open(options), TOLERANCE)));
}

/// Runs f16 as pairs in 32-bit words, and as a type of the shaders if the graphics API supports it. The
/// latter also runs with the shaders for hardware with cooperative matrices.
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
        let options =
            GpuDelegateOptions::default().software(true).precision(Precision::F16).quantized(Quantized::Exact);
        let on_matrices = open(options.as_hardware(true).emulate_matrices(true));
        assert_eq!(on_matrices.lacks(VariantRequirement::Matrices), None);
        assert_none(&described(&sampled_failures(on_matrices, TOLERANCE_OF_HALVES)));
    }
}

/// If quantized tensors are computed as floats, the outputs of cases differ by at most one quantization step
/// for 99.5 % of the elements, and by at most two steps for all. In graphs, the differences add up from
/// operator to operator, so each operator is checked alone.
#[test]
fn the_gpu_agrees_in_steps() {
    let _alone = validation::alone();
    let delegate: Arc<dyn Delegate> =
        Arc::new(open(GpuDelegateOptions::default().software(true).quantized(Quantized::View)));
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
        let interpreter = case.interpreter(|builder| builder.delegate(delegate.clone()).require_delegation(true));
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

/// Checks each kernel variant on cases to which it applies, in the precisions and with the ways to compute
/// quantized tensors in which it may apply. Each variant must apply to a case in one of them, unless it needs
/// a feature that the graphics API lacks.
#[test]
fn every_variant_agrees() {
    let _alone = validation::alone();
    let forms =
        [(Precision::F32, Quantized::View), (Precision::F32, Quantized::Exact), (Precision::F16, Quantized::View)];
    let delegates = forms.map(|(precision, quantized)| {
        open(
            GpuDelegateOptions::default()
                .software(true)
                .precision(precision)
                .quantized(quantized)
                .emulate_matrices(true),
        )
    });
    let (mut failures, mut seen) = (BTreeMap::new(), BTreeSet::new());
    let most = if is_deep() { usize::MAX } else { MOST_FORCED };
    for (delegate, (precision, quantized)) in delegates.iter().zip(forms) {
        let tolerance = if precision == Precision::F32 { TOLERANCE } else { TOLERANCE_OF_HALVES };
        let preferred: Arc<dyn Delegate> = Arc::new(delegate.clone());
        // Quantized tensors that are viewed as floats have other tolerances and their own test.
        let cases = cases().into_iter().filter(|case| case.is_quantized() == (quantized == Quantized::Exact));
        let mut forced = BTreeMap::<&str, usize>::new();
        for case in cases {
            let Ok(interpreter) = case.interpreter(|builder| builder.delegate(preferred.clone())) else { continue };
            let report = interpreter.report();
            seen.extend(report.variants);
            for name in report.alternatives {
                seen.insert(name);
                let count = forced.entry(name).or_default();
                *count += 1;
                if *count > most {
                    continue;
                }
                let forced: Arc<dyn Delegate> = Arc::new(delegate.with_variants(VariantChoice::Named(name)));
                if let Err(error) = run(&case, &forced, tolerance) {
                    failures.insert(format!("{} {name}", case.name), error);
                }
            }
        }
    }
    // GL has no f16 in shaders, which cooperative matrices require.
    assert!(through_gl() || delegates.iter().any(|delegate| delegate.lacks(VariantRequirement::Matrices).is_none()));
    let lacks = |needs| delegates.iter().all(|delegate| delegate.lacks(needs).is_some());
    let unseen: Vec<_> =
        variants().filter(|(name, needs)| !seen.contains(name) && !lacks(*needs)).map(|(name, _)| name).collect();
    assert!(unseen.is_empty(), "these variants saw no case: {unseen:?}");
    assert_none(&described(&failures));
}
