//! `attache eval` and the evaluations of `attache tflite`: accuracies, the metrics of COCO, and bad parts of data sets.

use std::fs;

use attache::model::schema::BuiltinOperator;
use attache::{Bytes, DataType, ModelBuilder, OperatorBuilder, TensorBuilder};
use serde_json::{Value, json};

use crate::support::{Scratch, attache, png};

/// Returns a model whose four scores are the four pixels of a grey picture.
fn pixels() -> Vec<u8> {
    let mut builder = ModelBuilder::new("pixels");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [1, 2, 2, 1]));
    let extents = [1i32, 4].iter().flat_map(|extent| extent.to_le_bytes()).collect();
    let shape = TensorBuilder::new("shape", DataType::Int32, [2]).data(Bytes::from_vec(extents));
    let shape = builder.tensor(main, shape);
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [1, 4]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RESHAPE, [x, shape], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Returns a PNG of 2 × 2 grey pixels.
fn grey(values: [u8; 4]) -> Vec<u8> {
    let picture = image::GrayImage::from_raw(2, 2, values.to_vec()).expect("four pixels");
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, image::ImageFormat::Png).expect("a picture");
    bytes.into_inner()
}

/// Writes a data set of 60 pictures with few values, so that many are equal. Returns the values and classes.
fn data_set(scratch: &Scratch) -> Vec<([u8; 4], usize)> {
    let mut state = 9u32;
    let mut random = |count: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % count
    };
    let rows: Vec<([u8; 4], usize)> =
        (0..60).map(|_| ([0; 4].map(|_: u8| random(3) as u8 * 60), random(4) as usize)).collect();
    for (index, (values, _)) in rows.iter().enumerate() {
        scratch.write(&format!("pictures/p{index:02}.png"), &grey(*values));
    }
    let labels: Vec<String> = rows.iter().map(|(_, class)| ["ant", "bee", "cat", "dog"][*class].to_owned()).collect();
    scratch.write("truth.txt", labels.join("\n").as_bytes());
    scratch.write("labels.txt", b"ant\nbee\ncat\ndog\n");
    rows
}

/// Returns the place of a class in a stable descending sort of the scores.
fn rank(scores: &[u8; 4], class: usize) -> usize {
    let mut order: Vec<usize> = (0..4).collect();
    order.sort_by(|one, other| scores[*other].cmp(&scores[*one]));
    order.iter().position(|it| *it == class).unwrap()
}

fn classification(scratch: &Scratch, more: &[&str]) -> (i32, Value, String) {
    let model = scratch.write("m.tflite", &pixels());
    let [pictures, truth, labels] = ["pictures", "truth.txt", "labels.txt"].map(|name| scratch.path(name));
    let arguments = ["eval", "classification", &model, "--images", &pictures, "--truth", &truth, "--labels", &labels];
    let device = ["--delegate", "cpu", "--json"];
    let answer = attache(&[&arguments[..], &device, more].concat());
    (answer.status, answer.object(), answer.stderr)
}

