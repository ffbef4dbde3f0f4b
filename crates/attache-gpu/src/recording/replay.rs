//! Vulkan's own way: everything is recorded once into a command buffer, which each run hands to the queue again.
//!
//! A run allocates nothing, writes no descriptor and validates nothing. The host writes inputs where the device reads them
//! and reads outputs from memory that it sees; barriers stand only where one dispatch needs what another did.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Mutex;
use std::time::Instant;

use ash::vk;
use attache_base::copy;
use attache_base::parallel::{both, each};
use attache_gpu_ir::ValueId;

use super::hazards::{Hazards, Slice};
use super::owned::Owned;
use super::pieces::{Pieces, padded};
use super::submissions::Submissions;
use super::{Cost, Recorder, Recording, Span, Times, no_timestamps};
use crate::device::Device;
use crate::error::{GpuError, GpuErrorKind};
use crate::layout::{ALIGNMENT, Place};
use crate::plan::Plan;
use crate::shader::Binding;
use crate::vulkan::{Use, Vulkan, failed};

/// Bytes of outputs from which on two parts come one after the other, so that the host has the first while the second comes.
const PART: usize = 512 << 10;

/// Most parts.
const PARTS: usize = 4;

/// Records command buffers for devices that were opened here through Vulkan.
#[derive(Debug)]
pub(super) struct Replay;

/// What the runs of one slot need for themselves.
struct Slot {
    /// The dispatches.
    commands: vk::CommandBuffer,
    /// What brings the outputs to where the host reads them, at least one.
    parts: Vec<Part>,
    inputs: Vec<Slice>,
    outputs: Vec<Slice>,
    /// The submission of the slot's last run, 0 before the first. It takes the first part along; others follow it.
    last: usize,
    /// How many parts were submitted.
    submitted: usize,
}

/// Copies of a range among the outputs to where the host reads them.
struct Part {
    copies: vk::CommandBuffer,
    /// Where the range ends in that buffer; it begins where the part before ends.
    end: usize,
}

struct Replayed {
    /// Before what they use: they are waited for as they go.
    submissions: Submissions,
    owned: Owned,
    slots: Vec<Slot>,
    /// Timestamps of a run.
    stamps: usize,
    /// Barriers between dispatches.
    barriers: usize,
}

impl Recorder for Replay {
    fn record(&self, device: &Device, plan: &Plan, timed: bool) -> Result<(Box<dyn Recording>, Cost), GpuError> {
        device.check()?;
        let unsupported =
            || GpuError::new(GpuErrorKind::Unsupported, "replay needs a device of its own through Vulkan");
        let vulkan = device.vulkan().ok_or_else(unsupported)?;
        let start = Instant::now();
        let elapsed = || start.elapsed().as_secs_f64() * 1e3;
        let owned = Owned::new(device);
        let mut builder = Builder { vulkan, plan, owned, timed };
        // Constants are packed and uploaded while the driver compiles.
        let compile = || compile(vulkan, plan).map(|()| elapsed());
        let (compiled, allocated) = both(compile, || builder.allocate());
        let compile_ms = compiled?;
        let (map, weights_bytes) = device.noted(allocated)?;
        let recording = device.noted(builder.build(map))?;
        let upload_ms = elapsed() - compile_ms;
        Ok((Box::new(recording), Cost { compile_ms, upload_ms, weights_bytes }))
    }
}

/// Makes every pipeline of the plan that isn't there yet, on several threads.
fn compile(vulkan: &Vulkan, plan: &Plan) -> Result<(), GpuError> {
    let sources = plan.dispatches.iter().map(|dispatch| (&*dispatch.shader.source, dispatch.shader.bindings.len()));
    let mut missing: Vec<(&str, usize)> =
        sources.filter(|(source, _)| vulkan.known_pipeline(source).is_none()).collect();
    missing.sort_unstable();
    missing.dedup();
    let failure = Mutex::new(None);
    each(&missing, missing.len().min(16), |(source, buffers)| {
        if let Err(error) = vulkan.compile(source, *buffers) {
            *failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(error);
        }
    });
    failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).map_or(Ok(()), Err)
}

struct Builder<'a> {
    vulkan: &'a Vulkan,
    plan: &'a Plan,
    owned: Owned,
    timed: bool,
}

