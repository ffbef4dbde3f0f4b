//! Two small networks with the shapes of MediaPipe's BlazeFace and face landmarks, for the example `chain`.

use attache::DataType::Float32;
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, ConcatenationOptionsT, Conv2DOptionsT, Pool2DOptionsT};
use attache::{Model, ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::Result;

/// How much of yellow a colour has: red and green, less twice the blue.
const YELLOW: [f32; 3] = [1.0, 1.0, -2.0];

/// Builds a network that finds what is most yellow in a picture `[1, 128, 128, 3]`: boxes `[1, 896, 16]` around anchors,
/// in 128ths of the picture, and their scores `[1, 896, 1]`.
///
/// # Errors
///
/// If the file is invalid, which it is not.
pub fn detector() -> Result<Model> {
    let mut net = Net::new("finds yellow");
    let picture = net.tensor("picture", &[1, 128, 128, 3]);
    let fine = net.grid(picture, 16, 2);
    let coarse = net.grid(picture, 8, 6);
    let boxes = net.concatenate([fine[0], coarse[0]], &[1, 896, 16]);
    let scores = net.concatenate([fine[1], coarse[1]], &[1, 896, 1]);
    net.finish(picture, [boxes, scores])
}

/// Builds a network that marks four points in a picture `[1, 192, 192, 3]`, of three coordinates each in pixels,
/// `[1, 1, 1, 12]`, and says how yellow the picture is, `[1, 1, 1, 1]`.
///
/// # Errors
///
/// If the file is invalid, which it is not.
pub fn landmarks() -> Result<Model> {
    let mut net = Net::new("marks four points");
    let picture = net.tensor("picture", &[1, 192, 192, 3]);
    let mean = net.pool(picture, 192, 1);
    let corners = [[64.0, 64.0, 0.0], [128.0, 64.0, 0.0], [64.0, 128.0, 0.0], [128.0, 128.0, 0.0]];
    let points = net.pointwise(mean, 1, &[[0.0; 3]; 12], corners.as_flattened());
    let presence = net.pointwise(mean, 1, &[YELLOW], &[0.0]);
    net.finish(picture, [points, presence])
}

struct Net(ModelBuilder);

impl Net {
    fn new(description: &str) -> Self {
        let mut builder = ModelBuilder::new(description);
        builder.subgraph("main");
        Self(builder)
    }

    fn tensor(&mut self, name: &str, shape: &[usize]) -> usize {
        self.0.tensor(0, TensorBuilder::new(name, Float32, shape))
    }

    /// Adds the mean of each cell of a grid of `cells × cells`, whose sides have `side` pixels.
    fn pool(&mut self, picture: usize, side: usize, cells: usize) -> usize {
        let output = self.tensor("", &[1, cells, cells, 3]);
        let (filter_height, filter_width) = (side as i32, side as i32);
        let (stride_h, stride_w) = (side as i32, side as i32);
        let options = Pool2DOptionsT { filter_height, filter_width, stride_h, stride_w, ..Default::default() };
        let pool = OperatorBuilder::new(BuiltinOperator::AVERAGE_POOL_2D, [picture], [output]);
        self.0.operator(0, pool.options(BuiltinOptionsT::Pool2DOptions(options.into())));
        output
    }

    /// Adds the product of each cell's channels with weights, and biases.
    fn pointwise(&mut self, cells: usize, extent: usize, weights: &[[f32; 3]], biases: &[f32]) -> usize {
        let shape = [weights.len(), 1, 1, 3];
        let filter = self.0.tensor(0, TensorBuilder::values("weights", shape, weights.as_flattened()));
        let bias = self.0.tensor(0, TensorBuilder::values("biases", [biases.len()], biases));
        let output = self.tensor("", &[1, extent, extent, weights.len()]);
        let options = Conv2DOptionsT { stride_w: 1, stride_h: 1, ..Default::default() };
        let convolution = OperatorBuilder::new(BuiltinOperator::CONV_2D, [cells, filter, bias], [output]);
        self.0.operator(0, convolution.options(BuiltinOptionsT::Conv2DOptions(options.into())));
        output
    }

    /// Adds boxes and scores of some anchors in each cell of a grid.
    fn grid(&mut self, picture: usize, cells: usize, anchors: usize) -> [usize; 2] {
        let mean = self.pool(picture, 128 / cells, cells);
        // All boxes are at their anchors and two cells of the finer grid wide and high.
        let place: Vec<f32> =
            (0..16 * anchors).map(|value| if matches!(value % 16, 2 | 3) { 16.0 } else { 0.0 }).collect();
        let boxes = self.pointwise(mean, cells, &vec![[0.0; 3]; 16 * anchors], &place);
        let scores = self.pointwise(mean, cells, &vec![YELLOW; anchors], &vec![0.0; anchors]);
        let count = cells * cells * anchors;
        [self.reshape(boxes, [1, count, 16]), self.reshape(scores, [1, count, 1])]
    }

    fn reshape(&mut self, tensor: usize, shape: [usize; 3]) -> usize {
        let wanted = self.0.tensor(0, TensorBuilder::values("shape", [3], &shape.map(|extent| extent as i32)));
        let output = self.tensor("", &shape);
        self.0.operator(0, OperatorBuilder::new(BuiltinOperator::RESHAPE, [tensor, wanted], [output]));
        output
    }

    fn concatenate(&mut self, parts: [usize; 2], shape: &[usize]) -> usize {
        let output = self.tensor("", shape);
        let options = ConcatenationOptionsT { axis: 1, ..Default::default() };
        let operator = OperatorBuilder::new(BuiltinOperator::CONCATENATION, parts, [output]);
        self.0.operator(0, operator.options(BuiltinOptionsT::ConcatenationOptions(options.into())));
        output
    }

    fn finish(mut self, input: usize, outputs: [usize; 2]) -> Result<Model> {
        self.0.inputs(0, &[input]).outputs(0, &outputs);
        Ok(Model::from_bytes(self.0.finish())?)
    }
}
