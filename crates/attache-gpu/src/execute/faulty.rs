//! Fault injection for tests: a wrapper around an interface, whose recordings fail as if the device were lost
//! or out of memory. It is used if the device was opened with a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Fence, Interface, LoadCost, LoadedPlan, Recording, Runs, SharedValue, Times};
use crate::bind::{BoundTensor, DeviceMemory, InputBinding, OutputBinding};
use crate::device::{Device, FaultPoint, Planted, ShaderCode};
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind};
use crate::plan::{Plan, WeightSource};

/// Counts an attempt of the operation `point`, and fails if the device's injected fault is due.
fn pass(device: &Device, point: FaultPoint) -> Result<(), GpuError> {
    let Some(Planted { fault, met }) = device.fault().filter(|planted| planted.fault.point == point) else {
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

/// Wraps an interface so that the operations of its recordings fail with the device's injected fault.
pub(super) struct Faulty {
    pub(super) device: Device,
    pub(super) inner: Box<dyn Interface>,
}

impl Interface for Faulty {
    fn limits(&self) -> &DeviceLimits {
        self.inner.limits()
    }

    fn keeps_apart(&self) -> bool {
        self.inner.keeps_apart()
    }

    fn has_timestamps(&self) -> bool {
        self.inner.has_timestamps()
    }

    fn load(
        &self,
        plan: &Arc<Plan>,
        weights: &dyn WeightSource,
        code: ShaderCode<'_>,
        first: Option<Runs>,
    ) -> Result<(Box<dyn LoadedPlan>, LoadCost), GpuError> {
        pass(&self.device, FaultPoint::Record)?;
        let (inner, cost) = self.inner.load(plan, weights, code, first)?;
        Ok((Box::new(FailingPlan { device: self.device.clone(), inner }), cost))
    }
}

struct FailingPlan {
    device: Device,
    inner: Box<dyn LoadedPlan>,
}

impl LoadedPlan for FailingPlan {
    fn record(&self, runs: Runs) -> Result<Box<dyn Recording>, GpuError> {
        let inner = self.inner.record(runs)?;
        Ok(Box::new(Failing { device: self.device.clone(), inner, asked: AtomicBool::new(false) }))
    }
}

struct Failing {
    device: Device,
    inner: Box<dyn Recording>,
    /// Whether an output was requested since the last run was submitted.
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
        pass(&self.device, FaultPoint::Submit)?;
        self.asked.store(false, Ordering::Relaxed);
        self.inner.submit(slot, is_read)
    }

    fn wait(&mut self, slot: usize) -> Result<(), GpuError> {
        pass(&self.device, FaultPoint::Wait)?;
        self.inner.wait(slot)
    }

    fn completion(&self, slot: usize) -> Arc<dyn Fence> {
        self.inner.completion(slot)
    }

    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError> {
        if !self.asked.load(Ordering::Relaxed) {
            pass(&self.device, FaultPoint::Read)?;
            self.asked.store(true, Ordering::Relaxed);
        }
        self.inner.output(slot, output, least)
    }

    fn share(&mut self, output: usize) -> Result<Option<SharedValue>, GpuError> {
        self.inner.share(output)
    }

    fn take(&mut self, input: usize, shared: &SharedValue) -> Result<bool, GpuError> {
        self.inner.take(input, shared)
    }

    fn keep_on_device(&mut self, outputs: &[usize]) -> Result<(), GpuError> {
        self.inner.keep_on_device(outputs)
    }

    fn bind_input(&mut self, input: usize, bound: Option<(InputBinding, BoundTensor)>) -> Result<(), GpuError> {
        self.inner.bind_input(input, bound)
    }

    fn bind_output(&mut self, output: usize, bound: Option<(OutputBinding, BoundTensor)>) -> Result<(), GpuError> {
        self.inner.bind_output(output, bound)
    }

    fn memory(&self, size: usize) -> Result<Option<DeviceMemory>, GpuError> {
        self.inner.memory(size)
    }

    fn encode(&mut self, encoder: &mut wgpu::CommandEncoder) -> Result<(), GpuError> {
        self.inner.encode(encoder)
    }

    fn io_bytes(&self) -> Option<u64> {
        self.inner.io_bytes()
    }

    fn times(&mut self) -> Result<Times, GpuError> {
        self.inner.times()
    }
}
