//! The variants: each writes the shader of some kernels, one file each. Where several apply, the cheapest is taken.

mod arg_reduce;
mod concatenate;
mod contract;
mod contract_blocked;
mod contract_bytes;
mod contract_dense;
mod contract_depthwise;
mod contract_depthwise_bytes;
mod contract_direct;
mod contract_held;
mod contract_held_bytes;
mod contract_held_matrix;
mod contract_matrix;
mod contract_winograd;
mod gather;
mod held;
mod index_map;
mod map;
mod multiply;
mod reduce;
mod reduce_group;
mod resample;
mod rows;
mod rows_group;
mod rows_held;
mod scan;
mod supply;
mod tile;
mod top_k;
mod unpool;
mod window;
mod window_group;

use attache_gpu_ir::Program;

use crate::context::Context;
use crate::fuse::Kernel;
use crate::limits::Limits;
use crate::shader::Shader;
use crate::storage::Storages;

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

/// Which variant writes a kernel where several apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variants {
    /// The cheapest.
    #[default]
    Cheapest,
    /// The one of this name where it applies, else the cheapest.
    Named(&'static str),
}

impl Variants {
    /// The choice of a variant by its name, where there is one.
    pub fn named(text: &str) -> Option<Self> {
        variants().map(|(name, _)| name).find(|name| *name == text).map(Variants::Named)
    }
}

/// Every variant, sorted by file.
static TABLE: &[Variant] = &[
    arg_reduce::VARIANT,
    concatenate::VARIANT,
    contract::VARIANT,
    contract_blocked::VARIANT,
    contract_bytes::VARIANT,
    contract_dense::VARIANT,
    contract_depthwise::VARIANT,
    contract_depthwise_bytes::VARIANT,
    contract_direct::VARIANT,
    contract_held::VARIANT,
    contract_held_bytes::VARIANT,
    contract_held_matrix::VARIANT,
    contract_matrix::VARIANT,
    contract_winograd::VARIANT,
    gather::VARIANT,
    index_map::VARIANT,
    map::VARIANT,
    multiply::VARIANT,
    reduce::VARIANT,
    reduce_group::VARIANT,
    resample::VARIANT,
    rows::VARIANT,
    rows_group::VARIANT,
    rows_held::VARIANT,
    scan::VARIANT,
    top_k::VARIANT,
    unpool::VARIANT,
    window::VARIANT,
    window_group::VARIANT,
];

/// The variants that need something; the others need nothing.
static NEEDS: &[(Variant, Needs)] = &[
    (contract_bytes::VARIANT, Needs::Bytes),
    (contract_depthwise_bytes::VARIANT, Needs::Bytes),
    (contract_held_bytes::VARIANT, Needs::Bytes),
    (contract_held_matrix::VARIANT, Needs::Matrices),
    (contract_matrix::VARIANT, Needs::Matrices),
    (contract_winograd::VARIANT, Needs::Binary32),
];

/// Every variant's name, and what it needs.
pub fn variants() -> impl Iterator<Item = (&'static str, Needs)> {
    let needs = |name| NEEDS.iter().find(|(variant, _)| variant.name == name).map_or(Needs::Nothing, |need| need.1);
    TABLE.iter().map(move |variant| (variant.name, needs(variant.name)))
}

/// How a kernel was written.
pub struct Written {
    /// The shaders, to run one after the other.
    pub shaders: Vec<Shader>,
    /// The variants that could have written it as well.
    pub alternatives: Vec<&'static str>,
}

/// Writes a kernel. The values that it reads are settled in `storages`.
pub fn write(program: &Program, kernel: &Kernel, storages: &Storages, limits: &Limits) -> Written {
    let context = Context { program, storages, limits, views: &kernel.views };
    let takes_prologues = |variant: &Variant| variant.takes_prologues || kernel.prologue.is_none();
    let applies = |variant: &&Variant| takes_prologues(variant) && (variant.applies)(&context, kernel);
    let applying: Vec<&Variant> = TABLE.iter().filter(applies).collect();
    let rank =
        |variant: &&&Variant| (Variants::Named(variant.name) != limits.variants, (variant.cost)(&context, kernel));
    let variant = applying.iter().min_by_key(rank).expect("every primitive has a variant without conditions");
    tracing::trace!(variant = variant.name, primitive = kernel.primitive.name(), "chosen");
    let others = applying.iter().map(|other| other.name).filter(|name| *name != variant.name);
    Written { shaders: (variant.write)(&context, kernel), alternatives: others.collect() }
}

/// WGSL that names the output coordinates of unit `g`: `o0`, `o1`, … of type `i32`, the innermost counting vectors of
/// `lanes` elements. `extents` yields the WGSL of each axis's extent, in such vectors.
pub(crate) fn coordinates(extents: &[String]) -> String {
    let mut text = "    var rest = i32(g);\n".to_owned();
    for (axis, extent) in extents.iter().enumerate().skip(1).rev() {
        text += &format!("    let o{axis} = rest % i32({extent});\n    rest = rest / i32({extent});\n");
    }
    if !extents.is_empty() {
        text += "    let o0 = rest;\n";
    }
    text
}
