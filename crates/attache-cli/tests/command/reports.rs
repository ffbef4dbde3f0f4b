//! Tests advice and reports: what they measure and say, and what they refuse.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use attache::DataType;
use serde_json::Value;

use crate::support::{Scratch, attache, dequantize, relu, relu_of, unknown};

/// Returns the configurations of a study that were timed.
fn timed(study: &Value) -> Vec<&Value> {
    study["configurations"].as_array().unwrap().iter().filter(|measured| measured["run_ms"].is_f64()).collect()
}

/// Returns a model with a fully connected layer of float activations: with 8-bit weights (dynamic range quantization), or with
/// weights that are floats of 32 bits.
#[cfg(all(target_os = "linux", feature = "gpu"))]
fn dense(has_integers: bool) -> Vec<u8> {
    use attache::model::schema::{BuiltinOperator, BuiltinOptionsT};
    use attache::{Bytes, ModelBuilder, OperatorBuilder, Quantization, TensorBuilder};

    let mut builder = ModelBuilder::new("dense");
    let main = builder.subgraph("main");
    let integers = (0..8 * 32u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8);
    let weights = if has_integers {
        let quantization = Quantization { scale: vec![0.01], zero_point: vec![0], axis: 0 };
        let bytes = Bytes::from_vec(integers.collect());
        TensorBuilder::new("w", DataType::Int8, [8, 32]).data(bytes).quantization(&quantization)
    } else {
        let floats = integers.flat_map(|integer| ((f32::from(integer) - 128.0) / 99.0).to_le_bytes());
        TensorBuilder::new("w", DataType::Float32, [8, 32]).data(Bytes::from_vec(floats.collect()))
    };
    let weights = builder.tensor(main, weights);
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::Float32, [1, 32]));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [1, 8]));
    let operator = OperatorBuilder::new(BuiltinOperator::FULLY_CONNECTED, [x, weights], [y]);
    builder.operator(main, operator.options(BuiltinOptionsT::FullyConnectedOptions(Box::default())));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

