//! Tests the inputs of `attache run`: images for integer inputs, shapes that an error message proposes, and
//! messages about inputs.

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::support::{Scratch, add, attache, dequantize, floats, npy, png, read_floats, relu, relu_of};

/// Runs a model that dequantizes its input on an image of one colour. Returns the dequantized input and the
/// standard error.
fn reals(model: &[u8], more: &[&str]) -> (Vec<f32>, String) {
    let scratch = Scratch::new();
    let (model, out) = (scratch.write("m.tflite", model), scratch.path("out"));
    let picture = scratch.write("x.png", &png(4, 4, [255, 0, 100]));
    let answer = attache(&[&["run", &model, "--delegate", "cpu", "--input", &picture, "--out", &out], more].concat());
    assert_eq!(answer.status, 0, "{more:?}: {}", answer.stderr);
    (read_floats(&format!("{out}/out_0.npy")), answer.stderr)
}

#[test]
fn a_mean_and_a_deviation_reach_integers_through_scale_and_zero_point() {
    let normal = ["--mean", "100", "--std", "50"];
    let cases = [
        (DataType::UInt8, 0.5, 20, &normal[..], [3.0, -2.0, 0.0]),
        (DataType::Int8, 0.25, -10, &normal, [3.0, -2.0, 0.0]),
        (DataType::Int16, 0.001, 0, &normal, [3.1, -2.0, 0.0]),
        // Without options, integer inputs get the pixel values; 16-bit inputs get values from −1 to 1.
        (DataType::UInt8, 0.5, 20, &[], [117.5, -10.0, 40.0]),
        (DataType::Int8, 1.0, -128, &[], [255.0, 0.0, 100.0]),
        (DataType::Int16, 0.001, 0, &[], [1.0, -1.0, -0.216]),
    ];
    for (data_type, scale, zero_point, more, expected) in cases {
        let (found, said) = reals(&dequantize(data_type, scale, zero_point), more);
        let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-4 + scale / 4.0);
        let near = near || (data_type, more.is_empty()) == (DataType::UInt8, false) && found[0] == 3.0;
        assert!(near && said.is_empty(), "{data_type} {more:?}: {found:?} {said}");
    }
}

#[test]
fn what_integers_cannot_store_is_said() {
    let (found, said) = reals(&dequantize(DataType::UInt8, 1.0 / 128.0, 128), &["--mean", "0", "--std", "1"]);
    assert!(found[0] < 1.0 && said.contains("66 % of the picture's values are beyond"), "{found:?} {said}");
}

#[test]
fn strings_come_from_lines_and_arrays_and_go_to_arrays() {
    let scratch = Scratch::new();
    let mut builder = ModelBuilder::new("twice");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::String, [2]).shape_signature([-1]));
    let times = builder.tensor(main, TensorBuilder::values("times", [1], &[2_i32]));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::String, [4]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::TILE, [x, times], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = scratch.write("twice.tflite", &builder.finish());
    let lines = scratch.write("x.txt", "one\n\u{e4}\n".as_bytes());
    let array = scratch.write("x.npy", &npy("|S3", &[2], b"one\xc3\xa4\0"));
    let run = |more: &[&str]| attache(&[&["run", &model, "--delegate", "cpu"], more].concat());
    for file in [&lines, &array] {
        let out = scratch.path("out");
        let answer = run(&["--input", file, "--out", &out]);
        assert!(
            answer.stdout.contains("y: \"one\", \"\u{e4}\", \"one\", \"\u{e4}\""),
            "{} {}",
            answer.stdout,
            answer.stderr
        );
        let written = std::fs::read(format!("{out}/out_0.npy")).unwrap();
        assert!(written.ends_with(b"one\xc3\xa4\0one\xc3\xa4\0"));
        let strings = run(&["--input", file, "--json"]).object()["outputs"][0]["strings"].clone();
        assert_eq!(strings, serde_json::json!(["one", "\u{e4}", "one", "\u{e4}"]));
    }
    let longer = scratch.write("longer.txt", b"a\nb\nc");
    let answer = run(&["--input", &longer]);
    assert!(answer.status == 2 && answer.stderr.contains("--shape x=3"), "{}", answer.stderr);
    assert_eq!(run(&["--input", &longer, "--shape", "x=3"]).status, 0);
    let [first, again] = [run(&["--seed", "3"]), run(&["--seed", "3"])];
    assert!(first.status == 0 && first.stdout.lines().last() == again.stdout.lines().last(), "{}", first.stderr);
    assert_eq!(attache(&["bench", &model, "--delegate", "cpu", "--runs", "2"]).status, 0);
}

