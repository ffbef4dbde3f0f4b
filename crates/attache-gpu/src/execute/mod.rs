//! Recordings: a plan turned into commands that can be run again and again.
//!
//! [`Recorder`] and [`Recording`] are the seam between plans and the ways to run them. The ordinary wgpu encoder is one
//! way; another records a command buffer of its own.

mod encoder;
mod faulty;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod replay;
mod roofline;
mod session;

use std::any::Any;
use std::sync::Arc;

use crate::device::{Device, Submission};
use crate::kernel::{GpuError, GpuErrorKind};
use crate::layout::ALIGNMENT;
use crate::plan::{Plan, WeightSource};

pub use encoder::Encoder;
use faulty::Faulty;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
use replay::Replay;
pub use roofline::Ceilings;
pub use session::{Session, SessionReport};

/// Submissions of one recording that may be under way at once.
const MAX_PENDING: usize = 64;

/// How a recording is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// Runs on inputs of their own that may be under way at once; at least one.
    pub slots: usize,
    /// Whether each run notes when its dispatches begin and end, which costs time of its own.
    pub timed: bool,
}

/// The parameters of all dispatches in one block, each at an aligned offset; offset and size of each.
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

/// Records a plan for a way to submit.
pub(crate) fn record(
    submission: Submission,
    device: &Device,
    plan: &Plan,
    weights: &dyn WeightSource,
    runs: Runs,
) -> Result<(Box<dyn Recording>, Cost), GpuError> {
    let recorder = recorder(submission);
    match device.fault() {
        None => recorder.record(device, plan, weights, runs),
        Some(_) => Faulty(recorder).record(device, plan, weights, runs),
    }
}

fn recorder(submission: Submission) -> &'static dyn Recorder {
    match submission {
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
        Submission::Replay => &Replay,
        // Sessions were told that no device of this system can.
        #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
        Submission::Replay => &Encoder,
        Submission::Encoder => &Encoder,
    }
}

/// Makes recordings.
pub trait Recorder {
    /// Prepares everything that a run needs.
    ///
    /// # Errors
    ///
    /// Where the device has no room, no timestamps that are asked for, or fails.
    fn record(
        &self,
        device: &Device,
        plan: &Plan,
        weights: &dyn WeightSource,
        runs: Runs,
    ) -> Result<(Box<dyn Recording>, Cost), GpuError>;
}

/// What recording a plan cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, but for those in which pipelines were made meanwhile.
    pub upload_ms: f64,
    /// Bytes of constants on the device.
    pub weights_bytes: usize,
}

/// When a dispatch began and ended, in nanoseconds since the first of its run began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Span {
    /// When everything before it had ended.
    pub begin: f64,
    /// When it had ended itself.
    pub end: f64,
}

impl Span {
    /// Of ticks at the begin and the end of each dispatch in turn, of a counter of so many bits.
    fn of_ticks(ticks: &[u64], bits: u32, nanoseconds: f64) -> Vec<Self> {
        let mask = u64::MAX >> (64 - bits.clamp(1, 64));
        let start = ticks.first().copied().unwrap_or_default();
        let since = |tick: u64| (tick.wrapping_sub(start) & mask) as f64 * nanoseconds;
        let spans = ticks.as_chunks::<2>().0.iter();
        spans.map(|[begin, end]| Self { begin: since(*begin), end: since(*end) }).collect()
    }
}

/// An output that a recording leaves on the device for others.
pub type SharedValue = Arc<dyn Any + Send + Sync>;

/// What a timed recording noted of its last run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Of each dispatch, in order.
    pub spans: Vec<Span>,
    /// Barriers between dispatches, where it is known.
    pub barriers: Option<usize>,
}

/// The error of a device that has no timestamps.
fn no_timestamps() -> GpuError {
    GpuError::new(GpuErrorKind::Unsupported, "the device has no timestamps that would tell when a dispatch begins")
}

/// A plan, ready to run. Each of its slots ([`Runs::slots`]) has memory for the inputs and outputs of a run, so that runs of
/// several may be under way at once. Runs follow each other in the order in which they are started.
pub trait Recording: Send {
    /// Hands over an input's bytes, as the device stores them, once no run of the slot reads the ones before.
    fn write(&mut self, slot: usize, input: usize, bytes: &[u8]) -> Result<(), GpuError>;

    /// Where the host may write an input itself, as the device stores it, once no run of the slot reads the one before;
    /// `None` where the device has its memory for itself. It may be very slow to read.
    fn input_mut(&mut self, slot: usize, input: usize) -> Result<Option<&mut [u8]>, GpuError>;

    /// Copies back what the host wrote there last, by way of the device.
    fn read_input(&mut self, slot: usize, input: usize, bytes: &mut [u8]) -> Result<(), GpuError>;

    /// Starts a run on what was last written to the slot. Runs follow each other in the order in which they are started. The
    /// host sees the outputs of one that `is_read`; another's would only be written over.
    fn submit(&mut self, slot: usize, is_read: bool) -> Result<(), GpuError>;

    /// Waits for the slot's last run. Outputs may be on their way still.
    fn wait(&mut self, slot: usize) -> Result<(), GpuError>;

    /// An output's bytes from its first on, as the device stores them and perhaps a few more, where they lie: those that
    /// are there, once they are as many as `least`, or all. `None` unless the slot's last run is read and was waited for.
    fn output(&self, slot: usize, output: usize, least: usize) -> Result<Option<&[u8]>, GpuError>;

    /// Has an output copied after each run to memory on the device, from which other recordings take it; `None` where that
    /// can't be.
    fn share(&mut self, _output: usize) -> Result<Option<SharedValue>, GpuError> {
        Ok(None)
    }

    /// Has an input copied before each run from where another recording left it; whether that can be. Recordings then run
    /// one after the other, in this order.
    fn take(&mut self, _input: usize, _shared: &SharedValue) -> Result<bool, GpuError> {
        Ok(false)
    }

    /// Brings these outputs to the host no more.
    fn keep_back(&mut self, _outputs: &[usize]) -> Result<(), GpuError> {
        Ok(())
    }

    /// Waits for the last run, of which there must be one, and tells when its dispatches began and ended; an error unless
    /// the recording is timed.
    fn times(&mut self) -> Result<Times, GpuError>;
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
