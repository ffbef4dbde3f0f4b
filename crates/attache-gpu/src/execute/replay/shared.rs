//! Outputs that one recording passes to others as inputs, through shared device memory instead of the host.
//! Recordings that share values submit to the same queue in the order of their runs.
#![allow(unsafe_code)]

use std::sync::Arc;

use ash::vk;

use super::Slice;
use super::resources::ReplayResources;
use crate::device::vulkan::DeviceBuffer;
use crate::kernel::GpuError;

/// Shared device memory of one value: an output of one recording that is an input of others.
pub(super) struct Shared {
    buffer: DeviceBuffer,
    bytes: usize,
}

/// The inputs that a recording copies from shared memory before each run, and the outputs that it copies to
/// shared memory after each run.
#[derive(Default)]
pub(super) struct Links {
    taken: Vec<(Arc<Shared>, Slice)>,
    /// For each shared output, its index, its location in the recording, and the shared memory.
    left: Vec<(usize, Slice, Arc<Shared>)>,
    before: Option<vk::CommandBuffer>,
    after: Option<vk::CommandBuffer>,
    /// Whether `before` and `after` contain the copies of all values in `taken` and `left`.
    is_recorded: bool,
}

impl Links {
    /// Whether the recording shares nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.left.is_empty()
    }

    /// Copies the output at this slice to shared memory after each run from now on, and returns the shared
    /// memory.
    pub(super) fn leave(
        &mut self,
        resources: &ReplayResources,
        output: usize,
        from: &Slice,
    ) -> Result<Arc<Shared>, GpuError> {
        if let Some((_, _, shared)) = self.left.iter().find(|(other, ..)| *other == output) {
            return Ok(shared.clone());
        }
        let bytes = from.range.len();
        let shared = Arc::new(Shared { buffer: DeviceBuffer::new(&resources.device, bytes)?, bytes });
        self.left.push((output, from.clone(), shared.clone()));
        self.is_recorded = false;
        Ok(shared)
    }

    /// Copies shared memory to the input at this slice before each run from now on, and returns true. Returns
    /// false and changes nothing if the memory belongs to another device or has another size.
    pub(super) fn take(&mut self, resources: &ReplayResources, shared: &Arc<Shared>, to: &Slice) -> bool {
        let own =
            shared.buffer.device().vulkan().map(|vulkan| vulkan.raw.handle()) == Some(resources.vulkan().raw.handle());
        if !own || shared.bytes != to.range.len() {
            return false;
        }
        self.taken.retain(|(_, other)| other.range != to.range);
        self.taken.push((shared.clone(), to.clone()));
        self.is_recorded = false;
        true
    }

    /// Returns the command buffers to submit before and after those of a run; `None` where there is nothing
    /// to copy. Records them if values were added.
    pub(super) fn commands(
        &mut self,
        resources: &mut ReplayResources,
    ) -> Result<[Option<vk::CommandBuffer>; 2], GpuError> {
        if !self.is_recorded {
            let copy =
                |resources: &ReplayResources, from: &Slice| (resources.raw(from.buffer), from.range.start as u64);
            let taken =
                self.taken.iter().map(|(shared, to)| ((shared.buffer.raw(), 0), copy(resources, to), shared.bytes));
            let taken: Vec<Copy> = taken.collect();
            let left = self
                .left
                .iter()
                .map(|(_, from, shared)| (copy(resources, from), (shared.buffer.raw(), 0), shared.bytes));
            let left: Vec<Copy> = left.collect();
            (self.before, self.after) = (record(resources, &taken)?, record(resources, &left)?);
            self.is_recorded = true;
        }
        Ok([self.before, self.after])
    }
}

/// A copy: the source buffer and offset, the destination buffer and offset, and the number of bytes.
type Copy = ((vk::Buffer, u64), (vk::Buffer, u64), usize);

/// Records copies into a new command buffer, with a barrier that waits for all earlier commands, and a
/// barrier for which all later commands wait. `None` if there are no copies.
fn record(resources: &mut ReplayResources, copies: &[Copy]) -> Result<Option<vk::CommandBuffer>, GpuError> {
    use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
    if copies.is_empty() {
        return Ok(None);
    }
    let commands = resources.command_buffer()?;
    let all = Stage::COMPUTE_SHADER | Stage::TRANSFER;
    let written = Access::SHADER_WRITE | Access::TRANSFER_WRITE;
    let copied = Access::TRANSFER_READ | Access::TRANSFER_WRITE;
    resources.barrier(commands, (all, written), (Stage::TRANSFER, copied));
    for ((from, src_offset), (to, dst_offset), bytes) in copies {
        let region = vk::BufferCopy { src_offset: *src_offset, dst_offset: *dst_offset, size: *bytes as u64 };
        // SAFETY: both ranges are inside their buffers, which exist as long as the recording.
        unsafe { resources.vulkan().raw.cmd_copy_buffer(commands, *from, *to, &[region]) };
    }
    let used = Access::SHADER_READ | Access::SHADER_WRITE | copied;
    resources.barrier(commands, (Stage::TRANSFER, Access::TRANSFER_WRITE), (all, used));
    resources.end(commands)?;
    Ok(Some(commands))
}