#[test]
fn advice_measures_threads_and_says_what_to_write() {
    let scratch = Scratch::new();
    let model = scratch.write("a model.tflite", &relu());
    let start = Instant::now();
    let answer = attache(&["advise", &model, "--budget", "4", "--json"]);
    assert!(answer.status == 0 && start.elapsed() < Duration::from_secs(8), "{}", answer.stderr);
    let object = answer.object();
    let threads: Vec<u64> = timed(&object).iter().filter_map(|measured| measured["threads"].as_u64()).collect();
    let available = std::thread::available_parallelism().unwrap().get() as u64;
    assert!(threads.contains(&1) && threads.contains(&available.min(4)), "{threads:?}");
    let choice = &object["configurations"][object["choice"].as_u64().unwrap() as usize];
    // Threads are of no use to four elements: whatever is advised is about as fast as the fastest.
    let fastest =
        timed(&object).iter().map(|measured| measured["run_ms"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
    assert!(choice["run_ms"].as_f64().unwrap() <= (fastest * 1.02).max(fastest + 0.003) + 1e-9, "{object}");
    // Numbers of threads change no bit.
    assert!(choice["accuracy"].is_null() || choice["accuracy"]["is_identical"] == true, "{choice}");
    assert!(choice["is_warm"] == true && choice["e2e_ms"]["count"].as_u64().unwrap() > 10, "{choice}");
    let languages: Vec<&str> =
        object["options"].as_array().unwrap().iter().map(|option| option["language"].as_str().unwrap()).collect();
    assert_eq!(languages, ["Command line", "Rust", "C", "Python"]);

    let text = attache(&["advise", &model, "--budget", "2"]).stdout;
    for part in [
        "CPU",
        "default of",
        "speedup",
        "--delegate cpu --threads",
        "SetNumThreads",
        "num_threads=",
        "Interpreter::builder",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The advised command line works.
    let line = object["options"][0]["text"].as_str().unwrap();
    let arguments = line.strip_prefix("attache ").unwrap().replace(&format!("'{model}'"), "MODEL");
    let arguments: Vec<&str> = arguments.split(' ').map(|word| if word == "MODEL" { &model } else { word }).collect();
    assert_eq!(attache(&arguments).status, 0, "{line}");
}

/// Checks the choice against all combinations. Four elements take microseconds, so that 10 µs allow for any machine.
#[test]
fn the_choice_is_checked_on_request() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let answer = attache(&["advise", &model, "--budget", "2", "--exhaustive", "--json"]);
    let checked = &answer.object()["exhaustive"];
    assert_eq!(answer.status, i32::from(checked["agrees"] != true), "{checked}");
    assert!(checked["best_ms"].as_f64().unwrap() <= checked["choice_ms"].as_f64().unwrap(), "{checked}");
    // All numbers of threads are timed, however small the budget of the choice.
    let available = std::thread::available_parallelism().unwrap().get();
    let counts: std::collections::BTreeSet<usize> =
        [1, 2, 4, 8, available].into_iter().filter(|count| *count <= available).collect();
    let answer = attache(&["advise", &model, "--budget", "1e-9", "--exhaustive", "--json"]).object();
    assert_eq!(answer["exhaustive"]["timed"].as_u64(), Some(counts.len() as u64), "{answer}");
    assert_eq!(answer["exhaustive"]["unmeasured"], serde_json::json!([]), "{answer}");
    assert_eq!(timed(&answer).len(), 1, "the first run counts: {answer}");
}

#[cfg(all(target_os = "linux", feature = "gpu"))]
#[test]
fn what_is_beyond_the_tolerance_is_not_advised() {
    let scratch = Scratch::new();
    let model = scratch.write("dense.tflite", &dense(false));
    let advise = |tolerance: &str| {
        let line = ["advise", &model, "--software", "--tolerance", tolerance, "--budget", "15", "--json"];
        let answer = attache(&line);
        assert_eq!(answer.status, 0, "{}{}", answer.stdout, answer.stderr);
        answer.object()
    };
    let in_16_bits = |object: &Value| {
        let all = object["configurations"].as_array().unwrap().clone();
        all.into_iter().find(|one| one["gpu"]["precision"] == "f16").unwrap_or_else(|| panic!("{object}"))
    };
    let strict = in_16_bits(&advise("0"));
    assert!(strict["refused"].as_str().unwrap().contains("differs from the CPU"), "{strict}");
    let loose = advise("0.01");
    assert!(!loose["remarks"].to_string().contains("no hardware GPU"), "an adapter was asked for and found");
    let loose = in_16_bits(&loose);
    assert!(loose["refused"].is_null() && loose["accuracy"]["worst"][0]["largest"].as_f64().unwrap() > 0.0, "{loose}");
}

/// On models with dynamic range quantization a GPU computes with the floats that the CPU rounds to 8 bits: it is the more
/// precise one and must not be refused for that, at any precision, unless the command line says so.
#[cfg(all(target_os = "linux", feature = "gpu"))]
#[test]
fn a_gpu_may_be_more_precise_than_the_cpu() {
    let scratch = Scratch::new();
    let model = scratch.write("hybrid.tflite", &dense(true));
    let advise = |tail: &[&str]| {
        let line = [&["advise", &model, "--software", "--budget", "15", "--json"], tail].concat();
        let answer = attache(&line);
        assert_eq!(answer.status, 0, "{}{}", answer.stdout, answer.stderr);
        answer.object()
    };
    let refused = |object: &Value| {
        let on_gpus = timed(object).into_iter().filter(|one| one["gpu"].is_object());
        on_gpus.map(|one| (one["accuracy"].clone(), one["refused"].is_string())).collect::<Vec<_>>()
    };
    let usual = advise(&[]);
    let found = refused(&usual);
    assert_eq!(found.len(), 3, "{usual}");
    for (accuracy, is_refused) in &found {
        let relative = accuracy["worst"][0]["relative"].as_f64().unwrap();
        assert!((1e-4..0.05).contains(&relative) && !is_refused, "{accuracy}");
    }
    assert!(usual["remarks"].to_string().contains("more precise"), "{usual}");
    let strict = advise(&["--tolerance", "1e-4"]);
    assert!(refused(&strict).iter().all(|(_, is_refused)| *is_refused), "{strict}");
}

#[test]
fn a_report_is_one_page_with_its_data() {
    let scratch = Scratch::new();
    let names = ["<b>&", "y\"'"];
    let one = scratch.write("<i>&amp;.tflite", &relu_of(names, &[1, 4], None));
    let other = scratch.write("bytes.tflite", &dequantize(DataType::UInt8, 0.5, 20));
    let out = scratch.path("out/in");
    let report =
        |folder: &str| attache(&["report", &one, &other, "--devices", "cpu", "--budget", "1", "--out", folder]);
    let answer = report(&scratch.folder("first"));
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    assert!(!Path::new(&out).exists());
    let folder = scratch.path("first");
    let page = fs::read_to_string(format!("{folder}/index.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.len() < 1_000_000, "{}", page.len());
    for part in [
        "&lt;i&gt;&amp;amp;.tflite",
        "&lt;b&gt;&amp;",
        "<svg",
        "prefers-color-scheme:dark",
        "Placement",
        "What to write",
        "role=\"img\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    // Names make no tags, and nothing is loaded from elsewhere.
    for part in ["<b>&", "<i>", " src=", "http://", "https://", "@import", "url("] {
        let found = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!found.contains(part), "{part}");
    }
    assert_eq!(page.matches("<script").count(), 1, "the data alone");
    assert_eq!((page.matches("<section").count(), page.matches("</section>").count()), (3, 3));

    assert_eq!(report(&scratch.path("second")).status, 0, "a folder is made");
    let second = scratch.path("second");
    let forms = [second.clone(), format!("{second}/index.html"), format!("{second}/report.json")];
    for later in &forms {
        let compared = attache(&["report", "--compare", &folder, later, "--json"]);
        let all = compared.object()["configurations"].as_array().unwrap().clone();
        assert!(compared.status == 0 && all.len() >= 2, "{}", compared.stdout);
        assert!(all.iter().all(|one| one["speedup"].as_f64().unwrap() > 0.0), "{all:?}");
        assert_eq!(compared.object()["notes"], serde_json::json!([]));
    }
    let same = attache(&["report", "--compare", &folder, &folder, "--out", &out]);
    assert!(same.stdout.contains("1.00×"), "{}", same.stdout);
    let page = fs::read_to_string(format!("{out}/comparison.html")).unwrap();
    assert!(page.contains("Two reports compared") && !page.contains("<i>"));
}

/// Names of files may hold characters that a terminal or a page obeys, and those that strings of languages need escapes for.
#[cfg(unix)]
#[test]
fn names_of_files_are_data() {
    let scratch = Scratch::new();
    let model = scratch.write("-a\u{1}\u{202e}\"\\'\n.tflite", &relu());
    let out = scratch.path("out");
    let answer = attache(&["report", &model, "--devices", "cpu", "--budget", "0.5", "--out", &out]);
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let page = fs::read_to_string(format!("{out}/index.html")).unwrap();
    let data = fs::read_to_string(format!("{out}/report.json")).unwrap();
    for text in [&page, &data, &answer.stdout] {
        assert!(!text.contains(['\u{1}', '\u{202e}']), "{text}");
    }
    let data: Value = serde_json::from_str(&data).unwrap();
    let snippets = data["models"][0]["snippets"].as_array().unwrap().clone();
    let text = |language: &str| {
        let own = snippets.iter().find(|snippet| snippet["language"] == language).unwrap();
        own["text"].as_str().unwrap().to_owned()
    };
    // What is written for a shell and for Python names the file.
    let program = env!("CARGO_BIN_EXE_attache");
    let line = text("Command line").replacen("attache", &format!("'{program}'"), 1);
    if let Ok(run) = std::process::Command::new("bash").args(["-c", &line]).output() {
        assert!(run.status.success(), "{line}: {}", String::from_utf8_lossy(&run.stderr));
    }
    let check =
        "import sys, ast; call = ast.parse(sys.argv[1]).body[0].value; sys.exit(call.args[0].value != sys.argv[2])";
    if let Ok(run) = std::process::Command::new("python3").args(["-c", check, &text("Python"), &model]).output() {
        assert!(run.status.success(), "{}: {}", text("Python"), String::from_utf8_lossy(&run.stderr));
    }
    let failed = attache(&["report", &scratch.path("no\u{1}ne.tflite"), "--out", &out]);
    assert!(failed.status == 2 && !failed.stderr.contains('\u{1}'), "{}", failed.stderr);
}

#[test]
fn a_model_among_several_that_fails_is_named() {
    let scratch = Scratch::new();
    let good = scratch.write("good.tflite", &relu());
    let bad = scratch.write("bad.tflite", b"no model at all");
    let gap = scratch.write("gap.tflite", &unknown());
    let missing = scratch.path("missing.tflite");
    let out = scratch.path("out");
    let run = |models: &[&str], status: i32| {
        let tail = ["--devices", "cpu", "--budget", "1", "--out", &out];
        let answer = attache(&[&["report"], models, &tail].concat());
        assert_eq!(answer.status, status, "{}{}", answer.stdout, answer.stderr);
        answer
    };
    let answer = run(&[&bad, &good, &missing, &gap], 3);
    for model in [&bad, &missing, &gap] {
        assert!(answer.stderr.contains(model.as_str()) && answer.stdout.contains(model.as_str()), "{}", answer.stderr);
    }
    let page = fs::read_to_string(format!("{out}/index.html")).unwrap();
    assert!(page.contains("good.tflite") && page.contains("Not measured") && page.contains("missing.tflite"));
    run(&[&good, &missing], 2);
    fs::remove_dir_all(&out).unwrap();
    let answer = run(&[&missing, &bad], 2);
    assert_eq!(answer.stderr.matches("missing.tflite").count(), 1, "it is said once: {}", answer.stderr);
    assert!(!Path::new(&out).exists(), "without a model there is no page");
}

#[test]
fn what_cannot_be_reported_is_said_at_once() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let file = scratch.write("file", b"x");
    let old = scratch.write("old.json", br#"{"format": 99}"#);
    let page = scratch.write("page.html", b"<html></html>");
    let folder = scratch.folder("empty");
    let foreign = scratch.folder("foreign");
    scratch.write("foreign/index.html", b"<html>a page of somebody's</html>");
    let report = scratch.path("good");
    assert_eq!(attache(&["report", &model, "--devices", "cpu", "--budget", "0.5", "--out", &report]).status, 0);
    let mut data: Value = serde_json::from_slice(&fs::read(format!("{report}/report.json")).unwrap()).unwrap();
    data["models"][0]["study"]["choice"] = 99.into();
    let wrong = scratch.write("wrong.json", data.to_string().as_bytes());
    let cases: &[(&[&str], i32, &str)] = &[
        (&["report", &model, "--devices", "tpu"], 4, "--devices tpu"),
        (&["report", &model, "--devices", "cpu,,gpu"], 2, "a name is empty"),
        (&["report", &model, "--out", &file], 2, "name a folder"),
        #[cfg(target_os = "linux")]
        (&["report", &model, "--out", "/proc/attache"], 2, "/proc/attache"),
        (&["report", &model, "--out", &format!("{file}/below")], 2, "not a directory"),
        (&["report"], 2, "MODEL"),
        (&["report", "--compare", &old, &old], 2, "has format 99"),
        (&["report", "--compare", &wrong, &wrong], 2, "choice is 99"),
        (&["report", &model, "--out", &foreign], 2, "no report; name another folder"),
        (&["report", "--compare", &page, &page], 2, "there is no data in it"),
        (&["report", "--compare", &folder, &folder], 2, "report.json"),
        (&["report", "--compare", &model, &model], 2, "not text"),
        (&["report", &model, "--compare", &old, &old], 2, "cannot be used with"),
        (&["report", &model, "--budget", "0"], 2, "above 0"),
        (&["advise", &model, "--budget", "nan"], 2, "above 0"),
        (&["advise", &model, "--tolerance", "-1"], 2, "0 or more"),
        (&["advise", &scratch.path("missing.tflite")], 2, "no such file"),
        (&["advise", &file], 3, "file"),
    ];
    for (line, status, text) in cases {
        let start = Instant::now();
        let answer = attache(line);
        assert!(
            answer.status == *status && answer.stderr.contains(text),
            "{line:?}: {}: {}",
            answer.status,
            answer.stderr
        );
        assert!(start.elapsed() < Duration::from_secs(20), "{line:?}");
    }
}
