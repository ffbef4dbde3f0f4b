//! Recordings: a plan turned into commands that can be run again and again.
//!
//! [`Recorder`] and [`Recording`] are the seam between plans and the ways to run them. The ordinary wgpu encoder is one
//! way; another records a command buffer of its own.

mod encoder;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod hazards;
mod pieces;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod replay;

use crate::device::Device;
use crate::error::GpuError;
use crate::plan::Plan;

pub use encoder::Encoder;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
use replay::Replay;

/// Runs of one recording that may be under way at once.
const MAX_PENDING: usize = 64;

/// How commands get to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Submission {
    /// A command buffer of our own, recorded once: through Vulkan, on a device that was opened here.
    Replay,
    /// One wgpu encoder, one pass, one submit at each run: everywhere.
    Encoder,
}

impl Submission {
    /// The name that flags use.
    pub fn name(self) -> &'static str {
        match self {
            Submission::Replay => "replay",
            Submission::Encoder => "encoder",
        }
    }

    /// The recorder for this way.
    pub(crate) fn recorder(self) -> &'static dyn Recorder {
        match self {
            #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
            Submission::Replay => &Replay,
            // Sessions were told that no device of this system can.
            #[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
            Submission::Replay => &Encoder,
            Submission::Encoder => &Encoder,
        }
    }
}

/// Makes recordings.
pub trait Recorder {
    /// Prepares everything that a run needs.
    fn record(&self, device: &Device, plan: &Plan) -> Result<(Box<dyn Recording>, Cost), GpuError>;
}

/// What recording a plan cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants.
    pub upload_ms: f64,
    /// Bytes of constants on the device.
    pub weights_bytes: usize,
}

/// A plan, ready to run.
pub trait Recording: Send {
    /// Hands over an input's bytes, as the device stores them.
    fn write(&mut self, input: usize, bytes: &[u8]) -> Result<(), GpuError>;

    /// Starts a run on what was last written. Runs follow each other in the order in which they are started.
    fn submit(&mut self) -> Result<(), GpuError>;

    /// Waits for the last run and copies its outputs' bytes, as the device stores them.
    fn read(&mut self, outputs: &mut [&mut [u8]]) -> Result<(), GpuError>;
}
