//! Tests the command as a user runs it: messages, keys of JSON objects, files and exit statuses.

use serde_json::Value;

use crate::support::{Answer, Scratch, attache, floats, png, relu, unknown};

/// Returns the sorted keys of a JSON object.
fn keys(object: &Value) -> Vec<&str> {
    object.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn assert_keys(object: &Value, expected: &[&str]) {
    let found = keys(object);
    assert!(expected.iter().all(|key| found.contains(key)), "{expected:?} are not all among {found:?}");
}

#[test]
fn exit_statuses_tell_what_went_wrong() {
    let scratch = Scratch::new();
    let (model, unknown) = (scratch.write("relu.tflite", &relu()), scratch.write("unknown.tflite", &unknown()));
    let bad = scratch.write("bad.tflite", b"this is no model");
    let empty = scratch.folder("empty");
    let cases: &[(&[&str], i32)] = &[
        (&["run", &model, "--delegate", "cpu"], 0),
        (&["inspect", &unknown], 0),
        (&["--help"], 0),
        (&["--version"], 0),
        (&[], 2),
        (&["fly"], 2),
        (&["run", "no-such-model"], 2),
        (&["run", &model, "--delegate", "tpu"], 2),
        (&["run", &model, "--delegate", "cpu", "--require-delegation"], 2),
        (&["run", &model, "--delegate", "cpu", "--shape", "1x4"], 2),
        (&["run", &model, "--delegate", "cpu", "--shape", "4294967296,4294967296,1,1"], 2),
        (&["run", &model, "--delegate", "cpu", "--input", "no-such.npy"], 2),
        (&["run", &model, "--delegate", "cpu", "--labels", "no-such.txt"], 2),
        (&["check", &empty, "--delegate", "cpu"], 2),
        (&["zoo", "no-such-model", "--out", "x.tflite"], 2),
        (&["run", &bad, "--delegate", "cpu"], 3),
        (&["inspect", &bad], 3),
        (&["bench", &bad, "--delegate", "cpu"], 3),
        (&["run", &unknown, "--delegate", "cpu"], 4),
        (&["run", &model, "--delegate", "cpu", "--precision", "f16"], 4),
    ];
    for (arguments, status) in cases {
        let text = attache(arguments);
        assert_eq!(text.status, *status, "{arguments:?}: {}", text.stderr);
        if *status != 0 {
            assert!(text.stdout.is_empty(), "{arguments:?}: {}", text.stdout);
            assert!(text.stderr.contains("error: "), "{arguments:?}: {}", text.stderr);
        }
        let json = attache(&[&["--json"], *arguments].concat());
        assert_eq!(json.status, *status, "{arguments:?}");
        let object = json.object();
        assert_eq!(object.get("error").is_some(), *status != 0, "{arguments:?}: {object}");
        if *status != 0 {
            assert_keys(&object["error"], &["kind", "message"]);
            assert!(json.stderr.is_empty(), "{arguments:?}: {}", json.stderr);
        }
    }
}

#[cfg(feature = "gpu")]
#[test]
fn a_device_that_is_not_there_has_its_status() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let answer = attache(&["run", &model, "--adapter", "no adapter has this name", "--json"]);
    assert_eq!((answer.status, answer.object()["error"]["kind"].as_str()), (5, Some("device")));
}

#[cfg(feature = "gpu")]
#[test]
fn the_gpu_takes_over_where_it_is_asked() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let object = attache(&["run", &model, "--delegate", "gpu", "--require-delegation", "--json"]).object();
    assert_eq!((object["delegate"].as_str(), object["device"].is_string()), (Some("gpu"), true), "{object}");
    assert_eq!(object["placement"][0]["partition"], 0);
    let object = attache(&["bench", &model, "--delegate", "gpu", "--runs", "2", "--json"]).object();
    assert_eq!((object["nodes_delegated"].as_u64(), object["dispatches"].as_u64()), (Some(1), Some(1)), "{object}");
    for (stage, part) in [("program", "max"), ("wgsl", "@compute"), ("plan", "arena")] {
        let answer = attache(&["dump", stage, &model, "--delegate", "gpu"]);
        assert_eq!(answer.status, 0, "{}", answer.stderr);
        assert!(answer.stdout.to_lowercase().contains(part), "{stage}: {}", answer.stdout);
    }
    let object = attache(&["inspect", &model, "--json"]).object();
    assert_eq!(object["nodes"][0]["delegated"], true);
}

