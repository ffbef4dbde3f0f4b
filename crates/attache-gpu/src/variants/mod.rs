//! Variants: implementations of kernels as shaders, one per file. If several apply to a kernel, the one with the lowest
//! priority number is used.

mod convolution;
mod elementwise;
mod reduction;
mod select;

use crate::kernel::Kernel;
use crate::wgsl::{Context, Shader};

pub use select::{variants, write};

/// One implementation of a kind of kernel.
pub(crate) struct Variant {
    /// Its name, which is also its file's name.
    pub(crate) name: &'static str,
    /// Whether it can compute a prologue while it loads its first input.
    pub(crate) takes_prologues: bool,
    /// Whether it can implement this kernel.
    pub(crate) applies: fn(&Context<'_>, &Kernel) -> bool,
    /// Its priority among the variants that apply to the same kernel. The lowest number is preferred.
    pub(crate) priority: fn(&Context<'_>, &Kernel) -> u32,
    /// Generates the shaders, in the order in which they run.
    pub(crate) write: fn(&Context<'_>, &Kernel) -> Vec<Shader>,
}

/// The precondition for a variant to apply to any kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantRequirement {
    /// None: it can apply on every device and in every configuration.
    Nothing,
    /// Values stored as f32.
    F32Storage,
    /// Programs with integer convolutions.
    Bytes,
    /// Cooperative matrices, and values stored as f16.
    Matrices,
}

/// The implementation chosen for a kernel.
pub struct GeneratedKernel {
    /// The shaders, in the order in which they run.
    pub shaders: Vec<Shader>,
    /// The other variants that apply to the kernel.
    pub alternatives: Vec<&'static str>,
}
