//! The plug-in exports nothing but its functions, and computes the GPU delegate's bits on the random graphs of
//! `conformance/graphs`, with quantized tensors handled both ways.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use attache::gpu::{InferencePreference, Quantized};
use attache::{GpuDelegate, GpuDelegateOptions, Model};
use attache_external::ExternalDelegate;

use common::{compile, library, run};

/// Returns the models, one of three in a debug build, which is slow.
fn models() -> Vec<PathBuf> {
    let kinds = ["f32", "int8", "uint8"].map(|kind| Path::new("../../conformance/graphs").join(kind));
    let folders = kinds.iter().flat_map(|kind| std::fs::read_dir(kind).expect("the graphs"));
    let mut models: Vec<PathBuf> =
        folders.map(|folder| folder.expect("an entry").path().join("model.tflite")).collect();
    models.sort();
    models.into_iter().step_by(if cfg!(debug_assertions) { 3 } else { 1 }).collect()
}

#[test]
fn random_graphs_have_the_bits_of_the_gpu_delegate() {
    for (word, quantized) in [("view", Quantized::View), ("exact", Quantized::Exact)] {
        let options = GpuDelegateOptions::default().software(true).quantized(quantized);
        let gpu = GpuDelegate::new(options.inference_preference(InferencePreference::FastSingleAnswer)).expect("a GPU");
        for path in models() {
            let model = Model::from_path(&path).expect("a model");
            let options = [("software", "true"), ("quantized", word), ("log", "warning")];
            let plugin = ExternalDelegate::load(library(), &options).expect("the plug-in");
            let (own, hosted) = (compile(&model, gpu.clone()), compile(&model, plugin));
            assert_eq!(
                hosted.placement().delegated(),
                own.placement().delegated(),
                "{path:?}:\n{}",
                hosted.placement()
            );
            assert!(run(&hosted) == run(&own), "{path:?}: the bits differ");
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn only_the_documented_functions_are_exported() {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().expect("nm runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let exported: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().last()).collect();
    let documented = [
        "TfLiteGpuDelegateOptionsV2Default",
        "TfLiteGpuDelegateV2Create",
        "TfLiteGpuDelegateV2Delete",
        "tflite_plugin_create_delegate",
        "tflite_plugin_destroy_delegate",
    ];
    assert_eq!(exported, documented);
}