#[cfg(not(feature = "gpu"))]
#[test]
fn without_the_gpu_asking_for_it_is_unsupported() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    assert_eq!(attache(&["run", &model, "--delegate", "gpu"]).status, 4);
    assert_eq!(attache(&["run", &model, "--json"]).object()["delegate"], "cpu");
}

#[test]
fn run_writes_what_comes_out() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let input = scratch.write("x.npy", &floats(&[1, 2, 2, 1], &[-1.0, 0.5, f32::NAN, 3.0]));
    let out = scratch.folder("out");
    let arguments = ["run", &model, "--delegate", "cpu", "--input", &input, "--out", &out, "--json"];
    let object = attache(&arguments).object();
    assert_keys(&object, &["outputs", "top", "placement"]);
    let output = &object["outputs"][0];
    assert_eq!(output["name"], "y");
    assert_eq!(output["dtype"], "float32");
    assert_eq!(output["shape"], serde_json::json!([1, 2, 2, 1]));
    assert_eq!((output["min"].as_f64(), output["max"].as_f64()), (Some(0.0), Some(3.0)));
    assert_eq!(output["nonfinite"], 1);
    assert_eq!(object["placement"][0]["operator"], "RELU");
    let written = std::fs::read(std::path::Path::new(&out).join("out_0.npy")).unwrap();
    let values: Vec<f32> = written[128..].chunks_exact(4).map(|b| f32::from_ne_bytes(b.try_into().unwrap())).collect();
    assert_eq!((values[0], values[1], values[3]), (0.0, 0.5, 3.0));
    assert!(values[2].is_nan());

    let by_name = format!("x={input}");
    assert_eq!(attache(&["run", &model, "--delegate", "cpu", "--input", &by_name]).status, 0);
}

#[test]
fn run_takes_pictures_labels_and_shapes() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let picture = scratch.write("x.png", &png(2, 2, [255, 255, 255]));
    let labels = scratch.write("labels.txt", b"a\nb\nc\nd\n");
    let common = ["run", &model, "--delegate", "cpu", "--json"];
    let with = |more: &[&str]| attache(&[&common[..], more].concat()).object();

    let object = with(&["--input", &picture, "--labels", &labels, "--top", "2"]);
    assert_eq!(object["outputs"][0]["max"], 1.0);
    assert_eq!(object["top"].as_array().unwrap().len(), 2);
    assert_eq!(object["top"][0]["label"], "a");
    let object = with(&["--input", &picture, "--mean", "0", "--std", "51"]);
    assert_eq!(object["outputs"][0]["max"], 5.0);
    let object = with(&["--shape", "1,3,5,1"]);
    assert_eq!(object["outputs"][0]["shape"], serde_json::json!([1, 3, 5, 1]));
    assert_eq!(with(&["--shape", "x=1,3,5,1", "--seed", "7"]), with(&["--shape", "x=1,3,5,1", "--seed", "7"]));
    assert_ne!(with(&["--seed", "7"])["outputs"], with(&["--seed", "8"])["outputs"]);
}

#[test]
fn limits_are_options_everywhere() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let limits = [("tensor_bytes", "15"), ("arena_bytes", "15"), ("operators", "0"), ("multiply_adds", "3")];
    let commands: [&[&str]; 4] = [
        &["run", &model],
        &["bench", &model, "--runs", "1", "--warmup", "0"],
        &["diff", &model, "--per-operator"],
        &["dump", "partition", &model],
    ];
    for (command, (name, limit)) in commands.iter().flat_map(|command| limits.map(|limit| (command, limit))) {
        let flag = format!("--limit-{}", name.replace('_', "-"));
        let answer = attache(&[command, &["--delegate", "cpu", &flag, limit][..]].concat());
        assert_eq!(answer.status, 4, "{command:?} {flag}: {}", answer.stderr);
        let text = format!("the limit {name} is {limit}; ");
        assert!(answer.stderr.contains(&text) && answer.stderr.contains(&flag), "{}", answer.stderr);
        assert_eq!(attache(&[command, &["--delegate", "cpu", &flag, "1000000"][..]].concat()).status, 0);
    }
    assert_eq!(attache(&["run", &model, "--delegate", "cpu", "--limit-loop-steps", "0"]).status, 0);
    assert_eq!(attache(&["run", &model, "--limit-loop-steps", "many"]).status, 2);
}

