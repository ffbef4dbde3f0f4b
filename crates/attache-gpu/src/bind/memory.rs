//! Memory of a device that the delegate opened, to which inputs and outputs are bound where recorded commands are
//! replayed: memory of the device, of the host, and of other processes.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::semaphore::DeviceSemaphore;
use super::{BoundTensor, usage};
use crate::device::vulkan::DeviceBuffer;
use crate::device::{Device, Fence, HostMemory, MemoryHandle};
use crate::kernel::GpuError;
use crate::plan::padded;

/// Memory that runs on a device use where it is: memory of the device, memory of the host that the device imports, or
/// memory that several processes share. It is of a device of Vulkan that the delegate opened.
///
/// Clones are handles to the same memory. It is freed when the last one is dropped and the last run that uses it has ended.
#[derive(Clone)]
pub struct DeviceMemory(Arc<Shared>);

struct Shared {
    buffer: DeviceBuffer,
    size: usize,
    /// How the memory can be exported, and the index of its memory type; `None` if it cannot.
    export: Option<(MemoryHandle, u32)>,
    /// Which runs use the memory, if it is the host's.
    users: Mutex<Users>,
}

/// Who uses memory of the host.
#[derive(Default)]
struct Users {
    /// Whether [`DeviceMemory::with_host`] lends it to the host.
    is_lent: bool,
    /// The last run of each recording, with the number of the recording.
    runs: Vec<(u64, Arc<dyn Fence>)>,
}

/// The permission to submit a run that uses memory of the host, until [`Submitting::done`] names the run.
pub(crate) struct Submitting<'a>(std::sync::MutexGuard<'a, Users>);

/// A range of [`DeviceMemory`] that an input is read from or an output is written to: the elements of the tensor in its own
/// type (float32, int32, int8 or uint8), in row-major order and without gaps.
///
/// The range takes the bytes of the tensor rounded up to a multiple of four; an output leaves the bytes after its last
/// element undefined.
///
/// Kernels use the range where it is if its offset is a multiple of the device's limit
/// `min_storage_buffer_offset_alignment` (at most 256) and of 16, and no other output and no input uses bytes of the range. An
/// input may use the same range as the output that has its elements with some of them replaced
/// ([`Plan::in_place`](crate::Plan::in_place)): runs then replace these alone. Otherwise each run copies the range on the
/// device. A device that has memory of its own also copies a range of the
/// host's memory; the CPU copies nothing.
/// A clone is another binding, which counts runs of its own.
#[must_use]
#[derive(Debug)]
pub struct MemoryBinding {
    pub(crate) memory: DeviceMemory,
    pub(crate) offset: usize,
    pub(crate) wait: Option<(DeviceSemaphore, u64)>,
    pub(crate) signal: Option<(DeviceSemaphore, u64)>,
    /// Number of runs that were submitted with the binding.
    pub(crate) runs: Arc<AtomicU64>,
}

impl Clone for MemoryBinding {
    fn clone(&self) -> Self {
        Self { runs: Arc::default(), ..self.same() }
    }
}

impl DeviceMemory {
    /// Allocates `size` bytes of memory of the device. The bytes are undefined.
    ///
    /// # Errors
    ///
    /// Fails if the delegate did not open the device through Vulkan, or if the device is out of memory or lost.
    pub fn new(device: &Device, size: usize) -> Result<Self, GpuError> {
        check_size(device, size as u64)?;
        Ok(Self::of(device.noted(DeviceBuffer::new(device, size))?, size, None))
    }

