//! The plug-in exports nothing but its functions, and computes the GPU delegate's bits on the random graphs of
//! `conformance/graphs`, with quantized tensors handled both ways. Partitions that look alike are stored apart.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use attache::DataType::{Float32, Int64};
use attache::gpu::{InferencePreference, Quantized};
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT};
use attache::{GpuDelegate, GpuDelegateOptions, Model, ModelBuilder, OperatorBuilder, TensorBuilder};
use attache_external::ExternalDelegate;

use common::{compile, filled, library, next, run};

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

/// Golden cases with states in variable tensors.
const STATEFUL: [&str; 4] =
    ["f32_UNIDIRECTIONAL_SEQUENCE_LSTM_goes_on", "f32_LSTM_full_goes_on", "f32_SVDF_rank_2", "i8_SVDF_integers_rank_2"];

/// The states are the runtime's: they go on from run to run, are apart in two interpreters, and are reset with the runtime's
/// variables.
#[test]
fn states_are_those_of_the_runtime() {
    for name in STATEFUL {
        let path = Path::new("../../conformance/cases").join(name).join("model.tflite");
        let model = Model::from_path(&path).expect("a model");
        let options = GpuDelegateOptions::default().software(true).quantized(Quantized::Exact);
        let gpu = GpuDelegate::new(options.inference_preference(InferencePreference::FastSingleAnswer)).expect("a GPU");
        let plugin = ExternalDelegate::load(library(), &[("software", "true"), ("quantized", "exact")]);
        let (own, hosted) = (compile(&model, gpu), compile(&model, plugin.expect("the plug-in")));
        assert!(own.placement().delegated() > 0, "{name}");
        assert_eq!(hosted.placement().delegated(), own.placement().delegated(), "{name}:\n{}", hosted.placement());
        let mut alone = filled(&own);
        let expected: Vec<_> = (0..6).map(|_| next(&mut alone)).collect();
        assert!(expected[0] != expected[1], "{name} has no state");
        let [mut first, mut second] = [0; 2].map(|_| filled(&hosted));
        for (run, expected) in expected.iter().enumerate() {
            assert!(next(&mut first) == *expected, "{name}: run {run} differs");
        }
        assert!(next(&mut second) == expected[0], "{name}: the interpreters share their states");
        first.reset_variables();
        assert!(next(&mut first) == expected[0], "{name}: a reset changes nothing");
        assert!(next(&mut second) == expected[1], "{name}: a reset of one interpreter reaches another one");
    }
}

/// Golden cases whose weights have a scale for each block.
const BLOCKWISE: [&str; 4] = [
    "f32_FULLY_CONNECTED_blocks_one_row",
    "f32_FULLY_CONNECTED_blocks_rows",
    "f32_FULLY_CONNECTED_blocks_of_64_no_bias",
    "f32_EMBEDDING_LOOKUP_blocks_of_64",
];

