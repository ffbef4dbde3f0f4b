//! A session: a program planned, recorded and ready to run on a device.

use std::collections::BTreeSet;

use attache_base::copy;
use attache_gpu_ir::Program;

use super::{Cost, Recording, Runs, SharedValue, Times, record};
use crate::device::{Device, Submission};
use crate::kernel::{GpuError, GpuErrorKind, Precision};
use crate::plan::{Plan, PlanReport, Work};

/// Most slots of a session: each has memory of its own for inputs and outputs.
const MAX_SLOTS: usize = 64;

/// A program, ready to run on a device.
pub struct Session {
    plan: Plan,
    report: PlanReport,
    slots: usize,
    recording: Box<dyn Recording>,
    cost: Cost,
    ran: bool,
}

/// What preparing a session cost and what it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionReport {
    /// Dispatches of one run.
    pub dispatches: usize,
    /// The variants that wrote them.
    pub variants: BTreeSet<&'static str>,
    /// Variants that could have written some of them as well.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of the banks of intermediate values.
    pub arena_bytes: usize,
    /// The largest sum of bytes of intermediate values live at one kernel.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of constants on the device.
    pub weights_bytes: usize,
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, but for those in which pipelines were made meanwhile.
    pub upload_ms: f64,
}

impl Session {
    /// Prepares a program.
    pub fn new(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
    ) -> Result<Self, GpuError> {
        Self::prepare(device, program, (precision, submission), 1, false)
    }

    /// Prepares a program such that every run notes when each dispatch begins and ends, which costs time of its own.
    pub fn timed(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
    ) -> Result<Self, GpuError> {
        Self::prepare(device, program, (precision, submission), 1, true)
    }

    /// Prepares a program of which several runs may be under way at once, each in a slot of its own.
    pub fn with_slots(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
        slots: usize,
    ) -> Result<Self, GpuError> {
        Self::prepare(device, program, (precision, submission), slots.max(1), false)
    }

    fn prepare(
        device: &Device,
        program: Program,
        (precision, submission): (Precision, Submission),
        slots: usize,
        timed: bool,
    ) -> Result<Self, GpuError> {
        if submission == Submission::Replay && !device.replays() {
            let message = "replay needs a device of its own, through Vulkan";
            return Err(GpuError::new(GpuErrorKind::Unsupported, message));
        }
        if slots > MAX_SLOTS {
            return Err(refused(format!("{slots} slots are more than the {MAX_SLOTS} that there may be")));
        }
        let mut report = PlanReport::new(program, precision, device.limits(), submission.keeps_apart())?;
        let plan = report.plan()?;
        // Every test proves that nothing else is needed than what can be stored.
        let plan = if cfg!(debug_assertions) { Plan::from_bytes(&plan.to_bytes())? } else { plan };
        let (recording, cost) = record(submission, device, &plan, &report, Runs { slots, timed })?;
        report.release_constants();
        Ok(Self { plan, report, slots, recording, cost, ran: false })
    }

    /// What runs.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How the program was planned. Its constants are on the device alone.
    pub fn plan_report(&self) -> &PlanReport {
        &self.report
    }

    /// Hands over an input's elements: binary32, 32-bit integers, or bytes where the plan stores such; little-endian. What
    /// says nothing of slots is about the first.
    pub fn write(&mut self, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        self.write_to(0, input, bytes)
    }

    /// Starts a run on what was last written.
    pub fn submit(&mut self) -> Result<(), GpuError> {
        self.submit_in(0, 1)
    }

    /// Waits for the last run and copies its outputs' elements, as [`Session::write`] takes them; an error unless each of
    /// the first outputs is given as many bytes as it has.
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

    /// As [`Session::write`], for the runs of a slot. An error unless there are as many bytes as the input has.
    pub fn write_to(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        check_length("input", input, self.input_size(input)?, bytes.len())?;
        self.recording.write(slot, input, bytes)
    }

    /// Where the host may write an input of a slot itself, once no run reads the one before, with perhaps a few bytes more;
    /// `None` where it can't. It may be very slow to read.
    pub fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError> {
        self.check_slot(slot)?;
        self.input_size(input)?;
        self.recording.input_mut(slot, input)
    }

