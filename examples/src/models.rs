//! Small models for examples that need something that the zoo's models do not have. They are written with
//! [`ModelBuilder`]; a converter would write them from TensorFlow.

use attache::DataType::{Float32, Int8, Resource};
use attache::model::schema::{
    ActivationFunctionType, AddOptionsT, BuiltinOperator, BuiltinOptionsT, Conv2DOptionsT, ReducerOptionsT,
    SoftmaxOptionsT, UnidirectionalSequenceLSTMOptionsT, VarHandleOptionsT,
};
use attache::{Model, ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::Result;

/// Builds an LSTM of one unit that adds up its input `[1, 1, 1]`, and two scores `[1, 2]` of the sum: that it is small
/// and that it is large.
///
/// # Errors
///
/// If the file is invalid, which it is not.
pub fn counter() -> Result<Model> {
    let mut builder = ModelBuilder::new("a network with state");
    let main = builder.subgraph("main");
    let mut constant =
        |name: &str, shape: &[usize], values: &[f32]| builder.tensor(main, TensorBuilder::values(name, shape, values));
    let [zero, slow] = [("zero", 0.0), ("slow", 0.2)].map(|(name, value)| constant(name, &[1, 1], &[value]));
    // A gate with a large bias is always open: the cell forgets nothing and adds tanh(0.2 · input).
    let [open, none] = [("open", 20.0), ("none", 0.0)].map(|(name, value)| constant(name, &[1], &[value]));
    let weights = constant("scores/weights", &[2, 1], &[-4.0, 4.0]);
    let biases = constant("scores/biases", &[2], &[1.0, -1.0]);

    let mut tensor = |name: &str, shape: &[usize]| builder.tensor(main, TensorBuilder::new(name, Float32, shape));
    let [x, active] = ["frame", "active"].map(|name| tensor(name, &[1, 1, 1]));
    let [logits, scores] = ["logits", "scores"].map(|name| tensor(name, &[1, 2]));
    let [output, cell] =
        ["output", "cell"].map(|name| builder.tensor(main, TensorBuilder::new(name, Float32, [1, 1]).variable()));

    // Input weights and recurrent weights of the gates input, forget, cell and output; then their biases.
    let gates = [zero, zero, slow, zero, zero, zero, zero, zero].map(Some);
    let biases_of_gates = [open, open, none, open].map(Some);
    let inputs = [&[Some(x)], &gates[..], &[None; 3], &biases_of_gates, &[None; 2], &[Some(output), Some(cell)]];
    let options = UnidirectionalSequenceLSTMOptionsT {
        fused_activation_function: ActivationFunctionType::TANH,
        ..Default::default()
    };
    let lstm = OperatorBuilder::new(BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM, inputs.concat(), [active]);
    let options = BuiltinOptionsT::UnidirectionalSequenceLSTMOptions(options.into());
    builder.operator(main, lstm.options(options));
    let dense = OperatorBuilder::new(BuiltinOperator::FULLY_CONNECTED, [active, weights, biases], [logits]);
    builder.operator(main, dense.options(BuiltinOptionsT::FullyConnectedOptions(Default::default())));
    let softmax = BuiltinOptionsT::SoftmaxOptions(SoftmaxOptionsT { beta: 1.0 }.into());
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::SOFTMAX, [logits], [scores]).options(softmax));
    builder.inputs(main, &[x]).outputs(main, &[scores]);
    Ok(Model::from_bytes(builder.finish())?)
}

/// Builds a model of int8 that adds up its input `[1, 3]` and applies the logistic function to the sum.
///
/// # Errors
///
/// If the file is invalid, which it is not.
pub fn quantized() -> Result<Model> {
    let mut builder = ModelBuilder::new("a quantized model");
    let main = builder.subgraph("main");
    let mut tensor = |tensor: TensorBuilder| builder.tensor(main, tensor);
    let x = tensor(TensorBuilder::new("x", Int8, [1, 3]).quantized(0.01, 0));
    // 100 stands for 1.0; the scale of the biases is that of the products.
    let weights = tensor(TensorBuilder::values("weights", [1, 3], &[100i8; 3]).quantized(0.01, 0));
    let biases = tensor(TensorBuilder::values("biases", [1], &[0i32]).quantized(0.0001, 0));
    let sum = tensor(TensorBuilder::new("sum", Int8, [1, 1]).quantized(0.03, 0));
    let y = tensor(TensorBuilder::new("y", Int8, [1, 1]).quantized(1.0 / 256.0, -128));
    let dense = OperatorBuilder::new(BuiltinOperator::FULLY_CONNECTED, [x, weights, biases], [sum]).version(4);
    builder.operator(main, dense.options(BuiltinOptionsT::FullyConnectedOptions(Default::default())));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::LOGISTIC, [sum], [y]).version(2));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    Ok(Model::from_bytes(builder.finish())?)
}

