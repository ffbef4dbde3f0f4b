//! `attache tflite`: the flags, lines and files of TensorFlow Lite's tools.

use std::fs;
use std::process::Command;

use crate::support::{Answer, Scratch, attache, relu};

/// Runs a tool with these flags, for which `@` stands for the folder of a test.
fn tool(scratch: &Scratch, name: &str, flags: &[&str]) -> Answer {
    scratch.write("m.tflite", &relu());
    let flags: Vec<String> =
        flags.iter().map(|flag| flag.replace('@', scratch.path("").trim_end_matches('/'))).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    attache(&[&["tflite", name], &flags[..]].concat())
}

/// Returns the numbers of a line that has this form, in which `#` stands for a number.
fn numbers(line: &str, form: &str) -> Option<Vec<f64>> {
    let mut rest = line;
    let mut numbers = Vec::new();
    let mut parts = form.split('#');
    rest = rest.strip_prefix(parts.next()?)?;
    for part in parts {
        let is_digit = |letter: char| letter.is_ascii_digit() || ".e+-".contains(letter);
        let end = rest.find(|letter| !is_digit(letter)).unwrap_or(rest.len());
        // A point that ends a sentence is no part of the number.
        let number = rest[..end].trim_end_matches('.');
        numbers.push(number.parse().ok()?);
        rest = rest[number.len()..].strip_prefix(part)?;
    }
    rest.is_empty().then_some(numbers)
}

/// Returns the numbers of the first line of this form, which must be after `from`, and the place after it.
fn after(lines: &[&str], from: usize, form: &str) -> (Vec<f64>, usize) {
    let found = lines.iter().enumerate().skip(from).find_map(|(place, line)| Some((numbers(line, form)?, place + 1)));
    found.unwrap_or_else(|| panic!("no line \"{form}\" from line {from} on: {lines:#?}"))
}

const STATISTICS: &str = "count=# first=# curr=# min=# max=# avg=# std=# p5=# median=# p95=#";
const PHASE: &str =
    "Running benchmark for at least # iterations and at least # seconds but terminate if exceeding # seconds.";
const TIMINGS: &str = "Inference timings in us: Init: #, First inference: #, Warmup (avg): #, Inference (avg): #";
const MEMORY: &str = "Memory footprint delta from the start of the tool (MB): init=# overall=#";

#[test]
fn the_lines_of_a_benchmark_parse_and_come_in_their_order() {
    let scratch = Scratch::new();
    let flags = ["--graph=@/m.tflite", "--num_runs=30", "--min_secs=0.01", "--warmup_runs=3", "--warmup_min_secs=0"];
    let answer = tool(&scratch, "benchmark_model", &[&flags[..], &["--report_peak_memory_footprint"]].concat());
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    assert_eq!(lines[0], "STARTING!");
    let graph = format!("Graph: [{}]", scratch.path("m.tflite"));
    assert!(lines.contains(&graph.as_str()) && lines.contains(&"Min num runs: [30]"), "{}", answer.stdout);
    let place = lines.iter().position(|line| line.starts_with("Loaded model ")).unwrap();
    let (size, place) = after(&lines, place, "The input model file size (MB): #");
    assert!((size[0] - relu().len() as f64 / 1e6).abs() < 1e-6);
    let (_, place) = after(&lines, place, "Initialized session in #ms.");
    let (phase, place) = after(&lines, place, PHASE);
    assert_eq!(phase, [3.0, 0.0, 150.0]);
    let (_, place) = after(&lines, place, PHASE);
    let (regular, place) = after(&lines, place, STATISTICS);
    let [count, first, curr, min, max, avg, std, p5, median, p95] = regular[..] else { panic!("{regular:?}") };
    assert!(count >= 30.0 && min <= p5 && p5 <= median && median <= p95 && p95 <= max, "{regular:?}");
    assert!((min..=max).contains(&first) && (min..=max).contains(&curr) && (min..=max).contains(&avg) && std >= 0.0);
    let (timings, place) = after(&lines, place, TIMINGS);
    assert_eq!(timings[3], avg);
    let (_, place) = after(&lines, place, MEMORY);
    after(&lines, place, "Overall peak memory footprint (MB) via periodic monitoring: #");
}

