//! The interface through wgpu, which works on every device: each run encodes its commands again and submits
//! them once. Buffers and bind groups are created once, when the plan is recorded.

mod bound;
mod clock;
mod memory;
mod rebind;

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use attache_base::{Stopwatch, copy};

use self::bound::Bindings;
use self::clock::Clock;
use self::memory::Memory;
use self::rebind::{Stale, Transfers};
use super::{
    Ended, Fence, Interface, LoadCost, LoadedPlan, MAX_PENDING, Recording, Runs, Times, no_binding, no_timestamps,
    params,
};
use crate::bind::{BoundTensor, InputBinding, OutputBinding, Slice, Transfer, usage};
use crate::device::constants::{DeviceConstant, together};
use crate::device::{Device, DeviceCode, ShaderCode, Submission};
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind};
use crate::plan::{Plan, WeightSource, padded};

/// The interface that runs plans through wgpu, on every device.
pub(super) struct Encoder(pub(super) Device);

pub(super) struct Command {
    pipeline: Arc<wgpu::ComputePipeline>,
    /// For each slot, the bind group of the dispatch; `None` until it is made again because of what was
    /// bound.
    bindings: Vec<Option<wgpu::BindGroup>>,
    groups: [u32; 3],
}

impl Command {
    pub(super) fn encode(&self, pass: &mut wgpu::ComputePass<'_>, slot: usize) {
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, self.bindings[slot].as_ref(), &[]);
        let [x, y, z] = self.groups;
        pass.dispatch_workgroups(x, y, z);
    }
}

/// The memory of the runs of one slot, and the state of the last run.
struct Slot {
    transfers: Transfers,
    /// What is out of date because of what the caller has bound since the slot's last run.
    stale: Stale,
    /// For each output, whether the last run copied it to the staging buffer.
    is_staged: Vec<bool>,
    staging: wgpu::Buffer,
    /// The bytes of the staging buffer. Updated by the wait for a run whose outputs are read.
    read: Vec<u8>,
    state: State,
}

/// The state of the last run of a slot.
enum State {
    /// There was no run yet, or the last run has ended and its outputs were not copied.
    None,
    /// The last run was submitted and not waited for. The boolean tells whether its outputs are copied to the
    /// staging buffer.
    Started(wgpu::SubmissionIndex, bool),
    /// The last run has ended, and its outputs were copied to `read` of the slot.
    Read,
}

struct Encoded {
    device: Device,
    memory: Memory,
    bindings: Bindings,
    slots: Vec<Slot>,
    commands: Vec<Command>,
    /// The offset in bytes of each output in the staging buffers.
    staged: Vec<u64>,
    clock: Option<Clock>,
    /// The latest submissions, the oldest first, at most [`MAX_PENDING`]. Before a further submission, the
    /// oldest one is waited for.
    pending: VecDeque<wgpu::SubmissionIndex>,
}

impl Interface for Encoder {
    fn limits(&self) -> &DeviceLimits {
        self.0.limits()
    }

    /// Returns true, since wgpu does not let a dispatch bind the same buffer both for reading and for
    /// writing.
    fn keeps_apart(&self) -> bool {
        true
    }

    fn has_timestamps(&self) -> bool {
        self.0.has_timestamps(Submission::Encoder)
    }

    fn load(
        &self,
        plan: &Arc<Plan>,
        weights: &dyn WeightSource,
        code: ShaderCode<'_>,
        _: Option<Runs>,
    ) -> Result<(Box<dyn LoadedPlan>, LoadCost), GpuError> {
        let device = &self.0;
        device.check()?;
        device.scoped(|| EncoderPlan::load(device, plan, weights, code))?
    }
}

/// A plan on a device: its pipelines, and its constants in buffers.
struct EncoderPlan {
    device: Device,
    plan: Arc<Plan>,
    /// The pipeline of each dispatch.
    pipelines: Vec<Arc<wgpu::ComputePipeline>>,
    /// The cache of pipelines that is kept for [`LoadedPlan::code`].
    cache: Option<wgpu::PipelineCache>,
    /// The location of each weight, in the order of [`Plan::weights`].
    weights: Vec<DeviceConstant<wgpu::Buffer>>,
    /// The location of each dispatch's parameters.
    params: Vec<Slice>,
}

impl LoadedPlan for Arc<EncoderPlan> {
    fn record(&self, runs: Runs) -> Result<Box<dyn Recording>, GpuError> {
        self.device.check()?;
        Ok(Box::new(self.device.scoped(|| Encoded::new(self, runs))??))
    }

    fn code(&self) -> Result<DeviceCode, GpuError> {
        let pipelines = self.cache.as_ref().and_then(wgpu::PipelineCache::get_data).unwrap_or_default();
        Ok(DeviceCode { shaders: Vec::new(), pipelines })
    }
}

