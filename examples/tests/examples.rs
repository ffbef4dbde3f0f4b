//! Runs every example on the CPU and on software Vulkan, and compares what it prints with `expected/NAME.txt`: words
//! and integers exactly, other numbers with a tolerance. There, `*` is any word, and a line of `**` is any line. Where the GPU prints
//! something else, the file is `expected/NAME.gpu.txt`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::{fs, thread};

/// How much a number may differ: a step of an 8-bit output in [0, 1], and what a device rounds otherwise.
const TOLERANCE: f64 = 0.005;

struct Example {
    name: &'static str,
    program: &'static str,
    /// Whether the example needs a GPU, so that it has no form without.
    only_gpu: bool,
    /// The model of the zoo that it runs on software, where its own one takes long there.
    quick_model: Option<&'static str>,
}

macro_rules! example {
    ($name:literal) => {
        Example { name: $name, program: env!(concat!("CARGO_BIN_EXE_", $name)), only_gpu: false, quick_model: None }
    };
}

/// All examples; those that take longest come first.
fn examples() -> Vec<Example> {
    vec![
        example!("detect"),
        example!("segment"),
        example!("classify"),
        Example { quick_model: Some("lstm_128"), ..example!("asynchronous") },
        Example { only_gpu: true, ..example!("texture_to_texture") },
        Example { only_gpu: true, ..example!("chain") },
        example!("custom_operator"),
        example!("delegate"),
        Example { only_gpu: true, ..example!("own_device") },
        example!("quantized"),
        example!("shapes"),
        example!("signatures"),
        example!("stream"),
        example!("threads"),
        Example { only_gpu: true, ..example!("timeline") },
    ]
}

#[test]
fn every_example_prints_what_is_expected() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    fs::create_dir_all(&folder).unwrap();
    let examples = examples();
    let all = examples.iter().flat_map(|example| [(example, true), (example, false)]);
    let left = Mutex::new(all.filter(|(example, gpu)| *gpu || !example.only_gpu).collect::<Vec<_>>().into_iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    let Some((example, gpu)) = next else { break };
                    if let Err(failure) = check(example, gpu, &folder) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn check(example: &Example, gpu: bool, folder: &Path) -> Result<(), String> {
    let Example { name, program, .. } = example;
    let mut command = Command::new(program);
    command.current_dir(folder).env("ATTACHE_SOFTWARE", "1");
    if gpu {
        command.arg("gpu");
        command.args(example.quick_model.map(|model| file(model, folder)));
    }
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("{command:?}: {}\n{errors}", output.status));
    }
    let expected = expected(name, gpu);
    if is_as_expected(&printed, &expected) {
        return Ok(());
    }
    Err(format!("{command:?} printed\n{printed}\nwhere this is expected:\n{expected}"))
}

/// Writes a model of the zoo, and returns the path of the file.
fn file(model: &str, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{model}.tflite"));
    fs::write(&path, attache::zoo::build(model).unwrap()).unwrap();
    path
}

fn expected(name: &str, gpu: bool) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected");
    let usual = folder.join(format!("{name}.txt"));
    let special = folder.join(format!("{name}.gpu.txt"));
    let path = if gpu && special.exists() { special } else { usual };
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_as_expected(printed: &str, expected: &str) -> bool {
    let (printed, expected): (Vec<&str>, Vec<&str>) = (printed.lines().collect(), expected.lines().collect());
    let same_line = |(printed, expected): (&&str, &&str)| {
        let (words, others): (Vec<&str>, Vec<&str>) =
            (printed.split_whitespace().collect(), expected.split_whitespace().collect());
        let same = words.len() == others.len() && words.iter().zip(&others).all(|(word, other)| same(word, other));
        *expected == "**" || same
    };
    printed.len() == expected.len() && printed.iter().zip(&expected).all(same_line)
}

fn same(word: &str, expected: &str) -> bool {
    let number = |word: &str| {
        let word = word.trim_matches(['[', ']', '(', ')', ',', ':']);
        word.contains('.').then(|| word.parse::<f64>().ok())?
    };
    match (number(word), number(expected)) {
        (Some(number), Some(other)) => (number - other).abs() <= TOLERANCE * other.abs().max(1.0),
        _ => expected == "*" || word == expected,
    }
}

#[test]
fn every_program_is_listed() {
    let sources = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap().map(|entry| entry.unwrap().path());
    let sources = sources.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let programs: BTreeSet<String> =
        sources.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(programs, examples().iter().map(|example| example.name.to_owned()).collect());
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    assert!(programs.iter().all(|name| readme.contains(&format!("({name}.rs)"))));
}

#[test]
fn numbers_have_a_tolerance_and_words_have_none() {
    assert!(is_as_expected("a 1.0001 [2.0, 3.0]\nlast", "* 1.0 [2.001, 3.0]\n**"));
    assert!(!is_as_expected("a 1.1", "a 1.0"));
    assert!(!is_as_expected("b 1.0", "a 1.0"));
    assert!(!is_as_expected("a", "a\nb"));
}
