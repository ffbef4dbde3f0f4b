//! What a device can share with other processes, other devices and the host, and buffers in host memory of the
//! caller's.
#![allow(unsafe_code)]

use ash::vk;
use vk::ExternalMemoryHandleTypeFlags as Handle;

use super::{Buffer, Kind, Use, Vulkan, failed};
use crate::device::{DeviceId, MemoryHandle};
use crate::kernel::{GpuError, GpuErrorKind};

/// The extensions with which a device shares memory and semaphores, in addition to those that wgpu enables. Each is
/// enabled where the device has it.
const EXTENSIONS: [&std::ffi::CStr; 3] =
    [ash::ext::external_memory_host::NAME, ash::khr::external_semaphore_fd::NAME, ash::ext::queue_family_foreign::NAME];

/// What an open device can share, and the functions for it.
pub(crate) struct Sharing {
    pub(super) memory_files: Option<ash::khr::external_memory_fd::Device>,
    pub(super) semaphore_files: Option<ash::khr::external_semaphore_fd::Device>,
    host: Option<ash::ext::external_memory_host::Device>,
    /// The alignment in bytes of the address and the size of host memory that is imported.
    alignment: usize,
    /// What buffers can do whose memory is shared as opaque files, and as dma-bufs.
    pub(super) opaque: vk::ExternalMemoryFeatureFlags,
    pub(super) dma_buf: vk::ExternalMemoryFeatureFlags,
    /// What timeline semaphores can do that are shared as opaque files.
    pub(super) semaphores: vk::ExternalSemaphoreFeatureFlags,
    pub(super) has_timelines: bool,
    /// Whether the device can give memory to users other than Vulkan.
    has_foreign_users: bool,
    /// The device and its driver.
    pub(super) id: DeviceId,
}

/// Returns the extensions to enable for sharing that the device supports.
pub(super) fn extensions(hal: &wgpu::hal::vulkan::Adapter) -> Vec<&'static std::ffi::CStr> {
    let supports = |name: &&std::ffi::CStr| hal.physical_device_capabilities().supports_extension(name);
    EXTENSIONS.into_iter().filter(supports).collect()
}

/// Returns the flags of the usages that the buffers of recordings have.
pub(super) fn usages() -> vk::BufferUsageFlags {
    use vk::BufferUsageFlags as Flags;
    Flags::STORAGE_BUFFER | Flags::UNIFORM_BUFFER | Flags::TRANSFER_SRC | Flags::TRANSFER_DST
}

