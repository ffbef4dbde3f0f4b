//! The layers of [`Network`]. Each method adds an operator with its weights to the network and returns the
//! outputs. Images are `[batch, height, width, channels]`.

use attache_base::{Activation, Padding, Shape};
use attache_model::schema::{self, BuiltinOperator, BuiltinOptionsT};
use attache_model::{FlexMap, FlexScalar, OperatorBuilder};

use super::super::weights::Weights;
use super::{Network, Value, Window};

impl Network {
    /// Adds a convolution with `channels` output channels and random weights of this gain. Weight tensors are
    /// named after `scope`, and the output tensor is named `output`.
    pub(in super::super) fn convolution(
        &mut self,
        input: &Value,
        [scope, output]: [&str; 2],
        channels: usize,
        window: Window,
        gain: f32,
    ) -> Value {
        let weights = self.weights(channels, window.size * window.size * input.channels(), gain);
        self.convolution_by(input, [scope, output], window, &weights)
    }

    /// Adds a convolution with these weights, `[channels, height, width, input channels]`. Tensors are named
    /// as by [`convolution`](Self::convolution).
    pub(in super::super) fn convolution_by(
        &mut self,
        input: &Value,
        [scope, output]: [&str; 2],
        window: Window,
        weights: &Weights,
    ) -> Value {
        let ([batch, height, width, depth], channels) = (image(input), weights.biases.len());
        let filter = [channels, window.size, window.size, depth];
        let filter = self.constant(&format!("{scope}/weights"), filter, &weights.filters);
        let bias = self.constant(&format!("{scope}/Conv2D_bias"), [channels], &weights.biases);
        let [height, width] = [height, width].map(|extent| window.positions(extent));
        let options = schema::Conv2DOptionsT {
            padding: padding(window.padding),
            stride_w: window.stride as i32,
            stride_h: window.stride as i32,
            dilation_w_factor: window.dilation as i32,
            dilation_h_factor: window.dilation as i32,
            fused_activation_function: activation(window.activation),
            ..Default::default()
        };
        let options = BuiltinOptionsT::Conv2DOptions(Box::new(options));
        let inputs = [input.tensor, filter, bias];
        self.layer(BuiltinOperator::CONV_2D, &inputs, options, output, [batch, height, width, channels])
    }

    /// Adds a depthwise convolution with random weights of this gain. Tensors are named as by
    /// [`convolution`](Self::convolution).
    pub(in super::super) fn depthwise(
        &mut self,
        input: &Value,
        [scope, output]: [&str; 2],
        window: Window,
        gain: f32,
    ) -> Value {
        let weights = self.weights(input.channels(), window.size * window.size, gain);
        self.depthwise_by(input, [scope, output], window, &weights)
    }

    /// Adds a depthwise convolution with these weights, `[channels, height, width]`. Tensors are named as by
    /// [`convolution`](Self::convolution).
    pub(in super::super) fn depthwise_by(
        &mut self,
        input: &Value,
        [scope, output]: [&str; 2],
        window: Window,
        weights: &Weights,
    ) -> Value {
        let [batch, height, width, channels] = image(input);
        let values = transposed(&weights.filters, window.size * window.size);
        let filter = [1, window.size, window.size, channels];
        let filter = self.constant(&format!("{scope}/depthwise_weights"), filter, &values);
        let bias = self.constant(&format!("{scope}/depthwise_bias"), [channels], &weights.biases);
        let [height, width] = [height, width].map(|extent| window.positions(extent));
        let options = schema::DepthwiseConv2DOptionsT {
            padding: padding(window.padding),
            stride_w: window.stride as i32,
            stride_h: window.stride as i32,
            dilation_w_factor: window.dilation as i32,
            dilation_h_factor: window.dilation as i32,
            depth_multiplier: 1,
            fused_activation_function: activation(window.activation),
        };
        let options = BuiltinOptionsT::DepthwiseConv2DOptions(Box::new(options));
        let inputs = [input.tensor, filter, bias];
        self.layer(BuiltinOperator::DEPTHWISE_CONV_2D, &inputs, options, output, [batch, height, width, channels])
    }

