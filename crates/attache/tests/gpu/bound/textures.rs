//! Textures as inputs and outputs: their pixels are those that the host would make.

use attache::gpu::wgpu::{TextureFormat, TextureUsages};
use attache::gpu::{ChannelOrder, TextureSource, TextureTarget};
use attache::model::schema::BuiltinOperator;
use attache::{DataType, GpuDelegateOptions, Interpreter, Model, ModelBuilder, OperatorBuilder, TensorBuilder};

use super::Own;
use super::pictures::{Picture, same, truncated};
use crate::validation;

/// The formats that textures may have.
const FORMATS: [TextureFormat; 5] = [
    TextureFormat::Rgba8Unorm,
    TextureFormat::Bgra8Unorm,
    TextureFormat::Rgba8UnormSrgb,
    TextureFormat::Bgra8UnormSrgb,
    TextureFormat::Rgba16Float,
];

/// Returns how far an element made from values of 0 to 255 may be from that of the host, before it is normalized: shaders
/// compute the coordinates of texels, up to the size of the texture, in 32-bit floats.
fn tolerance([width, height]: [usize; 2]) -> f32 {
    0.02 + 255.0 * f32::EPSILON * (width + height) as f32
}

/// An input that is read from a texture.
struct Read {
    texture: [usize; 2],
    format: TextureFormat,
    /// Left, top, width and height; `None` for all of the texture.
    crop: Option<[f32; 4]>,
    /// Height, width and channels.
    input: [usize; 3],
    order: ChannelOrder,
}

impl Read {
    fn new(texture: [usize; 2], input: [usize; 3]) -> Self {
        Self { texture, format: TextureFormat::Rgba8Unorm, crop: None, input, order: ChannelOrder::Rgb }
    }

    /// Returns the source of the input, and the values of its elements before they are normalized.
    fn source(&self, own: &Own) -> (TextureSource, Vec<f32>) {
        let [width, height] = self.texture;
        let picture = Picture::draw(width, height, self.input[2]);
        let texture = own.texture(self.texture, self.format, TextureUsages::TEXTURE_BINDING);
        own.upload(&texture, &picture);
        let source = TextureSource::new(&texture).order(self.order);
        let source = self.crop.map_or(source.clone(), |crop| source.crop(crop));
        let crop = self.crop.unwrap_or([0.0, 0.0, width as f32, height as f32]);
        let [height, width, channels] = self.input;
        let picture = picture.stored(self.format).resized(crop, width, height);
        (source, picture.channels(channels, self.order == ChannelOrder::Bgr))
    }

    fn check(&self, own: &Own) {
        let [height, width, channels] = self.input;
        let mut interpreter = own.interpreter(&same(&[1, height, width, channels], DataType::Float32, None));
        let (source, values) = self.source(own);
        let means: Vec<f32> = (0..channels).map(|channel| 100.0 + 10.0 * channel as f32).collect();
        interpreter.bind_input(0, source.normalize(&means, &[50.0])).unwrap();
        interpreter.invoke().unwrap();
        let made = interpreter.read::<f32>(0).unwrap();
        let far = made
            .iter()
            .zip(&values)
            .enumerate()
            .map(|(index, (made, value))| (made - (value - means[index % channels]) / 50.0).abs() * 50.0);
        let far = far.fold(0.0, f32::max);
        let Self { texture, format, crop, input, order } = self;
        assert!(far < tolerance(*texture), "{texture:?} {format:?} {crop:?} {input:?} {order:?}: {far}");
    }
}

#[test]
fn inputs_read_textures_of_any_size() {
    let _alone = validation::alone();
    let own = Own::open();
    let sizes = [[1, 1], [2, 1], [1, 7], [3, 5], [17, 9], [64, 48], [257, 131]];
    let inputs = [[1, 1, 3], [5, 3, 1], [7, 7, 2], [24, 32, 4], [33, 31, 3]];
    for (index, texture) in sizes.into_iter().enumerate() {
        Read::new(texture, inputs[index % 5]).check(&own);
        Read { order: ChannelOrder::Bgr, ..Read::new(texture, inputs[(index + 2) % 5]) }.check(&own);
    }
    Read::new([1920, 1080], [31, 57, 3]).check(&own);
    Read::new([31, 57], [540, 960, 4]).check(&own);
    validation::assert_silent();
}

