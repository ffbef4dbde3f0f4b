//! Tests the command with real models and images: classes, detections, a segmentation, and the output of
//! `inspect` for each file.
//!
//! The models and images are in the folders `models` and `images` of `$ATTACHE_SHARED`, by default `../shared` beside
//! the workspace.

use std::fs;
use std::path::{Path, PathBuf};

use attache::{ErrorKind, Interpreter, Model};
use serde_json::Value;

use crate::support::{Scratch, attache};

/// Number of classes of Pascal VOC, including the background.
const CLASSES: usize = 21;

/// Returns the path of a file or folder of the shared collection, which must exist.
fn shared(name: &str) -> String {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("ATTACHE_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = shared.join(name);
    let remedy = "set ATTACHE_SHARED to the folder that holds the shared models and images";
    assert!(path.exists(), "{} isn't there; {remedy}", path.display());
    path.to_str().expect("text").to_owned()
}

/// Returns the JSON object that `attache run` prints with these arguments.
fn run(arguments: &[&str], more: &[&str]) -> Value {
    let answer = attache(&[&["--json", "run"], arguments, more].concat());
    assert_eq!(answer.status, 0, "{arguments:?} {more:?}: {}{}", answer.stdout, answer.stderr);
    answer.object()
}

/// Asserts that MobileNet ranks the correct class first.
fn assert_classes(model: &str, device: &[&str]) {
    let model = shared(&format!("models/{model}.tflite"));
    let labels = shared("images/imagenet_labels.txt");
    for (picture, class) in [("burger.jpg", "cheeseburger"), ("sunflower.png", "daisy")] {
        let picture = shared(&format!("images/{picture}"));
        let object = run(&[&model, "--input", &picture, "--labels", &labels], device);
        let first = &object["top"][0];
        assert_eq!(first["label"], class, "{device:?}: {}", object["top"]);
        println!("{picture} {device:?}: {class} at {}", first["score"]);
    }
}

/// Asserts that SSD detects the cats and the dogs at their positions in the image.
fn assert_detections(device: &[&str]) {
    let model = shared("models/ssd_mobilenet_v1_coco_quant.tflite");
    let (picture, labels) = (shared("images/cats_and_dogs.jpg"), shared("images/coco_labels.txt"));
    let object = run(&[&model, "--input", &picture, "--labels", &labels], device);
    let detections = object["detections"].as_array().expect("a list");
    for label in ["cat", "dog"] {
        let count = detections.iter().filter(|it| it["label"] == label).count();
        assert!(count >= 1, "{device:?}: no {label} in {detections:?}");
    }
    for detection in detections {
        assert!(detection["label"] == "cat" || detection["label"] == "dog", "{device:?}: {detection}");
        let edges: Vec<f64> = detection["box"].as_array().unwrap().iter().map(|edge| edge.as_f64().unwrap()).collect();
        assert!(edges[0] < edges[2] && edges[1] < edges[3], "{device:?}: {detection}");
        assert!(edges.iter().all(|edge| (-0.1..=1.1).contains(edge)), "{device:?}: {detection}");
    }
    let none = run(&[&model, "--input", &picture, "--threshold", "1"], device);
    assert_eq!((none["detections"].as_array().map(Vec::len), none["top"].as_array().map(Vec::len)), (Some(0), Some(0)));
}

/// Asserts that DeepLab finds the expected class in 99 % of the pixels.
fn assert_segments(device: &[&str]) {
    let (scratch, model) = (Scratch::new(), shared("models/deeplabv3_257_mv_gpu.tflite"));
    let (input, out) = (shared("images/segmentation_input.jpg"), scratch.folder("out"));
    let object = run(&[&model, "--input", &input, "--out", &out], device);
    assert_eq!(object["outputs"][0]["shape"], serde_json::json!([1, 257, 257, CLASSES]));
    let classes = classes(&Path::new(&out).join("out_0.npy"));
    let golden = image::open(shared("images/segmentation_golden.png")).expect("a picture").to_luma8();
    assert_eq!((golden.dimensions(), classes.len()), ((257, 257), 257 * 257));
    let same = classes.iter().zip(golden.as_raw()).filter(|(class, pixel)| **class * 10 == usize::from(**pixel));
    let part = same.count() as f64 / classes.len() as f64;
    println!("segmentation {device:?}: {:.2} % of the pixels", part * 100.0);
    assert!(part >= 0.99, "{device:?}: only {:.2} % of the pixels", part * 100.0);
}

/// Returns the most likely class of each pixel, from a `.npy` file of float32 scores.
fn classes(path: &Path) -> Vec<usize> {
    let bytes = fs::read(path).expect("the output");
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let (words, rest) = bytes[10 + header..].as_chunks::<4>();
    assert!(rest.is_empty());
    let scores: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    let (pixels, rest) = scores.as_chunks::<CLASSES>();
    assert!(rest.is_empty());
    let largest = |scores: &[f32; CLASSES]| (0..CLASSES).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
    pixels.iter().map(|scores| largest(scores).expect("there are classes")).collect()
}

#[test]
fn pictures_are_classified_and_segmented_on_the_cpu() {
    assert_classes("mobilenet_v1_0.25_224_float", &["--delegate", "cpu"]);
    assert_segments(&["--delegate", "cpu"]);
}

#[cfg(feature = "gpu")]
#[test]
fn pictures_are_classified_and_segmented_on_the_gpu() {
    assert_classes("mobilenet_v1_0.25_224_float", &["--delegate", "gpu", "--require-delegation"]);
    assert_segments(&["--delegate", "gpu", "--require-delegation"]);
}

/// Draws what the model finds on the picture, and returns the picture before and after.
fn drawn(model: &str, picture: &str, more: &[&str]) -> [image::RgbImage; 2] {
    let (scratch, picture) = (Scratch::new(), shared(&format!("images/{picture}")));
    let (model, out) = (shared(&format!("models/{model}.tflite")), scratch.path("out.png"));
    run(&[&model, "--input", &picture, "--draw", &out], &[&["--delegate", "cpu"], more].concat());
    [&picture, &out].map(|path| image::open(path).expect("a picture").to_rgb8())
}

#[test]
fn boxes_segments_and_faces_are_drawn() {
    let labels = shared("images/coco_labels.txt");
    let boxes = drawn("ssd_mobilenet_v1_coco_quant", "cats_and_dogs.jpg", &["--labels", &labels]);
    let segments = drawn("deeplabv3_257_mv_gpu", "segmentation_input.jpg", &[]);
    let faces = drawn("blazeface_short_range", "segmentation_input.jpg", &[]);
    for ([before, after], least, most) in [(boxes, 0.02, 0.25), (segments, 0.4, 0.9), (faces, 0.005, 0.1)] {
        // Small pictures are enlarged by a whole number.
        let factor = after.width() / before.width();
        assert_eq!((before.width() * factor, before.height() * factor), after.dimensions());
        let all = before.width() * before.height();
        let places = before.enumerate_pixels();
        let far = |a: &image::Rgb<u8>, b: &image::Rgb<u8>| a.0.iter().zip(b.0).any(|(a, b)| a.abs_diff(b) > 60);
        let changed =
            places.filter(|(x, y, it)| far(it, after.get_pixel(x * factor + factor / 2, y * factor + factor / 2)));
        let part = changed.count() as f64 / f64::from(all);
        assert!((least..most).contains(&part), "{part}");
    }
}

#[test]
fn pictures_are_understood_in_integers() {
    assert_classes("mobilenet_v2_1.0_224_quant", &["--delegate", "cpu"]);
    assert_detections(&["--delegate", "cpu"]);
}

#[cfg(feature = "gpu")]
#[test]
fn quantized_models_understand_pictures_on_the_gpu() {
    for quantized in ["view", "exact"] {
        let device = ["--delegate", "gpu", "--quantized", quantized];
        assert_classes("mobilenet_v2_1.0_224_quant", &[&device[..], &["--require-delegation"]].concat());
        assert_detections(&device);
    }
}

/// An operator's subgraph, its index in the subgraph, and its name.
type Operator = (usize, usize, String);

/// Returns the operators of the model that are not implemented.
fn missing(model: &Model) -> Vec<Operator> {
    match Interpreter::builder(model).threads(1).build() {
        Ok(_) => Vec::new(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            let places = error.places().iter().map(|place| {
                let (index, name) = place.operator.clone().expect("an operator");
                (place.subgraph.expect("a subgraph"), index, name)
            });
            places.collect()
        }
    }
}

#[test]
fn inspect_tells_how_models_are_quantized() {
    let kinds = [
        ("mobilenet_v1_0.25_224_float", "float"),
        ("blazeface_short_range", "float16_weights"),
        ("style_transfer_f16_384", "float16_weights"),
        ("mlperf_tiny_kws_float", "dynamic_range"),
        ("style_transfer_dynamic_range", "dynamic_range"),
        ("mobilenet_v2_1.0_224_quant", "uint8"),
        ("ssd_mobilenet_v1_coco_quant", "uint8"),
        ("deeplabv3_mnv2_dm05_pascal_quant", "uint8"),
        ("mobilenet_v2_1.0_224_ptq_int8", "int8"),
        ("posenet_mobilenet_v1_100_257_integer_quant", "int8"),
        ("edsr_f32b5_full_int8", "int8"),
        ("mlperf_tiny_resnet8_int8", "int8"),
    ];
    for (name, kind) in kinds {
        let model = shared(&format!("models/{name}.tflite"));
        let object = attache(&["inspect", &model, "--json"]).object();
        assert_eq!(object["kind"]["name"], kind, "{name}: {}", object["kind"]["text"]);
        let text = attache(&["inspect", &model]).stdout;
        let line = format!("kind: {}", object["kind"]["text"].as_str().expect("text"));
        assert!(text.lines().any(|it| it == line), "{name}: no \"{line}\" in {text}");
    }
}

#[test]
fn every_model_is_inspected_and_no_gap_is_left_out() {
    let entries = fs::read_dir(shared("models")).expect("a folder").map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|it| it == "tflite")).collect();
    paths.sort();
    assert!(paths.len() >= 20, "there are only {} models", paths.len());
    for path in &paths {
        let text = attache(&["inspect", path.to_str().expect("text")]);
        assert_eq!(text.status, 0, "{path:?}: {}", text.stderr);
        let object = attache(&["inspect", path.to_str().expect("text"), "--json"]).object();
        let model = Model::from_path(path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(object["nodes"].as_array().unwrap().len(), model.subgraphs()[0].operators.len(), "{path:?}");
        assert_gaps(path, &object, &text.stdout, &missing(&model));
    }
}

/// Asserts that the JSON object and the text list the missing operators as gaps.
fn assert_gaps(path: &Path, object: &Value, text: &str, missing: &[Operator]) {
    let gaps = object["gaps"].as_array().expect("a list");
    let integer = |value: &Value| value.as_u64().expect("an integer") as usize;
    let name = |gap: &Value| gap["operator"].as_str().expect("text").to_owned();
    let found = gaps.iter().map(|gap| (integer(&gap["subgraph"]), integer(&gap["index"]), name(gap)));
    assert_eq!(found.collect::<Vec<_>>(), missing, "{path:?}");
    for gap in gaps {
        let (operator, reason) = (name(gap), gap["reason"].as_str().expect("text"));
        let line = format!("operator {}, {operator} version {}: {reason}", gap["index"], gap["version"]);
        assert!(text.contains(&line), "{path:?}: no \"{line}\" in {text}");
    }
    println!("{}: {} gaps", path.file_stem().expect("a name").display(), gaps.len());
}
