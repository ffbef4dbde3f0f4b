//! The interface through Vulkan: the commands of a run are recorded once and submitted again for each run.
//!
//! A run allocates no device memory, writes no descriptors and validates nothing, unless it is the first run
//! on an additional stream, which is recorded at that time. The host writes inputs to memory that the shaders
//! read. Outputs are copied on the device to memory that the host reads; where memory of the device is memory of the host,
//! dispatches write them there. There are barriers only where one dispatch depends on another.
//!
//! Where inputs or outputs are bound to memory of the caller's, all runs are on the first stream.
#![allow(unsafe_code)]

mod bindings;
mod bound;
mod memory;
mod pieces;
mod resources;
mod shared;
mod stream;
mod submissions;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use ash::vk;
use attache_base::copy;
use attache_base::parallel::both;

use self::bindings::Bindings;
use self::bound::BoundRuns;
use self::memory::{ARENA, INPUTS, Map, Memory, OUTPUTS};
use self::resources::ReplayResources;
use self::shared::{Links, Shared};
use self::stream::{CommandList, ListedDispatch, SlotRanges, Stream};
use self::submissions::Semaphores;
use super::{
    Ended, Fence, Interface, LoadCost, LoadedPlan, Recording, Runs, SharedValue, Span, Times, no_timestamps, params,
};
use crate::bind::{BoundTensor, DeviceMemory, InputBinding, OutputBinding, PendingSignal, usage};
use crate::device::constants::DeviceConstant;
use crate::device::vulkan::{DeviceBuffer, Pipeline, Use, Vulkan, failed};
use crate::device::{Device, DeviceCode, ShaderCode, Submission};
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind};
use crate::layout::ALIGNMENT;
use crate::plan::{BufferRange, Dispatch, Plan, PlanBuffer, WeightSource, padded};

/// Minimum number of bytes of a part of a slot's outputs, unless there is only one part. The parts are copied
/// one after the other, so that the host can process the first one while the next one is copied.
const PART: usize = 512 << 10;

/// Maximum number of parts into which a slot's outputs are split.
const PARTS: usize = 4;

/// Maximum number of bytes of all arenas except the first. With a larger arena, runs do not execute
/// concurrently; such a network keeps the device busy without that.
const MAX_ARENAS: usize = 256 << 20;

/// The interface that runs plans through Vulkan. It requires a Vulkan device that this crate opened.
pub(super) struct Replay(pub(super) Device);

/// One of the buffers that a recording uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BufferId {
    /// A buffer of the recording's own, by its index among [`ReplayResources::buffers`].
    Own(usize),
    /// A buffer of constants, by its index among [`ReplayResources::constants`].
    Constant(usize),
}

/// A range, in bytes, of one of the buffers that a recording uses.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slice {
    buffer: BufferId,
    range: Range<usize>,
}

/// The memory of the runs of one slot, and their submissions.
#[derive(Default)]
struct Slot {
    inputs: Vec<Slice>,
    outputs: Vec<Slice>,
    /// The stream of the last run and the number of the run's submission, which also copies the first part of
    /// the outputs. The submissions that copy the other parts follow it.
    last: Option<(usize, usize)>,
    /// For each stream, the number of the submission of the slot's last run in that stream; 0 if there was
    /// none.
    lasts: Vec<usize>,
    /// Number of parts of the outputs that the last run copies.
    submitted: usize,
    /// The outputs that were bound when the last run was submitted, which the host does not see.
    unseen: Vec<usize>,
    /// The stream and the number of the last submission that copies outputs of the slot.
    written: Option<(usize, usize)>,
}

struct Replayed {
    /// The streams recorded so far. Declared before `resources`, which they use, so that they are dropped
    /// first: dropping them waits for their submissions.
    streams: Vec<Stream>,
    /// What is bound, and the commands of runs that use it.
    bound: BoundRuns,
    plan: Arc<Plan>,
    /// Identifies the recording among all of the process.
    number: u64,
    /// Bytes of inputs and outputs that were copied between host and device so far.
    io_bytes: u64,
    /// Maximum number of streams, and so of runs that execute concurrently.
    max_streams: usize,
    resources: ReplayResources,
    command_list: CommandList,
    slots: Vec<Slot>,
    /// The outputs and inputs that are shared with other recordings.
    links: Links,
}