#[test]
fn scales_of_blocks_are_found() {
    for name in BLOCKWISE {
        let path = Path::new("../../conformance/cases").join(name).join("model.tflite");
        let model = Model::from_path(&path).expect("a model");
        let gpu = GpuDelegate::new(GpuDelegateOptions::default().software(true)).expect("a GPU");
        let plugin = ExternalDelegate::load(library(), &[("software", "true")]).expect("the plug-in");
        let (own, hosted) = (compile(&model, gpu), compile(&model, plugin));
        assert_eq!(
            (own.placement().delegated(), hosted.placement().delegated()),
            (1, 1),
            "{name}:\n{}",
            hosted.placement()
        );
        assert!(run(&hosted) == run(&own), "{name}: the bits differ");
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

/// The number of elements of each tensor of [`twins`].
const ELEMENTS: usize = 2048;

/// Returns two products with constants of the same size, and between them an operator that stays on the CPU. No tensor has
/// a name.
fn twins() -> Model {
    let mut builder = ModelBuilder::new("twins");
    let main = builder.subgraph("main");
    let mut tensor = |kind| builder.tensor(main, TensorBuilder::new("", kind, [ELEMENTS]));
    let [x, twice] = [Int64, Int64].map(&mut tensor);
    let [a, b, c, d] = [Float32; 4].map(&mut tensor);
    for (input, real, factor, product) in [(x, a, 2.0f32, b), (twice, c, 10.0, d)] {
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::CAST, [input], [real]));
        let factor = builder.tensor(main, TensorBuilder::values("", [ELEMENTS], &[factor; ELEMENTS]));
        let options = BuiltinOptionsT::MulOptions(Box::default());
        let multiply = OperatorBuilder::new(BuiltinOperator::MUL, [real, factor], [product]);
        builder.operator(main, multiply.options(options));
        if input == x {
            builder.operator(main, OperatorBuilder::new(BuiltinOperator::CAST, [product], [twice]));
        }
    }
    builder.inputs(main, &[x]).outputs(main, &[d]);
    Model::from_bytes(builder.finish()).expect("a model")
}

#[test]
fn partitions_of_equal_structure_are_stored_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a path");
    let model = twins();
    for _ in 0..2 {
        let options = [("software", "true"), ("serialization_dir", folder), ("model_token", "twins")];
        let hosted = compile(&model, ExternalDelegate::load(library(), &options).expect("the plug-in"));
        assert_eq!((hosted.placement().delegated(), hosted.placement().partitions), (4, 2), "{}", hosted.placement());
        let mut interpreter = hosted.interpreter().expect("an interpreter");
        interpreter.input(0).expect("an input").copy_from(&[3i64; ELEMENTS]).expect("it is written");
        interpreter.invoke().expect("it runs");
        assert_eq!(interpreter.output(0).expect("an output").as_slice::<f32>().expect("floats"), [60.0; ELEMENTS]);
    }
}

/// Returns a model with the signatures "two" and "ten" of two subgraphs, which multiply one element by these
/// numbers, and are equal otherwise.
fn twin_subgraphs() -> Model {
    let mut builder = ModelBuilder::new("twins");
    for (key, factor) in [("two", 2.0f32), ("ten", 10.0)] {
        let subgraph = builder.subgraph("");
        let [x, y] = [(); 2].map(|()| builder.tensor(subgraph, TensorBuilder::new("", Float32, [ELEMENTS])));
        let mut factors = [2.0; ELEMENTS];
        factors[ELEMENTS / 3] = factor;
        let factor = builder.tensor(subgraph, TensorBuilder::values("", [ELEMENTS], &factors));
        let options = BuiltinOptionsT::MulOptions(Box::default());
        builder.operator(subgraph, OperatorBuilder::new(BuiltinOperator::MUL, [x, factor], [y]).options(options));
        builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
        builder.signature(key, subgraph, &[("x", x)], &[("y", y)]);
    }
    Model::from_bytes(builder.finish()).expect("a model")
}

#[test]
fn subgraphs_that_differ_in_their_weights_alone_are_stored_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a path");
    let model = twin_subgraphs();
    for _ in 0..2 {
        let options = [("software", "true"), ("serialization_dir", folder), ("model_token", "twins")];
        let hosted = compile(&model, ExternalDelegate::load(library(), &options).expect("the plug-in"));
        let mut interpreter = hosted.interpreter().expect("an interpreter");
        for (key, expected) in [("two", 6.0), ("ten", 30.0)] {
            let mut runner = interpreter.signature(key).expect("a signature");
            assert_eq!(runner.placement().delegated(), 1, "{}", runner.placement());
            runner.write("x", &[3.0f32; ELEMENTS]).expect("it is written");
            runner.invoke().expect("it runs");
            let outputs = runner.read::<f32>("y").expect("floats");
            assert_eq!((outputs[0], outputs[ELEMENTS / 3]), (6.0, expected));
        }
    }
}
