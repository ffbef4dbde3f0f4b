//! Delegates of others, which the tests of `attache-external` have in C.

use std::process::Command;

use attache::DataType::Float32;
use attache::model::schema::{AddOptionsT, BuiltinOperator, BuiltinOptionsT};
use attache::{ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::support::{Scratch, attache};

/// Compiles a delegate and returns the path of its library.
fn library(scratch: &Scratch, source: &str) -> String {
    let path = scratch.path(&format!("lib{source}.so"));
    let source = format!("{}/../attache-external/tests/c/{source}.c", env!("CARGO_MANIFEST_DIR"));
    let compiled = Command::new("cc").args(["-std=c11", "-fPIC", "-shared", &source, "-o", &path]).status().unwrap();
    assert!(compiled.success());
    path
}

/// Returns a model that adds its input to itself and takes the square root.
fn model() -> Vec<u8> {
    let mut builder = ModelBuilder::new("sum");
    let main = builder.subgraph("main");
    let [x, y, z] = ["x", "y", "z"].map(|name| builder.tensor(main, TensorBuilder::new(name, Float32, [4])));
    let options = BuiltinOptionsT::AddOptions(Box::<AddOptionsT>::default());
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [x, x], [y]).options(options));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::SQRT, [y], [z]));
    builder.inputs(main, &[x]).outputs(main, &[z]);
    builder.finish()
}

#[test]
fn delegates_of_libraries_run_their_operators() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &model());
    for source in ["arithmetic", "opaque"] {
        let library = library(&scratch, source);
        let answer = attache(&["diff", &model, "-n", "2", "--external-delegate", &library]);
        assert_eq!(answer.status, 0, "{}{}", answer.stdout, answer.stderr);
        assert!(answer.stdout.contains(&format!("external delegate {source}")), "{}", answer.stdout);
        let answer = attache(&["dump", "partition", &model, "--external-delegate", &library]);
        assert!(answer.stdout.contains(&format!("0 ADD version 1: {source}, partition 0")), "{}", answer.stdout);
        let required = ["run", &model, "--external-delegate", &library, "--require-delegation"];
        let answer = attache(&required);
        assert!(answer.status == 4 && answer.stderr.contains("SQRT"), "{}", answer.stderr);
    }
}

#[test]
fn what_is_wrong_with_a_library_is_said() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &model());
    let library = library(&scratch, "arithmetic");
    let with = |more: &[&str]| attache(&[&["run", &model, "--external-delegate"], more].concat());
    let answer = with(&["/nowhere/lib.so"]);
    assert!(
        answer.status == 2 && answer.stderr.contains("/nowhere/lib.so: there is no such file"),
        "{}",
        answer.stderr
    );
    assert_eq!(with(&["no-such-library.so"]).status, 5, "the system looks for it");
    let answer = with(&[&library, "--external-delegate-option", "speed=11"]);
    assert!(answer.status == 5 && answer.stderr.contains("\"speed\" is unknown"), "{}", answer.stderr);
    let answer = with(&[&library, "--external-delegate-option", "speed"]);
    assert!(answer.status == 2 && answer.stderr.contains("KEY=VALUE"), "{}", answer.stderr);
    let answer = with(&[&library, "--external-delegate-option", "fault=invoke"]);
    assert!(answer.status == 5 && answer.stderr.contains("on fire"), "{}", answer.stderr);
    assert_eq!(with(&[&library, "--external-delegate-option", "fault=invoke", "--cpu-fallback"]).status, 0);
    assert_eq!(with(&[&library, "--precision", "f16"]).status, 2);
}
