//! Vulkan's own way: everything is recorded once into a command buffer, which each run hands to the queue again.
//!
//! A run allocates nothing, writes no descriptor and validates nothing. The host writes inputs where the device reads them
//! and reads outputs from memory that it sees; barriers stand only where one dispatch needs what another did.
#![allow(unsafe_code)]

mod lane;
mod owned;
mod shared;
mod submissions;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use ash::vk;
use attache_base::copy;
use attache_base::parallel::both;

use self::lane::{Bound, Lane, Script, Scripted};
use self::owned::Owned;
use self::shared::{Links, Shared};
use super::{Cost, Recorder, Recording, Runs, SharedValue, Span, Times, no_timestamps, params};
use crate::device::Device;
use crate::device::vulkan::{Pipeline, Use, Vulkan, failed};
use crate::kernel::{GpuError, GpuErrorKind};
use crate::layout::ALIGNMENT;
use crate::plan::{Buffer, BufferRange, Dispatch, Plan, WeightSource, padded};

/// Bytes of outputs from which on two parts come one after the other, so that the host has the first while the second comes.
const PART: usize = 512 << 10;

/// Most parts.
const PARTS: usize = 4;

/// Bytes of all arenas together, but for the first: who needs more keeps a device busy by himself.
const MAX_ARENAS: usize = 256 << 20;

/// Records command buffers for devices that were opened here through Vulkan.
#[derive(Debug)]
pub(super) struct Replay;

/// A range of one of the recording's buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slice {
    buffer: usize,
    range: Range<usize>,
}

/// What the runs of one slot need for themselves.
#[derive(Default)]
struct Slot {
    inputs: Vec<Slice>,
    outputs: Vec<Slice>,
    /// The lane and the submission of the last run; that takes the first part of the outputs along, and others follow it.
    last: Option<(usize, usize)>,
    /// In each lane the submission of the last run there.
    lasts: Vec<usize>,
    /// How many parts were submitted.
    submitted: usize,
    /// The lane and the submission that wrote outputs last.
    written: Option<(usize, usize)>,
}

struct Replayed {
    /// Before what they use: their submissions are waited for as they go.
    lanes: Vec<Lane>,
    /// How many there may be.
    most_lanes: usize,
    owned: Owned,
    script: Script,
    slots: Vec<Slot>,
    /// What comes from other recordings and goes to them.
    links: Links,
}

impl Recorder for Replay {
    fn record(
        &self,
        device: &Device,
        plan: &Plan,
        weights: &dyn WeightSource,
        runs: Runs,
    ) -> Result<(Box<dyn Recording>, Cost), GpuError> {
        device.check()?;
        let unsupported =
            || GpuError::new(GpuErrorKind::Unsupported, "replay needs a device of its own through Vulkan");
        let vulkan = device.vulkan().ok_or_else(unsupported)?;
        let start = Instant::now();
        let elapsed = || start.elapsed().as_secs_f64() * 1e3;
        let owned = Owned::new(device);
        let mut builder = Builder { vulkan, plan, weights, owned, runs };
        // Constants are packed and uploaded while the driver compiles.
        let compile = || vulkan.pipelines(&plan.sources()).map(|pipelines| (pipelines, elapsed()));
        let (compiled, allocated) = both(compile, || builder.allocate());
        let (pipelines, compile_ms) = compiled?;
        builder.owned.pipelines = pipelines;
        let (map, weights_bytes) = device.noted(allocated)?;
        let recording = device.noted(builder.build(map))?;
        let upload_ms = elapsed() - compile_ms;
        Ok((Box::new(recording), Cost { compile_ms, upload_ms, weights_bytes }))
    }
}

struct Builder<'a> {
    vulkan: &'a Vulkan,
    plan: &'a Plan,
    weights: &'a dyn WeightSource,
    owned: Owned,
    runs: Runs,
}

/// The buffers, by their place in what the recording owns.
const ARENA: usize = 0;
const CONSTANTS: usize = 1;
const INPUTS: usize = 2;
const OUTPUTS: usize = 3;

