//! Variant `update`: a block replaces elements of the operand, with one invocation per element of the output, which loads
//! either one. What maps compute, or concatenations of them, is computed where it is loaded. Where the operand is an input
//! that shares the memory of the output, one invocation per element of the block stores it ([`write_in_place`]), or the
//! product that reads the output ([`updated`]).

use std::fmt::Write;

use attache_base::{Shape, strides};
use attache_gpu_ir::Primitive;

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::computed::{elements, elements_of};
use crate::wgsl::epilogue::{store, store_anywhere};
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "update",
    computes: Computes::Maps,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Update),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let [operand, block, starts] = [0, 1, 2].map(|input| kernel.inputs[input]);
    let [all, part] = [operand, block].map(|id| context.program.shape(id));
    let vector_width = width(context, kernel, [all, part]);
    let mut writer = Writer::new(VARIANT.name, context);
    let [operand, block] = [operand, block].map(|id| elements(&mut writer, context, id, vector_width));
    let starts = elements(&mut writer, context, starts, 1);
    store(&mut writer, context, kernel, vector_width);
    let mut body = place(&mut writer, |axis| starts.integers(&format!("{axis}u")), ([all, part], vector_width));
    let [replaced, kept] = [block.elements("at"), operand.elements("g")];
    let _ = writeln!(body, "    if (inside) {{ store(g, {replaced}); }} else {{ store(g, {kept}); }}");
    vec![writer.linear(all.elements() / vector_width, &body)]
}

/// Returns WGSL that defines, for unit `g` of the output, whether it is `inside` of the block, and its place `at` there.
/// `start` returns WGSL of where the block starts along an axis. The extents are those of the output and of the block.
fn place(
    writer: &mut Writer<'_>,
    start: impl Fn(usize) -> String,
    ([all, part], vector_width): ([&Shape; 2], usize),
) -> String {
    let innermost = all.rank().saturating_sub(1);
    let units = |axis: usize, number: usize| if axis == innermost { number / vector_width } else { number };
    let extents: Vec<String> =
        all.iter().enumerate().map(|(axis, extent)| writer.param(units(axis, *extent))).collect();
    let mut text = coordinates(&extents) + "    var at = 0;\n    var inside = true;\n";
    for (axis, stride) in strides(part).into_iter().enumerate() {
        let stride = writer.param(if axis == innermost { stride } else { stride / vector_width });
        // The first axis is never left out, since a shader has to use all that it binds.
        if axis > 0 && all[axis] == part[axis] {
            let _ = writeln!(text, "    at += o{axis} * i32({stride});");
            continue;
        }
        let [part, most] = [part[axis], all[axis] - part[axis]].map(|extent| writer.param(extent));
        let _ = writeln!(text, "    let c{axis} = o{axis} - clamp({}, 0, i32({most}));", start(axis));
        let _ = writeln!(text, "    inside = inside && c{axis} >= 0 && c{axis} < i32({part});");
        let _ = writeln!(text, "    at += c{axis} * i32({stride});");
    }
    text
}

/// The memory of an output that is updated where it is loaded.
pub(in crate::variants) struct Updated {
    pub(in crate::variants) array: Array,
    /// WGSL that defines `starts`, the last argument of `updated`.
    pub(in crate::variants) starts: String,
}

/// Adds the WGSL function `updated(g, kept, owns, starts)`, which returns unit `g` of `vector_width` floats of the output, in
/// whose memory all elements of the operand are before: `kept`, which the caller has loaded from there, unless the unit is
/// of the block. The caller that `owns` such a unit stores it; what others have loaded of it meanwhile is not used. `None` if units of the block are not as wide.
pub(in crate::variants) fn updated(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    vector_width: usize,
) -> Option<Updated> {
    let [operand, block, starts] = [0, 1, 2].map(|input| kernel.inputs[input]);
    let shapes = [operand, block].map(|id| context.program.shape(id));
    if vector_width > width(context, kernel, shapes) || shapes[0].rank() == 0 {
        return None;
    }
    let block = elements_of(writer, context, (&kernel.maps, "new"), block, vector_width);
    let starts = elements_of(writer, context, (&kernel.maps, "new"), starts, 1);
    let made = writer.write(kernel.outputs[0], vector_width);
    let of = vector("f32", vector_width);
    let rank = shapes[0].rank();
    let place = place(writer, |axis| format!("starts[{axis}]"), (shapes, vector_width));
    writer.function(&format!(
        "fn updated(g: u32, kept: {of}, owns: bool, starts: array<i32, {rank}>) -> {of} {{
{place}    if (!inside) {{ return kept; }}
    let value = {};
    if (owns) {{ {} }}
    return value;
}}\n",
        block.floats("at"),
        made.write("g", "value")
    ));
    let each: Vec<String> = (0..rank).map(|axis| starts.integers(&format!("{axis}u"))).collect();
    Some(Updated { array: made, starts: format!("    let starts = array<i32, {rank}>({});\n", each.join(", ")) })
}

/// Generates the shader that replaces the elements in the memory of the output, which has all elements of the operand
/// before.
pub(in crate::variants) fn write_in_place(context: &Context<'_>, kernel: &Kernel) -> Shader {
    let [operand, block, starts] = [0, 1, 2].map(|input| kernel.inputs[input]);
    let [all, part] = [operand, block].map(|id| context.program.shape(id));
    let vector_width = width(context, kernel, [all, part]);
    let mut writer = Writer::new(VARIANT.name, context);
    let block = elements(&mut writer, context, block, vector_width);
    let starts = elements(&mut writer, context, starts, 1);
    store_anywhere(&mut writer, context, kernel, vector_width);
    let innermost = all.rank().saturating_sub(1);
    let units = |axis: usize, number: usize| if axis == innermost { number / vector_width } else { number };
    let extents: Vec<String> =
        part.iter().enumerate().map(|(axis, extent)| writer.param(units(axis, *extent))).collect();
    let mut body = coordinates(&extents) + "    var at = 0;\n";
    for (axis, stride) in strides(all).into_iter().enumerate() {
        let stride = writer.param(if axis == innermost { stride } else { stride / vector_width });
        // The first axis is never left out, since a shader has to use all that it binds.
        let first = match axis > 0 && all[axis] == part[axis] {
            true => String::new(),
            false => {
                let most = writer.param(all[axis] - part[axis]);
                format!(" + clamp({}, 0, i32({most}))", starts.integers(&format!("{axis}u")))
            }
        };
        let _ = writeln!(body, "    at += (o{axis}{first}) * i32({stride});");
    }
    let _ = writeln!(body, "    store(u32(at), {});", block.elements("g"));
    writer.linear(part.elements() / vector_width, &body)
}

/// Returns the number of elements that an invocation stores. The extents are those of the operand and of the block.
fn width(context: &Context<'_>, kernel: &Kernel, [all, part]: [&Shape; 2]) -> usize {
    let is_whole = all.last() == part.last() && all.last().is_some_and(|extent| extent.is_multiple_of(4));
    if is_whole { vector_width(context.program, kernel) } else { 1 }
}
