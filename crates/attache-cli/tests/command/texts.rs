//! Tests what the command's output states: names that fit the terminal, no claims about GPUs, and correct
//! names of stages.

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::support::{Scratch, add, attache, relu, relu_of};

#[test]
fn long_names_are_short_in_text_and_whole_in_json() {
    let scratch = Scratch::new();
    let name = format!("begin/{}/end", "layer/".repeat(100));
    let model = scratch.write("m.tflite", &relu_of([&name, &name], &[1, 4], None));
    let commands = [
        &["inspect", &model][..],
        &["run", &model, "--delegate", "cpu"],
        &["diff", &model, "--delegate", "cpu", "--runs", "1"],
    ];
    for command in commands {
        let text = attache(command).stdout;
        assert!(text.lines().all(|line| line.chars().count() <= 250), "{text}");
        assert!(text.contains("begin/layer") && text.contains('…') && text.contains("/end"), "{text}");
        let object = attache(&[command, &["--json"]].concat()).object();
        assert!(object.to_string().contains(&name), "{command:?}");
    }
}

/// Checks standard output and standard error in a terminal, which the program `script` emulates.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_what_fits_it() {
    let scratch = Scratch::new();
    let name = "layer/".repeat(100);
    let model = scratch.write("m.tflite", &relu_of([&name, &name], &[1, 4], None));
    let attache = env!("CARGO_BIN_EXE_attache");
    let run = |columns: usize| {
        let line = format!("stty rows 24 cols {columns}; '{attache}' run '{model}' --delegate cpu");
        let output = std::process::Command::new("script").args(["-qec", &line, "/dev/null"]).output();
        let output = output.expect("script, of bsdutils, stands for a terminal");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !text.contains("tracing"), "{text}");
        let rows = text.lines().skip_while(|line| !line.contains("nonfinite")).take(2);
        rows.map(|line| line.chars().filter(|character| !character.is_control()).count()).max().expect("a table")
    };
    // The number of characters of the escape codes around the heading.
    let paint = "[1m[0m".len();
    let (narrow, wide) = (run(90), run(200));
    assert!(narrow <= 90 + paint && narrow < wide && wide <= 200 + paint, "{narrow} {wide}");
}

/// Checks all lines of what commands print about a model with a long name, by the width that `COLUMNS` sets.
#[test]
fn all_lines_fit_the_width() {
    let scratch = Scratch::new();
    let name = format!("begin{}end", "_layer".repeat(100));
    scratch.write("m.tflite", &relu_of([&name, &name], &[1, 4], None));
    scratch.write("case/model.tflite", &relu());
    scratch.write("case/out_0.npy", b"no array");
    let commands = [
        &["inspect", "m.tflite"][..],
        &["run", "m.tflite", "-d", "cpu", "--top", "3"],
        &["bench", "m.tflite", "-d", "cpu", "-n", "1", "--warmup", "0", "--profile"],
        &["diff", "m.tflite", "-d", "cpu", "-n", "1", "--per-operator", "--bisect"],
        &["check", "case", "-d", "cpu"],
    ];
    for (command, width) in commands.into_iter().flat_map(|command| [60, 80].map(|width| (command, width))) {
        let mut process = std::process::Command::new(env!("CARGO_BIN_EXE_attache"));
        process.args(command).env("COLUMNS", width.to_string()).current_dir(scratch.path(""));
        let text = String::from_utf8(process.output().expect("the command runs").stdout).expect("text");
        assert!(text.lines().count() > 1 && text.lines().all(|line| line.chars().count() <= width), "{width}: {text}");
    }
}

#[test]
fn names_do_not_reach_the_terminal_as_commands() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &relu_of(["x\x1b]0;title\x07", "y\nline\x1b[2J"], &[1, 4], None));
    for command in [&["inspect", &model][..], &["run", &model, "--delegate", "cpu"]] {
        let text = attache(command).stdout;
        assert!(!text.contains(['\x1b', '\x07']) && text.contains("y\u{fffd}line"), "{text:?}");
    }
}

/// Checks that the output of `inspect` does not claim that there is a GPU, because `inspect` does not look
/// for one.
#[test]
fn inspect_promises_no_gpu_and_speaks_of_no_other_runtime() {
    let scratch = Scratch::new();
    let mut builder = ModelBuilder::new("reshape");
    let main = builder.subgraph("main");
    let mut tensor =
        |name: &str, shape: &[usize]| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, shape));
    let (x, y) = (tensor("x", &[1, 32, 32, 3]), tensor("y", &[1, 32, 32, 3]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = scratch.write("m.tflite", &builder.finish());
    let text = attache(&["inspect", &model]).stdout;
    assert!(!text.contains("will run on the GPU") && text.contains("A GPU would take"), "{text}");
    assert!(!text.contains("runtimes") && !text.contains("cameras"), "{text}");
    assert!(text.contains("Attaché's kernels") && text.contains("about 0.0 million operations"), "{text}");
}

#[cfg(feature = "gpu")]
#[test]
fn stages_are_what_they_are_called() {
    let scratch = Scratch::new();
    // A sum and its RELU are two primitives, which are fused into one kernel.
    let mut builder = ModelBuilder::new("two");
    let main = builder.subgraph("main");
    let mut tensor = |name: &str| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [1, 8, 8, 4]));
    let (x, y, sum, out) = (tensor("x"), tensor("y"), tensor("sum"), tensor("out"));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [x, y], [sum]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [sum], [out]));
    builder.inputs(main, &[x, y]).outputs(main, &[out]);
    let model = scratch.write("m.tflite", &builder.finish());
    let dump = |stage: &str| {
        let answer = attache(&["dump", stage, &model, "--delegate", "gpu"]);
        assert_eq!(answer.status, 0, "{stage}: {}", answer.stderr);
        answer.stdout
    };
    let steps = |text: &str| text.lines().filter(|line| line.contains(" = map(")).count();
    let (program, kernels) = (dump("program"), dump("kernels"));
    assert_eq!((steps(&program), steps(&kernels)), (2, 1), "{program}\n{kernels}");
    assert!(kernels.contains("# [0, 1]: "), "{kernels}");
    let help = attache(&["dump", "--help"]).stdout;
    assert!(help.contains("before they are fused") && help.contains("kernels:"), "{help}");
}

#[test]
fn every_stage_has_its_line_in_the_help() {
    let help = attache(&["dump", "--help"]).stdout;
    for stage in ["graph", "passes", "partition", "program", "kernels", "wgsl", "plan"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(&format!("- {stage}:"))), "{stage}: {help}");
    }
}

#[test]
fn help_says_what_becomes_of_integers_and_of_labels() {
    let help = attache(&["run", "--help"]).stdout;
    for part in ["quantized with the input's scale and zero point", "one for each class", "without it none are written"]
    {
        assert!(help.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "no \"{part}\" in {help}");
    }
}

#[test]
fn the_models_here_are_sound() {
    let scratch = Scratch::new();
    for (name, model) in [("relu", relu()), ("add", add(["x", "y"], &[2]))] {
        let model = scratch.write(name, &model);
        assert_eq!(attache(&["run", &model, "--delegate", "cpu"]).status, 0, "{name}");
    }
}