#[test]
fn accuracies_follow_a_stable_descending_sort() {
    let scratch = Scratch::new();
    let rows = data_set(&scratch);
    let expected: Vec<usize> =
        (1..=10).map(|most| rows.iter().filter(|(scores, class)| rank(scores, *class) < most).count()).collect();
    for workers in ["1", "3"] {
        let (status, object, errors) = classification(&scratch, &["--workers", workers]);
        assert_eq!((status, &object["hits"], object["images"].as_u64()), (0, &json!(expected), Some(60)), "{errors}");
        let confused: u64 =
            object["confusion"].as_array().unwrap().iter().map(|it| it["count"].as_u64().unwrap()).sum();
        assert_eq!(confused, 60);
    }
    let model = scratch.path("m.tflite");
    let flags = [
        format!("--model_file={model}"),
        format!("--ground_truth_images_path={}", scratch.path("pictures")),
        format!("--ground_truth_labels={}", scratch.path("truth.txt")),
        format!("--model_output_labels={}", scratch.path("labels.txt")),
        format!("--output_file_path={}", scratch.path("metrics.pbtxt")),
        "--cropping_fraction=1".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let answer = attache(&[&["tflite", "image_classification_eval"], &flags[..]].concat());
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    assert!(answer.stdout.contains("Num evaluation runs: 60\n"), "{}", answer.stdout);
    for (index, hits) in expected.iter().enumerate() {
        let line = answer.stdout.lines().find_map(|line| line.strip_prefix(&format!("Top-{} Accuracy: ", index + 1)));
        let accuracy: f64 = line.expect("a line").parse().expect("a number");
        assert!((accuracy - *hits as f64 / 60.0).abs() < 1e-6, "{}", answer.stdout);
    }
    let text = fs::read_to_string(scratch.path("metrics.pbtxt")).unwrap();
    assert_eq!((text.matches("topk_accuracies: ").count(), text.starts_with("num_runs: 60\n")), (10, true), "{text}");
}

#[test]
fn what_is_wrong_with_a_data_set_is_named_and_the_rest_evaluated() {
    let scratch = Scratch::new();
    data_set(&scratch);
    let truth = fs::read_to_string(scratch.path("truth.txt")).unwrap();
    let lines: Vec<&str> = truth.lines().collect();
    let with = |text: &str| {
        scratch.write("truth.txt", text.as_bytes());
        let (status, object, _) = classification(&scratch, &[]);
        let problems: Vec<String> =
            object["problems"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect();
        (status, object["images"].as_u64().unwrap(), problems)
    };
    let assert_one = |(status, images, problems): (i32, u64, Vec<String>), count: u64, part: &str| {
        assert_eq!((status, images, problems.len()), (2, count, 1), "{problems:?}");
        assert!(problems[0].contains(part), "{problems:?}");
    };
    assert_one(with(&lines[..50].join("\n")), 50, "50 labels for 60 pictures");
    let mut changed = lines.clone();
    changed[7] = "4";
    assert_one(with(&changed.join("\n")), 59, "p07.png (line 8 of the labels): no class has the name \"4\"");
    changed[7] = "0";
    assert_one(with(&changed.join("\n")), 59, "no class has the name \"0\"");
    let mut numbers = vec!["1"; 60];
    numbers[7] = "4";
    assert_one(with(&numbers.join("\n")), 59, "p07.png (line 8 of the labels): class 4 is out of range");
    changed[7] = "bird";
    assert_one(with(&changed.join("\n")), 59, "no class has the name \"bird\"");
    scratch.write("pictures/p31.png", b"\x89PNG\r\n\x1a\nnothing");
    assert_one(with(&truth), 59, "p31.png: the picture can't be read");
    fs::remove_file(scratch.path("pictures/p31.png")).unwrap();
    assert_one(with(&truth), 59, "p31.png: there is no such picture");
    let named: Vec<String> =
        lines.iter().enumerate().map(|(index, label)| format!("p{index:02}.png,{label}")).collect();
    assert_one(with(&named.join("\n")), 59, "p31.png: there is no such picture");
    scratch.write("labels.txt", b"ant\nbee\n");
    let (status, images, problems) = with(&vec!["1"; 59].join("\n"));
    assert_eq!((status, images), (2, 59));
    assert!(problems[0].contains("labels.txt: 2 labels for the 4 classes"), "{problems:?}");
}

#[test]
fn classes_of_one_name_are_one() {
    let scratch = Scratch::new();
    let rows = data_set(&scratch);
    let labels = ["crane", "dog", "crane", "ant"];
    scratch.write("labels.txt", labels.join("\n").as_bytes());
    let truth: Vec<&str> = rows.iter().map(|(_, class)| labels[*class]).collect();
    scratch.write("truth.txt", truth.join("\n").as_bytes());
    let best = |(scores, class): &&([u8; 4], usize)| {
        let first = (0..4).find(|place| rank(scores, *place) == 0).unwrap();
        labels[first] == labels[*class]
    };
    let (status, object, _) = classification(&scratch, &[]);
    assert_eq!((status, &object["hits"][0]), (0, &json!(rows.iter().filter(best).count())));
}

#[test]
fn what_cannot_be_evaluated_at_all_is_an_error() {
    let scratch = Scratch::new();
    data_set(&scratch);
    let model = scratch.write("m.tflite", &pixels());
    let pictures = scratch.path("pictures");
    let fails = |arguments: &[&str], status: i32, part: &str| {
        let answer = attache(&[&["eval", "classification"], arguments, &["--delegate", "cpu"]].concat());
        assert_eq!(answer.status, status, "{}{}", answer.stdout, answer.stderr);
        assert!(answer.stdout.is_empty() && answer.stderr.contains(part), "{}", answer.stderr);
    };
    fails(&[&model, "--images", "no-folder", "--truth", &scratch.path("truth.txt")], 2, "no-folder: there is no such");
    fails(&[&model, "--images", &pictures, "--truth", "no.txt"], 2, "no.txt: there is no such file");
    scratch.write("empty/a.txt", b"");
    fails(&[&model, "--images", &scratch.path("empty"), "--truth", &scratch.path("truth.txt")], 2, "no picture in it");
    fails(&[&model, "--images", &pictures, "--truth", &scratch.path("truth.txt"), "--crop", "0"], 2, "above 0");
    let sum = scratch.write("sum.tflite", &crate::support::add(["x", "y"], &[1, 2, 2, 3]));
    fails(&[&sum, "--images", &pictures, "--truth", &scratch.path("truth.txt")], 4, "one input and one output");
}

#[test]
fn nothing_evaluated_has_no_accuracy() {
    let scratch = Scratch::new();
    data_set(&scratch);
    scratch.write("truth.txt", b"bird\nbird\n");
    let (status, object, _) = classification(&scratch, &[]);
    assert_eq!((status, &object["images"], &object["accuracies"]), (2, &json!(0), &Value::Null), "{object}");
    let [model, pictures, truth] = ["m.tflite", "pictures", "truth.txt"].map(|name| scratch.path(name));
    let answer = attache(&["eval", "classification", &model, "--images", &pictures, "--truth", &truth, "-d", "cpu"]);
    assert!(answer.status == 2 && answer.stdout.contains("no picture could be evaluated"), "{}", answer.stdout);
    assert!(!answer.stdout.contains("0.0000"), "{}", answer.stdout);
}

/// Writes annotations and detections of a set in COCO's form. Returns their paths.
fn write_set(scratch: &Scratch, set: &Value) -> [String; 2] {
    let numbered = |name: &str| -> Vec<Value> {
        set[name].as_array().unwrap().iter().map(|number| json!({ "id": number, "file_name": "" })).collect()
    };
    let categories: Vec<Value> =
        set["categories"].as_array().unwrap().iter().map(|number| json!({ "id": number, "name": "" })).collect();
    let truth: Vec<Value> = set["truth"].as_array().unwrap().iter().map(|row| {
        let is_crowd = match row[0].as_i64().unwrap() % 2 {
            // Some programs write truth values.
            0 => json!(row[5] != json!(0)),
            _ => row[5].clone(),
        };
        json!({ "id": row[0], "image_id": row[1], "category_id": row[2], "bbox": row[3], "area": row[4], "iscrowd": is_crowd })
    }).collect();
    let found: Vec<Value> = set["found"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!({ "image_id": row[0], "category_id": row[1], "bbox": row[2], "score": row[3] }))
        .collect();
    let annotations = json!({ "images": numbered("images"), "categories": categories, "annotations": truth });
    let truth = scratch.write("truth.json", annotations.to_string().as_bytes());
    [truth, scratch.write("found.json", json!(found).to_string().as_bytes())]
}

/// The expected metrics are those of pycocotools (`conformance/detection.py`).
#[test]
fn detections_have_the_metrics_of_the_challenge() {
    const NAMES: [&str; 12] = [
        "ap",
        "ap_50",
        "ap_75",
        "ap_small",
        "ap_medium",
        "ap_large",
        "ar_1",
        "ar_10",
        "ar_100",
        "ar_small",
        "ar_medium",
        "ar_large",
    ];
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/detection/sets.json");
    let sets: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let sets = sets.as_array().unwrap();
    assert_eq!(sets.len(), 200);
    let scratch = Scratch::new();
    let mut worst = 0.0f64;
    for (index, set) in sets.iter().enumerate() {
        let [truth, found] = write_set(&scratch, set);
        let answer = attache(&["eval", "detection", "--truth", &truth, "--detections", &found, "--json"]);
        assert_eq!(answer.status, 0, "set {index}: {}", answer.stderr);
        let object = answer.object();
        for (name, expected) in NAMES.iter().zip(set["metrics"].as_array().unwrap()) {
            let error = (object[*name].as_f64().unwrap() - expected.as_f64().unwrap()).abs();
            assert!(error <= 1e-9, "set {index}, {name}: {} instead of {expected}", object[*name]);
            worst = worst.max(error);
        }
    }
    println!("200 sets, worst error {worst:e}");
}

/// Returns a detector that finds the same three boxes in each picture of 8 × 8 pixels.
fn detector() -> Vec<u8> {
    let mut builder = ModelBuilder::new("detector");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [1, 8, 8, 3]));
    let unused = builder.tensor(main, TensorBuilder::new("unused", DataType::Float32, [1, 8, 8, 3]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [unused]));
    let mut constant = |name: &str, shape: &[usize], values: &[f32]| {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let data =
            builder.tensor(main, TensorBuilder::new(name, DataType::Float32, shape).data(Bytes::from_vec(bytes)));
        let output = builder.tensor(main, TensorBuilder::new(&format!("{name} out"), DataType::Float32, shape));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::ABS, [data], [output]));
        output
    };
    let boxes = constant("boxes", &[1, 3, 4], &[0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 0.1, 0.1, 0.2, 0.2]);
    let classes = constant("classes", &[1, 3], &[0.0, 1.0, 6.0]);
    let scores = constant("scores", &[1, 3], &[0.9, 0.8, 0.7]);
    let count = constant("count", &[1], &[3.0]);
    builder.inputs(main, &[x]).outputs(main, &[boxes, classes, scores, count]);
    builder.finish()
}

