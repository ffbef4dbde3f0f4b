//! Semaphores that runs wait for and signal, on a device that the delegate opened.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::usage;
use crate::device::Device;
use crate::device::vulkan::Semaphore;
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

    /// Sets the value, which must be less than those that runs in progress set.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the value is not greater than the semaphore's; or if the device is lost.
    pub fn signal(&self, value: u64) -> Result<(), GpuError> {
        self.check_signal(value)?;
        self.device().noted(self.0.signal(value))
    }

    /// Fails if a value is not greater than the semaphore's.
    pub(crate) fn check_signal(&self, value: u64) -> Result<(), GpuError> {
        let now = self.value()?;
        match now < value {
            true => Ok(()),
            false => Err(usage(format!("the semaphore has the value {now} and cannot be set to {value}; values grow"))),
        }
    }

    pub(crate) fn device(&self) -> &Device {
        self.0.device()
    }

    pub(crate) fn raw(&self) -> &Semaphore {
        &self.0
    }
}

impl fmt::Debug for DeviceSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceSemaphore({:?})", self.value().ok())
    }
}
