//! Failures on demand: a recorder around another one, whose recordings fail as on a device that is lost or out of memory.
//! For tests, which ask for it when they open the device.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Cost, Recorder, Recording, Runs, Times};
use crate::device::{Device, FaultMoment, Planted};
use crate::kernel::{GpuError, GpuErrorKind};
use crate::plan::{Plan, WeightSource};

/// Fails where the device's fault has it.
fn pass(device: &Device, moment: FaultMoment) -> Result<(), GpuError> {
    let Some(Planted { fault, met }) = device.fault().filter(|planted| planted.fault.moment == moment) else {
        return Ok(());
    };
    if met.fetch_add(1, Ordering::Relaxed) < fault.after {
        return Ok(());
    }
    device.noted(Err(match fault.kind {
        GpuErrorKind::DeviceLost => GpuError::lost("a planted fault"),
        kind => GpuError::new(kind, "a planted fault"),
    }))
}

/// Makes another's recordings fail.
pub(super) struct Faulty(pub(super) &'static dyn Recorder);

impl Recorder for Faulty {
    fn record(
        &self,
        device: &Device,
        plan: &Plan,
        weights: &dyn WeightSource,
        runs: Runs,
    ) -> Result<(Box<dyn Recording>, Cost), GpuError> {
        pass(device, FaultMoment::Record)?;
        let (inner, cost) = self.0.record(device, plan, weights, runs)?;
        Ok((Box::new(Failing { device: device.clone(), inner, asked: AtomicBool::new(false) }), cost))
    }
}

struct Failing {
    device: Device,
    inner: Box<dyn Recording>,
    /// Whether somebody asked for outputs since the last run was handed over.
    asked: AtomicBool,
}

impl Recording for Failing {
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError> {
        self.inner.write(slot, input, bytes)
    }

    fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError> {
        self.inner.input_mut(slot, input)
    }

    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        self.inner.read_input(slot, input, bytes)
    }

    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError> {
        pass(&self.device, FaultMoment::Submit)?;
        self.asked.store(false, Ordering::Relaxed);
        self.inner.submit(slot, is_read)
    }

    fn wait(&mut self, slot: usize) -> Result<(), GpuError> {
        pass(&self.device, FaultMoment::Wait)?;
        self.inner.wait(slot)
    }

    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError> {
        if !self.asked.load(Ordering::Relaxed) {
            pass(&self.device, FaultMoment::Read)?;
            self.asked.store(true, Ordering::Relaxed);
        }
        self.inner.output(slot, output, least)
    }

    fn times(&mut self) -> Result<Times, GpuError> {
        self.inner.times()
    }
}