#[test]
fn every_command_that_looks_at_a_model_takes_quantized() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    scratch.write("case/model.tflite", &relu());
    scratch.write("case/in_0.npy", &floats(&[1, 2, 2, 1], &[1.0, 2.0, -3.0, -4.0]));
    scratch.write("case/out_0.npy", &floats(&[1, 2, 2, 1], &[1.0, 2.0, 0.0, 0.0]));
    let case = scratch.path("case");
    let cpu = ["--delegate", "cpu"];
    let commands: [(&[&str], &[&str]); 6] = [
        (&["run", &model], &cpu),
        (&["check", &case], &cpu),
        (&["bench", &model, "--runs", "1", "--warmup", "0"], &cpu),
        (&["diff", &model, "--per-operator"], &cpu),
        (&["dump", "partition", &model], &cpu),
        (&["inspect", &model], &[]),
    ];
    for (command, device) in commands {
        for quantized in ["auto", "view", "exact"] {
            let answer = attache(&[command, device, &["--quantized", quantized, "--json"]].concat());
            assert_eq!(answer.status, 0, "{command:?}: {}", answer.stdout);
            let object = answer.object();
            let said = object.get("quantized").map(|word| word.as_str() == Some(quantized));
            assert!(said.unwrap_or(matches!(command[0], "dump" | "inspect")), "{command:?}: {object}");
        }
        assert_eq!(attache(&[command, device, &["--quantized", "both"]].concat()).status, 2, "{command:?}");
    }
}

