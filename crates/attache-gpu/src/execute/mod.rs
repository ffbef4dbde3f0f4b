//! Execution: an interface records a plan for a device, and the recording is run any number of times.
//!
//! Two traits, [`Interface`] and [`Recording`], separate plans from the ways to run them. The wgpu encoder
//! implements both for every device, and replay implements both for Vulkan. Another way to run plans on GPUs
//! would implement both as well.

mod encoder;
mod faulty;
#[cfg(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
mod replay;
mod roofline;
mod session;
mod stored;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use crate::bind::{BoundTensor, DeviceMemory, InputBinding, OutputBinding, usage};
use crate::device::{Device, DeviceCode, Fence, ShaderCode, Submission};
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind};
use crate::layout::ALIGNMENT;
use crate::plan::{Plan, WeightSource};

use encoder::Encoder;
use faulty::Faulty;
#[cfg(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
use replay::Replay;
pub use roofline::DevicePeaks;
pub use session::{Executable, Session, SessionReport};
pub use stored::StoredExecutable;

/// Maximum number of pending submissions of one recording through wgpu, or of one stream of a replayed
/// recording.
const MAX_PENDING: usize = 64;

/// A way to run plans on a device. It turns plans into recordings.
pub trait Interface {
    /// Returns the limits of the device that a plan for this interface must keep to.
    fn limits(&self) -> &DeviceLimits;

    /// Whether a dispatch must not read the buffer that it writes, not even in another range.
    fn keeps_apart(&self) -> bool;

    /// Whether recordings can be timed ([`Runs::timed`]).
    fn has_timestamps(&self) -> bool;

    /// Loads a plan: uploads those of its constants that the device does not have yet, and creates its pipelines from
    /// `code`. Also returns what that cost. If `first` says what the first recording is for, its memory may be allocated
    /// while the driver compiles.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or is lost, or if it does not support a constant as large as one of
    /// the plan's.
    fn load(
        &self,
        plan: &Arc<Plan>,
        weights: &dyn WeightSource,
        code: ShaderCode<'_>,
        first: Option<Runs>,
    ) -> Result<(Box<dyn LoadedPlan>, LoadCost), GpuError>;
}

/// A plan on a device: its pipelines and constants. Any number of recordings can be made of it, which share them.
pub trait LoadedPlan: Send + Sync {
    /// Makes a recording: allocates memory for intermediate values, inputs and outputs, and records the commands
    /// of a run.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory, is lost, does not support a buffer as large as one of the plan's, or
    /// lacks timestamps that `runs` asks for.
    fn record(&self, runs: Runs) -> Result<Box<dyn Recording>, GpuError>;

    /// Returns what the device made of the shaders, if the plan was loaded with [`ShaderCode::CompileAndKeep`], and
    /// otherwise nothing.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or lost.
    fn code(&self) -> Result<DeviceCode, GpuError> {
        Ok(DeviceCode::default())
    }
}

/// A plan that is ready to run. Each slot ([`Runs::slots`]) has memory for the inputs and outputs of one run, so that
/// the runs of several slots can be under way at once. A run sees the inputs that its slot had when it was submitted.
pub trait Recording: Send {
    /// Sets an input of a slot to bytes in the device's format. Runs of the slot that were submitted before
    /// use the previous bytes; if they are pending, the call may wait for them.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError>;

    /// Returns the memory of an input of a slot, which the host then writes in the device's format. Waits for
    /// runs of the slot that still read the input. `None` if the host cannot access the device's memory.
    /// Reading the memory may be very slow.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError>;

    /// Copies the current bytes of an input of a slot from the device to `bytes`, and waits for the copy.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost, or if the host cannot access its memory, so that
    /// [`Recording::input_mut`] returns `None`.
    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError>;

    /// Starts a run on the slot's inputs. `is_read` tells whether the outputs of the run are copied to the
    /// host.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError>;

    /// Waits for the slot's last run. Parts of its outputs may still be on their way to the host afterwards.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn wait(&mut self, slot: usize) -> Result<(), GpuError>;

    /// Returns an object with which any thread can wait for the slot's last run.
    fn completion(&self, slot: usize) -> Arc<dyn Fence>;

    /// Returns the bytes of an output of the slot's last run, in the device's format, that have arrived on
    /// the host. Waits until these are at least `least` bytes, or the whole output, which padding may follow.
    /// `None` unless the run was submitted with `is_read` and waited for.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError>;

