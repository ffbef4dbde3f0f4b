//! Memory and semaphores that processes hand to each other as file descriptors.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use ash::vk;
use vk::ExternalMemoryFeatureFlags as Features;
use vk::ExternalMemoryHandleTypeFlags as Handle;

use super::semaphores::not_shared;
use super::{Buffer, Vulkan, failed};
use crate::device::MemoryHandle;
use crate::kernel::{GpuError, GpuErrorKind};

fn handle(kind: MemoryHandle) -> Handle {
    match kind {
        MemoryHandle::OpaqueFile => Handle::OPAQUE_FD,
        MemoryHandle::DmaBuf => Handle::DMA_BUF_EXT,
    }
}

fn unsupported(what: &str) -> GpuError {
    GpuError::new(GpuErrorKind::Unsupported, format!("the device cannot {what}"))
}

/// Returns the error for a file that the driver does not import.
fn refused(kind: MemoryHandle, error: vk::Result) -> GpuError {
    match error {
        vk::Result::ERROR_INVALID_EXTERNAL_HANDLE => GpuError::new(
            GpuErrorKind::Usage,
            format!("the driver does not know the file as {kind} of this device ({error})"),
        ),
        error => failed("memory of another process")(error),
    }
}

impl Vulkan {
    /// Fails unless buffers can be exported (or imported) by this kind of file. Returns whether their memory must hold
    /// nothing else.
    fn check(&self, kind: MemoryHandle, wanted: Features, verb: &str) -> Result<bool, GpuError> {
        let features = match kind {
            MemoryHandle::OpaqueFile => self.sharing.opaque,
            MemoryHandle::DmaBuf => self.sharing.dma_buf,
        };
        if self.sharing.memory_files.is_none() || !features.contains(wanted) {
            return Err(unsupported(&format!("{verb} memory as {kind}")));
        }
        Ok(features.contains(Features::DEDICATED_ONLY))
    }