    /// Copies back what was written to an input of a slot, where [`Session::input_mut`] has it; that takes as long as the
    /// runs under way.
    pub fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        check_length("input", input, self.input_size(input)?, bytes.len())?;
        self.recording.read_input(slot, input, bytes)
    }

    /// Starts so many runs on what was last written to the slot; its outputs are those of the last. They may go on beside
    /// each other, in memory of their own.
    pub fn submit_in(&mut self, slot: usize, times: usize) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        self.ran |= times > 0;
        (1..=times).try_for_each(|time| self.recording.submit(slot, time == times))
    }

    /// Waits for the slot's last run, whose outputs may still be on their way.
    pub fn wait_for(&mut self, slot: usize) -> Result<(), GpuError> {
        self.check_slot(slot)?;
        self.recording.wait(slot)
    }

    /// The bytes of an output's elements of the slot's last run, from the first on, where they lie, and perhaps a few more:
    /// those that are there, once they are as many as `least`, or all. `None` unless that run was waited for.
    pub fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError> {
        self.check_slot(slot)?;
        let size = self.output_size(output)?;
        self.recording.output(slot, output, least.min(size))
    }

    /// Bytes of an input's elements, as the device stores them.
    fn input_size(&self, input: usize) -> Result<usize, GpuError> {
        let size = self.plan.inputs.get(input).copied();
        size.ok_or_else(|| missing("input", input, self.plan.inputs.len()))
    }

    /// Bytes of an output's elements, as the device stores them.
    fn output_size(&self, output: usize) -> Result<usize, GpuError> {
        let size = self.plan.outputs.get(output).map(|range| range.size);
        size.ok_or_else(|| missing("output", output, self.plan.outputs.len()))
    }

    fn check_slot(&self, slot: usize) -> Result<(), GpuError> {
        if slot < self.slots {
            return Ok(());
        }
        Err(refused(format!("there is no slot {slot}: the session has {}", self.slots)))
    }

    /// Leaves an output on the device for other sessions after each run from now on; `None` where that can't be: by replay
    /// alone, in sessions of one slot.
    pub fn share(&mut self, output: usize) -> Result<Option<SharedValue>, GpuError> {
        self.output_size(output)?;
        self.recording.share(output)
    }

    /// Takes an input from where another session leaves an output as large, before each run from now on, and no more from
    /// the host; whether that can be. The other's run must have been started before.
    pub fn take(&mut self, input: usize, shared: &SharedValue) -> Result<bool, GpuError> {
        self.input_size(input)?;
        self.recording.take(input, shared)
    }

    /// Brings these outputs to the host no more: what is read of them then is of no run in particular.
    pub fn keep_back(&mut self, outputs: &[usize]) -> Result<(), GpuError> {
        self.recording.keep_back(outputs)
    }

    /// Waits for the last run and tells when its dispatches began and ended; an error unless the session is timed and ran.
    pub fn times(&mut self) -> Result<Times, GpuError> {
        if !self.ran {
            return Err(GpuError::new(GpuErrorKind::Failed, "nothing ran that could have been timed"));
        }
        self.recording.times()
    }

    /// What each dispatch does.
    pub fn work(&self) -> Vec<Work> {
        Work::of(&self.report)
    }

    /// What preparing it cost and what it holds.
    pub fn report(&self) -> SessionReport {
        SessionReport {
            dispatches: self.plan.dispatches.len(),
            variants: self.report.variants(),
            alternatives: self.report.alternatives.clone(),
            arena_bytes: self.report.arena_bytes(),
            arena_lower_bound_bytes: self.report.layout.lower_bound,
            weights_bytes: self.cost.weights_bytes,
            compile_ms: self.cost.compile_ms,
            upload_ms: self.cost.upload_ms,
        }
    }
}

fn missing(what: &str, index: usize, count: usize) -> GpuError {
    refused(format!("there is no {what} {index}: the program has {count}"))
}

/// An error of who asks for what isn't there: nothing was done.
fn refused(message: String) -> GpuError {
    GpuError::new(GpuErrorKind::Failed, message)
}

fn check_length(what: &str, index: usize, size: usize, given: usize) -> Result<(), GpuError> {
    if size == given { Ok(()) } else { Err(refused(format!("{what} {index} has {size} bytes, not {given}"))) }
}