    /// Adds a fully connected layer with random weights of this gain: `[rows, depth]` becomes
    /// `[rows, channels]`.
    pub(in super::super) fn fully_connected(
        &mut self,
        input: &Value,
        [scope, output]: [&str; 2],
        channels: usize,
        gain: f32,
    ) -> Value {
        let [rows, depth] = <[usize; 2]>::try_from(input.shape.extents()).expect("rows have rank 2");
        let Weights { filters, biases } = self.weights(channels, depth, gain);
        let weights = self.constant(&format!("{scope}/MatMul"), [channels, depth], &filters);
        let bias = self.constant(&format!("{scope}/BiasAdd"), [channels], &biases);
        let options = BuiltinOptionsT::FullyConnectedOptions(Box::default());
        let inputs = [input.tensor, weights, bias];
        self.layer(BuiltinOperator::FULLY_CONNECTED, &inputs, options, output, [rows, channels])
    }

    /// Adds an average pooling: the mean of each window, by channel.
    pub(in super::super) fn average_pool(&mut self, input: &Value, output: &str, window: Window) -> Value {
        self.pool(BuiltinOperator::AVERAGE_POOL_2D, input, output, window)
    }

    /// Adds a maximum pooling: the maximum of each window, by channel.
    pub(in super::super) fn max_pool(&mut self, input: &Value, output: &str, window: Window) -> Value {
        self.pool(BuiltinOperator::MAX_POOL_2D, input, output, window)
    }

    fn pool(&mut self, operator: BuiltinOperator, input: &Value, output: &str, window: Window) -> Value {
        assert_eq!(window.dilation, 1, "pooling knows no dilation");
        let [batch, height, width, channels] = image(input);
        let [height, width] = [height, width].map(|extent| window.positions(extent));
        let options = schema::Pool2DOptionsT {
            padding: padding(window.padding),
            stride_w: window.stride as i32,
            stride_h: window.stride as i32,
            filter_width: window.size as i32,
            filter_height: window.size as i32,
            fused_activation_function: activation(window.activation),
        };
        let options = BuiltinOptionsT::Pool2DOptions(Box::new(options));
        self.layer(operator, &[input.tensor], options, output, [batch, height, width, channels])
    }

    /// Adds a MEAN over height and width: an image becomes `[batch, channels]`.
    pub(in super::super) fn spatial_mean(&mut self, input: &Value, output: &str) -> Value {
        let [batch, _, _, channels] = image(input);
        let axes = self.constant(&format!("{output}/reduction_indices"), [2], &[1i32, 2]);
        let options = BuiltinOptionsT::ReducerOptions(Box::new(schema::ReducerOptionsT { keep_dims: false }));
        self.layer(BuiltinOperator::MEAN, &[input.tensor, axes], options, output, [batch, channels])
    }

    /// Adds an ADD of two tensors of the same shape, with the activation `fused`.
    pub(in super::super) fn add(&mut self, left: &Value, right: &Value, output: &str, fused: Activation) -> Value {
        assert_eq!(left.shape, right.shape, "the addends of {output}");
        let options = schema::AddOptionsT { fused_activation_function: activation(fused), ..Default::default() };
        let options = BuiltinOptionsT::AddOptions(Box::new(options));
        self.layer(BuiltinOperator::ADD, &[left.tensor, right.tensor], options, output, left.shape.clone())
    }

    /// Adds a PAD of an image with `amount` zeros on each of the four sides.
    pub(in super::super) fn pad(&mut self, input: &Value, output: &str, amount: usize) -> Value {
        let [batch, height, width, channels] = image(input);
        let border = amount as i32;
        let amounts = [0, 0, border, border, border, border, 0, 0];
        let amounts = self.constant(&format!("{output}/paddings"), [4, 2], &amounts);
        let options = BuiltinOptionsT::PadOptions(Box::default());
        let shape = [batch, height + 2 * amount, width + 2 * amount, channels];
        self.layer(BuiltinOperator::PAD, &[input.tensor, amounts], options, output, shape)
    }

    /// Adds a RESIZE_BILINEAR of an image to `extents` (height, width) with aligned corners.
    pub(in super::super) fn resize_bilinear(&mut self, input: &Value, output: &str, extents: [usize; 2]) -> Value {
        let [batch, _, _, channels] = image(input);
        let size = extents.map(|extent| extent as i32);
        let size = self.constant(&format!("{output}/size"), [2], &size);
        let options = schema::ResizeBilinearOptionsT { align_corners: true, ..Default::default() };
        let options = BuiltinOptionsT::ResizeBilinearOptions(Box::new(options));
        let shape = [batch, extents[0], extents[1], channels];
        self.layer(BuiltinOperator::RESIZE_BILINEAR, &[input.tensor, size], options, output, shape)
    }

