//! An executable: a program that is planned and loaded on a device. A session: a recording of an executable, which
//! runs it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use attache_base::{copy, process_id};
use attache_gpu_ir::Program;

use super::{Fence, Interface, LoadCost, LoadedPlan, Recording, Runs, SharedValue, Times, interface};
use crate::bind::{BoundTensor, DeviceMemory, InputBinding, OutputBinding, usage};
use crate::device::{Device, ShaderCode, Submission};
use crate::kernel::{GpuError, GpuErrorKind, Precision};
use crate::plan::{Plan, PlanReport, PlanSummary};

/// Maximum number of slots of a session. Each slot has its own memory for inputs and outputs.
const MAX_SLOTS: usize = 64;

/// A program that is planned and loaded on a device: its pipelines and constants are there. Sessions run it, each
/// with its own memory for inputs, outputs and intermediate values.
pub struct Executable {
    pub(super) plan: Arc<Plan>,
    pub(super) summary: PlanSummary,
    pub(super) loaded: Box<dyn LoadedPlan>,
    pub(super) cost: LoadCost,
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable").field("cost", &self.cost).finish_non_exhaustive()
    }
}

/// A recording of an executable, ready to run. Methods without a slot use slot 0.
pub struct Session {
    executable: Arc<Executable>,
    slots: usize,
    recording: Box<dyn Recording>,
    ran: bool,
    /// The process that made the session. Drivers do not work in a fork of it: runs would never end.
    process: u32,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// The time that preparing a session took, its kernel variants, and its memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionReport {
    /// Number of dispatches of one run.
    pub dispatches: usize,
    /// The names of the kernel variants that generated the dispatches.
    pub variants: BTreeSet<&'static str>,
    /// The names of the variants that apply to some kernel for which another variant was chosen.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of the banks of intermediate values of one run. Replay may allocate them several times, for
    /// concurrent runs.
    pub arena_bytes: usize,
    /// The largest number of bytes of intermediate values that are live at one kernel.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of constants on the device.
    pub weights_bytes: usize,
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, without those that overlapped with making pipelines.
    pub upload_ms: f64,
}

/// Fails if there are too many slots.
pub(super) fn check(runs: Runs) -> Result<(), GpuError> {
    if runs.slots > MAX_SLOTS {
        return Err(refused(format!("{} slots are more than the {MAX_SLOTS} that there may be", runs.slots)));
    }
    Ok(())
}

impl Executable {
    /// Plans a program and loads the plan on a device.
    ///
    /// # Errors
    ///
    /// Fails if the device does not support the submission method or a kernel of the program, or is out of memory or
    /// lost.
    pub fn new(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
    ) -> Result<Self, GpuError> {
        Self::on(&*interface(device, submission)?, program, precision, None)
    }

    /// Plans a program and loads the plan through an interface to a device. If `first` says what the first session is for,
    /// its memory may be allocated meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if the device does not support a kernel of the program, or is out of memory or lost.
    pub fn on(
        interface: &dyn Interface,
        program: Program,
        precision: Precision,
        first: Option<Runs>,
    ) -> Result<Self, GpuError> {
        first.map_or(Ok(()), check)?;
        let report = PlanReport::new(program, precision, interface.limits(), interface.keeps_apart())?;
        let plan = report.plan()?;
        // Debug builds load the plan as it is after serialization, so that every test shows that a stored plan
        // lacks nothing that recordings need.
        let plan = Arc::new(if cfg!(debug_assertions) { Plan::from_bytes(&plan.to_bytes())? } else { plan });
        debug_assert_eq!(plan.check_limits(interface.limits()), Ok(()), "stored plans must keep to these limits");
        let summary = PlanSummary::new(&report);
        let (loaded, cost) = interface.load(&plan, &report, ShaderCode::Compile, first)?;
        Ok(Self { plan, summary, loaded, cost })
    }

    /// Makes a session, with the slots and timestamps that `runs` asks for.
    ///
    /// # Errors
    ///
    /// Fails if the device lacks timestamps that `runs` asks for, or is out of memory or lost; also if there are
    /// more than 64 slots.
    pub fn session(self: &Arc<Self>, runs: Runs) -> Result<Session, GpuError> {
        check(runs)?;
        let recording = self.loaded.record(runs)?;
        let process = process_id();
        Ok(Session { executable: self.clone(), slots: runs.slots, recording, ran: false, process })
    }

