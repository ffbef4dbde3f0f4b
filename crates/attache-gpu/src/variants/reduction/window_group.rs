//! Variant `window_group`: pooling over large windows, such as the mean of a whole image. A work group
//! computes several vectors of channels of one output pixel.

use attache_gpu_ir::{Primitive, WindowKind};

use crate::kernel::{Kernel, MAX_GROUPS, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "window_group", computes: Computes::Nothing, applies, priority, write };

/// Number of elements of a window above which a work group reduces it.
const MANY_ELEMENTS: usize = 48;

/// Maximum number of output elements for which this variant is preferred.
const MANY_RESULTS: usize = 16384;

/// Number of vectors of output channels per work group.
const UNITS: usize = 8;
/// Number of invocations that jointly reduce one vector of output channels, a power of two.
const WORKERS: usize = 32;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Window(window) = &kernel.primitive else { return false };
    let positions = window.output[0] * window.output[1] * context.program.shape(kernel.inputs[0])[0];
    let channels = context.program.shape(kernel.inputs[0])[3];
    let has_elements = context.program.shape(kernel.outputs[0]).elements() > 0;
    matches!(window.kind, WindowKind::Average | WindowKind::Maximum)
        && has_elements
        && UNITS * WORKERS <= context.limits.max_invocations
        && positions <= MAX_GROUPS
        && channels.div_ceil(UNITS) <= MAX_GROUPS
}

/// Returns 0 if few results cover many elements each, else 70.
fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Window(window) = &kernel.primitive else { unreachable!("applies") };
    let is_large = window.size[0] * window.size[1] > MANY_ELEMENTS;
    if is_large && context.program.shape(kernel.outputs[0]).elements() <= MANY_RESULTS { 0 } else { 70 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Window(window) = &kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let vector_width = if shape[3].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let float = vector("f32", vector_width);
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], vector_width);
    store_anywhere(&mut writer, context, kernel, vector_width);
    let (fold, start, result) = match window.kind {
        WindowKind::Average => ("folded + value", "0.0".to_owned(), "memory[local.x] / f32(count)"),
        _ => ("max(folded, value)", writer.float_param(f32::NEG_INFINITY), "memory[local.x]"),
    };
    let units = shape[3] / vector_width;
    let [wide, height, width] = [units, shape[1], shape[2]].map(|extent| writer.param(extent));
    let [out_height, out_width] = window.output.map(|extent| writer.param(extent));
    let [rows, columns] = window.size.map(|extent| writer.param(extent));
    let [sy, sx] = window.strides.map(|stride| writer.param(stride));
    let [by, bx] = window.before.map(|before| writer.param(before));
    let value = array.floats(&format!("((b * {height} + y) * {width} + x) * {wide} + min(unit, {wide} - 1u)"));
    let body = format!(
        "    let unit = group.x * {UNITS}u + local.x % {UNITS}u;
    let worker = local.x / {UNITS}u;
    let b = group.y / {out_width} / {out_height};
    let top = i32(group.y / {out_width} % {out_height} * {sy}) - i32({by});
    let left = i32(group.y % {out_width} * {sx}) - i32({bx});
    let y0 = u32(clamp(top, 0, i32({height})));
    let x0 = u32(clamp(left, 0, i32({width})));
    let y1 = u32(clamp(top + i32({rows}), 0, i32({height})));
    let x1 = u32(clamp(left + i32({columns}), 0, i32({width})));
    let across = max(x1 - x0, 1u);
    let count = (y1 - y0) * (x1 - x0);
    var folded = {float}({start});
    for (var element = worker; element < count; element += {WORKERS}u) {{
        let y = y0 + element / across;
        let x = x0 + element % across;
        let value = {value};
        folded = {fold};
    }}
    memory[local.x] = folded;
    for (var half = {half}u; half > 0u; half = half / 2u) {{
        workgroupBarrier();
        if (worker < half) {{
            let value = memory[local.x + half * {UNITS}u];
            folded = {fold};
            memory[local.x] = folded;
        }}
    }}
    if (worker == 0u && unit < {wide}) {{ store(group.y * {wide} + unit, {result}); }}\n",
        half = WORKERS / 2
    );
    let positions = shape[0] * window.output[0] * window.output[1];
    let declarations = format!("var<workgroup> memory: array<{float}, {}>;\n", UNITS * WORKERS);
    let groups = [units.div_ceil(UNITS), positions, 1].map(|count| count as u32);
    vec![writer.finish([(UNITS * WORKERS) as u32, 1, 1], groups, &declarations, &body)]
}