impl Sharing {
    /// Returns what a device of this version of Vulkan can share.
    pub(super) fn of(hal: &wgpu::hal::vulkan::Device, version: u32) -> Self {
        let (instance, physical) = (hal.shared_instance().raw_instance(), hal.raw_physical_device());
        let is_enabled = |name: &'static std::ffi::CStr| {
            version >= vk::API_VERSION_1_1 && hal.enabled_device_extensions().contains(&name)
        };
        let has_host = is_enabled(ash::ext::external_memory_host::NAME);
        let has_memory_files = is_enabled(ash::khr::external_memory_fd::NAME);
        let has_semaphore_files = is_enabled(ash::khr::external_semaphore_fd::NAME);
        let has_dma_buf = has_memory_files && is_enabled(ash::ext::external_memory_dma_buf::NAME);
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        let mut of_host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut timelines = vk::PhysicalDeviceTimelineSemaphoreFeatures::default();
        if version >= vk::API_VERSION_1_1 {
            let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut ids);
            if has_host {
                properties = properties.push_next(&mut of_host);
            }
            // SAFETY: the version and the extension support the chained structures.
            unsafe { instance.get_physical_device_properties2(physical, &mut properties) };
        }
        if version >= vk::API_VERSION_1_2 {
            let mut features = vk::PhysicalDeviceFeatures2::default().push_next(&mut timelines);
            // SAFETY: this version supports the chained structure.
            unsafe { instance.get_physical_device_features2(physical, &mut features) };
        }
        let memory = |is_there: bool, handle: Handle| {
            let mut properties = vk::ExternalBufferProperties::default();
            if is_there {
                let info = vk::PhysicalDeviceExternalBufferInfo::default().usage(usages()).handle_type(handle);
                // SAFETY: the physical device belongs to the instance, whose version has the function.
                unsafe { instance.get_physical_device_external_buffer_properties(physical, &info, &mut properties) };
            }
            properties.external_memory_properties.external_memory_features
        };
        let mut semaphores = vk::ExternalSemaphoreProperties::default();
        if has_semaphore_files {
            let mut kind = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let info = vk::PhysicalDeviceExternalSemaphoreInfo::default()
                .handle_type(vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD)
                .push_next(&mut kind);
            // SAFETY: as above.
            unsafe { instance.get_physical_device_external_semaphore_properties(physical, &info, &mut semaphores) };
        }
        let raw = hal.raw_device();
        Self {
            memory_files: has_memory_files.then(|| ash::khr::external_memory_fd::Device::new(instance, raw)),
            semaphore_files: has_semaphore_files.then(|| ash::khr::external_semaphore_fd::Device::new(instance, raw)),
            host: has_host.then(|| ash::ext::external_memory_host::Device::new(instance, raw)),
            alignment: usize::try_from(of_host.min_imported_host_pointer_alignment).unwrap_or(1).max(1),
            opaque: memory(has_memory_files, Handle::OPAQUE_FD),
            dma_buf: memory(has_dma_buf, Handle::DMA_BUF_EXT),
            semaphores: semaphores.external_semaphore_features,
            // wgpu enables them where the device has them.
            has_timelines: timelines.timeline_semaphore == vk::TRUE,
            has_foreign_users: is_enabled(ash::ext::queue_family_foreign::NAME),
            id: DeviceId { device: ids.device_uuid, driver: ids.driver_uuid },
        }
    }

    /// Returns the queue family that stands for the other users of a dma-buf.
    fn foreign(&self) -> u32 {
        if self.has_foreign_users { vk::QUEUE_FAMILY_FOREIGN_EXT } else { vk::QUEUE_FAMILY_EXTERNAL }
    }
}

impl Vulkan {
    /// Returns the device and its driver.
    pub(crate) fn id(&self) -> DeviceId {
        self.sharing.id
    }

    /// Returns the queue family that stands for the users of shared memory outside of this device.
    pub(super) fn other_users(&self, kind: MemoryHandle) -> u32 {
        match kind {
            MemoryHandle::OpaqueFile => vk::QUEUE_FAMILY_EXTERNAL,
            MemoryHandle::DmaBuf => self.sharing.foreign(),
        }
    }

    /// Returns the alignment in bytes that address and size of host memory need to be imported; `None` if the device
    /// imports none.
    pub(crate) fn host_alignment(&self) -> Option<usize> {
        self.sharing.host.as_ref().map(|_| self.sharing.alignment)
    }

    /// Creates a buffer of `size` bytes whose memory may be shared by these handles. It has no memory yet.
    pub(super) fn unbacked(&self, size: usize, handles: Handle) -> Result<Buffer, GpuError> {
        let mut external = vk::ExternalMemoryBufferCreateInfo::default().handle_types(handles);
        let info = vk::BufferCreateInfo::default().size(size.max(4) as u64).usage(usages()).push_next(&mut external);
        // SAFETY: the device exists, the structure is complete, and buffers support the handles.
        let raw = unsafe { self.raw.create_buffer(&info, None) }.map_err(failed("a buffer"))?;
        let (memory, mapped) = (vk::DeviceMemory::null(), std::ptr::null_mut());
        Ok(Buffer { raw, memory, mapped, size, allocated: 0, is_coherent: true })
    }