#[test]
fn a_detector_is_evaluated_on_pictures() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &detector());
    scratch.write("pictures/a.png", &png(100, 50, [9, 9, 9]));
    scratch.write("pictures/b.png", b"nothing");
    let annotation = |id: u32, category: u32, bbox: [f64; 4]| json!({ "id": id, "image_id": 1, "category_id": category, "bbox": bbox, "area": 1250.0, "iscrowd": 0 });
    let truth = json!({
        "images": [{ "id": 1, "file_name": "a.png" }, { "id": 2, "file_name": "b.png" }, { "id": 3, "file_name": "c.png" }],
        "categories": [{ "id": 1, "name": "cat" }, { "id": 2, "name": "dog" }],
        "annotations": [
            annotation(1, 1, [0.0, 0.0, 50.0, 25.0]), annotation(2, 2, [50.0, 25.0, 50.0, 25.0]),
            annotation(3, 9, [0.0, 0.0, 1.0, 1.0]),
        ],
    });
    let truth = scratch.write("truth.json", truth.to_string().as_bytes());
    let (pictures, written) = (scratch.path("pictures"), scratch.path("found.json"));
    let common = ["eval", "detection", &model, "--images", &pictures, "--truth", &truth, "--delegate", "cpu", "--json"];
    let answer = attache(&[&common[..], &["--write-detections", &written]].concat());
    let object = answer.object();
    assert_eq!((answer.status, object["ap"].as_f64().map(|ap| (ap * 1e6).round())), (2, Some(1e6)), "{object}");
    let problems = object["problems"].to_string();
    for part in
        ["b.png: this is neither a picture", "c.png: there is no such file", "class 6 of the model", "category 9"]
    {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    let named = attache(&[&common[..], &["--outputs", "0,1,2,3"]].concat()).object();
    assert_eq!(named["ap"], object["ap"]);
    for (outputs, part) in [("0,1,2,4", "there is no output 4"), ("0,1,2", "four whole numbers")] {
        let answer = attache(&[&common[..], &["--outputs", outputs]].concat());
        assert!(answer.status == 2 && answer.stdout.contains(part), "{}", answer.stdout);
    }
    let rows: Value = serde_json::from_str(&fs::read_to_string(&written).unwrap()).unwrap();
    assert_eq!((rows.as_array().unwrap().len(), &rows[1]["bbox"]), (2, &json!([50.0, 25.0, 50.0, 25.0])));
}