#[test]
fn check_compares_golden_cases() {
    let scratch = Scratch::new();
    for (name, golden) in [("good", 0.0), ("wrong", 0.25)] {
        let folder = scratch.folder(&format!("cases/{name}"));
        scratch.write(&format!("cases/{name}/model.tflite"), &relu());
        scratch.write(&format!("cases/{name}/in_0.npy"), &floats(&[1, 2, 2, 1], &[1.0, 2.0, -3.0, -4.0]));
        scratch.write(&format!("cases/{name}/out_0.npy"), &floats(&[1, 2, 2, 1], &[1.0, 2.0, golden, 0.0]));
        assert!(folder.ends_with(name));
    }
    let cases = scratch.folder("cases");
    let text = attache(&["check", &cases, "--delegate", "cpu"]);
    assert_eq!(text.status, 1);
    assert_eq!(text.stdout.lines().last(), Some("1 passed, 1 failed"));
    let failure = text.stdout.lines().find(|line| line.starts_with("FAILED")).unwrap();
    for part in ["wrong", "RELU", "output 0", "[0, 1, 0, 0]", "1.250e-1"] {
        assert!(failure.contains(part), "{failure}");
    }

    let object = attache(&["check", &cases, "--delegate", "cpu", "--json"]).object();
    assert_eq!((object["passed"].as_u64(), object["failed"].as_u64()), (Some(1), Some(1)));
    let failure = &object["failures"][0];
    assert_keys(failure, &["case", "operator", "output", "error", "limit", "message"]);
    assert_eq!((failure["error"].as_f64(), failure["limit"].as_f64()), (Some(0.125), Some(1e-5)));

    assert_eq!(attache(&["check", &cases, "--delegate", "cpu", "--filter", "good"]).status, 0);
    assert_eq!(attache(&["check", &cases, "--delegate", "cpu", "--tolerance", "0.2"]).status, 0);
    scratch.write("cases/wrong/case.json", br#"{"op": "RELU", "scale": 1e6}"#);
    assert_eq!(attache(&["check", &cases, "--delegate", "cpu"]).status, 0);
    scratch.write("cases/wrong/model.tflite", b"damaged");
    let answer = attache(&["check", &cases, "--delegate", "cpu"]);
    assert_eq!((answer.status, answer.stdout.lines().last()), (1, Some("1 passed, 1 failed")));
}

#[test]
fn check_counts_the_cases_of_variants() {
    let scratch = Scratch::new();
    scratch.write("case/model.tflite", &relu());
    scratch.write("case/in_0.npy", &floats(&[1, 2, 2, 1], &[1.0, 2.0, -3.0, -4.0]));
    scratch.write("case/out_0.npy", &floats(&[1, 2, 2, 1], &[1.0, 2.0, 0.0, 0.0]));
    let case = scratch.folder("case");
    let check = ["check", &case, "--delegate", "gpu"];
    let answer = attache(&[&check[..], &["--variant", "all", "--json"]].concat());
    assert_eq!(answer.status, 1, "{}", answer.stdout);
    let object = answer.object();
    assert_eq!((object["failed"].as_u64(), object["variants"]["map"].as_u64()), (Some(0), Some(1)));
    let unseen: Vec<_> = object["unseen"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    assert!(unseen.contains(&"conv") && !unseen.contains(&"map") && !unseen.contains(&"conv_bytes"), "{unseen:?}");
    let text = attache(&[&check[..], &["--variant", "all"]].concat()).stdout;
    assert!(text.contains("\nmap: 1 case\n") && text.contains("conv_bytes: no case: it needs"), "{text}");
    assert_eq!(attache(&[&check[..], &["--variant", "map"]].concat()).status, 0);
    for (variant, delegate, status) in [("none", "gpu", 2), ("all", "cpu", 4), ("map", "cpu", 4)] {
        assert_eq!(
            attache(&["check", &case, "--delegate", delegate, "--variant", variant]).status,
            status,
            "{variant}"
        );
    }
    assert_eq!(attache(&["bench", "mobilenet_v1", "--delegate", "gpu", "--variant", "all"]).status, 2);
}

#[test]
fn bench_has_all_its_keys() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let arguments = ["bench", &model, "--delegate", "cpu", "--threads", "1", "--runs", "3", "--warmup", "1"];
    assert!(attache(&arguments).stdout.contains("end to end"));
    let object = attache(&[&arguments[..], &["--json"]].concat()).object();
    let expected = [
        "model",
        "delegate",
        "precision",
        "threads",
        "device",
        "driver",
        "backend",
        "ready_ms",
        "read_ms",
        "init_ms",
        "device_ms",
        "device_instance_ms",
        "device_search_ms",
        "device_open_ms",
        "compile_ms",
        "upload_ms",
        "rest_ms",
        "first_ms",
        "e2e_ms",
        "pipelined_ms",
        "submit_us",
        "io",
        "io_bytes",
        "bind_ms",
        "nodes",
        "nodes_delegated",
        "partitions",
        "dispatches",
        "arena_bytes",
        "arena_lower_bound_bytes",
        "weights_bytes",
        "peak_rss_bytes",
    ];
    assert_keys(&object, &expected);
    for times in ["e2e_ms", "pipelined_ms"] {
        assert_keys(&object[times], &["count", "median", "p5", "p95", "min", "max", "mean", "std"]);
        assert!(object[times]["min"].as_f64().unwrap() <= object[times]["p95"].as_f64().unwrap());
    }
    assert_eq!((object["delegate"].as_str(), object["threads"].as_u64()), (Some("cpu"), Some(1)));
    assert_eq!((object["nodes"].as_u64(), object["nodes_delegated"].as_u64()), (Some(1), Some(0)));
    assert_eq!(object["e2e_ms"]["count"], 3);
    let text = attache(&arguments).stdout;
    assert!(text.contains("std") && !text.contains("GPU was found") && !text.contains("no hardware GPU"), "{text}");
}

#[test]
fn the_cpu_has_a_profile_by_operator() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let input = scratch.write("x.npy", &floats(&[1, 2, 2, 1], &[1.0, 2.0, -3.0, -4.0]));
    let [trace, svg] = ["trace.json", "a.svg"].map(|name| scratch.path(name));
    let bench = ["bench", &model, "-d", "cpu", "-t", "1", "-n", "2", "--warmup", "0", "-i", &input, "-p"];
    let answer = attache(&[&bench[..], &["--json", "--chrome-trace", &trace, "--svg", &svg]].concat());
    let object = answer.object();
    assert_eq!((answer.status, &object["profile"]), (0, &Value::Null), "{}", answer.stderr);
    let operators = &object["cpu_profile"]["operators"];
    assert_eq!(operators[0]["operators"], serde_json::json!([{ "index": 0, "name": "RELU" }]));
    assert_eq!((operators.as_array().unwrap().len(), operators[0]["us"].as_f64() > Some(0.0)), (1, true));
    assert_eq!(object["inputs"][0]["file"], input);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert!(read(&trace).contains("0 RELU") && read(&svg).contains("0 RELU"));
    let text = attache(&bench).stdout;
    assert!(text.contains("0 RELU") && text.contains("operators on the CPU"), "{text}");
}

