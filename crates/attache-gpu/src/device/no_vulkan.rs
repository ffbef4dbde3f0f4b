//! Replaces the Vulkan module on systems without Vulkan, and where the feature `vulkan` is off.

use std::sync::MutexGuard;

use crate::kernel::DeviceLimits;

/// The type of Vulkan devices. It has no values, since there is no Vulkan in this build.
pub(crate) enum Vulkan {}

/// The queues and features that a device has in addition to those that wgpu requests. Without Vulkan there
/// are none.
#[derive(Clone, Copy, Default)]
pub(crate) struct ComputeQueues;

/// Opens a device through wgpu. Ignores the last parameter, which on Vulkan disables bounds checks.
pub(crate) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    _: bool,
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
    pub(crate) fn of(_: &wgpu::Device, _: &DeviceLimits, _: ComputeQueues, _: (bool, bool)) -> Option<Self> {
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
}