impl Interface for Replay {
    fn limits(&self) -> &DeviceLimits {
        self.0.limits()
    }

    /// Returns false, since recorded barriers order all accesses to a buffer.
    fn keeps_apart(&self) -> bool {
        false
    }

    fn has_timestamps(&self) -> bool {
        self.0.has_timestamps(Submission::Replay)
    }

    fn load(
        &self,
        plan: &Arc<Plan>,
        weights: &dyn WeightSource,
        code: ShaderCode<'_>,
        first: Option<Runs>,
    ) -> Result<(Box<dyn LoadedPlan>, LoadCost), GpuError> {
        let device = &self.0;
        device.check()?;
        let unsupported =
            || GpuError::new(GpuErrorKind::Unsupported, "replay needs a device of its own through Vulkan");
        let vulkan = device.vulkan().ok_or_else(unsupported)?;
        let start = Instant::now();
        let elapsed = || start.elapsed().as_secs_f64() * 1e3;
        // While the driver compiles shaders, constants are packed and uploaded, and memory is allocated.
        let compile = || vulkan.pipelines(plan, code).map(|made| (made, elapsed()));
        let (compiled, uploaded) = both(compile, || {
            let constants = Constants::load(device, vulkan, plan, weights)?;
            let uploaded = elapsed();
            let first = first.map(|runs| Memory::allocate(device, plan, &constants, runs)).transpose()?;
            Ok((constants, Mutex::new(first), uploaded))
        });
        let ((pipelines, code), compile_ms) = device.noted(compiled)?;
        let (constants, first, uploaded) = device.noted(uploaded)?;
        let upload_ms = (uploaded - compile_ms).max(0.0);
        let weights_bytes = plan.weights.iter().map(|weight| padded(weight.size)).sum();
        let loaded = ReplayPlan { device: device.clone(), plan: plan.clone(), pipelines, code, constants, first };
        Ok((Box::new(loaded), LoadCost { compile_ms, upload_ms, weights_bytes }))
    }
}

/// A plan on a device: its pipelines and constants.
struct ReplayPlan {
    device: Device,
    plan: Arc<Plan>,
    /// The pipeline of each of [`Plan::all_dispatches`].
    pipelines: Vec<Arc<Pipeline>>,
    /// What is kept for [`LoadedPlan::code`].
    code: DeviceCode,
    constants: Constants,
    /// The memory of the first recording, until it is made.
    first: Mutex<Option<Memory>>,
}

impl LoadedPlan for ReplayPlan {
    fn record(&self, runs: Runs) -> Result<Box<dyn Recording>, GpuError> {
        let device = &self.device;
        device.check()?;
        let unsupported = || GpuError::new(GpuErrorKind::Unsupported, "replay needs a Vulkan device");
        let vulkan = device.vulkan().ok_or_else(unsupported)?;
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let memory = match first.filter(|first| first.slots == runs.slots) {
            Some(first) => first,
            None => device.noted(Memory::allocate(device, &self.plan, &self.constants, runs))?,
        };
        let Memory { mut resources, map, .. } = memory;
        resources.pipelines.clone_from(&self.pipelines);
        let builder = Builder { vulkan, plan: &self.plan, resources, runs };
        Ok(Box::new(device.noted(builder.build(map))?))
    }

    fn code(&self) -> Result<DeviceCode, GpuError> {
        Ok(self.code.clone())
    }
}

/// The constants of a plan on the device.
struct Constants {
    /// The location of each weight, in the order of [`Plan::weights`].
    weights: Vec<DeviceConstant<DeviceBuffer>>,
    /// The buffer of all parameters.
    params: Arc<DeviceBuffer>,
    /// For each of [`Plan::all_dispatches`], the range of its parameters in the buffer.
    ranges: Vec<Range<usize>>,
}