/// The buffers, by their place in what the recording owns.
const ARENA: usize = 0;
const CONSTANTS: usize = 1;
const INPUTS: usize = 2;
const OUTPUTS: usize = 3;

/// Where each value, each packed binding and each dispatch's parameters lie.
struct Map {
    banks: Vec<usize>,
    constants: Vec<Slice>,
    packed: Vec<Slice>,
    params: Vec<Slice>,
    /// Of every slot.
    inputs: Vec<Vec<Slice>>,
    outputs: Vec<Vec<Slice>>,
}

/// Ranges one after the other in a buffer, each aligned, for every slot; and the end of the last.
fn in_order(buffer: usize, slots: usize, sizes: &[usize]) -> (Vec<Vec<Slice>>, usize) {
    let mut end = 0;
    let mut slice = |size: &usize| {
        let start = usize::next_multiple_of(end, ALIGNMENT);
        end = start + padded(*size);
        Slice { buffer, range: start..end }
    };
    let slices = (0..slots).map(|_| sizes.iter().map(&mut slice).collect()).collect();
    (slices, end)
}

/// What comes together of outputs that lie one after the other.
fn in_parts(outputs: &[Slice]) -> Vec<Range<usize>> {
    let start = outputs.first().map_or(0, |slice| slice.range.start);
    let end = outputs.last().map_or(start, |slice| slice.range.end);
    let parts = ((end - start) / PART).clamp(1, PARTS);
    let size = (end - start).div_ceil(parts).next_multiple_of(ALIGNMENT);
    (0..parts).map(|part| start + part * size..end.min(start + (part + 1) * size)).collect()
}

