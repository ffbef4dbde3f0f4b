//! How memory is handed to other processes, and what identifies the device that it is of.

use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Memory of the host that its owner has lent once, for as long as the owner lives.
pub(crate) struct HostMemory {
    start: AtomicPtr<u8>,
    size: usize,
    /// Not used before it is dropped, so that the memory stays where it is.
    _owner: Box<dyn AsMut<[u8]> + Send>,
}

impl HostMemory {
    /// Asks the owner for its memory, once: it might lend other memory the next time.
    pub(crate) fn new(mut owner: Box<dyn AsMut<[u8]> + Send>) -> Self {
        let bytes = (*owner).as_mut();
        let (start, size) = (AtomicPtr::new(bytes.as_mut_ptr()), bytes.len());
        Self { start, size, _owner: owner }
    }

    /// Returns the address of the first byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }
}

/// A kind of file descriptor behind which other processes find memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryHandle {
    /// An opaque file (`VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT`), which the same driver imports for the same
    /// device.
    OpaqueFile,
    /// A dma-buf of Linux, which other drivers import as well.
    DmaBuf,
}

impl fmt::Display for MemoryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryHandle::OpaqueFile => "an opaque file",
            MemoryHandle::DmaBuf => "a dma-buf",
        })
    }
}

/// A device and its driver, as Vulkan identifies them (`VkPhysicalDeviceIDProperties`). Opaque files are imported where
/// both are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// The UUID of the device.
    pub device: [u8; 16],
    /// The UUID of the driver.
    pub driver: [u8; 16],
}
