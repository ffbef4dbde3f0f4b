//! Timeline semaphores, which runs wait for and signal.
#![allow(unsafe_code)]

#[cfg(unix)]
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ash::vk;

use super::{Vulkan, failed};
use crate::device::{Device, RunSignal};
use crate::kernel::{GpuError, GpuErrorKind};

/// A timeline semaphore of a device. Recordings own those that their pending runs use.
pub(crate) struct Semaphore {
    device: Device,
    raw: vk::Semaphore,
    /// Whether a run was to wait for it or to signal it.
    is_used: AtomicBool,
    /// What submitted runs set it to, of the values that it may not have yet.
    pending_signals: Mutex<Vec<RunSignal>>,
}

fn vulkan(device: &Device) -> Result<&Vulkan, GpuError> {
    let text = "a device without Vulkan, or one that the caller opened";
    device.vulkan().ok_or_else(|| GpuError::new(GpuErrorKind::Unsupported, text))
}

impl Semaphore {
    /// Creates a semaphore with this value, which can be exported if that is asked for.
    pub(crate) fn new(device: &Device, value: u64, is_exportable: bool) -> Result<Self, GpuError> {
        let raw = vulkan(device)?.semaphore(value, is_exportable)?;
        Ok(Self::of(device, raw))
    }

    fn of(device: &Device, raw: vk::Semaphore) -> Self {
        Self { device: device.clone(), raw, is_used: AtomicBool::new(false), pending_signals: Mutex::default() }
    }

    /// Creates the semaphore behind a file.
    #[cfg(unix)]
    pub(crate) fn import(device: &Device, file: OwnedFd) -> Result<Self, GpuError> {
        let raw = vulkan(device)?.import_semaphore(file)?;
        Ok(Self::of(device, raw))
    }

    /// Returns a new file of an exportable semaphore.
    #[cfg(unix)]
    pub(crate) fn export(&self) -> Result<OwnedFd, GpuError> {
        vulkan(&self.device)?.export_semaphore(self.raw)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the handle, for the submission of a run.
    pub(crate) fn for_run(&self) -> vk::Semaphore {
        self.is_used.store(true, Ordering::Relaxed);
        self.raw
    }

    /// Locks what submitted runs set it to.
    pub(crate) fn pending_signals(&self) -> MutexGuard<'_, Vec<RunSignal>> {
        self.pending_signals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn value(&self) -> Result<u64, GpuError> {
        // SAFETY: the semaphore exists and is a timeline.
        unsafe { vulkan(&self.device)?.raw.get_semaphore_counter_value(self.raw) }.map_err(failed("a semaphore"))
    }

    /// Waits on the host, at most this long, until the semaphore has a value. Returns whether it has.
    pub(crate) fn wait(&self, value: u64, timeout: Duration) -> Result<bool, GpuError> {
        let (semaphores, values) = ([self.raw], [value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: the semaphore exists and is a timeline.
        match unsafe { vulkan(&self.device)?.raw.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(error) => Err(failed("a semaphore")(error)),
        }
    }

    /// Sets the value, which is greater than the value before and less than those that pending runs set.
    pub(crate) fn signal(&self, value: u64) -> Result<(), GpuError> {
        let info = vk::SemaphoreSignalInfo::default().semaphore(self.raw).value(value);
        // SAFETY: the semaphore exists and is a timeline.
        unsafe { vulkan(&self.device)?.raw.signal_semaphore(&info) }.map_err(failed("a semaphore"))
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        if let Some(vulkan) = self.device.vulkan() {
            // The software driver (Mesa 22.3) uses a semaphore a little longer than until the end of the submission.
            if self.device.adapter().is_software && self.is_used.load(Ordering::Relaxed) {
                vulkan.settle();
            }
            // SAFETY: recordings whose pending submissions use the semaphore own it.
            unsafe { vulkan.raw.destroy_semaphore(self.raw, None) };
        }
    }
}

impl Vulkan {
    /// Creates a timeline semaphore with this value.
    pub(super) fn semaphore(&self, value: u64, is_exportable: bool) -> Result<vk::Semaphore, GpuError> {
        if !self.sharing.has_timelines {
            return Err(GpuError::new(GpuErrorKind::Unsupported, "the device has no timeline semaphores"));
        }
        if is_exportable && !self.sharing.semaphores.contains(vk::ExternalSemaphoreFeatureFlags::EXPORTABLE) {
            return Err(not_shared());
        }
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(value);
        let mut export =
            vk::ExportSemaphoreCreateInfo::default().handle_types(vk::ExternalSemaphoreHandleTypeFlags::OPAQUE_FD);
        let mut info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        if is_exportable {
            info = info.push_next(&mut export);
        }
        // SAFETY: the device exists, has timeline semaphores, and can export them if that is asked for.
        unsafe { self.raw.create_semaphore(&info, None) }.map_err(failed("a semaphore"))
    }
}

/// Returns the error for a device whose semaphores other processes cannot use.
pub(super) fn not_shared() -> GpuError {
    let remedy = "wait for the end of runs and of the other process's work on the host instead";
    let text = "the device cannot share semaphores with other processes (VK_KHR_external_semaphore_fd)";
    GpuError::new(GpuErrorKind::Unsupported, format!("{text}; {remedy}"))
}
