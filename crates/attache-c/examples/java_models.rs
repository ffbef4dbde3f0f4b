//! Writes the models that the tests of the Java classes run to a folder.

use std::path::Path;

use attache::model::schema::BuiltinOperator;
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

/// The types that Java has, each with the name of the model that transposes it.
const TYPES: [(&str, DataType); 7] = [
    ("float32", DataType::Float32),
    ("int32", DataType::Int32),
    ("uint8", DataType::UInt8),
    ("int64", DataType::Int64),
    ("bool", DataType::Bool),
    ("int16", DataType::Int16),
    ("int8", DataType::Int8),
];

/// The number of operators of the model whose runs are cancelled.
const LONG: usize = 200;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).expect("usage: java_models FOLDER");
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(Path::new(&folder).join(format!("{name}.tflite")), bytes);
    for (name, data_type) in TYPES {
        write(&format!("transpose_{name}"), transpose(data_type))?;
    }
    let float = |name: &str, shape: &[usize]| TensorBuilder::new(name, DataType::Float32, shape);
    let square = BuiltinOperator::SQUARE;
    write("add", chain(BuiltinOperator::ADD, &[float("a", &[1, 2, 2, 3]), float("b", &[1, 2, 2, 3])], "sum"))?;
    write("square", chain(square, &[float("x", &[1, 4]).shape_signature([-1, 4])], "y"))?;
    write("fixed", chain(square, &[float("x", &[2, 3])], "y"))?;
    write("wide", chain(square, &[float("x", &[1, 256, 256, 16])], "y"))?;
    write("scalar", chain(BuiltinOperator::NEG, &[float("x", &[])], "y"))?;
    write("huge", chain(square, &[float("x", &[1, 65536, 65536, 4])], "y"))?;
    write("constant", constant())?;
    write("quantized", quantized())?;
    write("signatures", signatures())?;
    write("one_signature", one_signature())?;
    write("where", of_where())?;
    write("long", long())?;
    write("custom", custom())?;
    write("strings", identity(DataType::String))?;
    write("rows", rows())?;
    write("complex", identity(DataType::Complex64))?;
    write("cut", long()[..300].to_vec())
}

/// `output = operator(inputs)`, of the shape of the first input.
fn chain(operator: BuiltinOperator, inputs: &[TensorBuilder], output: &str) -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let ids: Vec<usize> = inputs.iter().map(|input| builder.tensor(main, input.clone())).collect();
    let first = inputs[0].clone().with(|tensor| tensor.name = Some(output.to_owned()));
    let result = builder.tensor(main, first);
    builder.operator(main, OperatorBuilder::new(operator, ids.clone(), [result]));
    builder.inputs(main, &ids).outputs(main, &[result]);
    builder.finish()
}

/// An input that is a constant.
fn constant() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::values("x", [4], &[1.0f32, 2.0, 3.0, 4.0]));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [4]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::SQUARE, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Rows of strings in the other order.
fn rows() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::String, [2, 3]));
    let order = builder.tensor(main, TensorBuilder::values("order", [2], &[1i32, 0]));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::String, [2, 3]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::GATHER, [x, order], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

fn transpose(data_type: DataType) -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", data_type, [2, 3]));
    let order = builder.tensor(main, TensorBuilder::values("order", [2], &[1i32, 0]));
    let y = builder.tensor(main, TensorBuilder::new("y", data_type, [3, 2]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::TRANSPOSE, [x, order], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// `y = 0.5 * (x - 128)`.
fn quantized() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::UInt8, [4]).quantized(0.5, 128));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Float32, [4]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::DEQUANTIZE, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// The signatures "square", of the first subgraph, and "subtract", whose names are those of the signature alone.
fn signatures() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let open = |name| TensorBuilder::new(name, DataType::Float32, [4]).shape_signature([-1]);
    let main = builder.subgraph("main");
    let [x, y] = ["main_x", "main_y"].map(|name| builder.tensor(main, open(name)));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::SQUARE, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]).signature("square", main, &[("x", x)], &[("y", y)]);
    let other = builder.subgraph("other");
    let [a, b, difference] = ["a", "b", "c"].map(|name| builder.tensor(other, open(name)));
    builder.operator(other, OperatorBuilder::new(BuiltinOperator::SUB, [a, b], [difference]));
    builder.inputs(other, &[a, b]).outputs(other, &[difference]);
    // The order of the names is not that of the inputs.
    builder.signature("subtract", other, &[("to", a), ("from", b)], &[("difference", difference)]);
    builder.finish()
}

fn one_signature() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [4])));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::NEG, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]).signature("serving_default", main, &[("in", x)], &[("out", y)]);
    builder.finish()
}

/// An output whose shape follows from the values of the input.
fn of_where() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", DataType::Bool, [4]));
    let y = builder.tensor(main, TensorBuilder::new("y", DataType::Int64, [1, 1]));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::WHERE, [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// Operators that take a while together, and none of which takes long.
fn long() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let tensor = |index: usize| TensorBuilder::new(&format!("t{index}"), DataType::Float32, [1, 256, 256, 16]);
    let ids: Vec<usize> = (0..=LONG).map(|index| builder.tensor(main, tensor(index))).collect();
    for pair in ids.windows(2) {
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::SIN, [pair[0]], [pair[1]]));
    }
    builder.inputs(main, &ids[..1]).outputs(main, &ids[LONG..]);
    builder.finish()
}

fn custom() -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [4])));
    builder.operator(main, OperatorBuilder::custom("Double", [], [x], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    builder.finish()
}

/// A model that returns its input.
fn identity(data_type: DataType) -> Vec<u8> {
    let mut builder = ModelBuilder::new("test");
    let main = builder.subgraph("main");
    let x = builder.tensor(main, TensorBuilder::new("x", data_type, [2]));
    builder.inputs(main, &[x]).outputs(main, &[x]);
    builder.finish()
}