#[cfg(feature = "gpu")]
#[test]
fn a_profile_tells_where_the_time_goes() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let [out, trace, svg] = ["a.json", "trace.json", "a.svg"].map(|name| scratch.path(name));
    let gpu = ["bench", &model, "--delegate", "gpu", "--runs", "2", "--warmup", "0"];
    let arguments = ["--profile", "--out", &out, "--chrome-trace", &trace, "--svg", &svg, "--json"];
    let answer = attache(&[&gpu[..], &arguments].concat());
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    let object = answer.object();
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let parse = |path: &str| serde_json::from_str::<Value>(&read(path)).unwrap();
    assert_eq!(parse(&out), object);

    let profile = &object["profile"];
    let expected = [
        "runs",
        "peaks",
        "gpu_us",
        "dispatches_us",
        "between_us",
        "between_percent",
        "barriers",
        "totals",
        "dispatches",
    ];
    assert_keys(profile, &expected);
    let number = |value: &Value| value.as_f64().unwrap();
    let [ready, read_ms, device, init] =
        ["ready_ms", "read_ms", "device_ms", "init_ms"].map(|key| number(&object[key]));
    assert!(ready >= init + device.max(read_ms), "{object}");
    let opened = ["device_instance_ms", "device_search_ms", "device_open_ms"].map(|key| number(&object[key]));
    assert!(opened.iter().all(|part| *part > 0.0) && opened.iter().sum::<f64>() <= device, "{object}");
    let built = ["compile_ms", "upload_ms", "rest_ms"].map(|key| number(&object[key]));
    assert!(built.iter().sum::<f64>() >= init - 1e-6, "{object}");
    assert!(number(&profile["peaks"]["bytes_per_second"]) > 0.0);
    let dispatches = profile["dispatches"].as_array().unwrap();
    assert_eq!(dispatches.len() as u64, object["dispatches"].as_u64().unwrap());
    let sum: f64 = dispatches.iter().map(|dispatch| number(&dispatch["us"])).sum();
    assert!(dispatches.iter().all(|dispatch| number(&dispatch["us"]) >= 0.0));
    assert!((sum - number(&profile["dispatches_us"])).abs() < 1e-6);
    assert_eq!(dispatches[0]["operators"], serde_json::json!([{ "index": 0, "name": "RELU" }]));
    assert_eq!(dispatches[0]["bytes_written"], 16);

    assert_eq!(parse(&trace)["traceEvents"].as_array().unwrap().len(), 2 + dispatches.len());
    assert!(read(&svg).starts_with("<svg ") && read(&svg).contains("0 RELU"));
    let text = attache(&[&gpu[..], &["--profile"]].concat()).stdout;
    assert!(text.contains("0 RELU") && text.contains("% roofline"), "{text}");

    let answer = attache(&["bench", "--compare", &out, &out]);
    assert_eq!(answer.status, 0, "{}", answer.stderr);
    assert_eq!(answer.stdout.matches("1.00×").count(), 6, "{}", answer.stdout);
    let object = attache(&["bench", "--compare", &out, &out, "--json"]).object();
    assert_keys(&object, &["models", "times", "operators"]);
}

