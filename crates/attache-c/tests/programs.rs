//! Programs in C and C++, compiled against the headers and the shared library as users compile theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

/// The compilers of C and C++ that every program is compiled with.
const COMPILERS: [(&str, &str); 2] = [("gcc", "g++"), ("clang", "clang++")];

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of the shared library, which cargo builds beside the tests.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = [test.parent().unwrap(), test.ancestors().nth(2).unwrap()];
    let folder = folders.iter().find(|folder| folder.join("libattache_c.so").exists());
    folder.expect("cargo builds libattache_c.so").to_path_buf()
}

fn compiler(program: &str, (c, cpp): (&str, &str)) -> Command {
    let is_cpp = program.ends_with(".cc");
    let mut command = Command::new(if is_cpp { cpp } else { c });
    command.args([if is_cpp { "-std=c++17" } else { "-std=c11" }, "-Wall", "-Wextra", "-Werror", "-g", "-I"]);
    command.arg(crate_folder().join("include"));
    command.arg(crate_folder().join("tests/programs").join(program));
    command
}

fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Compiles a program with each compiler and runs it. `ATTACHE_C_RUNNER` names a program that runs it, such as valgrind.
fn run(program: &str, arguments: &[&Path]) {
    let arguments: Vec<&OsStr> = arguments.iter().map(|path| path.as_os_str()).collect();
    run_with(program, &arguments);
}

/// As [`run`], with arguments of any kind.
fn run_with(program: &str, arguments: &[&OsStr]) {
    let folder = tempfile::tempdir().unwrap();
    let library = library_folder();
    for compilers in COMPILERS {
        let built = folder.path().join(compilers.0);
        let mut rpath = OsString::from("-Wl,-rpath,");
        rpath.push(&library);
        let mut compile = compiler(program, compilers);
        must(compile.arg("-L").arg(&library).args(["-lattache_c", "-pthread"]).arg(rpath).arg("-o").arg(&built));
        let runner = std::env::var("ATTACHE_C_RUNNER").unwrap_or_default();
        let mut words = runner.split_whitespace();
        let mut command = match words.next() {
            Some(first) => Command::new(first),
            None => Command::new(&built),
        };
        if !runner.is_empty() {
            command.args(words).arg(&built);
        }
        // Cargo's folders would come before the one that the program was linked with, and may have an older library.
        must(command.args(arguments).env("ATTACHE_SOFTWARE", "1").env_remove("LD_LIBRARY_PATH"));
    }
}

/// Writes a model of one operator: `outputs = operator(inputs)`.
fn of_one(operator: BuiltinOperator, inputs: usize, shape: &[usize]) -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let subgraph = builder.subgraph("main");
    let ids: Vec<usize> = (0..=inputs)
        .map(|index| builder.tensor(subgraph, TensorBuilder::new(&format!("t{index}"), DataType::Float32, shape)))
        .collect();
    builder.operator(subgraph, OperatorBuilder::new(operator, ids[..inputs].to_vec(), [ids[inputs]]));
    builder.inputs(subgraph, &ids[..inputs]).outputs(subgraph, &[ids[inputs]]);
    builder.finish()
}

/// Writes a model with the signatures "square", of the first subgraph, and "negate".
fn of_signatures() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let operators = [("square", BuiltinOperator::SQUARE), ("negate", BuiltinOperator::NEG)];
    for (key, operator) in operators {
        let subgraph = builder.subgraph(key);
        let open = |name| TensorBuilder::new(name, DataType::Float32, [4]).shape_signature([-1]);
        let [x, y] = ["x", "y"].map(|name| builder.tensor(subgraph, open(name)));
        builder.operator(subgraph, OperatorBuilder::new(operator, [x], [y]));
        builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
        builder.signature(key, subgraph, &[("in", x)], &[("out", y)]);
    }
    builder.finish()
}

