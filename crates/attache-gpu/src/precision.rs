//! In which numbers a device computes.

/// In which numbers a device stores and computes, under TensorFlow Lite's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Binary32 throughout.
    #[default]
    F32,
    /// Binary16 in memory, binary32 arithmetic.
    F32F16,
    /// Binary16 in memory; arithmetic may be binary16 where sums and divisions aren't concerned.
    F16,
}

impl Precision {
    /// The name that files and flags use.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F32F16 => "f32_f16",
            Precision::F16 => "f16",
        }
    }

    /// WGSL's type for a stored element that means a real number.
    pub(crate) fn storage(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F32F16 | Precision::F16 => "f16",
        }
    }

    /// Bytes of a stored element that means a real number.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Precision::F32 => 4,
            Precision::F32F16 | Precision::F16 => 2,
        }
    }
}
