//! The builder for the built-in networks. Its layers compute the shapes of their outputs, generate their weights and
//! name their tensors as TensorFlow's converter does. This file has the state of a network; the layers are in `layers`.

mod layers;

use attache_base::{Activation, DataType, Element, Padding, Shape};
use attache_model::schema::{BuiltinOperator, BuiltinOptionsT, LSTMKernelType};
use attache_model::{ModelBuilder, OperatorBuilder, TensorBuilder};

use super::weights::Random;

/// A tensor of a network.
#[derive(Clone, Debug)]
pub(super) struct Value {
    tensor: usize,
    shape: Shape,
}

impl Value {
    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Extent of the last axis.
    pub(super) fn channels(&self) -> usize {
        *self.shape.last().expect("a value with channels")
    }
}

/// A sliding window over an image, with the activation of the result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Height and width.
    size: usize,
    /// Stride along both axes.
    stride: usize,
    /// Distance in the image between neighbours in the window.
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
    /// Name in the signature and tensor of each input.
    inputs: Vec<(String, usize)>,
    /// Name in the signature and tensor of each output.
    outputs: Vec<(String, usize)>,
    /// The outputs of all layers.
    results: Vec<usize>,
}

impl Network {
    /// A network without layers. `seed` determines the weights.
    pub(super) fn new(description: &str, seed: u64) -> Self {
        let mut model = ModelBuilder::new(description);
        let subgraph = model.subgraph("main");
        let (inputs, outputs, results) = (Vec::new(), Vec::new(), Vec::new());
        Self { model, subgraph, random: Random::new(seed), inputs, outputs, results }
    }

    /// Adds a float input. The signature uses the name of its tensor.
    pub(super) fn input(&mut self, name: &str, shape: impl Into<Shape>) -> Value {
        let value = self.value(name, shape.into());
        self.inputs.push((name.to_owned(), value.tensor));
        value
    }

    /// Makes a tensor an output with this name in the signature.
    pub(super) fn output(&mut self, name: &str, value: &Value) {
        self.outputs.push((name.to_owned(), value.tensor));
    }

    /// The bytes of the file, with the signature `serving_default`.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let tensors = |list: &[(String, usize)]| list.iter().map(|(_, tensor)| *tensor).collect::<Vec<_>>();
        self.model.inputs(self.subgraph, &tensors(&self.inputs)).outputs(self.subgraph, &tensors(&self.outputs));
        self.model.signature("serving_default", self.subgraph, &named(&self.inputs), &named(&self.outputs));
        self.model.finish()
    }

    /// The same network with the outputs of all layers as its outputs.
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

    /// Adds an operator with these names and shapes of outputs.
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

    /// A state that is never written. It is a variable of zeros, because TensorFlow Lite's operators accept no constant
    /// there.
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
    /// A window with SAME padding: as many output pixels as there are strides in the image.
    pub(super) const fn same(size: usize, stride: usize, activation: Activation) -> Self {
        Self { size, stride, dilation: 1, padding: Padding::Same, activation }
    }

    /// A window with VALID padding: it stays inside the image.
    pub(super) const fn valid(size: usize, stride: usize, activation: Activation) -> Self {
        Self { padding: Padding::Valid, ..Self::same(size, stride, activation) }
    }

    /// The same window with this dilation.
    pub(super) const fn dilated(self, dilation: usize) -> Self {
        Self { dilation, ..self }
    }

    /// Number of output pixels along an axis of this extent.
    fn positions(self, extent: usize) -> usize {
        let window = self.padding.window(extent, self.size, self.stride, self.dilation);
        window.expect("windows, strides and dilations are positive").output
    }
}

/// The version that TensorFlow's converter gives an operator: the first one that has all its options.
fn version(options: &BuiltinOptionsT) -> i32 {
    match options {
        BuiltinOptionsT::DepthwiseConv2DOptions(options) if options.dilation_w_factor > 1 => 2,
        BuiltinOptionsT::LSTMOptions(options) if options.kernel_type == LSTMKernelType::BASIC => 2,
        _ => 1,
    }
}

/// The entries of a signature as the model builder takes them.
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