impl EncoderPlan {
    fn load(
        device: &Device,
        plan: &Arc<Plan>,
        weights: &dyn WeightSource,
        code: ShaderCode<'_>,
    ) -> Result<(Box<dyn LoadedPlan>, LoadCost), GpuError> {
        use wgpu::BufferUsages as Usages;
        let start = Stopwatch::start();
        let (pipelines, cache) = device.pipelines(&plan.sources()[..plan.dispatches.len()], code)?;
        let compile_ms = start.milliseconds();
        let start = Stopwatch::start();
        let block = weights.block()?;
        let (ranges, hashes) = (plan.weight_ranges(), weights.hashes());
        let usage = Usages::STORAGE | Usages::COPY_SRC;
        let upload_missing = |missing: &[Range<usize>]| upload(device, &block, missing, usage);
        let weights = device.constants().load(&block, &ranges, hashes, upload_missing)?;
        let (params, ranges) = params(plan);
        let ranges: Vec<Range<usize>> = ranges.into_iter().map(|(offset, size)| offset..offset + size).collect();
        let uploaded = upload(device, &params, &ranges, Usages::UNIFORM | Usages::STORAGE)?;
        let params = uploaded.iter().zip(&ranges).map(|(constant, range)| Slice::of(constant, range.len())).collect();
        let upload_ms = start.milliseconds();
        let weights_bytes = plan.weights.iter().map(|weight| padded(weight.size)).sum();
        let loaded = Self { device: device.clone(), plan: plan.clone(), pipelines, cache, weights, params };
        Ok((Box::new(Arc::new(loaded)), LoadCost { compile_ms, upload_ms, weights_bytes }))
    }
}

impl Slice {
    /// Returns the first `size` bytes of a constant.
    fn of(constant: &DeviceConstant<wgpu::Buffer>, size: usize) -> Self {
        Self { buffer: (*constant.buffer).clone(), offset: constant.offset as u64, size: size as u64 }
    }
}

/// Uploads ranges of a block into as few buffers as the device's limit on buffer sizes allows. Each starts at an
/// aligned offset. Returns the location of each range.
fn upload(
    device: &Device,
    block: &[u8],
    mut ranges: &[Range<usize>],
    usage: wgpu::BufferUsages,
) -> Result<Vec<DeviceConstant<wgpu::Buffer>>, GpuError> {
    let limit = device.wgpu().limits().max_buffer_size;
    let mut constants = Vec::with_capacity(ranges.len());
    while !ranges.is_empty() {
        let (offsets, size) = together(ranges, limit);
        let buffer = Arc::new(buffer(device, size as u64, usage | wgpu::BufferUsages::COPY_DST)?);
        for (range, offset) in ranges.iter().zip(&offsets) {
            device.queue().write_buffer(&buffer, *offset as u64, &block[range.clone()]);
            constants.push(DeviceConstant { buffer: buffer.clone(), offset: *offset });
        }
        ranges = &ranges[offsets.len()..];
    }
    Ok(constants)
}

