//! [`DeviceLimits`]: the limits of a device that fusion and shader generation respect, and choices that
//! depend on its driver.

use super::StorageFormat;

/// The limits of a device for shaders, and choices that depend on its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Maximum storage buffers that one shader can bind for values and constants, inputs and outputs
    /// together. At least 4. The buffer of the shader's parameters is not counted.
    pub max_bindings: usize,
    /// Where a shader's parameters, such as extents and strides, are stored.
    pub params: Params,
    /// Maximum size of one storage buffer binding in bytes.
    pub max_binding_bytes: usize,
    /// Maximum work-group memory of a shader in bytes.
    pub work_group_bytes: usize,
    /// Maximum invocations of a work group, at least 128.
    pub max_invocations: usize,
    /// Required alignment of binding offsets in bytes, at least 16.
    pub alignment: usize,
    /// Whether shaders support the f16 type.
    pub shader_f16: bool,
    /// How shaders multiply 16×16 f16 matrices with f32 accumulation.
    pub matrices: Matrices,
    /// Number of invocations of every subgroup, if shaders can exchange values within subgroups and all have as many: then
    /// so many consecutive invocations of a work group, from a multiple on, are a subgroup.
    pub subgroup: Option<usize>,
    /// Whether variants may split the K sum of one result over the invocations of a work group (split-K). Software
    /// devices run invocations one after the other, so barriers cost more than split-K saves.
    pub splits_k: bool,
    /// How to choose among the variants that can generate a kernel's shaders.
    pub variants: VariantChoice,
}

/// Maximum work groups along one axis of a dispatch; every device supports this many.
pub(crate) const MAX_GROUPS: usize = 65535;

/// Maximum output channels of a convolution whose work groups each compute a block of at least 8 channels:
/// more would need more than [`MAX_GROUPS`] work groups along one axis of a dispatch.
pub(crate) const MAX_OUTPUTS: usize = MAX_GROUPS * 8;

impl Default for DeviceLimits {
    /// Returns limits that every supported device meets.
    fn default() -> Self {
        Self {
            max_bindings: 4,
            params: Params::Uniform,
            max_binding_bytes: 128 << 20,
            work_group_bytes: 16384,
            max_invocations: 128,
            alignment: 256,
            shader_f16: false,
            matrices: Matrices::Absent,
            subgroup: None,
            splits_k: true,
            variants: VariantChoice::ByPriority,
        }
    }
}

impl DeviceLimits {
    /// Returns the limits for programs whose floats are stored in this format. Matrices can be multiplied only as f16.
    pub(crate) fn storing(&self, floats: StorageFormat) -> Self {
        let matrices = if floats == StorageFormat::Half { self.matrices } else { Matrices::Absent };
        Self { matrices, ..self.clone() }
    }
}

/// Where a shader's parameters, such as extents and strides, are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Params {
    /// As literals in the shader source. The driver then knows loop bounds and divisors at compile time.
    Text,
    /// In a uniform buffer. Layers that differ only in their parameters then share a shader, so that fewer
    /// shaders have to be compiled.
    Uniform,
    /// In a storage buffer. Mesa's software driver needs it: if a loop bound comes from a uniform buffer, it
    /// recompiles the shader at every dispatch and keeps every compiled version.
    Storage,
}

impl Params {
    /// Returns the WGSL address space of the parameters' buffer, with its access mode; `None` if there is no
    /// buffer.
    pub(crate) fn space(self) -> Option<&'static str> {
        match self {
            Params::Text => None,
            Params::Uniform => Some("uniform"),
            Params::Storage => Some("storage, read"),
        }
    }
}

/// How shaders multiply 16×16 matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrices {
    /// Matrix operations are not available: variants that need them are not used.
    Absent,
    /// The device's cooperative matrix operations multiply matrices.
    Cooperative,
    /// Loops in the shader multiply matrices. This is slow, and used for tests.
    Emulated,
}

/// Which variant generates a kernel's shaders if several apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VariantChoice {
    /// The variant with the lowest priority number.
    #[default]
    ByPriority,
    /// The variant of this name if it applies, otherwise the one with the lowest priority number.
    Named(&'static str),
}
