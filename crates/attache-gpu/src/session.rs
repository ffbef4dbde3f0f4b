//! A session: a program planned, recorded and ready to run on a device.

use attache_gpu_ir::{Program, ValueId};
use half::slice::HalfFloatSliceExt;

use crate::device::Device;
use crate::error::{GpuError, GpuErrorKind};
use crate::plan::Plan;
use crate::precision::Precision;
use crate::recording::{Cost, Recording, Submission, Times};
use crate::work::Work;

/// A program, ready to run on a device.
pub struct Session {
    plan: Plan,
    recording: Box<dyn Recording>,
    cost: Cost,
    ran: bool,
}

/// What preparing a session cost and what it holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionReport {
    /// Dispatches of one run.
    pub dispatches: usize,
    /// Bytes of the banks of intermediate values.
    pub arena_bytes: usize,
    /// The largest sum of bytes of intermediate values live at one kernel.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of constants on the device.
    pub weights_bytes: usize,
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants.
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
        Self::prepare(device, program, precision, submission, false)
    }

    /// Prepares a program such that every run notes when each dispatch begins and ends, which costs time of its own.
    pub fn timed(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
    ) -> Result<Self, GpuError> {
        Self::prepare(device, program, precision, submission, true)
    }

    fn prepare(
        device: &Device,
        program: Program,
        precision: Precision,
        submission: Submission,
        timed: bool,
    ) -> Result<Self, GpuError> {
        if submission == Submission::Replay && !device.replays() {
            let message = "replay needs a device of its own, through Vulkan";
            return Err(GpuError::new(GpuErrorKind::Unsupported, message));
        }
        let plan = Plan::new(program, precision, device.limits())?;
        let (recording, cost) = submission.recorder().record(device, &plan, timed)?;
        Ok(Self { plan, recording, cost, ran: false })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Hands over an input's elements, binary32 or 32-bit integers, little-endian.
    pub fn write(&mut self, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        if self.is_narrow(self.plan.program.inputs[input]) {
            // Whole slices at once: processors have instructions for it.
            let numbers: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
            let mut halves = vec![half::f16::ZERO; numbers.len()];
            halves.convert_from_f32_slice(&numbers);
            self.recording.write(input, bytemuck::cast_slice(&halves))
        } else {
            self.recording.write(input, bytes)
        }
    }

    /// Whether the device stores a value as binary16.
    fn is_narrow(&self, id: ValueId) -> bool {
        self.plan.storages.of(id).bytes() == 2
    }

    /// Starts a run on what was last written.
    pub fn submit(&mut self) -> Result<(), GpuError> {
        self.ran = true;
        self.recording.submit()
    }

    /// Waits for the last run and copies its outputs' elements, as [`Session::write`] takes them.
    pub fn read(&mut self, outputs: &mut [&mut [u8]]) -> Result<(), GpuError> {
        let ids = self.plan.program.outputs.clone();
        let mut narrow: Vec<Vec<u8>> = Vec::new();
        for (id, output) in ids.iter().zip(outputs.iter()) {
            narrow.push(if self.is_narrow(*id) { vec![0; output.len() / 2] } else { Vec::new() });
        }
        let mut slices: Vec<&mut [u8]> = (outputs.iter_mut().zip(&mut narrow))
            .map(|(output, narrow)| if narrow.is_empty() { &mut **output } else { narrow.as_mut_slice() })
            .collect();
        self.recording.read(&mut slices)?;
        for (output, narrow) in outputs.iter_mut().zip(&narrow) {
            if !narrow.is_empty() {
                let halves: Vec<half::f16> = bytemuck::pod_collect_to_vec(narrow);
                output.copy_from_slice(bytemuck::cast_slice(&halves.to_f32_vec()));
            }
        }
        Ok(())
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
        Work::of(&self.plan)
    }

    /// What preparing it cost and what it holds.
    pub fn report(&self) -> SessionReport {
        SessionReport {
            dispatches: self.plan.dispatches.len(),
            arena_bytes: self.plan.arena_bytes(),
            arena_lower_bound_bytes: self.plan.layout.lower_bound,
            weights_bytes: self.cost.weights_bytes,
            compile_ms: self.cost.compile_ms,
            upload_ms: self.cost.upload_ms,
        }
    }
}
