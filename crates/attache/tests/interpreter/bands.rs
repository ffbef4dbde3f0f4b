//! Tests of nodes that run together, some rows after the other: an image alone, whose rows are divided, has the bits that
//! it has among several images, which are computed node by node.

use std::sync::{Arc, Mutex};

use attache::model::schema::{self, BuiltinOperator, BuiltinOptionsT};
use attache::{DataType, Interpreter, Model, ModelBuilder, Observer, OperatorBuilder, RunEvent, TensorBuilder};

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn bytes(&mut self, count: usize) -> Vec<i8> {
        (0..count).map(|_| self.below(256) as u8 as i8).collect()
    }
}

/// An image in the network under construction: the index of the tensor, and its height, width and channels.
type Image = (usize, [usize; 3]);

/// A network of random operators on `batches` images, of floats or of 8-bit elements.
struct Network {
    builder: ModelBuilder,
    batches: usize,
    is_quantized: bool,
    random: Random,
    images: Vec<Image>,
}

impl Network {
    fn new(seed: u64, batches: usize, is_quantized: bool) -> Self {
        let (mut builder, mut random) = (ModelBuilder::new("bands"), Random(seed));
        builder.subgraph("main");
        let extents = [random.pick(&[5, 8, 17, 30]), random.pick(&[4, 9, 16, 21]), random.pick(&[3, 8, 19, 32])];
        let mut network = Self { builder, batches, is_quantized, random, images: Vec::new() };
        network.image(extents);
        network
    }

    /// Adds a tensor for images of these extents.
    fn image(&mut self, extents @ [height, width, channels]: [usize; 3]) -> usize {
        let data_type = if self.is_quantized { DataType::Int8 } else { DataType::Float32 };
        let tensor = TensorBuilder::new("", data_type, [self.batches, height, width, channels]);
        let tensor = if self.is_quantized { tensor.quantized(0.05, 3) } else { tensor };
        let index = self.builder.tensor(0, tensor);
        self.images.push((index, extents));
        index
    }

    /// Adds weights of this shape.
    fn weights(&mut self, shape: &[usize]) -> usize {
        let bytes = self.random.bytes(shape.iter().product());
        let tensor = match self.is_quantized {
            true => TensorBuilder::values("", shape, &bytes.iter().map(|byte| (*byte).max(-127)).collect::<Vec<i8>>()),
            false => {
                TensorBuilder::values("", shape, &bytes.iter().map(|byte| f32::from(*byte) / 300.0).collect::<Vec<_>>())
            }
        };
        let tensor = if self.is_quantized { tensor.quantized(0.003, 0) } else { tensor };
        self.builder.tensor(0, tensor)
    }

    fn bias(&mut self, channels: usize) -> usize {
        let bytes = self.random.bytes(channels);
        let tensor = match self.is_quantized {
            true => TensorBuilder::values(
                "",
                [channels],
                &bytes.iter().map(|byte| i32::from(*byte) * 20).collect::<Vec<_>>(),
            ),
            false => TensorBuilder::values(
                "",
                [channels],
                &bytes.iter().map(|byte| f32::from(*byte) / 99.0).collect::<Vec<_>>(),
            ),
        };
        let tensor = if self.is_quantized { tensor.quantized(0.05 * 0.003, 0) } else { tensor };
        self.builder.tensor(0, tensor)
    }

    fn operator(&mut self, operator: BuiltinOperator, inputs: &[usize], extents: [usize; 3], options: BuiltinOptionsT) {
        let output = self.image(extents);
        self.builder.operator(0, OperatorBuilder::new(operator, inputs.iter().copied(), [output]).options(options));
    }