    /// Adds a CONCATENATION of tensors along an axis. Their other extents must be equal.
    pub(in super::super) fn concatenation(&mut self, parts: &[Value], output: &str, axis: usize) -> Value {
        let mut extents = parts[0].shape.to_vec();
        extents[axis] = parts.iter().map(|part| part.shape[axis]).sum();
        let options = schema::ConcatenationOptionsT { axis: axis as i32, ..Default::default() };
        let options = BuiltinOptionsT::ConcatenationOptions(Box::new(options));
        let inputs: Vec<_> = parts.iter().map(|part| part.tensor).collect();
        self.layer(BuiltinOperator::CONCATENATION, &inputs, options, output, extents)
    }

    /// Adds a RESHAPE to a shape with the same number of elements.
    pub(in super::super) fn reshape(&mut self, input: &Value, output: &str, shape: impl Into<Shape>) -> Value {
        let shape: Shape = shape.into();
        assert_eq!(input.shape.elements(), shape.elements(), "the elements of {output}");
        let extents: Vec<i32> = shape.iter().map(|extent| *extent as i32).collect();
        let wanted = self.constant(&format!("{output}_shape"), [extents.len()], &extents);
        let options = BuiltinOptionsT::ReshapeOptions(Box::new(schema::ReshapeOptionsT { new_shape: Some(extents) }));
        self.layer(BuiltinOperator::RESHAPE, &[input.tensor, wanted], options, output, shape)
    }

    /// Adds a SQUEEZE, which removes these axes. They must have extent 1.
    pub(in super::super) fn squeeze(&mut self, input: &Value, output: &str, axes: &[usize]) -> Value {
        assert!(axes.iter().all(|axis| input.shape[*axis] == 1), "{axes:?} of {} are not 1", input.shape);
        let kept = input.shape.iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
        let shape: Shape = kept.map(|(_, extent)| *extent).collect();
        let axes = axes.iter().map(|axis| *axis as i32).collect();
        let options = BuiltinOptionsT::SqueezeOptions(Box::new(schema::SqueezeOptionsT { squeeze_dims: Some(axes) }));
        self.layer(BuiltinOperator::SQUEEZE, &[input.tensor], options, output, shape)
    }

    /// Adds a SOFTMAX over the last axis.
    pub(in super::super) fn softmax(&mut self, input: &Value, output: &str) -> Value {
        let options = BuiltinOptionsT::SoftmaxOptions(Box::new(schema::SoftmaxOptionsT { beta: 1.0 }));
        self.layer(BuiltinOperator::SOFTMAX, &[input.tensor], options, output, input.shape.clone())
    }

    /// Adds a LOGISTIC: the logistic function of each element.
    pub(in super::super) fn logistic(&mut self, input: &Value, output: &str) -> Value {
        self.layer(BuiltinOperator::LOGISTIC, &[input.tensor], BuiltinOptionsT::NONE, output, input.shape.clone())
    }

    /// Adds the postprocessing of a detector, TFLite_Detection_PostProcess. Inputs are encodings
    /// `[1, count, 4]` and scores `[1, count, classes]`; `anchors` are `[count, 4]`. Returns boxes, classes,
    /// scores and number of the best detections. `most` is the maximum number of detections in `options`.
    pub(in super::super) fn detections(
        &mut self,
        [encodings, scores]: [&Value; 2],
        anchors: &[f32],
        options: &[(&str, FlexScalar)],
        most: usize,
    ) -> [Value; 4] {
        let name = "TFLite_Detection_PostProcess";
        let anchors = self.constant("anchors", [anchors.len() / 4, 4], anchors);
        let shapes: [Shape; 4] = [[1, most, 4].into(), [1, most].into(), [1, most].into(), [1].into()];
        let names = [name.to_owned(), format!("{name}:1"), format!("{name}:2"), format!("{name}:3")];
        let mut names = names.iter();
        let results = shapes.map(|shape| self.value(names.next().expect("four names"), shape));
        let tensors = results.each_ref().map(|result| result.tensor);
        self.results.extend(tensors);
        let inputs = [encodings.tensor, scores.tensor, anchors];
        let operator = OperatorBuilder::custom(name, FlexMap::write(options), inputs, tensors);
        self.model.operator(self.subgraph, operator);
        results
    }

