//! Variant `top_k`: the largest elements of each row in descending order and their indices, with one
//! invocation per row. Each pass over the row finds the largest element that comes after the previous result
//! in that order.

use attache_gpu_ir::{Primitive, Scalar};

use crate::kernel::Kernel;
use crate::variants::Variant;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "top_k",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::TopK { .. }),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::TopK { count } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let extent = shape.last().copied().unwrap_or(1);
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], 1);
    let values = writer.write(kernel.outputs[0], 1);
    let indices = writer.write(kernel.outputs[1], 1);
    let (extent_text, count_text) = (writer.param(extent), writer.param(count));
    // The input may be integers that are read as floats.
    let (at, scalar) = (format!("g * {extent_text} + at"), context.program.value(kernel.outputs[0]).scalar);
    let (value, zero) = match scalar {
        Scalar::F32 => (array.floats(&at), "0.0"),
        Scalar::I32 => (array.integers(&at), "0"),
    };
    let to = format!("g * {count_text} + k");
    let put_value = values.write(&to, "best");
    let put_index = indices.write(&to, &format!("min(best_at, {extent_text} - 1u)"));
    let body = format!(
        "    var last = {zero};
    var last_at = 0u;
    for (var k = 0u; k < {count_text}; k++) {{
        var best = {zero};
        var best_at = {extent_text};
        for (var at = 0u; at < {extent_text}; at++) {{
            let value = {value};
            let follows = k == 0u || value < last || (value == last && at > last_at);
            if (follows && (best_at == {extent_text} || value > best)) {{ best = value; best_at = at; }}
        }}
        {put_value}
        {put_index}
        last = best;
        last_at = best_at;
    }}\n"
    );
    vec![writer.linear(shape.elements() / extent.max(1), &body)]
}
