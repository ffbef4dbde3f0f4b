//! Variants: the implementations of kernels as compute shaders, one variant per file, and the choice among
//! them. If several variants apply to a kernel, the one with the lowest priority number is used.

mod convolution;
mod elementwise;
mod reduction;
mod select;

use crate::kernel::Kernel;
use crate::wgsl::{Context, Shader};

pub use select::{variants, write};
pub(crate) use select::{write_in_place, write_updating};

/// One way to implement a kind of kernel as compute shaders.
pub(crate) struct Variant {
    /// The variant's name, which is also the name of its file without the extension.
    pub(crate) name: &'static str,
    /// What the variant can compute where it would otherwise load it.
    pub(crate) computes: Computes,
    /// Returns whether the variant can implement this kernel in this context.
    pub(crate) applies: fn(&Context<'_>, &Kernel) -> bool,
    /// Returns the variant's priority among those that apply to the same kernel. The lowest number is
    /// preferred.
    pub(crate) priority: fn(&Context<'_>, &Kernel) -> u32,
    /// Generates the kernel's shaders, in the order in which they are dispatched. Called only if `applies`
    /// returned true.
    pub(crate) write: fn(&Context<'_>, &Kernel) -> Vec<Shader>,
}

/// What a variant can compute where it would otherwise load it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Computes {
    /// Nothing: it loads all inputs.
    Nothing,
    /// Maps, where it loads their elements.
    Maps,
    /// A prologue: a convolution or a mean, for each pixel that it loads.
    Pixels,
    /// A prologue: whole rows in work-group memory, or what they are scaled by.
    Rows,
}

impl Computes {
    /// Returns what a variant has to compute for a kernel.
    fn of(kernel: &Kernel) -> Self {
        match kernel.prologue {
            Some(_) if kernel.has_rows() => Computes::Rows,
            Some(_) => Computes::Pixels,
            None if kernel.maps.is_empty() => Computes::Nothing,
            None => Computes::Maps,
        }
    }
}

/// What must be given before a variant can apply to any kernel at all: a property of the device, of its
/// configuration, or of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariantRequirement {
    /// No requirement: the variant can apply on every device and in every configuration.
    Nothing,
    /// Values of the program are stored as f32 rather than f16.
    F32Storage,
    /// The program contains convolutions of 8-bit integers, multiplied as stored rather than as floats.
    Bytes,
    /// The device multiplies cooperative matrices (or emulates them), and values are stored as f16.
    Matrices,
}

/// The shaders that [`write()`] generated for a kernel.
#[derive(Debug)]
pub struct GeneratedKernel {
    /// The shaders, in the order in which they are dispatched.
    pub shaders: Vec<Shader>,
    /// Names of the variants that also apply to the kernel but were not chosen.
    pub alternatives: Vec<&'static str>,
}
