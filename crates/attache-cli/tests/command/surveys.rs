//! Tests `attache survey`: every model below a folder is named, broken ones too.

use crate::support::{Scratch, attache, relu, unknown};

#[test]
fn every_model_is_named_and_broken_ones_stop_nothing() {
    let scratch = Scratch::new();
    let folder = scratch.folder("models");
    scratch.folder("models/deep");
    let whole = relu();
    for number in 0..100 {
        scratch.write(&format!("models/{number:03}_relu.tflite"), &whole);
        scratch.write(&format!("models/deep/{number:03}_cut.tflite"), &whole[..whole.len() * number / 100]);
    }
    scratch.write("models/unknown.bin", &unknown());
    scratch.write("models/notes.txt", b"no model");
    let answer = attache(&["survey", &folder, "--json"]);
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let object = answer.object();
    let files = object["files"].as_array().unwrap();
    assert_eq!(files.len(), 201);
    let opens = |prefix: &str| {
        let named = files.iter().filter(|file| file["file"].as_str().unwrap().starts_with(prefix));
        named.filter(|file| file["opens"] == true).count()
    };
    assert_eq!((opens("0"), opens("unknown"), opens("deep")), (100, 1, 0));
    let broken = files.iter().filter(|file| file["opens"] == false);
    assert!(broken.clone().count() == 100 && broken.into_iter().all(|file| file["error"].is_string()));
    let names: Vec<_> =
        object["operators"].as_array().unwrap().iter().map(|one| one["operator"].as_str().unwrap()).collect();
    assert!(names.contains(&"RELU"), "{names:?}");
    // The model with unknown operators has two of them.
    assert_eq!((object["next"].as_array().unwrap().len(), &object["next"][0]["files"]), (2, &1.into()));
    let text = attache(&["survey", &folder]);
    assert!(
        text.status == 0 && text.stdout.contains("099_cut.tflite") && text.stdout.contains("What to implement next")
    );
    assert!(
        text.stdout.trim_end().ends_with("201 models: 101 can be opened, 100 of them without gaps."),
        "{}",
        text.stdout
    );
}

#[test]
fn a_folder_without_models_is_a_wrong_argument() {
    let scratch = Scratch::new();
    let folder = scratch.folder("nothing");
    let answer = attache(&["survey", &folder]);
    assert!(answer.status == 2 && answer.stderr.contains("there is no model in this folder"), "{}", answer.stderr);
    let answer = attache(&["survey", &scratch.write("file.tflite", &relu())]);
    assert!(answer.status == 2 && answer.stderr.contains("this is no folder"), "{}", answer.stderr);
}
