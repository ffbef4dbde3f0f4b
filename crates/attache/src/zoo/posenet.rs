//! PoseNet over MobileNet v1, for images of 257 × 257: `posenet_mobilenet_v1_257`.
//!
//! Source: Papandreou et al. 2018, "PersonLab: Person Pose Estimation and Instance Segmentation with a Bottom-Up,
//! Part-Based, Geometric Embedding Model", section 3.1, over MobileNet v1 at 1/32 of the image's size, as published by
//! TensorFlow.js. Operators, their order and the names of inputs and outputs are those of
//! `posenet_mobilenet_v1_100_257`, whose four heads read the same features.

use attache_base::Activation;

use super::mobilenet_v1;
use super::network::{Network, Window};
use super::weights::LINEAR;

/// Name and output channels of each head: a heat map for each of 17 key points, an offset of two coordinates
/// for each key point, and a displacement of two coordinates for each of the 16 edges of the tree of key
/// points, forward and backward.
const HEADS: [(&str, usize); 4] =
    [("displacement_bwd_2", 32), ("displacement_fwd_2", 32), ("heatmap_2", 17), ("offset_2", 34)];

/// Builds the network.
pub(super) fn network() -> Network {
    let mut network = Network::new("PoseNet over MobileNet v1 1.0 257, synthetic weights", 4);
    let image = network.input("sub_2", [1, 257, 257, 3]);
    let features = mobilenet_v1::features(&mut network, &image, "MobilenetV1");
    for (head, channels) in HEADS {
        let (scope, output) = (format!("MobilenetV1/{head}"), format!("MobilenetV1/{head}/BiasAdd"));
        let plain = Window::same(1, 1, Activation::None);
        let value = network.convolution(&features, [&scope, &output], channels, plain, LINEAR);
        network.output(&output, &value);
    }
    network
}

#[cfg(test)]
mod tests {
    use attache_model::Model;

    use super::super::tests::{counts, parameters};
    use super::*;

    #[test]
    fn it_is_the_published_network() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let operators = [("CONV_2D", 18), ("DEPTHWISE_CONV_2D", 13)];
        assert_eq!(counts(&model), operators.map(|(name, count)| (name.to_owned(), count)));
        // The number of parameters in the published file.
        assert_eq!(parameters(&model), 3_313_907);
        let main = &model.subgraphs()[0];
        let shapes: Vec<_> = main.outputs.iter().map(|output| main.tensors[*output].shape.to_vec()).collect();
        assert_eq!(shapes, HEADS.map(|(_, channels)| [1, 9, 9, channels].to_vec()));
    }
}
