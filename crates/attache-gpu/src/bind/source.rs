//! Textures that inputs are read from.

use attache_base::DataType;

use super::elements::groups;
use super::pixels::{ChannelOrder, Encoding, Mapping, Normalization, Stored, view};
use super::transfer::{Slice, Transfer, bind_group};
use super::{BoundTensor, usage};
use crate::device::Device;
use crate::kernel::GpuError;

const SOURCE: &str = include_str!("source.wgsl");

/// Bytes of a crop rectangle in a buffer: four floats.
const CROP_BYTES: u64 = 16;

/// A [`wgpu::Texture`] that an input is read from. One dispatch before the others converts its pixels.
///
/// The input has the shape `[batch, height, width, channels]`, or the same without the batch, 1 to 4 channels, and
/// elements of type float32, float16, uint8, int8 or int16. The texture is two-dimensional, has the usage
/// `TEXTURE_BINDING` and one of the formats `Rgba8Unorm`, `Rgba8UnormSrgb`, `Bgra8Unorm`, `Bgra8UnormSrgb` and
/// `Rgba16Float`; its first mip level is read.
///
/// - Values are 0 to 255, as the texture stores them: those of sRGB formats are not converted to linear light, and 1 in
///   a float format is 255.
/// - The picture is resized to the input's height and width, bilinearly with half-pixel centres and without a low-pass
///   filter: `source = (target + ½) · from / to − ½`, clamped to the picture.
/// - An input of one channel takes the luminance, `0.299 · red + 0.587 · green + 0.114 · blue`; two channels are red and
///   green; a fourth is alpha.
/// - Values are normalized, `(value − mean) / std`, and quantized with the input's own parameters. Without a
///   normalization, floats take −1 to 1, uint8 the values as they are, int8 the values less 128, and a quantized int16
///   takes −1 to 1.
/// - With a batch, each element of it has the same picture.
#[must_use]
#[derive(Clone, Debug)]
pub struct TextureSource {
    texture: wgpu::Texture,
    crop: Crop,
    order: ChannelOrder,
    normalization: Option<Normalization>,
}

/// The rectangle of the texture that is read.
#[derive(Clone, Debug)]
enum Crop {
    Whole,
    /// Left, top, width and height in pixels.
    Fixed([f32; 4]),
    /// The same, in a buffer from an offset in bytes on.
    Buffer(wgpu::Buffer, u64),
}

impl TextureSource {
    /// Creates the binding of a texture: all of it, as red, green and blue. The binding keeps the texture alive.
    pub fn new(texture: &wgpu::Texture) -> Self {
        Self { texture: texture.clone(), crop: Crop::Whole, order: ChannelOrder::Rgb, normalization: None }
    }

    /// Sets the rectangle that is read: left, top, width and height in pixels, which may be fractions. What
    /// lies outside of the texture has the pixels of its edge. A rectangle of less than a pixel has the value
    /// at its centre.
    pub fn crop(mut self, [left, top, width, height]: [f32; 4]) -> Self {
        self.crop = Crop::Fixed([left, top, width, height]);
        self
    }

    /// Makes each run read the rectangle from a buffer, where the device may have written it before: left,
    /// top, width and height in pixels, as f32, from `offset` bytes on. What lies outside of the texture has
    /// the pixels of its edge. Numbers are limited to ±2²⁴, a NaN is 0, and a width or height that is not
    /// positive gives some pixels of the texture. The buffer has the usage `STORAGE`, and the offset the
    /// device's alignment of storage buffers.
    pub fn crop_from(mut self, buffer: &wgpu::Buffer, offset: u64) -> Self {
        self.crop = Crop::Buffer(buffer.clone(), offset);
        self
    }

    /// Sets the order in which the input has the colours. The default is red, green, blue.
    pub fn order(mut self, order: ChannelOrder) -> Self {
        self.order = order;
        self
    }

    /// Sets the normalization: one mean and deviation for all channels, or one of each per channel of the input, in its
    /// order of channels.
    pub fn normalize(mut self, mean: &[f32], std: &[f32]) -> Self {
        self.normalization = Some(Normalization { mean: mean.to_vec(), std: std.to_vec() });
        self
    }