#[test]
fn options_that_mean_nothing_are_not_ignored() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let input = scratch.write("x.npy", &floats(&[1, 2, 2, 1], &[1.0; 4]));
    let run = |more: &[&str]| attache(&[&["run", &model, "--delegate", "cpu"], more].concat());
    for files in [&[][..], &["--input", &input]] {
        let answer = run(&[&["--mean", "0", "--std", "1"], files].concat());
        assert!(answer.status == 2 && answer.stderr.contains("no --input is one"), "{}", answer.stderr);
    }
    for wrong in [["--mean", "nan"], ["--std", "inf"], ["--threshold", "nan"]] {
        assert_eq!(run(&wrong).status, 2, "{wrong:?}");
    }
    let answer = run(&["--input", &input, "--seed", "3"]);
    assert!(answer.status == 0 && answer.stderr.contains("--seed changes nothing"), "{}", answer.stderr);
    for option in [
        &["--inference-preference", "balanced"][..],
        &["--submission", "encoder"],
        &["--no-shader-f16"],
        &["--as-hardware"],
        &["--emulate-matrices"],
    ] {
        let answer = run(option);
        assert!(answer.status == 2 && answer.stderr.contains(option[0]), "{option:?}: {}", answer.stderr);
    }
    for option in ["--require-delegation", "--cpu-fallback"] {
        assert_eq!(attache(&["dump", "partition", &model, option]).status, 2, "{option}");
    }
    let check = ["check", &model, "--delegate", "cpu", "--tolerance"];
    let diff = ["diff", &model, "--delegate", "cpu", "--tolerance"];
    for (command, tolerance) in [(check, "nan"), (check, "-1"), (diff, "nan"), (diff, "inf")] {
        let answer = attache(&[&command[..], &[tolerance]].concat());
        assert!(answer.status == 2 && answer.stderr.contains("finite"), "{tolerance}: {}", answer.stderr);
    }
    let measured = scratch.path("a.json");
    attache(&["bench", &model, "--delegate", "cpu", "--runs", "1", "--warmup", "0", "--out", &measured]);
    for option in [["--delegate", "cpu"], ["--threads", "2"], ["--shape", "1,2"], ["--limit-operators", "3"]] {
        assert_eq!(attache(&[&["bench", "--compare", &measured, &measured], &option[..]].concat()).status, 2);
    }
}

#[test]
fn random_inputs_and_unwritten_outputs_are_said_to_be() {
    let scratch = Scratch::new();
    let model = scratch.write("add.tflite", &add(["x", "y"], &[2]));
    let input = scratch.write("x.npy", &floats(&[2], &[1.0, 2.0]));
    let out = scratch.path("out");
    let run = |more: &[&str]| attache(&[&["run", &model, "--delegate", "cpu"], more].concat());
    let text = run(&["--seed", "7"]).stdout;
    assert!(text.contains("inputs: random numbers, seed 7\n"), "{text}");
    assert!(text.contains("outputs are not written; --out DIR"), "{text}");
    let text = run(&["--input", &format!("y={input}"), "--out", &out]).stdout;
    assert!(text.contains(&format!("inputs: x from random numbers, seed 0; y from {input}\n")), "{text}");
    assert!(text.contains(&format!("output written to {out}/out_0.npy")), "{text}");
    let object = run(&["--input", &input, "--out", &out, "--json"]).object();
    assert_eq!(object["inputs"][0], serde_json::json!({ "name": "x", "file": input, "seed": null }));
    assert_eq!(object["inputs"][1], serde_json::json!({ "name": "y", "file": null, "seed": 0 }));
    assert_eq!(object["files"], serde_json::json!([format!("{out}/out_0.npy")]));
    let text = attache(&["diff", &model, "--delegate", "cpu", "--runs", "1", "--seed", "4"]).stdout;
    assert!(text.contains("inputs: random numbers, seed 4\n"), "{text}");
    let text = attache(&["bench", &model, "--delegate", "cpu", "--runs", "1", "--warmup", "0"]).stdout;
    assert!(text.contains("inputs: random numbers, seed 0\n"), "{text}");
}

/// Returns the `--shape` options that a message proposes, as arguments without the shell's quotes.
fn proposed(message: &str) -> Vec<String> {
    let words = message.split("--shape ").skip(1).map(|rest| match rest.strip_prefix('\'') {
        Some(rest) => rest.split('\'').next().unwrap_or_default(),
        None => rest.split([' ', ';']).next().unwrap_or_default().trim(),
    });
    words.flat_map(|word| ["--shape".to_owned(), word.to_owned()]).collect()
}

