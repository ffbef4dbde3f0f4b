//! A single-shot detector over MobileNet v2, for images of 320 × 320: `ssd_mobilenet_v2_320`.
//!
//! Source: Sandler et al. 2018, section 6.2 (SSDLite), and Liu et al. 2016, "SSD: Single Shot MultiBox Detector".
//! Operators and names are those of the `.tflite` files that the TensorFlow Object Detection API exports: six feature
//! maps from 20 × 20 to 1 × 1, a box head and a class head (90 classes and the background) on each, and
//! TFLite_Detection_PostProcess at the end.
//!
//! With random weights, scores would be so close that rounding determines their order. Therefore a few
//! anchors of the three coarsest maps, the leaders, get constant biases that separate their scores. The image
//! changes these scores only slightly. The score threshold is between the scores of the leaders and all
//! others. The boxes do depend on the image. The pixels of a map get different scores because the depthwise
//! convolution of a constant feature differs at the border of the map.

use attache_base::Activation;
use attache_model::FlexScalar;

use super::mobilenet_v2::bottlenecks;
use super::network::{Network, Value, Window};
use super::weights::{RECTIFIED, Weights};

/// Number of classes, without the background.
const CLASSES: usize = 90;

/// Index of the bottleneck of MobileNet v2 whose expanded features are the first map.
const FIRST_MAP: usize = 13;

/// For each map after the second: output channels of the 1 × 1 convolution before it, and channels of the
/// map.
const FURTHER: [(usize, usize); 4] = [(256, 512), (128, 256), (128, 256), (64, 128)];

/// Size of the anchors of each map as a fraction of the image size; the seventh element is used as the size
/// after that of the last map.
const SIZES: [f32; 7] = [0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0];

/// Index of the first coarse map, on which pixels get different scores because of the border. The coarse maps
/// have 3 × 3, 2 × 2 and 1 × 1 pixels.
const COARSE: usize = 3;

/// Leaders, highest score first: the index of the map, of the anchor at each of its pixels, and of the class.
/// The second leader is suppressed by the first, because their boxes overlap.
const LEADERS: [(usize, usize, usize); 5] = [(5, 0, 17), (5, 5, 17), (4, 1, 61), (3, 2, 0), (4, 4, 89)];

/// Score of the first leader before the logistic function.
const HIGHEST: f32 = 1.6;

/// Difference between the scores of a leader at horizontally neighbouring pixels of a 3 × 3 map, before the
/// logistic function. The image changes scores by at most a tenth of it.
const STEP: f32 = 0.06;

/// Difference between the scores of consecutive leaders, as a multiple of [`STEP`]: one for each of the up to
/// nine pixels of a map and one more, so that a threshold fits in between.
const STEPS: f32 = 10.0;

/// Score threshold of the detections: the logistic function of -1.1, which is half the distance between
/// leaders below the score of the last one.
const THRESHOLD: f64 = 0.25;

/// Output of the depthwise convolution for the constant feature where the window is completely inside the
/// map.
const MIDDLE: f32 = 3.0;
/// Amount by which the depthwise convolution's output for the constant feature is smaller at the left border
/// of a coarse map and larger at the right border. It is three times as much smaller at the top and larger at
/// the bottom.
const SLOPE: f32 = 0.5;

/// Centre of the scores of anchors and classes that are not leaders, before the logistic function. The scores
/// are within 1 of it.
const IDLE: f32 = -6.0;

/// Gain for the weights that compute scores from the image. It is small, so that the constant biases
/// determine the scores.
const SCORES: f32 = 1e-5;
/// Gain for the weights that compute box encodings from the image.
const ENCODINGS: f32 = 1e-2;

const POINT: Window = Window::same(1, 1, Activation::Relu6);

/// Builds the network.
pub(super) fn network() -> Network {
    let mut network = Network::new("SSDLite MobileNet v2 320, synthetic weights", 7);
    let image = network.input("normalized_input_image_tensor", [1, 320, 320, 3]);
    let (mut encodings, mut scores) = (Vec::new(), Vec::new());
    for (index, map) in maps(&mut network, &image).iter().enumerate() {
        encodings.push(boxes(&mut network, map, index));
        scores.push(classes(&mut network, map, index));
    }
    let encodings = network.concatenation(&encodings, "concat", 1);
    let scores = network.concatenation(&scores, "concat_1", 1);
    let scores = network.logistic(&scores, "convert_scores");
    let outputs = network.detections([&encodings, &scores], &anchors(), &options(), DETECTIONS);
    let names = ["detection_boxes", "detection_classes", "detection_scores", "num_detections"];
    names.iter().zip(&outputs).for_each(|(name, output)| network.output(name, output));
    network
}

