//! Conversions of pixels at their limits: halves, rectangles that are none, equal scores and NaN.

use attache::gpu::wgpu::{self, TextureFormat, TextureUsages};
use attache::gpu::{TextureSource, TextureTarget};
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, CastOptionsT, TensorType};
use attache::{DataType, Model, ModelBuilder, OperatorBuilder, TensorBuilder};

use super::Own;
use super::pictures::{Picture, same};
use crate::common::Net;
use crate::validation;

/// A picture of two columns whose rows have neighbouring values: the mean of each row is a half.
fn halves() -> Picture {
    let pixel = |index: usize| [index as f32, 255.0 - index as f32, (7 * index % 256) as f32, 255.0];
    Picture { width: 2, height: 127, pixels: (0..254).map(pixel).collect() }
}

/// Integers have the very values that `attache run` gives them: rounded, and then less 128 for int8.
#[test]
fn halves_are_rounded_before_they_are_shifted() {
    let _alone = validation::alone();
    let own = Own::open();
    let picture = halves();
    let texture = own.texture([2, 127], TextureFormat::Rgba8Unorm, TextureUsages::TEXTURE_BINDING);
    own.upload(&texture, &picture);
    let values = picture.resized([0.0, 0.0, 2.0, 127.0], 1, 127).channels(3, false);
    for (data_type, shift) in [(DataType::UInt8, 0.0), (DataType::Int8, 128.0)] {
        for quantization in [None, Some((0.5, 7))] {
            let mut interpreter = own.interpreter(&same(&[1, 127, 1, 3], data_type, quantization));
            interpreter.bind_input(0, TextureSource::new(&texture)).unwrap();
            interpreter.invoke().unwrap();
            let made = interpreter.output(0).unwrap().integers().unwrap();
            let expected: Vec<i64> = values.iter().map(|value| (value.round() - shift) as i64).collect();
            assert_eq!(made, expected, "{data_type} {quantization:?}");
        }
    }
    validation::assert_silent();
}

/// Builds a model whose output has the integers of its input as floats.
fn widened(shape: &[usize]) -> Model {
    let mut builder = ModelBuilder::new("widened");
    let graph = builder.subgraph("main");
    let x = builder.tensor(graph, TensorBuilder::new("x", DataType::Int16, shape));
    let y = builder.tensor(graph, TensorBuilder::new("y", DataType::Float32, shape));
    let options = CastOptionsT { in_data_type: TensorType::INT16, out_data_type: TensorType::FLOAT32 };
    let cast = OperatorBuilder::new(BuiltinOperator::CAST, [x], [y]);
    builder.operator(graph, cast.options(BuiltinOptionsT::CastOptions(Box::new(options))));
    builder.inputs(graph, &[x]).outputs(graph, &[y]);
    Model::from_bytes(builder.finish()).unwrap()
}

/// Integers are whole numbers, however the device stores them.
#[test]
fn integers_that_the_device_stores_as_floats_are_rounded() {
    let _alone = validation::alone();
    let own = Own::open();
    let picture = halves();
    let texture = own.texture([2, 127], TextureFormat::Rgba8Unorm, TextureUsages::TEXTURE_BINDING);
    own.upload(&texture, &picture);
    let values = picture.resized([0.0, 0.0, 2.0, 127.0], 1, 127).channels(3, false);
    let mut interpreter = own.interpreter(&widened(&[1, 127, 1, 3]));
    interpreter.bind_input(0, TextureSource::new(&texture)).unwrap();
    interpreter.invoke().unwrap();
    let expected: Vec<f32> = values.iter().map(|value| value.round()).collect();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), expected);
    validation::assert_silent();
}