    /// Returns the plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns what hosts and reports need to know about the plan.
    #[must_use]
    pub fn summary(&self) -> &PlanSummary {
        &self.summary
    }

    /// Returns the time that loading took, the kernel variants, and the memory of a run.
    #[must_use]
    pub fn report(&self) -> SessionReport {
        SessionReport {
            dispatches: self.plan.dispatches.len(),
            variants: self.summary.variants(),
            alternatives: self.summary.alternatives(),
            arena_bytes: self.plan.banks.iter().sum(),
            arena_lower_bound_bytes: self.summary.arena_lower_bound,
            weights_bytes: self.cost.weights_bytes,
            compile_ms: self.cost.compile_ms,
            upload_ms: self.cost.upload_ms,
        }
    }
}

impl Session {
    /// Plans a program and records the plan on a device, with one slot.
    ///
    /// # Errors
    ///
    /// Fails if the device does not support the submission method or a kernel of the program, or is out of memory or
    /// lost.
    pub fn new(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
    ) -> Result<Self, GpuError> {
        Self::on(&*interface(device, submission)?, program, precision, Runs::default())
    }

    /// Prepares a program like [`Session::new`], so that each run records timestamps for [`Session::times`].
    /// Timestamps slow a run down.
    ///
    /// # Errors
    ///
    /// As [`Session::new`]; also if the device has no timestamps.
    pub fn timed(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
    ) -> Result<Self, GpuError> {
        Self::on(&*interface(device, submission)?, program, precision, Runs { timed: true, ..Runs::default() })
    }

    /// Prepares a program like [`Session::new`], with `slots` slots, at least 1, so that several runs can be
    /// pending at once.
    ///
    /// # Errors
    ///
    /// As [`Session::new`]; also if there are more than 64 slots.
    pub fn with_slots(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
        slots: usize,
    ) -> Result<Self, GpuError> {
        Self::on(&*interface(device, submission)?, program, precision, Runs { slots: slots.max(1), ..Runs::default() })
    }

    /// Plans a program and loads and records the plan through an interface to a device, with the slots and
    /// timestamps that `runs` asks for.
    ///
    /// # Errors
    ///
    /// As [`Executable::on`] and [`Executable::session`].
    pub fn on(interface: &dyn Interface, program: Program, precision: Precision, runs: Runs) -> Result<Self, GpuError> {
        Arc::new(Executable::on(interface, program, precision, Some(runs))?).session(runs)
    }

    /// Returns the executable that the session runs.
    #[must_use]
    pub fn executable(&self) -> &Arc<Executable> {
        &self.executable
    }

