//! Copies between the host and memory that the caller binds, outside of runs.
#![allow(unsafe_code)]

use ash::vk;
use vk::{AccessFlags as Access, PipelineStageFlags as Stage};

use super::{Buffer, Use, Vulkan, failed};
use crate::kernel::GpuError;

/// The stages and accesses of runs and copies.
pub(crate) const STAGES: Stage = Stage::from_raw(Stage::COMPUTE_SHADER.as_raw() | Stage::TRANSFER.as_raw());
pub(crate) const WRITES: Access = Access::from_raw(Access::SHADER_WRITE.as_raw() | Access::TRANSFER_WRITE.as_raw());
pub(crate) const USES: Access =
    Access::from_raw(WRITES.as_raw() | Access::SHADER_READ.as_raw() | Access::TRANSFER_READ.as_raw());

/// Whether a queue takes over memory from other users or leaves it to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    Acquire,
    Release,
}

/// The bytes of a copy outside of runs.
pub(crate) enum Bytes<'a> {
    Write(&'a [u8]),
    Read(&'a mut [u8]),
}

impl Vulkan {
    /// Records the transfer of the ownership of a buffer between the queue family and `others`, the family that stands
    /// for its other users.
    pub(crate) fn own(&self, commands: vk::CommandBuffer, buffer: vk::Buffer, others: u32, what: Ownership) {
        let barrier = vk::BufferMemoryBarrier::default().buffer(buffer).size(vk::WHOLE_SIZE);
        let (barrier, stages) = match what {
            Ownership::Acquire => (
                barrier.src_queue_family_index(others).dst_queue_family_index(self.family).dst_access_mask(USES),
                (STAGES, STAGES),
            ),
            Ownership::Release => (
                barrier.src_queue_family_index(self.family).dst_queue_family_index(others).src_access_mask(WRITES),
                (STAGES, Stage::BOTTOM_OF_PIPE),
            ),
        };
        let none = vk::DependencyFlags::empty();
        // SAFETY: the command buffer is recording, and the buffer exists as long as it.
        unsafe { self.raw.cmd_pipeline_barrier(commands, stages.0, stages.1, none, &[], &[barrier], &[]) };
    }

    /// Copies bytes from or to a buffer at an offset, in the order of the first queue, and waits for that. `others` is
    /// the queue family of other users of the buffer; `None` if it has none.
    pub(crate) fn transfer(
        &self,
        buffer: vk::Buffer,
        others: Option<u32>,
        offset: usize,
        bytes: Bytes<'_>,
    ) -> Result<(), GpuError> {
        let (size, purpose) = match &bytes {
            Bytes::Write(bytes) => (bytes.len(), Use::Write),
            Bytes::Read(bytes) => (bytes.len(), Use::Read),
        };
        if size == 0 {
            return Ok(());
        }
        let mut staging = self.buffer(size, purpose)?;
        if let Bytes::Write(bytes) = &bytes {
            // SAFETY: the device does not use the buffer yet.
            unsafe { staging.bytes_mut(0..size) }.copy_from_slice(bytes);
        }
        let copied = self.copy(buffer, others, offset, (&staging, purpose));
        if let (Ok(()), Bytes::Read(bytes)) = (&copied, bytes) {
            // SAFETY: the copy has ended.
            bytes.copy_from_slice(unsafe { staging.bytes(0..size) });
        }
        // SAFETY: the copy has ended, or the device is idle.
        unsafe { self.free(staging) };
        copied
    }

    fn copy(
        &self,
        buffer: vk::Buffer,
        others: Option<u32>,
        offset: usize,
        (staging, purpose): (&Buffer, Use),
    ) -> Result<(), GpuError> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(self.family);
        // SAFETY: the family is that of the queue.
        let pool = unsafe { self.raw.create_command_pool(&info, None) }.map_err(failed("a command pool"))?;
        let recorded = self.record_copy(pool, (buffer, others), offset, (staging, purpose));
        let copied = recorded.and_then(|commands| self.run(commands));
        // SAFETY: the copy has ended, or the device is idle.
        unsafe { self.raw.destroy_command_pool(pool, None) };
        copied.and_then(|()| self.invalidate(staging, 0..staging.size))
    }

    fn record_copy(
        &self,
        pool: vk::CommandPool,
        (buffer, others): (vk::Buffer, Option<u32>),
        offset: usize,
        (staging, purpose): (&Buffer, Use),
    ) -> Result<vk::CommandBuffer, GpuError> {
        let primary = vk::CommandBufferLevel::PRIMARY;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).level(primary).command_buffer_count(1);
        let (raw, none) = (&self.raw, vk::DependencyFlags::empty());
        // SAFETY: the pool is new.
        let commands = unsafe { raw.allocate_command_buffers(&info) }.map_err(failed("a command buffer"))?[0];
        let barrier = |from: (Stage, Access), to: (Stage, Access)| {
            let memory = vk::MemoryBarrier::default().src_access_mask(from.1).dst_access_mask(to.1);
            // SAFETY: the command buffer is recording.
            unsafe { raw.cmd_pipeline_barrier(commands, from.0, to.0, none, &[memory], &[], &[]) };
        };
        // SAFETY: the command buffer was just allocated.
        let begun = unsafe { raw.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()) };
        begun.map_err(failed("recording"))?;
        barrier((STAGES, WRITES), (Stage::TRANSFER, Access::TRANSFER_READ | Access::TRANSFER_WRITE));
        if let Some(others) = others {
            self.own(commands, buffer, others, Ownership::Acquire);
        }
        let (there, here) = (offset as u64, 0);
        let (from, to, src_offset, dst_offset) = match purpose {
            Use::Read => (buffer, staging.raw, there, here),
            Use::Write | Use::Device => (staging.raw, buffer, here, there),
        };
        let region = vk::BufferCopy { src_offset, dst_offset, size: staging.size as u64 };
        // SAFETY: both buffers have this many bytes, and exist until the copy has ended.
        unsafe { raw.cmd_copy_buffer(commands, from, to, &[region]) };
        barrier((Stage::TRANSFER, Access::TRANSFER_WRITE), (STAGES | Stage::HOST, USES | Access::HOST_READ));
        if let Some(others) = others {
            self.own(commands, buffer, others, Ownership::Release);
        }
        // SAFETY: the command buffer is recording.
        unsafe { raw.end_command_buffer(commands) }.map_err(failed("recording"))?;
        Ok(commands)
    }
}
