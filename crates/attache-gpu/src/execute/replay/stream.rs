//! Streams of a replayed recording, each with its own command buffers, arena and submissions. The runs of one
//! stream execute in order. Runs of different streams may execute concurrently. Stream `n` submits to queue
//! `n`, modulo the number of queues.
#![allow(unsafe_code)]

use std::ops::Range;

use ash::vk;

use super::resources::ReplayResources;
use super::submissions::Submissions;
use super::{BufferId, Slice};
use crate::device::vulkan::{Layout, failed};
use crate::execute::Wait;
use crate::kernel::GpuError;

/// The commands of a run, from which each stream records its command buffers. Arena locations are given in
/// the first stream's arena.
pub(super) struct CommandList {
    pub(super) dispatches: Vec<ListedDispatch>,
    pub(super) slots: Vec<Bindings>,
    /// For each slot, the parts of the outputs, as byte ranges of the buffer that the host reads. The copy of
    /// the first part is submitted with the run itself, the copies of the others after it.
    pub(super) parts: Vec<Vec<Range<usize>>>,
    /// The index of the first stream's arena among the recording's buffers.
    pub(super) arena: BufferId,
    /// The size of each stream's arena in bytes.
    pub(super) arena_bytes: usize,
    /// Whether timestamps are written before and after each dispatch.
    pub(super) timed: bool,
    /// How the host waits for runs.
    pub(super) wait: Wait,
}

/// The part of a dispatch that is the same for the runs of all slots.
pub(super) struct ListedDispatch {
    pub(super) pipeline: vk::Pipeline,
    pub(super) layout: Layout,
    pub(super) groups: [u32; 3],
    /// Whether a barrier before the dispatch makes it wait for earlier dispatches.
    pub(super) needs_barrier: bool,
}

/// The buffer ranges that the runs of one slot use.
pub(super) struct Bindings {
    /// For each dispatch, the ranges that it binds. The parameters come first.
    pub(super) dispatches: Vec<Vec<Slice>>,
    /// For each output, its location on the device, and the location in memory that the host reads to which
    /// it is copied.
    pub(super) outputs: Vec<[Slice; 2]>,
}

/// The recorded commands of one stream, and its submissions.
pub(super) struct Stream {
    pub(super) submissions: Submissions,
    /// The recorded commands of each slot.
    pub(super) slots: Vec<Recorded>,
    /// The number of barriers between the dispatches of a run.
    pub(super) barriers: usize,
}

/// The command buffers that the runs of one slot submit.
pub(super) struct Recorded {
    /// The command buffer with all dispatches of a run.
    pub(super) commands: vk::CommandBuffer,
    /// For each part of the outputs, the command buffer that copies it to memory that the host reads.
    pub(super) copies: Vec<vk::CommandBuffer>,
}

impl CommandList {
    /// Records a stream that submits to the queue with the index `queue` and whose arena is the buffer with
    /// the index `arena`.
    pub(super) fn record(
        &self,
        resources: &mut ReplayResources,
        (queue, arena): (usize, BufferId),
    ) -> Result<Stream, GpuError> {
        let mut recorder = Recorder { command_list: self, resources, arena };
        let sets = recorder.descriptor_sets()?;
        let (mut slots, mut barriers) = (Vec::with_capacity(self.slots.len()), 0);
        for (slot, sets) in sets.iter().enumerate() {
            let commands = recorder.resources.command_buffer()?;
            barriers = recorder.dispatches(commands, sets);
            recorder.resources.end(commands)?;
            slots.push(Recorded { commands, copies: recorder.copies(slot)? });
        }
        Ok(Stream { submissions: Submissions::new(&resources.device, queue, self.wait), slots, barriers })
    }
}

impl CommandList {
    /// Records the command buffers that copy a slot's outputs again, for a stream whose arena is the buffer
    /// with the index `arena`.
    pub(super) fn copies(
        &self,
        resources: &mut ReplayResources,
        arena: BufferId,
        slot: usize,
    ) -> Result<Vec<vk::CommandBuffer>, GpuError> {
        Recorder { command_list: self, resources, arena }.copies(slot)
    }
}

struct Recorder<'a> {
    command_list: &'a CommandList,
    resources: &'a mut ReplayResources,
    arena: BufferId,
}

