//! A builder of small `FLOAT32` models for tests ([`Net`]), and functions to run them.
#![allow(dead_code)] // each test file uses a part

use attache::model::schema::{BuiltinOperator, BuiltinOptionsT};
use attache::{DataType, Interpreter, Model, ModelBuilder, OperatorBuilder, TensorBuilder};

/// A builder of a model with one subgraph. Tensors are given by their index.
pub(crate) struct Net {
    pub(crate) builder: ModelBuilder,
}

impl Net {
    pub(crate) fn new() -> Self {
        let mut builder = ModelBuilder::new("test");
        builder.subgraph("main");
        Self { builder }
    }

    pub(crate) fn tensor(&mut self, name: &str, shape: &[usize]) -> usize {
        self.builder.tensor(0, TensorBuilder::new(name, DataType::Float32, shape))
    }

    pub(crate) fn constant(&mut self, values: &[f32]) -> usize {
        self.builder.tensor(0, TensorBuilder::values("constant", [values.len()], values))
    }

    fn apply(&mut self, operator: BuiltinOperator, inputs: &[usize], shape: &[usize]) -> usize {
        let output = self.tensor("", shape);
        self.builder.operator(0, OperatorBuilder::new(operator, inputs.iter().copied(), [output]));
        output
    }

    pub(crate) fn add(&mut self, a: usize, b: usize, shape: &[usize]) -> usize {
        self.apply(BuiltinOperator::ADD, &[a, b], shape)
    }

    /// Adds an ADD whose output has this name.
    pub(crate) fn named_add(&mut self, name: &str, a: usize, b: usize, shape: &[usize]) -> usize {
        let output = self.tensor(name, shape);
        self.builder.operator(0, OperatorBuilder::new(BuiltinOperator::ADD, [a, b], [output]));
        output
    }

    pub(crate) fn multiply(&mut self, a: usize, b: usize, shape: &[usize]) -> usize {
        self.apply(BuiltinOperator::MUL, &[a, b], shape)
    }

    pub(crate) fn relu(&mut self, a: usize, shape: &[usize]) -> usize {
        self.apply(BuiltinOperator::RELU, &[a], shape)
    }

    /// Adds an operator that no delegate and no CPU kernel implements, and returns its output.
    pub(crate) fn unknown(&mut self, a: usize, shape: &[usize]) -> usize {
        let output = self.tensor("", shape);
        self.builder.operator(0, OperatorBuilder::custom("Nobody", *b"", [a], [output]));
        output
    }

    /// Adds a FULLY_CONNECTED with constant weights `[outputs, depth]` and without bias.
    pub(crate) fn fully_connected(&mut self, a: usize, [outputs, depth]: [usize; 2], weights: &[f32]) -> usize {
        let weights = self.builder.tensor(0, TensorBuilder::values("weights", [outputs, depth], weights));
        let output = self.tensor("", &[1, outputs]);
        let options = BuiltinOptionsT::FullyConnectedOptions(Default::default());
        let inputs = [Some(a), Some(weights), None];
        let operator = OperatorBuilder::new(BuiltinOperator::FULLY_CONNECTED, inputs, [output]);
        self.builder.operator(0, operator.options(options));
        output
    }

    pub(crate) fn reshape(&mut self, a: usize, shape: &[i32], shape_now: &[usize]) -> usize {
        let wanted = self.builder.tensor(0, TensorBuilder::values("shape", [shape.len()], shape));
        self.apply(BuiltinOperator::RESHAPE, &[a, wanted], shape_now)
    }

    /// Adds a RESHAPE to the shape in the tensor `wanted`, which the caller of the interpreter writes.
    /// `shape_now` is the output shape that the model file states.
    pub(crate) fn reshape_by(&mut self, a: usize, wanted: usize, shape_now: &[usize]) -> usize {
        self.apply(BuiltinOperator::RESHAPE, &[a, wanted], shape_now)
    }

    pub(crate) fn finish(mut self, inputs: &[usize], outputs: &[usize]) -> Model {
        self.builder.inputs(0, inputs).outputs(0, outputs);
        Model::from_bytes(self.builder.finish()).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Builds an interpreter without delegates and with one thread.
pub(crate) fn on_cpu(model: &Model) -> Interpreter {
    Interpreter::builder(model).threads(1).build().unwrap_or_else(|error| panic!("{error}"))
}

/// Writes all inputs of an interpreter and runs it once.
pub(crate) fn run(interpreter: &mut Interpreter, inputs: &[&[f32]]) {
    for (index, values) in inputs.iter().enumerate() {
        interpreter.write(index, values).unwrap();
    }
    interpreter.invoke().unwrap_or_else(|error| panic!("{error}"));
}

/// Returns the elements of an output.
pub(crate) fn floats(interpreter: &Interpreter, output: usize) -> Vec<f32> {
    interpreter.read::<f32>(output).unwrap().to_vec()
}
