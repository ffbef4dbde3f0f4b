//! Delegates that refuse or fail in ways that the interface allows, and files that are no delegates.

use attache::{ErrorKind, Outcome};
use attache_external::ExternalDelegate;

use crate::support::{arithmetic, expected, library, run, with};

/// Checks that the CPU runs the whole model where the delegate fails with this text while the model is compiled.
#[track_caller]
fn check_left(fault: &str, text: &str) {
    let compiled = with(arithmetic(fault)).compile().unwrap();
    let placement = compiled.placement();
    assert!(placement.nodes.iter().all(|node| node.outcome == Outcome::Cpu), "{placement}");
    assert!(placement.to_string().contains(text), "{placement}");
    assert_eq!(run(&mut compiled.interpreter().unwrap()).unwrap(), expected());
}

#[test]
fn what_a_delegate_refuses_runs_on_the_cpu() {
    check_left("prepare", "its Prepare failed with status 1: no device here");
    check_left("nothing", "the delegate does not take it");
    check_left("init", "its kernel's prepare failed");
    check_left("kernel", "the kernel of 3 nodes refuses");
    check_left("shape", "it gives tensor 4 the shape [1]; the model's is [2, 3]");
    check_left("twice", "node 0 is named twice");
    check_left("absent", "node 12345 is not in the execution plan");
}

#[test]
fn a_dynamic_output_of_the_planned_size_is_taken() {
    let mut interpreter = with(arithmetic("dynamic")).build().unwrap();
    for _ in 0..3 {
        assert_eq!(run(&mut interpreter).unwrap(), expected());
    }
    let error = run(&mut with(arithmetic("grow")).build().unwrap()).unwrap_err();
    assert!(error.to_string().contains("it gives tensor 4 the shape [3, 3]"), "{error}");
}

#[test]
fn a_failing_run_is_an_error_or_the_cpus() {
    let mut interpreter = with(arithmetic("invoke")).build().unwrap();
    let error = run(&mut interpreter).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.to_string().contains("the device is on fire"), "{error}");
    let mut interpreter = with(arithmetic("invoke")).cpu_fallback(true).build().unwrap();
    assert_eq!(run(&mut interpreter).unwrap(), expected());
}

#[test]
fn what_is_required_and_not_taken_is_an_error() {
    let error = with(arithmetic("nothing")).require_delegation(true).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDelegated);
}

#[test]
fn files_that_are_no_delegates_are_named() {
    let error = |path: &str| ExternalDelegate::load(path, &[]).unwrap_err().to_string();
    assert!(error("/nowhere/libnothing.so").contains("/nowhere/libnothing.so"));
    assert!(error(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).contains("cannot be loaded"));
    let path = library("operators.c", "libno_delegate.so", &[]);
    let error = ExternalDelegate::load(path, &[]).unwrap_err().to_string();
    assert!(error.contains("tflite_plugin_create_delegate"), "{error}");
}

#[test]
fn options_that_a_delegate_does_not_know_are_its_error() {
    let path = library("arithmetic.c", "liboptions.so", &[]);
    let error = ExternalDelegate::load(path, &[("fault", "none"), ("speed", "11")]).unwrap_err().to_string();
    assert!(error.contains("the option \"speed\" is unknown"), "{error}");
}

#[test]
fn a_null_delegate_is_an_error() {
    // SAFETY: a null pointer is allowed.
    #[allow(unsafe_code)]
    let made = unsafe { ExternalDelegate::from_raw(std::ptr::null_mut(), "none") };
    assert!(made.is_err());
}