/// Builds a model that finds edges in a picture `[1, height, width, 3]` of any height and width: the absolute value of
/// a Laplace filter over all colours, `[1, height, width, 1]`.
///
/// # Errors
///
/// If the file is invalid, which it is not.
pub fn edges() -> Result<Model> {
    let mut builder = ModelBuilder::new("edges of a picture");
    let main = builder.subgraph("main");
    let laplace = [0.0f32, -1.0, 0.0, -1.0, 4.0, -1.0, 0.0, -1.0, 0.0];
    let filter: Vec<f32> = laplace.iter().flat_map(|weight| [weight / 3.0; 3]).collect();
    let filter = builder.tensor(main, TensorBuilder::values("filter", [1, 3, 3, 3], &filter));
    let bias = builder.tensor(main, TensorBuilder::values("bias", [1], &[0.0f32]));
    let mut image = |name: &str, channels: usize| {
        let tensor = TensorBuilder::new(name, Float32, [1, 1, 1, channels]);
        builder.tensor(main, tensor.shape_signature([1, -1, -1, channels as i32]))
    };
    let (x, signed, y) = (image("picture", 3), image("signed", 1), image("edges", 1));
    let options = Conv2DOptionsT { stride_w: 1, stride_h: 1, ..Default::default() };
    let convolution = OperatorBuilder::new(BuiltinOperator::CONV_2D, [x, filter, bias], [signed]);
    builder.operator(main, convolution.options(BuiltinOptionsT::Conv2DOptions(options.into())));
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::ABS, [signed], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    Ok(Model::from_bytes(builder.finish())?)
}

/// Builds a model of the sums `y = relu(x + x + [1, 2, 3])`.
///
/// # Errors
///
/// If the file is invalid, which it is not.
pub fn sums() -> Result<Model> {
    let mut builder = ModelBuilder::new("sums");
    let main = builder.subgraph("main");
    let [x, twice, more, y] =
        ["x", "twice", "more", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, Float32, [3])));
    let constant = builder.tensor(main, TensorBuilder::values("constant", [3], &[1.0f32, 2.0, 3.0]));
    for (inputs, sum) in [([x, x], twice), ([twice, constant], more)] {
        let add = OperatorBuilder::new(BuiltinOperator::ADD, inputs, [sum]);
        builder.operator(main, add.options(BuiltinOptionsT::AddOptions(AddOptionsT::default().into())));
    }
    builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [more], [y]));
    builder.inputs(main, &[x]).outputs(main, &[y]);
    Ok(Model::from_bytes(builder.finish())?)
}

/// Builds a model of the line `y = slope · x + offset` over four points, with the signatures `infer`, `train`, `restore`
/// and `save`. `slope` and `offset` are resource variables of shape `[1]`.
///
/// # Errors
///
/// If the file is invalid, which it is not.
pub fn line() -> Result<Model> {
    let mut line = Line(ModelBuilder::new("a line that is trained"));
    line.infer();
    line.train();
    line.restore();
    line.save();
    Ok(Model::from_bytes(line.0.finish())?)
}

/// The builder of [`line`]. Each signature is a subgraph of its own.
struct Line(ModelBuilder);

impl Line {
    fn tensor(&mut self, graph: usize, name: &str, extent: usize) -> usize {
        self.0.tensor(graph, TensorBuilder::new(name, Float32, [extent]))
    }

    /// Adds an operator with an output of one axis, and returns the output.
    fn apply(&mut self, graph: usize, builtin: BuiltinOperator, inputs: &[usize], extent: usize) -> usize {
        let output = self.tensor(graph, "", extent);
        let mut operator = OperatorBuilder::new(builtin, inputs.iter().copied(), [output]);
        if builtin == BuiltinOperator::MEAN {
            operator = operator.options(BuiltinOptionsT::ReducerOptions(ReducerOptionsT { keep_dims: true }.into()));
        }
        self.0.operator(graph, operator);
        output
    }