#[test]
fn inputs_read_rectangles_of_textures_of_any_format() {
    let _alone = validation::alone();
    let own = Own::open();
    let crops = [
        [0.0, 0.0, 1.0, 1.0],
        [36.0, 22.0, 1.0, 1.0],
        [3.0, 5.0, 17.0, 11.0],
        [0.5, 2.25, 10.5, 3.75],
        [30.1, 0.0, 6.9, 23.0],
        // Partly or wholly outside, and less than a pixel.
        [-3.0, -2.5, 12.0, 40.0],
        [50.0, -9.0, 2.0, 2.0],
        [35.5, 21.25, 0.5, 0.25],
    ];
    for (index, crop) in crops.into_iter().enumerate() {
        for (number, format) in FORMATS.into_iter().enumerate() {
            let order = [ChannelOrder::Rgb, ChannelOrder::Bgr][(index + number) % 2];
            let input = [9 + index, 8, 1 + (index + number) % 4];
            Read { format, crop: Some(crop), order, ..Read::new([37, 23], input) }.check(&own);
        }
    }
    validation::assert_silent();
}

/// The rectangle is where a buffer says, at the time of the run.
#[test]
fn rectangles_come_from_buffers() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&same(&[1, 6, 5, 3], DataType::Float32, None));
    let picture = Picture::draw(40, 30, 0);
    let texture = own.texture([40, 30], TextureFormat::Rgba8Unorm, TextureUsages::TEXTURE_BINDING);
    own.upload(&texture, &picture);
    let rectangle = own.buffer(&[0; 512]);
    interpreter.bind_input(0, TextureSource::new(&texture).crop_from(&rectangle, 256)).unwrap();
    // The third reaches beyond the texture, and the others are no rectangles.
    let crops = [[0.0, 0.0, 40.0, 30.0], [10.0, 4.0, 7.5, 9.0], [-8.0, 25.0, 60.0, 20.0], [5.0, 5.0, -3.0, 0.0]];
    for crop in crops.into_iter().chain([[f32::NAN; 4], [f32::INFINITY; 4], [f32::NEG_INFINITY, 1e30, 1e38, 1e38]]) {
        own.queue.write_buffer(&rectangle, 256, crop.map(f32::to_le_bytes).as_flattened());
        interpreter.invoke().unwrap();
        let made = interpreter.read::<f32>(0).unwrap();
        if crop.iter().all(|edge| edge.abs() < 100.0) && crop[2] > 0.0 {
            let values = picture.resized(crop, 5, 6).channels(3, false);
            let far = made.iter().zip(&values).map(|(made, value)| (made * 127.5 + 127.5 - value).abs());
            assert!(far.fold(0.0, f32::max) < tolerance([40, 30]), "{crop:?}");
        }
        assert!(made.iter().all(|element| (-1.0..=1.0).contains(element)), "{crop:?}");
    }
    validation::assert_silent();
}

/// Returns the elements of an output as integers.
fn integers(interpreter: &Interpreter) -> Vec<i64> {
    interpreter.output(0).unwrap().integers().unwrap()
}

