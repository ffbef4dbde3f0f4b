//! Execution: a plan becomes a recording, which runs again and again.
//!
//! [`Interface`] and [`Recording`] separate plans from the ways to run them. The wgpu encoder implements both for every
//! device, and replay implements them for Vulkan. A further interface to GPUs is a further implementation of the two.

mod encoder;
mod faulty;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod replay;
mod roofline;
mod session;

use std::any::Any;
use std::sync::Arc;

use crate::device::{Device, Submission};
use crate::kernel::{DeviceLimits, GpuError, GpuErrorKind};
use crate::layout::ALIGNMENT;
use crate::plan::{Plan, WeightSource};

use encoder::Encoder;
use faulty::Faulty;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
use replay::Replay;
pub use roofline::DevicePeaks;
pub use session::{Session, SessionReport};

/// Maximum number of submissions of one recording that are under way at once.
const MAX_PENDING: usize = 64;

/// An interface through which a device runs plans.
pub trait Interface {
    /// The limits that a plan must keep to.
    fn limits(&self) -> &DeviceLimits;

    /// Whether a dispatch must not read the buffer that it writes, not even at other offsets.
    fn keeps_apart(&self) -> bool;

    /// Whether recordings can be timed.
    fn has_timestamps(&self) -> bool;

    /// Allocates the buffers of a plan, uploads its constants, makes its pipelines and records its commands.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory, is lost, or lacks timestamps that `runs` asks for.
    fn record(
        &self,
        plan: &Plan,
        weights: &dyn WeightSource,
        runs: Runs,
    ) -> Result<(Box<dyn Recording>, RecordingCost), GpuError>;
}

/// A plan that is ready to run. Each slot ([`Runs::slots`]) has memory for the inputs and outputs of one run, so that
/// the runs of several slots can be under way at once. A run sees the inputs that its slot had when it was submitted.
pub trait Recording: Send {
    /// Sets an input to bytes in the device's format. Waits for runs of the slot that still read the previous ones.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError>;

    /// The memory of an input, for the host to write in the device's format. Waits for runs of the slot that still read
    /// it. `None` if the host cannot access the device's memory. Reading it may be very slow.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError>;

    /// Copies an input's current bytes back through the device.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError>;

    /// Starts a run on the slot's inputs. The outputs are copied to the host only if `is_read`.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError>;

    /// Waits for the slot's last run. Its outputs may still be on their way to the host.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn wait(&mut self, slot: usize) -> Result<(), GpuError>;

    /// The bytes of an output in the device's format: those that have arrived, which are at least `least`, or all,
    /// possibly followed by padding. `None` unless the slot's last run was submitted with `is_read` and waited for.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError>;

    /// Copies an output, after each further run, to memory on the device from which other recordings can take it.
    /// `None` if that is not supported.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or lost.
    fn share(&mut self, _output: usize) -> Result<Option<SharedValue>, GpuError> {
        Ok(None)
    }

    /// Copies an input, before each further run, from a value that another recording shares. False if that is not
    /// supported. The runs of the other recording must be submitted first.
    ///
    /// # Errors
    ///
    /// Fails if the device is out of memory or lost.
    fn take(&mut self, _input: usize, _shared: &SharedValue) -> Result<bool, GpuError> {
        Ok(false)
    }

    /// Stops copying these outputs to the host.
    ///
    /// # Errors
    ///
    /// Fails if the device fails or is lost.
    fn keep_on_device(&mut self, _outputs: &[usize]) -> Result<(), GpuError> {
        Ok(())
    }

    /// Waits for the last run, of which there must be one, and returns the time of each dispatch.
    ///
    /// # Errors
    ///
    /// Fails unless the recording is timed ([`Runs::timed`]).
    fn times(&mut self) -> Result<Times, GpuError>;
}

/// How a recording will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Number of slots, at least 1: runs with inputs of their own that can be under way at once.
    pub slots: usize,
    /// Whether each run records timestamps before and after every dispatch. Timestamps slow a run down.
    pub timed: bool,
}

/// The cost of recording a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordingCost {
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
    /// The number of barriers between dispatches, if it is known.
    pub barriers: Option<usize>,
}

/// The time of a dispatch, in nanoseconds since the first dispatch of its run began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// When all earlier commands had ended.
    pub begin: f64,
    /// When the dispatch had ended.
    pub end: f64,
}

impl Span {
    /// Converts the ticks at the begin and the end of each dispatch. The counter has `bits` bits, and a tick takes so
    /// many `nanoseconds`.
    fn of_ticks(ticks: &[u64], bits: u32, nanoseconds: f64) -> Vec<Self> {
        let mask = u64::MAX >> (64 - bits.clamp(1, 64));
        let start = ticks.first().copied().unwrap_or_default();
        let since = |tick: u64| (tick.wrapping_sub(start) & mask) as f64 * nanoseconds;
        let spans = ticks.as_chunks::<2>().0.iter();
        spans.map(|[begin, end]| Self { begin: since(*begin), end: since(*end) }).collect()
    }
}

/// The interface to a device for a submission method. If a test asked for a fault, its recordings fail.
///
/// # Errors
///
/// Fails if the device does not support the submission method.
pub fn interface(device: &Device, submission: Submission) -> Result<Box<dyn Interface>, GpuError> {
    let inner: Box<dyn Interface> = match submission {
        Submission::Encoder => Box::new(Encoder(device.clone())),
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
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

/// The parameters of all dispatches in one block, each at an aligned offset. Also returns the offset and size of each.
fn params(plan: &Plan) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut block, mut ranges) = (Vec::new(), Vec::with_capacity(plan.dispatches.len()));
    for dispatch in &plan.dispatches {
        let bytes = 16 * dispatch.params.len().div_ceil(4).max(1);
        block.resize(usize::next_multiple_of(block.len(), ALIGNMENT), 0);
        ranges.push((block.len(), bytes));
        block.extend(dispatch.params.iter().flat_map(|param| param.to_ne_bytes()));
        block.resize(ranges[ranges.len() - 1].0 + bytes, 0);
    }
    (block, ranges)
}

/// The error of a device without timestamps.
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
