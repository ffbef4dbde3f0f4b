//! The builder of the built-in networks ([`Network`]). Its layers compute the shapes of their outputs,
//! generate their weights and name their tensors as TensorFlow's converter does. This file has the state of a
//! network; the layers are in `layers`.

mod layers;

use attache_base::{Activation, DataType, Element, Padding, Shape};
use attache_model::schema::{BuiltinOperator, BuiltinOptionsT, LSTMKernelType};
use attache_model::{ModelBuilder, OperatorBuilder, TensorBuilder};

use super::weights::Random;

/// A tensor of a network under construction: its index in the subgraph and its shape.
#[derive(Clone, Debug)]
pub(super) struct Value {
    tensor: usize,
    shape: Shape,
}

impl Value {
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the extent of the last axis.
    pub(super) fn channels(&self) -> usize {
        *self.shape.last().expect("a value with channels")
    }
}

/// A square sliding window over an image (convolution, pooling), with the activation that is fused into the
/// operator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Height and width of the window, in elements of the window.
    size: usize,
    /// Stride along both axes, in pixels.
    stride: usize,
    /// Distance in pixels between neighbouring elements of the window, along both axes.
    dilation: usize,
    padding: Padding,
    activation: Activation,
}

/// A network under construction: one subgraph whose layers run in the order in which they are added. A layer that does
/// not fit its input is a bug in this crate and panics.
#[derive(Debug)]
pub(super) struct Network {
    model: ModelBuilder,
    subgraph: usize,
    random: Random,
    /// The inputs of the network: the name in the signature and the tensor index of each.
    inputs: Vec<(String, usize)>,
    /// The outputs of the network: the name in the signature and the tensor index of each.
    outputs: Vec<(String, usize)>,
    /// The tensor indices of the outputs of all layers, in order.
    results: Vec<usize>,
}

impl Network {
    /// Creates a network without layers. `description` is stored in the file; `seed` determines the weights.
    pub(super) fn new(description: &str, seed: u64) -> Self {
        let mut model = ModelBuilder::new(description);
        let subgraph = model.subgraph("main");
        let (inputs, outputs, results) = (Vec::new(), Vec::new(), Vec::new());
        Self { model, subgraph, random: Random::new(seed), inputs, outputs, results }
    }

    /// Adds a `FLOAT32` input tensor with this name, which is also its name in the signature.
    pub(super) fn input(&mut self, name: &str, shape: impl Into<Shape>) -> Value {
        let value = self.value(name, shape.into());
        self.inputs.push((name.to_owned(), value.tensor));
        value
    }

    /// Makes a tensor an output of the network, with this name in the signature.
    pub(super) fn output(&mut self, name: &str, value: &Value) {
        self.outputs.push((name.to_owned(), value.tensor));
    }

    /// Returns the bytes of the `.tflite` file, which has the signature `serving_default`.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let tensors = |list: &[(String, usize)]| list.iter().map(|(_, tensor)| *tensor).collect::<Vec<_>>();
        self.model.inputs(self.subgraph, &tensors(&self.inputs)).outputs(self.subgraph, &tensors(&self.outputs));
        self.model.signature("serving_default", self.subgraph, &named(&self.inputs), &named(&self.outputs));
        self.model.finish()
    }

    /// Replaces the outputs of the network by the outputs of all layers.
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
        let [result] = self.operator(operator, inputs, options, [(output.to_owned(), shape.into())]);
        result
    }

    /// Adds an operator with N outputs of these names and shapes, and returns the outputs.
    fn operator<const N: usize>(
        &mut self,
        operator: BuiltinOperator,
        inputs: &[usize],
        options: BuiltinOptionsT,
        outputs: [(String, Shape); N],
    ) -> [Value; N] {
        let results = outputs.map(|(name, shape)| self.value(&name, shape));
        let tensors = results.each_ref().map(|result| result.tensor);
        self.results.extend(tensors);
        let version = version(&options);
        let operator = OperatorBuilder::new(operator, inputs.iter().copied(), tensors);
        self.model.operator(self.subgraph, operator.options(options).version(version));
        results
    }

    fn value(&mut self, name: &str, shape: Shape) -> Value {
        let tensor = TensorBuilder::new(name, DataType::Float32, shape.clone());
        Value { tensor: self.model.tensor(self.subgraph, tensor), shape }
    }

    /// Adds a state tensor of zeros that nothing writes. It is a variable, because TensorFlow Lite accepts no
    /// constant as a state input.
    fn zeros(&mut self, name: &str, shape: impl Into<Shape>) -> Value {
        let shape = shape.into();
        let tensor = TensorBuilder::new(name, DataType::Float32, shape.clone()).variable();
        Value { tensor: self.model.tensor(self.subgraph, tensor), shape }
    }

    fn constant<T: Element>(&mut self, name: &str, shape: impl Into<Shape>, values: &[T]) -> usize {
        self.model.tensor(self.subgraph, TensorBuilder::values(name, shape, values))
    }
}

impl Window {
    /// Creates a window with SAME padding, which has `ceil(extent / stride)` positions along each axis.
    pub(super) const fn same(size: usize, stride: usize, activation: Activation) -> Self {
        Self { size, stride, dilation: 1, padding: Padding::Same, activation }
    }

    /// Creates a window with VALID padding, whose positions are completely inside the image.
    pub(super) const fn valid(size: usize, stride: usize, activation: Activation) -> Self {
        Self { padding: Padding::Valid, ..Self::same(size, stride, activation) }
    }

    /// Returns the window with this dilation instead of 1.
    pub(super) const fn dilated(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    /// Returns the number of output pixels along an axis of `extent` input pixels.
    fn positions(self, extent: usize) -> usize {
        let window = self.padding.window(extent, self.size, self.stride, self.dilation);
        window.expect("windows, strides and dilations are positive").output
    }
}

/// Returns the operator version that TensorFlow's converter writes: the first one that has all the options
/// used.
fn version(options: &BuiltinOptionsT) -> i32 {
    match options {
        BuiltinOptionsT::DepthwiseConv2DOptions(options) if options.dilation_w_factor > 1 => 2,
        BuiltinOptionsT::LSTMOptions(options) if options.kernel_type == LSTMKernelType::BASIC => 2,
        _ => 1,
    }
}

/// Returns the inputs or outputs of a signature in the form that the model builder takes.
fn named(list: &[(String, usize)]) -> Vec<(&str, usize)> {
    list.iter().map(|(name, tensor)| (name.as_str(), *tensor)).collect()
}

#[cfg(test)]
mod tests {
    use attache_model::Model;

    use super::*;

    #[test]
    fn layers_know_their_shapes_and_names() {
        let mut network = Network::new("two layers", 1);
        let window = Window::same(3, 2, Activation::Relu6);
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
}
