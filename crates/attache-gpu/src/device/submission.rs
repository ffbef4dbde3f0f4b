//! How commands get to a device.

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

    /// Whether no dispatch may read the buffer that it writes, not even in other places.
    pub fn keeps_apart(self) -> bool {
        match self {
            Submission::Replay => false,
            Submission::Encoder => true,
        }
    }
}
