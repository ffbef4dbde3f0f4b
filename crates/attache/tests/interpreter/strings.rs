//! Tests of strings: as inputs, outputs, values of variables and arguments of subgraphs, and the limits on their memory.

use attache::model::schema::BuiltinOperator as Builtin;
use attache::model::schema::{
    AssignVariableOptionsT, BuiltinOptionsT, CallOnceOptionsT, EqualOptionsT, HashtableFindOptionsT,
    HashtableImportOptionsT, HashtableOptionsT, IfOptionsT, ReadVariableOptionsT, TensorType, VarHandleOptionsT,
};
use attache::{
    Bytes, Constant, DataType, ErrorKind, Interpreter, Limits, Model, ModelBuilder, OperatorBuilder, TensorBuilder,
    strings,
};

/// No tensors.
const NONE: [usize; 0] = [];

/// Returns a constant tensor of strings.
fn constant(texts: &[&str]) -> Constant {
    let texts: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
    let bytes = strings::encoded(texts.iter().copied()).unwrap();
    Constant { data_type: DataType::String, shape: [texts.len()].into(), bytes: Bytes::from_vec(bytes) }
}

fn text(name: &str, shape: &[usize]) -> TensorBuilder {
    TensorBuilder::new(name, DataType::String, shape)
}

/// Returns a model that repeats its list of strings.
fn tile(times: i32) -> Model {
    let mut builder = ModelBuilder::new("tile");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, text("x", &[2]));
    let multiples = builder.tensor(main, TensorBuilder::values("multiples", [1], &[times]));
    let y = builder.tensor(main, text("y", &[2 * times as usize]));
    builder.operator(main, OperatorBuilder::new(Builtin::TILE, [x, multiples], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    Model::from_bytes(builder.finish()).unwrap()
}

fn texts(interpreter: &Interpreter, output: usize) -> Vec<String> {
    let output = interpreter.output(output).unwrap();
    output.strings().unwrap().into_iter().map(|text| text.escape_ascii().to_string()).collect()
}

#[test]
fn strings_come_out_as_they_went_in() {
    let mut interpreter = Interpreter::builder(&tile(2)).build().unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(texts(&interpreter, 0), ["", "", "", ""], "inputs are empty before they are written");
    interpreter.write_strings("x", &["a", "much longer than before"]).unwrap();
    interpreter.invoke_repeatedly(2).unwrap();
    assert_eq!(texts(&interpreter, 0), ["a", "much longer than before", "a", "much longer than before"]);
    interpreter.write_strings("x", &[&b"\0\xff"[..], b""]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(texts(&interpreter, 0), [r"\x00\xff", "", r"\x00\xff", ""]);
    interpreter.resize_input("x", &[1]).unwrap();
    interpreter.write_strings("x", &["one"]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(texts(&interpreter, 0), ["one", "one"]);
}

#[test]
fn strings_are_checked_when_they_are_written() {
    let mut interpreter = Interpreter::builder(&tile(2)).build().unwrap();
    let error = interpreter.write_strings("x", &["a"]).unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("has 2 strings, not 1")), (ErrorKind::Usage, true), "{error}");
    assert_eq!(interpreter.write("x", &[1.0f32, 2.0]).unwrap_err().kind(), ErrorKind::Usage);
    let mut bytes = constant(&["a", "b"]).bytes.to_vec();
    interpreter.write_bytes("x", &bytes).unwrap();
    bytes[4] = 200;
    let error = interpreter.write_bytes("x", &bytes).unwrap_err();
    assert!(error.to_string().contains("no tensor of strings: string 0 lies at 200"), "{error}");
    // What is damaged in place is found by the operator that reads it.
    interpreter.input_bytes_mut("x").unwrap()[4] = 200;
    let error = interpreter.invoke().unwrap_err();
    assert!(error.to_string().contains("string 0 lies at 200"), "{error}");
}

#[test]
fn strings_keep_within_limits() {
    let limits = Limits::default().tensor_bytes(1000);
    let mut interpreter = Interpreter::builder(&tile(10)).limits(limits.clone()).build().unwrap();
    let error = interpreter.write_strings("x", &["a".repeat(1000), String::new()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    interpreter.write_strings("x", &["a".repeat(100), String::new()]).unwrap();
    let error = interpreter.invoke().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("TILE") && error.to_string().contains("1088 bytes"), "{error}");
    let error = Interpreter::builder(&tile(1000)).limits(limits).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "not even empty strings have room: {error}");
}

#[test]
fn variables_and_branches_take_strings() {
    let mut builder = ModelBuilder::new("branch");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, text("x", &[2]));
    let wanted = builder.tensor(main, TensorBuilder::constant("wanted", &constant(&["yes"])));
    let condition = builder.tensor(main, TensorBuilder::new("condition", DataType::Bool, [1]));
    let first = builder.tensor(main, text("first", &[1]));
    let begin = builder.tensor(main, TensorBuilder::values("begin", [1], &[0i32]));
    let size = builder.tensor(main, TensorBuilder::values("size", [1], &[1i32]));
    builder.operator(main, OperatorBuilder::new(Builtin::SLICE, [x, begin, size], [first]));
    let equal = BuiltinOptionsT::EqualOptions(Box::new(EqualOptionsT {}));
    builder.operator(main, OperatorBuilder::new(Builtin::EQUAL, [first, wanted], [condition]).options(equal));
    let y = builder.tensor(main, text("y", &[]));
    let branches = [(Some("stored"), 1), (None, 2)].map(|(value, index)| {
        let branch = builder.subgraph("branch");
        assert_eq!(branch, index);
        let input = builder.tensor(branch, text("input", &[2]));
        let handle = builder.tensor(branch, TensorBuilder::new("handle", DataType::Resource, []));
        let options = VarHandleOptionsT { container: None, shared_name: Some("kept".into()) };
        let options = BuiltinOptionsT::VarHandleOptions(Box::new(options));
        builder.operator(branch, OperatorBuilder::new(Builtin::VAR_HANDLE, NONE, [handle]).options(options));
        let assigned = match value {
            Some(value) => builder.tensor(branch, TensorBuilder::constant("value", &constant(&[value]))),
            None => input,
        };
        let options = BuiltinOptionsT::AssignVariableOptions(Box::new(AssignVariableOptionsT {}));
        let assign = OperatorBuilder::new(Builtin::ASSIGN_VARIABLE, [handle, assigned], []);
        builder.operator(branch, assign.options(options));
        let output = builder.tensor(branch, text("output", &[]));
        let options = BuiltinOptionsT::ReadVariableOptions(Box::new(ReadVariableOptionsT {}));
        builder.operator(branch, OperatorBuilder::new(Builtin::READ_VARIABLE, [handle], [output]).options(options));
        builder.inputs(branch, &[input]).outputs(branch, &[output]);
        branch as i32
    });
    let options = IfOptionsT { then_subgraph_index: branches[0], else_subgraph_index: branches[1] };
    let options = BuiltinOptionsT::IfOptions(Box::new(options));
    builder.operator(main, OperatorBuilder::new(Builtin::IF, [condition, x], [y]).options(options));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let mut interpreter = Interpreter::builder(&model).build().unwrap();
    for (given, expected) in [(["yes", "b"], &["stored"][..]), (["no", "other"], &["no", "other"])] {
        interpreter.write_strings(0, &given).unwrap();
        interpreter.invoke().unwrap();
        assert_eq!(texts(&interpreter, 0), expected);
        assert_eq!(interpreter.outputs()[0].shape.extents(), [expected.len()]);
    }
}