/// Elements of all integer types, with and without a normalization, and of odd numbers of bytes.
#[test]
fn inputs_of_integers_are_quantized() {
    let _alone = validation::alone();
    let own = Own::open();
    // Type, scale and zero point, range, and the value of the element 0 without a normalization.
    let types = [
        (DataType::UInt8, (0.02, 120), [0, 255], Some(0.0)),
        (DataType::Int8, (0.015, -3), [-128, 127], Some(128.0)),
        (DataType::Int16, (0.0001, 0), [-32768, 32767], None),
    ];
    for (data_type, (scale, zero_point), [least, most], plain) in types {
        for [height, width, channels] in [[1, 1, 1], [1, 1, 3], [3, 3, 3], [5, 7, 1], [4, 9, 4], [3, 7, 2]] {
            let shape = [1, height, width, channels];
            let read = Read::new([23, 11], [height, width, channels]);
            let (source, values) = read.source(&own);
            for normalizes in [false, true] {
                let mut interpreter = own.interpreter(&same(&shape, data_type, Some((scale, zero_point))));
                let source = source.clone();
                let source = if normalizes { source.normalize(&[90.0], &[60.0]) } else { source };
                interpreter.bind_input(0, source).unwrap();
                interpreter.invoke().unwrap();
                for (made, value) in integers(&interpreter).iter().zip(&values) {
                    let element = match (normalizes, plain) {
                        (false, Some(zero)) => (value - zero).round() as i64,
                        (false, None) => ((value - 127.5) / 127.5 / scale).round() as i64,
                        (true, _) => ((value - 90.0) / 60.0 / scale).round() as i64 + zero_point,
                    };
                    let element = element.clamp(least, most);
                    // A step of int16 is much less than a step of a picture.
                    let most = if data_type == DataType::Int16 { 2 } else { 1 };
                    assert!((made - element).abs() <= most, "{data_type} {shape:?}: {made} where {element} belongs");
                }
            }
        }
    }
    validation::assert_silent();
}

/// Each element of a batch has the picture.
#[test]
fn batches_repeat_the_picture() {
    let _alone = validation::alone();
    let own = Own::open();
    let (source, values) = Read::new([9, 8], [5, 3, 3]).source(&own);
    let mut interpreter = own.interpreter(&same(&[3, 5, 3, 3], DataType::Float32, None));
    interpreter.bind_input(0, source).unwrap();
    interpreter.invoke().unwrap();
    let made = interpreter.read::<f32>(0).unwrap();
    let far = |(made, value): (&f32, &f32)| (made * 127.5 + 127.5 - value).abs() > tolerance([9, 8]);
    assert!(made.len() == 135 && !made.iter().zip(values.iter().cycle()).any(far));
    validation::assert_silent();
}

/// The ways to write textures of each format.
fn targets() -> impl Iterator<Item = (TextureFormat, TextureUsages)> {
    let stored = [TextureFormat::Rgba8Unorm, TextureFormat::Rgba16Float];
    let stored = stored.into_iter().map(|format| (format, TextureUsages::STORAGE_BINDING));
    stored.chain(FORMATS.into_iter().map(|format| (format, TextureUsages::RENDER_ATTACHMENT)))
}

#[test]
fn outputs_are_written_to_textures_of_any_size_and_format() {
    let _alone = validation::alone();
    let own = Own::open();
    let outputs = [[1, 1, 3], [5, 3, 1], [7, 9, 2], [24, 32, 4], [33, 31, 3]];
    let textures = [[1, 1], [2, 1], [1, 7], [13, 5], [64, 47], [257, 131]];
    let small = outputs.into_iter().zip(textures.into_iter().cycle());
    let large = [([31, 57, 3], [1920, 1080]), ([540, 960, 4], [37, 23])];
    for (index, ([height, width, channels], size)) in small.chain(large).enumerate() {
        let mut interpreter = own.interpreter(&same(&[1, height, width, channels], DataType::Float32, None));
        let picture = Picture::draw(width, height, index);
        let order = [ChannelOrder::Rgb, ChannelOrder::Bgr][index % 2];
        let is_bgr = order == ChannelOrder::Bgr && channels > 2;
        let elements = picture.channels(4, is_bgr);
        let elements = elements.chunks(4).flat_map(|pixel| &pixel[..channels]).map(|value| (value - 40.0) / 70.0);
        interpreter.write(0, &elements.collect::<Vec<f32>>()).unwrap();
        let is_large = size[0] > 1000;
        for (format, usage) in targets().filter(|(format, _)| !is_large || *format == TextureFormat::Rgba8Unorm) {
            let texture = own.texture(size, format, usage);
            let target = TextureTarget::new(&texture).order(order).normalize(&[40.0], &[70.0]);
            interpreter.bind_output(0, target).unwrap();
            interpreter.invoke().unwrap();
            let mut expected = picture.resized([0.0, 0.0, width as f32, height as f32], size[0], size[1]);
            for pixel in &mut expected.pixels {
                let [red, green, blue, _] = *pixel;
                match channels {
                    1 => *pixel = [red, red, red, 255.0],
                    2 => *pixel = [red, green, 0.0, 255.0],
                    3 => *pixel = [red, green, blue, 255.0],
                    _ => {}
                }
            }
            let far = own.picture(&texture).distance(&expected);
            assert!(far <= 0.6, "{format:?} {usage:?} {channels} {size:?}: {far}");
        }
    }
    validation::assert_silent();
}

