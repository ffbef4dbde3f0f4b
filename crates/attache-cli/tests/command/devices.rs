//! Tests adapters that cannot run compute shaders. Environment variables make Mesa create the contexts of
//! older drivers.

use std::process::{Command, Output};

use serde_json::Value;

use crate::support::{Scratch, relu};

/// Runs `attache` with an OpenGL version that has no compute shaders.
fn without_compute(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_attache"));
    command.env("MESA_GL_VERSION_OVERRIDE", "3.3").env("MESA_GLES_VERSION_OVERRIDE", "3.0");
    command.args(arguments).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

const REASON: &str = "its context speaks OpenGL 3.3, and compute shaders need 4.2";

#[test]
fn devices_tell_what_cannot_be_used_and_why() {
    let listed = without_compute(&["devices", "--json"]);
    let object: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let devices = object["devices"].as_array().unwrap();
    let through = |interface: &str| devices.iter().find(|device| device["backend"] == interface);
    let gl = through("gl").expect("OpenGL (on Debian: libegl1) to test on");
    assert_eq!(gl["unusable"], REASON, "{gl}");
    let vulkan = through("vulkan").expect("Vulkan (on Debian: mesa-vulkan-drivers) to test on");
    assert_eq!(vulkan.get("unusable"), None, "{vulkan}");
    let listed = without_compute(&["devices"]);
    assert!(text(&listed.stdout).contains(&format!("cannot be used: {REASON}")), "{}", text(&listed.stdout));
}

/// Checks that the command fails with the reason if an unusable adapter is requested, and uses another
/// adapter otherwise.
#[test]
fn what_cannot_be_used_is_not_opened() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    for command in ["run", "bench"] {
        let refused = without_compute(&[command, &model, "--backend", "gl"]);
        assert_ne!(refused.status.code(), Some(0));
        assert!(text(&refused.stderr).contains(REASON), "{}", text(&refused.stderr));
    }
    let taken = without_compute(&["run", &model, "--delegate", "gpu", "--require-delegation", "--json"]);
    assert_eq!(taken.status.code(), Some(0), "{}", text(&taken.stderr));
}