/// Writes a model of one custom operator that doubles.
fn of_custom() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let subgraph = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(subgraph, TensorBuilder::new(name, DataType::Float32, [4])));
    builder.operator(subgraph, OperatorBuilder::custom("Double", [], [x], [y]));
    builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]).metadata("note", [1, 2]);
    builder.metadata("min_runtime_version", *b"1.10.0\0\0");
    builder.finish()
}

/// Writes a model of one custom operator that writes the strings of a list in the other direction.
fn of_custom_strings() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let subgraph = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(subgraph, TensorBuilder::new(name, DataType::String, [2])));
    builder.operator(subgraph, OperatorBuilder::custom("Backwards", [], [x], [y]));
    builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
    builder.finish()
}

/// Writes a model with an intermediate tensor, which has the index 1: `outputs = -exp(inputs)`.
fn of_two() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let subgraph = builder.subgraph("main");
    let names = ["x", "between", "y"];
    let [x, between, y] = names.map(|name| builder.tensor(subgraph, TensorBuilder::new(name, DataType::Float32, [4])));
    builder.operator(subgraph, OperatorBuilder::new(BuiltinOperator::EXP, [x], [between]));
    builder.operator(subgraph, OperatorBuilder::new(BuiltinOperator::NEG, [between], [y]));
    builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
    builder.finish()
}

/// Writes a model with two signatures of its second subgraph: "sum" names the first input and the sum, "product" both
/// inputs, in the other order of their names, and the product.
fn of_subsets() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let tensor = |name: &str| TensorBuilder::new(name, DataType::Float32, [4]);
    let main = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(main, tensor(name)));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::NEG, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let other = builder.subgraph("other");
    let [a, b, sum, product] = ["a", "b", "sum", "product"].map(|name| builder.tensor(other, tensor(name)));
    builder.operator(other, OperatorBuilder::new(BuiltinOperator::ADD, [a, b], [sum]));
    builder.operator(other, OperatorBuilder::new(BuiltinOperator::MUL, [a, b], [product]));
    builder.inputs(other, &[a, b]).outputs(other, &[sum, product]);
    builder.signature("sum", other, &[("one", a)], &[("sum", sum)]);
    builder.signature("product", other, &[("first", b), ("second", a)], &[("product", product)]);
    builder.finish()
}

/// Writes a model whose output has a shape that follows from the values of the input.
fn of_where() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let subgraph = builder.subgraph("main");
    let x = builder.tensor(subgraph, TensorBuilder::new("x", DataType::Bool, [4]));
    let y = builder.tensor(subgraph, TensorBuilder::new("y", DataType::Int64, [1, 1]));
    builder.operator(subgraph, OperatorBuilder::new(BuiltinOperator::WHERE, [x], [y]));
    builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
    builder.finish()
}

/// Writes a model that squares its input, for which it has data.
fn of_data() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let subgraph = builder.subgraph("main");
    let x = builder.tensor(subgraph, TensorBuilder::values("x", [4], &[1.0_f32, 2.0, 3.0, 4.0]));
    let y = builder.tensor(subgraph, TensorBuilder::new("y", DataType::Float32, [4]));
    builder.operator(subgraph, OperatorBuilder::new(BuiltinOperator::SQUARE, [x], [y]));
    builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
    builder.finish()
}

/// Writes a model that puts two copies of a table of strings below each other.
fn of_strings() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let subgraph = builder.subgraph("main");
    let x = builder.tensor(subgraph, TensorBuilder::new("x", DataType::String, [2, 3]).shape_signature([-1, -1]));
    let times = builder.tensor(subgraph, TensorBuilder::values("times", [2], &[2_i32, 1]));
    let y = builder.tensor(subgraph, TensorBuilder::new("y", DataType::String, [4, 3]).shape_signature([-1, -1]));
    builder.operator(subgraph, OperatorBuilder::new(BuiltinOperator::TILE, [x, times], [y]));
    builder.inputs(subgraph, &[x]).outputs(subgraph, &[y]);
    builder.finish()
}

