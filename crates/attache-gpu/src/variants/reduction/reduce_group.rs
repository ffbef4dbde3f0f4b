//! Variant `reduce_group`: a reduction along axes with one work group per result. Used for few results of
//! many elements.

use attache_gpu_ir::Primitive;

use super::reduce::{base, folding, mean_factor, walk};
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::{computed_type, store_anywhere};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "reduce_group", computes: Computes::Nothing, applies, priority, write };

/// Number of invocations of a work group, a power of two.
const GROUP: u32 = 128;

/// Maximum number of results for which one work group per result is faster than one invocation per result.
pub(super) const MANY_RESULTS: usize = 16384;

/// Number of elements per result above which a work group reduces them. Up to this number one invocation adds
/// them in order, like TensorFlow Lite's reference kernels, so that a sum whose terms nearly cancel has the
/// same rounding errors as there.
pub(super) const MANY_ELEMENTS: usize = 8192;

/// Returns the number of results, and the number of elements that are reduced to each.
fn sizes(context: &Context<'_>, kernel: &Kernel) -> [usize; 2] {
    let results = context.program.shape(kernel.outputs[0]).elements();
    let elements = kernel.inputs.first().map_or(0, |id| context.program.shape(*id).elements());
    [results, elements / results.max(1)]
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let [results, elements] = sizes(context, kernel);
    matches!(kernel.primitive, Primitive::Reduce { .. }) && (1..=MANY_RESULTS).contains(&results) && elements > 0
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    if sizes(context, kernel)[1] > MANY_ELEMENTS { 1 } else { 50 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Reduce { reduction, axes } = &kernel.primitive else { unreachable!("applies") };
    let input = context.program.value(kernel.inputs[0]);
    let shape = &input.shape;
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], 1);
    store_anywhere(&mut writer, context, kernel, 1);
    let base = base(&mut writer, shape, axes, 1);
    let (count, walk) = walk(&mut writer, shape, axes, 1);
    let computed_type = computed_type(context.program, kernel);
    let (fold, start) = folding(&mut writer, computed_type, *reduction);
    let (mean_factor, count) = (mean_factor(&mut writer, computed_type, *reduction, count), writer.param(count));
    let element = if computed_type == "i32" { array.integers("at") } else { array.floats("at") };
    let body = format!(
        "    let g = group.x;
{base}    var folded = {computed_type}({start});
    for (var r = local.x; r < {count}; r += {GROUP}u) {{
        var at = base;
{walk}        let value = {element};
        {fold}
    }}
    shared_folded[local.x] = folded;
    for (var half = {half}u; half > 0u; half = half / 2u) {{
        workgroupBarrier();
        if (local.x < half) {{
            let value = shared_folded[local.x + half];
            {fold}
            shared_folded[local.x] = folded;
        }}
    }}
    if (local.x == 0u) {{ store(g, folded{mean_factor}); }}\n",
        half = GROUP / 2
    );
    let results = context.program.shape(kernel.outputs[0]).elements() as u32;
    let declarations = format!("var<workgroup> shared_folded: array<{computed_type}, {GROUP}>;\n");
    vec![writer.finish([GROUP, 1, 1], [results, 1, 1], &declarations, &body)]
}
