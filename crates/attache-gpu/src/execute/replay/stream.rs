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
    /// The number of dispatches of a run.
    pub(super) steps: usize,
    /// The dispatches of a run, and after them their other forms, which bound memory needs.
    pub(super) dispatches: Vec<ListedDispatch>,
    pub(super) slots: Vec<SlotRanges>,
    /// For each slot, the parts of the outputs, as byte ranges of the buffer that the host reads. The copy of
    /// the first part is submitted with the run itself, the copies of the others after it.
    pub(super) parts: Vec<Vec<Range<usize>>>,
    /// The index of the first stream's arena among the recording's buffers.
    pub(super) arena: BufferId,
    /// The size of each stream's arena in bytes.
    pub(super) arena_bytes: usize,
    /// Whether dispatches write outputs to memory that the host reads, so that the runs of a slot cannot execute
    /// concurrently.
    pub(super) writes_for_host: bool,
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
pub(super) struct SlotRanges {
    /// The location of each input.
    pub(super) inputs: Vec<Slice>,
    /// For each of [`CommandList::dispatches`], the ranges that it binds. The parameters come first.
    pub(super) dispatches: Vec<Vec<Slice>>,
    /// For each output, its location on the device, and the location in memory that the host reads to which
    /// it is copied. The same where dispatches write it there.
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
    /// The descriptor set of each dispatch.
    pub(super) sets: Vec<vk::DescriptorSet>,
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
        let mut slots = Vec::with_capacity(self.slots.len());
        for (slot, sets) in sets.into_iter().enumerate() {
            let commands = recorder.resources.command_buffer()?;
            recorder.dispatches(commands, &sets);
            recorder.resources.end(commands)?;
            slots.push(Recorded { commands, copies: recorder.copies(slot)?, sets });
        }
        let barriers = self.dispatches[..self.steps].iter().filter(|dispatch| dispatch.needs_barrier).count();
        Ok(Stream { submissions: Submissions::new(&resources.device, queue, self.wait), slots, barriers })
    }

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

/// Records the commands of a stream whose arena is the buffer with the index `arena`.
pub(super) struct Recorder<'a> {
    pub(super) command_list: &'a CommandList,
    pub(super) resources: &'a mut ReplayResources,
    pub(super) arena: BufferId,
}