/// Evaluates the detector on a picture of 100 × 50 pixels, with these further pictures and labels. Categories are 1,
/// cat, and 2, dog, and each picture has one of them.
fn detection(scratch: &Scratch, broken: &[&str], more: &[&str]) -> (Value, String) {
    let model = scratch.write("m.tflite", &detector());
    scratch.write("pictures/a.png", &png(100, 50, [9, 9, 9]));
    broken.iter().for_each(|name| drop(scratch.write(&format!("pictures/{name}"), b"nothing")));
    let names: Vec<&str> = [&["a.png"], broken].concat();
    let images: Vec<Value> =
        names.iter().enumerate().map(|(id, name)| json!({ "id": id + 1, "file_name": name })).collect();
    let annotation = |(id, category, bbox): (usize, u32, [f64; 4])| json!({ "id": id, "image_id": id.saturating_sub(1).max(1), "category_id": category, "bbox": bbox, "area": 1250.0, "iscrowd": 0 });
    let mut boxes = vec![(1, 1, [0.0, 0.0, 50.0, 25.0]), (2, 2, [50.0, 25.0, 50.0, 25.0])];
    boxes.extend((0..broken.len()).map(|index| (index + 3, 1, [0.0, 0.0, 50.0, 25.0])));
    let annotations: Vec<Value> = boxes.into_iter().map(annotation).collect();
    let categories = [json!({ "id": 1, "name": "cat" }), json!({ "id": 2, "name": "dog" })];
    let truth = json!({ "images": images, "categories": categories, "annotations": annotations });
    let truth = scratch.write("truth.json", truth.to_string().as_bytes());
    let pictures = scratch.path("pictures");
    let common = ["eval", "detection", &model, "--images", &pictures, "--truth", &truth, "--delegate", "cpu", "--json"];
    let answer = attache(&[&common[..], more].concat());
    (answer.object(), answer.stderr)
}

