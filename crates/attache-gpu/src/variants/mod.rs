//! Variants: each writes the shaders of some kernels, one file each. Where several apply, the one of the least cost is taken.

mod convolution;
mod elementwise;
mod reduction;
mod select;

use crate::kernel::Kernel;
use crate::wgsl::{Context, Shader};

pub use select::{variants, write};

/// One way to write a kernel.
pub(crate) struct Variant {
    /// Its name, as the file's.
    pub(crate) name: &'static str,
    /// Whether it can compute a prologue as it reads.
    pub(crate) takes_prologues: bool,
    /// Whether it can write this kernel.
    pub(crate) applies: fn(&Context<'_>, &Kernel) -> bool,
    /// How it compares to other variants of the same kernel; the least is taken.
    pub(crate) cost: fn(&Context<'_>, &Kernel) -> u32,
    /// The shaders, to run one after the other.
    pub(crate) write: fn(&Context<'_>, &Kernel) -> Vec<Shader>,
}

/// What has to be there before a variant applies to anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing that would not be everywhere.
    Nothing,
    /// Values stored as binary32.
    Binary32,
    /// Programs that contract integers.
    Bytes,
    /// Cooperative matrices, and values stored as binary16.
    Matrices,
}

/// How a kernel was written.
pub struct Written {
    /// The shaders, to run one after the other.
    pub shaders: Vec<Shader>,
    /// The variants that could have written it as well.
    pub alternatives: Vec<&'static str>,
}