/// Where each buffer of the plan and each dispatch's parameters lie.
struct Map {
    arena_bytes: usize,
    banks: Vec<usize>,
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
        let script = self.script(&map)?;
        if self.runs.timed {
            self.query_pool()?;
        }
        let first = script.record(&mut self.owned, (0, ARENA))?;
        let slots = map.inputs.iter().zip(&map.outputs);
        let slots =
            slots.map(|(inputs, outputs)| Slot { inputs: inputs.clone(), outputs: outputs.clone(), ..Slot::default() });
        // Who has one slot doesn't start a run before the last one ended.
        let more = if self.runs.slots > 1 { MAX_ARENAS / map.arena_bytes.max(1) } else { 0 };
        let most_lanes = self.vulkan.lanes().min(1 + more);
        Ok(Replayed {
            lanes: vec![first],
            most_lanes,
            owned: self.owned,
            script,
            slots: slots.collect(),
            links: Links::default(),
        })
    }

    fn script(&self, map: &Map) -> Result<Script, GpuError> {
        let scripted = |(dispatch, pipeline): (&Dispatch, &Arc<Pipeline>)| {
            Ok(Scripted {
                pipeline: pipeline.raw,
                layout: self.vulkan.layout(dispatch.bindings.len())?,
                groups: dispatch.groups,
                needs_barrier: dispatch.needs_barrier,
            })
        };
        let bound = |slot: usize| {
            let outputs = self.plan.outputs.iter().zip(&map.outputs[slot]);
            let outputs = outputs.map(|(range, to)| [self.place(map, slot, range), to.clone()]).collect();
            Bound { dispatches: self.bound(map, slot), outputs }
        };
        let dispatches = self.plan.dispatches.iter().zip(&self.owned.pipelines);
        Ok(Script {
            dispatches: dispatches.map(scripted).collect::<Result<_, GpuError>>()?,
            slots: (0..self.runs.slots).map(bound).collect(),
            parts: map.outputs.iter().map(|outputs| in_parts(outputs)).collect(),
            arena: ARENA,
            arena_bytes: map.arena_bytes,
            timed: self.runs.timed,
        })
    }

    /// Makes room for two timestamps for each dispatch.
    fn query_pool(&mut self) -> Result<(), GpuError> {
        self.vulkan.ticks.ok_or_else(no_timestamps)?;
        let stamps = 2 * self.plan.dispatches.len() as u32;
        if stamps > 0 {
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(stamps);
            // SAFETY: the device lives.
            let pool = unsafe { self.vulkan.raw.create_query_pool(&info, None) };
            self.owned.queries = pool.map_err(failed("timestamps"))?;
        }
        Ok(())
    }

    /// All memory, with the constants in it; where everything lies, and the bytes of constants.
    fn allocate(&mut self) -> Result<(Map, usize), GpuError> {
        let plan = self.plan;
        let mut end = 0;
        let mut banks = Vec::with_capacity(plan.banks.len());
        for bytes in &plan.banks {
            banks.push(end);
            end = (end + bytes).next_multiple_of(ALIGNMENT);
        }
        let arena_bytes = end;
        self.owned.add(arena_bytes, Use::Device)?;
        // Behind the weights come the parameters.
        let start = plan.weight_bytes().next_multiple_of(ALIGNMENT);
        let (params, ranges) = params(plan);
        self.owned.add(start + params.len(), Use::Device)?;
        let weights = self.weights.block()?;
        self.owned.upload(&[(0, &weights), (start, &params)], CONSTANTS)?;
        let params = ranges.iter().map(|(offset, size)| start + offset..start + offset + size);
        let params = params.map(|range| Slice { buffer: CONSTANTS, range }).collect();
        let (inputs, end) = in_order(INPUTS, self.runs.slots, &plan.inputs);
        self.owned.add(end, Use::Write)?;
        let sizes: Vec<usize> = plan.outputs.iter().map(|output| output.size).collect();
        let (outputs, end) = in_order(OUTPUTS, self.runs.slots, &sizes);
        self.owned.add(end, Use::Read)?;
        let weights_bytes = plan.weights.iter().map(|weight| padded(weight.size)).sum();
        Ok((Map { arena_bytes, banks, params, inputs, outputs }, weights_bytes))
    }

    fn place(&self, map: &Map, slot: usize, range: &BufferRange) -> Slice {
        let (buffer, start) = match range.buffer {
            Buffer::Input(index) => return map.inputs[slot][index].clone(),
            Buffer::Bank(bank) => (ARENA, map.banks[bank]),
            Buffer::Weights => (CONSTANTS, 0),
        };
        let start = start + range.offset;
        Slice { buffer, range: start..start + padded(range.size) }
    }

    /// What each dispatch binds in a slot's runs, its parameters first.
    fn bound(&self, map: &Map, slot: usize) -> Vec<Vec<Slice>> {
        let dispatches = self.plan.dispatches.iter().zip(&map.params);
        let bound = |(dispatch, params): (&Dispatch, &Slice)| {
            let slices = dispatch.bindings.iter().map(|bound| self.place(map, slot, &bound.range));
            [params.clone()].into_iter().chain(slices).collect()
        };
        dispatches.map(bound).collect()
    }
}