#[test]
fn proposed_shapes_work() {
    let scratch = Scratch::new();
    let models = [
        ("any size", relu(), &[&[1, 3, 5, 1][..]][..]),
        ("two at once", add(["x", "y"], &[2]), &[&[3], &[3]]),
        ("the second alone", add(["x", "y"], &[2]), &[&[2], &[1]]),
        ("no names", add(["", ""], &[2]), &[&[3], &[3]]),
        ("one name", add(["x", "x"], &[2]), &[&[2], &[1]]),
        ("a name with a sign", relu_of(["a=b", "y"], &[2], None), &[&[3]]),
        ("a name with blanks", relu_of(["a b'c", "y"], &[2], None), &[&[3]]),
    ];
    for (what, model, shapes) in models {
        let model = scratch.write("m.tflite", &model);
        let mut arguments = vec!["run".to_owned(), model.clone(), "--delegate".to_owned(), "cpu".to_owned()];
        for (index, shape) in shapes.iter().enumerate() {
            let array = floats(shape, &vec![1.0; shape.iter().product()]);
            arguments.extend(["--input".to_owned(), scratch.write(&format!("{index}.npy"), &array)]);
        }
        let run = |arguments: &[String]| attache(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let answer = run(&arguments);
        let options = proposed(&answer.stderr.replace("'\\''", "\u{1}"));
        assert!(answer.status == 2 && !options.is_empty(), "{what}: {}", answer.stderr);
        arguments.extend(options.iter().map(|option| option.replace('\u{1}', "'")));
        let answer = run(&arguments);
        assert_eq!(answer.status, 0, "{what}: {arguments:?}: {}", answer.stderr);
    }
}

#[test]
fn a_shape_that_the_model_does_not_take_is_not_proposed() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &add(["x", "y"], &[2, 3]));
    let run = |shape: &[usize]| {
        let array = scratch.write("x.npy", &floats(shape, &vec![1.0; shape.iter().product()]));
        attache(&["run", &model, "--delegate", "cpu", "--input", &array]).stderr
    };
    let text = run(&[3, 2]);
    assert!(text.contains("save array.reshape(2, 3)") && !text.contains("--shape"), "{text}");
    let text = run(&[5, 7]);
    assert!(text.contains("the model takes no such shape") && !text.contains("--shape"), "{text}");
}

#[test]
fn what_is_no_shape_is_answered_with_one_that_works() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let run = |shape: &str| attache(&["run", &model, "--delegate", "cpu", "--shape", shape]);
    let text = run("1x4").stderr;
    let shape = text.trim_end().rsplit(' ').next().unwrap();
    assert_eq!((shape, run(shape).status), ("1,2,2,1", 0), "{text}");
    assert_eq!(run("[1, 3, 5, 1]").status, 0);
    let text = run("a/b=1,2,2,1").stderr;
    assert!(text.contains("no input named \"a/b\"; its inputs are \"x\""), "{text}");
}

#[test]
fn a_picture_is_not_squeezed_into_a_size_that_the_file_leaves_open() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &relu_of(["x", "y"], &[1, 1, 1, 3], Some(&[-1, -1, -1, 3])));
    let picture = scratch.write("x.png", &png(5, 4, [1, 2, 3]));
    let run = |more: &[&str]| attache(&[&["run", &model, "--delegate", "cpu", "--input", &picture], more].concat());
    let answer = run(&[]);
    let options = proposed(&answer.stderr);
    assert_eq!((answer.status, options.join(" ").as_str()), (2, "--shape x=1,4,5,3"), "{}", answer.stderr);
    assert_eq!(run(&["--shape", "x=1,4,5,3"]).status, 0);
    assert_eq!(run(&["--shape", "1,1,1,3"]).status, 0);
}

#[cfg(unix)]
#[test]
fn inputs_that_are_no_files_are_refused() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let folder = scratch.folder("folder");
    let cases = [(folder.as_str(), "a directory"), ("/dev/zero", "a pipe or a device"), ("none.npy", "no such file")];
    for (input, text) in cases {
        for option in ["--input", "--labels"] {
            let answer = attache(&["run", &model, "--delegate", "cpu", option, input]);
            let said = answer.stderr.contains(text) && answer.stderr.contains(input);
            assert!(answer.status == 2 && said, "{option} {input}: {}", answer.stderr);
        }
    }
    let answer = attache(&["run", &model, "--delegate", "cpu", "--out", &model]);
    assert!(answer.status == 2 && answer.stderr.contains("this is a file; name a folder"), "{}", answer.stderr);
}
