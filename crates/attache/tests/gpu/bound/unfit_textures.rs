//! Textures that cannot be bound: errors that say why, and leave the binding as it was.

use attache::gpu::wgpu::{Extent3d, TextureDescriptor, TextureDimension, TextureFormat, TextureUsages};
use attache::gpu::{TextureSource, TextureTarget, wgpu};
use attache::{DataType, Error, ErrorKind, Interpreter};

use super::pictures::{Picture, same};
use super::{Own, adapter};
use crate::validation;

/// A device, and a model of which one texture is the input and one the output.
struct Bound {
    own: Own,
    interpreter: Interpreter,
    source: wgpu::Texture,
    target: wgpu::Texture,
}

const RGBA: TextureFormat = TextureFormat::Rgba8Unorm;

impl Bound {
    fn new(own: Own) -> Self {
        let mut interpreter = own.interpreter(&same(&[1, 4, 5, 3], DataType::Float32, None));
        let source = own.texture([5, 4], RGBA, TextureUsages::TEXTURE_BINDING);
        let target = own.texture([5, 4], RGBA, TextureUsages::STORAGE_BINDING);
        interpreter.bind_input(0, TextureSource::new(&source)).unwrap();
        interpreter.bind_output(0, TextureTarget::new(&target)).unwrap();
        Self { own, interpreter, source, target }
    }

    /// Checks that a binding was refused with these texts, and that the one before it still works.
    fn refused(&mut self, binding: impl FnOnce(&mut Interpreter) -> Result<(), Error>, texts: &[&str]) {
        let error = binding(&mut self.interpreter).unwrap_err();
        let text = error.to_string();
        let is_usage = error.kind() == ErrorKind::Usage;
        assert!(is_usage && texts.iter().all(|part| text.contains(part)), "{error:?} where {texts:?} belong");
        let mut picture = Picture::draw(5, 4, text.len());
        self.own.upload(&self.source, &picture);
        self.own.run(&mut [&mut self.interpreter]);
        picture.pixels.iter_mut().for_each(|pixel| pixel[3] = 255.0);
        assert!(self.own.picture(&self.target).distance(&picture) < 0.1, "{text}");
    }
}

#[test]
fn sources_that_cannot_be_are_refused() {
    let _alone = validation::alone();
    let mut bound = Bound::new(Own::open());
    let source = bound.source.clone();
    let new = || TextureSource::new(&source);
    for crop in [[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 2.0, -1.0], [f32::NAN; 4], [0.0, f32::INFINITY, 1.0, 1.0]] {
        bound.refused(|interpreter| interpreter.bind_input(0, new().crop(crop)), &["rectangle", "empty or not finite"]);
    }
    for (mean, std) in [(&[0.0][..], &[0.0][..]), (&[], &[1.0]), (&[1.0, 2.0], &[1.0]), (&[f32::INFINITY], &[1.0])] {
        bound.refused(|interpreter| interpreter.bind_input(0, new().normalize(mean, std)), &["means and deviations"]);
    }
    let (small, uniform) = (bound.own.buffer(&[0; 12]), bound.own.buffer_at(0, &[0; 64], wgpu::BufferUsages::UNIFORM));
    bound.refused(|interpreter| interpreter.bind_input(0, new().crop_from(&small, 0)), &["12 bytes", "not 16"]);
    bound.refused(|interpreter| interpreter.bind_input(0, new().crop_from(&uniform, 0)), &["STORAGE"]);
    bound.refused(|interpreter| interpreter.bind_input(0, new().crop_from(&small, 4)), &["multiple of"]);
    let hidden = bound.own.texture([5, 4], RGBA, TextureUsages::RENDER_ATTACHMENT);
    bound.refused(|interpreter| interpreter.bind_input(0, TextureSource::new(&hidden)), &["TEXTURE_BINDING"]);
    let single = bound.own.texture([5, 4], TextureFormat::R8Unorm, TextureUsages::TEXTURE_BINDING);
    bound.refused(|interpreter| interpreter.bind_input(0, TextureSource::new(&single)), &["R8Unorm", "Rgba16Float"]);
    validation::assert_silent();
}

#[test]
fn targets_that_cannot_be_are_refused() {
    let _alone = validation::alone();
    let mut bound = Bound::new(Own::open());
    let target = bound.target.clone();
    let new = || TextureTarget::new(&target);
    for region in [[0, 0, 6, 4], [5, 0, 1, 1], [0, 0, 0, 1], [u32::MAX, 0, 2, 1]] {
        bound.refused(|interpreter| interpreter.bind_output(0, new().region(region)), &["region", "5 × 4"]);
    }
    bound.refused(|interpreter| interpreter.bind_output(0, new().classes(&[])), &["no colour"]);
    bound.refused(|interpreter| interpreter.bind_output(0, new().normalize(&[0.0; 2], &[1.0])), &["deviations"]);
    let hidden = bound.own.texture([5, 4], RGBA, TextureUsages::TEXTURE_BINDING);
    bound.refused(|interpreter| interpreter.bind_output(0, TextureTarget::new(&hidden)), &["RENDER_ATTACHMENT"]);
    let float = bound.own.texture([5, 4], TextureFormat::Rgba32Float, TextureUsages::STORAGE_BINDING);
    bound.refused(|interpreter| interpreter.bind_output(0, TextureTarget::new(&float)), &["Rgba32Float"]);
    validation::assert_silent();
}