#[test]
fn boxes_of_pictures_that_were_not_evaluated_do_not_count() {
    let scratch = Scratch::new();
    let (alone, _) = detection(&scratch, &[], &[]);
    let (broken, _) = detection(&scratch, &["b.png", "c.png"], &[]);
    let (first, _) = detection(&scratch, &["b.png", "c.png"], &["--count", "1"]);
    for name in ["ap", "ap_50", "ar_1", "ar_100", "ar_medium", "evaluated", "evaluated_boxes"] {
        assert_eq!((&broken[name], &first[name]), (&alone[name], &alone[name]), "{name}");
    }
    assert_eq!((alone["ap"].as_f64().map(f64::round), &alone["evaluated_boxes"]), (Some(1.0), &json!(2)));
    assert_eq!((&broken["boxes"], &broken["images"]), (&json!(4), &json!(3)));
}

#[test]
fn classes_are_names_of_categories_or_numbers_and_never_both() {
    let scratch = Scratch::new();
    let with = |labels: &str| {
        let labels = scratch.write("labels.txt", labels.as_bytes());
        let (object, errors) = detection(&scratch, &[], &["--labels", &labels]);
        (
            object["categories"]["1"].as_f64().unwrap().round(),
            object["categories"]["2"].as_f64().unwrap().round(),
            errors,
        )
    };
    let (cat, dog, errors) = with("person\ndog\n");
    assert_eq!((cat, dog), (0.0, 1.0), "{errors}");
    assert!(errors.contains("no category has the name \"person\""), "{errors}");
    let (cat, dog, errors) = with("person\nbicycle\n");
    assert_eq!((cat, dog), (1.0, 1.0), "{errors}");
    assert!(errors.contains("no label is the name of a category"), "{errors}");
}

/// Returns a field of a message of Protocol Buffers that holds bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

#[test]
fn the_field_tool_takes_a_message_as_truth() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &detector());
    scratch.write("pictures/a.png", &png(8, 8, [9, 9, 9]));
    let labels = scratch.write("labels.txt", b"background\ncat\ndog\n");
    let edges = |values: [f32; 4]| -> Vec<u8> {
        (1u8..).zip(values).flat_map(|(number, edge)| [&[number << 3 | 5][..], &edge.to_le_bytes()].concat()).collect()
    };
    let object = |class: u8, values: [f32; 4]| field(1, &[&[0x08, class][..], &field(2, &edges(values))].concat());
    let image = |name: &str, objects: &[Vec<u8>]| field(1, &[objects.concat(), field(2, name.as_bytes())].concat());
    let found = [object(1, [0.0, 0.5, 0.0, 0.5]), object(2, [0.0, 0.2, 0.8, 1.0])];
    let truth = [image("a.png", &found), image("b.png", &[])].concat();
    let truth = scratch.write("truth.pb", &truth);
    let flags = [
        format!("--model_file={model}"),
        format!("--ground_truth_images_path={}", scratch.path("pictures")),
        format!("--ground_truth_proto={truth}"),
        format!("--model_output_labels={labels}"),
        format!("--output_file_path={}", scratch.path("metrics.pbtxt")),
        "--debug_mode=true".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let answer = attache(&[&["tflite", "coco_object_detection_eval"], &flags[..]].concat());
    assert_eq!(answer.status, 2, "{}", answer.stderr);
    assert!(answer.stderr.contains("b.png: there is no such picture"), "{}", answer.stderr);
    assert!(answer.stderr.contains("class 7 of the model is out of range of the labels"), "{}", answer.stderr);
    // One class is found, the other is not.
    for line in [
        "Num evaluation runs: 1",
        "Average Precision [IOU Threshold=0.95]: 0.5",
        "Overall mAP: 0.5",
        "Image: a.png",
        "  Class-ID: 2",
    ] {
        assert!(answer.stdout.lines().any(|own| own == line), "{line}: {}", answer.stdout);
    }
    let text = fs::read_to_string(scratch.path("metrics.pbtxt")).unwrap();
    assert!(text.contains("overall_mean_average_precision: 0.5"), "{text}");
    let broken = scratch.write("truth.pb", b"images");
    let answer = attache(&[&["tflite", "coco_object_detection_eval"], &flags[..]].concat());
    assert!(
        answer.status == 2
            && answer.stderr.contains(&format!("{broken}: this is no binary ObjectDetectionGroundTruth")),
        "{}",
        answer.stderr
    );
}
