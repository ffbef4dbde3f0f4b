//! MobileNet v1, width 1.0, for images of 224 × 224: `mobilenet_v1_1.0_224`.
//!
//! Source: Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications",
//! table 1, with stride 1 in the last depthwise convolution, as in the code that was published with it (the table's 2
//! would not give the 7 × 7 that follows). Operators and names are those of the published `.tflite` file: batch
//! normalization folded into weights and biases, RELU6 fused, 1,001 classes, of which the first is the background.

use attache_base::{Activation, Padding};

use super::network::{Network, Window};

/// Stride of each depthwise convolution and channels of the pointwise one behind it.
const BLOCKS: [(usize, usize); 13] = [
    (1, 64),
    (2, 128),
    (1, 128),
    (2, 256),
    (1, 256),
    (2, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (1, 512),
    (2, 1024),
    (1, 1024),
];

/// Classes, with the background.
const CLASSES: usize = 1001;

/// Gain of the first layer: pixels are uniform in [-1, 1), with a mean square of 1/3, and become activations of 1.
const PIXELS: f32 = 6.0;

/// Gain of layers between activations.
const RECTIFIED: f32 = 2.0;

/// Gain of the last layer.
const LOGITS: f32 = 8.0;

/// The network.
pub(super) fn network() -> Network {
    let mut network = Network::new("MobileNet v1 1.0 224, synthetic weights", 1);
    let window = |size, stride| Window { size, stride, padding: Padding::Same, activation: Activation::Relu6 };
    let image = network.input("input", [1, 224, 224, 3]);
    let mut value = network.convolution(
        &image,
        ["MobilenetV1/Conv2d_0", "MobilenetV1/MobilenetV1/Conv2d_0/Relu6"],
        32,
        window(3, 2),
        PIXELS,
    );
    for (index, (stride, channels)) in BLOCKS.into_iter().enumerate() {
        let scope = |kind: &str| format!("MobilenetV1/Conv2d_{}_{kind}", index + 1);
        let output = |kind: &str| format!("MobilenetV1/MobilenetV1/Conv2d_{}_{kind}/Relu6", index + 1);
        let names = [&*scope("depthwise"), &*output("depthwise")];
        value = network.depthwise(&value, names, window(3, stride), RECTIFIED);
        let names = [&*scope("pointwise"), &*output("pointwise")];
        value = network.convolution(&value, names, channels, window(1, 1), RECTIFIED);
    }
    let plain = Window { size: 1, stride: 1, padding: Padding::Same, activation: Activation::None };
    let whole = Window { size: 7, stride: 2, padding: Padding::Valid, ..plain };
    let value = network.average_pool(&value, "MobilenetV1/Logits/AvgPool_1a/AvgPool", whole);
    let names = ["MobilenetV1/Logits/Conv2d_1c_1x1", "MobilenetV1/Logits/Conv2d_1c_1x1/BiasAdd"];
    let value = network.convolution(&value, names, CLASSES, plain, LOGITS);
    let value = network.squeeze(&value, "MobilenetV1/Logits/SpatialSqueeze", &[1, 2]);
    let value = network.softmax(&value, "MobilenetV1/Predictions/Reshape_1");
    network.output("MobilenetV1/Predictions/Reshape_1", &value);
    network
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;
    use attache_model::Model;

    use super::*;

    #[test]
    fn it_is_the_published_network() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let main = &model.subgraphs()[0];
        assert_eq!(main.operators.len(), 31);
        let weights: usize =
            main.tensors.iter().filter_map(|tensor| Some(tensor.constant.as_ref()?.shape.elements())).sum();
        // Howard et al. 2017, table 4: 4.2 million parameters (without the background class).
        assert_eq!(weights, 4_222_057);
        let output = &main.tensors[main.outputs[0]];
        assert_eq!(
            (output.name.as_str(), &output.shape),
            ("MobilenetV1/Predictions/Reshape_1", &Shape::from([1, 1001]))
        );
    }
}
