//! In which numbers a device computes.

use super::Storage;

/// In which numbers a device stores and computes, under TensorFlow Lite's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Binary32 throughout.
    #[default]
    F32,
    /// Binary16 in memory but for inputs and outputs, binary32 arithmetic. Where shaders have no binary16, some values stay binary32.
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

    /// How reals are stored, on a device whose shaders have binary16 or not.
    pub fn storage(self, shader_f16: bool) -> Storage {
        match self {
            Precision::F32 => Storage::F32,
            Precision::F32F16 | Precision::F16 if shader_f16 => Storage::Half,
            Precision::F32F16 | Precision::F16 => Storage::HalfPairs,
        }
    }
}