/// A region is written and the rest is not, and what a texture source reads a texture target writes again.
#[test]
fn textures_become_textures() {
    let _alone = validation::alone();
    let own = Own::open();
    for (data_type, quantization) in
        [(DataType::Float32, None), (DataType::UInt8, Some((0.5, 7))), (DataType::Int8, Some((0.25, 3)))]
    {
        let mut interpreter = own.interpreter(&same(&[1, 11, 13, 4], data_type, quantization));
        let before = Picture::draw(40, 30, 1);
        let source = own.texture([13, 11], TextureFormat::Rgba8Unorm, TextureUsages::TEXTURE_BINDING);
        let picture = Picture::draw(13, 11, 2);
        own.upload(&source, &picture);
        interpreter.bind_input(0, TextureSource::new(&source)).unwrap();
        for (format, usage) in targets() {
            let texture = own.texture([40, 30], format, usage);
            own.upload(&texture, &before);
            interpreter.bind_output(0, TextureTarget::new(&texture).region([7, 9, 13, 11])).unwrap();
            own.run(&mut [&mut interpreter]);
            let mut expected = before.clone().stored(format);
            for (index, pixel) in picture.pixels.iter().enumerate() {
                expected.pixels[(9 + index / 13) * 40 + 7 + index % 13] = *pixel;
            }
            let far = own.picture(&texture).distance(&expected);
            assert!(far <= 0.2, "{data_type} {format:?} {usage:?}: {far}");
        }
    }
    validation::assert_silent();
}

/// A frame of a camera, where each row of the texture has as many bytes as the device likes.
#[test]
fn large_textures_become_textures() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&same(&[1, 1080, 1920, 3], DataType::Float32, None));
    let usages = [TextureUsages::TEXTURE_BINDING, TextureUsages::STORAGE_BINDING];
    let [from, to] = usages.map(|usage| own.texture([1920, 1080], TextureFormat::Rgba8Unorm, usage));
    let mut picture = Picture::draw(1920, 1080, 4);
    own.upload(&from, &picture);
    interpreter.bind_input(0, TextureSource::new(&from)).unwrap();
    interpreter.bind_output(0, TextureTarget::new(&to)).unwrap();
    own.run(&mut [&mut interpreter]);
    picture.pixels.iter_mut().for_each(|pixel| pixel[3] = 255.0);
    assert!(own.picture(&to).distance(&picture) < 0.1);
    validation::assert_silent();
}