    /// Lets the device use memory of the host: the bytes that `owner` lends, such as a `Vec<u8>`, a memory map or
    /// [`AlignedBytes`](crate::AlignedBytes). Their address and their number are multiples of
    /// [`Device::host_alignment`]. The owner is dropped with the memory.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the bytes are not aligned; of kind `Unsupported` if the device imports no host memory
    /// (`VK_EXT_external_memory_host`) or not this one, or if the delegate did not open it through Vulkan; or if the
    /// device is out of memory or lost.
    pub fn of_host(device: &Device, owner: impl AsMut<[u8]> + Send + 'static) -> Result<Self, GpuError> {
        let host = HostMemory::new(Box::new(owner));
        let (address, size) = (host.start().addr(), host.size());
        check_size(device, size as u64)?;
        if let Some(alignment) = device.host_alignment()
            && (size == 0 || !address.is_multiple_of(alignment) || !size.is_multiple_of(alignment))
        {
            return Err(usage(format!(
                "host memory of {size} bytes at {address:#x}: the device imports address and size in multiples of \
                 {alignment} bytes; allocate it with AlignedBytes"
            )));
        }
        Ok(Self::of(device.noted(DeviceBuffer::of_host(device, host))?, size, None))
    }

    pub(super) fn of(buffer: DeviceBuffer, size: usize, export: Option<(MemoryHandle, u32)>) -> Self {
        Self(Arc::new(Shared { buffer, size, export, users: Mutex::default() }))
    }

    /// Returns the number of bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Copies bytes to the memory from an offset on, and waits until they are there. Runs that were started before see the
    /// bytes before.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the memory has fewer bytes; or if the device is out of memory or lost.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), GpuError> {
        let range = self.range(offset, bytes.len())?;
        match self.0.buffer.is_host() {
            true => self.with_host(|host| host[range].copy_from_slice(bytes)),
            false => self.device().noted(self.0.buffer.write(offset, bytes)),
        }
    }

    /// Copies bytes of the memory from an offset on, after all runs that were started before.
    ///
    /// # Errors
    ///
    /// As [`DeviceMemory::write`].
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), GpuError> {
        let range = self.range(offset, bytes.len())?;
        match self.0.buffer.is_host() {
            true => self.with_host(|host| bytes.copy_from_slice(&host[range])),
            false => self.device().noted(self.0.buffer.read(offset, bytes)),
        }
    }

    /// Lends memory of the host ([`DeviceMemory::of_host`]) to `work`, after all runs that use it have ended. Meanwhile runs
    /// that use it cannot be started.
    ///
    /// # Errors
    ///
    /// Of kind `Usage` if the memory is not the host's or is lent already, or if a run fails or the device is lost.
    pub fn with_host<R>(&self, work: impl FnOnce(&mut [u8]) -> R) -> Result<R, GpuError> {
        if !self.0.buffer.is_host() {
            return Err(usage("the memory is not the host's; `write` and `read` copy from and to it"));
        }
        let mut users = self.users();
        if users.is_lent {
            return Err(lent());
        }
        users.is_lent = true;
        let runs = std::mem::take(&mut users.runs);
        drop(users);
        let _end = Lent(self);
        for (_, run) in runs {
            run.wait(Duration::MAX)?;
        }
        self.0.buffer.with_host(work).ok_or_else(lent)
    }

    /// Asks for the permission to submit a run that uses the memory; `None` if it takes none. Fails while the memory is lent
    /// to the host.
    pub(crate) fn submitting(&self) -> Result<Option<Submitting<'_>>, GpuError> {
        if !self.0.buffer.is_host() {
            return Ok(None);
        }
        let users = self.users();
        if users.is_lent { Err(lent()) } else { Ok(Some(Submitting(users))) }
    }

    /// Whether both handles are of the same memory.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn device(&self) -> &Device {
        self.0.buffer.device()
    }

    pub(crate) fn buffer(&self) -> &DeviceBuffer {
        &self.0.buffer
    }

    pub(super) fn exported_as(&self) -> Option<(MemoryHandle, u32)> {
        self.0.export
    }

    /// Returns a number by which memory is ordered.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    fn users(&self) -> std::sync::MutexGuard<'_, Users> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a range of the memory. Fails if it has no such range.
    fn range(&self, offset: usize, size: usize) -> Result<Range<usize>, GpuError> {
        let end = offset.checked_add(size).filter(|end| *end <= self.size());
        let has = self.size();
        end.map(|end| offset..end)
            .ok_or_else(|| usage(format!("the memory has {has} bytes; {size} from the offset {offset} on are more")))
    }
}