impl Constants {
    fn load(device: &Device, vulkan: &Vulkan, plan: &Plan, weights: &dyn WeightSource) -> Result<Self, GpuError> {
        let block = weights.block()?;
        let (ranges, hashes) = (plan.weight_ranges(), weights.hashes());
        let mut resources = ReplayResources::new(device);
        let weights = vulkan.constants.load(&block, &ranges, hashes, |missing| resources.upload(&block, missing))?;
        let (block, ranges) = params(plan);
        let ranges = ranges.into_iter().map(|(offset, size)| offset..offset + size).collect();
        let whole = 0..block.len();
        let params = resources.upload(&block, std::slice::from_ref(&whole))?.swap_remove(0).buffer;
        Ok(Self { weights, params, ranges })
    }

    /// Returns all buffers, each once.
    fn buffers(&self) -> Vec<Arc<DeviceBuffer>> {
        let mut buffers = vec![self.params.clone()];
        for weight in &self.weights {
            if !buffers.iter().any(|buffer| Arc::ptr_eq(buffer, &weight.buffer)) {
                buffers.push(weight.buffer.clone());
            }
        }
        buffers
    }
}

struct Builder<'a> {
    vulkan: &'a Vulkan,
    plan: &'a Arc<Plan>,
    resources: ReplayResources,
    runs: Runs,
}

/// Returns the range of all bytes of consecutive outputs.
fn whole(outputs: &[Slice]) -> Range<usize> {
    let start = outputs.first().map_or(0, |slice| slice.range.start);
    start..outputs.last().map_or(start, |slice| slice.range.end)
}

/// Splits the bytes of consecutive outputs into parts that are copied to the host one after the other.
fn in_parts(outputs: &[Slice]) -> Vec<Range<usize>> {
    let Range { start, end } = whole(outputs);
    let parts = ((end - start) / PART).clamp(1, PARTS);
    let size = (end - start).div_ceil(parts).next_multiple_of(ALIGNMENT);
    (0..parts).map(|part| start + part * size..end.min(start + (part + 1) * size)).collect()
}