/// Allocates a buffer of `size` bytes. Fails if the device does not support buffers as large.
fn buffer(device: &Device, size: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, GpuError> {
    let limit = device.wgpu().limits().max_buffer_size;
    if size > limit {
        let message = format!("a buffer of {size} bytes is more than the device's {limit}");
        return Err(GpuError::new(GpuErrorKind::Unsupported, message));
    }
    let descriptor = wgpu::BufferDescriptor { label: None, size: size.max(4), usage, mapped_at_creation: false };
    Ok(device.wgpu().create_buffer(&descriptor))
}

impl Encoded {
    fn new(loaded: &Arc<EncoderPlan>, runs: Runs) -> Result<Self, GpuError> {
        use wgpu::BufferUsages as Usages;
        let EncoderPlan { device, plan, pipelines, .. } = &**loaded;
        let memory = Memory::new(loaded, runs.slots)?;
        let mut commands = Vec::with_capacity(plan.dispatches.len());
        for (index, (dispatch, pipeline)) in plan.dispatches.iter().zip(pipelines).enumerate() {
            let bindings = (0..runs.slots).map(|slot| Some(memory.bind(slot, index))).collect();
            commands.push(Command { pipeline: pipeline.clone(), bindings, groups: dispatch.groups });
        }
        let mut staged = Vec::new();
        let mut size = 0;
        for output in 0..plan.outputs.len() {
            staged.push(size);
            size += memory.output(0, output).size.next_multiple_of(8);
        }
        let slot = |_| {
            let staging = buffer(device, size.max(8), Usages::MAP_READ | Usages::COPY_DST)?;
            let transfers = Transfers::new(plan.inputs.len(), plan.outputs.len());
            let read = vec![0; size as usize];
            let is_staged = vec![false; plan.outputs.len()];
            Ok(Slot { transfers, stale: Stale::default(), is_staged, staging, read, state: State::None })
        };
        let slots = (0..runs.slots).map(slot).collect::<Result<_, GpuError>>()?;
        let clock = if runs.timed { Some(Clock::new(device, commands.len())?) } else { None };
        let (device, bindings) = (device.clone(), Bindings::new(plan.inputs.len(), plan.outputs.len()));
        Ok(Self { device, memory, bindings, slots, commands, staged, clock, pending: VecDeque::new() })
    }

    /// Fails unless the caller opened the device, so that there can be memory and commands of the caller's on
    /// it, or if the device is known to have failed.
    fn check_callers(&self) -> Result<(), GpuError> {
        if self.device.is_callers() { self.device.check() } else { Err(no_binding()) }
    }

    /// Adds a run of a slot to an encoder, with timestamps around each dispatch if there is a clock.
    fn record(&self, encoder: &mut wgpu::CommandEncoder, slot: usize, clock: Option<&Clock>) {
        let Transfers { before, after } = &self.slots[slot].transfers;
        let (before, after) = (before.iter().flatten(), after.iter().flatten());
        before.clone().for_each(|transfer| transfer.encode(encoder));
        match clock {
            Some(clock) => {
                Self::dispatch(encoder, before);
                clock.encode(encoder, &self.commands, slot);
                Self::dispatch(encoder, after.clone());
            }
            None => {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                before.for_each(|transfer| transfer.dispatch(&mut pass));
                self.commands.iter().for_each(|command| command.encode(&mut pass, slot));
                after.clone().for_each(|transfer| transfer.dispatch(&mut pass));
            }
        }
        after.for_each(|transfer| transfer.encode(encoder));
    }

    /// Adds transfers by dispatches, in a pass of their own.
    fn dispatch<'a>(encoder: &mut wgpu::CommandEncoder, mut transfers: impl Iterator<Item = &'a Transfer>) {
        if let Some(first) = transfers.next() {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            std::iter::once(first).chain(transfers).for_each(|transfer| transfer.dispatch(&mut pass));
        }
    }
}

/// A submission, for whose end any thread can wait.
struct Submitted {
    device: Device,
    submission: wgpu::SubmissionIndex,
}

impl Fence for Submitted {
    fn wait(&self, timeout: Duration) -> Result<bool, GpuError> {
        let until = wgpu::PollType::Wait { submission_index: Some(self.submission.clone()), timeout: Some(timeout) };
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.device.wgpu().poll(until)));
        self.device.check()?;
        match waited {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(wgpu::PollError::Timeout)) => Ok(false),
            Ok(Err(error)) => Err(stopped(&error)),
            Err(_) => self.device.noted(Err(GpuError::lost("a run"))),
        }
    }
}

fn stopped(error: &wgpu::PollError) -> GpuError {
    GpuError::new(GpuErrorKind::Failed, format!("the device stopped: {error}"))
}

/// Returns the argument of `poll` that waits for a submission and all earlier ones, or without a submission
/// for all submissions so far.
fn end_of(submission_index: Option<wgpu::SubmissionIndex>) -> wgpu::PollType {
    wgpu::PollType::Wait { submission_index, timeout: None }
}

/// Polls wgpu's device until `until` is reached. wgpu panics if the device is lost during the wait; the panic
/// is caught and returned as an error.
fn poll(device: &Device, until: wgpu::PollType) -> Result<(), GpuError> {
    let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| device.wgpu().poll(until)));
    device.check()?;
    match waited {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(stopped(&error)),
        Err(_) => device.noted(Err(GpuError::lost("a run"))),
    }
}