struct Models {
    folder: tempfile::TempDir,
}

impl Models {
    fn new() -> Self {
        let models = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(models.path("add"), of_one(BuiltinOperator::ADD, 2, &[1, 2, 2, 3])).unwrap();
        std::fs::write(models.path("square"), of_one(BuiltinOperator::SQUARE, 1, &[4])).unwrap();
        std::fs::write(models.path("signatures"), of_signatures()).unwrap();
        std::fs::write(models.path("custom"), of_custom()).unwrap();
        std::fs::write(models.path("two"), of_two()).unwrap();
        std::fs::write(models.path("subsets"), of_subsets()).unwrap();
        std::fs::write(models.path("where"), of_where()).unwrap();
        std::fs::write(models.path("data"), of_data()).unwrap();
        std::fs::write(models.path("strings"), of_strings()).unwrap();
        std::fs::write(models.path("backwards"), of_custom_strings()).unwrap();
        models
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[test]
fn headers_are_clean_in_c99_and_cpp17() {
    let include = crate_folder().join("include");
    for (c, cpp) in COMPILERS {
        for (compiler, language) in [(c, ["-std=c99", "-xc"]), (cpp, ["-std=c++17", "-xc++"])] {
            let mut command = Command::new(compiler);
            command.args(language).args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]).arg(&include);
            must(
                command.arg(crate_folder().join("tests/programs/all_headers.h")).arg("-Wno-pragma-once-outside-header"),
            );
        }
    }
}

#[test]
fn every_function_works_and_refuses_what_is_invalid() {
    let models = Models::new();
    run("functions.c", &[&models.path("add"), &with_variables(), &models.path("signatures")]);
}

/// Returns the path of a model whose state is in variables.
fn with_variables() -> PathBuf {
    crate_folder().join("../../conformance/cases/f32_UNIDIRECTIONAL_SEQUENCE_LSTM_coupled/model.tflite")
}

#[test]
fn variables_dynamic_outputs_and_inputs_with_data_have_memory() {
    let models = Models::new();
    let learns = crate_folder().join("../../conformance/cases/f32_ASSIGN_VARIABLE_state_of_itself/model.tflite");
    run("variables.c", &[&with_variables(), &models.path("where"), &learns, &models.path("data")]);
}

#[test]
fn strings_are_passed_in_every_way() {
    let models = Models::new();
    run("strings.cc", &[&models.path("strings"), &models.path("backwards")]);
}

#[test]
fn blocks_of_weights_have_the_scales_of_the_file() {
    let case = "../../conformance/cases/f32_FULLY_CONNECTED_blocks_of_64_no_bias/model.tflite";
    run("blocks.c", &[&crate_folder().join(case)]);
}

#[test]
fn sparse_constants_show_what_the_file_stores() {
    let case = "../../conformance/cases/f32_DENSIFY_rows_32_bits/model.tflite";
    run("sparse.c", &[&crate_folder().join(case)]);
}

#[test]
fn structs_have_the_layout_of_tensorflow_lite() {
    run("structs.c", &[]);
}

#[test]
fn operators_and_delegates_of_a_program_run() {
    let models = Models::new();
    run("extensions.c", &[&models.path("custom"), &models.path("add")]);
}

#[test]
fn threads_do_what_the_guide_allows() {
    let models = Models::new();
    run("threads.c", &[&models.path("add")]);
}

/// Returns a number of random sequences: many with `ATTACHE_DEEP=1`.
fn sequences(few: usize, many: usize) -> OsString {
    let deep = std::env::var("ATTACHE_DEEP").is_ok_and(|value| value == "1");
    (if deep { many } else { few }).to_string().into()
}

#[test]
fn random_sequences_of_calls_work() {
    let models = Models::new();
    run_with("random.c", &[models.path("add").as_os_str(), &sequences(200, 5000), OsStr::new("cpu")]);
}

