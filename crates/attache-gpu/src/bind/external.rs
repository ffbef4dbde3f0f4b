//! Memory and semaphores that processes share as file descriptors.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::fd::OwnedFd;

use super::memory::{DeviceMemory, check_size};
use super::semaphore::DeviceSemaphore;
use super::usage;
use crate::device::vulkan::{DeviceBuffer, Semaphore};
use crate::device::{Device, DeviceId, MemoryHandle};
use crate::kernel::GpuError;

/// Memory of a device as one process hands it to another: a file descriptor, and what the other process has to know to
/// import it. Processes pass file descriptors to each other over Unix sockets, or inherit them.
#[derive(Debug)]
pub struct ExternalMemory {
    /// The file. It keeps the memory alive.
    pub file: OwnedFd,
    /// The kind of file.
    pub handle: MemoryHandle,
    /// Bytes of the whole allocation, which begins with the memory itself.
    pub bytes: u64,
    /// The index of the Vulkan memory type of the allocation, which an opaque file has to be imported with; `None` to let
    /// the device choose.
    pub memory_type: Option<u32>,
    /// The device that allocated the memory; `None` if it is not known, and then not checked.
    pub device: Option<DeviceId>,
}

impl DeviceMemory {
    /// Allocates `size` bytes of memory of the device that other processes can import.
    ///
    /// # Errors
    ///
    /// Of kind `Unsupported` if the device exports no memory in this way, or if the delegate did not open it through
    /// Vulkan; or if the device is out of memory or lost.
    pub fn exportable(device: &Device, size: usize, handle: MemoryHandle) -> Result<Self, GpuError> {
        check_size(device, size as u64)?;
        let (buffer, memory_type) = device.noted(DeviceBuffer::exportable(device, size, handle))?;
        Ok(Self::of(buffer, size, Some((handle, memory_type))))
    }

    /// Returns a new file descriptor of memory that was made with [`DeviceMemory::exportable`].
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the memory was made in another way; or if the process has no file descriptors left.
    pub fn export(&self) -> Result<ExternalMemory, GpuError> {
        let (handle, memory_type) = self
            .exported_as()
            .ok_or_else(|| usage("the memory is exported that DeviceMemory::exportable allocates"))?;
        let (file, bytes) = self.device().noted(self.buffer().export(handle))?;
        Ok(ExternalMemory { file, handle, bytes, memory_type: Some(memory_type), device: self.device().id() })
    }

    /// Imports memory that another process, another device or another library has exported. All `bytes` of the allocation
    /// can be bound, at an offset where that is needed.
    ///
    /// The owner's and other users' accesses and the runs have to come one after the other: through semaphores
    /// ([`MemoryBinding::wait`](crate::MemoryBinding::wait)) or by waiting on the host. Two imports of one allocation count
    /// as different memory, of which this crate does not know that they overlap.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the memory is of another device, if its file is smaller than it says, or if the driver does not
    /// know the file; of kind `Unsupported` if the device imports no memory in this way, or if the delegate did not open it
    /// through Vulkan; or if the device is out of memory or lost.
    pub fn import(device: &Device, external: ExternalMemory) -> Result<Self, GpuError> {
        let ExternalMemory { file, handle, bytes, memory_type, device: theirs } = external;
        check_size(device, bytes)?;
        if handle == MemoryHandle::OpaqueFile
            && let (Some(theirs), Some(ours)) = (theirs, device.id())
            && theirs != ours
        {
            return Err(usage(
                "the memory is of another device or driver, and an opaque file is imported by the same one",
            ));
        }
        let (file, there) = length(file);
        if let Some(there) = there.filter(|there| *there < bytes) {
            return Err(usage(format!("the file has {there} bytes and not the {bytes} of the memory")));
        }
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let buffer = device.noted(DeviceBuffer::import(device, file, handle, (bytes, memory_type)))?;
        Ok(Self::of(buffer, size, None))
    }
}

impl DeviceSemaphore {
    /// Creates a semaphore of the value 0 that other processes can import.
    ///
    /// # Errors
    ///
    /// Of kind `Unsupported` if the device exports no timeline semaphores (`VK_KHR_external_semaphore_fd`) or has none, or
    /// if the delegate did not open it through Vulkan; or if it is out of memory or lost.
    pub fn exportable(device: &Device) -> Result<Self, GpuError> {
        device.noted(Semaphore::new(device, 0, true)).map(Self::of)
    }

    /// Returns a new file descriptor of a semaphore that was made with [`DeviceSemaphore::exportable`].
    ///
    /// # Errors
    ///
    /// Of kind `Unsupported` if it was made in another way; or if the process has no file descriptors left.
    pub fn export(&self) -> Result<OwnedFd, GpuError> {
        self.device().noted(self.raw().export())
    }

    /// Imports a timeline semaphore that another process has exported as an opaque file.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the driver does not know the file; of kind `Unsupported` as
    /// [`DeviceSemaphore::exportable`]; or if the device is out of memory or lost.
    pub fn import(device: &Device, file: OwnedFd) -> Result<Self, GpuError> {
        device.noted(Semaphore::import(device, file)).map(Self::of)
    }
}

/// Returns the number of bytes of a file; `None` if it does not tell.
fn length(file: OwnedFd) -> (OwnedFd, Option<u64>) {
    let mut file = File::from(file);
    let length = file.metadata().ok().map(|metadata| metadata.len()).filter(|length| *length > 0);
    // A dma-buf tells its length by the position of its end alone.
    let length = length.or_else(|| file.seek(SeekFrom::End(0)).ok().filter(|length| *length > 0));
    let _ = file.rewind();
    (file.into(), length)
}
