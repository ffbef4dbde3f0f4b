//! What textures that are read and textures that are written have in common: formats, orders of channels, and the
//! relation between pixels and the elements of a tensor.

use attache_base::{DataType, Quantization};
use attache_gpu_ir::ByteType;

use super::{BoundTensor, usage};
use crate::kernel::{GpuError, StorageFormat};

/// The order in which a tensor of three or four channels has the colours of a pixel. One channel is the
/// luminance, and two are red and green, in either order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelOrder {
    /// Red, green, blue, then alpha.
    #[default]
    Rgb,
    /// Blue, green, red, then alpha.
    Bgr,
}

/// A normalization of channels, `(value − mean) / std`, where values are 0 to 255. It has one mean and deviation for all
/// channels, or one of each per channel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normalization {
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
}

impl Normalization {
    fn of(mean: f32, std: f32) -> Self {
        Self { mean: vec![mean], std: vec![std] }
    }

    /// Returns mean and deviation of each of four channels. Fails if they do not fit a tensor of `channels` channels.
    fn of_channels(&self, channels: usize) -> Result<[[f32; 4]; 2], GpuError> {
        let fits = |values: &[f32]| values.len() == 1 || values.len() == channels;
        let finite = self.mean.iter().chain(&self.std).all(|value| value.is_finite());
        if !fits(&self.mean) || !fits(&self.std) || !finite || self.std.contains(&0.0) {
            let expected = format!("one, or one for each of {channels} channels");
            let rule = "all finite, and no deviation of 0";
            return Err(usage(format!(
                "{:?} and {:?} are no means and deviations: {expected}, {rule}",
                self.mean, self.std
            )));
        }
        let of = |values: &[f32]| std::array::from_fn(|channel| *values.get(channel).unwrap_or(&values[0]));
        Ok([of(&self.mean), of(&self.std)])
    }
}

/// How the pixels of a texture and the elements of a tensor become each other:
/// `element = round((value − mean) / std / scale) + zero point`, without the rounding and the last two for floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mapping {
    pub(super) mean: [f32; 4],
    pub(super) std: [f32; 4],
    pub(super) scale: f32,
    pub(super) zero_point: f32,
    /// The least and the largest element, for integers.
    pub(super) range: [f32; 2],
    pub(super) stored: Stored,
}

/// How the device stores the elements of a picture. The numbers are those that shaders know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Floats = 0,
    Integers = 1,
    SignedBytes = 2,
    UnsignedBytes = 3,
}

impl Stored {
    pub(super) fn of(storage: StorageFormat) -> Result<Self, GpuError> {
        match storage {
            StorageFormat::F32 => Ok(Stored::Floats),
            StorageFormat::I32 => Ok(Stored::Integers),
            StorageFormat::Bytes(ByteType::Signed) => Ok(Stored::SignedBytes),
            StorageFormat::Bytes(ByteType::Unsigned) => Ok(Stored::UnsignedBytes),
            StorageFormat::Half | StorageFormat::HalfPairs => Err(usage("the device stores the tensor in 16 bits")),
        }
    }
}

impl Mapping {
    /// Returns the mapping of a tensor with this many channels. Without a normalization, floats are normalized to
    /// -1 to 1 and so is a quantized int16; uint8 and int8 have the values of pixels, int8 less 128.
    pub(super) fn new(
        tensor: &BoundTensor,
        channels: usize,
        normalization: Option<&Normalization>,
    ) -> Result<Self, GpuError> {
        let stored = Stored::of(tensor.storage)?;
        let quantization = tensor.quantization.as_ref().filter(|quantization| !quantization.scale.is_empty());
        let unit = Normalization::of(127.5, 127.5);
        let (default, range) = match tensor.data_type {
            DataType::Float32 | DataType::Float16 => (unit, [f32::MIN, f32::MAX]),
            DataType::UInt8 => (Normalization::of(0.0, 1.0), [0.0, 255.0]),
            DataType::Int8 => (Normalization::of(0.0, 1.0), [-128.0, 127.0]),
            DataType::Int16 if quantization.is_some() => (unit, [-32768.0, 32767.0]),
            DataType::Int16 => (Normalization::of(0.0, 1.0), [-32768.0, 32767.0]),
            other => return Err(usage(format!("a picture does not fit a tensor of type {other}"))),
        };
        let [mean, std] = normalization.unwrap_or(&default).of_channels(channels)?;
        let (scale, zero_point) = match (normalization, tensor.data_type) {
            (None, DataType::UInt8) => (1.0, 0.0),
            // Values are rounded before 128 is subtracted, so that halves become those of uint8, less 128.
            (None, DataType::Int8) => (1.0, -128.0),
            _ => affine(tensor, quantization)?,
        };
        Ok(Self { mean, std, scale, zero_point, range, stored })
    }
}

