//! Writes a model whose CPU nodes split the GPU's work into three partitions, as in networks that detect keypoints in
//! images. A backbone with four heads is followed by two rounds of three steps: ARG_MAX, conversion of the index to a
//! row and a column on the CPU (an integer division), and a gather at that position. The outputs of the heads that the
//! later partitions read cross the partition boundaries.
//!
//! ```text
//! cargo run -p attache --example three_partitions -- OUT_FILE
//! ```
//!
//! `attache bench OUT_FILE --profile` then shows the cost of the splits: the end-to-end time minus the GPU's time.

use std::error::Error;

use attache::model::schema::{
    ActivationFunctionType, ArgMaxOptionsT, BuiltinOperator, BuiltinOptionsT, CastOptionsT, ConcatenationOptionsT,
    Conv2DOptionsT, DepthwiseConv2DOptionsT, PackOptionsT, Padding, TensorType,
};
use attache::{DataType, Element, ModelBuilder, OperatorBuilder, TensorBuilder};

/// Height and width of the image, and of the heads' outputs.
const IMAGE: usize = 192;
const GRID: usize = 48;

/// Number of keypoints.
const POINTS: usize = 17;

/// A network under construction.
struct Network {
    builder: ModelBuilder,
    /// State of the generator of random weights.
    seed: u64,
}

/// Index and shape of a tensor.
#[derive(Clone)]
struct Value {
    tensor: usize,
    shape: Vec<usize>,
}

impl Network {
    fn value(&mut self, data_type: DataType, shape: &[usize]) -> Value {
        let tensor = self.builder.tensor(0, TensorBuilder::new("", data_type, shape));
        Value { tensor, shape: shape.to_vec() }
    }

    fn constant<T: Element>(&mut self, shape: &[usize], values: &[T]) -> Value {
        let tensor = self.builder.tensor(0, TensorBuilder::values("", shape, values));
        Value { tensor, shape: shape.to_vec() }
    }