impl Builder<'_> {
    fn build(mut self, map: Map) -> Result<Replayed, GpuError> {
        let mut sets = self.descriptor_sets(&map)?.into_iter();
        let stamps = if self.timed { self.query_pool()? } else { 0 };
        let (mut slots, mut barriers) = (Vec::with_capacity(self.plan.slots), 0);
        for slot in 0..self.plan.slots {
            let commands = self.owned.command_buffer()?;
            let own: Vec<vk::DescriptorSet> = sets.by_ref().take(self.plan.dispatches.len()).collect();
            barriers = self.record(commands, &map, slot, &own);
            self.owned.end(commands)?;
            let parts = self.parts(&map, slot)?;
            let (inputs, outputs) = (map.inputs[slot].clone(), map.outputs[slot].clone());
            slots.push(Slot { commands, parts, inputs, outputs, last: 0, submitted: 0 });
        }
        let submissions = Submissions::new(&self.owned.device)?;
        Ok(Replayed { submissions, owned: self.owned, slots, stamps, barriers })
    }

    /// Makes room for two timestamps for each dispatch; how many they are.
    fn query_pool(&mut self) -> Result<usize, GpuError> {
        self.vulkan.ticks.ok_or_else(no_timestamps)?;
        let stamps = 2 * self.plan.dispatches.len() as u32;
        if stamps > 0 {
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(stamps);
            // SAFETY: the device lives.
            let pool = unsafe { self.vulkan.raw.create_query_pool(&info, None) };
            self.owned.queries = pool.map_err(failed("timestamps"))?;
        }
        Ok(stamps as usize)
    }

    /// All memory, with the constants in it; where everything lies, and the bytes of constants.
    fn allocate(&mut self) -> Result<(Map, usize), GpuError> {
        let plan = self.plan;
        let mut end = 0;
        let mut banks = Vec::with_capacity(plan.layout.banks.len());
        for bytes in &plan.layout.banks {
            banks.push(end);
            end = (end + bytes).next_multiple_of(ALIGNMENT);
        }
        self.owned.add(end, Use::Device)?;
        let kinds = [Pieces::constants(plan)?, Pieces::packed(plan), Pieces::params(plan)];
        let weights_bytes = kinds[0].total() + kinds[1].total();
        let mut bytes = Vec::new();
        let mut slices = kinds.map(|pieces| {
            let start = bytes.len().next_multiple_of(ALIGNMENT);
            bytes.resize(start, 0);
            bytes.extend_from_slice(&pieces.bytes);
            let slice = |(at, size): &(usize, usize)| Slice { buffer: CONSTANTS, range: start + at..start + at + size };
            pieces.ranges.iter().map(slice).collect::<Vec<_>>()
        });
        self.owned.add(bytes.len(), Use::Device)?;
        self.owned.upload(&bytes, CONSTANTS)?;
        let sizes = |ids: &[ValueId]| ids.iter().map(|id| plan.bytes(*id)).collect::<Vec<_>>();
        let (inputs, end) = in_order(INPUTS, plan.slots, &sizes(&plan.program.inputs));
        self.owned.add(end, Use::Write)?;
        let (outputs, end) = in_order(OUTPUTS, plan.slots, &sizes(&plan.program.outputs));
        self.owned.add(end, Use::Read)?;
        let [constants, packed, params] = slices.each_mut().map(std::mem::take);
        Ok((Map { banks, constants, packed, params, inputs, outputs }, weights_bytes))
    }

    fn place(&self, map: &Map, slot: usize, id: ValueId) -> Slice {
        match self.plan.layout.places[id.index()] {
            Place::Input(index) => map.inputs[slot][index].clone(),
            Place::Constant(index) => map.constants[index].clone(),
            Place::Bank { bank, offset } => {
                let start = map.banks[bank] + offset;
                Slice { buffer: ARENA, range: start..start + padded(self.plan.bytes(id)) }
            }
            Place::Nowhere => unreachable!("a kernel makes whatever another reads"),
        }
    }

    /// What each dispatch binds in a slot's runs, its parameters first.
    fn bound(&self, map: &Map, slot: usize) -> Vec<Vec<Slice>> {
        let mut packed = map.packed.iter();
        let dispatches = self.plan.dispatches.iter().zip(&map.params);
        dispatches
            .map(|(dispatch, params)| {
                let slices = dispatch.shader.bindings.iter().map(|binding| match binding {
                    Binding::Read(id) | Binding::Write(id, _) => self.place(map, slot, *id),
                    Binding::Packed(_) | Binding::Words(_) => {
                        packed.next().expect("one for each packed binding").clone()
                    }
                });
                [params.clone()].into_iter().chain(slices).collect()
            })
            .collect()
    }

    /// A descriptor set for each dispatch of each slot.
    fn descriptor_sets(&mut self, map: &Map) -> Result<Vec<vk::DescriptorSet>, GpuError> {
        let raw = &self.vulkan.raw;
        let bound: Vec<Vec<Slice>> = (0..self.plan.slots).flat_map(|slot| self.bound(map, slot)).collect();
        let (sets, buffers) = (bound.len() as u32, bound.iter().map(|slices| slices.len() as u32 - 1).sum::<u32>());
        if sets == 0 {
            return Ok(Vec::new());
        }
        let size = |kind, count| vk::DescriptorPoolSize { ty: kind, descriptor_count: count };
        let sizes = [size(self.vulkan.params(), sets), size(vk::DescriptorType::STORAGE_BUFFER, buffers.max(1))];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the device lives.
        let pool = unsafe { raw.create_descriptor_pool(&info, None) }.map_err(failed("descriptors"))?;
        self.owned.descriptors = pool;
        let layouts: Vec<vk::DescriptorSetLayout> = bound
            .iter()
            .map(|slices| Ok(self.vulkan.layout(slices.len() - 1)?.set))
            .collect::<Result<_, GpuError>>()?;
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&layouts);
        // SAFETY: the pool has room for as many sets and buffers.
        let sets = unsafe { raw.allocate_descriptor_sets(&info) }.map_err(failed("descriptors"))?;
        for (set, slices) in sets.iter().zip(&bound) {
            let infos: Vec<vk::DescriptorBufferInfo> = slices.iter().map(|slice| self.described(slice)).collect();
            let write = vk::WriteDescriptorSet::default().dst_set(*set);
            let storage = vk::DescriptorType::STORAGE_BUFFER;
            let mut writes = vec![write.dst_binding(0).descriptor_type(self.vulkan.params()).buffer_info(&infos[..1])];
            if infos.len() > 1 {
                writes.push(write.dst_binding(1).descriptor_type(storage).buffer_info(&infos[1..]));
            }
            // SAFETY: the set is new, and the buffers live as long as it. Bindings of one kind follow each other, so that
            // one write reaches all of them.
            unsafe { raw.update_descriptor_sets(&writes, &[]) };
        }
        Ok(sets)
    }

    fn described(&self, slice: &Slice) -> vk::DescriptorBufferInfo {
        vk::DescriptorBufferInfo {
            buffer: self.owned.buffers[slice.buffer].raw,
            offset: slice.range.start as u64,
            range: slice.range.len() as u64,
        }
    }

    /// Records every dispatch; the barriers between dispatches.
    fn record(&self, commands: vk::CommandBuffer, map: &Map, slot: usize, sets: &[vk::DescriptorSet]) -> usize {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let raw = &self.vulkan.raw;
        let all = Stage::COMPUTE_SHADER | Stage::TRANSFER;
        let written = Access::SHADER_WRITE | Access::TRANSFER_WRITE;
        let shader = Access::SHADER_READ | Access::SHADER_WRITE | Access::UNIFORM_READ;
        let used = shader | Access::TRANSFER_READ | Access::TRANSFER_WRITE;
        if self.timed && !self.plan.dispatches.is_empty() {
            let stamps = 2 * self.plan.dispatches.len() as u32;
            // SAFETY: the command buffer records, and the pool has as many timestamps.
            unsafe { raw.cmd_reset_query_pool(commands, self.owned.queries, 0, stamps) };
        }
        // What the run before still does comes first.
        self.owned.barrier(commands, (all, written), (all, used));
        let (mut hazards, mut barriers) = (Hazards::default(), 0);
        let bound = self.bound(map, slot);
        for (index, ((dispatch, set), slices)) in self.plan.dispatches.iter().zip(sets).zip(&bound).enumerate() {
            let uses = dispatch.shader.bindings.iter().zip(&slices[1..]);
            let uses: Vec<(&Slice, bool)> =
                uses.map(|(binding, slice)| (slice, matches!(binding, Binding::Write(..)))).collect();
            if hazards.meet(&uses) {
                barriers += 1;
                let shader = Access::SHADER_READ | Access::SHADER_WRITE;
                self.owned.barrier(
                    commands,
                    (Stage::COMPUTE_SHADER, Access::SHADER_WRITE),
                    (Stage::COMPUTE_SHADER, shader),
                );
            }
            let source = &dispatch.shader.source;
            let pipeline = self.vulkan.known_pipeline(source).expect("every pipeline was made");
            let layout = self.vulkan.layout(slices.len() - 1).expect("the layout was made").pipeline;
            let [x, y, z] = dispatch.shader.groups;
            let point = vk::PipelineBindPoint::COMPUTE;
            self.stamp(commands, 2 * index);
            // SAFETY: the command buffer records, and everything bound lives as long as it.
            unsafe {
                raw.cmd_bind_pipeline(commands, point, pipeline);
                raw.cmd_bind_descriptor_sets(commands, point, layout, 0, &[*set], &[]);
                raw.cmd_dispatch(commands, x, y, z);
            }
            self.stamp(commands, 2 * index + 1);
        }
        barriers
    }

    /// Records the copies of a slot's outputs to where the host reads them.
    fn parts(&mut self, map: &Map, slot: usize) -> Result<Vec<Part>, GpuError> {
        use vk::{AccessFlags as Access, PipelineStageFlags as Stage};
        let mut parts = Vec::new();
        for range in in_parts(&map.outputs[slot]) {
            let copies = self.owned.command_buffer()?;
            if parts.is_empty() {
                let before = (Stage::COMPUTE_SHADER | Stage::TRANSFER, Access::SHADER_WRITE | Access::TRANSFER_WRITE);
                self.owned.barrier(copies, before, (Stage::TRANSFER, Access::TRANSFER_READ | Access::TRANSFER_WRITE));
            }
            for (id, to) in self.plan.program.outputs.iter().zip(&map.outputs[slot]) {
                self.owned.copy(copies, &self.place(map, slot, *id), to, &range);
            }
            self.owned.barrier(copies, (Stage::TRANSFER, Access::TRANSFER_WRITE), (Stage::HOST, Access::HOST_READ));
            self.owned.end(copies)?;
            parts.push(Part { copies, end: range.end });
        }
        Ok(parts)
    }

    /// Notes the time at which every dispatch so far has ended, in a recording that is timed.
    fn stamp(&self, commands: vk::CommandBuffer, stamp: usize) {
        if self.timed {
            let (stage, queries) = (vk::PipelineStageFlags::COMPUTE_SHADER, self.owned.queries);
            // SAFETY: the command buffer records, and the pool has two timestamps for each dispatch.
            unsafe { self.vulkan.raw.cmd_write_timestamp(commands, stage, queries, stamp as u32) };
        }
    }
}

