//! Replaces the Vulkan module on systems without Vulkan, and where the feature `vulkan` is off.

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::MutexGuard;
use std::time::Duration;

#[cfg(unix)]
use crate::device::MemoryHandle;
use crate::device::{Device, DeviceId, HostMemory, RunSignal};
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind};

/// The type of Vulkan devices. It has no values, since there is no Vulkan in this build.
pub(crate) enum Vulkan {}

/// The queues and features that a device has in addition to those that wgpu requests. Without Vulkan there
/// are none.
#[derive(Clone, Copy, Default)]
pub(crate) struct ComputeQueues;

impl ComputeQueues {
    /// Whether the device could have been opened with more queues.
    pub(crate) fn has_more(&self) -> bool {
        false
    }
}

/// Opens a device through wgpu. Ignores the last parameter: on Vulkan, the number of queues and whether bounds checks are
/// disabled.
pub(crate) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    _: (usize, bool),
) -> Result<(wgpu::Device, wgpu::Queue, ComputeQueues), String> {
    let (device, queue) = pollster::block_on(adapter.request_device(descriptor)).map_err(|error| error.to_string())?;
    Ok((device, queue, ComputeQueues))
}

/// Returns `None`, since there is no Vulkan instance with a validation layer.
pub(crate) fn validated() -> Option<wgpu::Instance> {
    None
}

/// Returns wgpu's token that enables no experimental features.
pub(crate) fn experiments() -> wgpu::ExperimentalFeatures {
    wgpu::ExperimentalFeatures::disabled()
}

impl Vulkan {
    pub(crate) fn of(_: &wgpu::Device, _: &DeviceLimits, _: ComputeQueues, _: (bool, bool, bool)) -> Option<Self> {
        None
    }

    pub(crate) fn queue(&self, _: usize) -> MutexGuard<'_, ()> {
        match *self {}
    }

    pub(crate) fn is_unchecked(&self) -> bool {
        match *self {}
    }

    pub(crate) fn identity(&self) -> String {
        match *self {}
    }

    pub(crate) fn multiplies_bytes(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_timestamps(&self) -> bool {
        match *self {}
    }

    pub(crate) fn id(&self) -> DeviceId {
        match *self {}
    }

    pub(crate) fn is_unified(&self) -> bool {
        match *self {}
    }

    pub(crate) fn host_alignment(&self) -> Option<usize> {
        match *self {}
    }
}

/// The type of buffers in memory that inputs and outputs are bound to. It has no values.
pub(crate) enum DeviceBuffer {}

/// The type of semaphores that runs wait for. It has no values.
pub(crate) enum Semaphore {}

fn absent<T>() -> Result<T, GpuError> {
    Err(GpuError::new(GpuErrorKind::Unsupported, "this build has no Vulkan"))
}

impl DeviceBuffer {
    pub(crate) fn new(_: &Device, _: usize) -> Result<Self, GpuError> {
        absent()
    }

    pub(crate) fn of_host(_: &Device, _: HostMemory) -> Result<Self, GpuError> {
        absent()
    }

    #[cfg(unix)]
    pub(crate) fn exportable(_: &Device, _: usize, _: MemoryHandle) -> Result<(Self, u32), GpuError> {
        absent()
    }

    #[cfg(unix)]
    pub(crate) fn import(_: &Device, _: OwnedFd, _: MemoryHandle, _: (u64, Option<u32>)) -> Result<Self, GpuError> {
        absent()
    }

    #[cfg(unix)]
    pub(crate) fn export(&self, _: MemoryHandle) -> Result<(OwnedFd, u64), GpuError> {
        match *self {}
    }

    pub(crate) fn with_host<R>(&self, _: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        match *self {}
    }

    pub(crate) fn is_host(&self) -> bool {
        match *self {}
    }

    pub(crate) fn write(&self, _: usize, _: &[u8]) -> Result<(), GpuError> {
        match *self {}
    }

    pub(crate) fn read(&self, _: usize, _: &mut [u8]) -> Result<(), GpuError> {
        match *self {}
    }

    pub(crate) fn device(&self) -> &Device {
        match *self {}
    }
}

impl Semaphore {
    pub(crate) fn new(_: &Device, _: u64, _: bool) -> Result<Self, GpuError> {
        absent()
    }

    #[cfg(unix)]
    pub(crate) fn import(_: &Device, _: OwnedFd) -> Result<Self, GpuError> {
        absent()
    }

    #[cfg(unix)]
    pub(crate) fn export(&self) -> Result<OwnedFd, GpuError> {
        match *self {}
    }

    pub(crate) fn device(&self) -> &Device {
        match *self {}
    }

    pub(crate) fn pending_signals(&self) -> MutexGuard<'_, Vec<RunSignal>> {
        match *self {}
    }

    pub(crate) fn value(&self) -> Result<u64, GpuError> {
        match *self {}
    }

    pub(crate) fn wait(&self, _: u64, _: Duration) -> Result<bool, GpuError> {
        match *self {}
    }

    pub(crate) fn signal(&self, _: u64) -> Result<(), GpuError> {
        match *self {}
    }
}
