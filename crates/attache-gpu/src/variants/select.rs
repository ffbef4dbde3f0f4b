//! The table of variants, and the choice among those that apply to a kernel.

use attache_gpu_ir::Program;

use super::{Needs, Variant, Written, convolution, elementwise, reduction};
use crate::kernel::{Kernel, Limits, Storages, Variants};
use crate::wgsl::Context;

impl Variants {
    /// The choice of the variant with this name, if there is one.
    pub fn named(text: &str) -> Option<Self> {
        variants().map(|(name, _)| name).find(|name| *name == text).map(Variants::Named)
    }
}

/// All variants, sorted by file name.
static TABLE: &[Variant] = &[
    reduction::arg_reduce::VARIANT,
    elementwise::concatenate::VARIANT,
    convolution::contract::VARIANT,
    convolution::contract_blocked::VARIANT,
    convolution::contract_bytes::VARIANT,
    convolution::contract_dense::VARIANT,
    convolution::contract_depthwise::VARIANT,
    convolution::contract_depthwise_bytes::VARIANT,
    convolution::contract_direct::VARIANT,
    convolution::contract_held::VARIANT,
    convolution::contract_held_bytes::VARIANT,
    convolution::contract_held_matrix::VARIANT,
    convolution::contract_matrix::VARIANT,
    convolution::contract_winograd::VARIANT,
    elementwise::gather::VARIANT,
    elementwise::index_map::VARIANT,
    elementwise::map::VARIANT,
    convolution::multiply::VARIANT,
    reduction::reduce::VARIANT,
    reduction::reduce_group::VARIANT,
    elementwise::resample::VARIANT,
    reduction::rows::VARIANT,
    reduction::rows_group::VARIANT,
    reduction::rows_held::VARIANT,
    reduction::scan::VARIANT,
    reduction::top_k::VARIANT,
    elementwise::unpool::VARIANT,
    reduction::window::VARIANT,
    reduction::window_group::VARIANT,
];

/// The variants with a precondition.
static NEEDS: &[(Variant, Needs)] = &[
    (convolution::contract_bytes::VARIANT, Needs::Bytes),
    (convolution::contract_depthwise_bytes::VARIANT, Needs::Bytes),
    (convolution::contract_held_bytes::VARIANT, Needs::Bytes),
    (convolution::contract_held_matrix::VARIANT, Needs::Matrices),
    (convolution::contract_matrix::VARIANT, Needs::Matrices),
    (convolution::contract_winograd::VARIANT, Needs::Binary32),
];

/// The name and precondition of every variant.
pub fn variants() -> impl Iterator<Item = (&'static str, Needs)> {
    let needs = |name| NEEDS.iter().find(|(variant, _)| variant.name == name).map_or(Needs::Nothing, |need| need.1);
    TABLE.iter().map(move |variant| (variant.name, needs(variant.name)))
}

/// Generates the shaders of a kernel with the cheapest variant that applies, or with the variant that `limits` names if
/// that applies. The storage of the values that the kernel reads must be settled in `storages`.
///
/// # Panics
///
/// Panics if the program was not checked, for example if an extent does not fit 32 bits.
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