impl Replayed {
    fn vulkan(&self) -> &Vulkan {
        self.owned.vulkan()
    }
}

impl Recording for Replayed {
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        let place = self.input_mut(slot, input)?.unwrap_or_default();
        let count = bytes.len().min(place.len());
        copy(&mut place[..count], &bytes[..count]);
        Ok(())
    }

    fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError> {
        // A run under way still reads what was written before.
        self.wait(slot)?;
        let range = self.slots[slot].inputs[input].range.clone();
        // SAFETY: no run of the slot is under way, and others have other ranges.
        Ok(Some(unsafe { self.owned.buffers[INPUTS].bytes_mut(range) }))
    }

    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.owned.download(&self.slots[slot].inputs[input], bytes)
    }

    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError> {
        self.owned.device.check()?;
        let slot = &mut self.slots[slot];
        if !is_read {
            (slot.last, slot.submitted) = (self.submissions.submit(&[slot.commands])?, 0);
            return Ok(());
        }
        (slot.last, slot.submitted) = (self.submissions.submit(&[slot.commands, slot.parts[0].copies])?, 1);
        for part in &slot.parts[1..] {
            self.submissions.submit(&[part.copies])?;
            slot.submitted += 1;
        }
        Ok(())
    }

    fn wait(&mut self, slot: usize) -> Result<(), GpuError> {
        self.submissions.wait(self.slots[slot].last)
    }

    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError> {
        let Some(slot) = self.slots.get(slot).filter(|slot| self.submissions.has_ended(slot.last)) else {
            return Ok(None);
        };
        let Some(Slice { range, .. }) = slot.outputs.get(output) else { return Ok(None) };
        let submitted = &slot.parts[..slot.submitted];
        let Some(part) = submitted.iter().position(|part| part.end >= range.end.min(range.start.saturating_add(least)))
        else {
            return Ok(None);
        };
        self.submissions.look(slot.last + part)?;
        let there = range.start..range.end.min(submitted[part].end);
        // SAFETY: the copies up to there have ended, and none starts while this is borrowed; others have other ranges.
        Ok(Some(unsafe { self.owned.buffers[OUTPUTS].bytes(there) }))
    }

    fn times(&mut self) -> Result<Times, GpuError> {
        self.submissions.wait_for_all()?;
        let ticks = self.vulkan().ticks.filter(|_| self.owned.queries != vk::QueryPool::null());
        let ticks = ticks.ok_or_else(no_timestamps)?;
        let mut stamps = vec![0u64; self.stamps];
        let (raw, flags) = (&self.vulkan().raw, vk::QueryResultFlags::TYPE_64);
        // SAFETY: the pool is the recording's own, and no run is under way.
        let got = unsafe { raw.get_query_pool_results(self.owned.queries, 0, &mut stamps, flags) };
        got.map_err(failed("timestamps"))?;
        let spans = Span::of_ticks(&stamps, ticks.bits, ticks.nanoseconds);
        Ok(Times { spans, barriers: Some(self.barriers) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_outputs_come_in_parts() {
        let outputs = |sizes: &[usize]| in_order(OUTPUTS, 2, sizes).0.remove(1);
        let whole = |sizes: &[usize]| in_parts(&outputs(sizes)).try_into().map(|[part]: [Range<usize>; 1]| part);
        assert_eq!(whole(&[]), Ok(0..0));
        assert_eq!(whole(&[100, PART]), Ok(PART + 256..2 * PART + 512));
        for sizes in [&[3 * PART - 4][..], &[2 * PART, 5, 9 * PART], &[20 * PART]] {
            let outputs = outputs(sizes);
            let parts = in_parts(&outputs);
            assert_eq!(parts.len(), (sizes.iter().sum::<usize>() / PART).min(PARTS));
            assert_eq!(
                [parts[0].start, parts[parts.len() - 1].end],
                [outputs[0].range.start, outputs[outputs.len() - 1].range.end]
            );
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end % ALIGNMENT == 0));
        }
    }
}