/// Every flag of the tool, with a value of its form.
const ALL: &[&str] = &[
    "--num_runs=2",
    "--min_secs=0",
    "--max_secs=30",
    "--warmup_runs=1",
    "--warmup_min_secs=0",
    "--run_delay=0.001",
    "--run_frequency=1000",
    "--num_threads=2",
    "--use_caching=false",
    "--benchmark_name=b",
    "--output_prefix=p ",
    "--verbose=true",
    "--dry_run=false",
    "--report_peak_memory_footprint=1",
    "--memory_footprint_check_interval_ms=5",
    "--gpu_invoke_loop_times=2",
    "--input_layer=x",
    "--input_layer_shape=1,3,2,1",
    "--input_layer_value_range=x,0,1",
    "--input_layer_value_files=",
    "--allow_fp16=true",
    "--require_full_delegation=false",
    "--enable_op_profiling=true",
    "--op_profiling_output_mode=csv",
    "--op_profiling_output_file=@/profile.csv",
    "--max_profiling_buffer_entries=9",
    "--allow_dynamic_profiling_buffer_increase=true",
    "--profiling_output_csv_file=",
    "--export_model_runtime_info=true",
    "--model_runtime_info_output_file=@/runtime.pbtxt",
    "--print_preinvoke_state=true",
    "--print_postinvoke_state=true",
    "--release_dynamic_tensors=true",
    "--optimize_memory_for_large_tensors=1",
    "--disable_delegate_clustering=true",
    "--enable_builtin_cast_constant_cache=true",
    "--output_filepath=@/outputs.bin",
    "--output_proto_filepath=@/outputs.pbtxt",
    "--result_file_path=@/result.pbtxt",
    "--tensor_name_display_length=9",
    "--tensor_type_display_length=9",
    "--alloc_type_display_length=9",
    "--signature_to_run_for=",
    "--list_signatures=false",
    "--help=false",
    "--max_delegated_partitions=1",
    "--min_nodes_per_partition=1",
    "--delegate_serialize_dir=",
    "--delegate_serialize_token=t",
    "--first_delegate_node_index=0",
    "--last_delegate_node_index=9",
    "--use_gpu=false",
    "--gpu_precision_loss_allowed=true",
    "--gpu_experimental_enable_quant=true",
    "--gpu_inference_for_sustained_speed=false",
    "--gpu_backend=cl",
    "--gpu_wait_type=",
    "--use_nnapi=true",
    "--nnapi_execution_preference=low_power",
    "--nnapi_accelerator_name=a",
    "--disable_nnapi_cpu=true",
    "--use_xnnpack=true",
    "--xnnpack_force_fp16=true",
    "--xnnpack_runtime_flags=1",
    "--xnnpack_weight_cache_file_path=w",
    "--use_hexagon=true",
    "--hexagon_lib_path=/x",
    "--hexagon_profiling=true",
    "--use_coreml=true",
    "--coreml_version=3",
    "--use_ynnpack=true",
    "--external_delegate_path=",
    "--external_delegate_options=",
    "--stable_delegate_settings_file=",
];

