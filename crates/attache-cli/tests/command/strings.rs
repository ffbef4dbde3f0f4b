//! Tests that models which make very many strings run in little memory, or end with an error.

use std::process::{Command, Output};

use attache::model::schema::BuiltinOperator;
use attache::{Bytes, DataType, ModelBuilder, OperatorBuilder, TensorBuilder, strings};

use crate::support::Scratch;

/// The number of strings that the models make.
const COUNT: i32 = 6_000_000;

/// Runs the command where the address space has so many KiB.
fn limited(kib: usize, arguments: &[&str]) -> Output {
    let line = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_attache")]).args(arguments);
    shell.output().expect("the shell runs")
}

/// Returns a small file that makes `COUNT` strings by an operator: of the text "word" by FILL, or each of three texts by TILE
/// and, for indices that FILL makes, by GATHER_ND.
fn model(operator: BuiltinOperator) -> Vec<u8> {
    let mut builder = ModelBuilder::new("strings");
    let main = builder.subgraph("main");
    let mut constant = |name: &str, data_type: DataType, shape: &[usize], bytes: Vec<u8>| {
        builder.tensor(main, TensorBuilder::new(name, data_type, shape).data(Bytes::from_vec(bytes)))
    };
    let mut integers = |name: &str, shape: &[usize], values: &[i32]| {
        constant(name, DataType::Int32, shape, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    };
    let [count, table, one] = [("count", &[COUNT][..]), ("table", &[COUNT, 1]), ("times", &[COUNT / 3])]
        .map(|(name, values)| integers(name, &[values.len()], values));
    let index = integers("index", &[], &[2]);
    let text = |texts: &[&str]| strings::encoded(texts.iter().map(|text| text.as_bytes())).expect("they are short");
    let word = constant("word", DataType::String, &[], text(&["word"]));
    let texts = constant("texts", DataType::String, &[3], text(&["one", "", "three"]));
    let made = builder.tensor(main, TensorBuilder::new("made", DataType::String, [COUNT as usize]));
    let inputs = match operator {
        BuiltinOperator::FILL => [count, word],
        BuiltinOperator::TILE => [texts, one],
        _ => {
            let indices = builder.tensor(main, TensorBuilder::new("indices", DataType::Int32, [COUNT as usize, 1]));
            builder.operator(main, OperatorBuilder::new(BuiltinOperator::FILL, [table, index], [indices]));
            [texts, indices]
        }
    };
    builder.operator(main, OperatorBuilder::new(operator, inputs, [made]));
    builder.inputs(main, &[]).outputs(main, &[made]);
    builder.finish()
}

/// Checks that the strings are printed where there is memory for few copies of them, and that the command ends with an error
/// where there is less, or where they are asked for one by one.
#[test]
fn many_strings_take_little_memory() {
    let scratch = Scratch::new();
    for (operator, shown) in [
        (BuiltinOperator::FILL, "\"word\", \"word\""),
        (BuiltinOperator::TILE, "\"one\", \"\", \"three\""),
        (BuiltinOperator::GATHER_ND, "\"three\", \"three\""),
    ] {
        let model = scratch.write("m.tflite", &model(operator));
        let arguments = ["run", &model, "--delegate", "cpu", "--threads", "1"];
        let output = limited(700_000, &arguments);
        let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && text.contains(shown), "{operator:?}: {text} {errors}");
        for (kib, more) in [(700_000, &["--json"][..]), (260_000, &[])] {
            let output = limited(kib, &[&arguments[..], more].concat());
            let (status, errors) = (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
            assert!(matches!(status, Some(0 | 4 | 5)), "{operator:?} {kib}: {errors}");
        }
    }
}
