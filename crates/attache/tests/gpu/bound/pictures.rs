//! Pictures for tests of textures: their textures, and what the host makes of them.

use attache::gpu::wgpu;
use attache::half::f16;
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, CastOptionsT, TensorType};
use attache::{DataType, Model, ModelBuilder, OperatorBuilder, TensorBuilder};

use super::Own;

/// A picture with red, green, blue and alpha from 0 to 255, rows from the top.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) pixels: Vec<[f32; 4]>,
}

impl Picture {
    /// Draws a picture with edges and slopes of all values.
    pub(super) fn draw(width: usize, height: usize, seed: usize) -> Self {
        let pixel = |index: usize| {
            let (x, y) = (index % width, index / width);
            let noise = (index.wrapping_mul(2_654_435_761) >> 7) + seed;
            [(x * 255) / width, (y * 13 + x * 5 + seed) % 256, noise % 256, 255 - noise % 97].map(|value| value as f32)
        };
        Self { width, height, pixels: (0..width * height).map(pixel).collect() }
    }

    /// Returns the picture as a texture of a format stores it.
    pub(super) fn stored(mut self, format: wgpu::TextureFormat) -> Self {
        if format == wgpu::TextureFormat::Rgba16Float {
            let stored = |value: &mut f32| *value = 255.0 * f16::from_f32(*value / 255.0).to_f32();
            self.pixels.as_flattened_mut().iter_mut().for_each(stored);
        }
        self
    }

    /// Returns a rectangle of the picture, resized bilinearly with half-pixel centres.
    pub(super) fn resized(&self, [left, top, across, down]: [f32; 4], width: usize, height: usize) -> Self {
        let neighbours = |target: usize, count: usize, start: f32, length: f32, extent: usize| {
            let inner = (target as f32 + 0.5) * (length / count as f32) - 0.5;
            let last = (extent - 1) as f32;
            let centre = 0.5 * (length - 1.0);
            let source = (start + inner.clamp(centre.min(0.0), centre.max(length - 1.0))).clamp(0.0, last);
            let low = source as usize;
            (low, (low + 1).min(extent - 1), source - low as f32)
        };
        let mut pixels = Vec::new();
        for y in 0..height {
            let (upper, lower, below) = neighbours(y, height, top, down, self.height);
            for x in 0..width {
                let (near, far, along) = neighbours(x, width, left, across, self.width);
                let at = |y: usize, x: usize, channel: usize| self.pixels[y * self.width + x][channel];
                pixels.push(std::array::from_fn(|channel| {
                    let row = |y| at(y, near, channel) + (at(y, far, channel) - at(y, near, channel)) * along;
                    row(upper) + (row(lower) - row(upper)) * below
                }));
            }
        }
        Self { width, height, pixels }
    }

    /// Returns the values of the channels that a tensor has.
    pub(super) fn channels(&self, channels: usize, is_bgr: bool) -> Vec<f32> {
        let values = |[red, green, blue, alpha]: &[f32; 4]| match (channels, is_bgr) {
            (1, _) => vec![0.299 * red + 0.587 * green + 0.114 * blue],
            (2, _) | (_, false) => [*red, *green, *blue, *alpha][..channels].to_vec(),
            (_, true) => [*blue, *green, *red, *alpha][..channels].to_vec(),
        };
        self.pixels.iter().flat_map(values).collect()
    }

    /// Returns the largest difference between values of two pictures.
    pub(super) fn distance(&self, other: &Self) -> f32 {
        assert_eq!((self.width, self.height), (other.width, other.height));
        let pairs = self.pixels.as_flattened().iter().zip(other.pixels.as_flattened());
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }
}

/// Whether a format has blue first.
fn is_bgra(format: wgpu::TextureFormat) -> bool {
    matches!(format, wgpu::TextureFormat::Bgra8Unorm | wgpu::TextureFormat::Bgra8UnormSrgb)
}

/// Returns the bytes of a pixel.
fn encode(format: wgpu::TextureFormat, [red, green, blue, alpha]: [f32; 4]) -> Vec<u8> {
    let values = if is_bgra(format) { [blue, green, red, alpha] } else { [red, green, blue, alpha] };
    match format {
        wgpu::TextureFormat::Rgba16Float => {
            values.iter().flat_map(|value| f16::from_f32(value / 255.0).to_le_bytes()).collect()
        }
        _ => values.map(|value| value.round() as u8).to_vec(),
    }
}

