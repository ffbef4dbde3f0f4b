//! What a device allows a shader, and which of two ways suits its driver better.

/// What a device allows a shader, and which of two ways suits its driver better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Storage buffers of one shader for values and constants, at least 4.
    pub max_bindings: usize,
    /// Where a shader's parameters lie.
    pub params: Params,
    /// Bytes that one binding can reach.
    pub max_binding_bytes: usize,
    /// Bytes of memory of a work group.
    pub work_group_bytes: usize,
    /// Invocations of a work group, at least 128.
    pub max_invocations: usize,
    /// Bytes of which a binding's offset is a multiple, at least 16.
    pub alignment: usize,
    /// Whether shaders have binary16 as a type.
    pub shader_f16: bool,
    /// What multiplies matrices of 16×16 numbers of binary16, with sums in binary32.
    pub matrices: Matrices,
    /// Whether invocations had better share a long sum. Software computes them one after the other, and meetings of a work
    /// group cost it more than they save.
    pub shares_sums: bool,
    /// Which variant writes a kernel where several apply.
    pub variants: Variants,
}

/// Work groups along one axis of a dispatch, on any device.
pub(crate) const MAX_GROUPS: usize = 65535;

/// Output channels that work groups along one axis reach in blocks of the fewest, 8.
pub(crate) const MAX_OUTPUTS: usize = MAX_GROUPS * 8;

impl Default for Limits {
    /// What every device has.
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
            shares_sums: true,
            variants: Variants::Cheapest,
        }
    }
}

/// Where a shader's parameters lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Params {
    /// In the text: the driver then counts loops and divides by constants when it compiles.
    Text,
    /// In a uniform buffer, so that fewer texts are compiled.
    Uniform,
    /// In a storage buffer. Mesa's software driver compiles a shader again at every dispatch, and keeps what it compiled,
    /// where a loop's bound comes from a uniform buffer.
    Storage,
}

impl Params {
    /// The address space of the parameters' buffer, in WGSL, where they have one.
    pub(crate) fn space(self) -> Option<&'static str> {
        match self {
            Params::Text => None,
            Params::Uniform => Some("uniform"),
            Params::Storage => Some("storage, read"),
        }
    }
}

/// What multiplies matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrices {
    /// Nothing: there are no such kernels.
    Absent,
    /// The device's own operations.
    Cooperative,
    /// Loops, slowly. For tests.
    Emulated,
}

/// Which variant writes a kernel where several apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variants {
    /// The cheapest.
    #[default]
    Cheapest,
    /// The one of this name where it applies, else the cheapest.
    Named(&'static str),
}
