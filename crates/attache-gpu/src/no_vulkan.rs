//! Stands for Vulkan on systems that have none.

use std::sync::MutexGuard;

use crate::limits::Limits;

/// No device is one.
pub(crate) enum Vulkan {}

/// There is no instance.
pub(crate) fn validated() -> Option<wgpu::Instance> {
    None
}

/// None that wgpu would have to be allowed.
pub(crate) fn experiments() -> wgpu::ExperimentalFeatures {
    wgpu::ExperimentalFeatures::disabled()
}

impl Vulkan {
    pub(crate) fn of(_: &wgpu::Device, _: &Limits, _: bool) -> Option<Self> {
        None
    }

    pub(crate) fn queue(&self) -> MutexGuard<'_, ()> {
        match *self {}
    }

    pub(crate) fn has_timestamps(&self) -> bool {
        match *self {}
    }
}