    /// Returns the dispatch that writes an input, in the device's format, to `to`.
    pub(crate) fn transfer(&self, device: &Device, tensor: &BoundTensor, to: &Slice) -> Result<Transfer, GpuError> {
        let [batch, height, width, channels] = extents(tensor)?;
        if !self.texture.usage().contains(wgpu::TextureUsages::TEXTURE_BINDING) {
            return Err(usage("the texture lacks the usage TEXTURE_BINDING; create it with that"));
        }
        let encoding = Encoding::of(self.texture.format())?;
        let mapping = Mapping::new(tensor, channels, self.normalization.as_ref())?;
        device.check_texture(&self.texture)?;
        let crop = self.rectangle(device)?;
        let is_bytes = matches!(mapping.stored, Stored::SignedBytes | Stored::UnsignedBytes);
        let pixels = (batch * height * width) as u32;
        let mut parameters: Vec<u32> = [mapping.mean, mapping.std].as_flattened().iter().map(|f| f.to_bits()).collect();
        let [least, most] = mapping.range;
        parameters.extend([mapping.scale, mapping.zero_point, least, most].map(f32::to_bits));
        parameters.extend([width as u32, height as u32, channels as u32, pixels]);
        parameters.extend([encoding as u32, u32::from(self.order == ChannelOrder::Bgr), mapping.stored as u32]);
        parameters.push(u32::from(!matches!(tensor.data_type, DataType::Float32 | DataType::Float16)));
        let parameters = device.constant(bytemuck::cast_slice(&parameters));
        let view = view(&self.texture, wgpu::TextureUsages::TEXTURE_BINDING)?;
        let pipeline = device.converter(SOURCE)?;
        let resources = [
            (0, parameters.as_entire_binding()),
            (1, crop.resource()),
            (2, wgpu::BindingResource::TextureView(&view)),
            (3, to.resource()),
        ];
        let bindings = bind_group(device, &pipeline.get_bind_group_layout(0), resources);
        // Four pixels are a whole number of words.
        let invocations = if is_bytes { pixels.div_ceil(4) } else { pixels };
        Ok(Transfer::Dispatch { pipeline, bindings, groups: groups(invocations) })
    }

    /// Returns the range of a buffer that has the rectangle. Fails if the rectangle is empty or not finite,
    /// or the caller's buffer cannot be read.
    fn rectangle(&self, device: &Device) -> Result<Slice, GpuError> {
        let [across, down] = [self.texture.width() as f32, self.texture.height() as f32];
        let fixed = match &self.crop {
            Crop::Whole => [0.0, 0.0, across, down],
            Crop::Fixed(crop) => *crop,
            Crop::Buffer(buffer, offset) => return crop_in(device, buffer, *offset),
        };
        let [left, top, width, height] = fixed;
        if !fixed.iter().all(|edge| edge.is_finite()) || width <= 0.0 || height <= 0.0 {
            return Err(usage(format!(
                "the rectangle of {width} × {height} pixels at ({left}, {top}) is empty or not finite; give one with a \
                 positive width and height"
            )));
        }
        let buffer = device.constant(bytemuck::cast_slice(&fixed));
        Ok(Slice { buffer, offset: 0, size: CROP_BYTES })
    }
}

/// Returns the range of a buffer of the caller's that has a rectangle.
fn crop_in(device: &Device, buffer: &wgpu::Buffer, offset: u64) -> Result<Slice, GpuError> {
    let alignment = device.limits().alignment as u64;
    if !buffer.usage().contains(wgpu::BufferUsages::STORAGE) {
        return Err(usage("the buffer of the rectangle lacks the usage STORAGE; create it with that"));
    }
    if !offset.is_multiple_of(alignment) {
        return Err(usage(format!("the offset {offset} of the rectangle is not a multiple of {alignment} bytes")));
    }
    if offset.checked_add(CROP_BYTES).is_none_or(|end| end > buffer.size()) {
        let size = buffer.size();
        return Err(usage(format!("the buffer of the rectangle has {size} bytes, not {CROP_BYTES} from {offset} on")));
    }
    device.check_buffer(buffer)?;
    Ok(Slice { buffer: buffer.clone(), offset, size: CROP_BYTES })
}

/// Returns batch, height, width and channels of an input that a picture fits.
fn extents(tensor: &BoundTensor) -> Result<[usize; 4], GpuError> {
    let extents = match *tensor.shape.extents() {
        [batch, height, width, channels] => [batch, height, width, channels],
        [height, width, channels] => [1, height, width, channels],
        _ => [0; 4],
    };
    match extents {
        [_, _, _, 1..=4] if !extents.contains(&0) => Ok(extents),
        _ => Err(usage(format!("a picture does not fit a tensor of shape {}", tensor.shape))),
    }
}
