//! Tests `--cpu-fallback` with a GPU that fails because of an injected fault. Runs on any adapter.

use std::process::Command;

use serde_json::Value;

use crate::support::{Scratch, relu};

/// Runs the command on a device in which `fault` is injected. Returns its exit status, its JSON object and
/// its standard error.
fn with_fault(fault: &str, arguments: &[&str]) -> (i32, Value, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.args(arguments).args(["--delegate", "gpu", "--json"]).env("ATTACHE_FAULT_DEVICE", fault);
    let output = command.output().expect("the command runs");
    let object = serde_json::from_slice(&output.stdout).expect("an object");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().expect("no signal ends the command"), object, said)
}

#[test]
fn the_cpu_takes_over_where_it_may_and_says_so() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    for fault in ["lost,record", "memory,record", "lost,submit", "memory,wait"] {
        let (status, object, _) = with_fault(fault, &["run", &model]);
        assert_eq!((status, object["error"]["kind"].as_str()), (5, Some("device")), "{fault}: {object}");
        let (status, object, said) = with_fault(fault, &["run", &model, "--cpu-fallback"]);
        let reason = object["fallback"].as_str().unwrap_or_default();
        assert!(status == 0 && reason.contains("a planted fault"), "{fault}: {object}");
        assert_eq!(object["placement"][0]["place"], "cpu", "{fault}: {object}");
        assert!(said.contains("WARN") && said.contains("a planted fault"), "{fault}: {said}");
    }
    let (status, object, _) = with_fault("lost,submit,3", &["bench", &model, "--runs", "5", "--cpu-fallback"]);
    assert!(status == 0 && object["fallback"].is_string() && object["partitions"] == 0, "{object}");
    let (status, object, _) = with_fault("memory,wait", &["diff", &model, "--cpu-fallback"]);
    assert!(status == 0 && object["fallback"].is_string(), "{object}");
}
