//! Tests class names from files and from models. There must be one name for each class.

use crate::support::{Answer, Scratch, attache, floats, relu_of, zip};

/// Returns a classifier of four classes that passes its input on as scores, with negative ones set to 0.
fn classifier() -> Vec<u8> {
    relu_of(["scores", "classes"], &[1, 4], None)
}

struct Bench {
    scratch: Scratch,
    model: String,
    input: String,
}

impl Bench {
    fn new(model: &[u8]) -> Self {
        let scratch = Scratch::new();
        let model = scratch.write("m.tflite", model);
        let input = scratch.write("x.npy", &floats(&[1, 4], &[0.1, 0.6, 0.0, 0.3]));
        Self { scratch, model, input }
    }

    fn run(&self, more: &[&str]) -> Answer {
        attache(&[&["run", &self.model, "--delegate", "cpu", "--input", &self.input], more].concat())
    }

    fn labels(&self, count: usize) -> String {
        let lines: Vec<_> = (0..count).map(|index| format!("class {index}\n")).collect();
        self.scratch.write(&format!("labels{count}.txt"), lines.concat().as_bytes())
    }
}

#[test]
fn a_threshold_is_for_classifiers_too() {
    let bench = Bench::new(&classifier());
    let labels = bench.labels(4);
    let named = |more: &[&str]| {
        let object = bench.run(&[more, &["--json"]].concat()).object();
        object["top"].as_array().unwrap().iter().map(|class| class["index"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(named(&["--labels", &labels]), [1, 3, 0, 2]);
    assert_eq!(named(&["--labels", &labels, "--threshold", "0.2"]), [1, 3]);
    assert_eq!(named(&["--threshold", "0.2"]), [1, 3]);
    assert_eq!(named(&["--labels", &labels, "--threshold", "0.2", "--top", "1"]), [1]);
    assert_eq!(named(&[]), [] as [u64; 0]);
    let text = bench.run(&["--threshold", "0.9"]).stdout;
    assert!(text.contains("no class has such a score"), "{text}");
}

#[test]
fn labels_of_another_number_are_an_error_that_loses_nothing() {
    let bench = Bench::new(&classifier());
    for (count, remedy) in
        [(3, "begin the file with the line \"background\""), (5, "one line for each class"), (1, "1 label ")]
    {
        let labels = bench.labels(count);
        let answer = bench.run(&["--labels", &labels]);
        assert_eq!(answer.status, 2, "{count}: {}", answer.stdout);
        for part in [&labels, &format!("{count} label"), "4 classes", "\"classes\"", remedy] {
            assert!(answer.stderr.contains(part), "{count}: no {part} in {}", answer.stderr);
        }
    }
    let empty = bench.scratch.write("empty.txt", b"\n\n");
    let answer = bench.run(&["--labels", &empty]);
    assert!(answer.status == 2 && answer.stderr.contains("there are no labels in it"), "{}", answer.stderr);
}

#[test]
fn a_background_that_the_model_does_not_count_is_left_out() {
    let bench = Bench::new(&classifier());
    for first in ["background", "Background", "???"] {
        let labels = bench.scratch.write("labels.txt", format!("{first}\na\nb\nc\nd\n").as_bytes());
        let object = bench.run(&["--labels", &labels, "--json"]).object();
        assert_eq!(object["top"][0]["label"], "b", "{first}");
    }
    let labels = bench.scratch.write("labels.txt", b"background\na\nb\nc\n");
    assert_eq!(bench.run(&["--labels", &labels, "--json"]).object()["top"][0]["label"], "a");
}

#[test]
fn what_has_no_classes_cannot_name_them() {
    let bench = Bench::new(&relu_of(["x", "map"], &[1, 2, 2, 3], None));
    let labels = bench.labels(4);
    for more in [&["--labels", &labels][..], &["--top", "2"], &["--threshold", "0.5"]] {
        let answer = attache(&[&["run", &bench.model, "--delegate", "cpu"], more].concat());
        assert_eq!(answer.status, 2, "{more:?}: {}", answer.stdout);
        let said = answer.stderr.contains("[1, 2, 2, 3]") && answer.stderr.contains(more[0]);
        assert!(said, "{more:?}: {}", answer.stderr);
    }
}

#[test]
fn a_model_whose_labels_are_no_use_runs_without() {
    let archive = |content: &[u8], is_whole| [&classifier()[..], &zip("labels.txt", content, is_whole)].concat();
    let bench = Bench::new(&archive(b"a\nb\nc\nd\n\n", true));
    let answer = bench.run(&["--json"]);
    assert_eq!((answer.object()["top"][0]["label"].as_str(), answer.stderr.as_str()), (Some("b"), ""));
    let damaged = archive(b"a\nb\nc\nd\n", false);
    let (few, binary) = (archive(b"a\nb\n", true), archive(&[0xff, 0xfe, b'\n'], true));
    for (model, text) in [(damaged, "damaged"), (few, "2 labels for the 4 classes"), (binary, "not text")] {
        let bench = Bench::new(&model);
        let answer = bench.run(&["--json"]);
        assert_eq!(answer.status, 0, "{}", answer.stdout);
        assert_eq!(answer.object()["top"], serde_json::json!([]));
        assert!(answer.stderr.starts_with("warning: ") && answer.stderr.contains(text), "{text}: {}", answer.stderr);
        let object = bench.run(&["--top", "1", "--json"]).object();
        assert_eq!(
            object["top"],
            serde_json::json!([{ "index": 1, "label": null, "score": object["top"][0]["score"] }])
        );
        let labels = bench.labels(4);
        assert_eq!(bench.run(&["--labels", &labels, "--json"]).object()["top"][0]["label"], "class 1");
    }
}
