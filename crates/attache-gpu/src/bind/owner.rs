//! Whose a buffer or a texture is.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::usage;
use crate::device::Device;
use crate::kernel::GpuError;

impl Device {
    /// Fails unless a buffer is one of this device, and not mapped. The buffer has at least four bytes.
    ///
    /// wgpu does not tell whose a buffer is, and looks it up by a number that other instances give to other buffers. It
    /// reports the errors of a buffer to the buffer's own device, so a call that fails shows whether that is this one.
    pub(crate) fn check_buffer(&self, buffer: &wgpu::Buffer) -> Result<(), GpuError> {
        // Nothing can be mapped at this offset.
        if self.reports(|| buffer.slice(2..4).map_async(wgpu::MapMode::Read, |_| {})) {
            // The buffer counts as one that waits to be mapped until this call, which fails as well.
            self.reports(|| buffer.unmap());
            return Ok(());
        }
        let remedy = "bind one that this device created, after it was unmapped";
        Err(usage(format!("the buffer is of another device than the delegate's, or it is mapped; {remedy}")))
    }

    /// Fails unless a texture is one of this device, which shows as with a buffer ([`Device::check_buffer`]).
    pub(crate) fn check_texture(&self, texture: &wgpu::Texture) -> Result<(), GpuError> {
        let beyond = wgpu::TextureViewDescriptor { base_mip_level: texture.mip_level_count(), ..Default::default() };
        if self.reports(|| drop(texture.create_view(&beyond))) {
            return Ok(());
        }
        Err(usage("the texture is of another device than the delegate's; bind one that this device created"))
    }

    /// Whether wgpu reports an error of this device during a call. An error of another device goes to that device's
    /// handler, which may panic.
    fn reports(&self, call: impl FnOnce()) -> bool {
        self.scoped(|| drop(catch_unwind(AssertUnwindSafe(call)))).is_err()
    }
}
