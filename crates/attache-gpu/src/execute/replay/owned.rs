//! What a replayed recording owns: memory, command buffers and what they bind; and copies that are done once.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use ash::vk;

use super::hazards::Slice;
use crate::device::Device;
use crate::device::vulkan::{Buffer, Pipeline, Use, Vulkan, failed};
use crate::kernel::{GpuError, GpuErrorKind};

/// What a recording owns, freed with it.
pub(super) struct Owned {
    pub(super) device: Device,
    /// Of each dispatch.
    pub(super) pipelines: Vec<Arc<Pipeline>>,
    pub(super) buffers: Vec<Buffer>,
    pub(super) descriptors: Vec<vk::DescriptorPool>,
    commands: vk::CommandPool,
    /// A timestamp before and after each dispatch, where the recording is timed.
    pub(super) queries: vk::QueryPool,
}

impl Owned {
    /// Nothing yet, on a device that has Vulkan's side.
    pub(super) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            pipelines: Vec::new(),
            buffers: Vec::new(),
            descriptors: Vec::new(),
            commands: vk::CommandPool::null(),
            queries: vk::QueryPool::null(),
        }
    }

    pub(super) fn vulkan(&self) -> &Vulkan {
        self.device.vulkan().expect("recordings are made where it is")
    }

    /// One more buffer, where the device allows one so large.
    pub(super) fn add(&mut self, bytes: usize, purpose: Use) -> Result<(), GpuError> {
        let limit = self.device.wgpu().limits().max_buffer_size;
        if bytes as u64 > limit {
            let message = format!("a buffer of {bytes} bytes is more than the device's {limit}");
            return Err(GpuError::new(GpuErrorKind::Unsupported, message));
        }
        let buffer = self.vulkan().buffer(bytes, purpose)?;
        self.buffers.push(buffer);
        Ok(())
    }

    /// Copies bytes to the begin of a buffer.
    pub(super) fn upload(&mut self, bytes: &[u8], buffer: usize) -> Result<(), GpuError> {
        let mut staging = self.vulkan().buffer(bytes.len(), Use::Write)?;
        // SAFETY: the device doesn't know the buffer yet.
        let place = unsafe { staging.bytes_mut(0..bytes.len()) };
        place.copy_from_slice(bytes);
        let copied = self.copy_once((staging.raw, 0), (self.buffers[buffer].raw, 0), bytes.len());
        // SAFETY: the copy has ended, or the device is idle.
        unsafe { self.vulkan().free(staging) };
        copied
    }

    /// Copies what lies in a range of a buffer to the host, once all that was submitted has ended.
    pub(super) fn download(&mut self, Slice { buffer, range }: &Slice, bytes: &mut [u8]) -> Result<(), GpuError> {
        let size = range.len().min(bytes.len());
        let staging = self.vulkan().buffer(range.len(), Use::Read)?;
        let copied = self.copy_once((self.buffers[*buffer].raw, range.start), (staging.raw, 0), range.len());
        let copied = copied.and_then(|()| self.vulkan().invalidate(&staging, 0..size));
        if copied.is_ok() {
            // SAFETY: the copy has ended, and the device knows nothing else of the buffer.
            bytes[..size].copy_from_slice(unsafe { staging.bytes(0..size) });
        }
        // SAFETY: the copy has ended, or the device is idle.
        unsafe { self.vulkan().free(staging) };
        copied
    }

    /// Copies so many bytes, at least a word, between buffers that have them at these offsets, and waits for that.
    fn copy_once(&mut self, from: (vk::Buffer, usize), to: (vk::Buffer, usize), bytes: usize) -> Result<(), GpuError> {
        let commands = self.command_buffer()?;
        let region = vk::BufferCopy { src_offset: from.1 as u64, dst_offset: to.1 as u64, size: bytes.max(4) as u64 };
        // SAFETY: both buffers have that many bytes, and live until the copy has ended.
        unsafe { self.vulkan().raw.cmd_copy_buffer(commands, from.0, to.0, &[region]) };
        let copied = vk::AccessFlags::TRANSFER_WRITE;
        let to_host = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
        self.barrier(commands, (vk::PipelineStageFlags::TRANSFER, copied), to_host);
        let copied = self.end(commands).and_then(|()| self.device.noted(self.vulkan().run(commands)));
        // SAFETY: the copy has ended, or the device is idle, and the pool is the recording's own.
        unsafe { self.vulkan().raw.free_command_buffers(self.commands, &[commands]) };
        copied
    }

    /// A command buffer that records.
    pub(super) fn command_buffer(&mut self) -> Result<vk::CommandBuffer, GpuError> {
        if self.commands == vk::CommandPool::null() {
            let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.vulkan().family);
            // SAFETY: the family is the queue's.
            let pool = unsafe { self.vulkan().raw.create_command_pool(&info, None) };
            self.commands = pool.map_err(failed("a command pool"))?;
        }
        let raw = &self.vulkan().raw;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.commands)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is the recording's own.
        let commands = unsafe { raw.allocate_command_buffers(&info) }.map_err(failed("a command buffer"))?[0];
        // Several runs may be under way at once.
        let flags = vk::CommandBufferUsageFlags::SIMULTANEOUS_USE;
        let info = vk::CommandBufferBeginInfo::default().flags(flags);
        // SAFETY: the buffer was just allocated.
        unsafe { raw.begin_command_buffer(commands, &info) }.map_err(failed("recording"))?;
        Ok(commands)
    }

    /// Ends what a command buffer records.
    pub(super) fn end(&self, commands: vk::CommandBuffer) -> Result<(), GpuError> {
        // SAFETY: the buffer records, and nobody else uses it.
        unsafe { self.vulkan().raw.end_command_buffer(commands) }.map_err(failed("recording"))
    }

    /// Has everything `after` wait for everything `before`.
    pub(super) fn barrier(
        &self,
        commands: vk::CommandBuffer,
        before: (vk::PipelineStageFlags, vk::AccessFlags),
        after: (vk::PipelineStageFlags, vk::AccessFlags),
    ) {
        let memory = vk::MemoryBarrier::default().src_access_mask(before.1).dst_access_mask(after.1);
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer records.
        unsafe { self.vulkan().raw.cmd_pipeline_barrier(commands, before.0, after.0, none, &[memory], &[], &[]) };
    }

    /// Records the copy of a value, as far as its copy lies in this range.
    pub(super) fn copy(&self, commands: vk::CommandBuffer, from: &Slice, to: &Slice, range: &Range<usize>) {
        let start = range.start.max(to.range.start);
        let end = range.end.min(to.range.end).min(to.range.start + from.range.len());
        if start < end {
            let region = vk::BufferCopy {
                src_offset: (from.range.start + start - to.range.start) as u64,
                dst_offset: start as u64,
                size: (end - start) as u64,
            };
            let [from, to] = [from.buffer, to.buffer].map(|buffer| self.buffers[buffer].raw);
            // SAFETY: both ranges lie in their buffers.
            unsafe { self.vulkan().raw.cmd_copy_buffer(commands, from, to, &[region]) };
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let device = self.device.clone();
        // They may be the last to hold these, and pipelines go before the device that they name.
        self.pipelines.clear();
        let vulkan = device.vulkan().expect("recordings are made where it is");
        // SAFETY: no run is under way: a recording's submissions go before this, and one that was never finished had none.
        unsafe {
            vulkan.raw.destroy_query_pool(self.queries, None);
            vulkan.raw.destroy_command_pool(self.commands, None);
            self.descriptors.iter().for_each(|pool| vulkan.raw.destroy_descriptor_pool(*pool, None));
            std::mem::take(&mut self.buffers).into_iter().for_each(|buffer| vulkan.free(buffer));
        }
    }
}