    /// Returns the recorded plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        self.executable.plan()
    }

    /// Returns what hosts and reports need to know about the recorded plan.
    #[must_use]
    pub fn summary(&self) -> &PlanSummary {
        self.executable.summary()
    }

    /// Sets an input of slot 0. `bytes` are in the device's format: little-endian f32 or 32-bit integers, or
    /// 8-bit integers if the plan stores the input as bytes.
    ///
    /// # Errors
    ///
    /// As [`Session::write_to`].
    pub fn write(&mut self, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        self.write_to(0, input, bytes)
    }

    /// Starts a run on the current inputs of slot 0.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    pub fn submit(&mut self) -> Result<(), GpuError> {
        self.submit_in(0, 1)
    }

    /// Waits for the last run of slot 0 and copies its outputs to the slices, the n-th output to the n-th
    /// slice, in the format of [`Session::write`].
    ///
    /// # Errors
    ///
    /// Fails if there are more slices than outputs, if a slice does not have the length of its output, if nothing ran,
    /// or if the device fails or is lost.
    pub fn read(&mut self, outputs: &mut [&mut [u8]]) -> Result<(), GpuError> {
        for (index, output) in outputs.iter().enumerate() {
            check_length("output", index, self.output_size(index)?, output.len())?;
        }
        self.wait_for(0)?;
        for (index, output) in outputs.iter_mut().enumerate() {
            let from = self.output(0, index, output.len())?.and_then(|from| from.get(..output.len()));
            copy(output, from.ok_or_else(|| refused(format!("output {index} has no value before a run")))?);
        }
        Ok(())
    }

    /// Sets an input of a slot, in the format of [`Session::write`].
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot or input, if the number of bytes is not the input's, or if the device fails or is
    /// lost.
    pub fn write_to(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        check_length("input", input, self.input_size(input)?, bytes.len())?;
        self.recording.write(slot, input, bytes)
    }

    /// Returns the memory of an input of a slot, possibly followed by padding, which the host then writes.
    /// Waits for a run that still reads the input. `None` if the host cannot access the device's memory.
    /// Reading the memory may be very slow.
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot or input, or if the device fails or is lost.
    pub fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError> {
        self.check_slot(slot)?;
        self.input_size(input)?;
        self.recording.input_mut(slot, input)
    }

    /// Copies the current bytes of an input of a slot to `bytes`, if [`Session::input_mut`] returns its
    /// memory. May wait for pending runs.
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot or input, if the number of bytes is not the input's, if the host cannot
    /// access the device's memory, or if the device fails or is lost.
    pub fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        check_length("input", input, self.input_size(input)?, bytes.len())?;
        self.recording.read_input(slot, input, bytes)
    }

    /// Starts `times` runs on the slot's current inputs. The runs may execute concurrently, each with its own
    /// intermediate values. Only the last run's outputs are copied to the host.
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot, if the process is a fork of the one that made the session, or if the device fails or is
    /// lost.
    pub fn submit_in(&mut self, slot: usize, times: usize) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        if self.process != process_id() {
            return Err(usage(
                "the device was opened before this process was forked; open it, and make interpreters, in the process that \
                 uses them",
            ));
        }
        self.ran |= times > 0;
        (1..=times).try_for_each(|time| self.recording.submit(slot, time == times))
    }

    /// Waits for the slot's last run. Parts of its outputs may still be on their way to the host afterwards.
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot, or if the device fails or is lost.
    pub fn wait_for(&mut self, slot: usize) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        self.recording.wait(slot)
    }

    /// Returns an object with which any thread can wait for the slot's last run.
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot.
    pub fn completion(&self, slot: usize) -> Result<Arc<dyn Fence>, GpuError> {
        self.check_slot(slot)?;
        Ok(self.recording.completion(slot))
    }

    /// Returns the bytes of an output of the slot's last run that have arrived on the host. Waits until these
    /// are at least `least` bytes, or the whole output, which padding may follow. `None` unless the run was
    /// waited for.
    ///
    /// # Errors
    ///
    /// Fails if there is no such slot or output, or if the device fails or is lost.
    pub fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError> {
        self.check_slot(slot)?;
        let size = self.output_size(output)?;
        self.recording.output(slot, output, least.min(size))
    }

    /// Returns the bytes of an input in the device's format. Fails if there is no such input.
    fn input_size(&self, input: usize) -> Result<usize, GpuError> {
        let size = self.plan().inputs.get(input).copied();
        size.ok_or_else(|| missing("input", input, self.plan().inputs.len()))
    }

    /// Returns the bytes of an output in the device's format. Fails if there is no such output.
    fn output_size(&self, output: usize) -> Result<usize, GpuError> {
        let size = self.plan().outputs.get(output).map(|range| range.size);
        size.ok_or_else(|| missing("output", output, self.plan().outputs.len()))
    }

    fn check_slot(&self, slot: usize) -> Result<(), GpuError> {
        if slot < self.slots {
            return Ok(());
        }
        Err(refused(format!("there is no slot {slot}: the session has {}", self.slots)))
    }

    /// Lets other sessions take an output: after each further run, the output is copied to shared memory on
    /// the device. Returns a handle to that memory, or `None` if sharing is not supported: it needs replay
    /// and a session of one slot.
    ///
    /// # Errors
    ///
    /// Fails if there is no such output, or if the device is out of memory or lost.
    pub fn share(&mut self, output: usize) -> Result<Option<SharedValue>, GpuError> {
        self.output_size(output)?;
        self.recording.share(output)
    }

    /// Takes an input from an output of the same size that another session shares: before each further run,
    /// the input is copied from the shared memory, so the host no longer sets it. Each run must be submitted
    /// after the run of the other session that computes the output. Returns whether taking the input is
    /// supported; if not, nothing changes.
    ///
    /// # Errors
    ///
    /// Fails if there is no such input, or if the device is out of memory or lost.
    pub fn take(&mut self, input: usize, shared: &SharedValue) -> Result<bool, GpuError> {
        self.input_size(input)?;
        self.recording.take(input, shared)
    }

    /// Stops copying the outputs with these indices to the host, where that is supported. Their bytes on the
    /// host are then undefined.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    pub fn keep_on_device(&mut self, outputs: &[usize]) -> Result<(), GpuError> {
        self.recording.keep_on_device(outputs)
    }

    /// Makes all further runs read an input from memory of the caller's, or with `None` from the session's own, which
    /// is written before. Runs of all slots read the same memory, in the order of their submission.
    ///
    /// # Errors
    ///
    /// Fails if there is no such input, if the memory does not fit it, lacks a usage, is of another device or is not of the
    /// kind that the session binds (wgpu's on a device of the caller's, [`DeviceMemory`](crate::DeviceMemory) in replay),
    /// or if the device fails or is lost. The binding is then as before.
    pub fn bind_input(&mut self, input: usize, bound: Option<(InputBinding, BoundTensor)>) -> Result<(), GpuError> {
        check_bound("input", input, self.input_size(input)?, bound.as_ref().map(|(_, tensor)| tensor))?;
        self.recording.bind_input(input, bound)
    }

    /// Makes all further runs write an output to memory of the caller's, or with `None` to the session's own. The host
    /// cannot read an output that is bound.
    ///
    /// # Errors
    ///
    /// As [`Session::bind_input`].
    pub fn bind_output(&mut self, output: usize, bound: Option<(OutputBinding, BoundTensor)>) -> Result<(), GpuError> {
        check_bound("output", output, self.output_size(output)?, bound.as_ref().map(|(_, tensor)| tensor))?;
        self.recording.bind_output(output, bound)
    }

    /// Allocates memory of this many bytes on the device, to which inputs and outputs of the session can be bound; `None` if
    /// it binds none that it could allocate.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or lost.
    pub fn memory(&self, size: usize) -> Result<Option<DeviceMemory>, GpuError> {
        self.recording.memory(size)
    }

    /// Adds the commands of a run on the inputs of slot 0 to an encoder of the caller's, who submits them. The host
    /// cannot read the outputs of the run.
    ///
    /// # Errors
    ///
    /// Fails if the session runs on a device that this crate opened, if the encoder is known to be of another device, or
    /// if the device fails or is lost.
    pub fn encode(&mut self, encoder: &mut wgpu::CommandEncoder) -> Result<(), GpuError> {
        self.recording.encode(encoder)
    }

    /// Returns the bytes of inputs and outputs that were copied between memory of the host and of the device so far; `None`
    /// if they are not counted. What the host writes where the device reads it, or the device where the host reads it,
    /// counts if it crosses a bus.
    #[must_use]
    pub fn io_bytes(&self) -> Option<u64> {
        self.recording.io_bytes()
    }

    /// Waits for the last run and returns the time of each of its dispatches.
    ///
    /// # Errors
    ///
    /// Fails unless the session was made with timestamps and has run, or if the device fails or is lost.
    pub fn times(&mut self) -> Result<Times, GpuError> {
        if !self.ran {
            return Err(GpuError::new(GpuErrorKind::Failed, "nothing ran that could have been timed"));
        }
        self.recording.times()
    }

    /// Returns the time that loading the plan took, its kernel variants, and the memory of a run.
    #[must_use]
    pub fn report(&self) -> SessionReport {
        self.executable.report()
    }
}

fn missing(what: &str, index: usize, count: usize) -> GpuError {
    refused(format!("there is no {what} {index}: the program has {count}"))
}

/// Returns the error for a call with wrong arguments, which has changed nothing.
fn refused(message: String) -> GpuError {
    GpuError::new(GpuErrorKind::Failed, message)
}

fn check_length(what: &str, index: usize, size: usize, given: usize) -> Result<(), GpuError> {
    if size == given { Ok(()) } else { Err(refused(format!("{what} {index} has {size} bytes, not {given}"))) }
}

/// Fails if a tensor that is bound has another size than the plan's input or output, which a plan from a file may.
fn check_bound(what: &str, index: usize, size: usize, tensor: Option<&BoundTensor>) -> Result<(), GpuError> {
    tensor.map_or(Ok(()), |tensor| check_length(what, index, size, tensor.device_bytes()))
}