#[test]
#[cfg(feature = "gpu")]
fn random_sequences_of_calls_work_on_a_gpu() {
    let models = Models::new();
    run_with("random.c", &[models.path("add").as_os_str(), &sequences(10, 300), OsStr::new("gpu")]);
}

/// Returns the names of the functions that the headers declare.
fn declared(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            declared(&entry.path(), found);
            continue;
        }
        let text = std::fs::read_to_string(entry.path()).unwrap();
        for declaration in text.split("TFL_CAPI_EXPORT ").skip(1) {
            let name = declaration.split('(').next().unwrap().split([' ', '*']).next_back().unwrap();
            // The macro's own definition is no function.
            if !name.starts_with("__") {
                found.insert(name.to_owned());
            }
        }
    }
}

#[test]
fn what_is_exported_is_what_the_headers_declare() {
    let library = library_folder().join("libattache_c.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).map(str::to_owned).collect();
    let mut found = BTreeSet::new();
    declared(&crate_folder().join("include"), &mut found);
    if cfg!(not(feature = "gpu")) {
        let is_of_gpu = |name: &str| name.contains("GpuDelegate") || name.contains("gpu_delegate");
        found.retain(|name| !is_of_gpu(name) || name.starts_with("TfLiteTelemetry"));
    }
    let missing: Vec<_> = found.difference(&exported).collect();
    let unknown: Vec<_> = exported.difference(&found).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "only declared: {missing:?}, only exported: {unknown:?}");
}

#[test]
fn codes_of_operators_have_the_names_of_the_schema() {
    let header = crate_folder().join("include/tensorflow/lite/schema/schema_generated.h");
    let text = std::fs::read_to_string(header).unwrap();
    for operator in BuiltinOperator::ENUM_VALUES {
        let line = format!("  BuiltinOperator_{} = {},", operator.variant_name().unwrap(), operator.0);
        assert!(text.lines().any(|other| other == line), "the header lacks {line}");
    }
}