    /// Adds the handle of a variable.
    fn variable(&mut self, graph: usize, name: &str) -> usize {
        let handle = self.0.tensor(graph, TensorBuilder::new(name, Resource, [1]));
        let options = VarHandleOptionsT { container: None, shared_name: Some(name.to_owned()) };
        let operator = OperatorBuilder::new(BuiltinOperator::VAR_HANDLE, [0; 0], [handle]);
        self.0.operator(graph, operator.options(BuiltinOptionsT::VarHandleOptions(options.into())));
        handle
    }

    fn assign(&mut self, graph: usize, handle: usize, value: usize) {
        self.0.operator(graph, OperatorBuilder::new(BuiltinOperator::ASSIGN_VARIABLE, [handle, value], []));
    }

    /// Adds `slope · x + offset`. Returns the handles and values of slope and offset, and the sum.
    fn prediction(&mut self, graph: usize, x: usize) -> ([(usize, usize); 2], usize) {
        let variables = ["slope", "offset"].map(|name| {
            let handle = self.variable(graph, name);
            (handle, self.apply(graph, BuiltinOperator::READ_VARIABLE, &[handle], 1))
        });
        let product = self.apply(graph, BuiltinOperator::MUL, &[x, variables[0].1], 4);
        (variables, self.apply(graph, BuiltinOperator::ADD, &[product, variables[1].1], 4))
    }

    fn infer(&mut self) {
        let graph = self.0.subgraph("infer");
        let x = self.tensor(graph, "x", 4);
        let (_, y) = self.prediction(graph, x);
        self.0.inputs(graph, &[x]).outputs(graph, &[y]).signature("infer", graph, &[("x", x)], &[("y", y)]);
    }

    /// Adds one step of gradient descent on the mean of the squared errors, at a rate of 0.2.
    fn train(&mut self) {
        let graph = self.0.subgraph("train");
        let [x, y] = ["x", "y"].map(|name| self.tensor(graph, name, 4));
        let axis = self.0.tensor(graph, TensorBuilder::values("axis", [1], &[0i32]));
        let rate = self.0.tensor(graph, TensorBuilder::values("rate", [1], &[0.2f32]));
        let (variables, prediction) = self.prediction(graph, x);
        let error = self.apply(graph, BuiltinOperator::SUB, &[prediction, y], 4);
        let square = self.apply(graph, BuiltinOperator::MUL, &[error, error], 4);
        let loss = self.apply(graph, BuiltinOperator::MEAN, &[square, axis], 1);
        let by_slope = self.apply(graph, BuiltinOperator::MUL, &[error, x], 4);
        for ((handle, value), derivative) in variables.into_iter().zip([by_slope, error]) {
            let gradient = self.apply(graph, BuiltinOperator::MEAN, &[derivative, axis], 1);
            let change = self.apply(graph, BuiltinOperator::MUL, &[gradient, rate], 1);
            let next = self.apply(graph, BuiltinOperator::SUB, &[value, change], 1);
            self.assign(graph, handle, next);
        }
        self.0.inputs(graph, &[x, y]).outputs(graph, &[loss]);
        self.0.signature("train", graph, &[("x", x), ("y", y)], &[("loss", loss)]);
    }

    fn restore(&mut self) {
        let graph = self.0.subgraph("restore");
        let [slope, offset] = ["slope", "offset"].map(|name| {
            let value = self.tensor(graph, name, 1);
            let handle = self.variable(graph, name);
            self.assign(graph, handle, value);
            value
        });
        self.0.inputs(graph, &[slope, offset]);
        self.0.signature("restore", graph, &[("slope", slope), ("offset", offset)], &[]);
    }

    fn save(&mut self) {
        let graph = self.0.subgraph("save");
        let [slope, offset] = ["slope", "offset"].map(|name| {
            let handle = self.variable(graph, name);
            self.apply(graph, BuiltinOperator::READ_VARIABLE, &[handle], 1)
        });
        self.0.outputs(graph, &[slope, offset]);
        self.0.signature("save", graph, &[], &[("slope", slope), ("offset", offset)]);
    }
}
