//! Lanes: runs of one follow each other, and those of another go on beside them, in an arena and on a queue of their own.
#![allow(unsafe_code)]

use std::ops::Range;

use ash::vk;

use super::hazards::{Hazards, Slice};
use super::owned::Owned;
use super::submissions::Submissions;
use crate::device::vulkan::{Layout, failed};
use crate::kernel::GpuError;

/// What a run does, in terms of the first lane's arena.
pub(super) struct Script {
    pub(super) dispatches: Vec<Scripted>,
    pub(super) slots: Vec<Bound>,
    /// Of the outputs where those begin and end that come together; the first part comes with the run itself.
    pub(super) parts: Vec<Vec<Range<usize>>>,
    /// The first lane's arena among the buffers, and its bytes.
    pub(super) arena: usize,
    pub(super) arena_bytes: usize,
    /// Whether a timestamp is noted before and after each dispatch.
    pub(super) timed: bool,
}

/// A dispatch in the runs of any slot.
pub(super) struct Scripted {
    pub(super) pipeline: vk::Pipeline,
    pub(super) layout: Layout,
    pub(super) groups: [u32; 3],
    /// Whether it writes what it binds, but for its parameters.
    pub(super) writes: Vec<bool>,
}

/// What is bound in the runs of one slot.
pub(super) struct Bound {
    /// By each dispatch, its parameters first.
    pub(super) dispatches: Vec<Vec<Slice>>,
    /// Where outputs lie, and where the host reads them.
    pub(super) outputs: Vec<[Slice; 2]>,
}

/// What is recorded for one lane.
pub(super) struct Lane {
    pub(super) submissions: Submissions,
    /// Of each slot.
    pub(super) slots: Vec<Recorded>,
    /// Barriers between dispatches.
    pub(super) barriers: usize,
}

/// The commands of the runs of one slot.
pub(super) struct Recorded {
    /// The dispatches.
    pub(super) commands: vk::CommandBuffer,
    /// What brings each part of the outputs to where the host reads it.
    pub(super) copies: Vec<vk::CommandBuffer>,
}

impl Script {
    /// Records a lane, on the queue of that number, with its arena among the buffers.
    pub(super) fn record(&self, owned: &mut Owned, (queue, arena): (usize, usize)) -> Result<Lane, GpuError> {
        let mut recorder = Recorder { script: self, owned, arena };
        let sets = recorder.descriptor_sets()?;
        let (mut slots, mut barriers) = (Vec::with_capacity(self.slots.len()), 0);
        for (slot, sets) in sets.iter().enumerate() {
            let commands = recorder.owned.command_buffer()?;
            barriers = recorder.dispatches(commands, slot, sets);
            recorder.owned.end(commands)?;
            slots.push(Recorded { commands, copies: recorder.copies(slot)? });
        }
        Ok(Lane { submissions: Submissions::new(&owned.device, queue), slots, barriers })
    }
}

impl Script {
    /// Records the copies of a slot's outputs anew, with its arena among the buffers.
    pub(super) fn copies(
        &self,
        owned: &mut Owned,
        arena: usize,
        slot: usize,
    ) -> Result<Vec<vk::CommandBuffer>, GpuError> {
        Recorder { script: self, owned, arena }.copies(slot)
    }
}

struct Recorder<'a> {
    script: &'a Script,
    owned: &'a mut Owned,
    arena: usize,
}

