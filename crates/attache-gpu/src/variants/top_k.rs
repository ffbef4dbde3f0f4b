//! The largest elements of each row in descending order: each is the largest after the one before it.

use attache_gpu_ir::Primitive;

use super::Variant;
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::{Binding, Shader, Writer};

pub(super) const VARIANT: Variant =
    Variant { name: "top_k", applies: |_, kernel| matches!(kernel.primitive, Primitive::TopK { .. }), cost: 1, write };

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::TopK { count } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let extent = shape.last().copied().unwrap_or(1);
    let stored = context.element(kernel.outputs[0]);
    let mut writer = Writer::new(VARIANT.name, context.limits);
    let array = writer.bind(Binding::Read(kernel.inputs[0]), context.element(kernel.inputs[0]), 1);
    let values = writer.bind(Binding::Write(kernel.outputs[0]), stored, 1);
    let places = writer.bind(Binding::Write(kernel.outputs[1]), "i32", 1);
    let (extent_text, count_text) = (writer.param(extent), writer.param(count));
    let body = format!(
        "    var last = 0.0;
    var last_at = 0u;
    for (var k = 0u; k < {count_text}; k++) {{
        var best = 0.0;
        var best_at = {extent_text};
        for (var at = 0u; at < {extent_text}; at++) {{
            let value = f32({array}[g * {extent_text} + at]);
            let follows = k == 0u || value < last || (value == last && at > last_at);
            if (follows && (best_at == {extent_text} || value > best)) {{ best = value; best_at = at; }}
        }}
        {values}[g * {count_text} + k] = {stored}(best);
        {places}[g * {count_text} + k] = i32(min(best_at, {extent_text} - 1u));
        last = best;
        last_at = best_at;
    }}\n"
    );
    vec![writer.linear(shape.elements() / extent.max(1), &body)]
}
