//! How commands are submitted to a device.

/// How commands are submitted to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Submission {
    /// A command buffer that is recorded once and submitted for each run. Requires Vulkan and a device that was opened
    /// here.
    Replay,
    /// One wgpu encoder, one pass and one submit for each run. Works on every device.
    Encoder,
}

impl Submission {
    /// The name used in flags.
    pub fn name(self) -> &'static str {
        match self {
            Submission::Replay => "replay",
            Submission::Encoder => "encoder",
        }
    }
}
