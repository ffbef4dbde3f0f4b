//! The resources of a replayed recording: memory, command buffers, descriptors and queries. Also copies that
//! are executed once, for uploads and downloads.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use ash::vk;

use super::{BufferId, Slice};
use crate::device::Device;
use crate::device::constants::{DeviceConstant, together};
use crate::device::vulkan::{Buffer, DeviceBuffer, Pipeline, Use, Vulkan, failed};
use crate::kernel::{GpuError, GpuErrorKind};

/// The resources of a recording, which are freed with it.
pub(super) struct ReplayResources {
    pub(super) device: Device,
    /// The pipeline of each dispatch.
    pub(super) pipelines: Vec<Arc<Pipeline>>,
    /// The recording's own buffers.
    pub(super) buffers: Vec<Buffer>,
    /// The buffers of constants, which other recordings may use as well.
    pub(super) constants: Vec<Arc<DeviceBuffer>>,
    pub(super) descriptors: Vec<vk::DescriptorPool>,
    commands: vk::CommandPool,
    /// The query pool of a timed recording, with two timestamps for each dispatch, before and after it; null
    /// if the recording is not timed.
    pub(super) queries: vk::QueryPool,
}

impl ReplayResources {
    /// Creates an empty set of resources on a device that has Vulkan objects.
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            pipelines: Vec::new(),
            buffers: Vec::new(),
            constants: Vec::new(),
            descriptors: Vec::new(),
            commands: vk::CommandPool::null(),
            queries: vk::QueryPool::null(),
        }
    }

    pub(super) fn vulkan(&self) -> &Vulkan {
        self.device.vulkan().expect("recordings are made where it is")
    }

    /// Returns the Vulkan object of a buffer.
    pub(super) fn raw(&self, buffer: BufferId) -> vk::Buffer {
        match buffer {
            BufferId::Own(index) => self.buffers[index].raw,
            BufferId::Constant(index) => self.constants[index].raw(),
        }
    }

    /// Allocates a buffer of this many bytes and adds it to `buffers`. Fails if the buffer is larger than the
    /// device allows.
    pub(super) fn add(&mut self, bytes: usize, purpose: Use) -> Result<(), GpuError> {
        let limit = self.device.wgpu().limits().max_buffer_size;
        if bytes as u64 > limit {
            return Err(too_large(bytes, limit));
        }
        let buffer = self.vulkan().buffer(bytes, purpose)?;
        self.buffers.push(buffer);
        Ok(())
    }

    /// Uploads ranges of a block into as few buffers of the device as its limit on their size allows, and waits for
    /// the copies. Returns the location of each range.
    pub(super) fn upload(
        &mut self,
        block: &[u8],
        mut ranges: &[Range<usize>],
    ) -> Result<Vec<DeviceConstant<DeviceBuffer>>, GpuError> {
        let limit = self.device.wgpu().limits().max_buffer_size;
        let mut constants = Vec::with_capacity(ranges.len());
        while !ranges.is_empty() {
            let (offsets, size) = together(ranges, limit);
            if size as u64 > limit {
                return Err(too_large(size, limit));
            }
            let buffer = Arc::new(DeviceBuffer::new(&self.device, size)?);
            let mut staging = self.vulkan().buffer(size, Use::Write)?;
            for (range, offset) in ranges.iter().zip(&offsets) {
                // SAFETY: the device does not use the buffer yet.
                let place = unsafe { staging.bytes_mut(*offset..offset + range.len()) };
                place.copy_from_slice(&block[range.clone()]);
                constants.push(DeviceConstant { buffer: buffer.clone(), offset: *offset });
            }
            let copied = self.copy_once((staging.raw, 0), (buffer.raw(), 0), size);
            // SAFETY: the copy has ended, or the device is idle.
            unsafe { self.vulkan().free(staging) };
            copied?;
            ranges = &ranges[offsets.len()..];
        }
        Ok(constants)
    }

    /// Copies a range of a buffer to the host through the first queue, and waits for the copy and for
    /// everything that was submitted to that queue before.
    pub(super) fn download(&mut self, Slice { buffer, range }: &Slice, bytes: &mut [u8]) -> Result<(), GpuError> {
        let size = range.len().min(bytes.len());
        let staging = self.vulkan().buffer(range.len(), Use::Read)?;
        let copied = self.copy_once((self.raw(*buffer), range.start), (staging.raw, 0), range.len());
        let copied = copied.and_then(|()| self.vulkan().invalidate(&staging, 0..size));
        if copied.is_ok() {
            // SAFETY: the copy has ended, and the device does not use the buffer otherwise.
            bytes[..size].copy_from_slice(unsafe { staging.bytes(0..size) });
        }
        // SAFETY: the copy has ended, or the device is idle.
        unsafe { self.vulkan().free(staging) };
        copied
    }

    /// Copies this many bytes, at least 4, from a buffer and offset to another buffer and offset, and waits
    /// for the copy.
    fn copy_once(&mut self, from: (vk::Buffer, usize), to: (vk::Buffer, usize), bytes: usize) -> Result<(), GpuError> {
        let commands = self.command_buffer()?;
        let region = vk::BufferCopy { src_offset: from.1 as u64, dst_offset: to.1 as u64, size: bytes.max(4) as u64 };
        // SAFETY: both buffers have this many bytes, and exist until the copy has ended.
        unsafe { self.vulkan().raw.cmd_copy_buffer(commands, from.0, to.0, &[region]) };
        let copied = vk::AccessFlags::TRANSFER_WRITE;
        let to_host = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
        self.barrier(commands, (vk::PipelineStageFlags::TRANSFER, copied), to_host);
        let copied = self.end(commands).and_then(|()| self.device.noted(self.vulkan().run(commands)));
        // SAFETY: the copy has ended or the device is idle, and the pool belongs to the recording.
        unsafe { self.vulkan().raw.free_command_buffers(self.commands, &[commands]) };
        copied
    }

    /// Allocates a command buffer and begins recording to it.
    pub(super) fn command_buffer(&mut self) -> Result<vk::CommandBuffer, GpuError> {
        if self.commands == vk::CommandPool::null() {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.vulkan().family);
            // SAFETY: the family is that of the queue.
            let pool = unsafe { self.vulkan().raw.create_command_pool(&info, None) };
            self.commands = pool.map_err(failed("a command pool"))?;
        }
        let raw = &self.vulkan().raw;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.commands)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool belongs to the recording.
        let commands = unsafe { raw.allocate_command_buffers(&info) }.map_err(failed("a command buffer"))?[0];
        // Several runs of the command buffer may be pending at once.
        let flags = vk::CommandBufferUsageFlags::SIMULTANEOUS_USE;
        let info = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: the buffer was just allocated.
        unsafe { raw.begin_command_buffer(commands, &info) }.map_err(failed("recording"))?;
        Ok(commands)
    }

    /// Ends recording of a command buffer.
    pub(super) fn end(&self, commands: vk::CommandBuffer) -> Result<(), GpuError> {
        // SAFETY: the buffer is recording, and nothing else uses it.
        unsafe { self.vulkan().raw.end_command_buffer(commands) }.map_err(failed("recording"))
    }

    /// Records a memory barrier from the stages and accesses `before` the barrier to those `after` it.
    pub(super) fn barrier(
        &self,
        commands: vk::CommandBuffer,
        before: (vk::PipelineStageFlags, vk::AccessFlags),
        after: (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let memory = vk::MemoryBarrier::default().src_access_mask(before.1).dst_access_mask(after.1);
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is recording.
        unsafe { self.vulkan().raw.cmd_pipeline_barrier(commands, before.0, after.0, none, &[memory], &[], &[]) };
    }

    /// Records the copy of a value between slices. Only the bytes whose destination is in `range`, a range of
    /// the destination buffer, are copied.
    pub(super) fn copy(&self, commands: vk::CommandBuffer, from: &Slice, to: &Slice, range: &Range<usize>) {
        let start = range.start.max(to.range.start);
        let end = range.end.min(to.range.end).min(to.range.start + from.range.len());
        if start < end {
            let region = vk::BufferCopy {
                src_offset: (from.range.start + start - to.range.start) as u64,
                dst_offset: start as u64,
                size: (end - start) as u64,
            };
            let [from, to] = [from.buffer, to.buffer].map(|buffer| self.raw(buffer));
            // SAFETY: both ranges are inside their buffers.
            unsafe { self.vulkan().raw.cmd_copy_buffer(commands, from, to, &[region]) };
        }
    }
}

fn too_large(bytes: usize, limit: u64) -> GpuError {
    let message = format!("a buffer of {bytes} bytes is more than the device's {limit}");
    GpuError::new(GpuErrorKind::Unsupported, message)
}

impl Drop for ReplayResources {
    fn drop(&mut self) {
        let device = self.device.clone();
        // These may be the last references to the pipelines, which have to be destroyed before their device.
        self.pipelines.clear();
        let vulkan = device.vulkan().expect("recordings are made where it is");
        // SAFETY: no run is pending. A recording drops its submissions, which wait, before its resources; an unfinished
        // recording has submitted none.
        unsafe {
            vulkan.raw.destroy_query_pool(self.queries, None);
            vulkan.raw.destroy_command_pool(self.commands, None);
            self.descriptors.iter().for_each(|pool| vulkan.raw.destroy_descriptor_pool(*pool, None));
            std::mem::take(&mut self.buffers).into_iter().for_each(|buffer| vulkan.free(buffer));
        }
    }
}