/// Adds the handle of a hash table from integers to strings.
fn table(builder: &mut ModelBuilder, subgraph: usize) -> usize {
    let handle = builder.tensor(subgraph, TensorBuilder::new("handle", DataType::Resource, [1]));
    let (key_dtype, value_dtype) = (TensorType::INT64, TensorType::STRING);
    let options = HashtableOptionsT { table_id: 7, key_dtype, value_dtype };
    let options = BuiltinOptionsT::HashtableOptions(Box::new(options));
    builder.operator(subgraph, OperatorBuilder::new(Builtin::HASHTABLE, NONE, [handle]).options(options));
    handle
}

#[test]
fn hash_tables_are_filled_once_until_a_reset() {
    let mut builder = ModelBuilder::new("table");
    let main = builder.subgraph("main");
    let setup = builder.subgraph("setup");
    let options = BuiltinOptionsT::CallOnceOptions(Box::new(CallOnceOptionsT { init_subgraph_index: setup as i32 }));
    builder.operator(main, OperatorBuilder::new(Builtin::CALL_ONCE, NONE, []).options(options));
    let handle = table(&mut builder, setup);
    let keys = builder.tensor(setup, TensorBuilder::values("keys", [2], &[1i64, 2]));
    let values = builder.tensor(setup, TensorBuilder::constant("values", &constant(&["one", "two"])));
    let options = BuiltinOptionsT::HashtableImportOptions(Box::new(HashtableImportOptionsT {}));
    let import = OperatorBuilder::new(Builtin::HASHTABLE_IMPORT, [handle, keys, values], []);
    builder.operator(setup, import.options(options));
    let handle = table(&mut builder, main);
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::Int64, [3]));
    let unknown = builder.tensor(main, TensorBuilder::constant("unknown", &constant(&["?"])));
    let y = builder.tensor(main, text("y", &[3]));
    let options = BuiltinOptionsT::HashtableFindOptions(Box::new(HashtableFindOptionsT {}));
    let find = OperatorBuilder::new(Builtin::HASHTABLE_FIND, [handle, x, unknown], [y]);
    builder.operator(main, find.options(options));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let mut interpreter = Interpreter::builder(&model).build().unwrap();
    interpreter.write("x", &[2i64, 3, 1]).unwrap();
    for _ in 0..2 {
        interpreter.invoke_repeatedly(2).unwrap();
        assert_eq!(texts(&interpreter, 0), ["two", "?", "one"]);
        interpreter.reset_variables();
    }
}