/// What the binary interface of a function shows without its types: the number of arguments, and whether it returns
/// nothing, a pointer or a value.
type Form = (usize, &'static str);

/// Returns the number of arguments in a text that begins behind the opening parenthesis, and the rest behind the closing
/// one.
fn arguments(text: &str) -> (usize, &str) {
    let (mut depth, mut commas) = (0, 0);
    for (place, letter) in text.char_indices() {
        match letter {
            ')' if depth == 0 => {
                let inside = text[..place].trim();
                let is_none = inside.is_empty() || inside == "void";
                // Arguments of a variable number are not counted.
                let last = usize::from(!is_none && !inside.ends_with([',', '.']));
                return (commas + last, &text[place + 1..]);
            }
            '(' | '<' | '[' => depth += 1,
            ')' | '>' | ']' if !text[..place].ends_with('-') => depth -= 1,
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    panic!("no closing parenthesis: {text}");
}

/// Returns the texts of files with an extension in a folder and those below it.
fn texts(folder: &Path, extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => texts(&path, extension),
            false if path.extension().is_some_and(|found| found == extension) => {
                vec![std::fs::read_to_string(path).unwrap()]
            }
            false => Vec::new(),
        })
        .collect()
}

/// Returns the forms of the functions that the headers declare.
fn declared_forms() -> BTreeMap<String, Form> {
    let mut forms = BTreeMap::new();
    for text in texts(&crate_folder().join("include"), "h") {
        for declaration in text.split("TFL_CAPI_EXPORT ").skip(1) {
            let Some((head, rest)) = declaration.split_once('(') else { continue };
            let Some(place) = head.rfind([' ', '*']) else { continue };
            let (result, name) = head.split_at(place + 1);
            let result = match result.trim() {
                "void" => "nothing",
                result if result.ends_with('*') => "a pointer",
                _ => "a value",
            };
            if !name.starts_with("__") {
                forms.insert(name.to_owned(), (arguments(rest).0, result));
            }
        }
    }
    forms
}

/// Returns the forms of the functions of C in the sources.
fn defined_forms() -> BTreeMap<String, Form> {
    let mut forms = BTreeMap::new();
    for folder in ["src", "../attache-external/src/opaque"] {
        for text in texts(&crate_folder().join(folder), "rs") {
            for definition in text.split("fn ").skip(1) {
                let Some((name, rest)) = definition.split_once('(') else { continue };
                if !name.starts_with("TfLite") && !name.starts_with("attache_") {
                    continue;
                }
                let (count, rest) = arguments(rest);
                let result = rest.split('{').next().unwrap().trim();
                let result = match result.strip_prefix("-> ") {
                    None => "nothing",
                    Some(result) if result.starts_with('*') => "a pointer",
                    Some(_) => "a value",
                };
                forms.insert(name.to_owned(), (count, result));
            }
        }
    }
    forms
}

#[test]
fn declarations_have_the_arguments_and_results_of_the_definitions() {
    let defined = defined_forms();
    let declared = declared_forms();
    let differing: Vec<_> = declared
        .iter()
        .filter_map(|(name, form)| Some((name, form, defined.get(name).filter(|found| *found != form)?)))
        .collect();
    assert!(differing.is_empty(), "name, declared, defined: {differing:#?}");
    let compared = declared.keys().filter(|name| defined.contains_key(*name)).count();
    assert!(compared > 200, "only {compared} of {} functions were found in the sources", declared.len());
}

#[test]
fn classes_for_cpp_work() {
    let models = Models::new();
    run("classes.cc", &[&models.path("add"), &models.path("signatures"), &models.path("two")]);
}

#[test]
fn members_of_classes_show_the_interpreter() {
    let models = Models::new();
    run("members.cc", &[&models.path("two"), &models.path("signatures"), &models.path("subsets")]);
}

#[test]
fn models_show_their_bytes_and_what_is_in_them() {
    let models = Models::new();
    run("files.cc", &[&models.path("custom"), &models.path("two")]);
}

#[test]
fn resolvers_of_a_program_find_and_refuse_operators() {
    let models = Models::new();
    run("resolvers.cc", &[&models.path("custom"), &models.path("two")]);
}

#[test]
fn members_of_classes_decide_how_an_interpreter_runs() {
    let models = Models::new();
    let branch = crate_folder().join("../../conformance/cases/f32_IF_result_is_used/model.tflite");
    run("runs.cc", &[&models.path("two"), &models.path("signatures"), &branch]);
}

#[test]
fn operators_of_the_header_are_those_of_the_manual() {
    let header = std::fs::read_to_string(crate_folder().join("include/attache/operators.h")).unwrap();
    let listed: BTreeSet<String> = header.lines().filter(|line| line.starts_with("  X(")).map(str::to_owned).collect();
    let manual = std::fs::read_to_string(crate_folder().join("../../docs/operators.md")).unwrap();
    let rows = manual.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let mut count = 0;
    for (name, rest) in rows {
        let versions = rest.split(" | ").next().unwrap();
        let last = versions.rsplit('–').next().unwrap();
        assert!(versions.starts_with('1'), "{name} has no version 1");
        let is_custom = name.contains(|letter: char| letter.is_ascii_lowercase());
        let is_listed = |line: &String| match is_custom {
            true => line.contains(&format!(", \"{name}\")")) && last == "1",
            false => line.contains(&format!("X({name}, {last})")),
        };
        assert!(listed.iter().any(is_listed), "the header lacks {name} up to version {last}");
        count += 1;
    }
    assert_eq!(count, listed.len(), "the header has operators that the manual lacks");
}

#[test]
#[cfg(feature = "gpu")]
fn snippets_of_the_guide_and_the_post_run() {
    let models = Models::new();
    let stored = models.path("stored");
    std::fs::create_dir(&stored).unwrap();
    run("guide.cc", &[&models.path("square"), &stored]);
    assert!(std::fs::read_dir(&stored).unwrap().next().is_some(), "nothing was stored");
}
