//! Variant `update`: a block replaces elements of the operand, with one invocation per element of the output, which loads
//! either one. What maps compute, or concatenations of them, is computed where it is loaded. Where the operand is an input
//! that shares the memory of the output, one invocation per element of the block stores it ([`write_in_place`]).

use std::fmt::Write;

use attache_base::{Shape, strides};
use attache_gpu_ir::Primitive;

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::computed::elements;
use crate::wgsl::epilogue::{store, store_anywhere};
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
    let innermost = all.rank().saturating_sub(1);
    let units = |axis: usize, number: usize| if axis == innermost { number / vector_width } else { number };
    let extents: Vec<String> =
        all.iter().enumerate().map(|(axis, extent)| writer.param(units(axis, *extent))).collect();
    let mut body = coordinates(&extents) + "    var at = 0;\n    var inside = true;\n";
    for (axis, stride) in strides(part).into_iter().enumerate() {
        let stride = writer.param(if axis == innermost { stride } else { stride / vector_width });
        // The first axis is never left out, since a shader has to use all that it binds.
        if axis > 0 && all[axis] == part[axis] {
            let _ = writeln!(body, "    at += o{axis} * i32({stride});");
            continue;
        }
        let [part, most] = [part[axis], all[axis] - part[axis]].map(|extent| writer.param(extent));
        let start = starts.integers(&format!("{axis}u"));
        let _ = writeln!(body, "    let c{axis} = o{axis} - clamp({start}, 0, i32({most}));");
        let _ = writeln!(body, "    inside = inside && c{axis} >= 0 && c{axis} < i32({part});");
        let _ = writeln!(body, "    at += c{axis} * i32({stride});");
    }
    let [replaced, kept] = [block.elements("at"), operand.elements("g")];
    let _ = writeln!(body, "    if (inside) {{ store(g, {replaced}); }} else {{ store(g, {kept}); }}");
    vec![writer.linear(all.elements() / vector_width, &body)]
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
