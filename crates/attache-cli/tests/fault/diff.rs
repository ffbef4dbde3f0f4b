//! Tests that `attache diff --bisect` finds an injected fault in the GPU's results. Runs on any adapter.

use std::process::Command;

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};
use serde_json::Value;

use crate::support::{Scratch, attache};

/// Returns a model with a chain of operators that can be fused, a second branch, and the sum of the two
/// branches: LOGISTIC, MUL, ADD, RELU; LOGISTIC; ADD.
fn branches() -> Vec<u8> {
    let mut builder = ModelBuilder::new("branches");
    let main = builder.subgraph("main");
    let tensor = |builder: &mut ModelBuilder, name: &str| {
        builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [1, 4, 4, 3]))
    };
    let [x, a, b, c, d, e, y] = ["x", "a", "b", "c", "d", "e", "y"].map(|name| tensor(&mut builder, name));
    let constant = builder.tensor(main, TensorBuilder::values("constant", [3], &[1.5f32, 0.5, 2.0]));
    let operators: [(BuiltinOperator, &[usize], usize); 6] = [
        (BuiltinOperator::LOGISTIC, &[x], a),
        (BuiltinOperator::MUL, &[a, constant], b),
        (BuiltinOperator::ADD, &[b, x], c),
        (BuiltinOperator::RELU, &[c], d),
        (BuiltinOperator::LOGISTIC, &[b], e),
        (BuiltinOperator::ADD, &[d, e], y),
    ];
    for (operator, inputs, output) in operators {
        builder.operator(main, OperatorBuilder::new(operator, inputs.iter().copied(), [output]));
    }
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Runs the command with an injected fault in one operator. Returns its exit status and its JSON object.
fn with_fault(operator: usize, arguments: &[&str]) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.args(arguments).args(["--delegate", "gpu", "--json"]).env("ATTACHE_FAULT_NODE", operator.to_string());
    let output = command.output().expect("the command runs");
    let object = serde_json::from_slice(&output.stdout).expect("an object");
    (output.status.code().expect("no signal ends the command"), object)
}

#[test]
fn a_delegate_that_panics_is_a_failure_though_the_cpu_takes_over() {
    let scratch = Scratch::new();
    let model = scratch.write("branches.tflite", &branches());
    let case = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/cases/f32_ADD_both_3d");
    for arguments in [&["diff", &model][..], &["diff", &model, "--per-operator"], &["check", case], &["run", &model]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
        command.args(arguments).args(["--delegate", "gpu", "--json"]).env("ATTACHE_FAULT_PANIC", "0");
        let output = command.output().expect("the command runs");
        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let (code, is_run) = (output.status.code().expect("no signal ends the command"), arguments[0] == "run");
        assert_eq!(code != 0, !is_run, "{arguments:?}: {stdout}{stderr}");
        assert!(is_run || stdout.contains("a planted panic"), "{arguments:?}: {stdout}");
        assert!(stderr.contains("it panicked in claim"), "the log says so: {stderr}");
    }
}

#[test]
fn a_fault_is_found_wherever_it_is() {
    let scratch = Scratch::new();
    let model = scratch.write("branches.tflite", &branches());
    let sound = attache(&["diff", &model, "--per-operator", "--bisect", "--delegate", "gpu", "--json"]);
    assert_eq!(sound.status, 0, "{}{}", sound.stdout, sound.stderr);
    for operator in 0..6 {
        let case = scratch.path(&format!("case_{operator}"));
        let (status, object) = with_fault(operator, &["diff", &model, "--per-operator", "--bisect", "--out", &case]);
        assert_eq!((status, &object["bisect"]["index"]), (1, &Value::from(operator)), "{object}");
        let relative = object["bisect"]["relative"].as_f64().expect("a number");
        assert!((relative - 0.01).abs() < 1e-4, "{relative}");
        for (index, comparison) in object["operators"].as_array().expect("a list").iter().enumerate() {
            assert_eq!(comparison["passes"], index != operator, "{operator}: {comparison}");
        }
        // The case contains the outputs of the CPU. Its only operator is the faulty one.
        assert_eq!(attache(&["check", &case, "--delegate", "gpu"]).status, 0, "{case}");
        assert_eq!(with_fault(0, &["check", &case]).0, 1, "{case}");
    }
}
