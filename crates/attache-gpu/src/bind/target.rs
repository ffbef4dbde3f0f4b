//! Textures that outputs are written to.

use std::sync::Arc;

use attache_base::DataType;

use super::elements::groups;
use super::pixels::{ChannelOrder, Encoding, Mapping, Normalization, Stored, view};
use super::transfer::{Slice, Transfer, bind_group};
use super::{BoundTensor, usage};
use crate::device::Device;
use crate::kernel::GpuError;

const SOURCE: &str = include_str!("target.wgsl");
const STORE: &str = include_str!("target_store.wgsl");
const DRAW: &str = include_str!("target_draw.wgsl");

/// A [`wgpu::Texture`] that an output is written to. One dispatch or draw call after the others makes its pixels.
///
/// The texture is two-dimensional, and its first mip level is written: by a dispatch if it has the usage
/// `STORAGE_BINDING` and the format `Rgba8Unorm` or `Rgba16Float`, or else by a draw call, which takes the usage
/// `RENDER_ATTACHMENT` and one of the formats of [`TextureSource`](super::TextureSource).
///
/// Without [`TextureTarget::classes`], the output has the shape `[1, height, width, channels]`, or the same without the
/// batch, 1 to 4 channels, and elements of type float32, float16, uint8, int8 or int16:
///
/// - The picture is resized to the texture, or to the region, as with [`TextureSource`](super::TextureSource).
/// - Values are 0 to 255, as the texture stores them: `value = real · std + mean`, the inverse of a normalization.
///   Without one, floats from −1 to 1, uint8 as they are and int8 plus 128 become 0 to 255.
/// - One channel is grey, two are red and green, a fourth is alpha. Alpha is 255 otherwise.
#[must_use]
#[derive(Clone, Debug)]
pub struct TextureTarget {
    texture: wgpu::Texture,
    region: Option<[u32; 4]>,
    order: ChannelOrder,
    normalization: Option<Normalization>,
    colours: Option<Arc<[[u8; 4]]>>,
}

/// What the elements of the output are. The numbers are those that the shader knows.
#[derive(Clone, Copy)]
enum Meaning {
    /// Values of channels.
    Values = 0,
    /// Scores of classes, one for each channel.
    Scores = 1,
    /// The class of each pixel.
    Classes = 2,
}

impl TextureTarget {
    /// Creates the binding of a texture: all of it, from red, green and blue. The binding keeps the texture alive.
    pub fn new(texture: &wgpu::Texture) -> Self {
        let (region, order) = (None, ChannelOrder::Rgb);
        Self { texture: texture.clone(), region, order, normalization: None, colours: None }
    }

    /// Sets the rectangle that is written: left, top, width and height in pixels. The rest of the texture stays as it
    /// is.
    pub fn region(mut self, [left, top, width, height]: [u32; 4]) -> Self {
        self.region = Some([left, top, width, height]);
        self
    }

