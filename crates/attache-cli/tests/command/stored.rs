//! Tests `--cache` and `attache cache`.

use std::fs;

use attache::{Interpreter, Model, zoo};

use crate::support::{Scratch, attache};

#[test]
fn what_a_run_stores_is_listed_verified_and_cleared() {
    let scratch = Scratch::new();
    let folder = scratch.path("cache");
    let cache = |words: &[&str]| attache(&[&["cache"], words, &["--cache", &folder, "--json"]].concat());
    assert_eq!(cache(&["list"]).object()["entries"], serde_json::json!([]));
    for device in ["cpu", "gpu"] {
        let answer = attache(&["run", "lstm_128", "-d", device, "--cache", &folder]);
        assert_eq!(answer.status, 0, "{}", answer.stderr);
    }
    let list = cache(&["list"]).object();
    let entries = list["entries"].as_array().unwrap();
    let description = |part: &str| entries.iter().any(|entry| entry["description"].as_str().unwrap().contains(part));
    assert!(entries.len() == 2 && description("packed weights") && description("plan for"), "{list}");
    let verified = cache(&["verify", "lstm_128"]);
    assert_eq!((verified.status, verified.object()["damaged"].as_u64()), (0, Some(0)));
    for entry in entries {
        let file = scratch.path("cache/") + entry["file"].as_str().unwrap();
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
    }
    let verified = cache(&["verify"]);
    assert_eq!((verified.status, verified.object()["damaged"].as_u64()), (1, Some(2)));
    assert_eq!(cache(&["clear"]).object()["deleted"], 2);
    let answer = cache(&["list", "lstm_128"]);
    assert!(answer.status == 2 && answer.stdout.contains("leave it out"), "{}", answer.stdout);
}

#[test]
fn other_weights_under_one_token_are_found() {
    let scratch = Scratch::new();
    let folder = scratch.path("cache");
    let stored = zoo::build("lstm_128").unwrap();
    let model = Model::from_bytes(stored.clone()).unwrap();
    let constants = model.subgraphs()[0].tensors.iter().filter_map(|tensor| tensor.constant.as_ref());
    let weights = constants.map(|constant| &constant.bytes).max_by_key(|bytes| bytes.len()).unwrap();
    let mut other = stored.clone();
    other[weights.as_ptr().addr() - model.bytes().as_ptr().addr() + weights.len() / 2] ^= 1;
    let [stored, other] =
        [("stored.tflite", stored), ("other.tflite", other)].map(|(name, model)| scratch.write(name, &model));
    let builder = Interpreter::builder(&model).cache(&folder).model_token("speech 1");
    builder.build().unwrap().invoke().unwrap();
    let verify =
        |model: &str, more: &[&str]| attache(&[&["cache", "verify", model, "--cache", &folder], more].concat());
    assert_eq!(verify(&stored, &[]).status, 0);
    assert_eq!(verify("mobilenet_v1_1.0_224", &[]).status, 0, "another structure has another key");
    let answer = verify(&other, &[]);
    assert!(answer.status == 1 && answer.stdout.contains("\"speech 1\""), "{}{}", answer.stdout, answer.stderr);
    assert_eq!(verify(&other, &["--model-token", "speech 1"]).status, 1);
    assert_eq!(verify(&other, &["--model-token", "speech 2"]).status, 0);
}

/// Checks folders to which others may write. Only root can make one that belongs to another user.
#[cfg(unix)]
#[test]
fn a_folder_that_is_not_private_is_refused_with_the_cause() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let scratch = Scratch::new();
    let folder = scratch.folder("cache");
    let refused = |part: &str| {
        let answer = attache(&["cache", "list", "--cache", &folder]);
        assert!(answer.status == 2 && answer.stderr.contains(part), "{}", answer.stderr);
        assert!(answer.stderr.contains("name one of your own that nobody else may write to"), "{}", answer.stderr);
    };
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    refused("others may write to it (mode 777)");
    if chown(&folder, Some(12_345), None).is_ok() {
        refused("it belongs to user 12345");
    }
}
