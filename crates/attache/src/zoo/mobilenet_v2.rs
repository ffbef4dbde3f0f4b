//! MobileNet v2, width 1.0, for images of 224 × 224: `mobilenet_v2_1.0_224`.
//!
//! Source: Sandler et al. 2018, "MobileNetV2: Inverted Residuals and Linear Bottlenecks", table 2. Operators and names
//! are those of the published `.tflite` files: batch normalization is folded into weights and biases, RELU6 is fused,
//! and the first of the 1,001 classes is the background. There is a RESHAPE before the softmax, as in the quantized
//! file.

use attache_base::Activation;

use super::network::{Network, Value, Window};
use super::weights::{LINEAR, LOGITS, PIXELS, RECTIFIED};

/// Stride and output channels of each bottleneck.
const BLOCKS: [(usize, usize); 17] = [
    (1, 16),
    (2, 24),
    (1, 24),
    (2, 32),
    (1, 32),
    (1, 32),
    (2, 64),
    (1, 64),
    (1, 64),
    (1, 64),
    (1, 96),
    (1, 96),
    (1, 96),
    (2, 160),
    (1, 160),
    (1, 160),
    (1, 320),
];

/// Ratio of the channels of a bottleneck's depthwise convolution to its input channels. The first bottleneck
/// does not expand its input.
const EXPANSION: usize = 6;

/// Number of classes, including the background.
const CLASSES: usize = 1001;

/// Builds the network.
pub(super) fn network() -> Network {
    let mut network = Network::new("MobileNet v2 1.0 224, synthetic weights", 2);
    let image = network.input("input", [1, 224, 224, 3]);
    let value = features(&mut network, &image, 1, 32);
    let names = ["MobilenetV2/Conv_1", "MobilenetV2/Conv_1/Relu6"];
    let value = network.convolution(&value, names, 1280, Window::same(1, 1, Activation::Relu6), RECTIFIED);
    let whole = Window::valid(7, 1, Activation::None);
    let value = network.average_pool(&value, "MobilenetV2/Logits/AvgPool", whole);
    let names = ["MobilenetV2/Logits/Conv2d_1c_1x1", "MobilenetV2/Logits/Conv2d_1c_1x1/BiasAdd"];
    let value = network.convolution(&value, names, CLASSES, Window::same(1, 1, Activation::None), LOGITS);
    let value = network.reshape(&value, "MobilenetV2/Logits/Squeeze", [1, CLASSES]);
    let value = network.softmax(&value, "MobilenetV2/Predictions/Reshape_1");
    network.output("MobilenetV2/Predictions/Reshape_1", &value);
    network
}

/// Adds the first convolution and all bottlenecks to a network, and returns their output. Numbers of channels
/// are divided by `narrowing`. The output has 1/`stride` of the image size: once that is reached, further
/// strides are replaced by dilation, as in DeepLab.
pub(super) fn features(network: &mut Network, image: &Value, narrowing: usize, stride: usize) -> Value {
    let blocks = bottlenecks(network, image, narrowing, stride);
    blocks.into_iter().next_back().expect("there are bottlenecks").output
}

/// Tensors of a bottleneck that later layers read.
#[derive(Clone, Debug)]
pub(super) struct Bottleneck {
    /// The expanded features, before the depthwise convolution.
    pub(super) expanded: Value,
    pub(super) output: Value,
}

/// Adds the same layers as [`features`], and returns the tensors of each bottleneck.
pub(super) fn bottlenecks(network: &mut Network, image: &Value, narrowing: usize, stride: usize) -> Vec<Bottleneck> {
    let names = ["MobilenetV2/Conv", "MobilenetV2/Conv/Relu6"];
    let window = Window::same(3, 2, Activation::Relu6);
    let mut value = network.convolution(image, names, 32 / narrowing, window, PIXELS);
    let (mut strides, mut dilation) = (2, 1);
    let mut blocks = Vec::new();
    for (index, (wanted, channels)) in BLOCKS.into_iter().enumerate() {
        let step = if strides < stride { wanted } else { 1 };
        let window = Window::same(3, step, Activation::Relu6).dilated(dilation);
        let block = bottleneck(network, &value, index, window, channels / narrowing);
        value = block.output.clone();
        blocks.push(block);
        strides *= step;
        dilation *= wanted / step;
    }
    blocks
}

/// Adds a bottleneck: a 1 × 1 expansion (not in the bottleneck with `index` 0), a depthwise convolution and a
/// 1 × 1 projection to `channels` channels. The input is added to the output if both have the same shape.
fn bottleneck(network: &mut Network, input: &Value, index: usize, window: Window, channels: usize) -> Bottleneck {
    let scope = if index == 0 { "expanded_conv".to_owned() } else { format!("expanded_conv_{index}") };
    let name = |part: &str| format!("MobilenetV2/{scope}/{part}");
    let mut value = input.clone();
    if index > 0 {
        let (names, point) = ([&*name("expand"), &*name("expand/Relu6")], Window::same(1, 1, Activation::Relu6));
        value = network.convolution(&value, names, EXPANSION * input.channels(), point, RECTIFIED);
    }
    let expanded = value.clone();
    value = network.depthwise(&value, [&name("depthwise"), &name("depthwise/Relu6")], window, RECTIFIED);
    let names = [&*name("project"), &*name("project/BatchNorm/FusedBatchNorm")];
    value = network.convolution(&value, names, channels, Window::same(1, 1, Activation::None), LINEAR);
    if value.shape() == input.shape() {
        value = network.add(&value, input, &name("add"), Activation::None);
    }
    Bottleneck { expanded, output: value }
}

#[cfg(test)]
mod tests {
    use attache_model::Model;

    use super::super::tests::{counts, parameters};
    use super::*;

    #[test]
    fn it_is_the_published_network() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let operators = [
            ("ADD", 10),
            ("AVERAGE_POOL_2D", 1),
            ("CONV_2D", 36),
            ("DEPTHWISE_CONV_2D", 17),
            ("RESHAPE", 1),
            ("SOFTMAX", 1),
        ];
        assert_eq!(counts(&model), operators.map(|(name, count)| (name.to_owned(), count)));
        // Sandler et al. 2018, table 4: 3.4 million parameters.
        assert_eq!(parameters(&model), 3_489_097);
    }
}
