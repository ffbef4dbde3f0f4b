//! Compares the results of real float models on the CPU and on a GPU with samples of LiteRT's results
//! (`conformance/models`, written by `conformance/models.py`).
//!
//! The models are in the folder `models` of `$ATTACHE_SHARED`, by default `../shared` beside the workspace. The GPU has
//! to run all operators in a single partition if it supports them. Its outputs are also compared with the CPU's,
//! element by element. EDSR takes tens of seconds on a software device, so it runs on the GPU only if
//! `ATTACHE_ALL_MODELS` is 1.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use attache::gpu::Backend;
use attache::{Delegate, GpuDelegate, GpuDelegateOptions, Interpreter, Model, Outcome};
use serde_json::Value;

/// Maximum difference between the CPU and LiteRT, relative to the largest magnitude in the output.
const CPU_TOLERANCE: f32 = 3e-5;
/// Maximum difference between the GPU and LiteRT, and between the GPU and the CPU, relative to the largest
/// magnitude in the output.
const GPU_TOLERANCE: f32 = 1e-4;

/// A model and what the tests require of it.
struct Case {
    name: &'static str,
    /// Minimum fraction of the elements of each output for which the difference between the GPU and the CPU
    /// is at most [`GPU_TOLERANCE`].
    agreeing: f64,
    /// Whether a run takes tens of seconds on a software device, so that the GPU runs the model only on
    /// request.
    slow: bool,
    /// Whether the GPU supports all of the model's operators. Otherwise only the CPU is tested.
    has_gpu_form: bool,
}

impl Case {
    const fn new(name: &'static str) -> Self {
        Self { name, agreeing: 1.0, slow: false, has_gpu_form: true }
    }
}

/// All models.
static CASES: [Case; 10] = [
    Case::new("blazeface_short_range"),
    Case::new("deeplabv3_257_mv_gpu"),
    Case { slow: true, ..Case::new("edsr_f32b5_fp32") },
    Case::new("face_landmark"),
    // The model pools by the index of the largest element. If two elements are almost equal, rounding determines the
    // index.
    Case { agreeing: 0.999, ..Case::new("hair_segmentation") },
    Case::new("mlperf_tiny_resnet8_float"),
    Case::new("mlperf_tiny_vww_float"),
    Case { has_gpu_form: false, ..Case::new("mnist_lstm_float") },
    Case::new("mobilenet_v1_0.25_224_float"),
    Case::new("style_transfer_f16_384"),
];

/// Samples of one output of LiteRT's run.
struct Expected {
    shape: Vec<usize>,
    /// The largest magnitude of all elements of the output.
    largest: f32,
    /// Some elements of the output: the index and the value of each.
    samples: Vec<(usize, f32)>,
}

/// What `conformance/models` contains about LiteRT's run of a model.
struct Golden {
    /// Shape of each input, and hash of its elements by [`hash`].
    inputs: Vec<(Vec<usize>, u64)>,
    outputs: Vec<Expected>,
}

impl Golden {
    fn of(case: &Case) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/models");
        let text = std::fs::read(folder.join(format!("{}.json", case.name))).expect("samples of the model");
        let record: Value = serde_json::from_slice(&text).expect("samples are JSON");
        let list = |key: &str| record[key].as_array().expect("a list").clone();
        let hash = |input: &Value| u64::from_str_radix(input["hash"].as_str().expect("a hash"), 16).expect("a hash");
        let sample = |pair: &Value| (integer(&pair[0]), float(&pair[1]));
        let output = |output: &Value| Expected {
            shape: integers(&output["shape"]),
            largest: float(&output["largest"]),
            samples: output["samples"].as_array().expect("samples").iter().map(sample).collect(),
        };
        Self {
            inputs: list("inputs").iter().map(|input| (integers(&input["shape"]), hash(input))).collect(),
            outputs: list("outputs").iter().map(output).collect(),
        }
    }
}

fn integer(value: &Value) -> usize {
    value.as_u64().expect("an integer") as usize
}

fn integers(value: &Value) -> Vec<usize> {
    value.as_array().expect("a list").iter().map(integer).collect()
}

fn float(value: &Value) -> f32 {
    value.as_f64().expect("a number") as f32
}

