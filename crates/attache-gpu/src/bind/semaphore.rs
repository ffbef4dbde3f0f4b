//! Semaphores that runs wait for and signal, on a device that the delegate opened.

use std::fmt;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use super::usage;
use crate::device::vulkan::Semaphore;
use crate::device::{Device, RunSignal};
use crate::kernel::GpuError;

/// A timeline semaphore: a number that only grows. Runs wait until it has a value, and set it
/// ([`MemoryBinding`](crate::MemoryBinding)); so do the host, and other processes if it is shared.
///
/// Clones are handles to the same semaphore.
#[derive(Clone)]
pub struct DeviceSemaphore(Arc<Semaphore>);

impl DeviceSemaphore {
    /// Creates a semaphore of the value 0.
    ///
    /// # Errors
    ///
    /// Of kind `Unsupported` if the delegate did not open the device through Vulkan, or if the device has no timeline
    /// semaphores; or if it is out of memory or lost.
    pub fn new(device: &Device) -> Result<Self, GpuError> {
        device.noted(Semaphore::new(device, 0, false)).map(Self::of)
    }

    pub(super) fn of(semaphore: Semaphore) -> Self {
        Self(Arc::new(semaphore))
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// Fails if the device is lost.
    pub fn value(&self) -> Result<u64, GpuError> {
        self.device().noted(self.0.value())
    }

    /// Waits, at most this long, until the semaphore has a value or a greater one. Returns whether it has.
    ///
    /// # Errors
    ///
    /// Fails if the device is lost.
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<bool, GpuError> {
        self.device().noted(self.0.wait(value, timeout))
    }

    /// Sets the value. While runs in progress set the semaphore, the host may only set what each of them waits for: another
    /// value might come after theirs, and values grow. What other processes and other imports of the same semaphore are
    /// about to set is not known.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the value is not greater than the semaphore's, or if a run in progress sets the semaphore and does
    /// not wait for this value of it; or if the device is lost.
    pub fn signal(&self, value: u64) -> Result<(), GpuError> {
        let pending = self.check(value)?;
        match pending.iter().find(|run| run.waits_for < value) {
            Some(run) => Err(usage(format!(
                "a run in progress sets the semaphore to {} and may do so before it is set to {value}; set it before the run \
                 starts or after its end, or let the run wait for {value}",
                run.value
            ))),
            None => self.device().noted(self.0.signal(value)),
        }
    }

    /// Locks the semaphore for the submission of a run that sets a value, and first waits for another one, or for 0.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the value is not greater than the semaphore's and than all that runs in progress set.
    pub(crate) fn pending_signal(&self, value: u64, waits_for: u64) -> Result<PendingSignal<'_>, GpuError> {
        let pending = self.check(value)?;
        match pending.iter().find(|run| run.value >= value) {
            Some(run) => Err(usage(format!(
                "a run in progress sets the semaphore to {}, so the next one cannot set it to {value}; values grow",
                run.value
            ))),
            None => Ok(PendingSignal { pending, own: RunSignal { value, waits_for } }),
        }
    }

    /// Fails if a value is not greater than the semaphore's. Returns what runs in progress set it to, locked.
    fn check(&self, value: u64) -> Result<MutexGuard<'_, Vec<RunSignal>>, GpuError> {
        let mut pending = self.0.pending_signals();
        let now = self.value()?;
        if now >= value {
            return Err(usage(format!("the semaphore has the value {now} and cannot be set to {value}; values grow")));
        }
        pending.retain(|run| run.value > now);
        Ok(pending)
    }

    pub(crate) fn device(&self) -> &Device {
        self.0.device()
    }

    pub(crate) fn raw(&self) -> &Semaphore {
        &self.0
    }
}

/// A signal operation of a run that is about to be submitted. The semaphore is locked meanwhile, so that runs are submitted
/// in the order of their values.
pub(crate) struct PendingSignal<'a> {
    pending: MutexGuard<'a, Vec<RunSignal>>,
    own: RunSignal,
}

impl PendingSignal<'_> {
    /// Records that the run was submitted.
    pub(crate) fn submitted(mut self) {
        self.pending.push(self.own);
    }
}

impl fmt::Debug for DeviceSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSemaphore({:?})", self.value().ok())
    }
}
