//! A model with an operator of each kind whose weights are packed.

use attache::model::schema::{self, ActivationFunctionType, BuiltinOperator, BuiltinOptionsT, LSTMKernelType, Padding};
use attache::{
    Bytes, Constant, DataType, Interpreter, Model, ModelBuilder, OperatorBuilder, Quantization, TensorBuilder,
};

/// Number of operators of [`every_kind`] whose weights are packed and large enough to be stored, and of its large
/// constants that are folded.
pub(crate) const VALUES: usize = 31;

/// Extents of the image that most operators read.
const IMAGE: [usize; 4] = [1, 6, 6, 32];
/// Output channels of most operators.
const OUTPUTS: usize = 72;

struct Builder {
    model: ModelBuilder,
    outputs: Vec<usize>,
    state: u64,
}

/// Builds the model. `seed` decides the weights, and `outputs` some of their extents.
pub(crate) fn every_kind(seed: u64) -> Model {
    let mut model = ModelBuilder::new("every kind");
    model.subgraph("main");
    let mut builder = Builder { model, outputs: Vec::new(), state: seed.wrapping_mul(2).wrapping_add(0x9e37_79b9) };
    let floats = builder.tensor(DataType::Float32, &IMAGE);
    let bytes = builder.tensor(DataType::Int8, &IMAGE);
    let wide = builder.tensor(DataType::Int16, &IMAGE);
    let sequence = builder.tensor(DataType::Float32, &[2, 3, 32]);
    builder.products(floats);
    builder.images(floats, DataType::Float32, DataType::Float32, false);
    builder.images(floats, DataType::Float32, DataType::Int8, true);
    builder.images(bytes, DataType::Int8, DataType::Int8, false);
    builder.images(bytes, DataType::Int8, DataType::Int8, true);
    builder.images(wide, DataType::Int16, DataType::Int8, true);
    builder.byte_products(bytes, DataType::Int8);
    builder.byte_products(wide, DataType::Int16);
    builder.sequence(sequence);
    builder.halves(floats);
    let outputs = builder.outputs;
    builder.model.inputs(0, &[floats, bytes, wide, sequence]).outputs(0, &outputs);
    Model::from_bytes(builder.model.finish()).unwrap_or_else(|error| panic!("{error}"))
}

/// Builds a model of one convolution of bytes.
pub(crate) fn one_convolution() -> Model {
    let mut model = ModelBuilder::new("one convolution");
    model.subgraph("main");
    let mut builder = Builder { model, outputs: Vec::new(), state: 3 };
    let input = builder.tensor(DataType::Int8, &[1, 8, 8, 32]);
    let filter = builder.weights(DataType::Int8, &[OUTPUTS, 3, 3, 32], None);
    let options = BuiltinOptionsT::Conv2DOptions(Box::new(conv_2d()));
    let output = (DataType::Int8, &[1, 8, 8, OUTPUTS][..]);
    builder.apply(BuiltinOperator::CONV_2D, options, &[Some(input), Some(filter), None], output);
    let outputs = builder.outputs;
    builder.model.inputs(0, &[input]).outputs(0, &outputs);
    Model::from_bytes(builder.model.finish()).unwrap_or_else(|error| panic!("{error}"))
}

fn conv_2d() -> schema::Conv2DOptionsT {
    schema::Conv2DOptionsT { padding: Padding::SAME, stride_w: 1, stride_h: 1, ..Default::default() }
}

