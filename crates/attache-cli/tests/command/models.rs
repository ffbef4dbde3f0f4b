//! Tests arguments that are not models: the error message says what each one is, and what to do.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Scratch, attache, floats, png, relu, zip};

/// Asserts that each command that opens a model refuses `model` with this exit status and text.
fn refused(model: &str, status: i32, text: &str) {
    for command in
        [&["inspect"][..], &["run", "--delegate", "cpu"], &["bench", "--delegate", "cpu"], &["dump", "graph"]]
    {
        let start = Instant::now();
        let answer = attache(&[command, &[model]].concat());
        assert!(start.elapsed() < Duration::from_secs(20), "{command:?} {model}");
        let said = answer.stderr.contains(text) && answer.stderr.contains(model);
        assert!(answer.status == status && said, "{command:?}: {}: {}", answer.status, answer.stderr);
        assert!(!answer.stderr.contains("os error"), "{}", answer.stderr);
    }
}

#[test]
fn a_directory_is_one() {
    let scratch = Scratch::new();
    let folder = scratch.folder("models");
    refused(&folder, 2, "this is a directory; name a .tflite file");
    let model = scratch.write("models/relu.tflite", &relu());
    refused(&folder, 2, &format!("this is a directory; name a file in it, as {model}"));
    scratch.write("models/saved_model.pb", b"");
    refused(&folder, 2, "it holds a SavedModel: convert it");
}

#[test]
fn what_is_missing_is_said_to_be() {
    let scratch = Scratch::new();
    refused(&scratch.path("none.tflite"), 2, "there is no such file, nor such a built-in model");
    let file = scratch.write("file", b"x");
    refused(&format!("{file}/none.tflite"), 2, "a part of this path is a file");
}

#[cfg(unix)]
#[test]
fn pipes_devices_and_links_are_not_waited_for() {
    let scratch = Scratch::new();
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&pipe, 2, "a pipe or a device");
    refused("/dev/null", 2, "a pipe or a device");
    refused("/dev/zero", 2, "a pipe or a device");
    let link = scratch.path("link");
    std::os::unix::fs::symlink("nowhere.tflite", &link).unwrap();
    refused(&link, 2, "this is a link to nowhere.tflite, which is not there");
}

#[test]
fn other_files_are_called_what_they_are() {
    let scratch = Scratch::new();
    let files = [
        ("empty.tflite", Vec::new(), "the file is empty"),
        ("x.png", png(2, 2, [0; 3]), "a picture, which is an input"),
        ("x.jpg", b"\xff\xd8\xff\xe0\x00\x10JFIF".to_vec(), "a picture, which is an input"),
        ("x.npy", floats(&[2], &[1.0, 2.0]), "a .npy array, which is an input"),
        ("x.task", zip("model.tflite", b"x", true), "extract the .tflite file"),
        ("x.tgz", b"\x1f\x8b\x08\x00........".to_vec(), "a gzip archive"),
        ("x.txt", b"anything else".to_vec(), "name a file that TensorFlow Lite's converter wrote"),
    ];
    for (name, bytes, text) in files {
        refused(&scratch.write(name, &bytes), 3, text);
    }
}

/// Checks the error for a file without read permission. Checks nothing if the user is root, who can read
/// every file.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_says_so() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let model = scratch.write("closed.tflite", &relu());
    std::fs::set_permissions(&model, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::File::open(&model).is_err() {
        refused(&model, 2, "permission denied; make it readable");
    }
}

#[test]
fn a_case_that_is_a_file_is_answered() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let answer = attache(&["check", &model, "--delegate", "cpu"]);
    assert!(answer.status == 2 && answer.stderr.contains("name the folder of a case"), "{}", answer.stderr);
}

/// Checks that a model can be opened whose file name is not UTF-8.
#[cfg(target_os = "linux")]
#[test]
fn any_name_of_a_file_will_do() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(std::ffi::OsStr::from_bytes(b"relu\xff.tflite"));
    std::fs::write(&path, relu()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_attache")).arg("inspect").arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
