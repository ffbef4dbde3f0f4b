//! DeepLab v3 over MobileNet v2 of width 0.5, for images of 257 × 257: `deeplabv3_257`.
//!
//! Source: Chen et al. 2017, "Rethinking Atrous Convolution for Semantic Image Segmentation", section 3.3, without its
//! dilated branches, over Sandler et al. 2018, section 6.3, at an eighth of the image's size. Operators and names are
//! those of the published `deeplabv3_257_mv_gpu.tflite`. It has 21 classes for each pixel, the first of which is the
//! background. The output is scores without a softmax. There are two resizes at the end, the first of which keeps the
//! size.

use attache_base::Activation;

use super::mobilenet_v2;
use super::network::{Network, Value, Window};
use super::weights::{LINEAR, RECTIFIED};

/// Height and width of the feature map, in pixels.
const SIZE: usize = 33;

/// Output channels of the two branches and of the convolution that joins them.
const CHANNELS: usize = 256;

/// Number of classes, including the background.
const CLASSES: usize = 21;

/// Builds the network.
pub(super) fn network() -> Network {
    let mut network = Network::new("DeepLab v3 over MobileNet v2 0.5 257, synthetic weights", 3);
    let image = network.input("sub_7", [1, 257, 257, 3]);
    let features = mobilenet_v2::features(&mut network, &image, 2, 8);
    let whole = network.average_pool(&features, "AvgPool2D/AvgPool", Window::valid(SIZE, SIZE, Activation::None));
    let whole = point(&mut network, &whole, "image_pooling");
    let whole = network.resize_bilinear(&whole, "ResizeBilinear_1", [SIZE, SIZE]);
    let each = point(&mut network, &features, "aspp0");
    let value = network.concatenation(&[whole, each], "concat", 3);
    let value = point(&mut network, &value, "concat_projection");
    let names = ["logits/semantic", "logits/semantic/BiasAdd"];
    let value = network.convolution(&value, names, CLASSES, Window::same(1, 1, Activation::None), LINEAR);
    let value = network.resize_bilinear(&value, "ResizeBilinear_2", [SIZE, SIZE]);
    let value = network.resize_bilinear(&value, "ResizeBilinear_3", [257, 257]);
    network.output("ResizeBilinear_3", &value);
    network
}

/// Adds a 1 × 1 convolution with RELU to `CHANNELS` channels, and returns its output.
fn point(network: &mut Network, input: &Value, scope: &str) -> Value {
    let names = [scope, &format!("{scope}/Relu")];
    network.convolution(input, names, CHANNELS, Window::same(1, 1, Activation::Relu), RECTIFIED)
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;
    use attache_model::Model;

    use super::super::tests::{counts, parameters};
    use super::*;

    #[test]
    fn it_is_the_published_network() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let operators = [
            ("ADD", 10),
            ("AVERAGE_POOL_2D", 1),
            ("CONCATENATION", 1),
            ("CONV_2D", 38),
            ("DEPTHWISE_CONV_2D", 17),
            ("RESIZE_BILINEAR", 3),
        ];
        assert_eq!(counts(&model), operators.map(|(name, count)| (name.to_owned(), count)));
        // The number of parameters in the published file.
        assert_eq!(parameters(&model), 688_357);
        let main = &model.subgraphs()[0];
        assert_eq!(main.tensors[main.outputs[0]].shape, Shape::from([1, 257, 257, 21]));
    }
}