/// Maximum number of detections that the network returns.
const DETECTIONS: usize = 10;

fn options() -> [(&'static str, FlexScalar); 10] {
    [
        ("max_detections", FlexScalar::Int(DETECTIONS as i64)),
        ("max_classes_per_detection", FlexScalar::Int(1)),
        ("num_classes", FlexScalar::Int(CLASSES as i64)),
        ("nms_score_threshold", FlexScalar::Float(THRESHOLD)),
        ("nms_iou_threshold", FlexScalar::Float(0.6)),
        ("y_scale", FlexScalar::Float(10.0)),
        ("x_scale", FlexScalar::Float(10.0)),
        ("h_scale", FlexScalar::Float(5.0)),
        ("w_scale", FlexScalar::Float(5.0)),
        ("use_regular_nms", FlexScalar::Bool(false)),
    ]
}

/// Adds MobileNet v2 and the layers after it to a network, and returns the six feature maps, finest first.
fn maps(network: &mut Network, image: &Value) -> Vec<Value> {
    let blocks = bottlenecks(network, image, 1, 32);
    let last = &blocks.last().expect("there are bottlenecks").output;
    let names = ["MobilenetV2/Conv_1", "MobilenetV2/Conv_1/Relu6"];
    let mut maps = vec![blocks[FIRST_MAP].expanded.clone(), network.convolution(last, names, 1280, POINT, RECTIFIED)];
    for (index, (narrow, channels)) in FURTHER.into_iter().enumerate() {
        let layer = |part: usize, kind: &str| format!("MobilenetV2/layer_19_{part}_Conv2d_{}_{kind}", index + 2);
        let (first, second) = (layer(1, &format!("1x1_{narrow}")), layer(2, &format!("3x3_s2_{channels}")));
        let relu = |name: &str| format!("{name}/Relu6");
        let before = maps.last().expect("two maps");
        let value = network.convolution(before, [&first, &relu(&first)], narrow, POINT, RECTIFIED);
        let depthwise = format!("{second}_depthwise");
        let window = Window::same(3, 2, Activation::Relu6);
        let value = network.depthwise(&value, [&depthwise, &relu(&depthwise)], window, RECTIFIED);
        let mut weights = network.weights(channels, narrow, RECTIFIED);
        weights.filter(0).fill(0.0);
        weights.biases[0] = 1.0; // channel 0 is a constant feature
        maps.push(network.convolution_by(&value, [&second, &relu(&second)], POINT, &weights));
    }
    maps
}

/// Returns the number of anchors at each pixel of the map with this index.
fn anchors_of(map: usize) -> usize {
    if map == 0 { 3 } else { 6 }
}

/// Adds the box head of a map, and returns the encodings of its boxes, `[1, count, 4]`.
fn boxes(network: &mut Network, map: &Value, index: usize) -> Value {
    let scope = format!("BoxPredictor_{index}/BoxEncodingPredictor");
    let near = near(network, map, index);
    let mut weights = network.weights(4 * anchors_of(index), map.channels(), ENCODINGS);
    weights.biases.iter_mut().for_each(|bias| *bias *= 5.0);
    head(network, map, &scope, [&near, &weights], 4)
}

/// Adds the class head of a map, and returns the scores of its boxes before the logistic function,
/// `[1, count, classes with the background]`.
fn classes(network: &mut Network, map: &Value, index: usize) -> Value {
    let scope = format!("BoxPredictor_{index}/ClassPredictor");
    let columns = CLASSES + 1;
    let mut near = near(network, map, index);
    let mut weights = network.weights(columns * anchors_of(index), map.channels(), SCORES);
    weights.biases.iter_mut().for_each(|bias| *bias = IDLE + 10.0 * *bias);
    if index >= COARSE {
        // The weight for the vertical neighbours is three times that for the horizontal ones, so that each
        // pixel of a 3 × 3 map gets a distinct value.
        let (down, right) = (3.0 * SLOPE, SLOPE);
        near.filter(0).copy_from_slice(&[0.0, down, 0.0, right, 0.0, -right, 0.0, -down, 0.0]);
        near.biases[0] = MIDDLE;
    }
    for (rank, (_, anchor, class)) in LEADERS.into_iter().enumerate().filter(|(_, (map, ..))| *map == index) {
        let (channel, weight) = (anchor * columns + 1 + class, STEP / SLOPE);
        weights.filter(channel)[0] = weight;
        weights.biases[channel] = HIGHEST - rank as f32 * STEPS * STEP - weight * MIDDLE;
    }
    head(network, map, &scope, [&near, &weights], columns)
}

/// Generates the weights of the 3 × 3 depthwise convolution of a head. On coarse maps most of the window is
/// outside the map, so the gain is larger.
fn near(network: &mut Network, map: &Value, index: usize) -> Weights {
    let gain = if index < COARSE { RECTIFIED } else { 3.0 * RECTIFIED };
    network.weights(map.channels(), 9, gain)
}

/// Adds an SSDLite head: a depthwise convolution with the weights `near` and a 1 × 1 convolution with
/// `weights`. Returns their output reshaped to `[1, rows, columns]`.
fn head(network: &mut Network, map: &Value, scope: &str, [near, weights]: [&Weights; 2], columns: usize) -> Value {
    let depthwise = format!("{scope}_depthwise");
    let window = Window::same(3, 1, Activation::Relu6);
    let value = network.depthwise_by(map, [&depthwise, &format!("{depthwise}/Relu6")], window, near);
    let window = Window::same(1, 1, Activation::None);
    let value = network.convolution_by(&value, [scope, &format!("{scope}/BiasAdd")], window, weights);
    let rows = value.shape().elements() / columns;
    network.reshape(&value, &format!("{scope}/Reshape"), [1, rows, columns])
}

/// Returns `y, x, height, width` of all anchors, as fractions of the image size (Liu et al. 2016, section
/// 2.2). Each pixel has one anchor for each aspect ratio, and a square one whose size is between that of its
/// map and that of the next one. The finest map has three anchors per pixel.
fn anchors() -> Vec<f32> {
    let mut anchors = Vec::new();
    for (index, extent) in [20, 10, 5, 3, 2, 1].into_iter().enumerate() {
        let (size, next) = (SIZES[index], SIZES[index + 1]);
        let coarse =
            [(size, 1.0), (size, 2.0), (size, 0.5), (size, 3.0), (size, 1.0 / 3.0), ((size * next).sqrt(), 1.0)];
        let fine = [(0.1, 1.0), (size, 2.0), (size, 0.5)];
        let shapes = if index == 0 { &fine[..] } else { &coarse[..] };
        for cell in 0..extent * extent {
            let centre = |step: usize| (step as f32 + 0.5) / extent as f32;
            for &(size, ratio) in shapes {
                let (height, width) = (size / f32::sqrt(ratio), size * f32::sqrt(ratio));
                anchors.extend([centre(cell / extent), centre(cell % extent), height, width]);
            }
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;
    use attache_model::Model;

    use super::super::tests::counts;
    use super::super::weights::Random;
    use super::*;
    use crate::Interpreter;

    #[test]
    fn it_is_the_published_network() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let operators = [
            ("ADD", 10),
            ("CONCATENATION", 2),
            ("CONV_2D", 55),
            ("DEPTHWISE_CONV_2D", 33),
            ("LOGISTIC", 1),
            ("RESHAPE", 12),
            ("TFLite_Detection_PostProcess", 1),
        ];
        assert_eq!(counts(&model), operators.map(|(name, count)| (name.to_owned(), count)));
        let main = &model.subgraphs()[0];
        let shape = |name: &str| main.tensors.iter().find(|tensor| tensor.name == name).unwrap().shape.clone();
        assert_eq!(shape("convert_scores"), Shape::from([1, 2034, 91]));
        assert_eq!(shape("anchors"), Shape::from([2034, 4]));
    }

    #[test]
    fn detections_are_steps_apart() {
        let model = Model::from_bytes(network().finish()).unwrap();
        let mut interpreter = Interpreter::builder(&model).build().unwrap();
        let mut seen: Vec<Vec<f32>> = Vec::new();
        for seed in 0..3 {
            Random::new(seed).fill(interpreter.input_mut(0).unwrap(), 1.0);
            interpreter.invoke().unwrap();
            let classes: &[f32] = interpreter.read(1).unwrap();
            assert_eq!(classes, [17.0, 61.0, 61.0, 61.0, 61.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
            let scores: &[f32] = interpreter.read(2).unwrap();
            assert!(scores.windows(2).all(|pair| pair[0] - pair[1] > 5e-3), "{scores:?}");
            let boxes: &[f32] = interpreter.read(0).unwrap();
            assert!(seen.iter().all(|other| other.iter().zip(boxes).all(|(a, b)| a != b)), "the image moves boxes");
            seen.push(boxes.to_vec());
        }
    }
}