impl Replayed {
    /// The lane for another run: one that has nothing to do, another one where all are busy, or that which is least so.
    fn lane(&mut self) -> Result<usize, GpuError> {
        for (index, lane) in self.lanes.iter().enumerate() {
            if lane.submissions.is_idle()? {
                return Ok(index);
            }
        }
        if self.lanes.len() < self.most_lanes {
            match self.another_lane() {
                Ok(lane) => self.lanes.push(lane),
                Err(error) if error.kind() == GpuErrorKind::DeviceLost => return self.owned.device.noted(Err(error)),
                Err(error) => {
                    tracing::debug!(%error, "no more runs beside each other");
                    self.most_lanes = self.lanes.len();
                }
            }
        }
        let least = self.lanes.iter().enumerate().min_by_key(|(_, lane)| lane.submissions.pending());
        Ok(least.map_or(0, |(index, _)| index))
    }

    fn another_lane(&mut self) -> Result<Lane, GpuError> {
        self.owned.add(self.script.arena_bytes, Use::Device)?;
        let arena = self.owned.buffers.len() - 1;
        self.script.record(&mut self.owned, (self.lanes.len(), arena))
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
        // A run under way still reads what was written before, and so do copies of outputs that are inputs.
        self.wait(slot)?;
        if let Some((lane, number)) = self.slots[slot].written {
            self.lanes[lane].submissions.wait(number)?;
        }
        let range = self.slots[slot].inputs[input].range.clone();
        // SAFETY: neither a run of the slot nor a copy is under way, and others have other ranges.
        Ok(Some(unsafe { self.owned.buffers[INPUTS].bytes_mut(range) }))
    }

    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.owned.download(&self.slots[slot].inputs[input], bytes)
    }

    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError> {
        self.owned.device.check()?;
        let index = self.lane()?;
        if let Some((lane, number)) = self.slots[slot].written.filter(|(lane, _)| is_read && *lane != index) {
            self.lanes[lane].submissions.wait(number)?;
        }
        let (count, lane) = (self.lanes.len(), &mut self.lanes[index]);
        let [before, after] = self.links.commands(&mut self.owned)?;
        let (recorded, slot) = (&lane.slots[slot], &mut self.slots[slot]);
        let first = if is_read { &recorded.copies[..1] } else { &[] };
        let run = before.into_iter().chain([recorded.commands]).chain(after);
        let number = lane.submissions.submit(&run.chain(first.iter().copied()).collect::<Vec<_>>())?;
        (slot.last, slot.submitted) = (Some((index, number)), first.len());
        slot.written = if is_read { slot.last } else { slot.written };
        slot.lasts.resize(count, 0);
        slot.lasts[index] = number;
        for copies in recorded.copies.iter().skip(1).filter(|_| is_read) {
            slot.written = Some((index, lane.submissions.submit(&[*copies])?));
            slot.submitted += 1;
        }
        Ok(())
    }

    fn wait(&mut self, slot: usize) -> Result<(), GpuError> {
        let lasts = self.slots[slot].lasts.iter();
        self.lanes.iter_mut().zip(lasts).try_for_each(|(lane, last)| lane.submissions.wait(*last))
    }

    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError> {
        let (Some(parts), Some(slot)) = (self.script.parts.get(slot), self.slots.get(slot)) else { return Ok(None) };
        let Some((lane, number)) = slot.last else { return Ok(None) };
        let submissions = &self.lanes[lane].submissions;
        let Some(Slice { range, .. }) = slot.outputs.get(output).filter(|_| submissions.has_ended(number)) else {
            return Ok(None);
        };
        let submitted = &parts[..slot.submitted];
        let Some(part) = submitted.iter().position(|part| part.end >= range.end.min(range.start.saturating_add(least)))
        else {
            return Ok(None);
        };
        submissions.look(number + part)?;
        let there = range.start..range.end.min(submitted[part].end);
        self.owned.vulkan().invalidate(&self.owned.buffers[OUTPUTS], there.clone())?;
        // SAFETY: the copies up to there have ended, and none starts while this is borrowed; others have other ranges.
        Ok(Some(unsafe { self.owned.buffers[OUTPUTS].bytes(there) }))
    }

    fn share(&mut self, output: usize) -> Result<Option<SharedValue>, GpuError> {
        // Runs that go on beside each other have several arenas, and no order.
        let bound = if self.most_lanes == 1 { &self.script.slots[..] } else { &[] };
        let [Bound { outputs, .. }] = bound else { return Ok(None) };
        let Some([from, _]) = outputs.get(output) else { return Ok(None) };
        let shared = self.links.leave(&self.owned, output, from);
        Ok(Some(self.owned.device.noted(shared)?))
    }

    fn take(&mut self, input: usize, shared: &SharedValue) -> Result<bool, GpuError> {
        let slots = if self.most_lanes == 1 { &self.slots[..] } else { &[] };
        let ([slot], Ok(shared)) = (slots, shared.clone().downcast::<Shared>()) else { return Ok(false) };
        Ok(slot.inputs.get(input).is_some_and(|to| self.links.take(&self.owned, &shared, to)))
    }

    fn keep_back(&mut self, outputs: &[usize]) -> Result<(), GpuError> {
        let ([bound], [lane]) = (&mut self.script.slots[..], &mut self.lanes[..]) else { return Ok(()) };
        for (index, [_, to]) in bound.outputs.iter_mut().enumerate() {
            if outputs.contains(&index) {
                to.range.end = to.range.start;
            }
        }
        lane.slots[0].copies = self.script.copies(&mut self.owned, ARENA, 0)?;
        Ok(())
    }

    fn times(&mut self) -> Result<Times, GpuError> {
        let lane = &mut self.lanes[0];
        lane.submissions.wait_for_all()?;
        let vulkan = self.owned.vulkan();
        let ticks = vulkan.ticks.filter(|_| self.script.timed).ok_or_else(no_timestamps)?;
        let mut stamps = vec![0u64; 2 * self.script.dispatches.len()];
        if !stamps.is_empty() {
            let flags = vk::QueryResultFlags::TYPE_64;
            // SAFETY: the pool is the recording's own, and no run is under way.
            let got = unsafe { vulkan.raw.get_query_pool_results(self.owned.queries, 0, &mut stamps, flags) };
            got.map_err(failed("timestamps"))?;
        }
        let spans = Span::of_ticks(&stamps, ticks.bits, ticks.nanoseconds);
        Ok(Times { spans, barriers: Some(lane.barriers) })
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