/// Rectangles in buffers that are none give a defined pixel, in integers too.
#[test]
fn rectangles_that_are_none_give_a_pixel() {
    let _alone = validation::alone();
    let own = Own::open();
    let picture = Picture::draw(9, 6, 3);
    let texture = own.texture([9, 6], TextureFormat::Rgba8Unorm, TextureUsages::TEXTURE_BINDING);
    own.upload(&texture, &picture);
    let rectangle = own.buffer(&[0; 16]);
    for data_type in [DataType::Int8, DataType::UInt8] {
        let mut interpreter = own.interpreter(&same(&[1, 2, 2, 3], data_type, Some((1.0, 0))));
        interpreter.bind_input(0, TextureSource::new(&texture).crop_from(&rectangle, 0)).unwrap();
        // The rectangle, and the pixel that it gives.
        let (none, endless) = (f32::NAN, f32::INFINITY);
        let crops = [
            ([none; 4], 0),
            ([0.0, 0.0, none, none], 0),
            ([endless, endless, 1.0, 1.0], 53),
            ([-endless, 0.0, 4.0, none], 0),
            ([20.0, 20.0, 3.0, 3.0], 53),
        ];
        for (crop, pixel) in crops {
            own.queue.write_buffer(&rectangle, 0, crop.map(f32::to_le_bytes).as_flattened());
            interpreter.invoke().unwrap();
            let made = interpreter.output(0).unwrap().integers().unwrap();
            let shift = if data_type == DataType::Int8 { 128 } else { 0 };
            let expected = picture.pixels[pixel][..3].iter().map(|value| *value as i64 - shift).collect::<Vec<_>>();
            assert_eq!(made, expected.repeat(4), "{data_type} {crop:?}");
        }
    }
    validation::assert_silent();
}

/// The first of equal scores counts, and no NaN.
#[test]
fn equal_scores_and_nan_have_a_class() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut net = Net::new();
    // The output has the bits of the input.
    let x = net.tensor("x", &[21]);
    let y = net.reshape(x, &[1, 1, 7, 3], &[1, 1, 7, 3]);
    let mut interpreter = own.interpreter(&net.finish(&[x], &[y]));
    let (none, least) = (f32::NAN, f32::NEG_INFINITY);
    let pixels = [
        ([2.0, 2.0, 1.0], 0),
        ([1.0, 2.0, 2.0], 1),
        ([none, 1.0, 2.0], 2),
        ([1.0, none, 0.5], 0),
        ([none, none, least], 2),
        ([none; 3], 0),
        ([least, least, least], 0),
    ];
    interpreter.write(0, pixels.map(|(scores, _)| scores).as_flattened()).unwrap();
    let colours = [[10, 0, 0, 255], [20, 0, 0, 255], [30, 0, 0, 255]];
    for usage in [TextureUsages::STORAGE_BINDING, TextureUsages::RENDER_ATTACHMENT] {
        let texture = own.texture([7, 1], TextureFormat::Rgba8Unorm, usage);
        interpreter.bind_output(0, TextureTarget::new(&texture).classes(&colours)).unwrap();
        interpreter.invoke().unwrap();
        let made: Vec<f32> = own.picture(&texture).pixels.iter().map(|pixel| pixel[0]).collect();
        assert_eq!(made, pixels.map(|(_, class)| 10.0 * (class + 1) as f32));
    }
    validation::assert_silent();
}

/// Of textures with mip levels, the first level is read and written.
#[test]
fn the_first_mip_level_is_used() {
    let _alone = validation::alone();
    let own = Own::open();
    let mut interpreter = own.interpreter(&same(&[1, 8, 8, 4], DataType::Float32, None));
    let texture = |usage| {
        own.device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size: wgpu::Extent3d { width: 8, height: 8, depth_or_array_layers: 1 },
            mip_level_count: 3,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: TextureFormat::Rgba8Unorm,
            usage: usage | TextureUsages::COPY_SRC | TextureUsages::COPY_DST,
            view_formats: &[],
        })
    };
    let (from, picture) = (texture(TextureUsages::TEXTURE_BINDING), Picture::draw(8, 8, 5));
    own.upload(&from, &picture);
    interpreter.bind_input(0, TextureSource::new(&from)).unwrap();
    for usage in [TextureUsages::STORAGE_BINDING, TextureUsages::RENDER_ATTACHMENT] {
        let to = texture(usage);
        interpreter.bind_output(0, TextureTarget::new(&to)).unwrap();
        own.run(&mut [&mut interpreter]);
        assert!(own.picture(&to).distance(&picture) < 0.1, "{usage:?}");
    }
    validation::assert_silent();
}
