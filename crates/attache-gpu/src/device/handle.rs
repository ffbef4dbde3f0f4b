//! How memory is handed to other processes, and what identifies the device that it is of.

use std::fmt;

/// Memory of the host, with its owner.
pub(crate) type HostBytes = Box<dyn AsMut<[u8]> + Send>;

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