#[test]
fn what_is_compared_must_be_measurements() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    let out = scratch.path("a.json");
    let arguments = ["bench", &model, "--delegate", "cpu", "--runs", "1", "--warmup", "0", "--out", &out];
    assert_eq!(attache(&arguments).status, 0);
    assert_eq!(attache(&["bench", "--compare", &out, &out]).stdout.matches("1.00×").count(), 4);
    for arguments in [
        &["bench", "--compare", &out, &model][..],
        &["bench", "--compare", &out, "no-such.json"],
        &["bench", "--compare", &out],
        &["bench", &model, "--compare", &out, &out],
        &["bench"],
    ] {
        let answer = attache(arguments);
        assert_eq!((answer.status, answer.stdout.is_empty()), (2, true), "{arguments:?}: {}", answer.stderr);
    }
}

#[test]
fn inspect_lists_every_gap() {
    let scratch = Scratch::new();
    let model = scratch.write("unknown.tflite", &unknown());
    let object = attache(&["inspect", &model, "--json"]).object();
    let gaps: Vec<_> = object["gaps"].as_array().unwrap().iter().map(|gap| gap["operator"].as_str().unwrap()).collect();
    assert_eq!(gaps, ["NoSuchOperator", "NorThisOne"]);
    let nodes = object["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    let keys = ["index", "operator", "version", "kind", "delegated", "reason", "operations", "bytes", "intensity"];
    nodes.iter().for_each(|node| assert_keys(node, &keys));
    assert_eq!(nodes[0]["operations"], serde_json::Value::Null);
    assert_keys(&object["kind"], &["name", "text", "operators", "tensors"]);
    assert_eq!(object["kind"]["name"], "float");
    assert_eq!(object["cost"]["unknown"], 2);
    assert_eq!((nodes[0]["delegated"].as_bool(), nodes[0]["reason"].is_string()), (Some(false), true));
    let text = attache(&["inspect", &model]).stdout;
    assert!(text.contains("2 operators are not implemented") && text.contains("NorThisOne"), "{text}");
    assert!(text.contains("advice: "), "{text}");
}

#[test]
fn the_zoo_is_written_to_files() {
    let scratch = Scratch::new();
    let names = attache(&["zoo"]).stdout;
    assert!(names.lines().any(|name| name == "mobilenet_v1_1.0_224"), "{names}");
    let object = attache(&["zoo", "--json"]).object();
    assert!(object["models"].as_array().unwrap().iter().any(|name| name == "mobilenet_v1_1.0_224"));
    let file = scratch.path("mobilenet.tflite");
    assert_eq!(attache(&["zoo", "mobilenet_v1_1.0_224", "--out", &file]).status, 0);
    let object = attache(&["inspect", &file, "--json"]).object();
    // MobileNet v1 has 1 + 13 · 2 convolutions, pooling, one more convolution, SQUEEZE and SOFTMAX.
    assert_eq!(object["nodes"].as_array().unwrap().len(), 31);
    assert_eq!(object["gaps"], serde_json::json!([]));
    // Two operations for each of the network's 569 million multiply-adds, plus those of the other operators.
    let operations = object["cost"]["operations"].as_u64().unwrap();
    assert!((1_136_000_000..1_142_000_000).contains(&operations), "{operations}");
    assert_eq!(object["cost"]["unknown"], 0);
}

#[test]
fn dump_prints_stages() {
    let scratch = Scratch::new();
    let model = scratch.write("relu.tflite", &relu());
    for stage in ["graph", "passes", "partition"] {
        let answer: Answer = attache(&["dump", stage, &model, "--delegate", "cpu"]);
        assert_eq!(answer.status, 0, "{}", answer.stderr);
        assert!(answer.stdout.to_uppercase().contains("RELU"), "{}", answer.stdout);
        let object = attache(&["dump", stage, &model, "--delegate", "cpu", "--json"]).object();
        assert_eq!(object["text"].as_str().unwrap().trim_end(), answer.stdout.trim_end());
    }
}

#[test]
fn devices_are_listed() {
    let answer = attache(&["devices", "--json"]);
    assert_eq!(answer.status, 0);
    assert!(answer.object()["devices"].is_array());
}