impl Builder<'_> {
    fn build(mut self, map: Map) -> Result<Replayed, GpuError> {
        let command_list = self.command_list(&map)?;
        if self.runs.timed {
            self.query_pool()?;
        }
        let first = command_list.record(&mut self.resources, (0, ARENA))?;
        /// The number of recordings that were made in this process.
        static RECORDINGS: AtomicU64 = AtomicU64::new(0);
        let slots = map.inputs.iter().zip(&map.outputs);
        let slots =
            slots.map(|(inputs, outputs)| Slot { inputs: inputs.clone(), outputs: outputs.clone(), ..Slot::default() });
        // With a single slot, a run usually starts after the previous one has ended, so one stream suffices. Timestamps
        // have one query pool, so that timed runs must not overlap.
        let more = if self.runs.slots > 1 && !self.runs.timed { MAX_ARENAS / map.arena_bytes.max(1) } else { 0 };
        let max_streams = self.vulkan.streams().min(1 + more);
        Ok(Replayed {
            streams: vec![first],
            bound: BoundRuns::new(&self.resources.device, self.plan, self.runs.slots),
            plan: self.plan.clone(),
            number: RECORDINGS.fetch_add(1, Ordering::Relaxed),
            io_bytes: 0,
            max_streams,
            resources: self.resources,
            command_list,
            slots: slots.collect(),
            links: Links::default(),
        })
    }

    fn command_list(&self, map: &Map) -> Result<CommandList, GpuError> {
        let listed = |(dispatch, pipeline): (&Dispatch, &Arc<Pipeline>)| {
            Ok(ListedDispatch {
                pipeline: pipeline.raw,
                layout: self.vulkan.layout(dispatch.bindings.len())?,
                groups: dispatch.groups,
                needs_barrier: dispatch.needs_barrier,
            })
        };
        let in_place: Vec<Option<usize>> = (0..self.plan.outputs.len()).map(|output| self.in_place(output)).collect();
        let ranges = |slot: usize| {
            let outputs = self.plan.outputs.iter().zip(&map.outputs[slot]).zip(&in_place);
            let from = |range, to: &Slice, first: &Option<usize>| match first {
                Some(_) => to.clone(),
                None => self.place(map, slot, range),
            };
            let outputs = outputs.map(|((range, to), first)| [from(range, to, first), to.clone()]).collect();
            SlotRanges { inputs: map.inputs[slot].clone(), dispatches: self.bound(map, slot, &in_place), outputs }
        };
        // What is not copied has one part.
        let is_copied = in_place.iter().any(Option::is_none);
        let parts = |outputs: &Vec<Slice>| if is_copied { in_parts(outputs) } else { vec![whole(outputs)] };
        let dispatches = self.plan.all_dispatches().zip(&self.resources.pipelines);
        Ok(CommandList {
            steps: self.plan.dispatches.len(),
            dispatches: dispatches.map(listed).collect::<Result<_, GpuError>>()?,
            slots: (0..self.runs.slots).map(ranges).collect(),
            parts: map.outputs.iter().map(parts).collect(),
            writes_for_host: in_place.iter().any(Option::is_some),
            arena: ARENA,
            arena_bytes: map.arena_bytes,
            timed: self.runs.timed,
            wait: self.runs.wait,
        })
    }

    /// Creates a query pool with two timestamps for each dispatch. Fails if the device has no timestamps.
    fn query_pool(&mut self) -> Result<(), GpuError> {
        self.vulkan.ticks.ok_or_else(no_timestamps)?;
        let stamps = 2 * self.plan.dispatches.len() as u32;
        if stamps > 0 {
            let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(stamps);
            // SAFETY: the device exists.
            let pool = unsafe { self.vulkan.raw.create_query_pool(&info, None) };
            self.resources.queries = pool.map_err(failed("timestamps"))?;
        }
        Ok(())
    }

    fn place(&self, map: &Map, slot: usize, range: &BufferRange) -> Slice {
        let (buffer, start) = match range.buffer {
            PlanBuffer::Input(index) => return map.inputs[slot][index].clone(),
            PlanBuffer::Bank(bank) => (ARENA, map.banks[bank]),
            PlanBuffer::Weights => {
                let (buffer, start) = map.weights[self.plan.weight_at(range.offset)];
                return Slice { buffer, range: start..start + padded(range.size) };
            }
        };
        let start = start + range.offset;
        Slice { buffer, range: start..start + padded(range.size) }
    }

    /// Returns the first dispatch that writes an output where the host reads it; `None` if the output is copied there.
    fn in_place(&self, output: usize) -> Option<usize> {
        self.plan.first_use(output).filter(|_| self.vulkan.is_unified())
    }

    /// Returns the ranges that each of [`Plan::all_dispatches`] binds in a slot's runs. The parameters come first. `in_place`
    /// has [`Builder::in_place`] of each output.
    fn bound(&self, map: &Map, slot: usize, in_place: &[Option<usize>]) -> Vec<Vec<Slice>> {
        let place = |index: usize, range: &BufferRange| {
            let mut outputs = self.plan.outputs.iter().zip(in_place).zip(&map.outputs[slot]);
            let there =
                outputs.find(|((output, first), _)| *output == range && first.is_some_and(|first| index >= first));
            there.map_or_else(|| self.place(map, slot, range), |(_, slice)| slice.clone())
        };
        let bound = |((index, dispatch), params): ((usize, &Dispatch), &Slice)| {
            let slices = dispatch.bindings.iter().map(|bound| place(index, &bound.range));
            [params.clone()].into_iter().chain(slices).collect()
        };
        self.plan.numbered_dispatches().zip(&map.params).map(bound).collect()
    }
}