    /// Lets other recordings take an output: after each further run, the output is copied to shared memory on
    /// the device. Returns a handle to that memory, or `None` if sharing is not supported.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or lost.
    fn share(&mut self, _output: usize) -> Result<Option<SharedValue>, GpuError> {
        Ok(None)
    }

    /// Takes an input from an output that another recording shares: before each further run, the input is
    /// copied from the shared memory. Each run must be submitted after the run of the other recording that
    /// computes the output. Returns whether taking the input is supported; if not, nothing changes.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or lost.
    fn take(&mut self, _input: usize, _shared: &SharedValue) -> Result<bool, GpuError> {
        Ok(false)
    }

    /// Stops copying the outputs with these indices to the host. Recordings that do not support this continue
    /// to copy them.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn keep_on_device(&mut self, _outputs: &[usize]) -> Result<(), GpuError> {
        Ok(())
    }

    /// Makes all further runs read an input from memory of the caller's, or with `None` from the recording's own. If it
    /// fails, nothing changes.
    ///
    /// # Errors
    ///
    /// Fails if the memory does not fit the input or is of another device, if the recording cannot bind memory, or if
    /// the device fails or is lost.
    fn bind_input(&mut self, _input: usize, _bound: Option<(InputBinding, BoundTensor)>) -> Result<(), GpuError> {
        Err(no_binding())
    }

    /// Makes all further runs write an output to memory of the caller's, or with `None` to the recording's own. An
    /// output that is bound is not copied to the host. If it fails, nothing changes.
    ///
    /// # Errors
    ///
    /// As [`Recording::bind_input`].
    fn bind_output(&mut self, _output: usize, _bound: Option<(OutputBinding, BoundTensor)>) -> Result<(), GpuError> {
        Err(no_binding())
    }

    /// Allocates memory of this many bytes on the device, to which inputs and outputs of the recording can be bound; `None` if
    /// the recording binds none that it could allocate.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or lost.
    fn memory(&self, _size: usize) -> Result<Option<DeviceMemory>, GpuError> {
        Ok(None)
    }

    /// Adds the commands of a run of slot 0 to an encoder of the caller's, who submits them. The host does not see the
    /// outputs of the run.
    ///
    /// # Errors
    ///
    /// As [`Recording::bind_input`].
    fn encode(&mut self, _encoder: &mut wgpu::CommandEncoder) -> Result<(), GpuError> {
        Err(no_binding())
    }

    /// Returns the bytes of inputs and outputs that were copied between memory of the host and of the device so far, without
    /// padding that is not copied; `None` if they are not counted. What the host writes where the device reads it, or the
    /// device where the host reads it, counts if it crosses a bus.
    fn io_bytes(&self) -> Option<u64> {
        None
    }

    /// Waits for the last run and returns the time of each of its dispatches. There must have been a run.
    ///
    /// # Errors
    ///
    /// Fails unless the recording is timed ([`Runs::timed`]), or if the device fails or is lost.
    fn times(&mut self) -> Result<Times, GpuError>;
}

/// The completion of a run that has ended, or that was never started.
pub(crate) struct Ended;

impl Fence for Ended {
    fn wait(&self, _: Duration) -> Result<bool, GpuError> {
        Ok(true)
    }
}

/// How the plan of a recording is going to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Number of slots, at least 1. Each slot has memory for the inputs and outputs of one run, so this many
    /// runs with different inputs can be pending at once.
    pub slots: usize,
    /// Whether each run records timestamps before and after every dispatch, for [`Recording::times`].
    /// Timestamps slow a run down.
    pub timed: bool,
    /// How the host waits for runs.
    pub wait: Wait,
}

impl Default for Runs {
    /// One slot, without timestamps.
    fn default() -> Self {
        Self { slots: 1, timed: false, wait: Wait::default() }
    }
}

/// How the host waits for a run in replay. Through wgpu, waits always sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Sleeps at first, and polls around the time at which the run is expected to end, which follows from the run
    /// before. Ends within microseconds of the run, and uses at most a millisecond of a core.
    #[default]
    Adaptive,
    /// Polls all the time. Ends earliest, and keeps a core busy.
    Spin,
    /// Polls, and offers the core to other threads between polls.
    Yield,
    /// Sleeps until the device says that the run has ended. Uses the least energy; waking up may take some tens of
    /// microseconds.
    Sleep,
}

