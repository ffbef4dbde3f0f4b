//! Values that one recording leaves on the device for others, in memory that belongs to all of them, so that what only the
//! device reads crosses no bus. Those that share submit to one queue, in the order in which they run.
#![allow(unsafe_code)]

use std::sync::Arc;

use ash::vk;

use super::hazards::Slice;
use super::owned::Owned;
use crate::device::Device;
use crate::device::vulkan::{Buffer, Use};
use crate::kernel::GpuError;

/// Memory of one value, the device's alone.
pub(super) struct Shared {
    device: Device,
    /// There until this is dropped.
    buffer: Option<Buffer>,
    bytes: usize,
}

// SAFETY: the host does not see the memory: nothing of the buffer but its handle is used before it is freed.
unsafe impl Sync for Shared {}

impl Shared {
    fn raw(&self) -> vk::Buffer {
        self.buffer.as_ref().map_or(vk::Buffer::null(), |buffer| buffer.raw)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let (Some(vulkan), Some(buffer)) = (self.device.vulkan(), self.buffer.take()) {
            // SAFETY: recordings that use it hold it until their runs have ended.
            unsafe { vulkan.free(buffer) };
        }
    }
}

/// What a recording takes from others before each run and leaves to others after it.
#[derive(Default)]
pub(super) struct Links {
    taken: Vec<(Arc<Shared>, Slice)>,
    /// By output.
    left: Vec<(usize, Slice, Arc<Shared>)>,
    before: Option<vk::CommandBuffer>,
    after: Option<vk::CommandBuffer>,
    /// Whether commands are those of what is taken and left.
    is_recorded: bool,
}

impl Links {
    /// Memory to which an output, which lies there in a run, goes after each run from now on.
    pub(super) fn leave(&mut self, owned: &Owned, output: usize, from: &Slice) -> Result<Arc<Shared>, GpuError> {
        if let Some((_, _, shared)) = self.left.iter().find(|(other, ..)| *other == output) {
            return Ok(shared.clone());
        }
        let bytes = from.range.len();
        let buffer = Some(owned.vulkan().buffer(bytes, Use::Device)?);
        let shared = Arc::new(Shared { device: owned.device.clone(), buffer, bytes });
        self.left.push((output, from.clone(), shared.clone()));
        self.is_recorded = false;
        Ok(shared)
    }

    /// Whether an input, which lies there, comes from shared memory before each run from now on; not where it is of another
    /// device or size.
    pub(super) fn take(&mut self, owned: &Owned, shared: &Arc<Shared>, to: &Slice) -> bool {
        let own = shared.device.vulkan().map(|vulkan| vulkan.raw.handle()) == Some(owned.vulkan().raw.handle());
        if !own || shared.bytes != to.range.len() {
            return false;
        }
        self.taken.retain(|(_, other)| other.range != to.range);
        self.taken.push((shared.clone(), to.clone()));
        self.is_recorded = false;
        true
    }

    /// The commands before and after those of a run.
    pub(super) fn commands(&mut self, owned: &mut Owned) -> Result<[Option<vk::CommandBuffer>; 2], GpuError> {
        if !self.is_recorded {
            let copy = |owned: &Owned, from: &Slice| (owned.buffers[from.buffer].raw, from.range.start as u64);
            let taken = self.taken.iter().map(|(shared, to)| ((shared.raw(), 0), copy(owned, to), shared.bytes));
            let taken: Vec<Copy> = taken.collect();
            let left = self.left.iter().map(|(_, from, shared)| (copy(owned, from), (shared.raw(), 0), shared.bytes));
            let left: Vec<Copy> = left.collect();
            (self.before, self.after) = (record(owned, &taken)?, record(owned, &left)?);
            self.is_recorded = true;
        }
        Ok([self.before, self.after])
    }
}

/// From a buffer and an offset to others, so many bytes.
type Copy = ((vk::Buffer, u64), (vk::Buffer, u64), usize);

/// Copies after everything before them and before everything after them; `None` where there are none.
fn record(owned: &mut Owned, copies: &[Copy]) -> Result<Option<vk::CommandBuffer>, GpuError> {
    use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
    if copies.is_empty() {
        return Ok(None);
    }
    let commands = owned.command_buffer()?;
    let all = Stage::COMPUTE_SHADER | Stage::TRANSFER;
    let written = Access::SHADER_WRITE | Access::TRANSFER_WRITE;
    let copied = Access::TRANSFER_READ | Access::TRANSFER_WRITE;
    owned.barrier(commands, (all, written), (Stage::TRANSFER, copied));
    for ((from, src_offset), (to, dst_offset), bytes) in copies {
        let region = vk::BufferCopy { src_offset: *src_offset, dst_offset: *dst_offset, size: *bytes as u64 };
        // SAFETY: both ranges lie in their buffers, which live as long as the recording.
        unsafe { owned.vulkan().raw.cmd_copy_buffer(commands, *from, *to, &[region]) };
    }
    let used = Access::SHADER_READ | Access::SHADER_WRITE | copied;
    owned.barrier(commands, (Stage::TRANSFER, Access::TRANSFER_WRITE), (all, used));
    owned.end(commands)?;
    Ok(Some(commands))
}