    /// Random weights, scaled so that a layer preserves the magnitude of its input (He initialization).
    fn weights(&mut self, shape: &[usize], fan_in: usize) -> Value {
        let limit = (6.0 / fan_in as f32).sqrt();
        let count = shape.iter().product();
        let weight = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((*seed >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * limit
        };
        let values: Vec<f32> = (0..count).map(|_| weight(&mut self.seed)).collect();
        self.constant(shape, &values)
    }

    fn apply(
        &mut self,
        operator: BuiltinOperator,
        inputs: &[&Value],
        options: Option<BuiltinOptionsT>,
        (data_type, shape): (DataType, &[usize]),
    ) -> Value {
        let output = self.value(data_type, shape);
        let operator = OperatorBuilder::new(operator, inputs.iter().map(|input| input.tensor), [output.tensor]);
        let operator = match options {
            Some(options) => operator.options(options),
            None => operator,
        };
        self.builder.operator(0, operator);
        output
    }

    fn floats(&mut self, operator: BuiltinOperator, inputs: &[&Value], shape: &[usize]) -> Value {
        self.apply(operator, inputs, None, (DataType::Float32, shape))
    }

    fn integers(&mut self, operator: BuiltinOperator, inputs: &[&Value], shape: &[usize]) -> Value {
        self.apply(operator, inputs, None, (DataType::Int32, shape))
    }

    fn reshape(&mut self, input: &Value, data_type: DataType, shape: &[usize]) -> Value {
        let extents: Vec<i32> = shape.iter().map(|extent| *extent as i32).collect();
        let wanted = self.constant(&[extents.len()], &extents);
        self.apply(BuiltinOperator::RESHAPE, &[input, &wanted], None, (data_type, shape))
    }

    fn cast(&mut self, input: &Value, from: TensorType) -> Value {
        let options = CastOptionsT { in_data_type: from, out_data_type: TensorType::FLOAT32 };
        let options = BuiltinOptionsT::CastOptions(Box::new(options));
        self.apply(BuiltinOperator::CAST, &[input], Some(options), (DataType::Float32, &input.shape))
    }

    fn convolution(&mut self, input: &Value, channels: usize, stride: usize, is_rectified: bool) -> Value {
        let [_, height, width, depth] = input.shape[..] else { panic!("an image has four axes") };
        let size = if depth == 3 { 3 } else { 1 };
        let filter = self.weights(&[channels, size, size, depth], size * size * depth);
        let bias = self.weights(&[channels], 100);
        let options = Conv2DOptionsT {
            padding: Padding::SAME,
            stride_w: stride as i32,
            stride_h: stride as i32,
            fused_activation_function: activation(is_rectified),
            ..Default::default()
        };
        let options = BuiltinOptionsT::Conv2DOptions(Box::new(options));
        let shape = [1, height.div_ceil(stride), width.div_ceil(stride), channels];
        self.apply(BuiltinOperator::CONV_2D, &[input, &filter, &bias], Some(options), (DataType::Float32, &shape))
    }

    fn depthwise(&mut self, input: &Value, stride: usize) -> Value {
        let [_, height, width, channels] = input.shape[..] else { panic!("an image has four axes") };
        let filter = self.weights(&[1, 3, 3, channels], 9);
        let bias = self.weights(&[channels], 100);
        let options = DepthwiseConv2DOptionsT {
            padding: Padding::SAME,
            stride_w: stride as i32,
            stride_h: stride as i32,
            depth_multiplier: 1,
            fused_activation_function: activation(true),
            ..Default::default()
        };
        let options = BuiltinOptionsT::DepthwiseConv2DOptions(Box::new(options));
        let (shape, inputs) = ([1, height.div_ceil(stride), width.div_ceil(stride), channels], [input, &filter, &bias]);
        self.apply(BuiltinOperator::DEPTHWISE_CONV_2D, &inputs, Some(options), (DataType::Float32, &shape))
    }

    /// An inverted residual block.
    fn block(&mut self, input: &Value, channels: usize, stride: usize) -> Value {
        let wide = self.convolution(input, 6 * input.shape[3], 1, true);
        let deep = self.depthwise(&wide, stride);
        let narrow = self.convolution(&deep, channels, 1, false);
        if narrow.shape != input.shape {
            return narrow;
        }
        self.floats(BuiltinOperator::ADD, &[&narrow, input], &input.shape)
    }

    /// Converts u8 pixels to floats in [-1, 1].
    fn image(&mut self, input: &Value) -> Value {
        let reals = self.cast(input, TensorType::UINT8);
        let [scale, one] = [1.0 / 127.5, 1.0].map(|number: f32| self.constant(&[1], &[number]));
        let scaled = self.floats(BuiltinOperator::MUL, &[&reals, &scale], &input.shape);
        self.floats(BuiltinOperator::SUB, &[&scaled, &one], &input.shape)
    }

    fn backbone(&mut self, image: &Value) -> Value {
        let mut value = self.convolution(image, 32, 2, true);
        for (channels, stride) in
            [(16, 1), (24, 2), (24, 1), (32, 1), (32, 1), (32, 1), (48, 1), (48, 1), (48, 1), (48, 1)]
        {
            value = self.block(&value, channels, stride);
        }
        self.convolution(&value, 24, 1, true)
    }

    fn head(&mut self, features: &Value, channels: usize) -> Value {
        let deep = self.depthwise(features, 1);
        let wide = self.convolution(&deep, 96, 1, true);
        self.convolution(&wide, channels, 1, false)
    }

    /// Row and column of grid cells, from their indices. The division is on integers, which run on the CPU.
    fn row_and_column(&mut self, cell: &Value) -> [Value; 2] {
        let width = self.constant(&[1], &[GRID as i32]);
        let row = self.integers(BuiltinOperator::FLOOR_DIV, &[cell, &width], &cell.shape);
        let start = self.integers(BuiltinOperator::MUL, &[&row, &width], &cell.shape);
        let column = self.integers(BuiltinOperator::SUB, &[cell, &start], &cell.shape);
        [row, column]
    }

    fn largest(&mut self, values: &Value, count: usize) -> Value {
        let axis = self.constant(&[1], &[0i32]);
        let options = BuiltinOptionsT::ArgMaxOptions(Box::new(ArgMaxOptionsT { output_type: TensorType::INT32 }));
        self.apply(BuiltinOperator::ARG_MAX, &[values, &axis], Some(options), (DataType::Int32, &[count]))
    }

    fn pack(&mut self, values: &[&Value], count: usize) -> Value {
        let options = PackOptionsT { values_count: values.len() as i32, axis: 1 };
        let options = BuiltinOptionsT::PackOptions(Box::new(options));
        self.apply(BuiltinOperator::PACK, values, Some(options), (DataType::Int32, &[count, values.len()]))
    }

    /// Squared distance of each grid cell from the estimated position of each keypoint, along one axis.
    fn distance(&mut self, along: usize, from: &Value) -> Value {
        let cells = (0..GRID * GRID).map(|cell| if along == 0 { cell / GRID } else { cell % GRID } as f32);
        let cells: Vec<f32> = cells.flat_map(|cell| [cell; POINTS]).collect();
        let grid = self.constant(&[GRID * GRID, POINTS], &cells);
        let apart = self.floats(BuiltinOperator::SUB, &[&grid, from], &grid.shape);
        self.floats(BuiltinOperator::MUL, &[&apart, &apart], &grid.shape)
    }
}

fn activation(is_rectified: bool) -> ActivationFunctionType {
    if is_rectified { ActivationFunctionType::RELU6 } else { ActivationFunctionType::NONE }
}

/// The bytes of the model file.
fn model() -> Vec<u8> {
    let mut builder = ModelBuilder::new("three partitions");
    builder.subgraph("main");
    let mut net = Network { builder, seed: 1 };
    let input = net.value(DataType::UInt8, &[1, IMAGE, IMAGE, 3]);
    let image = net.image(&input);
    let features = net.backbone(&image);
    let [center, regression, heat, offsets] =
        [1, 2 * POINTS, POINTS, 2 * POINTS].map(|channels| net.head(&features, channels));

    // The grid cell of the object's center, and the estimated positions of the keypoints gathered there.
    let center = net.floats(BuiltinOperator::LOGISTIC, &[&center], &center.shape.clone());
    let center = net.reshape(&center, DataType::Float32, &[GRID * GRID, 1]);
    let cell = net.largest(&center, 1);
    let [row, column] = net.row_and_column(&cell);
    let cell = net.pack(&[&row, &column], 1);
    let regression = net.reshape(&regression, DataType::Float32, &[GRID, GRID, 2 * POINTS]);
    let rough = net.floats(BuiltinOperator::GATHER_ND, &[&regression, &cell], &[1, 2 * POINTS]);
    let [rows, columns] = [0, POINTS].map(|start| slice(&mut net, &rough, start));

    // The keypoints: cells with the largest quotient of the heatmap and the distance from the estimated position.
    let heat = net.floats(BuiltinOperator::LOGISTIC, &[&heat], &heat.shape.clone());
    let heat = net.reshape(&heat, DataType::Float32, &[GRID * GRID, POINTS]);
    let (down, across) = (net.distance(0, &rows), net.distance(1, &columns));
    let apart = net.floats(BuiltinOperator::ADD, &[&down, &across], &heat.shape);
    let apart = net.floats(BuiltinOperator::SQRT, &[&apart], &heat.shape);
    let least = net.constant(&[1], &[1.8f32]);
    let apart = net.floats(BuiltinOperator::ADD, &[&apart, &least], &heat.shape);
    let near = net.floats(BuiltinOperator::DIV, &[&heat, &apart], &heat.shape);
    let cells = net.largest(&near, POINTS);
    let [row, column] = net.row_and_column(&cells);
    let points: Vec<i32> = (0..POINTS as i32).collect();
    let points = net.constant(&[POINTS], &points);
    let cells = net.pack(&[&row, &column, &points], POINTS);
    let offsets = net.reshape(&offsets, DataType::Float32, &[GRID, GRID, POINTS, 2]);
    let offset = net.floats(BuiltinOperator::GATHER_ND, &[&offsets, &cells], &[POINTS, 2]);
    let heat = net.reshape(&heat, DataType::Float32, &[GRID, GRID, POINTS]);
    let score = net.floats(BuiltinOperator::GATHER_ND, &[&heat, &cells], &[POINTS]);
    let score = net.reshape(&score, DataType::Float32, &[POINTS, 1]);
    let options =
        BuiltinOptionsT::ConcatenationOptions(Box::new(ConcatenationOptionsT { axis: 1, ..Default::default() }));
    let kind = (DataType::Float32, &[POINTS, 3][..]);
    let output = net.apply(BuiltinOperator::CONCATENATION, &[&offset, &score], Some(options), kind);
    net.builder.inputs(0, &[input.tensor]).outputs(0, &[output.tensor]);
    net.builder.finish()
}

/// One coordinate of each keypoint.
fn slice(net: &mut Network, values: &Value, start: usize) -> Value {
    let begin = net.constant(&[2], &[0i32, start as i32]);
    let size = net.constant(&[2], &[1i32, POINTS as i32]);
    net.floats(BuiltinOperator::SLICE, &[values, &begin, &size], &[1, POINTS])
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: three_partitions OUT_FILE")?;
    std::fs::write(&path, model())?;
    println!("{path}");
    Ok(())
}