impl Recorder<'_> {
    /// Returns the slice with the first stream's arena replaced by the arena of the stream that is recorded.
    fn own(&self, slice: &Slice) -> Slice {
        let buffer = if slice.buffer == self.command_list.arena { self.arena } else { slice.buffer };
        Slice { buffer, range: slice.range.clone() }
    }

    fn described(&self, slice: &Slice) -> vk::DescriptorBufferInfo {
        vk::DescriptorBufferInfo {
            buffer: self.resources.raw(self.own(slice).buffer),
            offset: slice.range.start as u64,
            range: slice.range.len() as u64,
        }
    }

    /// Allocates and writes a descriptor set for each dispatch of each slot. Returns the sets of each slot.
    fn descriptor_sets(&mut self) -> Result<Vec<Vec<vk::DescriptorSet>>, GpuError> {
        let bound: Vec<&Vec<Slice>> = self.command_list.slots.iter().flat_map(|slot| &slot.dispatches).collect();
        let (sets, buffers) = (bound.len() as u32, bound.iter().map(|slices| slices.len() as u32 - 1).sum::<u32>());
        if sets == 0 {
            return Ok(vec![Vec::new(); self.command_list.slots.len()]);
        }
        let (vulkan, params) = (self.resources.vulkan(), self.resources.vulkan().params());
        let size = |kind, count| vk::DescriptorPoolSize { ty: kind, descriptor_count: count };
        let sizes = [size(params, sets), size(vk::DescriptorType::STORAGE_BUFFER, buffers.max(1))];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the device exists.
        let pool = unsafe { vulkan.raw.create_descriptor_pool(&info, None) }.map_err(failed("descriptors"))?;
        self.resources.descriptors.push(pool);
        let layouts = self.command_list.dispatches.iter().map(|dispatch| dispatch.layout.set);
        let layouts: Vec<_> = layouts.cycle().take(bound.len()).collect();
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        let raw = &self.resources.vulkan().raw;
        // SAFETY: the pool has room for this many sets and buffers.
        let sets = unsafe { raw.allocate_descriptor_sets(&info) }.map_err(failed("descriptors"))?;
        for (set, slices) in sets.iter().zip(&bound) {
            let infos: Vec<vk::DescriptorBufferInfo> = slices.iter().map(|slice| self.described(slice)).collect();
            let write = vk::WriteDescriptorSet::default().dst_set(*set);
            let storage = vk::DescriptorType::STORAGE_BUFFER;
            let mut writes = vec![write.dst_binding(0).descriptor_type(params).buffer_info(&infos[..1])];
            if infos.len() > 1 {
                writes.push(write.dst_binding(1).descriptor_type(storage).buffer_info(&infos[1..]));
            }
            // SAFETY: the set is new, and the buffers exist as long as the set. Bindings of one descriptor type are
            // consecutive, so one write updates all of them.
            unsafe { raw.update_descriptor_sets(&writes, &[]) };
        }
        Ok(sets.chunks(self.command_list.dispatches.len()).map(<[_]>::to_vec).collect())
    }

    /// Records all dispatches and returns the number of barriers between them.
    fn dispatches(&self, commands: vk::CommandBuffer, sets: &[vk::DescriptorSet]) -> usize {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let raw = &self.resources.vulkan().raw;
        let all = Stage::COMPUTE_SHADER | Stage::TRANSFER;
        let written = Access::SHADER_WRITE | Access::TRANSFER_WRITE;
        let shader = Access::SHADER_READ | Access::SHADER_WRITE | Access::UNIFORM_READ;
        let used = shader | Access::TRANSFER_READ | Access::TRANSFER_WRITE;
        if self.command_list.timed && !sets.is_empty() {
            let stamps = 2 * sets.len() as u32;
            // SAFETY: the command buffer is recording, and the pool has this many timestamps.
            unsafe { raw.cmd_reset_query_pool(commands, self.resources.queries, 0, stamps) };
        }
        // Wait for the stream's previous run.
        self.resources.barrier(commands, (all, written), (all, used));
        let mut barriers = 0;
        for (index, (dispatch, set)) in self.command_list.dispatches.iter().zip(sets).enumerate() {
            if dispatch.needs_barrier {
                barriers += 1;
                let shader = Access::SHADER_READ | Access::SHADER_WRITE;
                let (before, after) = ((Stage::COMPUTE_SHADER, Access::SHADER_WRITE), (Stage::COMPUTE_SHADER, shader));
                self.resources.barrier(commands, before, after);
            }
            let [x, y, z] = dispatch.groups;
            let point = vk::PipelineBindPoint::COMPUTE;
            self.stamp(commands, 2 * index);
            // SAFETY: the command buffer is recording, and everything that is bound exists as long as the command
            // buffer.
            unsafe {
                raw.cmd_bind_pipeline(commands, point, dispatch.pipeline);
                raw.cmd_bind_descriptor_sets(commands, point, dispatch.layout.pipeline, 0, &[*set], &[]);
                raw.cmd_dispatch(commands, x, y, z);
            }
            self.stamp(commands, 2 * index + 1);
        }
        barriers
    }

    /// Records, if the recording is timed, the write of the timestamp with the index `stamp`, which happens
    /// once all earlier dispatches have ended.
    fn stamp(&self, commands: vk::CommandBuffer, stamp: usize) {
        if self.command_list.timed {
            let (stage, queries) = (vk::PipelineStageFlags::COMPUTE_SHADER, self.resources.queries);
            // SAFETY: the command buffer is recording, and the pool has two timestamps for each dispatch.
            unsafe { self.resources.vulkan().raw.cmd_write_timestamp(commands, stage, queries, stamp as u32) };
        }
    }

    /// Records one command buffer for each part of a slot's outputs, which copies the part to memory that the
    /// host reads.
    fn copies(&mut self, slot: usize) -> Result<Vec<vk::CommandBuffer>, GpuError> {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let mut all = Vec::new();
        for range in &self.command_list.parts[slot] {
            let copies = self.resources.command_buffer()?;
            if all.is_empty() {
                let before = (Stage::COMPUTE_SHADER | Stage::TRANSFER, Access::SHADER_WRITE | Access::TRANSFER_WRITE);
                self.resources.barrier(
                    copies,
                    before,
                    (Stage::TRANSFER, Access::TRANSFER_READ | Access::TRANSFER_WRITE),
                );
            }
            for [from, to] in &self.command_list.slots[slot].outputs {
                self.resources.copy(copies, &self.own(from), to, range);
            }
            self.resources.barrier(copies, (Stage::TRANSFER, Access::TRANSFER_WRITE), (Stage::HOST, Access::HOST_READ));
            self.resources.end(copies)?;
            all.push(copies);
        }
        Ok(all)
    }
}