    /// Adds an UNPACK that splits `[batch, N, columns]` into N tensors of `[batch, columns]`.
    pub(in super::super) fn unpack_rows<const N: usize>(&mut self, input: &Value, output: &str) -> [Value; N] {
        let [batch, rows, columns] = <[usize; 3]>::try_from(input.shape.extents()).expect("rows have rank 3");
        assert_eq!(rows, N, "the rows of {output}");
        let options = BuiltinOptionsT::UnpackOptions(Box::new(schema::UnpackOptionsT { num: N as i32, axis: 1 }));
        let outputs = std::array::from_fn(|row| (numbered(output, row), Shape::from([batch, columns])));
        self.operator(BuiltinOperator::UNPACK, &[input.tensor], options, outputs)
    }

    /// Adds an LSTM with `units` units over a sequence of inputs `[batch, depth]`, with an initial state of
    /// zeros. All steps have the same weights. Returns the activation after the last step, `[batch, units]`.
    /// Each step is one LSTM operator with the basic kernel, which is what the converter makes of
    /// `BasicLSTMCell`.
    pub(in super::super) fn lstm(&mut self, inputs: &[Value], scope: &str, units: usize, gain: f32) -> Value {
        let [batch, depth] = <[usize; 2]>::try_from(inputs[0].shape.extents()).expect("rows have rank 2");
        let Weights { filters, biases } = self.weights(4 * units, depth + units, gain);
        let kernel = self.constant(&format!("{scope}/kernel"), [4 * units, depth + units], &filters);
        let bias = self.constant(&format!("{scope}/bias"), [4 * units], &biases);
        let mut state = self.zeros(&format!("{scope}/zeros"), [batch, units]);
        let mut active = state.clone();
        for (index, input) in inputs.iter().enumerate() {
            let options = schema::LSTMOptionsT {
                fused_activation_function: schema::ActivationFunctionType::TANH,
                kernel_type: schema::LSTMKernelType::BASIC,
                ..Default::default()
            };
            let options = BuiltinOptionsT::LSTMOptions(Box::new(options));
            let output = |name: &str, columns: usize| {
                (numbered(&format!("{scope}/{name}"), index), Shape::from([batch, columns]))
            };
            let outputs = [
                output("Mul_2", units),
                output("Add_1", units),
                output("concat", depth + units),
                output("gates", 4 * units),
            ];
            let inputs = [input.tensor, active.tensor, kernel, bias, state.tensor];
            [active, state, _, _] = self.operator(BuiltinOperator::LSTM, &inputs, options, outputs);
        }
        active
    }

    /// Generates the weights of a layer, for callers that change some of them before they pass them to
    /// [`convolution_by`](Self::convolution_by) or [`depthwise_by`](Self::depthwise_by).
    pub(in super::super) fn weights(&mut self, channels: usize, fan_in: usize, gain: f32) -> Weights {
        Weights::new(&mut self.random, channels, fan_in, gain)
    }
}

/// Returns TensorFlow's name for the tensor with this index among tensors of the same name: `name`, `name_1`,
/// `name_2`, ….
fn numbered(name: &str, index: usize) -> String {
    if index == 0 { name.to_owned() } else { format!("{name}_{index}") }
}

fn padding(padding: Padding) -> schema::Padding {
    match padding {
        Padding::Same => schema::Padding::SAME,
        Padding::Valid => schema::Padding::VALID,
    }
}

fn activation(activation: Activation) -> schema::ActivationFunctionType {
    schema::ActivationFunctionType(activation.code())
}

/// Returns batch, height, width and channels of an image.
fn image(value: &Value) -> [usize; 4] {
    <[usize; 4]>::try_from(value.shape.extents()).expect("an image has rank 4")
}

/// Returns the transpose of a row-major matrix whose rows have `columns` elements.
fn transposed(values: &[f32], columns: usize) -> Vec<f32> {
    (0..columns).flat_map(|column| values.iter().skip(column).step_by(columns).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depthwise_filters_have_channels_last() {
        assert_eq!(transposed(&[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], 3), [0.0, 10.0, 1.0, 11.0, 2.0, 12.0]);
    }
}