impl Builder {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 33
    }

    fn tensor(&mut self, data_type: DataType, shape: &[usize]) -> usize {
        let tensor = TensorBuilder::new("", data_type, shape);
        let tensor = if data_type == DataType::Float32 { tensor } else { tensor.quantized(0.02, 0) };
        self.model.tensor(0, tensor)
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next() as f32 / (1u64 << 31) as f32 - 0.5).collect()
    }

    /// Adds constant weights; with a scale for each index along `axis`, if there is an axis.
    fn weights(&mut self, data_type: DataType, shape: &[usize], axis: Option<usize>) -> usize {
        let count = shape.iter().product();
        if data_type == DataType::Float32 {
            let values = self.floats(count);
            return self.model.tensor(0, TensorBuilder::values("", shape, &values));
        }
        let values: Vec<i8> = (0..count).map(|_| (self.next() % 255) as i8).collect();
        let scales = axis.map_or(1, |axis| shape[axis]);
        let scale = (0..scales).map(|index| 0.01 + index as f32 * 1e-4).collect();
        let quantization = Quantization { scale, zero_point: vec![0; scales], axis: axis.unwrap_or(0) };
        self.model.tensor(0, TensorBuilder::values("", shape, &values).quantization(&quantization))
    }

    fn bias(&mut self, activations: DataType, count: usize) -> usize {
        let tensor = match activations {
            DataType::Float32 => TensorBuilder::values("", [count], &self.floats(count)),
            DataType::Int16 => TensorBuilder::values("", [count], &vec![12i64; count]),
            _ => TensorBuilder::values("", [count], &vec![345i32; count]),
        };
        self.model.tensor(0, tensor)
    }

    fn apply(
        &mut self,
        operator: BuiltinOperator,
        options: BuiltinOptionsT,
        inputs: &[Option<usize>],
        output: (DataType, &[usize]),
    ) -> usize {
        let output = self.tensor(output.0, output.1);
        let operator = OperatorBuilder::new(operator, inputs.iter().copied(), [output]).options(options);
        self.model.operator(0, operator);
        self.outputs.push(output);
        output
    }

    /// Adds a convolution, a grouped, a depthwise and a transposed one, and a fully connected layer.
    fn images(&mut self, input: usize, data_type: DataType, weights: DataType, per_channel: bool) {
        let [_, height, width, channels] = IMAGE;
        let axis = |axis: usize| per_channel.then_some(axis);
        let conv = || BuiltinOptionsT::Conv2DOptions(Box::new(conv_2d()));
        let (filter, bias) =
            (self.weights(weights, &[OUTPUTS, 3, 3, channels], axis(0)), self.bias(data_type, OUTPUTS));
        let output = (data_type, &[1, height, width, OUTPUTS][..]);
        self.apply(BuiltinOperator::CONV_2D, conv(), &[Some(input), Some(filter), Some(bias)], output);
        let filter = self.weights(weights, &[OUTPUTS, 3, 3, channels / 2], axis(0));
        self.apply(BuiltinOperator::CONV_2D, conv(), &[Some(input), Some(filter), Some(bias)], output);
        let multiplier = 4;
        let options = schema::DepthwiseConv2DOptionsT {
            padding: Padding::VALID,
            stride_w: 1,
            stride_h: 1,
            depth_multiplier: multiplier as i32,
            ..Default::default()
        };
        let options = BuiltinOptionsT::DepthwiseConv2DOptions(Box::new(options));
        let filter = self.weights(weights, &[1, 5, 5, channels * multiplier], axis(3));
        let bias_of_all = self.bias(data_type, channels * multiplier);
        let output = (data_type, &[1, height - 4, width - 4, channels * multiplier][..]);
        let inputs = [Some(input), Some(filter), Some(bias_of_all)];
        self.apply(BuiltinOperator::DEPTHWISE_CONV_2D, options, &inputs, output);
        if data_type == weights {
            let shape = [1, 2 * height, 2 * width, OUTPUTS];
            let filter = self.weights(weights, &[OUTPUTS, 3, 3, channels], axis(0));
            let wanted = self.model.tensor(0, TensorBuilder::values("", [4], &shape.map(|extent| extent as i32)));
            let options = schema::TransposeConvOptionsT { stride_w: 2, stride_h: 2, ..Default::default() };
            let options = BuiltinOptionsT::TransposeConvOptions(Box::new(options));
            let inputs = [Some(wanted), Some(filter), Some(input), Some(bias)];
            self.apply(BuiltinOperator::TRANSPOSE_CONV, options, &inputs, (data_type, &shape));
        }
        let filter = self.weights(weights, &[OUTPUTS, channels * width], axis(0));
        let options = BuiltinOptionsT::FullyConnectedOptions(Box::default());
        let inputs = [Some(input), Some(filter), Some(bias)];
        self.apply(BuiltinOperator::FULLY_CONNECTED, options, &inputs, (data_type, &[height, OUTPUTS]));
    }

    /// Adds a product with constant matrices of floats.
    fn products(&mut self, input: usize) {
        let right = self.weights(DataType::Float32, &[6, IMAGE[3], OUTPUTS], None);
        let options = || BuiltinOptionsT::BatchMatMulOptions(Box::default());
        let output = (DataType::Float32, &[1, 6, 6, OUTPUTS][..]);
        self.apply(BuiltinOperator::BATCH_MATMUL, options(), &[Some(input), Some(right)], output);
        let right = self.weights(DataType::Int8, &[6, IMAGE[3], OUTPUTS], None);
        self.apply(BuiltinOperator::BATCH_MATMUL, options(), &[Some(input), Some(right)], output);
    }

    /// Adds a product of integers of 8 or 16 bits with constant matrices of bytes.
    fn byte_products(&mut self, input: usize, data_type: DataType) {
        let right = self.weights(DataType::Int8, &[6, IMAGE[3], OUTPUTS], None);
        let options = BuiltinOptionsT::BatchMatMulOptions(Box::default());
        let output = (data_type, &[1, 6, 6, OUTPUTS][..]);
        self.apply(BuiltinOperator::BATCH_MATMUL, options, &[Some(input), Some(right)], output);
    }

    /// Adds a long short-term memory with a projection.
    fn sequence(&mut self, input: usize) {
        let (batches, depth, cells, outputs) = (2, 32, 24, 20);
        let mut inputs = vec![Some(input)];
        inputs.extend((0..4).map(|_| Some(self.weights(DataType::Float32, &[cells, depth], None))));
        inputs.extend((0..4).map(|_| Some(self.weights(DataType::Float32, &[cells, outputs], None))));
        inputs.extend([None; 3]);
        inputs.extend((0..4).map(|_| Some(self.bias(DataType::Float32, cells))));
        inputs.push(Some(self.weights(DataType::Float32, &[outputs, cells], None)));
        inputs.push(None);
        let mut state =
            |size| self.model.tensor(0, TensorBuilder::new("", DataType::Float32, [batches, size]).variable());
        inputs.extend([Some(state(outputs)), Some(state(cells))]);
        inputs.extend([None; 4]);
        let options = schema::UnidirectionalSequenceLSTMOptionsT {
            fused_activation_function: ActivationFunctionType::TANH,
            ..Default::default()
        };
        let options = BuiltinOptionsT::UnidirectionalSequenceLSTMOptions(Box::new(options));
        let output = (DataType::Float32, &[batches, 3, outputs][..]);
        self.apply(BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM, options, &inputs, output);
    }

    /// Adds a fully connected layer with weights of 16 bits, which are folded to floats, and one step of a long short-term
    /// memory that reads its output.
    fn halves(&mut self, input: usize) {
        let depth = IMAGE[2] * IMAGE[3];
        let shape = [120, depth];
        let halves: Vec<u8> = self.floats(120 * depth).iter().flat_map(|value| half(*value).to_le_bytes()).collect();
        let halves = Constant { data_type: DataType::Float16, shape: shape.into(), bytes: Bytes::from_vec(halves) };
        let halves = self.model.tensor(0, TensorBuilder::constant("", &halves));
        let floats = self.model.tensor(0, TensorBuilder::new("", DataType::Float32, shape));
        self.model.operator(0, OperatorBuilder::new(BuiltinOperator::DEQUANTIZE, [halves], [floats]));
        let options = BuiltinOptionsT::FullyConnectedOptions(Box::default());
        let rows = (DataType::Float32, &[IMAGE[1], 120][..]);
        let rows = self.apply(BuiltinOperator::FULLY_CONNECTED, options, &[Some(input), Some(floats), None], rows);
        let (batches, units) = (IMAGE[1], 16);
        let zeros = |model: &mut ModelBuilder| {
            model.tensor(0, TensorBuilder::values("", [batches, units], &vec![0.0f32; batches * units]))
        };
        let (activation, state) = (zeros(&mut self.model), zeros(&mut self.model));
        let (weights, bias) =
            (self.weights(DataType::Float32, &[4 * units, 120 + units], None), self.floats(4 * units));
        let bias = self.model.tensor(0, TensorBuilder::values("", [4 * units], &bias));
        let extents = [units, units, 120 + units, 4 * units];
        let outputs = extents.map(|extent| self.tensor(DataType::Float32, &[batches, extent]));
        let options = schema::LSTMOptionsT {
            fused_activation_function: ActivationFunctionType::TANH,
            kernel_type: LSTMKernelType::BASIC,
            ..Default::default()
        };
        let operator = OperatorBuilder::new(BuiltinOperator::LSTM, [rows, activation, weights, bias, state], outputs);
        self.model.operator(0, operator.options(BuiltinOptionsT::LSTMOptions(Box::new(options))));
        self.outputs.extend(outputs);
    }
}

fn half(value: f32) -> attache::half::f16 {
    attache::half::f16::from_f32(value)
}

/// Writes inputs, runs an interpreter once, and returns the bytes of all outputs.
pub(crate) fn run(interpreter: &mut Interpreter) -> Vec<Vec<u8>> {
    for input in 0..interpreter.inputs().len() {
        let count = interpreter.input(input).unwrap().elements();
        let values: Vec<f32> = (0..count).map(|index| (index * 7919 % 2003) as f32 / 1001.0 - 1.0).collect();
        interpreter.input(input).unwrap().quantize_from(&values).unwrap();
    }
    interpreter.reset_variables();
    interpreter.invoke().unwrap_or_else(|error| panic!("{error}"));
    (0..interpreter.outputs().len()).map(|output| interpreter.read_bytes(output).unwrap().to_vec()).collect()
}