/// Returns the pixel with these bytes.
fn decode(format: wgpu::TextureFormat, bytes: &[u8]) -> [f32; 4] {
    let values: Vec<f32> = match format {
        wgpu::TextureFormat::Rgba16Float => {
            bytes.as_chunks::<2>().0.iter().map(|half| 255.0 * f16::from_le_bytes(*half).to_f32()).collect()
        }
        _ => bytes.iter().map(|byte| f32::from(*byte)).collect(),
    };
    if is_bgra(format) { [values[2], values[1], values[0], values[3]] } else { values.try_into().unwrap() }
}

impl Own {
    pub(super) fn texture(
        &self,
        [width, height]: [usize; 2],
        format: wgpu::TextureFormat,
        usage: wgpu::TextureUsages,
    ) -> wgpu::Texture {
        let size = wgpu::Extent3d { width: width as u32, height: height as u32, depth_or_array_layers: 1 };
        self.device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format,
            usage: usage | wgpu::TextureUsages::COPY_SRC | wgpu::TextureUsages::COPY_DST,
            view_formats: &[],
        })
    }

    /// Uploads a picture to a texture of the same size.
    pub(super) fn upload(&self, texture: &wgpu::Texture, picture: &Picture) {
        let bytes: Vec<u8> = picture.pixels.iter().flat_map(|pixel| encode(texture.format(), *pixel)).collect();
        let bytes_per_row = Some((bytes.len() / picture.height) as u32);
        let layout = wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row, rows_per_image: None };
        self.queue.write_texture(texture.as_image_copy(), &bytes, layout, texture.size());
    }

    pub(super) fn picture(&self, texture: &wgpu::Texture) -> Picture {
        let (width, height, format) = (texture.width() as usize, texture.height() as usize, texture.format());
        let pixel_bytes = format.block_copy_size(None).unwrap() as usize;
        let bytes_per_row = (width * pixel_bytes).next_multiple_of(256);
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let size = (bytes_per_row * height) as u64;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let staging = self.device.create_buffer(&descriptor);
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(bytes_per_row as u32), rows_per_image: None };
        let to = wgpu::TexelCopyBufferInfo { buffer: &staging, layout };
        let mut encoder = self.encoder();
        encoder.copy_texture_to_buffer(texture.as_image_copy(), to, texture.size());
        self.queue.submit([encoder.finish()]);
        let bytes = self.mapped(&staging);
        let rows = bytes.chunks_exact(bytes_per_row).flat_map(|row| row[..width * pixel_bytes].chunks(pixel_bytes));
        Picture { width, height, pixels: rows.map(|pixel| decode(format, pixel)).collect() }
    }
}

/// Builds a model whose output is its input, quantized if a scale and a zero point are given.
pub(super) fn same(shape: &[usize], data_type: DataType, quantization: Option<(f32, i64)>) -> Model {
    let mut builder = ModelBuilder::new("same");
    let graph = builder.subgraph("main");
    let [x, y] = ["x", "y"].map(|name| {
        let tensor = TensorBuilder::new(name, data_type, shape);
        builder.tensor(
            graph,
            match quantization {
                Some((scale, zero_point)) => tensor.quantized(scale, zero_point),
                None => tensor,
            },
        )
    });
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::MAXIMUM, [x, x], [y]).version(2));
    builder.inputs(graph, &[x]).outputs(graph, &[y]);
    Model::from_bytes(builder.finish()).unwrap()
}

/// Builds a model whose output has the numbers of its input as integers.
pub(super) fn truncated(shape: &[usize]) -> Model {
    let mut builder = ModelBuilder::new("truncated");
    let graph = builder.subgraph("main");
    let x = builder.tensor(graph, TensorBuilder::new("x", DataType::Float32, shape));
    let y = builder.tensor(graph, TensorBuilder::new("y", DataType::Int32, shape));
    let options = CastOptionsT { in_data_type: TensorType::FLOAT32, out_data_type: TensorType::INT32 };
    let cast = OperatorBuilder::new(BuiltinOperator::CAST, [x], [y]);
    builder.operator(graph, cast.options(BuiltinOptionsT::CastOptions(Box::new(options))));
    builder.inputs(graph, &[x]).outputs(graph, &[y]);
    Model::from_bytes(builder.finish()).unwrap()
}