impl Recording for Encoded {
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        let slice = &self.memory.inputs[slot][input];
        let whole = bytes.len() / 4 * 4;
        self.device.queue().write_buffer(&slice.buffer, 0, &bytes[..whole]);
        if whole < bytes.len() {
            let mut rest = [0; 4];
            rest[..bytes.len() - whole].copy_from_slice(&bytes[whole..]);
            self.device.queue().write_buffer(&slice.buffer, whole as u64, &rest);
        }
        Ok(())
    }

    fn input_mut(&mut self, _: usize, _: usize) -> Result<Option<&mut [u8]>, GpuError> {
        Ok(None)
    }

    fn read_input(&mut self, _: usize, _: usize, _: &mut [u8]) -> Result<(), GpuError> {
        Err(GpuError::new(GpuErrorKind::Failed, "the device has its inputs for itself"))
    }

    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError> {
        if self.pending.len() == MAX_PENDING
            && let Some(first) = self.pending.pop_front()
        {
            poll(&self.device, end_of(Some(first)))?;
        }
        self.refresh(slot)?;
        let descriptor = wgpu::CommandEncoderDescriptor { label: None };
        let mut encoder = self.device.wgpu().create_command_encoder(&descriptor);
        self.record(&mut encoder, slot, self.clock.as_ref());
        for (output, at) in self.staged.iter().enumerate() {
            let is_staged = is_read && !self.bindings.has_output(output);
            self.slots[slot].is_staged[output] = is_staged;
            if is_staged {
                let from = self.memory.output(slot, output);
                encoder.copy_buffer_to_buffer(&from.buffer, from.offset, &self.slots[slot].staging, *at, from.size);
            }
        }
        let is_read = self.slots[slot].is_staged.contains(&true);
        let alone = self.device.vulkan().map(|vulkan| vulkan.queue(0));
        let submit = || self.device.queue().submit([encoder.finish()]);
        // The caller may have destroyed what is bound.
        let submission = if self.bindings.is_empty() { submit() } else { self.device.scoped(submit)? };
        drop(alone);
        self.slots[slot].state = State::Started(submission.clone(), is_read);
        self.pending.push_back(submission);
        self.device.check()
    }

    fn wait(&mut self, slot: usize) -> Result<(), GpuError> {
        let State::Started(submission, is_read) = &self.slots[slot].state else { return self.device.check() };
        let until = end_of(Some(submission.clone()));
        if !is_read {
            self.slots[slot].state = State::None;
            return poll(&self.device, until);
        }
        let failed = |error: &dyn std::fmt::Display| {
            GpuError::new(GpuErrorKind::Failed, format!("the outputs cannot be read: {error}"))
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let staging = self.slots[slot].staging.clone();
        staging.map_async(wgpu::MapMode::Read, .., move |result| drop(sender.send(result)));
        poll(&self.device, until)?;
        receiver.recv().map_err(|error| failed(&error))?.map_err(|error| failed(&error))?;
        {
            let mapped = staging.get_mapped_range(..).map_err(|error| failed(&error))?;
            let read = &mut self.slots[slot].read;
            let size = read.len();
            copy(read, &mapped[..size]);
        }
        staging.unmap();
        self.slots[slot].state = State::Read;
        self.device.check()
    }

    fn completion(&self, slot: usize) -> Arc<dyn Fence> {
        match &self.slots[slot].state {
            State::Started(submission, _) => {
                Arc::new(Submitted { device: self.device.clone(), submission: submission.clone() })
            }
            State::None | State::Read => Arc::new(Ended),
        }
    }

    fn output(&self, slot: usize, output: usize, _: usize) -> Result<Option<&[u8]>, GpuError> {
        let slot = self.slots.get(slot).filter(|slot| matches!(slot.state, State::Read));
        let slot = slot.filter(|slot| slot.is_staged.get(output).is_some_and(|is_staged| *is_staged));
        let there = slot.zip(self.staged.get(output)).and_then(|(slot, start)| slot.read.get(*start as usize..));
        Ok(there)
    }

    fn times(&mut self) -> Result<Times, GpuError> {
        let until = end_of(self.pending.back().cloned());
        let spans = self.clock.as_ref().ok_or_else(no_timestamps)?.read(&self.device, until)?;
        self.pending.clear();
        Ok(Times { spans, barriers: None })
    }

    fn bind_input(&mut self, input: usize, bound: Option<(InputBinding, BoundTensor)>) -> Result<(), GpuError> {
        self.check_callers()?;
        let bindings = self.bindings.with_input(&self.memory, input, bound)?;
        self.rebind(bindings, Stale::input(input))
    }

    fn bind_output(&mut self, output: usize, bound: Option<(OutputBinding, BoundTensor)>) -> Result<(), GpuError> {
        self.check_callers()?;
        let bindings = self.bindings.with_output(&self.device, output, bound)?;
        self.rebind(bindings, Stale::output(output))
    }

    fn encode(&mut self, encoder: &mut wgpu::CommandEncoder) -> Result<(), GpuError> {
        self.check_callers()?;
        self.refresh(0)?;
        let recorded = self.device.scoped(|| catch_unwind(AssertUnwindSafe(|| self.record(encoder, 0, None))))?;
        recorded.map_err(|panic| not_encoded(&*panic))
    }
}

/// Returns the error for a panic of wgpu while commands were added to an encoder. An encoder of another
/// instance looks pipelines and bind groups up by their numbers, which that instance may have given to
/// nothing.
fn not_encoded(panic: &(dyn Any + Send)) -> GpuError {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let text = text.unwrap_or("without a message");
    match text.contains("Cannot get ") {
        true => usage("the command encoder is of another device than the delegate's"),
        false => GpuError::new(GpuErrorKind::Failed, format!("wgpu panicked while commands were added: {text}")),
    }
}
