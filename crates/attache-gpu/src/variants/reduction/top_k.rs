//! Variant `top_k`: the largest elements of each row in descending order and their indices, with one invocation per
//! element. It counts the elements of the row that come before its own, which are its place in the output.

use attache_gpu_ir::{Primitive, Scalar};

use super::ordering::key;
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "top_k",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::TopK { .. }),
    priority: |_, _| 2,
    write,
};

/// Binds the input and the outputs. Returns WGSL of the key of the row's element `at`, which is larger for larger
/// elements, and the statements that write the row's element `at` and its index to `place` of the outputs. The row is
/// `row`, and `extent` and `count` are WGSL of the extents of input and outputs.
pub(super) fn access(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    [extent, count]: [&str; 2],
) -> [String; 2] {
    // The input may be integers that are read as floats.
    let are_integers = context.program.value(kernel.outputs[0]).scalar == Scalar::I32;
    let array = writer.read(kernel.inputs[0], 1);
    let [values, indices] = [0, 1].map(|output| writer.write(kernel.outputs[output], 1));
    let from = format!("row * {extent} + at");
    let value = if are_integers { array.integers(&from) } else { array.floats(&from) };
    let to = format!("row * {count} + place");
    let key = key(writer, &array, are_integers, &from);
    [key, format!("{}\n        {}", values.write(&to, &value), indices.write(&to, "at"))]
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::TopK { count } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let [extent, count] = [shape.last().copied().unwrap_or(1), count].map(|number| writer.param(number));
    let [key, put] = access(&mut writer, context, kernel, [&extent, &count]);
    writer.function(&format!("fn key(row: u32, at: u32) -> i32 {{\n    return {key};\n}}\n"));
    let body = format!(
        "    let row = g / {extent};
    let at = g % {extent};
    let own = key(row, at);
    var place = 0u;
    for (var other = 0u; other < {extent}; other++) {{
        let others = key(row, other);
        place += select(0u, 1u, others > own || (others == own && other < at));
    }}
    if (place < {count}) {{
        {put}
    }}\n"
    );
    vec![writer.linear(shape.elements(), &body)]
}