    /// Allocates the memory of a buffer as `info` says. Frees the buffer if that fails.
    pub(super) fn allocated(
        &self,
        mut buffer: Buffer,
        info: &vk::MemoryAllocateInfo<'_>,
    ) -> Result<Buffer, vk::Result> {
        // SAFETY: the structure is complete, and its memory type is one of those that the buffer may have.
        match unsafe { self.raw.allocate_memory(info, None) } {
            Ok(memory) => {
                (buffer.memory, buffer.allocated) = (memory, info.allocation_size);
                Ok(buffer)
            }
            Err(error) => {
                // SAFETY: the buffer was never used.
                unsafe { self.free(buffer) };
                Err(error)
            }
        }
    }

    /// Binds the memory of a buffer to it. Frees both if that fails.
    pub(super) fn backed(&self, buffer: Buffer) -> Result<Buffer, GpuError> {
        // SAFETY: buffer and memory are new, and match in size and type.
        match unsafe { self.raw.bind_buffer_memory(buffer.raw, buffer.memory, 0) } {
            Ok(()) => Ok(buffer),
            Err(error) => {
                // SAFETY: the buffer was never used.
                unsafe { self.free(buffer) };
                Err(failed("memory")(error))
            }
        }
    }

    /// Returns the memory types that a buffer may have in memory of the device, the preferred one first, and the bytes
    /// that it takes. Only those of the types in `allowed` are returned.
    pub(super) fn kinds(&self, buffer: &Buffer, allowed: u32) -> (Vec<Kind>, u64) {
        // SAFETY: the buffer exists.
        let needs = unsafe { self.raw.get_buffer_memory_requirements(buffer.raw) };
        let types = &self.memory.memory_types[..self.memory.memory_type_count as usize];
        (Use::Device.kinds(types, needs.memory_type_bits & allowed), needs.size)
    }

    /// Creates a buffer in host memory: `size` bytes from `start` on, both multiples of [`Vulkan::host_alignment`].
    /// Fails if the device cannot import the memory, or sees the host's writes only after they are flushed.
    ///
    /// # Safety
    ///
    /// The memory is valid for reads and writes, and exists until the buffer has been freed.
    pub(crate) unsafe fn host_buffer(&self, start: *mut u8, size: usize) -> Result<Buffer, GpuError> {
        let refused = |why: &str| {
            GpuError::new(
                GpuErrorKind::Unsupported,
                format!("the device cannot import host memory{why}; write the input"),
            )
        };
        let host = self.sharing.host.as_ref().ok_or_else(|| refused(" (VK_EXT_external_memory_host)"))?;
        let handle = Handle::HOST_ALLOCATION_EXT;
        let mut properties = vk::MemoryHostPointerPropertiesEXT::default();
        let ask = host.fp().get_memory_host_pointer_properties_ext;
        // SAFETY: the extension is enabled, and the memory exists.
        unsafe { ask(host.device(), handle, start.cast(), &mut properties) }
            .result()
            .map_err(|error| refused(&format!(" at this address ({error})")))?;
        let buffer = self.unbacked(size, handle)?;
        // SAFETY: the buffer exists.
        let needs = unsafe { self.raw.get_buffer_memory_requirements(buffer.raw) };
        let types = &self.memory.memory_types[..self.memory.memory_type_count as usize];
        let allowed = properties.memory_type_bits & needs.memory_type_bits;
        let is_coherent = |kind: &vk::MemoryType| kind.property_flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT);
        let mut kinds = types.iter().enumerate().filter(|(index, kind)| allowed >> index & 1 == 1 && is_coherent(kind));
        let Some((index, _)) = kinds.next().filter(|_| needs.size <= size as u64) else {
            // SAFETY: the buffer was never used.
            unsafe { self.free(buffer) };
            return Err(refused(": it has no coherent memory type for it"));
        };
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default().handle_type(handle).host_pointer(start.cast());
        let info = vk::MemoryAllocateInfo::default().allocation_size(size as u64).memory_type_index(index as u32);
        let allocated = self.allocated(buffer, &info.push_next(&mut import));
        self.backed(allocated.map_err(|error| refused(&format!(" ({error})")))?)
    }
}
