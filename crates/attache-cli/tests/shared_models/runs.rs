//! Tests `attache run` with real models: shapes that error messages propose are accepted, and labels must fit
//! the model.
//!
//! The models and images are in the folders `models` and `images` of `$ATTACHE_SHARED`, by default `../shared` beside
//! the workspace.

use std::fs;
use std::path::PathBuf;

use attache::{DataType, Model};

use crate::support::{Answer, Scratch, attache, npy};

/// Returns the bytes of a `.npy` file of zeros.
fn zeros(data_type: DataType, shape: &[usize]) -> Vec<u8> {
    let code = match data_type {
        DataType::UInt8 => "|u1",
        DataType::Int8 => "|i1",
        _ => "<f4",
    };
    let size = data_type.byte_size(shape.iter().product()).expect("a size");
    npy(code, shape, &vec![0; size])
}

/// Returns the path of a file or folder of the shared collection, which must exist.
fn shared(name: &str) -> PathBuf {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared");
    let shared = std::env::var_os("ATTACHE_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = shared.join(name);
    assert!(path.exists(), "{} isn't there; set ATTACHE_SHARED to the folder that holds it", path.display());
    path
}

fn text(path: PathBuf) -> String {
    path.to_str().expect("text").to_owned()
}

fn run(arguments: &[&str]) -> Answer {
    attache(&[&["run", "--delegate", "cpu"], arguments].concat())
}

/// Returns shapes that differ from an input's shape in the file. They are small, since the test runs the
/// proposed shapes.
fn foreign(shape: &[usize]) -> Vec<Vec<usize>> {
    match *shape {
        [batch, height, width, channels] => {
            let mut shapes =
                vec![vec![batch, 32, 48, channels], vec![2, 8, 8, channels], vec![batch, height, width, 5]];
            if height * width < 100_000 {
                shapes.push(vec![height, width, channels]);
            }
            shapes.into_iter().filter(|other| other != shape).collect()
        }
        _ => vec![[&[1], shape].concat(), shape.iter().map(|extent| extent + 1).collect()],
    }
}

#[test]
fn what_errors_propose_works_for_every_model() {
    let scratch = Scratch::new();
    let mut paths: Vec<_> = fs::read_dir(shared("models")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tflite"));
    paths.sort();
    let (mut shapes, mut reshapes) = (0, 0);
    for path in paths {
        let model = Model::from_path(&path).unwrap();
        let path = text(path);
        let subgraph = &model.subgraphs()[0];
        for (index, tensor) in subgraph.inputs.iter().enumerate() {
            let tensor = &subgraph.tensors[*tensor];
            for shape in foreign(&tensor.shape) {
                let named = |file: String| format!("{}={file}", tensor.name);
                let file = scratch.write("x.npy", &zeros(tensor.data_type, &shape));
                let answer = run(&[&path, "--input", &named(file.clone())]);
                assert_eq!(answer.status, 2, "{path} {index} {shape:?}: {}", answer.stderr);
                let said = answer.stderr;
                let followed = if let Some((_, option)) = said.split_once("; --shape ") {
                    shapes += 1;
                    let option = option.split([' ', '\'']).find(|word| !word.is_empty()).unwrap();
                    run(&[&path, "--input", &named(file), "--shape", option])
                } else if let Some((_, extents)) = said.split_once("save array.reshape(") {
                    reshapes += 1;
                    let extents = extents.trim_end().trim_end_matches(')').split(", ");
                    let shape: Vec<usize> = extents.map(|extent| extent.parse().unwrap()).collect();
                    let file = scratch.write("x.npy", &zeros(tensor.data_type, &shape));
                    run(&[&path, "--input", &named(file)])
                } else {
                    assert!(said.contains("the model takes no such shape"), "{path} {index} {shape:?}: {said}");
                    continue;
                };
                assert_eq!(followed.status, 0, "{path} {index} {shape:?}: {said}: {}", followed.stderr);
            }
        }
    }
    println!("{shapes} shapes and {reshapes} arrays were proposed and taken");
    assert!(shapes > 5 && reshapes > 5, "{shapes} {reshapes}");
}

#[test]
fn labels_that_metadata_names_but_the_file_lacks_are_a_warning() {
    let scratch = Scratch::new();
    for name in ["mobilenet_v1_0.25_224_quant", "mobilenet_v2_1.0_224_ptq_int8"] {
        let bytes = fs::read(shared(&format!("models/{name}.tflite"))).unwrap();
        let archive = bytes.windows(4).rposition(|window| window == b"PK\x03\x04").expect("an archive");
        let model = scratch.write("cut.tflite", &bytes[..archive]);
        let picture = text(shared("images/sunflower.png"));
        let answer = run(&[&model, "--input", &picture, "--json"]);
        assert_eq!(answer.status, 0, "{}", answer.stdout);
        assert!(answer.stderr.starts_with("warning: the labels of the model"), "{name}: {}", answer.stderr);
        assert_eq!(answer.object()["top"], serde_json::json!([]));
        let labels = text(shared("images/imagenet_labels.txt"));
        let object = run(&[&model, "--input", &picture, "--labels", &labels, "--json"]).object();
        assert_eq!(object["top"][0]["label"], "daisy", "{name}");
    }
}

#[test]
fn labels_of_another_number_are_refused() {
    let scratch = Scratch::new();
    let head = |name: &str, count: usize| {
        let labels = fs::read_to_string(shared(&format!("images/{name}"))).unwrap();
        let lines: Vec<_> = labels.lines().take(count).collect();
        scratch.write(&format!("{count}.txt"), lines.join("\n").as_bytes())
    };
    let classifier = text(shared("models/mobilenet_v1_0.25_224_float.tflite"));
    let detector = text(shared("models/ssd_mobilenet_v1_coco_quant.tflite"));
    let cases = [
        (&classifier, head("imagenet_labels.txt", 1000), "1000 labels for the 1001 classes"),
        (&classifier, head("imagenet_labels.txt", 90), "90 labels for the 1001 classes"),
        (&detector, head("coco_labels.txt", 80), "80 labels for the 90 classes"),
    ];
    for (model, labels, expected) in cases {
        let answer = run(&[model, "--labels", &labels]);
        let said = answer.stderr.contains(expected) && answer.stderr.contains(&labels);
        assert!(answer.status == 2 && said, "{}", answer.stderr);
    }
}

#[test]
fn a_detectors_finds_are_limited_to_the_best() {
    let detector = text(shared("models/ssd_mobilenet_v1_coco_quant.tflite"));
    let (picture, labels) = (text(shared("images/cats_and_dogs.jpg")), text(shared("images/coco_labels.txt")));
    let found = |more: &[&str]| {
        let object = run(&[&[&detector, "--input", &picture, "--labels", &labels, "--json"], more].concat()).object();
        let scores = object["detections"].as_array().unwrap().iter().map(|it| it["score"].as_f64().unwrap());
        scores.collect::<Vec<_>>()
    };
    let all = found(&[]);
    let most = all.iter().copied().fold(0.0, f64::max);
    assert!(all.len() > 1, "{all:?}");
    assert_eq!(found(&["--top", "1"]), [most]);
}

/// Checks that `--mean` and `--std`, which request the normalization that the metadata also specifies, affect
/// quantized models as they affect float models.
#[test]
fn a_mean_and_a_deviation_change_what_a_quantized_model_sees() {
    let model = text(shared("models/mobilenet_v2_1.0_224_quant.tflite"));
    let (picture, labels) = (text(shared("images/sunflower.png")), text(shared("images/imagenet_labels.txt")));
    let top = |more: &[&str]| {
        let object = run(&[&[&model, "--input", &picture, "--labels", &labels, "--json"], more].concat()).object();
        object["top"].clone()
    };
    assert_eq!(top(&["--mean", "127.5", "--std", "127.5"])[0]["label"], "daisy");
    assert_ne!(top(&["--mean", "0", "--std", "1000"])[0], top(&[])[0]);
}