#[test]
fn every_flag_is_taken_and_those_without_effect_are_said() {
    let scratch = Scratch::new();
    let answer = tool(&scratch, "benchmark_model", &[&["--graph=@/m.tflite"], ALL].concat());
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    for name in ["use_nnapi", "use_xnnpack", "use_hexagon", "use_coreml", "gpu_experimental_enable_quant", "allow_fp16"]
    {
        assert!(answer.stdout.contains(&format!("--{name} changes nothing: ")), "{name}: {}", answer.stdout);
    }
    let read = |name: &str| fs::read_to_string(scratch.path(name)).unwrap();
    assert_eq!(fs::read(scratch.path("outputs.bin")).unwrap().len(), 6 * 4);
    let example = read("outputs.pbtxt");
    assert!(example.contains("key: \"y\"") && example.matches("value: ").count() == 6, "{example}");
    let result = read("result.pbtxt");
    assert!(result.starts_with("name: \"b\"\n") && result.contains("num_runs: 2\n"), "{result}");
    assert!(read("runtime.pbtxt").contains("type: \"RELU\""), "{}", read("runtime.pbtxt"));
    let profile = read("profile.csv");
    let rows: Vec<&str> = profile.lines().filter(|line| line.starts_with("RELU, ")).collect();
    assert!(rows[0].split(", ").count() == 9 && rows[0].ends_with("[y]:0"), "{profile}");
    assert!(answer.stdout.contains("Interpreter has 1 subgraphs."), "{}", answer.stdout);
    assert!(answer.stdout.lines().any(|line| line.starts_with("p Inference timings in us: ")), "{}", answer.stdout);
    // Twelve evaluation flags are in tables of their own.
    let flags = [
        "--model_file=@/m.tflite",
        "--output_file_path=@/diff.pb",
        "--num_runs=2",
        "--num_interpreter_threads=2",
        "--delegate=xnnpack",
    ];
    let answer = tool(&scratch, "inference_diff_eval", &flags);
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let lines: Vec<&str> = answer.stdout.lines().collect();
    let (_, place) = after(&lines, 0, "Num evaluation runs: #");
    let (_, place) = after(&lines, place, "Reference run latency: avg=#(us), std_dev=#(us)");
    let (_, place) = after(&lines, place, "Test run latency: avg=#(us), std_dev=#(us)");
    assert_eq!(after(&lines, place, "OutputDiff[0]: avg_error=#, std_dev=#").0, [0.0, 0.0]);
    assert_eq!(fs::read(scratch.path("diff.pb")).unwrap()[..2], [0x08, 2]);
}

#[test]
fn unknown_flags_and_wrong_values_are_refused() {
    let scratch = Scratch::new();
    let cases: &[(&[&str], &str)] = &[
        (
            &["--graph=@/m.tflite", "--num_thread=2"],
            "--num_thread is no flag of benchmark_model; the nearest is --num_threads",
        ),
        (&["--graph=@/m.tflite", "--num_runs=x"], "--num_runs=x: it must be a whole number"),
        (&["--graph=@/no.tflite"], "no.tflite: there is no such file"),
        (&[], "benchmark_model needs --graph="),
        (&["@/m.tflite"], "is no flag of benchmark_model"),
        (&["--graph=@/m.tflite", "--input_layer=x"], "names 1 inputs and --input_layer_shape has 0 shapes"),
        (
            &[
                "--graph=@/m.tflite",
                "--input_layer=x",
                "--input_layer_shape=1,2,2,1",
                "--input_layer_value_files=x:@/no",
            ],
            "no: there is no such file",
        ),
        (
            &[
                "--graph=@/m.tflite",
                "--input_layer=x",
                "--input_layer_shape=1,2,2,1",
                "--input_layer_value_range=y,0,1",
            ],
            "\"y\" is not in --input_layer",
        ),
        (
            &[
                "--graph=@/m.tflite",
                "--input_layer=x",
                "--input_layer_shape=1,2,2,1",
                "--input_layer_value_range=x,0,1e300",
            ],
            "--input_layer_value_range: 0 to 1e300 does not fit input \"x\": FLOAT32 has",
        ),
        (&["--graph=@/m.tflite", "--op_profiling_output_mode=xml"], "it must be stdout, csv or proto"),
        (&["--graph=@/m.tflite", "--result_file_path=@/no/r.pb"], "the folder of this file is not there"),
    ];
    for (flags, part) in cases {
        let answer = tool(&scratch, "benchmark_model", flags);
        assert_eq!(answer.status, 2, "{flags:?}: {}", answer.stdout);
        assert!(answer.stderr.contains(part), "{flags:?}: {}", answer.stderr);
    }
    assert!(
        attache(&["tflite", "label_image"])
            .stderr
            .contains("there is no tool \"label_image\"; there are benchmark_model")
    );
    let answer = tool(&scratch, "benchmark_model", &["--graph=@/m.tflite", "--require_full_delegation=true"]);
    assert!(answer.status == 4 && answer.stdout.contains("Disallowed CPU fallback detected.\n"), "{}", answer.stderr);
}

