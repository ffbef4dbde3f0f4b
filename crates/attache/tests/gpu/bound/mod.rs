//! Inputs and outputs that are bound to buffers and textures of a device that the caller opened, on software Vulkan under
//! the validation layer.

mod buffers;
mod misuse;
mod pictures;
mod textures;
mod unfit_textures;

use std::sync::Arc;

use attache::gpu::{Precision, validated_adapter, wgpu};
use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, InterpreterBuilder, Model};

use crate::validation;

/// A device of the caller's.
pub(crate) struct Own {
    pub(crate) device: wgpu::Device,
    queue: wgpu::Queue,
}

/// All usages that inputs and outputs may take.
const ALL: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

fn adapter() -> wgpu::Adapter {
    validation::listen();
    validated_adapter().expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

impl Own {
    pub(crate) fn open() -> Self {
        Self::of(&adapter())
    }

    fn of(adapter: &wgpu::Adapter) -> Self {
        let (required_features, required_limits) =
            (adapter.features() & (wgpu::Features::SHADER_F16 | wgpu::Features::TIMESTAMP_QUERY), adapter.limits());
        let descriptor = wgpu::DeviceDescriptor { required_features, required_limits, ..Default::default() };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).unwrap();
        Self { device, queue }
    }

    pub(crate) fn delegate(&self, options: GpuDelegateOptions) -> GpuDelegate {
        GpuDelegate::with_device(self.device.clone(), self.queue.clone(), options).unwrap()
    }

    fn builder(&self, model: &Model) -> InterpreterBuilder {
        let options = GpuDelegateOptions::default().precision(Precision::F32);
        Interpreter::builder(model).threads(1).delegate(Arc::new(self.delegate(options)))
    }

    fn interpreter(&self, model: &Model) -> Interpreter {
        self.builder(model).build().unwrap()
    }

    /// Creates a buffer with these bytes from an offset on.
    fn buffer_at(&self, offset: usize, bytes: &[u8], usage: wgpu::BufferUsages) -> wgpu::Buffer {
        let size = (offset + bytes.len().max(4)).next_multiple_of(4);
        let mut all = vec![0xa5; size];
        all[offset..offset + bytes.len()].copy_from_slice(bytes);
        let descriptor = wgpu::BufferDescriptor { label: None, size: size as u64, usage, mapped_at_creation: true };
        let buffer = self.device.create_buffer(&descriptor);
        buffer.get_mapped_range_mut(..).unwrap().copy_from_slice(&all);
        buffer.unmap();
        buffer
    }

    fn buffer(&self, bytes: &[u8]) -> wgpu::Buffer {
        self.buffer_at(0, bytes, ALL)
    }

    fn floats(&self, values: &[f32]) -> wgpu::Buffer {
        self.buffer(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Encodes a run of each interpreter, in order, and submits them at once.
    fn run(&self, interpreters: &mut [&mut Interpreter]) {
        let mut encoder = self.encoder();
        interpreters.iter_mut().for_each(|interpreter| interpreter.encode(&mut encoder).unwrap());
        self.queue.submit([encoder.finish()]);
    }

    /// Returns bytes of a buffer.
    fn read(&self, buffer: &wgpu::Buffer, offset: usize, size: usize) -> Vec<u8> {
        let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
        let padded = size.next_multiple_of(4) as u64;
        let descriptor = wgpu::BufferDescriptor { label: None, size: padded, usage, mapped_at_creation: false };
        let staging = self.device.create_buffer(&descriptor);
        let mut encoder = self.encoder();
        encoder.copy_buffer_to_buffer(buffer, offset as u64, &staging, 0, padded);
        self.queue.submit([encoder.finish()]);
        self.mapped(&staging)[..size].to_vec()
    }

    fn read_floats(&self, buffer: &wgpu::Buffer) -> Vec<f32> {
        let bytes = self.read(buffer, 0, buffer.size() as usize);
        bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
    }

    fn mapped(&self, staging: &wgpu::Buffer) -> Vec<u8> {
        staging.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
        self.device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
        staging.get_mapped_range(..).unwrap().to_vec()
    }
}