impl Recorder<'_> {
    /// The slice in this lane.
    fn own(&self, slice: &Slice) -> Slice {
        let buffer = if slice.buffer == self.script.arena { self.arena } else { slice.buffer };
        Slice { buffer, range: slice.range.clone() }
    }

    fn described(&self, slice: &Slice) -> vk::DescriptorBufferInfo {
        vk::DescriptorBufferInfo {
            buffer: self.owned.buffers[self.own(slice).buffer].raw,
            offset: slice.range.start as u64,
            range: slice.range.len() as u64,
        }
    }

    /// A descriptor set for each dispatch of each slot.
    fn descriptor_sets(&mut self) -> Result<Vec<Vec<vk::DescriptorSet>>, GpuError> {
        let bound: Vec<&Vec<Slice>> = self.script.slots.iter().flat_map(|slot| &slot.dispatches).collect();
        let (sets, buffers) = (bound.len() as u32, bound.iter().map(|slices| slices.len() as u32 - 1).sum::<u32>());
        if sets == 0 {
            return Ok(vec![Vec::new(); self.script.slots.len()]);
        }
        let (vulkan, params) = (self.owned.vulkan(), self.owned.vulkan().params());
        let size = |kind, count| vk::DescriptorPoolSize { ty: kind, descriptor_count: count };
        let sizes = [size(params, sets), size(vk::DescriptorType::STORAGE_BUFFER, buffers.max(1))];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the device lives.
        let pool = unsafe { vulkan.raw.create_descriptor_pool(&info, None) }.map_err(failed("descriptors"))?;
        self.owned.descriptors.push(pool);
        let layouts = self.script.dispatches.iter().map(|dispatch| dispatch.layout.set);
        let layouts: Vec<_> = layouts.cycle().take(bound.len()).collect();
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        let raw = &self.owned.vulkan().raw;
        // SAFETY: the pool has room for as many sets and buffers.
        let sets = unsafe { raw.allocate_descriptor_sets(&info) }.map_err(failed("descriptors"))?;
        for (set, slices) in sets.iter().zip(&bound) {
            let infos: Vec<vk::DescriptorBufferInfo> = slices.iter().map(|slice| self.described(slice)).collect();
            let write = vk::WriteDescriptorSet::default().dst_set(*set);
            let storage = vk::DescriptorType::STORAGE_BUFFER;
            let mut writes = vec![write.dst_binding(0).descriptor_type(params).buffer_info(&infos[..1])];
            if infos.len() > 1 {
                writes.push(write.dst_binding(1).descriptor_type(storage).buffer_info(&infos[1..]));
            }
            // SAFETY: the set is new, and the buffers live as long as it. Bindings of one kind follow each other, so that
            // one write reaches all of them.
            unsafe { raw.update_descriptor_sets(&writes, &[]) };
        }
        Ok(sets.chunks(self.script.dispatches.len()).map(<[_]>::to_vec).collect())
    }

    /// Records every dispatch; the barriers between dispatches.
    fn dispatches(&self, commands: vk::CommandBuffer, slot: usize, sets: &[vk::DescriptorSet]) -> usize {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let raw = &self.owned.vulkan().raw;
        let all = Stage::COMPUTE_SHADER | Stage::TRANSFER;
        let written = Access::SHADER_WRITE | Access::TRANSFER_WRITE;
        let shader = Access::SHADER_READ | Access::SHADER_WRITE | Access::UNIFORM_READ;
        let used = shader | Access::TRANSFER_READ | Access::TRANSFER_WRITE;
        if self.script.timed && !sets.is_empty() {
            let stamps = 2 * sets.len() as u32;
            // SAFETY: the command buffer records, and the pool has as many timestamps.
            unsafe { raw.cmd_reset_query_pool(commands, self.owned.queries, 0, stamps) };
        }
        // What the lane's run before still does comes first.
        self.owned.barrier(commands, (all, written), (all, used));
        let (mut hazards, mut barriers) = (Hazards::default(), 0);
        let bound = &self.script.slots[slot].dispatches;
        for (index, ((dispatch, set), slices)) in self.script.dispatches.iter().zip(sets).zip(bound).enumerate() {
            let uses: Vec<(&Slice, bool)> = slices[1..].iter().zip(dispatch.writes.iter().copied()).collect();
            if hazards.meet(&uses) {
                barriers += 1;
                let shader = Access::SHADER_READ | Access::SHADER_WRITE;
                let (before, after) = ((Stage::COMPUTE_SHADER, Access::SHADER_WRITE), (Stage::COMPUTE_SHADER, shader));
                self.owned.barrier(commands, before, after);
            }
            let [x, y, z] = dispatch.groups;
            let point = vk::PipelineBindPoint::COMPUTE;
            self.stamp(commands, 2 * index);
            // SAFETY: the command buffer records, and everything bound lives as long as it.
            unsafe {
                raw.cmd_bind_pipeline(commands, point, dispatch.pipeline);
                raw.cmd_bind_descriptor_sets(commands, point, dispatch.layout.pipeline, 0, &[*set], &[]);
                raw.cmd_dispatch(commands, x, y, z);
            }
            self.stamp(commands, 2 * index + 1);
        }
        barriers
    }

    /// Notes the time at which every dispatch so far has ended, in a recording that is timed.
    fn stamp(&self, commands: vk::CommandBuffer, stamp: usize) {
        if self.script.timed {
            let (stage, queries) = (vk::PipelineStageFlags::COMPUTE_SHADER, self.owned.queries);
            // SAFETY: the command buffer records, and the pool has two timestamps for each dispatch.
            unsafe { self.owned.vulkan().raw.cmd_write_timestamp(commands, stage, queries, stamp as u32) };
        }
    }

    /// Records the copies of a slot's outputs to where the host reads them.
    fn copies(&mut self, slot: usize) -> Result<Vec<vk::CommandBuffer>, GpuError> {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let mut all = Vec::new();
        for range in &self.script.parts[slot] {
            let copies = self.owned.command_buffer()?;
            if all.is_empty() {
                let before = (Stage::COMPUTE_SHADER | Stage::TRANSFER, Access::SHADER_WRITE | Access::TRANSFER_WRITE);
                self.owned.barrier(copies, before, (Stage::TRANSFER, Access::TRANSFER_READ | Access::TRANSFER_WRITE));
            }
            for [from, to] in &self.script.slots[slot].outputs {
                self.owned.copy(copies, &self.own(from), to, range);
            }
            self.owned.barrier(copies, (Stage::TRANSFER, Access::TRANSFER_WRITE), (Stage::HOST, Access::HOST_READ));
            self.owned.end(copies)?;
            all.push(copies);
        }
        Ok(all)
    }
}
