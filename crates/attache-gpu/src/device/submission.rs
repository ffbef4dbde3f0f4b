//! The methods of submitting the commands of a run to a device. Callers choose one of them.

/// How the commands of a run are submitted to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Submission {
    /// Vulkan command buffers are recorded once and submitted again for each run. Requires a Vulkan device
    /// that this crate opened.
    Replay,
    /// The commands are encoded through wgpu again for each run, in one compute pass, or one for each
    /// dispatch if the recording is timed, and submitted once. Works on every device.
    Encoder,
}

impl Submission {
    /// Returns the name of the method in command-line flags.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Submission::Replay => "replay",
            Submission::Encoder => "encoder",
        }
    }
}
