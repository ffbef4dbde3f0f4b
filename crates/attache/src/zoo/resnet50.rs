//! ResNet-50, version 1, for images of 224 × 224: `resnet50_224`.
//!
//! Source: He et al. 2015, "Deep Residual Learning for Image Recognition", table 1, in the form of
//! `keras.applications.ResNet50` as TensorFlow's converter writes it. Strides are in the first convolution of a
//! bottleneck. Separate operators pad before the first convolution and the pooling. Batch normalization is folded into
//! weights and biases. RELU is fused into convolutions and additions. There are 1,000 classes. Tensors have the names
//! of Keras's layers.

use attache_base::Activation;

use super::network::{Network, Value, Window};
use super::weights::{LINEAR, PIXELS, RECTIFIED};

/// For each stage: number of bottlenecks, channels inside them, and stride of the first one.
const STAGES: [(usize, usize, usize); 4] = [(3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)];

/// Ratio of a bottleneck's output channels to the channels inside it.
const EXPANSION: usize = 4;

const CLASSES: usize = 1000;

/// Gain for the weights of the last convolution of a bottleneck. It is small because the outputs of all
/// bottlenecks of a stage are added up.
const RESIDUAL: f32 = 0.25;

/// Builds the network.
pub(super) fn network() -> Network {
    let mut network = Network::new("ResNet-50 v1 224, synthetic weights", 5);
    let image = network.input("input_1", [1, 224, 224, 3]);
    let value = network.pad(&image, "conv1_pad", 3);
    let window = Window::valid(7, 2, Activation::Relu);
    let value = network.convolution(&value, ["conv1_conv", "conv1_relu"], 64, window, PIXELS);
    let value = network.pad(&value, "pool1_pad", 1);
    let mut value = network.max_pool(&value, "pool1_pool", Window::valid(3, 2, Activation::None));
    for (stage, (blocks, channels, stride)) in STAGES.into_iter().enumerate() {
        for block in 1..=blocks {
            let scope = format!("conv{}_block{block}", stage + 2);
            let stride = if block == 1 { stride } else { 1 };
            value = bottleneck(&mut network, &value, &scope, channels, stride);
        }
    }
    let value = network.spatial_mean(&value, "avg_pool");
    let value = network.fully_connected(&value, ["predictions", "predictions/BiasAdd"], CLASSES, LINEAR);
    let value = network.softmax(&value, "predictions");
    network.output("predictions", &value);
    network
}

/// Adds a bottleneck: a 1 × 1 reduction to `channels` channels, a 3 × 3 convolution and a 1 × 1 expansion,
/// whose output is added to the input. If the input has another number of channels than the output, a 1 × 1
/// convolution of the input is added instead.
fn bottleneck(network: &mut Network, input: &Value, scope: &str, channels: usize, stride: usize) -> Value {
    let outside = EXPANSION * channels;
    let name = |part: &str| format!("{scope}_{part}");
    let plain = Window::same(1, stride, Activation::None);
    let shortcut = if input.channels() == outside {
        input.clone()
    } else {
        network.convolution(input, [&name("0_conv"), &name("0_bn")], outside, plain, LINEAR)
    };
    let window = |size, stride| Window::same(size, stride, Activation::Relu);
    let names = [&*name("1_conv"), &*name("1_relu")];
    let value = network.convolution(input, names, channels, window(1, stride), RECTIFIED);
    let names = [&*name("2_conv"), &*name("2_relu")];
    let value = network.convolution(&value, names, channels, window(3, 1), RECTIFIED);
    let plain = Window::same(1, 1, Activation::None);
    let value = network.convolution(&value, [&name("3_conv"), &name("3_bn")], outside, plain, RESIDUAL);
    network.add(&shortcut, &value, &name("out"), Activation::Relu)
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
            ("ADD", 16),
            ("CONV_2D", 53),
            ("FULLY_CONNECTED", 1),
            ("MAX_POOL_2D", 1),
            ("MEAN", 1),
            ("PAD", 2),
            ("SOFTMAX", 1),
        ];
        assert_eq!(counts(&model), operators.map(|(name, count)| (name.to_owned(), count)));
        // Keras counts 25,636,712 parameters, including four batch normalization parameters for each of 26,560
        // channels.
        assert_eq!(parameters(&model), 25_636_712 - 4 * 26_560);
    }
}
