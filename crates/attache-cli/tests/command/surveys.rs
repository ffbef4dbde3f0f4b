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

/// Checks what is no file and no folder: links to folders, also in a circle, links to nowhere and pipes.
#[cfg(unix)]
#[test]
fn links_and_special_files_are_named() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let folder = scratch.folder("models");
    other.write("far.tflite", &relu());
    for (target, name) in [(other.path(""), "near"), ("..".to_owned(), "up"), ("no".to_owned(), "dangling.tflite")] {
        std::os::unix::fs::symlink(target, scratch.path(&format!("models/{name}"))).unwrap();
    }
    for name in ["pipe.tflite", "other_pipe"] {
        let made = std::process::Command::new("mkfifo").arg(scratch.path(&format!("models/{name}"))).status();
        assert!(made.unwrap().success());
    }
    let object = attache(&["survey", &folder, "--json"]).object();
    let files: Vec<_> =
        object["files"].as_array().unwrap().iter().map(|file| (&file["file"], &file["opens"])).collect();
    let expected = [("dangling.tflite", false), ("near/far.tflite", true), ("pipe.tflite", false)];
    let expected = expected.map(|(name, opens)| (serde_json::json!(name), serde_json::json!(opens)));
    assert_eq!(files, expected.each_ref().map(|(name, opens)| (name, opens)));
    let text = attache(&["survey", &folder]).stdout;
    assert!(
        text.contains("What cannot be opened:\ndangling.tflite: this is a link to no, which is not there"),
        "{text}"
    );
    assert!(text.contains("\npipe.tflite: this is a pipe or a device"), "{text}");
    // Reasons make no row of the table wider.
    assert!(text.lines().take(4).all(|line| line.len() < 80), "{text}");
    other.write("case/model.tflite", &relu());
    let x = crate::support::floats(&[1, 2, 2, 1], &[1.0; 4]);
    for name in ["in_0.npy", "out_0.npy"] {
        other.write(&format!("case/{name}"), &x);
    }
    let object = attache(&["check", &folder, "-d", "cpu", "--json"]).object();
    assert_eq!((object["passed"].as_u64(), object["failed"].as_u64()), (Some(1), Some(0)), "{object}");
}

/// Checks folders that may not be read. Root may read every folder, so that nothing is checked for root here.
#[cfg(unix)]
#[test]
fn folders_that_may_not_be_read_are_named() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let (folder, closed) = (scratch.folder("models"), scratch.folder("models/closed"));
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read_dir(&closed).is_ok() {
        return;
    }
    for named in [&folder, &closed] {
        let answer = attache(&["survey", named]);
        assert!(answer.status == 2 && answer.stderr.contains("closed: permission denied"), "{}", answer.stderr);
    }
    scratch.write("models/relu.tflite", &relu());
    let answer = attache(&["survey", &folder]);
    assert!(answer.status == 0 && answer.stderr.contains("closed: permission denied"), "{}", answer.stderr);
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
