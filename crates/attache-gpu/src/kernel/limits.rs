//! Limits of a device for shaders, and choices that depend on its driver.

/// Limits of a device for shaders, and choices that depend on its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Storage buffers that one shader can bind for values and constants, at least 4.
    pub max_bindings: usize,
    /// Where a shader's parameters are stored.
    pub params: Params,
    /// Maximum bytes of one binding.
    pub max_binding_bytes: usize,
    /// Bytes of work-group memory.
    pub work_group_bytes: usize,
    /// Maximum invocations of a work group, at least 128.
    pub max_invocations: usize,
    /// Alignment of binding offsets in bytes, at least 16.
    pub alignment: usize,
    /// Whether shaders support the f16 type.
    pub shader_f16: bool,
    /// How 16×16 f16 matrices are multiplied with f32 accumulation.
    pub matrices: Matrices,
    /// Whether variants may split the K sum of one result over the invocations of a work group (split-K). Software
    /// devices run invocations one after the other, so barriers cost more than split-K saves.
    pub splits_k: bool,
    /// Which of the variants that apply to a kernel writes its shaders.
    pub variants: VariantChoice,
}

/// Maximum work groups along one axis of a dispatch; every device supports this many.
pub(crate) const MAX_GROUPS: usize = 65535;

/// Maximum output channels along one dispatch axis if each work group computes a block of 8, the smallest block.
pub(crate) const MAX_OUTPUTS: usize = MAX_GROUPS * 8;

impl Default for DeviceLimits {
    /// The limits that every device meets.
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
            splits_k: true,
            variants: VariantChoice::ByPriority,
        }
    }
}

/// Where a shader's parameters are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Params {
    /// In the shader source. The driver then knows loop bounds and divisors at compile time.
    Text,
    /// In a uniform buffer, so that fewer shaders have to be compiled.
    Uniform,
    /// In a storage buffer. If a loop bound comes from a uniform buffer, Mesa's software driver recompiles the shader
    /// at every dispatch and keeps every compiled version.
    Storage,
}

impl Params {
    /// The WGSL address space of the parameters' buffer; `None` if there is no buffer.
    pub(crate) fn space(self) -> Option<&'static str> {
        match self {
            Params::Text => None,
            Params::Uniform => Some("uniform"),
            Params::Storage => Some("storage, read"),
        }
    }
}

/// How matrices are multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrices {
    /// Not supported: kernels with matrix operations are not used.
    Absent,
    /// With the device's cooperative matrix operations.
    Cooperative,
    /// With loops, which is slow. For tests.
    Emulated,
}

/// Which variant generates a kernel if several apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VariantChoice {
    /// The one with the lowest priority number.
    #[default]
    ByPriority,
    /// The variant of this name if it applies, otherwise the one with the lowest priority number.
    Named(&'static str),
}
