//! A wgpu device that a program opens for itself, and pictures on it.

use attache::gpu::wgpu;
use image::{DynamicImage, RgbImage, RgbaImage};

use crate::Result;

/// A device and its queue.
#[derive(Debug)]
pub struct Gpu {
    /// The device.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
}

impl Gpu {
    /// Opens a device with the limits of its adapter, since large models need large buffers.
    ///
    /// # Errors
    ///
    /// If there is no device.
    pub fn open() -> Result<Self> {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()))?;
        let descriptor = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))?;
        Ok(Self { device, queue })
    }

    /// Creates a texture for a picture of this size.
    #[must_use]
    pub fn texture(&self, width: u32, height: u32) -> wgpu::Texture {
        use wgpu::TextureUsages as Usages;
        self.device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size: wgpu::Extent3d { width, height, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba8Unorm,
            usage: Usages::TEXTURE_BINDING | Usages::STORAGE_BINDING | Usages::COPY_SRC | Usages::COPY_DST,
            view_formats: &[],
        })
    }

    /// Uploads a picture to a texture of its own.
    #[must_use]
    pub fn upload(&self, picture: &RgbImage) -> wgpu::Texture {
        let (width, height) = picture.dimensions();
        let texture = self.texture(width, height);
        let pixels = DynamicImage::from(picture.clone()).into_rgba8();
        let layout = wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(4 * width), rows_per_image: None };
        self.queue.write_texture(texture.as_image_copy(), &pixels, layout, texture.size());
        texture
    }

    /// Creates a buffer of zeros that shaders read and write.
    #[must_use]
    pub fn buffer(&self, size: u64) -> wgpu::Buffer {
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        self.device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    }

    /// Creates a compute pipeline from the function `main` of a shader.
    #[must_use]
    pub fn pipeline(&self, source: &str) -> wgpu::ComputePipeline {
        let source = wgpu::ShaderSource::Wgsl(source.into());
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: Default::default(),
            cache: None,
        })
    }

    /// Adds a dispatch with these resources, bound from 0 on, to an encoder.
    pub fn dispatch(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        pipeline: &wgpu::ComputePipeline,
        resources: &[wgpu::BindingResource<'_>],
        groups: [u32; 2],
    ) {
        let entries = (0..).zip(resources).map(|(binding, resource)| {
            let resource = resource.clone();
            wgpu::BindGroupEntry { binding, resource }
        });
        let entries: Vec<wgpu::BindGroupEntry<'_>> = entries.collect();
        let layout = pipeline.get_bind_group_layout(0);
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, &self.device.create_bind_group(&descriptor), &[]);
        pass.dispatch_workgroups(groups[0], groups[1], 1);
    }

    /// Copies a buffer to the host, after what was submitted before.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn read(&self, buffer: &wgpu::Buffer) -> Result<Vec<u8>> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let size = buffer.size();
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let staging = self.device.create_buffer(&descriptor);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, 0, &staging, 0, size);
        self.queue.submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, .., |_| {});
        self.device.poll(wgpu::PollType::wait_indefinitely())?;
        Ok(staging.get_mapped_range(..)?.to_vec())
    }

    /// Copies a texture to the host.
    ///
    /// # Errors
    ///
    /// If the device fails.
    pub fn download(&self, texture: &wgpu::Texture) -> Result<RgbaImage> {
        let (width, height) = (texture.width(), texture.height());
        let bytes_per_row = (4 * width).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let buffer = self.buffer(u64::from(bytes_per_row * height));
        let layout =
            wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(bytes_per_row), rows_per_image: None };
        let to = wgpu::TexelCopyBufferInfo { buffer: &buffer, layout };
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_texture_to_buffer(texture.as_image_copy(), to, texture.size());
        self.queue.submit([encoder.finish()]);
        let bytes = self.read(&buffer)?;
        let rows = bytes.chunks_exact(bytes_per_row as usize).flat_map(|row| &row[..4 * width as usize]);
        Ok(RgbaImage::from_raw(width, height, rows.copied().collect()).ok_or("a texture of another size")?)
    }
}