/// The time that recording a plan took, and the device memory of its constants.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadCost {
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, without those that overlapped with making pipelines.
    pub upload_ms: f64,
    /// Bytes of constants on the device.
    pub weights_bytes: usize,
}

/// A handle to an output that a recording shares with others on the device.
pub type SharedValue = Arc<dyn Any + Send + Sync>;

/// Measurements of the last run of a timed recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// The time of each dispatch, in order.
    pub spans: Vec<Span>,
    /// The number of barriers between the dispatches of a run; `None` if the interface does not know it.
    pub barriers: Option<usize>,
}

/// The time of a dispatch, in nanoseconds since the first dispatch of its run began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// The time at which all earlier commands had ended, in nanoseconds since the run's first dispatch began.
    pub begin: f64,
    /// The time at which the dispatch had ended, in nanoseconds since the run's first dispatch began.
    pub end: f64,
}

impl Span {
    /// Converts timestamps in ticks, two for each dispatch, at its beginning and its end, to spans. The
    /// counter wraps around after `bits` bits, and a tick takes `nanoseconds` nanoseconds.
    fn of_ticks(ticks: &[u64], bits: u32, nanoseconds: f64) -> Vec<Self> {
        let mask = u64::MAX >> (64 - bits.clamp(1, 64));
        let start = ticks.first().copied().unwrap_or_default();
        let since = |tick: u64| (tick.wrapping_sub(start) & mask) as f64 * nanoseconds;
        let spans = ticks.as_chunks::<2>().0.iter();
        spans.map(|[begin, end]| Self { begin: since(*begin), end: since(*end) }).collect()
    }
}

/// Returns the interface that runs plans on a device with a submission method. If the device was opened with
/// a fault to inject, operations of the interface and its recordings fail accordingly.
///
/// # Errors
///
/// Fails if the device does not support the submission method.
pub fn interface(device: &Device, submission: Submission) -> Result<Box<dyn Interface>, GpuError> {
    let inner: Box<dyn Interface> = match submission {
        Submission::Encoder => Box::new(Encoder(device.clone())),
        #[cfg(all(
            feature = "vulkan",
            any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)
        ))]
        Submission::Replay if device.replays() => Box::new(Replay(device.clone())),
        Submission::Replay => {
            let message = "replay needs a device of its own, through Vulkan";
            return Err(GpuError::new(GpuErrorKind::Unsupported, message));
        }
    };
    Ok(match device.fault() {
        None => inner,
        Some(_) => Box::new(Faulty { device: device.clone(), inner }),
    })
}

/// Returns a block of bytes with the parameters of [`Plan::all_dispatches`], each at an aligned offset and padded to 16
/// bytes. Also returns the offset and the size in bytes of each dispatch's parameters.
fn params(plan: &Plan) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut block, mut ranges) = (Vec::new(), Vec::with_capacity(plan.dispatches.len() + plan.in_place.len()));
    for dispatch in plan.all_dispatches() {
        let bytes = 16 * dispatch.params.len().div_ceil(4).max(1);
        block.resize(usize::next_multiple_of(block.len(), ALIGNMENT), 0);
        ranges.push((block.len(), bytes));
        block.extend(dispatch.params.iter().flat_map(|param| param.to_ne_bytes()));
        block.resize(ranges[ranges.len() - 1].0 + bytes, 0);
    }
    (block, ranges)
}

/// Returns the error for a recording that runs on a device of its own.
fn no_binding() -> GpuError {
    let remedy = "make the delegate with GpuDelegate::with_device";
    let other = "or bind DeviceMemory where the delegate replays recorded commands";
    usage(format!("an encoder, its buffers and its textures are of a device of the caller's; {remedy}, {other}"))
}

/// Returns the error for a device or a recording without timestamps.
fn no_timestamps() -> GpuError {
    GpuError::new(GpuErrorKind::Unsupported, "the device has no timestamps that would tell when a dispatch begins")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_wrap_around() {
        let spans = Span::of_ticks(&[0xfe, 0x01, 0x03, 0x03], 8, 2.0);
        assert_eq!(spans, [Span { begin: 0.0, end: 6.0 }, Span { begin: 10.0, end: 10.0 }]);
        assert_eq!(Span::of_ticks(&[5, 9], 64, 1.0), [Span { begin: 0.0, end: 4.0 }]);
        assert_eq!(Span::of_ticks(&[], 64, 1.0), []);
    }
}