/// Ends the loan of memory to the host.
struct Lent<'a>(&'a DeviceMemory);

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.0.users().is_lent = false;
    }
}

impl Submitting<'_> {
    /// Records that the run with this end, of the recording with this number, uses the memory.
    pub(crate) fn done(mut self, recording: u64, end: Arc<dyn Fence>) {
        self.0.runs.retain(|(other, _)| *other != recording);
        self.0.runs.push((recording, end));
    }
}

impl MemoryBinding {
    /// Creates the binding of memory from its first byte on. The binding keeps the memory alive.
    pub fn new(memory: &DeviceMemory) -> Self {
        Self { memory: memory.clone(), offset: 0, wait: None, signal: None, runs: Arc::default() }
    }

    /// Returns the same binding, which counts the same runs.
    #[doc(hidden)]
    pub fn same(&self) -> Self {
        let Self { memory, offset, wait, signal, runs } = self;
        let (wait, signal) = (wait.clone(), signal.clone());
        Self { memory: memory.clone(), offset: *offset, wait, signal, runs: runs.clone() }
    }

    /// Sets the offset of the first element in bytes, a multiple of 4.
    pub fn offset(mut self, bytes: usize) -> Self {
        self.offset = bytes;
        self
    }

    /// Lets the first run with the binding begin when a semaphore has `value`, the second one when it has `value + 1`, and
    /// so on. Until then the run, and those of this device that are submitted after it, wait: if nothing else sets the
    /// value, [`DeviceSemaphore::signal`] does.
    pub fn wait(mut self, semaphore: &DeviceSemaphore, value: u64) -> Self {
        self.wait = Some((semaphore.clone(), value));
        self
    }

    /// Sets a semaphore to `value` at the end of the first run with the binding, to `value + 1` at the end of the second
    /// one, and so on. Each value has to be greater than the semaphore's and than all that runs in progress set.
    pub fn signal(mut self, semaphore: &DeviceSemaphore, value: u64) -> Self {
        self.signal = Some((semaphore.clone(), value));
        self
    }

    /// Returns the range of a tensor in the memory. Fails if the memory has no such range or is of another device, or if
    /// the device stores the elements in another type.
    pub(crate) fn range(&self, device: &Device, tensor: &BoundTensor) -> Result<Range<usize>, GpuError> {
        let bytes = tensor.bytes()?;
        let size = padded(usize::try_from(bytes).unwrap_or(usize::MAX - 3));
        if !tensor.is_stored() {
            return Err(usage(format!(
                "the device does not store elements of type {} as the tensor has them; bind float32, int32, int8 or uint8 \
                 tensors, or let the program convert them",
                tensor.data_type
            )));
        }
        if !self.offset.is_multiple_of(4) {
            return Err(usage(format!("the offset {} is not a multiple of 4 bytes", self.offset)));
        }
        let semaphores = [&self.wait, &self.signal].into_iter().flatten().map(|(semaphore, _)| semaphore.device());
        if !self.memory.device().is_same(device) || semaphores.into_iter().any(|other| !other.is_same(device)) {
            return Err(usage("the memory or a semaphore is of another device than the delegate's"));
        }
        self.memory.range(self.offset, size)
    }
}

/// Fails if a buffer of the device cannot have this many bytes.
pub(super) fn check_size(device: &Device, size: u64) -> Result<(), GpuError> {
    let limit = device.wgpu().limits().max_buffer_size;
    if size <= limit {
        Ok(())
    } else {
        Err(usage(format!("{size} bytes are more than the device's {limit} of a buffer")))
    }
}

fn lent() -> GpuError {
    usage("the memory is lent to the host; start runs after `with_host` has returned")
}

impl fmt::Debug for DeviceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMemory({} bytes)", self.0.size)
    }
}
