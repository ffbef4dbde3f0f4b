//! Variant `scan_group`: prefix sums along an axis with several invocations per line of elements. Each sums a chunk of
//! the line, then all chunks before its own, and then stores the sums of its chunk. Used for few lines that are long.

use attache_gpu_ir::Primitive;

use super::scan::stepping;
use crate::kernel::{Kernel, MAX_GROUPS};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::{computed_type, store_anywhere};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "scan_group", computes: Computes::Nothing, applies, priority, write };

/// Number of invocations of a work group, a power of two.
const GROUP: usize = 128;

/// Number of lines per work group if elements of different lines are adjacent in memory.
const ADJACENT: usize = 8;

/// Number of elements of a line above which several invocations sum it. The sums of shorter lines are added in the
/// input's order, like TensorFlow Lite's.
const FEW_ELEMENTS: usize = 256;

/// Number of lines above which one invocation for each keeps a device busy.
const MANY_LINES: usize = 8192;

/// Returns the number of lines and the number of elements of a line.
fn sizes(context: &Context<'_>, kernel: &Kernel) -> Option<[usize; 2]> {
    let Primitive::Scan { axis, .. } = kernel.primitive else { return None };
    let shape = context.program.shape(kernel.inputs[0]);
    Some([shape.elements() / shape[axis].max(1), shape[axis]])
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    sizes(context, kernel).is_some_and(|[lines, extent]| lines <= MAX_GROUPS && extent > 0)
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let is_long = |[lines, extent]: [usize; 2]| extent > FEW_ELEMENTS && lines <= MANY_LINES;
    if sizes(context, kernel).is_some_and(is_long) && context.limits.splits_k { 1 } else { 50 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Scan { axis, .. } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let inner: usize = shape[axis + 1..].iter().product();
    let [lines, extent] = sizes(context, kernel).expect("applies");
    let at_once = if inner >= ADJACENT { ADJACENT } else { 1 };
    let workers = GROUP / at_once;
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], 1);
    store_anywhere(&mut writer, context, kernel, 1);
    let (start, step) = stepping(&mut writer, context, kernel, &array);
    let [last, chunk, extent] = [lines - 1, extent.div_ceil(workers), extent].map(|number| writer.param(number));
    let computed_type = computed_type(context.program, kernel);
    let (value, step) = step;
    let body = format!(
        "    let worker = local.x / {at_once}u;
    let line = group.x * {at_once}u + local.x % {at_once}u;
    let g = min(line, {last});
{start}    let first = min(worker * {chunk}, {extent});
    let end = select(first, min(first + {chunk}, {extent}), line <= {last});
    var sum = {computed_type}(0);
    for (var step = first; step < end; step++) {{
{value}        sum += value;
    }}
    sums[local.x] = sum;
    for (var hop = 1u; hop < {workers}u; hop *= 2u) {{
        workgroupBarrier();
        var before = {computed_type}(0);
        if (worker >= hop) {{ before = sums[local.x - hop * {at_once}u]; }}
        workgroupBarrier();
        sums[local.x] += before;
    }}
    workgroupBarrier();
    sum = {computed_type}(0);
    if (worker > 0u) {{ sum = sums[local.x - {at_once}u]; }}
    for (var step = first; step < end; step++) {{
{value}        {step}
    }}\n"
    );
    let declarations = format!("var<workgroup> sums: array<{computed_type}, {GROUP}>;\n");
    vec![writer.finish([GROUP as u32, 1, 1], [lines.div_ceil(at_once) as u32, 1, 1], &declarations, &body)]
}