#[test]
fn inputs_come_from_files_and_ranges() {
    let scratch = Scratch::new();
    let values: Vec<u8> = [3.0f32, -1.0, 0.5, 7.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    scratch.write("x.bin", &values);
    let layer =
        ["--graph=@/m.tflite", "--input_layer=x", "--input_layer_shape=1,2,2,1", "--num_runs=1", "--min_secs=0"];
    let with = |more: &str| {
        let flags = [&layer[..], &["--warmup_min_secs=0", "--output_filepath=@/y.bin", more]].concat();
        let answer = tool(&scratch, "benchmark_model", &flags);
        assert_eq!(answer.status, 0, "{}", answer.stderr);
        let bytes = fs::read(scratch.path("y.bin")).unwrap();
        bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(with("--input_layer_value_files=x:@/x.bin"), [3.0, 0.0, 0.5, 7.0]);
    assert!(with("--input_layer_value_range=x,5,6").iter().all(|value| (5.0..6.0).contains(value)));
    assert!(with("--verbose=false").iter().all(|value| (0.0..0.5).contains(value)));
}

#[test]
fn layers_with_other_names_are_taken_in_order_and_said() {
    let scratch = Scratch::new();
    let answer = tool(
        &scratch,
        "benchmark_model",
        &[
            "--graph=@/m.tflite",
            "--input_layer=serving:0",
            "--input_layer_shape=1,2,2,1",
            "--input_layer_value_range=serving::0,5,6",
            "--num_runs=1",
            "--min_secs=0",
            "--warmup_min_secs=0",
            "--output_filepath=@/y.bin",
        ],
    );
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    assert!(answer.stdout.contains("is named x but flags call it serving:0\n"), "{}", answer.stdout);
    let bytes = fs::read(scratch.path("y.bin")).unwrap();
    let mut values = bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
    assert!(values.all(|value| (5.0..6.0).contains(&value)));
}

#[test]
fn columns_have_a_greatest_width() {
    let scratch = Scratch::new();
    for name in ["tensor_name_display_length", "tensor_type_display_length", "alloc_type_display_length"] {
        let width = format!("--{name}=100000");
        let flags = ["--graph=@/m.tflite", "--dry_run=true", "--print_preinvoke_state=true", &width];
        let answer = tool(&scratch, "benchmark_model", &flags);
        assert_eq!(answer.status, 0, "{}", answer.stderr);
        assert!(answer.stdout.lines().any(|line| (1000..1200).contains(&line.len())), "{name}");
    }
}

#[test]
fn a_delegate_without_a_path_is_not_said_to_be_applied() {
    let scratch = Scratch::new();
    let flags = ["--graph=@/m.tflite", "--dry_run=true", "--external_delegate_path="];
    let answer = tool(&scratch, "benchmark_model", &flags);
    assert!(answer.status == 0 && !answer.stdout.contains("explicitly applied"), "{}", answer.stdout);
}

#[test]
fn the_throughput_is_that_of_the_inputs() {
    let scratch = Scratch::new();
    let flags = ["--graph=@/m.tflite", "--num_runs=3", "--min_secs=0", "--result_file_path=@/result.pbtxt"];
    let layer = ["--input_layer=x", "--input_layer_shape=1,128,128,16"];
    let answer = tool(&scratch, "benchmark_model", &[&flags[..], &layer].concat());
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let result = fs::read_to_string(scratch.path("result.pbtxt")).unwrap();
    let number = |name: &str| -> f64 {
        let line = result.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name}: {result}")).parse().unwrap()
    };
    // An input is 1 MiB, and times are rounded to microseconds.
    let expected = 1e3 / number("avg_ms");
    let found = number("model_throughput_in_mb_per_sec");
    assert!((found - expected).abs() < expected * 0.02, "{found} instead of {expected}");
}

#[test]
fn dry_runs_and_signatures_run_nothing() {
    let scratch = Scratch::new();
    let answer = tool(&scratch, "benchmark_model", &["--graph=@/m.tflite", "--dry_run=true"]);
    assert_eq!((answer.status, answer.stdout.matches("count=0\n").count()), (0, 2), "{}", answer.stdout);
    let answer = tool(&scratch, "benchmark_model", &["--graph=@/m.tflite", "--list_signatures"]);
    assert_eq!(
        (answer.status, answer.stdout.contains("The Model contains 0 signature key(s).\n")),
        (0, true),
        "{}",
        answer.stdout
    );
}

#[test]
fn performance_options_end_in_a_summary() {
    let scratch = Scratch::new();
    let flags =
        ["--graph=@/m.tflite", "--num_runs=3", "--min_secs=0", "--warmup_min_secs=0", "--perf_options_list=cpu"];
    let answer = tool(&scratch, "benchmark_model_performance_options", &flags);
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let (_, summary) = answer.stdout.split_once("Summary of All Runs w/ Different Performance Options").unwrap();
    for threads in [1, 2, 4] {
        assert!(summary.contains(&format!("cpu w/ {threads} threads: count=3 ")), "{summary}");
    }
    let answer = tool(&scratch, "benchmark_model_performance_options", &[flags[0], "--perf_options_list=tpu"]);
    assert!(answer.status == 2 && answer.stderr.contains("\"tpu\" is not known"), "{}", answer.stderr);
}

/// The averages of `attache diff` are those of the tool: both run on the same random numbers.
#[cfg(feature = "gpu")]
#[test]
fn the_differences_are_those_of_our_own_command() {
    let scratch = Scratch::new();
    let model = scratch.write("tanh.tflite", &tanh());
    let flags = [
        format!("--model_file={model}"),
        "--num_runs=4".into(),
        "--delegate=gpu".into(),
        "--gpu_precision_loss_allowed=0".into(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let answer = attache(&[&["tflite", "inference_diff_eval"], &flags[..]].concat());
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    assert!(
        answer.stdout.contains(
            "Explicitly applied GPU delegate, and the model graph will be completely executed by the delegate.\n"
        ),
        "{}",
        answer.stdout
    );
    let lines: Vec<&str> = answer.stdout.lines().collect();
    let (found, _) = after(&lines, 0, "OutputDiff[0]: avg_error=#, std_dev=#");
    let own = attache(&["diff", &model, "-n", "4", "--delegate", "gpu", "--json"]).object();
    for (found, name) in found.iter().zip(["average", "standard_deviation"]) {
        let own = own["outputs"][0][name].as_f64().unwrap();
        assert!((found - own).abs() <= own * 1e-5, "{name}: {found} instead of {own}");
    }
}

/// Returns a model of a TANH, which a GPU computes in another way than the CPU.
#[cfg(feature = "gpu")]
fn tanh() -> Vec<u8> {
    use attache::model::schema::BuiltinOperator;
    use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};
    let mut builder = ModelBuilder::new("tanh");
    let main = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [1, 8, 8, 3])));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::TANH, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

