//! Plans of whole models for a GPU, which are not run: checks the number of dispatches, and the ratio of the
//! memory to its lower bound.
//!
//! The shared models are in the folder `models` of `$ATTACHE_SHARED`, by default `../shared` beside the workspace.

use std::path::PathBuf;

use attache::gpu::{Backend, GpuStage, Precision, stage};
use attache::{GpuDelegate, GpuDelegateOptions, Limits, Model, zoo};

/// Maximum number of dispatches of a run of each model in f32.
static DISPATCHES: [(&str, usize); 12] = [
    ("bert_tiny", 45),
    ("blazeface_short_range", 26),
    ("decoder_tiny", 40),
    ("deeplabv3_257_mv_gpu", 43),
    ("edsr_f32b5_fp32", 14),
    ("face_landmark", 31),
    ("hair_segmentation", 103),
    ("mobilenet_v1_1.0_224", 16),
    ("mobilenet_v2_1.0_224", 37),
    ("resnet50_224", 57),
    ("ssd_mobilenet_v2_320", 67),
    ("style_transfer_f16_384", 100),
];

/// Maximum ratio of an arena's size, without padding for the device's alignment, to its lower bound.
const MOST: f64 = 1.1;

/// Bytes above the lower bound that are always allowed. The states of a recurrent network take turns in a few kilobytes,
/// and no layout of these is as small as the bound.
const SLACK: f64 = 512.0;

/// Returns all shared and all built-in models with their names, sorted by name.
fn models() -> Vec<(String, Model)> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("ATTACHE_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let remedy = "set ATTACHE_SHARED to the folder that holds the shared models";
    let files = std::fs::read_dir(shared.join("models")).unwrap_or_else(|error| panic!("{error}: {remedy}"));
    let paths = files.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "tflite"));
    let from_file = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, Model::from_path(&path).unwrap_or_else(|error| panic!("{error}")))
    };
    let built = |name: &str| (name.to_owned(), Model::from_bytes(zoo::build(name).unwrap()).unwrap());
    let mut models: Vec<(String, Model)> = paths.map(from_file).chain(zoo::names().map(built)).collect();
    models.sort_by(|a, b| a.0.cmp(&b.0));
    models
}

/// Returns the sum of the numbers that follow the occurrences of a word in a plan's text, which has one for
/// each partition.
fn sum(plan: &str, word: &str) -> f64 {
    let after = plan.split(word).skip(1).map(|rest| rest.trim_start().split([' ', ',', '\n']).next().unwrap());
    after.map(|number| number.parse::<f64>().unwrap()).sum()
}

#[test]
fn plans_take_few_dispatches_and_little_memory() {
    let mut wrong = Vec::new();
    for precision in [Precision::F32, Precision::F16] {
        let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).precision(precision);
        let delegate = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers)");
        for (name, model) in models() {
            let plan = stage(&model, 0, &[], &delegate, GpuStage::Plan, &Limits::default()).unwrap();
            let dispatches = plan.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
            let (arena, bound) = (sum(&plan, "arena:"), sum(&plan, "lower bound"));
            let [banks, alignment, planner] = ["banks", "alignment", "planner"].map(|cause| sum(&plan, cause));
            let ratio = arena / bound.max(1.0);
            println!("{name} {precision:?}: {dispatches} dispatches, arena {arena}, {ratio:.3} of its lower bound");
            println!("    excess: banks {banks}, alignment {alignment}, planner {planner}");
            assert_eq!(arena, bound + banks + alignment + planner, "every byte has a cause");
            if arena - alignment > (MOST * bound).max(bound + SLACK) {
                wrong.push(format!("{name} {precision:?}: arena {arena}, lower bound {bound}"));
            }
            let most = DISPATCHES.iter().find(|(known, _)| *known == name).map_or(usize::MAX, |(_, most)| *most);
            if precision == Precision::F32 && dispatches > most {
                wrong.push(format!("{name}: {dispatches} dispatches, at most {most} expected"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
