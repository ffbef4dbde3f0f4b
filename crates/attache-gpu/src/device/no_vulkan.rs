//! Replaces the Vulkan module on systems without Vulkan.

use std::sync::MutexGuard;

use crate::kernel::DeviceLimits;

/// Has no values, since there is no Vulkan device.
pub(crate) enum Vulkan {}

/// Options beyond those of wgpu: none.
#[derive(Default)]
pub(crate) struct ComputeQueues;

/// Opens a device through wgpu.
pub(crate) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    _: bool,
) -> Result<(wgpu::Device, wgpu::Queue, ComputeQueues), String> {
    let (device, queue) = pollster::block_on(adapter.request_device(descriptor)).map_err(|error| error.to_string())?;
    Ok((device, queue, ComputeQueues))
}

/// There is no Vulkan instance.
pub(crate) fn validated() -> Option<wgpu::Instance> {
    None
}

/// No experimental features.
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

    pub(crate) fn has_timestamps(&self) -> bool {
        match *self {}
    }
}
