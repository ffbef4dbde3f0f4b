//! Checks that buffers and textures are of the delegate's device, and that buffers are not mapped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use super::usage;
use crate::device::Device;
use crate::kernel::GpuError;

/// Locked while a buffer is checked: of two checks of one buffer at the same time, the second would find it
/// mapped.
static TURN: Mutex<()> = Mutex::new(());

impl Device {
    /// Fails unless a buffer is one of this device, and not mapped. The buffer has at least four bytes. If
    /// another thread maps the buffer during the check, wgpu refuses that.
    ///
    /// wgpu does not tell whose a buffer is, and looks it up by a number that other instances give to other buffers. It
    /// reports the errors of a buffer to the buffer's own device, so a call that fails shows whether that is this one.
    pub(crate) fn check_buffer(&self, buffer: &wgpu::Buffer) -> Result<(), GpuError> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing can be mapped at this offset.
        let is_own = self.reports(|| buffer.slice(2..4).map_async(wgpu::MapMode::Read, |_| {}));
        if is_own || waits_for_check(buffer) {
            // The buffer counts as one that waits to be mapped until this call, which fails as well.
            self.reports(|| buffer.unmap());
        }
        if is_own {
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
        let remedy = "bind one that this device created";
        Err(usage(format!("the texture is of another device than the delegate's, or that device is lost; {remedy}")))
    }

    /// Whether wgpu reports an error of this device during a call. An error of another device goes to that device's
    /// handler, which may panic.
    fn reports(&self, call: impl FnOnce()) -> bool {
        self.scoped(|| drop(catch_unwind(AssertUnwindSafe(call)))).is_err()
    }
}

/// Whether a buffer waits to be mapped because it was checked, and not because its owner maps it. Only wgpu's
/// description of the buffer tells.
fn waits_for_check(buffer: &wgpu::Buffer) -> bool {
    format!("{buffer:?}").contains("mapped_range: Some(2..4)")
}