impl Recorder<'_> {
    /// Returns the slice with the first stream's arena replaced by the arena of the stream that is recorded.
    pub(super) fn own(&self, slice: &Slice) -> Slice {
        let buffer = if slice.buffer == self.command_list.arena { self.arena } else { slice.buffer };
        Slice { buffer, range: slice.range.clone() }
    }

    pub(super) fn described(&self, slice: &Slice) -> vk::DescriptorBufferInfo {
        vk::DescriptorBufferInfo {
            buffer: self.resources.raw(self.own(slice).buffer),
            offset: slice.range.start as u64,
            range: slice.range.len() as u64,
        }
    }

    /// Allocates and writes a descriptor set for each dispatch of each slot. Returns the sets of each slot.
    fn descriptor_sets(&mut self) -> Result<Vec<Vec<vk::DescriptorSet>>, GpuError> {
        let count = self.command_list.steps;
        let bound = self.command_list.slots.iter().flat_map(|slot| &slot.dispatches[..count]);
        let bound: Vec<&Vec<Slice>> = bound.collect();
        if bound.is_empty() {
            return Ok(vec![Vec::new(); self.command_list.slots.len()]);
        }
        let dispatches: Vec<usize> = (0..count).cycle().take(bound.len()).collect();
        let (pool, sets) = self.new_sets(&dispatches)?;
        self.resources.descriptors.push(pool);
        for (set, slices) in sets.iter().zip(&bound) {
            let infos: Vec<vk::DescriptorBufferInfo> = slices.iter().map(|slice| self.described(slice)).collect();
            self.write_set(*set, &infos);
        }
        Ok(sets.chunks(count).map(<[_]>::to_vec).collect())
    }

    /// Allocates a descriptor set for each of these dispatches, at least one, in a new pool.
    pub(super) fn new_sets(
        &self,
        dispatches: &[usize],
    ) -> Result<(vk::DescriptorPool, Vec<vk::DescriptorSet>), GpuError> {
        let list = self.command_list;
        let vulkan = self.resources.vulkan();
        let buffers = |index: &usize| list.slots[0].dispatches[*index].len() as u32 - 1;
        let (sets, buffers) = (dispatches.len() as u32, dispatches.iter().map(buffers).sum::<u32>());
        let size = |kind, count| vk::DescriptorPoolSize { ty: kind, descriptor_count: count };
        let sizes = [size(vulkan.params(), sets), size(vk::DescriptorType::STORAGE_BUFFER, buffers.max(1))];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the device exists.
        let pool = unsafe { vulkan.raw.create_descriptor_pool(&info, None) }.map_err(failed("descriptors"))?;
        let layouts: Vec<_> = dispatches.iter().map(|index| list.dispatches[*index].layout.set).collect();
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: the pool has room for this many sets and buffers.
        match unsafe { vulkan.raw.allocate_descriptor_sets(&info) } {
            Ok(sets) => Ok((pool, sets)),
            Err(error) => {
                // SAFETY: nothing uses the pool.
                unsafe { vulkan.raw.destroy_descriptor_pool(pool, None) };
                Err(failed("descriptors")(error))
            }
        }
    }

    /// Writes a descriptor set, which no command buffer uses: the parameters, and then the other buffers.
    pub(super) fn write_set(&self, set: vk::DescriptorSet, infos: &[vk::DescriptorBufferInfo]) {
        let write = vk::WriteDescriptorSet::default().dst_set(set);
        let (vulkan, storage) = (self.resources.vulkan(), vk::DescriptorType::STORAGE_BUFFER);
        let mut writes = vec![write.dst_binding(0).descriptor_type(vulkan.params()).buffer_info(&infos[..1])];
        if infos.len() > 1 {
            writes.push(write.dst_binding(1).descriptor_type(storage).buffer_info(&infos[1..]));
        }
        // SAFETY: nothing uses the set, and the buffers exist as long as it is used. Bindings of one descriptor type are
        // consecutive, so one write updates all of them.
        unsafe { vulkan.raw.update_descriptor_sets(&writes, &[]) };
    }

    /// Records all dispatches.
    fn dispatches(&self, commands: vk::CommandBuffer, sets: &[vk::DescriptorSet]) {
        self.begin(commands);
        for (index, set) in sets.iter().enumerate() {
            self.dispatch(commands, ([index, index], self.command_list.dispatches[index].needs_barrier), *set);
        }
    }

    /// Records what comes before the dispatches of a run: it waits for the stream's previous run.
    pub(super) fn begin(&self, commands: vk::CommandBuffer) {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let all = Stage::COMPUTE_SHADER | Stage::TRANSFER;
        let written = Access::SHADER_WRITE | Access::TRANSFER_WRITE;
        let shader = Access::SHADER_READ | Access::SHADER_WRITE | Access::UNIFORM_READ;
        let used = shader | Access::TRANSFER_READ | Access::TRANSFER_WRITE;
        let stamps = 2 * self.command_list.steps as u32;
        if self.command_list.timed && stamps > 0 {
            let (raw, queries) = (&self.resources.vulkan().raw, self.resources.queries);
            // SAFETY: the command buffer is recording, and the pool has this many timestamps.
            unsafe { raw.cmd_reset_query_pool(commands, queries, 0, stamps) };
        }
        self.resources.barrier(commands, (all, written), (all, used));
    }

    /// Records a dispatch, with a barrier before it if it needs one. The indices are that of the dispatch in the plan, and
    /// that of the form in which it runs among [`CommandList::dispatches`].
    pub(super) fn dispatch(
        &self,
        commands: vk::CommandBuffer,
        ([index, form], needs_barrier): ([usize; 2], bool),
        set: vk::DescriptorSet,
    ) {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let dispatch = &self.command_list.dispatches[form];
        if needs_barrier {
            let shader = Access::SHADER_READ | Access::SHADER_WRITE;
            let (before, after) = ((Stage::COMPUTE_SHADER, Access::SHADER_WRITE), (Stage::COMPUTE_SHADER, shader));
            self.resources.barrier(commands, before, after);
        }
        let [x, y, z] = dispatch.groups;
        let (raw, point) = (&self.resources.vulkan().raw, vk::PipelineBindPoint::COMPUTE);
        self.stamp(commands, 2 * index);
        // SAFETY: the command buffer is recording, and everything that is bound exists as long as it is used.
        unsafe {
            raw.cmd_bind_pipeline(commands, point, dispatch.pipeline);
            raw.cmd_bind_descriptor_sets(commands, point, dispatch.layout.pipeline, 0, &[set], &[]);
            raw.cmd_dispatch(commands, x, y, z);
        }
        self.stamp(commands, 2 * index + 1);
    }

    /// Records the timestamps of a dispatch that is left out, if the recording is timed.
    pub(super) fn stamps(&self, commands: vk::CommandBuffer, index: usize) {
        [2 * index, 2 * index + 1].into_iter().for_each(|stamp| self.stamp(commands, stamp));
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
        let mut all = Vec::new();
        for part in 0..self.command_list.parts[slot].len() {
            let copies = self.resources.command_buffer()?;
            self.copy_part(copies, (slot, part), |_| true);
            self.resources.end(copies)?;
            all.push(copies);
        }
        Ok(all)
    }

    /// Records the copies of a part of the outputs of a slot for which `is_read` is true.
    pub(super) fn copy_part(
        &self,
        commands: vk::CommandBuffer,
        (slot, part): (usize, usize),
        is_read: impl Fn(usize) -> bool,
    ) {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let (all, written) = (Stage::COMPUTE_SHADER | Stage::TRANSFER, Access::SHADER_WRITE | Access::TRANSFER_WRITE);
        if part == 0 {
            let copied = Access::TRANSFER_READ | Access::TRANSFER_WRITE;
            self.resources.barrier(commands, (all, written), (Stage::TRANSFER, copied));
        }
        let range = &self.command_list.parts[slot][part];
        for (index, [from, to]) in self.command_list.slots[slot].outputs.iter().enumerate() {
            if is_read(index) && from != to {
                self.resources.copy(commands, &self.own(from), to, range);
            }
        }
        // Dispatches write outputs that are not copied.
        self.resources.barrier(commands, (all, written), (Stage::HOST, Access::HOST_READ));
    }
}