fn model(case: &Case) -> Model {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("ATTACHE_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = shared.join(format!("models/{}.tflite", case.name));
    let remedy = "set ATTACHE_SHARED to the folder that holds the shared models";
    assert!(path.exists(), "{} isn't there; {remedy}", path.display());
    Model::from_path(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns element `element` of input `input`, as `conformance/models.py` computes it.
fn ramp(element: usize, input: usize) -> f32 {
    let step = (element as u64 * 7919 + input as u64 * 104_729) % 2003;
    (step as f64 / 1001.0 - 1.0) as f32
}

fn hash(values: &[f32]) -> u64 {
    let terms = (1_u64..).zip(values).map(|(weight, value)| weight.wrapping_mul(u64::from(value.to_bits())));
    terms.fold(0, u64::wrapping_add)
}

/// Runs a model on the inputs of LiteRT's run, and returns the elements of all outputs.
fn run(interpreter: &mut Interpreter, golden: &Golden) -> Vec<Vec<f32>> {
    assert_eq!(interpreter.inputs().len(), golden.inputs.len());
    for (index, (shape, expected)) in golden.inputs.iter().enumerate() {
        assert_eq!(interpreter.inputs()[index].shape.extents(), shape, "input {index}");
        let input = interpreter.input_mut::<f32>(index).unwrap();
        input.iter_mut().enumerate().for_each(|(element, value)| *value = ramp(element, index));
        assert_eq!(hash(input), *expected, "input {index} isn't the one that LiteRT had");
    }
    interpreter.invoke().unwrap_or_else(|error| panic!("{error}"));
    let outputs = 0..interpreter.outputs().len();
    outputs.map(|output| interpreter.read(output).unwrap().to_vec()).collect()
}

/// Returns the error of one element relative to `largest`, the largest magnitude in the output; infinity if
/// the error is NaN.
fn error(actual: f32, expected: f32, largest: f32) -> f32 {
    let error = (actual - expected).abs() / largest;
    if error.is_nan() { f32::INFINITY } else { error }
}

/// Returns the largest error of an interpreter's outputs at the samples of LiteRT's outputs, relative to the
/// largest magnitude in the output.
fn worst_sample(interpreter: &Interpreter, outputs: &[Vec<f32>], golden: &Golden) -> f32 {
    assert_eq!(outputs.len(), golden.outputs.len());
    let mut worst = 0.0_f32;
    for (index, (output, expected)) in outputs.iter().zip(&golden.outputs).enumerate() {
        assert_eq!(interpreter.outputs()[index].shape.extents(), expected.shape, "output {index}");
        let errors = expected.samples.iter().map(|(element, value)| error(output[*element], *value, expected.largest));
        worst = errors.fold(worst, f32::max);
    }
    worst
}

/// The result of comparing two runs element by element.
struct Agreement {
    worst: f32,
    /// The fraction of the elements with an error of at most [`GPU_TOLERANCE`], for the output with the
    /// smallest fraction.
    agreeing: f64,
}

impl Agreement {
    fn of(actual: &[Vec<f32>], expected: &[Vec<f32>], golden: &Golden) -> Self {
        let mut agreement = Self { worst: 0.0, agreeing: 1.0 };
        for ((actual, expected), output) in actual.iter().zip(expected).zip(&golden.outputs) {
            assert_eq!(actual.len(), expected.len());
            let errors = || actual.iter().zip(expected).map(|(a, e)| error(*a, *e, output.largest));
            let within = errors().filter(|error| *error <= GPU_TOLERANCE).count();
            agreement.worst = errors().fold(agreement.worst, f32::max);
            agreement.agreeing = agreement.agreeing.min(within as f64 / actual.len() as f64);
        }
        agreement
    }
}

fn on_cpu(model: &Model) -> Interpreter {
    Interpreter::builder(model).threads(2).build().unwrap_or_else(|error| panic!("{error}"))
}

fn on_gpu(model: &Model, delegate: &Arc<dyn Delegate>) -> Interpreter {
    let builder = Interpreter::builder(model).threads(1).delegate(delegate.clone()).require_delegation(true);
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}

/// Asserts that all operators are in one partition, except those that were folded.
fn assert_one_partition(case: &Case, interpreter: &Interpreter) {
    let (placement, report) = (interpreter.placement(), interpreter.report());
    assert_eq!((placement.partitions, report.partitions), (1, 1), "{}: {placement}", case.name);
    assert_eq!(report.nodes_delegated, report.nodes, "{}: {placement}", case.name);
    let is_in = |outcome: &Outcome| match outcome {
        Outcome::On { partition, .. } => *partition == 0,
        Outcome::Folded { .. } => true,
        Outcome::Cpu => false,
    };
    assert!(placement.nodes.iter().all(|node| is_in(&node.outcome)), "{}: {placement}", case.name);
}

#[test]
fn the_cpu_agrees_with_litert() {
    let mut failures = Vec::new();
    for case in &CASES {
        let (start, golden) = (Instant::now(), Golden::of(case));
        let mut interpreter = on_cpu(&model(case));
        let outputs = run(&mut interpreter, &golden);
        let worst = worst_sample(&interpreter, &outputs, &golden);
        let line = format!("{} on the CPU: {worst:.1e} from LiteRT", case.name);
        println!("{line} ({:.1} s)", start.elapsed().as_secs_f64());
        if worst > CPU_TOLERANCE {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn the_gpu_agrees_with_litert_and_the_cpu() {
    let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan);
    let delegate = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    println!("on {} through {}", delegate.adapter().name, delegate.adapter().backend);
    let delegate: Arc<dyn Delegate> = Arc::new(delegate);
    let all = std::env::var_os("ATTACHE_ALL_MODELS").is_some_and(|value| value == "1");
    let mut failures = Vec::new();
    for case in CASES.iter().filter(|case| case.has_gpu_form) {
        if case.slow && !all {
            println!("{} on the GPU: left out, as ATTACHE_ALL_MODELS is not 1", case.name);
            continue;
        }
        let (start, golden, model) = (Instant::now(), Golden::of(case), model(case));
        let mut interpreter = on_gpu(&model, &delegate);
        assert_one_partition(case, &interpreter);
        let outputs = run(&mut interpreter, &golden);
        let worst = worst_sample(&interpreter, &outputs, &golden);
        let Agreement { worst: from_cpu, agreeing } =
            Agreement::of(&outputs, &run(&mut on_cpu(&model), &golden), &golden);
        let part = format!("{:.3} % of the elements within {GPU_TOLERANCE:.0e}", agreeing * 100.0);
        let line = format!("{} on the GPU: {worst:.1e} from LiteRT, {from_cpu:.1e} from the CPU, {part}", case.name);
        println!("{line} ({:.1} s)", start.elapsed().as_secs_f64());
        if worst > GPU_TOLERANCE || agreeing < case.agreeing {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn what_is_not_a_number_is_infinitely_wrong() {
    assert_eq!(error(f32::NAN, 1.0, 2.0), f32::INFINITY);
    assert_eq!(error(2.0, 1.0, 2.0), 0.5);
    assert_eq!(error(0.0, 0.0, 0.0), f32::INFINITY);
}
