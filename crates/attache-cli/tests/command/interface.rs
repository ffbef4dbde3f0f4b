//! Tests what the commands have in common: signatures, short options, completions, and what goes to standard
//! error.

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::support::{Scratch, attache, floats, read_floats, relu};

/// Returns a model with the signatures `rectify` and `negate`, each from `x` to `y`.
fn signatures() -> Vec<u8> {
    let mut builder = ModelBuilder::new("signatures");
    for (name, operator) in [("rectify", BuiltinOperator::RELU), ("negate", BuiltinOperator::NEG)] {
        let subgraph = builder.subgraph(name);
        let [x, y] = ["in", "out"].map(|end| {
            let tensor = TensorBuilder::new(&format!("{name}_{end}"), DataType::Float32, [2]).shape_signature([-1]);
            builder.tensor(subgraph, tensor)
        });
        builder.operator(subgraph, OperatorBuilder::new(operator, [x], [y]));
        builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
        builder.signature(name, subgraph, &[("x", x)], &[("y", y)]);
    }
    builder.finish()
}

#[test]
fn a_signature_is_run() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &signatures());
    let input = scratch.write("x.npy", &floats(&[3], &[1.0, -2.0, 3.0]));
    let (named, out) = (format!("x={input}"), scratch.path("out"));
    for (key, expected) in [("rectify", [1.0, 0.0, 3.0]), ("negate", [-1.0, 2.0, -3.0])] {
        let run = ["run", &model, "-d", "cpu", "--signature", key, "-s", "x=3", "-i", &named, "-o", &out];
        let answer = attache(&run);
        assert_eq!(answer.status, 0, "{key}: {}", answer.stderr);
        assert!(answer.stdout.contains(&format!("{key}_out")), "{}", answer.stdout);
        assert_eq!(read_floats(&format!("{out}/out_0.npy")), expected, "{key}");
    }
    for command in [&["run"][..], &["bench", "-n", "1", "--warmup", "0"], &["diff", "-n", "1", "--per-operator"]] {
        let with = |key: &str| attache(&[command, &[&model, "-d", "cpu", "--signature", key]].concat());
        assert_eq!(with("negate").status, 0, "{command:?}: {}", with("negate").stderr);
        let text = with("none").stderr;
        assert!(text.contains("no signature \"none\"; it has \"rectify\", \"negate\""), "{text}");
    }
    let relu = scratch.write("relu.tflite", &relu());
    let answer = attache(&["run", &relu, "-d", "cpu", "--signature", "x"]);
    assert!(answer.status == 2 && answer.stderr.contains("leave out --signature"), "{}", answer.stderr);
}

#[test]
fn shapes_and_signatures_are_for_what_looks_at_a_model_too() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &signatures());
    let with = |more: &[&str]| attache(&[more, &["--signature", "negate", "--shape", "x=5"]].concat());
    let object = with(&["inspect", &model, "--json"]).object();
    assert_eq!((&object["nodes"][0]["operator"], object["nodes"][0]["bytes"].as_u64()), (&"NEG".into(), Some(40)));
    for stage in ["graph", "passes", "partition"] {
        let answer = with(&["dump", stage, &model, "-d", "cpu"]);
        assert!(answer.status == 0 && answer.stdout.contains("NEG"), "{stage}: {}{}", answer.stdout, answer.stderr);
    }
    assert!(with(&["dump", "graph", &model]).stdout.contains("[5]"));
    assert_eq!(attache(&["inspect", &model, "--shape", "z=5"]).status, 2);
}

#[test]
fn every_shell_completes() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = attache(&["completions", shell]);
        assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{shell}");
        assert!(answer.stdout.contains("delegate") && answer.stdout.contains("inspect"), "{shell}: {}", answer.stdout);
    }
    assert_eq!(attache(&["completions", "dos"]).status, 2);
}

#[test]
fn the_version_is_an_object_on_request() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(attache(&["--version"]).stdout, format!("attache {version}\n"));
    assert_eq!(attache(&["--json", "--version"]).object(), serde_json::json!({ "version": version }));
}

#[test]
fn quiet_is_quiet() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let input = scratch.write("x.npy", &floats(&[1, 2, 2, 1], &[1.0; 4]));
    let run = |more: &[&str]| attache(&[&["run", &model, "-d", "cpu", "-i", &input, "--seed", "1"], more].concat());
    assert!(run(&[]).stderr.contains("--seed changes nothing"));
    for quiet in ["-q", "--quiet"] {
        assert_eq!((run(&[quiet]).status, run(&[quiet]).stderr.as_str()), (0, ""), "{quiet}");
    }
    assert!(attache(&["-q", "run", "no-such-model"]).stderr.starts_with("error: "));
    assert!(run(&["-vvv"]).stderr.contains("TRACE") && !run(&["-v"]).stderr.contains("TRACE"));
    assert_eq!(run(&["-v", "-q"]).status, 2);
}

#[cfg(feature = "gpu")]
#[test]
fn log_lines_are_on_standard_error() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    for command in [&["run"][..], &["bench", "-n", "1", "--warmup", "0"]] {
        let line = "Created TensorFlow Lite delegate for GPU.";
        let answer = attache(&[command, &[&model, "-d", "gpu"]].concat());
        assert!(answer.stderr.contains(line) && !answer.stdout.contains(line), "{}", answer.stdout);
        let quiet = attache(&[command, &[&model, "-d", "gpu", "-q"]].concat());
        assert_eq!((quiet.status, quiet.stderr.as_str()), (0, ""));
    }
}
