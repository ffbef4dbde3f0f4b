//! Variants: implementations of kernels as shaders, one per file. If several apply to a kernel, the one with the lowest
//! cost is used.

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
    /// Ranks it among the variants that apply to the same kernel; the lowest cost wins.
    pub(crate) cost: fn(&Context<'_>, &Kernel) -> u32,
    /// Generates the shaders, in the order in which they run.
    pub(crate) write: fn(&Context<'_>, &Kernel) -> Vec<Shader>,
}

/// The precondition for a variant to apply to any kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// None: it can apply on every device and in every configuration.
    Nothing,
    /// Values stored as f32.
    Binary32,
    /// Programs with integer convolutions.
    Bytes,
    /// Cooperative matrices, and values stored as f16.
    Matrices,
}

/// The implementation chosen for a kernel.
pub struct Written {
    /// The shaders, in the order in which they run.
    pub shaders: Vec<Shader>,
    /// The other variants that apply to the kernel.
    pub alternatives: Vec<&'static str>,
}