    // Long because it has an arm for each operator.
    fn grow(&mut self) {
        let (input, [height, width, channels]) = *self.images.last().unwrap();
        let same = self.images.iter().filter(|(_, extents)| *extents == [height, width, channels]).copied();
        let same: Vec<Image> = same.collect();
        let (other, _) = self.random.pick(&same);
        let [stride, size, dilation] =
            [self.random.pick(&[1, 1, 2]), self.random.pick(&[1, 3, 3, 5]), self.random.pick(&[1, 1, 2])];
        let dilation = if stride == 1 { dilation } else { 1 };
        let padding = self.random.pick(&[schema::Padding::SAME, schema::Padding::SAME, schema::Padding::VALID]);
        let activation =
            self.random.pick(&[schema::ActivationFunctionType::NONE, schema::ActivationFunctionType::RELU6]);
        let reach = (size - 1) * dilation + 1;
        let windows = |extent: usize| match padding {
            schema::Padding::SAME => Some(extent.div_ceil(stride)),
            _ => (extent >= reach).then(|| (extent - reach) / stride + 1),
        };
        let windows = windows(height).zip(windows(width));
        match (self.random.below(11), windows) {
            (0 | 1, Some((rows, columns))) => {
                let inputs = [input, self.weights(&[1, size, size, channels]), self.bias(channels)];
                let options = schema::DepthwiseConv2DOptionsT {
                    padding,
                    stride_w: stride as i32,
                    stride_h: stride as i32,
                    depth_multiplier: 1,
                    fused_activation_function: activation,
                    dilation_w_factor: dilation as i32,
                    dilation_h_factor: dilation as i32,
                };
                let options = BuiltinOptionsT::DepthwiseConv2DOptions(Box::new(options));
                self.operator(BuiltinOperator::DEPTHWISE_CONV_2D, &inputs, [rows, columns, channels], options);
            }
            (2 | 3, Some((rows, columns))) => {
                let outputs = self.random.pick(&[4, 7, 24]);
                let inputs = [input, self.weights(&[outputs, size, size, channels]), self.bias(outputs)];
                self.convolution(&inputs, [rows, columns, outputs], [stride, dilation], padding);
            }
            (4, Some((rows, columns))) if dilation == 1 => {
                let options = schema::Pool2DOptionsT {
                    padding,
                    stride_w: stride as i32,
                    stride_h: stride as i32,
                    filter_width: size as i32,
                    filter_height: size as i32,
                    fused_activation_function: activation,
                };
                let options = BuiltinOptionsT::Pool2DOptions(Box::new(options));
                let operator = self.random.pick(&[BuiltinOperator::MAX_POOL_2D, BuiltinOperator::AVERAGE_POOL_2D]);
                self.operator(operator, &[input], [rows, columns, channels], options);
            }
            (5, _) => {
                let paddings = TensorBuilder::values("", [4, 2], &[0i32, 0, 0, 0, 0, 1, 2, 3]);
                let paddings = self.builder.tensor(0, paddings);
                let options = BuiltinOptionsT::PadOptions(Default::default());
                self.operator(BuiltinOperator::PAD, &[input, paddings], [height, width + 1, channels + 5], options);
            }
            (6, _) => {
                let slopes = self.weights(&[1, 1, channels]);
                self.operator(
                    BuiltinOperator::PRELU,
                    &[input, slopes],
                    [height, width, channels],
                    BuiltinOptionsT::NONE,
                );
            }
            (7, _) => {
                let options = schema::ConcatenationOptionsT { axis: 3, ..Default::default() };
                let options = BuiltinOptionsT::ConcatenationOptions(Box::new(options));
                let extents = [height, width, 2 * channels];
                self.operator(BuiltinOperator::CONCATENATION, &[input, other], extents, options);
            }
            (8, _) => {
                let operator =
                    self.random.pick(&[BuiltinOperator::LOGISTIC, BuiltinOperator::RELU, BuiltinOperator::TANH]);
                let operator = if self.is_quantized { BuiltinOperator::RELU } else { operator };
                self.operator(operator, &[input], [height, width, channels], BuiltinOptionsT::NONE);
            }
            (9, _) => {
                let function = if self.is_quantized { BuiltinOperator::RELU } else { BuiltinOperator::LOGISTIC };
                self.operator(function, &[input], [height, width, channels], BuiltinOptionsT::NONE);
                let mut factors = [input, self.images.last().unwrap().0];
                factors.rotate_left(self.random.below(2));
                let options = schema::MulOptionsT { fused_activation_function: activation };
                let options = BuiltinOptionsT::MulOptions(Box::new(options));
                self.operator(BuiltinOperator::MUL, &factors, [height, width, channels], options);
            }
            _ => {
                let options = schema::AddOptionsT { fused_activation_function: activation, ..Default::default() };
                let options = BuiltinOptionsT::AddOptions(Box::new(options));
                self.operator(BuiltinOperator::ADD, &[other, input], [height, width, channels], options);
            }
        }
    }

    fn convolution(
        &mut self,
        inputs: &[usize],
        extents: [usize; 3],
        [stride, dilation]: [usize; 2],
        padding: schema::Padding,
    ) {
        let options = schema::Conv2DOptionsT {
            padding,
            stride_w: stride as i32,
            stride_h: stride as i32,
            dilation_w_factor: dilation as i32,
            dilation_h_factor: dilation as i32,
            ..Default::default()
        };
        let options = BuiltinOptionsT::Conv2DOptions(Box::new(options));
        self.operator(BuiltinOperator::CONV_2D, inputs, extents, options);
    }