#[test]
fn tensors_that_are_no_pictures_are_refused() {
    let _alone = validation::alone();
    let own = Own::open();
    let source = own.texture([5, 4], RGBA, TextureUsages::TEXTURE_BINDING);
    let target = own.texture([5, 4], RGBA, TextureUsages::STORAGE_BINDING);
    for shape in [&[1, 4, 5, 5][..], &[20], &[1, 2, 4, 5, 3]] {
        let mut interpreter = own.interpreter(&same(shape, DataType::Float32, None));
        let error = interpreter.bind_input(0, TextureSource::new(&source)).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("does not fit"), "{error}");
        let error = interpreter.bind_output(0, TextureTarget::new(&target)).unwrap_err();
        assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("not a picture"), "{error}");
        interpreter.invoke().unwrap();
    }
    validation::assert_silent();
}

#[test]
fn textures_of_other_devices_are_refused() {
    let _alone = validation::alone();
    let adapter = adapter();
    let mut bound = Bound::new(Own::of(&adapter));
    for other in [Own::of(&adapter), Own::open()] {
        other.device.on_uncaptured_error(std::sync::Arc::new(|_| {}));
        for _ in 0..4 {
            let usage = TextureUsages::TEXTURE_BINDING | TextureUsages::STORAGE_BINDING;
            let foreign = other.texture([5, 4], RGBA, usage);
            let another = &["another device"];
            bound.refused(|interpreter| interpreter.bind_input(0, TextureSource::new(&foreign)), another);
            bound.refused(|interpreter| interpreter.bind_output(0, TextureTarget::new(&foreign)), another);
        }
    }
    let destroyed = bound.own.texture([5, 4], RGBA, TextureUsages::TEXTURE_BINDING);
    destroyed.destroy();
    let error = bound.interpreter.bind_input(0, TextureSource::new(&destroyed)).unwrap_err();
    assert!(error.to_string().contains("destroyed"), "{error}");
    validation::assert_silent();
}

/// Textures of several layers, samples or depths, and of depth.
#[test]
fn textures_that_are_no_single_picture_are_refused() {
    let _alone = validation::alone();
    let mut bound = Bound::new(Own::open());
    let usage = TextureUsages::TEXTURE_BINDING | TextureUsages::RENDER_ATTACHMENT;
    let flat = TextureDescriptor {
        label: None,
        size: Extent3d { width: 5, height: 4, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: TextureDimension::D2,
        format: RGBA,
        usage,
        view_formats: &[],
    };
    let several = Extent3d { depth_or_array_layers: 2, ..flat.size };
    let solid = TextureUsages::TEXTURE_BINDING;
    let kinds = [
        (TextureDescriptor { size: several, ..flat.clone() }, "one layer"),
        (TextureDescriptor { sample_count: 4, ..flat.clone() }, "one sample"),
        (
            TextureDescriptor { size: several, dimension: TextureDimension::D3, usage: solid, ..flat.clone() },
            "two dimensions",
        ),
        (TextureDescriptor { format: TextureFormat::Depth32Float, ..flat }, "Depth32Float"),
    ];
    for (descriptor, text) in kinds {
        let texture = bound.own.device.create_texture(&descriptor);
        bound.refused(|interpreter| interpreter.bind_input(0, TextureSource::new(&texture)), &[text]);
        if descriptor.usage.contains(TextureUsages::RENDER_ATTACHMENT) {
            bound.refused(|interpreter| interpreter.bind_output(0, TextureTarget::new(&texture)), &[text]);
        }
    }
    validation::assert_silent();
}

/// Scores of one class, and shapes that may be scores of a row or a map of classes.
#[test]
fn outputs_that_are_no_classes_are_refused() {
    let _alone = validation::alone();
    let own = Own::open();
    let target = own.texture([5, 4], RGBA, TextureUsages::STORAGE_BINDING);
    let quantization = Some((0.5, 0));
    for shape in [&[1, 4, 5, 1][..], &[1, 4, 5], &[4, 5, 1], &[20]] {
        for (data_type, quantization) in [(DataType::Float32, None), (DataType::Int8, quantization)] {
            let mut interpreter = own.interpreter(&same(shape, data_type, quantization));
            let target = TextureTarget::new(&target).classes(&[[0; 4], [255; 4]]);
            let error = interpreter.bind_output(0, target).unwrap_err();
            let text = error.to_string();
            let says = ["neither scores nor a map of classes", "two classes or more", "without quantization"];
            assert!(error.kind() == ErrorKind::Usage && says.iter().all(|part| text.contains(part)), "{text}");
        }
    }
    validation::assert_silent();
}