/// Returns scale and zero point of a tensor: 1 and 0 if it is not quantized.
fn affine(tensor: &BoundTensor, quantization: Option<&Quantization>) -> Result<(f32, f32), GpuError> {
    match (quantization, tensor.affine()) {
        (None, _) => Ok((1.0, 0.0)),
        (_, Some((scale, zero_point))) if scale.is_finite() && scale > 0.0 => Ok((scale, zero_point)),
        _ => Err(usage("a picture does not fit a tensor that is quantized with several scales")),
    }
}

/// How a texture stores the values of pixels, 0 to 255. The numbers are those that shaders know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Bytes.
    Bytes = 0,
    /// Floats, where 1 stands for the value 255.
    Floats = 1,
    /// Bytes, which devices convert to linear light when they read them and back when they write.
    SrgbBytes = 2,
}

impl Encoding {
    /// Returns the encoding of a format. Fails if pictures cannot have the format.
    pub(super) fn of(format: wgpu::TextureFormat) -> Result<Self, GpuError> {
        use wgpu::TextureFormat as Format;
        match format {
            Format::Rgba8Unorm | Format::Bgra8Unorm => Ok(Encoding::Bytes),
            Format::Rgba8UnormSrgb | Format::Bgra8UnormSrgb => Ok(Encoding::SrgbBytes),
            Format::Rgba16Float => Ok(Encoding::Floats),
            other => Err(usage(format!(
                "a texture of the format {other:?} cannot be bound; use Rgba8Unorm, Bgra8Unorm, one of these with Srgb, \
                 or Rgba16Float"
            ))),
        }
    }
}

/// Returns the view of the first mip level of a texture for one usage. Fails if the texture is not a single picture.
pub(super) fn view(texture: &wgpu::Texture, usages: wgpu::TextureUsages) -> Result<wgpu::TextureView, GpuError> {
    let is_flat = texture.dimension() == wgpu::TextureDimension::D2 && texture.depth_or_array_layers() == 1;
    if !is_flat || texture.sample_count() != 1 {
        return Err(usage("a texture that is bound has two dimensions, one layer and one sample"));
    }
    Ok(texture.create_view(&wgpu::TextureViewDescriptor {
        dimension: Some(wgpu::TextureViewDimension::D2),
        usage: Some(usages),
        mip_level_count: Some(1),
        ..Default::default()
    }))
}

#[cfg(test)]
mod tests {
    use attache_gpu_ir::Scalar;

    use super::*;

    fn tensor(data_type: DataType, storage: StorageFormat, quantization: Option<(f32, i64)>) -> BoundTensor {
        let quantization =
            quantization.map(|(scale, point)| Quantization { scale: vec![scale], zero_point: vec![point], axis: 0 });
        BoundTensor { data_type, shape: [1, 1, 1, 3].into(), quantization, scalar: Scalar::I32, storage }
    }

    #[test]
    fn mappings_follow_the_type_of_the_tensor() {
        let bytes = StorageFormat::Bytes(ByteType::Signed);
        let signed = tensor(DataType::Int8, bytes, Some((0.5, 3)));
        let mapping = Mapping::new(&signed, 3, None).unwrap();
        assert_eq!((mapping.mean[0], mapping.std[0], mapping.scale, mapping.zero_point), (0.0, 1.0, 1.0, -128.0));
        let normalization = Normalization { mean: vec![1.0, 2.0, 3.0], std: vec![4.0] };
        let mapping = Mapping::new(&signed, 3, Some(&normalization)).unwrap();
        assert_eq!((mapping.mean, mapping.std), ([1.0, 2.0, 3.0, 1.0], [4.0; 4]));
        assert_eq!((mapping.scale, mapping.zero_point, mapping.range), (0.5, 3.0, [-128.0, 127.0]));
        assert!(Mapping::new(&signed, 2, Some(&normalization)).is_err());
        let floats = Mapping::new(&tensor(DataType::Float32, StorageFormat::F32, None), 3, None).unwrap();
        assert_eq!((floats.mean[2], floats.std[2], floats.scale), (127.5, 127.5, 1.0));
        assert!(Mapping::new(&tensor(DataType::Int64, StorageFormat::I32, None), 3, None).is_err());
    }

    #[test]
    fn deviations_of_zero_and_numbers_that_are_none_are_refused() {
        for (mean, std) in [(f32::NAN, 1.0), (0.0, 0.0), (0.0, f32::INFINITY)] {
            assert!(Normalization::of(mean, std).of_channels(3).is_err());
        }
    }
}