    /// Returns the model, whose outputs are the last image and some of the others.
    fn finish(mut self) -> Model {
        for _ in 0..14 {
            self.grow();
        }
        let last = self.images.len() - 1;
        let mut outputs: Vec<usize> = (1..last).filter(|_| self.random.below(5) == 0).collect();
        outputs.push(last);
        let outputs: Vec<usize> = outputs.into_iter().map(|index| self.images[index].0).collect();
        self.builder.inputs(0, &[self.images[0].0]).outputs(0, &outputs);
        Model::from_bytes(self.builder.finish()).unwrap()
    }
}

/// Runs a model on this input and returns the bytes of its outputs.
fn outputs(model: &Model, threads: usize, input: &[u8]) -> Vec<Vec<u8>> {
    let mut interpreter = Interpreter::builder(model).threads(threads).build().unwrap();
    interpreter.input(0).unwrap().bytes_mut().copy_from_slice(input);
    interpreter.invoke().unwrap();
    interpreter.invoke().unwrap();
    (0..interpreter.outputs().len()).map(|index| interpreter.output(index).unwrap().bytes().to_vec()).collect()
}

#[test]
fn an_image_alone_has_the_bits_that_it_has_among_others() {
    for seed in 0..60 {
        let is_quantized = seed % 2 == 1;
        let [alone, pair] = [1, 2].map(|batches| Network::new(seed, batches, is_quantized).finish());
        let size = alone.subgraphs()[0].tensors[0].shape.elements();
        let images = Random(seed + 1000).bytes(2 * size);
        let floats: Vec<f32> = images.iter().map(|byte| f32::from(*byte) / 64.0).collect();
        let input: &[u8] = if is_quantized { bytemuck::cast_slice(&images) } else { bytemuck::cast_slice(&floats) };
        let both = outputs(&pair, 1, input);
        for threads in [1, 2, 3, 16] {
            for (index, image) in input.chunks_exact(input.len() / 2).enumerate() {
                for (output, expected) in outputs(&alone, threads, image).iter().zip(&both) {
                    let expected = &expected[index * output.len()..][..output.len()];
                    assert!(output == expected, "seed {seed}, {threads} threads, image {index}");
                }
            }
        }
    }
}

/// Writes down which operators begin, and that each ends before the next one begins.
#[derive(Default)]
struct Operators(Mutex<(Vec<usize>, usize)>);

impl Observer for Operators {
    fn begin(&self, event: &RunEvent) {
        let mut operators = self.0.lock().unwrap();
        let RunEvent::Operator { subgraph: 0, operator, .. } = event else { panic!("{event:?}") };
        operators.0.push(*operator);
        operators.1 += 1;
        assert_eq!(operators.1, 1, "operator {operator} begins before another one has ended");
    }

    fn end(&self, event: &RunEvent) {
        let mut operators = self.0.lock().unwrap();
        operators.1 -= 1;
        assert!(matches!(event, RunEvent::Operator { operator, .. } if operators.0.last() == Some(operator)));
    }
}

#[test]
fn observers_are_told_about_each_operator_of_a_group() {
    for seed in 0..12 {
        let is_quantized = seed % 2 == 1;
        let model = Network::new(seed, 1, is_quantized).finish();
        let images = Random(seed + 1000).bytes(model.subgraphs()[0].tensors[0].shape.elements());
        let floats: Vec<f32> = images.iter().map(|byte| f32::from(*byte) / 64.0).collect();
        let input: &[u8] = if is_quantized { bytemuck::cast_slice(&images) } else { bytemuck::cast_slice(&floats) };
        for threads in [1, 3] {
            let expected = outputs(&model, threads, input);
            let mut interpreter = Interpreter::builder(&model).threads(threads).build().unwrap();
            let told = Arc::new(Operators::default());
            interpreter.observe(Some(told.clone()));
            interpreter.write_bytes(0, input).unwrap();
            interpreter.invoke().unwrap();
            for (index, expected) in expected.iter().enumerate() {
                assert!(interpreter.read_bytes(index).unwrap() == expected, "seed {seed}, output {index}");
            }
            let mut operators = std::mem::take(&mut told.0.lock().unwrap().0);
            operators.sort_unstable();
            assert_eq!(operators, (0..model.subgraphs()[0].operators.len()).collect::<Vec<_>>(), "seed {seed}");
            interpreter.observe(None);
            interpreter.invoke().unwrap();
            assert!(told.0.lock().unwrap().0.is_empty());
        }
    }
}