impl Replayed {
    /// Returns the index of the stream for the next run of a slot: that of its last run if both write outputs to the same
    /// memory, else an idle stream if there is one, otherwise a new one if there may be another, otherwise the one with
    /// the fewest pending submissions.
    fn stream(&mut self, slot: usize) -> Result<usize, GpuError> {
        if let Some((stream, number)) = self.slots[slot].last.filter(|_| self.command_list.writes_for_host)
            && !self.streams[stream].submissions.is_over(number)?
        {
            return Ok(stream);
        }
        for (index, stream) in self.streams.iter().enumerate() {
            if stream.submissions.is_idle()? {
                return Ok(index);
            }
        }
        if self.streams.len() < self.max_streams {
            match self.another_stream() {
                Ok(stream) => self.streams.push(stream),
                Err(error) if error.kind() == GpuErrorKind::DeviceLost => {
                    return self.resources.device.noted(Err(error));
                }
                Err(error) => {
                    tracing::debug!(%error, "no more runs beside each other");
                    self.max_streams = self.streams.len();
                }
            }
        }
        let least = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.submissions.pending());
        Ok(least.map_or(0, |(index, _)| index))
    }

    fn another_stream(&mut self) -> Result<Stream, GpuError> {
        self.resources.add(self.command_list.arena_bytes, Use::Device)?;
        let arena = BufferId::Own(self.resources.buffers.len() - 1);
        self.command_list.record(&mut self.resources, (self.streams.len(), arena))
    }

    /// Returns the memory of an input of a slot, after the pending runs and copies that use it.
    fn place_mut(&mut self, slot: usize, input: usize) -> Result<&mut [u8], GpuError> {
        // Pending runs still read the previous bytes, and so do pending copies of outputs that are inputs.
        self.wait(slot)?;
        if let Some((stream, number)) = self.slots[slot].written {
            self.streams[stream].submissions.wait(number)?;
        }
        let range = self.slots[slot].inputs[input].range.clone();
        // SAFETY: no run of the slot and no copy of its outputs is pending, and other slots use other ranges.
        Ok(unsafe { self.resources.buffers[INPUTS].bytes_mut(range) })
    }

    /// Submits a run of a slot that uses what is bound.
    fn submit_bound(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError> {
        let lists = (&self.command_list, &mut self.resources);
        let (mut run, mut copies) = self.bound.commands(&self.plan, lists, &self.streams[0], slot)?;
        if !is_read {
            copies.clear();
        }
        run.extend(copies.first());
        let (waits, signals) = self.bound.bindings.semaphores()?;
        let semaphores = Semaphores { waits, signals };
        self.streams[0].submissions.make_room()?;
        let waited = |semaphore| semaphores.waits.get(semaphore).map_or(0, |(_, value)| *value);
        let pending = semaphores.signals.iter();
        let pending = pending.map(|(raw, (semaphore, value))| semaphore.pending_signal(*value, waited(raw)));
        let pending = pending.collect::<Result<Vec<_>, _>>()?;
        let permits = self.bound.bindings.submitting()?;
        let submissions = &mut self.streams[0].submissions;
        let number = submissions.submit(&run, &semaphores)?;
        pending.into_iter().for_each(PendingSignal::submitted);
        permits.into_iter().for_each(|permit| permit.done(self.number, submissions.completion(number)));
        self.bound.submitted(slot, number);
        self.io_bytes += self.bound.bindings.copied_bytes();
        self.submitted(slot, (0, number), copies.get(1..), copies.len().min(1))
    }

    /// Submits the copies of further parts of the outputs of a run of a slot, whose submission copies `first` parts.
    fn submitted(
        &mut self,
        slot: usize,
        (index, number): (usize, usize),
        rest: Option<&[vk::CommandBuffer]>,
        first: usize,
    ) -> Result<(), GpuError> {
        let (count, stream) = (self.streams.len(), &mut self.streams[index]);
        if first > 0 {
            let outputs = self.command_list.slots[slot].outputs.iter().zip(&self.bound.bindings.outputs);
            let copied = outputs.filter(|([from, to], bound)| from != to && bound.is_none());
            self.io_bytes += copied.map(|([_, to], _)| to.range.len() as u64).sum::<u64>();
        }
        let bound = self.bound.bindings.outputs.iter().enumerate();
        let slot = &mut self.slots[slot];
        slot.unseen.clear();
        slot.unseen.extend(bound.filter(|(_, bound)| bound.is_some()).map(|(output, _)| output));
        (slot.last, slot.submitted) = (Some((index, number)), first);
        slot.written = if first > 0 { slot.last } else { slot.written };
        slot.lasts.resize(count, 0);
        slot.lasts[index] = number;
        for copies in rest.into_iter().flatten() {
            slot.written = Some((index, stream.submissions.submit(&[*copies], &Semaphores::default())?));
            slot.submitted += 1;
        }
        Ok(())
    }

    /// Takes over other bindings. Waits for all runs if the commands of runs are divided in another way than before.
    fn rebind(&mut self, bindings: Bindings) -> Result<(), GpuError> {
        if self.bound.bindings.shape() != bindings.shape() {
            self.streams.iter_mut().try_for_each(|stream| stream.submissions.wait_for_all())?;
        }
        let submissions = &self.streams[0].submissions;
        self.bound.rebind(&self.plan, bindings, submissions.started());
        self.bound.release(submissions);
        Ok(())
    }

    /// Fails if nothing can be bound.
    fn check_unlinked(&self) -> Result<(), GpuError> {
        self.resources.device.check()?;
        let text = "nothing is bound where values are shared with other sessions";
        if self.links.is_empty() { Ok(()) } else { Err(usage(text)) }
    }
}

