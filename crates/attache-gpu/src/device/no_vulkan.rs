//! Stands for Vulkan on systems that have none.

use std::sync::MutexGuard;

use crate::kernel::Limits;

/// No device is one.
pub(crate) enum Vulkan {}

/// Nothing is asked for beside what wgpu asks for.
#[derive(Default)]
pub(crate) struct Own;

/// Opens a device.
pub(crate) fn open(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    _: bool,
) -> Result<(wgpu::Device, wgpu::Queue, Own), String> {
    let (device, queue) = pollster::block_on(adapter.request_device(descriptor)).map_err(|error| error.to_string())?;
    Ok((device, queue, Own))
}

/// There is no instance.
pub(crate) fn validated() -> Option<wgpu::Instance> {
    None
}

/// None that wgpu would have to be allowed.
pub(crate) fn experiments() -> wgpu::ExperimentalFeatures {
    wgpu::ExperimentalFeatures::disabled()
}

impl Vulkan {
    pub(crate) fn of(_: &wgpu::Device, _: &Limits, _: Own, _: (bool, bool)) -> Option<Self> {
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
