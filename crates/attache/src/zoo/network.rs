//! What the built-in networks are written in: layers that give their output's shape, make up their weights and name
//! their tensors as TensorFlow's converter does.

use attache_base::{Activation, DataType, Padding, Shape};
use attache_model::schema::{self, BuiltinOperator, BuiltinOptionsT};
use attache_model::{ModelBuilder, OperatorBuilder, TensorBuilder};

use super::weights::{Random, biases, filters};

/// A tensor of a network.
#[derive(Clone, Debug)]
pub(super) struct Value {
    tensor: usize,
    shape: Shape,
}

/// How a window slides over an image, and what becomes of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Height and width.
    pub(super) size: usize,
    /// Along both axes.
    pub(super) stride: usize,
    pub(super) padding: Padding,
    pub(super) activation: Activation,
}

/// A network in the making: one subgraph whose layers run in the order in which they are added. Panics where a layer
/// does not fit its input: networks are part of the program.
#[derive(Debug)]
pub(super) struct Network {
    model: ModelBuilder,
    subgraph: usize,
    random: Random,
    /// Names in the signature, and tensors.
    inputs: Vec<(String, usize)>,
    /// As `inputs`.
    outputs: Vec<(String, usize)>,
    /// What each layer makes.
    results: Vec<usize>,
}

impl Network {
    /// A network without layers. The seed decides the weights.
    pub(super) fn new(description: &str, seed: u64) -> Self {
        let mut model = ModelBuilder::new(description);
        let subgraph = model.subgraph("main");
        let (inputs, outputs, results) = (Vec::new(), Vec::new(), Vec::new());
        Self { model, subgraph, random: Random::new(seed), inputs, outputs, results }
    }

    /// A float input, which the signature knows by its tensor's name.
    pub(super) fn input(&mut self, name: &str, shape: impl Into<Shape>) -> Value {
        let value = self.value(name, shape.into());
        self.inputs.push((name.to_owned(), value.tensor));
        value
    }

    /// Makes a value an output, which the signature knows by this name.
    pub(super) fn output(&mut self, name: &str, value: &Value) {
        self.outputs.push((name.to_owned(), value.tensor));
    }

    /// A convolution to `channels`, with weights named after `scope` and a result named `output`.
    pub(super) fn convolution(
        &mut self,
        input: &Value,
        [scope, output]: [&str; 2],
        channels: usize,
        window: Window,
        gain: f32,
    ) -> Value {
        let [batch, height, width, depth] = image(input);
        let values = filters(&mut self.random, channels, window.size * window.size * depth, gain);
        let filter = [channels, window.size, window.size, depth];
        let filter = self.constant(&format!("{scope}/weights"), filter, &values);
        let bias = self.biases(&format!("{scope}/Conv2D_bias"), channels);
        let [height, width] = [height, width].map(|extent| window.positions(extent));
        let options = schema::Conv2DOptionsT {
            padding: window.padding(),
            stride_w: window.stride as i32,
            stride_h: window.stride as i32,
            fused_activation_function: window.activation(),
            ..Default::default()
        };
        let options = BuiltinOptionsT::Conv2DOptions(Box::new(options));
        let inputs = [input.tensor, filter, bias];
        self.layer(BuiltinOperator::CONV_2D, &inputs, options, output, [batch, height, width, channels])
    }

    /// A convolution of each channel by itself.
    pub(super) fn depthwise(&mut self, input: &Value, [scope, output]: [&str; 2], window: Window, gain: f32) -> Value {
        let [batch, height, width, channels] = image(input);
        let area = window.size * window.size;
        let values = transposed(&filters(&mut self.random, channels, area, gain), area);
        let filter = [1, window.size, window.size, channels];
        let filter = self.constant(&format!("{scope}/depthwise_weights"), filter, &values);
        let bias = self.biases(&format!("{scope}/depthwise_bias"), channels);
        let [height, width] = [height, width].map(|extent| window.positions(extent));
        let options = schema::DepthwiseConv2DOptionsT {
            padding: window.padding(),
            stride_w: window.stride as i32,
            stride_h: window.stride as i32,
            depth_multiplier: 1,
            fused_activation_function: window.activation(),
            ..Default::default()
        };
        let options = BuiltinOptionsT::DepthwiseConv2DOptions(Box::new(options));
        let inputs = [input.tensor, filter, bias];
        self.layer(BuiltinOperator::DEPTHWISE_CONV_2D, &inputs, options, output, [batch, height, width, channels])
    }

    /// The mean of each window.
    pub(super) fn average_pool(&mut self, input: &Value, output: &str, window: Window) -> Value {
        let [batch, height, width, channels] = image(input);
        let [height, width] = [height, width].map(|extent| window.positions(extent));
        let options = schema::Pool2DOptionsT {
            padding: window.padding(),
            stride_w: window.stride as i32,
            stride_h: window.stride as i32,
            filter_width: window.size as i32,
            filter_height: window.size as i32,
            fused_activation_function: window.activation(),
        };
        let options = BuiltinOptionsT::Pool2DOptions(Box::new(options));
        let shape = [batch, height, width, channels];
        self.layer(BuiltinOperator::AVERAGE_POOL_2D, &[input.tensor], options, output, shape)
    }