    /// Creates a buffer of `size` bytes whose memory can be exported by this kind of file. Returns it with the index of
    /// its memory type.
    pub(super) fn exportable(&self, size: usize, kind: MemoryHandle) -> Result<(Buffer, u32), GpuError> {
        let is_alone = self.check(kind, Features::EXPORTABLE, "export")?;
        let buffer = self.unbacked(size, handle(kind))?;
        let (kinds, bytes) = self.kinds(&buffer, u32::MAX);
        let Some(memory) = kinds.first() else {
            // SAFETY: the buffer was never used.
            unsafe { self.free(buffer) };
            return Err(unsupported(&format!("export memory as {kind}: it has no type of memory for it")));
        };
        let mut export = vk::ExportMemoryAllocateInfo::default().handle_types(handle(kind));
        let mut alone = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer.raw);
        let mut info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(memory.index);
        info = info.push_next(&mut export);
        if is_alone {
            info = info.push_next(&mut alone);
        }
        Ok((self.backed(self.allocated(buffer, &info).map_err(failed("memory"))?)?, memory.index))
    }

    /// Returns a new file descriptor of the memory of an exportable buffer, and the bytes of its allocation.
    pub(super) fn export(&self, buffer: &Buffer, kind: MemoryHandle) -> Result<(OwnedFd, u64), GpuError> {
        let files = self.sharing.memory_files.as_ref().ok_or_else(|| unsupported("export memory"))?;
        let info = vk::MemoryGetFdInfoKHR::default().memory(buffer.memory).handle_type(handle(kind));
        // SAFETY: the memory was allocated for export by this kind of handle.
        let file = unsafe { files.get_memory_fd(&info) }.map_err(failed("a file of memory"))?;
        // SAFETY: the file descriptor is new, and nothing else owns it.
        Ok((unsafe { OwnedFd::from_raw_fd(file) }, buffer.allocated))
    }

    /// Creates a buffer in the memory behind a file descriptor: an allocation of this many bytes, of the memory type with
    /// this index if it is known.
    pub(super) fn import(
        &self,
        file: OwnedFd,
        kind: MemoryHandle,
        bytes: u64,
        memory_type: Option<u32>,
    ) -> Result<Buffer, GpuError> {
        let is_alone = self.check(kind, Features::IMPORTABLE, "import")?;
        let files = self.sharing.memory_files.as_ref().ok_or_else(|| unsupported("import memory"))?;
        let mut allowed = memory_type.map_or(u32::MAX, |index| 1u32.checked_shl(index).unwrap_or(0));
        if kind == MemoryHandle::DmaBuf {
            let mut properties = vk::MemoryFdPropertiesKHR::default();
            // SAFETY: the file descriptor is open.
            let asked = unsafe { files.get_memory_fd_properties(handle(kind), file.as_raw_fd(), &mut properties) };
            asked.map_err(|error| refused(kind, error))?;
            allowed = properties.memory_type_bits;
        }
        let size = usize::try_from(bytes).map_err(|_| unsupported("import as much memory"))?;
        let buffer = self.unbacked(size, handle(kind))?;
        let (kinds, needs) = self.kinds(&buffer, allowed);
        let Some(memory) = kinds.first().filter(|_| needs <= bytes) else {
            // SAFETY: the buffer was never used.
            unsafe { self.free(buffer) };
            let text = format!("memory of {size} bytes and this type cannot be a buffer, which takes {needs}");
            return Err(GpuError::new(GpuErrorKind::Usage, text));
        };
        // The memory owns the file from its allocation on. If that fails, some drivers have closed the file and others have
        // not, so it is left to them.
        let mut import = vk::ImportMemoryFdInfoKHR::default().handle_type(handle(kind)).fd(file.into_raw_fd());
        let mut alone = vk::MemoryDedicatedAllocateInfo::default().buffer(buffer.raw);
        let mut info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(memory.index);
        info = info.push_next(&mut import);
        if is_alone {
            info = info.push_next(&mut alone);
        }
        let buffer = self.allocated(buffer, &info).map_err(|error| refused(kind, error))?;
        self.backed(buffer)
    }

    /// Returns a new file descriptor of an exportable semaphore.
    pub(super) fn export_semaphore(&self, semaphore: vk::Semaphore) -> Result<OwnedFd, GpuError> {
        let files = self.sharing.semaphore_files.as_ref().ok_or_else(not_shared)?;
        let opaque = vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;
        let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(semaphore).handle_type(opaque);
        // SAFETY: the semaphore was created for export by this kind of handle.
        let file = unsafe { files.get_semaphore_fd(&info) }.map_err(failed("a file of a semaphore"))?;
        // SAFETY: the file descriptor is new, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// Creates the semaphore behind a file descriptor.
    pub(super) fn import_semaphore(&self, file: OwnedFd) -> Result<vk::Semaphore, GpuError> {
        let files = self.sharing.semaphore_files.as_ref().ok_or_else(not_shared)?;
        if !self.sharing.semaphores.contains(vk::ExternalSemaphoreFeatureFlags::IMPORTABLE) {
            return Err(not_shared());
        }
        let semaphore = self.semaphore(0, false)?;
        let opaque = vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD;
        // As with memory, the file is left to the driver.
        let info =
            vk::ImportSemaphoreFdInfoKHR::default().semaphore(semaphore).handle_type(opaque).fd(file.into_raw_fd());
        // SAFETY: the semaphore is new and of the kind that is exported, and the file descriptor is open.
        if let Err(error) = unsafe { files.import_semaphore_fd(&info) } {
            // SAFETY: the semaphore was never used.
            unsafe { self.raw.destroy_semaphore(semaphore, None) };
            let text = format!("the driver does not know the file as a semaphore of this device ({error})");
            return Err(GpuError::new(GpuErrorKind::Usage, text));
        }
        Ok(semaphore)
    }
}
