//! Buffers that several recordings can use: in memory of the device, in memory that other processes share, and in memory
//! of the host.
#![allow(unsafe_code)]

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use ash::vk;

use super::transfer::Bytes;
use super::{Buffer, Use, Vulkan};
use crate::device::{Device, HostMemory, MemoryHandle};
use crate::kernel::{GpuError, GpuErrorKind};

/// A buffer that is not mapped, which several recordings can use. Dropping it frees it.
pub(crate) struct DeviceBuffer {
    device: Device,
    /// The buffer, which is `Some` until `DeviceBuffer` is dropped.
    buffer: Option<Buffer>,
    /// How other processes find the memory; `None` if they do not.
    shared: Option<MemoryHandle>,
    /// The owner of the host memory that the buffer is in; `None` if it is in other memory. Dropped after the buffer.
    host: Option<Mutex<HostMemory>>,
}

// SAFETY: the memory is not mapped, and only the handle of the buffer is used before it is freed.
unsafe impl Sync for DeviceBuffer {}

fn no_vulkan() -> GpuError {
    GpuError::new(GpuErrorKind::Unsupported, "a device without Vulkan, or one that the caller opened")
}

fn vulkan(device: &Device) -> Result<&Vulkan, GpuError> {
    device.vulkan().ok_or_else(no_vulkan)
}

impl DeviceBuffer {
    /// Allocates `size` bytes in memory of the device. Fails if the device has no Vulkan objects, or no such
    /// memory left.
    pub(crate) fn new(device: &Device, size: usize) -> Result<Self, GpuError> {
        let buffer = vulkan(device)?.buffer(size, Use::Device)?;
        Ok(Self { device: device.clone(), buffer: Some(buffer), shared: None, host: None })
    }

    /// Creates a buffer in host memory. Fails if the device cannot import the memory.
    pub(crate) fn of_host(device: &Device, host: HostMemory) -> Result<Self, GpuError> {
        // SAFETY: the owner of the memory is in a box, from which nothing takes it before the buffer is freed. The slice
        // that it lent stays where it is, since the owner is not used otherwise.
        let buffer = unsafe { vulkan(device)?.host_buffer(host.start(), host.size()) }?;
        Ok(Self { device: device.clone(), buffer: Some(buffer), shared: None, host: Some(Mutex::new(host)) })
    }

    /// Calls `work` with the host memory that the buffer is in; `None` if it is in other memory. The device must not use
    /// the memory meanwhile.
    pub(crate) fn with_host<R>(&self, work: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let host = self.host.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the owner lent these bytes and is not used before they are given back. The lock is held.
        Some(work(unsafe { std::slice::from_raw_parts_mut(host.start(), host.size()) }))
    }

    /// Whether the buffer is in host memory of the caller's.
    pub(crate) fn is_host(&self) -> bool {
        self.host.is_some()
    }

    /// Allocates `size` bytes that can be exported. Returns the buffer and the index of its memory type.
    #[cfg(unix)]
    pub(crate) fn exportable(device: &Device, size: usize, kind: MemoryHandle) -> Result<(Self, u32), GpuError> {
        let (buffer, memory_type) = vulkan(device)?.exportable(size, kind)?;
        Ok((Self { device: device.clone(), buffer: Some(buffer), shared: Some(kind), host: None }, memory_type))
    }

    /// Creates a buffer in the memory behind a file: all its `bytes`, of the memory type with this index if it is known.
    #[cfg(unix)]
    pub(crate) fn import(
        device: &Device,
        file: OwnedFd,
        kind: MemoryHandle,
        (bytes, memory_type): (u64, Option<u32>),
    ) -> Result<Self, GpuError> {
        let buffer = vulkan(device)?.import(file, kind, bytes, memory_type)?;
        Ok(Self { device: device.clone(), buffer: Some(buffer), shared: Some(kind), host: None })
    }

    /// Returns a new file of exportable memory, and the bytes of its allocation.
    #[cfg(unix)]
    pub(crate) fn export(&self, kind: MemoryHandle) -> Result<(OwnedFd, u64), GpuError> {
        vulkan(&self.device)?.export(self.buffer.as_ref().ok_or_else(no_vulkan)?, kind)
    }

    /// Copies bytes to the buffer, after all work that was submitted before, and waits for that.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), GpuError> {
        vulkan(&self.device)?.transfer(self.raw(), self.other_users(), offset, Bytes::Write(bytes))
    }

    /// Copies bytes from the buffer, after all work that was submitted before, and waits for that.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        vulkan(&self.device)?.transfer(self.raw(), self.other_users(), offset, Bytes::Read(bytes))
    }

    /// Returns the queue family that stands for other users of the memory; `None` if there are none.
    pub(crate) fn other_users(&self) -> Option<u32> {
        let vulkan = self.device.vulkan()?;
        self.shared.map(|kind| vulkan.other_users(kind))
    }

    pub(crate) fn raw(&self) -> vk::Buffer {
        self.buffer.as_ref().map_or(vk::Buffer::null(), |buffer| buffer.raw)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if let (Some(vulkan), Some(buffer)) = (self.device.vulkan(), self.buffer.take()) {
            // SAFETY: recordings that use the buffer own it until their runs have ended.
            unsafe { vulkan.free(buffer) };
        }
    }
}
