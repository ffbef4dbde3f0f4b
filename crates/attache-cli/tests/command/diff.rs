//! Tests `attache diff` as a user runs it.

use serde_json::Value;

use crate::support::{Scratch, attache, floats, relu, unknown};

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn the_cpu_does_not_differ_from_itself() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let cpu = ["--delegate", "cpu", "--json"];
    let answer = attache(&[&["diff", &model, "--runs", "3", "--per-operator", "--bisect"], &cpu[..]].concat());
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let object = answer.object();
    assert_eq!((&object["runs"], &object["bisect"]), (&Value::from(3), &Value::Null));
    let output = &object["outputs"][0];
    let expected = [
        "average",
        "largest",
        "name",
        "nonfinite_reference",
        "nonfinite_test",
        "passes",
        "relative",
        "standard_deviation",
    ];
    assert_eq!(keys(output), expected);
    assert_eq!((&output["name"], &output["largest"]), (&Value::from("y"), &Value::from(0.0)));
    let operator = &object["operators"][0];
    assert_eq!((&operator["operator"], &operator["passes"]), (&Value::from("RELU"), &Value::Null));
    assert_eq!(operator["reason"], "there is no delegate");
}

#[test]
fn what_is_not_finite_is_counted_and_given_inputs_run_once() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let input = scratch.write("in.npy", &floats(&[1, 2, 2, 1], &[f32::INFINITY, -1.0, 2.0, 3.0]));
    let answer = attache(&["diff", &model, "--input", &input, "--delegate", "cpu", "--json"]);
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let object = answer.object();
    assert_eq!(object["runs"], 1);
    let output = &object["outputs"][0];
    assert_eq!((&output["nonfinite_reference"], &output["nonfinite_test"]), (&Value::from(1), &Value::from(1)));
    assert_eq!(output["largest"], 0.0);
}

#[test]
fn wrong_uses_are_refused() {
    let scratch = Scratch::new();
    let (model, unknown) = (scratch.write("relu.tflite", &relu()), scratch.write("unknown.tflite", &unknown()));
    let cases: &[(&[&str], i32)] = &[
        (&["diff", &model, "--delegate", "cpu", "--runs", "0"], 2),
        (&["diff", &model, "--delegate", "cpu", "--out", "case"], 2),
        (&["diff", &model, "--delegate", "cpu", "--input", "no-such.npy"], 2),
        (&["diff", &unknown, "--delegate", "cpu"], 4),
    ];
    for (arguments, status) in cases {
        let answer = attache(arguments);
        assert_eq!(answer.status, *status, "{arguments:?}: {}", answer.stderr);
    }
}
