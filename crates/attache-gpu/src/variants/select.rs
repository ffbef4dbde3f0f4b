//! The table of variants, and the choice among those that apply to a kernel.

use attache_gpu_ir::{Program, ValueId};

use super::{Computes, GeneratedKernel, Variant, VariantRequirement, convolution, elementwise, reduction};
use crate::kernel::{DeviceLimits, Kernel, StorageFormats, VariantChoice, View};
use crate::wgsl::{Binding, Context, Shader};

impl VariantChoice {
    /// Returns the choice of the variant named `text`; `None` if no variant has that name.
    pub fn named(text: &str) -> Option<Self> {
        variants().map(|(name, _)| name).find(|name| *name == text).map(VariantChoice::Named)
    }
}

/// All variants, sorted by file name.
static TABLE: &[Variant] = &[
    reduction::arg_reduce::VARIANT,
    reduction::arg_reduce_group::VARIANT,
    elementwise::concatenate::VARIANT,
    convolution::conv::VARIANT,
    convolution::conv_blocked::VARIANT,
    convolution::conv_bytes::VARIANT,
    convolution::conv_dense::VARIANT,
    convolution::conv_depthwise::VARIANT,
    convolution::conv_depthwise_bytes::VARIANT,
    convolution::conv_direct::VARIANT,
    convolution::conv_matrix::VARIANT,
    convolution::conv_staged::VARIANT,
    convolution::conv_staged_bytes::VARIANT,
    convolution::conv_staged_matrix::VARIANT,
    convolution::conv_vector::VARIANT,
    convolution::conv_winograd::VARIANT,
    elementwise::gather::VARIANT,
    elementwise::gather_integers::VARIANT,
    elementwise::index_map::VARIANT,
    elementwise::map::VARIANT,
    convolution::matmul::VARIANT,
    convolution::matmul_group::VARIANT,
    convolution::matmul_matrix::VARIANT,
    convolution::matmul_tiled::VARIANT,
    reduction::reduce::VARIANT,
    reduction::reduce_group::VARIANT,
    elementwise::resample::VARIANT,
    reduction::rows::VARIANT,
    reduction::rows_group::VARIANT,
    reduction::rows_staged::VARIANT,
    reduction::rows_vectors::VARIANT,
    reduction::scan::VARIANT,
    reduction::scan_group::VARIANT,
    reduction::scatter::VARIANT,
    reduction::suppress::VARIANT,
    reduction::top_k::VARIANT,
    reduction::top_k_group::VARIANT,
    elementwise::unpool::VARIANT,
    elementwise::update::VARIANT,
    reduction::window::VARIANT,
    reduction::window_group::VARIANT,
];

/// The variants that cannot be used on some devices or in some precisions, with what each requires. Only
/// [`variants`] reads this table, to report the requirements; the choice of a variant depends on
/// [`Variant::applies`] and [`Variant::computes`].
static NEEDS: &[(Variant, VariantRequirement)] = &[
    (convolution::conv_bytes::VARIANT, VariantRequirement::Bytes),
    (convolution::conv_depthwise_bytes::VARIANT, VariantRequirement::Bytes),
    (convolution::conv_matrix::VARIANT, VariantRequirement::Matrices),
    (convolution::conv_staged_bytes::VARIANT, VariantRequirement::Bytes),
    (convolution::conv_staged_matrix::VARIANT, VariantRequirement::Matrices),
    (convolution::conv_winograd::VARIANT, VariantRequirement::F32Storage),
    (convolution::matmul_matrix::VARIANT, VariantRequirement::Matrices),
];

/// Returns the name of every variant and what it requires of the device and configuration.
pub fn variants() -> impl Iterator<Item = (&'static str, VariantRequirement)> {
    let needs = |name| {
        NEEDS.iter().find(|(variant, _)| variant.name == name).map_or(VariantRequirement::Nothing, |need| need.1)
    };
    TABLE.iter().map(move |variant| (variant.name, needs(variant.name)))
}

/// Generates the shaders of a kernel with the applicable variant that has the lowest priority number, or with
/// the variant that `limits` names if that one applies. `storages` must already contain the storage format of
/// every value that the kernel reads.
///
/// # Panics
///
/// Panics if the program was not checked, for example if an extent does not fit 32 bits.
pub fn write(program: &Program, kernel: &Kernel, storages: &StorageFormats, limits: &DeviceLimits) -> GeneratedKernel {
    let maps = kernel.prologue.as_ref().map_or(&kernel.maps, |first| &first.maps);
    let context = Context { program, storages, limits, views: &kernel.views, maps };
    let computed = Computes::of(kernel);
    let computes = |variant: &Variant| computed == Computes::Nothing || variant.computes == computed;
    let applies = |variant: &&Variant| computes(variant) && (variant.applies)(&context, kernel);
    let applying: Vec<&Variant> = TABLE.iter().filter(applies).collect();
    let rank = |variant: &&&Variant| {
        (VariantChoice::Named(variant.name) != limits.variants, (variant.priority)(&context, kernel))
    };
    let variant = applying.iter().min_by_key(rank).expect("every primitive has a variant without conditions");
    tracing::trace!(variant = variant.name, primitive = kernel.primitive.name(), "chosen");
    let others = applying.iter().map(|other| other.name).filter(|name| *name != variant.name);
    GeneratedKernel { shaders: (variant.write)(&context, kernel), alternatives: others.collect() }
}

/// Generates the shader of an update for runs in which the operand and the output are the same memory: it stores the block
/// alone. The arguments are those of [`write()`].
pub(crate) fn write_in_place(
    program: &Program,
    kernel: &Kernel,
    storages: &StorageFormats,
    limits: &DeviceLimits,
) -> Shader {
    let context = Context { program, storages, limits, views: &kernel.views, maps: &kernel.maps };
    elementwise::update::write_in_place(&context, kernel)
}

/// Generates the shader of a product that also does the update which makes its right matrix, like [`write_in_place`];
/// `None` if it does not do both, or binds more than the limits allow. `planned` is the shader of the product alone.
pub(crate) fn write_updating(
    program: &Program,
    ([update, product], planned): ([&Kernel; 2], &Shader),
    storages: &StorageFormats,
    limits: &DeviceLimits,
) -> Option<Shader> {
    // What the update views, the product must not read as it is stored.
    let is_seen = |view: &View| product.views.contains(view) || !reads(product).any(|id| id == view.value);
    if planned.variant != convolution::matmul_group::VARIANT.name || !update.views.iter().all(is_seen) {
        return None;
    }
    let views: Vec<View> = product.views.iter().chain(&update.views).cloned().collect();
    let maps = product.prologue.as_ref().map_or(&product.maps, |first| &first.maps);
    let context = Context { program, storages, limits, views: &views, maps };
    let shader = convolution::matmul_group::write_updating(&context, product, update)?;
    let is_value = |binding: &Binding| matches!(binding, Binding::Read(_) | Binding::Write(..));
    let fits = shader.bindings.len() <= limits.max_bindings && shader.bindings.iter().all(is_value);
    fits.then_some(shader)
}

/// Returns the values that a kernel and those within it take, stored or viewed.
fn reads(kernel: &Kernel) -> Box<dyn Iterator<Item = ValueId> + '_> {
    let own = kernel.inputs.iter().chain(&kernel.operands).copied();
    Box::new(own.chain(kernel.within().flat_map(reads)))
}