/// The colours of classes, in outputs of scores and of classes.
#[test]
fn classes_have_colours() {
    let _alone = validation::alone();
    let own = Own::open();
    let colours = [[10, 20, 30, 255], [255, 0, 128, 200], [1, 2, 3, 4], [90, 80, 70, 60], [0, 255, 0, 255]];
    let class = |x: usize, y: usize| (x * x + 3 * y + x * y) % 7;
    let (height, width) = (9, 14);
    let classes: Vec<usize> = (0..height * width).map(|index| class(index % width, index / width)).collect();
    let score = |index: usize, channel: usize| match classes[index] == channel {
        true => 50.0,
        false => ((index * 5 + channel * 11) % 40) as f32,
    };
    let scores: Vec<f32> = (0..height * width)
        .flat_map(|index| (0..7).map(move |channel| (index, channel)))
        .map(|(i, c)| score(i, c))
        .collect();
    let shape = [1, height, width, 7];
    let floats = own.interpreter(&same(&shape, DataType::Float32, None));
    let bytes = own.interpreter(&same(&shape, DataType::Int8, Some((1.0, 0))));
    let map = own.interpreter(&truncated(&[1, height, width]));
    for (mut interpreter, name) in [(floats, "floats"), (bytes, "bytes"), (map, "classes")] {
        match name {
            "floats" => interpreter.write(0, &scores).unwrap(),
            "bytes" => interpreter.write(0, &scores.iter().map(|score| *score as i8).collect::<Vec<_>>()).unwrap(),
            _ => interpreter.write(0, &classes.iter().map(|class| *class as f32).collect::<Vec<_>>()).unwrap(),
        }
        for ((format, usage), [across, down]) in
            targets().zip([[14, 9], [1, 1], [28, 27], [37, 5], [5, 3]].into_iter().cycle())
        {
            let texture = own.texture([across, down], format, usage);
            interpreter.bind_output(0, TextureTarget::new(&texture).classes(&colours)).unwrap();
            interpreter.invoke().unwrap();
            let pixel = |index: usize| {
                let (x, y) = (index % across, index / across);
                let (x, y) = ((2 * x + 1) * width / (2 * across), (2 * y + 1) * height / (2 * down));
                colours[class(x, y) % colours.len()].map(f32::from)
            };
            let expected = Picture { width: across, height: down, pixels: (0..across * down).map(pixel).collect() };
            let far = own.picture(&texture).distance(&expected);
            assert!(far <= 0.2, "{name} {format:?} {usage:?} {across} {down}: {far}");
        }
    }
    validation::assert_silent();
}

/// A texture may be input and output, and the memory of a signature, with and without timestamps.
#[test]
fn a_texture_becomes_itself() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut builder = ModelBuilder::new("negative");
    let graph = builder.subgraph("main");
    let [x, y] =
        ["x", "y"].map(|name| builder.tensor(graph, TensorBuilder::new(name, DataType::Float32, [1, 6, 7, 4])));
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::NEG, [x], [y]));
    builder.inputs(graph, &[x]).outputs(graph, &[y]).signature("invert", graph, &[("from", x)], &[("to", y)]);
    let model = Model::from_bytes(builder.finish()).unwrap();
    let plain = own.delegate(GpuDelegateOptions::default());
    for delegate in [plain.profiled().unwrap(), plain] {
        let mut interpreter = Interpreter::builder(&model).delegate(delegate).build().unwrap();
        let mut picture = Picture::draw(7, 6, 3);
        let texture = own.texture(
            [7, 6],
            TextureFormat::Rgba8Unorm,
            TextureUsages::TEXTURE_BINDING | TextureUsages::STORAGE_BINDING,
        );
        own.upload(&texture, &picture);
        let mut runner = interpreter.signature("invert").unwrap();
        runner.bind_input("from", TextureSource::new(&texture)).unwrap();
        runner.bind_output("to", TextureTarget::new(&texture)).unwrap();
        let mut encoder = own.encoder();
        runner.encode(&mut encoder).unwrap();
        own.queue.submit([encoder.finish()]);
        picture.pixels.as_flattened_mut().iter_mut().for_each(|value| *value = 255.0 - *value);
        assert!(own.picture(&texture).distance(&picture) < 0.1);
        runner.invoke().unwrap();
        picture.pixels.as_flattened_mut().iter_mut().for_each(|value| *value = 255.0 - *value);
        assert!(own.picture(&texture).distance(&picture) < 0.1);
        interpreter.profile().unwrap();
    }
    validation::assert_silent();
}
