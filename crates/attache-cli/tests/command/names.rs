//! Tests names of files that are not UTF-8. In messages and JSON their other bytes are replacement characters.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::support::{Answer, Scratch, attache_of, floats, png, relu, relu_of};

/// Appends a byte that no UTF-8 has, and an ending.
fn odd(path: &str, ending: &str) -> OsString {
    OsStr::from_bytes(&[path.as_bytes(), b"\xff", ending.as_bytes()].concat()).to_owned()
}

fn run(words: &[&OsStr]) -> Answer {
    let answer = attache_of(&[words, &[OsStr::new("--json")]].concat());
    assert_eq!(answer.status, 0, "{words:?}: {}{}", answer.stdout, answer.stderr);
    answer
}

#[test]
fn inputs_outputs_and_folders_may_have_any_name() {
    let scratch = Scratch::new();
    let [model, input] = [odd(&scratch.path("m"), ""), odd(&scratch.path("x"), ".npy")];
    let (folder, cache) = (odd(&scratch.path("out"), ""), odd(&scratch.path("cache"), ""));
    fs::write(&model, relu()).unwrap();
    fs::write(&input, floats(&[1, 2, 2, 1], &[1.0; 4])).unwrap();
    let by_name = [OsStr::new("x="), &input].map(OsStr::as_bytes).concat();
    for given in [&input, &OsStr::from_bytes(&by_name).to_owned()] {
        let words = ["run", "-d", "cpu", "-i"].map(OsStr::new);
        let words = [&words, &[given, &model, OsStr::new("-o"), &folder, OsStr::new("--cache"), &cache][..]].concat();
        let object = run(&words).object();
        assert!(object["files"][0].as_str().unwrap().ends_with("out\u{fffd}/out_0.npy"), "{object}");
        assert!(object["inputs"][0]["file"].as_str().unwrap().ends_with("x\u{fffd}.npy"), "{object}");
    }
    assert!(std::path::Path::new(&folder).join("out_0.npy").is_file());
    for action in ["list", "verify", "clear"] {
        for folder in [&cache, &folder, &odd(&scratch.path("none"), "")] {
            let words = [OsStr::new("cache"), OsStr::new(action), OsStr::new("--cache"), folder];
            assert!(run(&words).object()["folder"].as_str().unwrap().ends_with('\u{fffd}'));
        }
    }
}

#[test]
fn drawings_and_models_may_have_any_name() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &relu_of(["x", "y"], &[1, 4, 4, 3], None));
    let (picture, drawing) = (odd(&scratch.path("in"), ".png"), odd(&scratch.path("out"), ".png"));
    fs::write(&picture, png(4, 4, [200, 100, 0])).unwrap();
    let words = ["run", &model, "-d", "cpu", "-i"].map(OsStr::new);
    let object = run(&[&words, &[&picture, OsStr::new("--draw"), &drawing][..]].concat()).object();
    assert!(object["drawn"].as_str().unwrap().ends_with("out\u{fffd}.png"), "{object}");
    let built_in = odd(&scratch.path("zoo"), ".tflite");
    let object = run(&[OsStr::new("zoo"), OsStr::new("lstm_128"), OsStr::new("-o"), &built_in]).object();
    assert!(object["file"].as_str().unwrap().ends_with("zoo\u{fffd}.tflite"), "{object}");
}