impl Recording for Replayed {
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        let place = self.place_mut(slot, input)?;
        let count = bytes.len().min(place.len());
        copy(&mut place[..count], &bytes[..count]);
        self.io_bytes += count as u64;
        Ok(())
    }

    fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError> {
        if !self.resources.vulkan().is_unified() {
            self.io_bytes += self.slots[slot].inputs[input].range.len() as u64;
        }
        self.place_mut(slot, input).map(Some)
    }

    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.resources.download(&self.slots[slot].inputs[input], bytes)
    }

    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError> {
        self.resources.device.check()?;
        if !self.bound.bindings.is_empty() {
            return self.submit_bound(slot, is_read);
        }
        let index = self.stream(slot)?;
        if let Some((stream, number)) = self.slots[slot].written.filter(|(stream, _)| is_read && *stream != index) {
            self.streams[stream].submissions.wait(number)?;
        }
        let [before, after] = self.links.commands(&mut self.resources)?;
        let stream = &mut self.streams[index];
        let recorded = &stream.slots[slot];
        let copies = if is_read { recorded.copies.clone() } else { Vec::new() };
        let run = before.into_iter().chain([recorded.commands]).chain(after);
        let run: Vec<_> = run.chain(copies.first().copied()).collect();
        let number = stream.submissions.submit(&run, &Semaphores::default())?;
        self.submitted(slot, (index, number), copies.get(1..), copies.len().min(1))
    }

    fn wait(&mut self, slot: usize) -> Result<(), GpuError> {
        let lasts = self.slots[slot].lasts.iter();
        self.streams.iter_mut().zip(lasts).try_for_each(|(stream, last)| stream.submissions.wait(*last))?;
        self.bound.release(&self.streams[0].submissions);
        Ok(())
    }

    fn completion(&self, slot: usize) -> Arc<dyn Fence> {
        match self.slots[slot].last {
            Some((stream, number)) => self.streams[stream].submissions.completion(number),
            None => Arc::new(Ended),
        }
    }

    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError> {
        let (Some(parts), Some(slot)) = (self.command_list.parts.get(slot), self.slots.get(slot)) else {
            return Ok(None);
        };
        let Some((stream, number)) = slot.last.filter(|_| !slot.unseen.contains(&output)) else { return Ok(None) };
        let submissions = &self.streams[stream].submissions;
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
        let invalidated = self.resources.vulkan().invalidate(&self.resources.buffers[OUTPUTS], there.clone());
        self.resources.device.noted(invalidated)?;
        // SAFETY: the copies to this range have ended, and none starts during the borrow. Other slots use other ranges.
        Ok(Some(unsafe { self.resources.buffers[OUTPUTS].bytes(there) }))
    }

    fn share(&mut self, output: usize) -> Result<Option<SharedValue>, GpuError> {
        // Concurrent runs use several arenas and have no order.
        let is_alone = self.max_streams == 1 && self.bound.bindings.is_empty();
        let bound = if is_alone { &self.command_list.slots[..] } else { &[] };
        let [SlotRanges { outputs, .. }] = bound else { return Ok(None) };
        let Some([from, _]) = outputs.get(output) else { return Ok(None) };
        let shared = self.links.leave(&self.resources, output, from);
        Ok(Some(self.resources.device.noted(shared)?))
    }

    fn take(&mut self, input: usize, shared: &SharedValue) -> Result<bool, GpuError> {
        let is_alone = self.max_streams == 1 && self.bound.bindings.is_empty();
        let slots = if is_alone { &self.slots[..] } else { &[] };
        let ([slot], Ok(shared)) = (slots, shared.clone().downcast::<Shared>()) else { return Ok(false) };
        Ok(slot.inputs.get(input).is_some_and(|to| self.links.take(&self.resources, &shared, to)))
    }

    fn keep_on_device(&mut self, outputs: &[usize]) -> Result<(), GpuError> {
        let ([bound], [stream]) = (&mut self.command_list.slots[..], &mut self.streams[..]) else { return Ok(()) };
        for (index, [_, to]) in bound.outputs.iter_mut().enumerate() {
            if outputs.contains(&index) {
                to.range.end = to.range.start;
            }
        }
        stream.slots[0].copies = self.command_list.copies(&mut self.resources, ARENA, 0)?;
        Ok(())
    }

    fn bind_input(&mut self, input: usize, bound: Option<(InputBinding, BoundTensor)>) -> Result<(), GpuError> {
        self.check_unlinked()?;
        let device = &self.resources.device;
        self.rebind(self.bound.bindings.with_input(device, &self.plan, (input, bound))?)
    }

    fn bind_output(&mut self, output: usize, bound: Option<(OutputBinding, BoundTensor)>) -> Result<(), GpuError> {
        self.check_unlinked()?;
        let device = &self.resources.device;
        self.rebind(self.bound.bindings.with_output(device, &self.plan, (output, bound))?)
    }

    fn memory(&self, size: usize) -> Result<Option<DeviceMemory>, GpuError> {
        DeviceMemory::new(&self.resources.device, size).map(Some)
    }

    fn io_bytes(&self) -> Option<u64> {
        Some(self.io_bytes)
    }

    fn times(&mut self) -> Result<Times, GpuError> {
        let stream = &mut self.streams[0];
        stream.submissions.wait_for_all()?;
        let vulkan = self.resources.vulkan();
        let ticks = vulkan.ticks.filter(|_| self.command_list.timed).ok_or_else(no_timestamps)?;
        let mut stamps = vec![0u64; 2 * self.command_list.steps];
        if !stamps.is_empty() {
            let flags = vk::QueryResultFlags::TYPE_64;
            // SAFETY: the pool belongs to the recording, and no run is pending.
            let got = unsafe { vulkan.raw.get_query_pool_results(self.resources.queries, 0, &mut stamps, flags) };
            self.resources.device.noted(got.map_err(failed("timestamps")))?;
        }
        let spans = Span::of_ticks(&stamps, ticks.bits, ticks.nanoseconds);
        Ok(Times { spans, barriers: Some(stream.barriers) })
    }
}

#[cfg(test)]
mod tests {
    use super::memory::in_order;
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