#[cfg(unix)]
#[test]
fn a_link_with_the_name_of_a_tool_is_the_tool() {
    let scratch = Scratch::new();
    let model = scratch.write("m.tflite", &relu());
    for name in ["benchmark_model", "linux_x86-64_benchmark_model", "benchmark_model.bin"] {
        let link = scratch.path(name);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_attache"), &link).unwrap();
        let output = Command::new(&link).args([&format!("--graph={model}"), "--dry_run=1"]).output().unwrap();
        assert!(output.status.success() && output.stdout.starts_with(b"STARTING!\n"), "{name}");
    }
}

#[test]
fn a_tool_replaces_nothing_that_it_reads() {
    let scratch = Scratch::new();
    let (graph, before) = (scratch.write("m.tflite", &relu()), relu());
    for flags in [
        &["benchmark_model", "--num_runs=1", "--graph", "--result_file_path"][..],
        &["inference_diff_eval", "--num_runs=1", "--model_file", "--output_file_path"],
    ] {
        let [tool, runs, read, written] = flags else { unreachable!() };
        let answer = attache(&["tflite", tool, runs, &format!("{read}={graph}"), &format!("{written}={graph}")]);
        let said = format!("{written} would replace this file, which the command reads ({read})");
        assert!(answer.status == 2 && answer.stderr.contains(&said), "{}", answer.stderr);
        assert!(std::fs::read(&graph).unwrap() == before);
    }
}
