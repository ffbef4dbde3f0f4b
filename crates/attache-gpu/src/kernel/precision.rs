//! Precision of storage and arithmetic.

use super::StorageFormat;

/// Precision of storage and arithmetic on a device. The names are those of TensorFlow Lite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// f32 storage and arithmetic.
    #[default]
    F32,
    /// f16 storage except for inputs and outputs, f32 arithmetic. If shaders do not support f16, values that
    /// are written one element at a time are stored as f32.
    F32F16,
    /// f16 storage as in `F32F16`. Arithmetic may be f16, except for sums and divisions; the shaders are
    /// currently the same as those of `F32F16`.
    F16,
}

impl Precision {
    /// Returns the name that files and command-line flags use.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F32F16 => "f32_f16",
            Precision::F16 => "f16",
        }
    }

    /// Returns the default storage format of floats. `shader_f16` says whether the device's shaders support
    /// f16.
    #[must_use]
    pub fn storage(self, shader_f16: bool) -> StorageFormat {
        match self {
            Precision::F32 => StorageFormat::F32,
            Precision::F32F16 | Precision::F16 if shader_f16 => StorageFormat::Half,
            Precision::F32F16 | Precision::F16 => StorageFormat::HalfPairs,
        }
    }
}
