//! The plug-in, loaded as a delegate of others, claims what the GPU delegate claims and computes its bits, on the models of
//! `$ATTACHE_SHARED/models`. Models that take tens of seconds on a software device run only if `ATTACHE_ALL_MODELS` is 1.

mod common;

use std::path::{Path, PathBuf};

use attache::gpu::InferencePreference;
use attache::{CompiledModel, GpuDelegate, GpuDelegateOptions, Model, Outcome};
use attache_external::ExternalDelegate;

use common::{compile, library, run};

/// Models that run only on request.
const SLOW: [&str; 4] =
    ["edsr_f32b5_fp32", "edsr_f32b5_full_int8", "style_transfer_f16_384", "style_transfer_dynamic_range"];

/// Returns the folder of the models.
fn folder() -> PathBuf {
    let shared = std::env::var_os("ATTACHE_SHARED").map(PathBuf::from);
    shared.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared")).join("models")
}

/// Returns for each operator the number of the partition that it is in; `None` for one on the CPU.
fn partitions(compiled: &CompiledModel) -> Vec<Option<usize>> {
    let partition = |outcome: &Outcome| match outcome {
        Outcome::On { partition, .. } => Some(*partition),
        Outcome::Cpu => None,
        Outcome::Folded { .. } => Some(usize::MAX),
    };
    compiled.placement().nodes.iter().map(|node| partition(&node.outcome)).collect()
}

#[test]
fn shared_models_have_the_bits_of_the_gpu_delegate() {
    let all = std::env::var("ATTACHE_ALL_MODELS").is_ok_and(|value| value == "1");
    let only = std::env::var("ATTACHE_MODEL").ok();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder()).expect("the models").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tflite"));
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !all && SLOW.contains(&name.as_str()) || only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            continue;
        }
        let model = Model::from_path(&path).expect("a model");
        let options = GpuDelegateOptions::default().software(true);
        let options = options.inference_preference(InferencePreference::FastSingleAnswer);
        let own = compile(&model, GpuDelegate::new(options).expect("a GPU"));
        let plugin = ExternalDelegate::load(library(), &[("software", "true")]).expect("the plug-in");
        let hosted = compile(&model, plugin);
        assert_eq!(partitions(&hosted), partitions(&own), "{name}:\n{}", hosted.placement());
        assert!(run(&hosted) == run(&own), "{name}: the bits differ");
        eprintln!("{name}: {} of {}", own.placement().delegated(), own.placement().nodes.len());
    }
}