    /// Sets the order in which the output has the colours. The default is red, green, blue.
    pub fn order(mut self, order: ChannelOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets the normalization that is undone: one mean and deviation for all channels, or one of each per channel of the
    /// output, in its order of channels.
    pub fn normalize(mut self, mean: &[f32], std: &[f32]) -> Self {
        self.normalization = Some(Normalization { mean: mean.to_vec(), std: std.to_vec() });
        self
    }

    /// Writes the colour of the class of each pixel: red, green, blue and alpha. Classes beyond the last colour begin
    /// again with the first.
    ///
    /// The output has scores of two classes or more, `[1, height, width, classes]` or, with more than one
    /// row, `[height, width, classes]`. The highest counts, the first of several that are equal, and no NaN.
    /// Or it has the class of each pixel, as integers without quantization, `[1, height, width, 1]`, `[1,
    /// height, width]` or `[height, width]`. A pixel of the texture takes the class at its centre.
    pub fn classes(mut self, colours: &[[u8; 4]]) -> Self {
        self.colours = Some(colours.into());
        self
    }

    /// Returns the transfer that makes the pixels from an output, in the device's format, in `from`.
    pub(crate) fn transfer(&self, device: &Device, tensor: &BoundTensor, from: &Slice) -> Result<Transfer, GpuError> {
        let encoding = Encoding::of(self.texture.format())?;
        let region = self.checked_region()?;
        let (meaning, [height, width, channels]) = self.meaning(tensor)?;
        let mapping = match meaning {
            Meaning::Values => Mapping::new(tensor, channels, self.normalization.as_ref())?,
            Meaning::Scores | Meaning::Classes => Mapping {
                mean: [0.0; 4],
                std: [1.0; 4],
                scale: 1.0,
                zero_point: 0.0,
                range: [0.0; 2],
                stored: Stored::of(tensor.storage)?,
            },
        };
        let is_stored = self.is_stored()?;
        device.check_texture(&self.texture)?;
        let colours = self.colours.as_deref().unwrap_or(&[[0; 4]]);
        if colours.is_empty() {
            return Err(usage("there is no colour for any class; give one at least"));
        }
        let mut parameters: Vec<u32> = [mapping.mean, mapping.std].as_flattened().iter().map(|f| f.to_bits()).collect();
        parameters.extend(region);
        parameters.extend([width, height, channels, colours.len()].map(|extent| extent as u32));
        parameters.extend([mapping.scale, mapping.zero_point].map(f32::to_bits));
        parameters.extend([encoding as u32, u32::from(self.order == ChannelOrder::Bgr)]);
        parameters.extend([mapping.stored as u32, meaning as u32, 0, 0]);
        let parameters = device.constant(bytemuck::cast_slice(&parameters));
        let colours = device.constant(colours.as_flattened());
        let resources = [(0, parameters.as_entire_binding()), (1, from.resource()), (2, colours.as_entire_binding())];
        if is_stored {
            let view = view(&self.texture, wgpu::TextureUsages::STORAGE_BINDING)?;
            let format = if encoding == Encoding::Bytes { "rgba8unorm" } else { "rgba16float" };
            let source = format!("{SOURCE}\n{}", STORE.replace("FORMAT", format));
            let pipeline = device.converter(&source)?;
            let resources = resources.into_iter().chain([(3, wgpu::BindingResource::TextureView(&view))]);
            let bindings = bind_group(device, &pipeline.get_bind_group_layout(0), resources);
            let [_, _, across, down] = region;
            return Ok(Transfer::Dispatch { pipeline, bindings, groups: groups(across * down) });
        }
        let view = view(&self.texture, wgpu::TextureUsages::RENDER_ATTACHMENT)?;
        let pipeline = device.render_pipeline(&format!("{SOURCE}\n{DRAW}"), self.texture.format())?;
        let bindings = bind_group(device, &pipeline.get_bind_group_layout(0), resources);
        Ok(Transfer::Draw { pipeline, bindings, view, region })
    }

    /// Whether a dispatch writes the texture, and no draw call. Fails if neither can.
    fn is_stored(&self) -> Result<bool, GpuError> {
        use wgpu::TextureFormat::{Rgba8Unorm, Rgba16Float};
        use wgpu::TextureUsages as Usages;
        let (format, usages) = (self.texture.format(), self.texture.usage());
        match usages.contains(Usages::STORAGE_BINDING) && matches!(format, Rgba8Unorm | Rgba16Float) {
            true => Ok(true),
            false if usages.contains(Usages::RENDER_ATTACHMENT) => Ok(false),
            false => Err(usage(format!(
                "the texture of the format {format:?} cannot be written; create it with the usage RENDER_ATTACHMENT, or \
                 with STORAGE_BINDING and one of the formats Rgba8Unorm and Rgba16Float"
            ))),
        }
    }

    /// Returns the rectangle that is written. Fails if it is empty or not inside of the texture.
    fn checked_region(&self) -> Result<[u32; 4], GpuError> {
        let (across, down) = (self.texture.width(), self.texture.height());
        let [left, top, width, height] = self.region.unwrap_or([0, 0, across, down]);
        let is_inside = |start: u32, length: u32, extent: u32| {
            length > 0 && start.checked_add(length).is_some_and(|end| end <= extent)
        };
        if is_inside(left, width, across) && is_inside(top, height, down) {
            return Ok([left, top, width, height]);
        }
        Err(usage(format!(
            "the region of {width} × {height} pixels at ({left}, {top}) is not inside of the texture of {across} × {down}"
        )))
    }

    /// Returns what the elements of an output are, and its height, width and channels.
    fn meaning(&self, tensor: &BoundTensor) -> Result<(Meaning, [usize; 3]), GpuError> {
        let is_integer = matches!(
            tensor.data_type,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::Int32 | DataType::Int64
        );
        let shape = tensor.shape.extents();
        let (meaning, extents) = match (&self.colours, is_integer && tensor.quantization.is_none()) {
            (Some(_), true) => (Meaning::Classes, map_of_classes(shape)),
            (Some(_), false) => (Meaning::Scores, scores_of_classes(shape)),
            (None, _) => (Meaning::Values, pixels(shape).filter(|[_, _, channels]| *channels <= 4)),
        };
        let known = extents.filter(|extents| !extents.contains(&0));
        let not = |what| usage(format!("a tensor of type {} and shape {} is {what}", tensor.data_type, tensor.shape));
        known.map(|extents| (meaning, extents)).ok_or_else(|| match meaning {
            Meaning::Values => not("not a picture"),
            Meaning::Scores | Meaning::Classes => not(
                "neither scores nor a map of classes: scores have the shape [1, height, width, classes] or [height, width, \
                 classes], with two classes or more; a map of classes has integers without quantization and the shape \
                 [1, height, width, 1], [1, height, width] or [height, width]",
            ),
        })
    }
}

/// Returns height, width and channels of a picture; `None` if the shape is of none.
fn pixels(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [1, height, width, channels] | [height, width, channels] => Some([height, width, channels]),
        _ => None,
    }
}

/// Returns height, width and classes of scores; `None` if the shape is of none, or may as well be that of a
/// map.
fn scores_of_classes(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [1, _, _] | [.., 1] => None,
        _ => pixels(shape),
    }
}

/// Returns height and width of a map of classes, and 1; `None` if the shape is of none.
fn map_of_classes(shape: &[usize]) -> Option<[usize; 3]> {
    match *shape {
        [1, height, width, 1] | [1, height, width] | [height, width] => Some([height, width, 1]),
        _ => None,
    }
}