    /// The same elements without these axes, which have extent 1.
    pub(super) fn squeeze(&mut self, input: &Value, output: &str, axes: &[usize]) -> Value {
        assert!(axes.iter().all(|axis| input.shape[*axis] == 1), "{axes:?} of {} are not 1", input.shape);
        let kept = input.shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        let shape: Shape = kept.map(|(_, extent)| *extent).collect();
        let axes = axes.iter().map(|axis| *axis as i32).collect();
        let options = BuiltinOptionsT::SqueezeOptions(Box::new(schema::SqueezeOptionsT { squeeze_dims: Some(axes) }));
        self.layer(BuiltinOperator::SQUEEZE, &[input.tensor], options, output, shape)
    }

    /// The exponential along the last axis, divided by its sum.
    pub(super) fn softmax(&mut self, input: &Value, output: &str) -> Value {
        let options = BuiltinOptionsT::SoftmaxOptions(Box::new(schema::SoftmaxOptionsT { beta: 1.0 }));
        self.layer(BuiltinOperator::SOFTMAX, &[input.tensor], options, output, input.shape.clone())
    }

    /// The file, with a signature `serving_default`.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let tensors = |list: &[(String, usize)]| list.iter().map(|(_, tensor)| *tensor).collect::<Vec<_>>();
        self.model.inputs(self.subgraph, &tensors(&self.inputs)).outputs(self.subgraph, &tensors(&self.outputs));
        self.model.signature("serving_default", self.subgraph, &named(&self.inputs), &named(&self.outputs));
        self.model.finish()
    }

    /// The same network, with what each layer makes as its outputs.
    #[cfg(test)]
    pub(super) fn opened_up(mut self) -> Self {
        self.outputs = self.results.iter().enumerate().map(|(layer, tensor)| (layer.to_string(), *tensor)).collect();
        self
    }

    fn layer(
        &mut self,
        operator: BuiltinOperator,
        inputs: &[usize],
        options: BuiltinOptionsT,
        output: &str,
        shape: impl Into<Shape>,
    ) -> Value {
        let result = self.value(output, shape.into());
        self.results.push(result.tensor);
        let operator = OperatorBuilder::new(operator, inputs.iter().copied(), [result.tensor]).options(options);
        self.model.operator(self.subgraph, operator);
        result
    }

    fn value(&mut self, name: &str, shape: Shape) -> Value {
        let tensor = TensorBuilder::new(name, DataType::Float32, shape.clone());
        Value { tensor: self.model.tensor(self.subgraph, tensor), shape }
    }

    fn biases(&mut self, name: &str, channels: usize) -> usize {
        let values = biases(&mut self.random, channels);
        self.constant(name, [channels], &values)
    }

    fn constant(&mut self, name: &str, shape: impl Into<Shape>, values: &[f32]) -> usize {
        self.model.tensor(self.subgraph, TensorBuilder::values(name, shape, values))
    }
}

impl Window {
    /// Positions along an axis of this extent.
    fn positions(self, extent: usize) -> usize {
        let window = self.padding.window(extent, self.size, self.stride, 1);
        window.expect("windows and strides are positive").output
    }

    fn padding(self) -> schema::Padding {
        match self.padding {
            Padding::Same => schema::Padding::SAME,
            Padding::Valid => schema::Padding::VALID,
        }
    }

    fn activation(self) -> schema::ActivationFunctionType {
        schema::ActivationFunctionType(self.activation.code())
    }
}

/// A signature's entries as the writer takes them.
fn named(list: &[(String, usize)]) -> Vec<(&str, usize)> {
    list.iter().map(|(name, tensor)| (name.as_str(), *tensor)).collect()
}

/// Batch, height, width and channels.
fn image(value: &Value) -> [usize; 4] {
    <[usize; 4]>::try_from(value.shape.extents()).expect("an image has rank 4")
}

/// Rows of `columns` elements as columns.
fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| values.iter().skip(column).step_by(columns).copied()).collect()
}

#[cfg(test)]
mod tests {
    use attache_model::Model;

    use super::*;

    #[test]
    fn layers_know_their_shapes_and_names() {
        let mut network = Network::new("two layers", 1);
        let window = Window { size: 3, stride: 2, padding: Padding::Same, activation: Activation::Relu6 };
        let input = network.input("image", [1, 5, 4, 3]);
        let first = network.convolution(&input, ["a", "a/out"], 8, window, 2.0);
        let second = network.depthwise(&first, ["b", "b/out"], Window { padding: Padding::Valid, ..window }, 2.0);
        assert_eq!((&first.shape, &second.shape), (&Shape::from([1, 3, 2, 8]), &Shape::from([1, 1, 0, 8])));
        network.output("features", &first);
        let model = Model::from_bytes(network.finish()).unwrap();
        let main = &model.subgraphs()[0];
        let names: Vec<_> = main.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let weights = ["a/weights", "a/Conv2D_bias", "a/out", "b/depthwise_weights", "b/depthwise_bias", "b/out"];
        assert_eq!(names, [&["image"], weights.as_slice()].concat());
        assert_eq!((main.inputs.as_slice(), main.outputs.as_slice()), (&[0][..], &[3][..]));
        let signature = &model.signatures()[0];
        assert_eq!((signature.inputs[0].0.as_str(), signature.outputs[0].0.as_str()), ("image", "features"));
    }

    #[test]
    fn depthwise_filters_have_channels_last() {
        assert_eq!(transposed(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], 3), [0.0, 10.0, 1.0, 11.0, 2.0, 12.0]);
    }
}
