//! MobileNet v1, width 1.0, for images of 224 × 224: `mobilenet_v1_1.0_224`.
//!
//! Source: Howard et al. 2017, "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications",
//! table 1. The last depthwise convolution has stride 1, as in the code that was published with the paper; the table's
//! stride 2 would not give the 7 × 7 that follows. Operators and names are those of the published `.tflite` file: batch
//! normalization is folded into weights and biases, RELU6 is fused, and the first of the 1,001 classes is the
//! background.

use attache_base::Activation;

use super::network::{Network, Value, Window};
use super::weights::{LOGITS, PIXELS, RECTIFIED};

/// Stride of each depthwise convolution and output channels of the pointwise convolution after it.
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

/// Number of classes, including the background.
const CLASSES: usize = 1001;

/// Builds the network.
pub(super) fn network() -> Network {
    let mut network = Network::new("MobileNet v1 1.0 224, synthetic weights", 1);
    let image = network.input("input", [1, 224, 224, 3]);
    let value = features(&mut network, &image, "MobilenetV1/MobilenetV1");
    let whole = Window::valid(7, 2, Activation::None);
    let value = network.average_pool(&value, "MobilenetV1/Logits/AvgPool_1a/AvgPool", whole);
    let names = ["MobilenetV1/Logits/Conv2d_1c_1x1", "MobilenetV1/Logits/Conv2d_1c_1x1/BiasAdd"];
    let value = network.convolution(&value, names, CLASSES, Window::same(1, 1, Activation::None), LOGITS);
    let value = network.squeeze(&value, "MobilenetV1/Logits/SpatialSqueeze", &[1, 2]);
    let value = network.softmax(&value, "MobilenetV1/Predictions/Reshape_1");
    network.output("MobilenetV1/Predictions/Reshape_1", &value);
    network
}

/// Adds all layers except the classifier to a network, and returns their output: 1,024 channels at 1/32 of
/// the image size. Output tensors are named after `scope`.
pub(super) fn features(network: &mut Network, image: &Value, scope: &str) -> Value {
    let window = |size, stride| Window::same(size, stride, Activation::Relu6);
    let names = ["MobilenetV1/Conv2d_0", &format!("{scope}/Conv2d_0/Relu6")];
    let mut value = network.convolution(image, names, 32, window(3, 2), PIXELS);
    for (index, (stride, channels)) in BLOCKS.into_iter().enumerate() {
        let weights = |kind: &str| format!("MobilenetV1/Conv2d_{}_{kind}", index + 1);
        let output = |kind: &str| format!("{scope}/Conv2d_{}_{kind}/Relu6", index + 1);
        let names = [&*weights("depthwise"), &*output("depthwise")];
        value = network.depthwise(&value, names, window(3, stride), RECTIFIED);
        let names = [&*weights("pointwise"), &*output("pointwise")];
        value = network.convolution(&value, names, channels, window(1, 1), RECTIFIED);
    }
    value
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;
    use attache_model::Model;

    use super::super::tests::parameters;
    use super::*;

    #[test]
    fn it_is_the_published_network() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let main = &model.subgraphs()[0];
        assert_eq!(main.operators.len(), 31);
        // Howard et al. 2017, table 4: 4.2 million parameters (without the background class).
        assert_eq!(parameters(&model), 4_222_057);
        let output = &main.tensors[main.outputs[0]];
        assert_eq!(
            (output.name.as_str(), &output.shape),
            ("MobilenetV1/Predictions/Reshape_1", &Shape::from([1, 1001]))
        );
    }
}
