//! Variant `arg_reduce`: arg-max and arg-min, the index of the first largest or smallest element along an
//! axis, with one invocation per result.

use attache_gpu_ir::Primitive;

use crate::kernel::Kernel;
use crate::variants::Variant;
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "arg_reduce",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::ArgReduce { .. }),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::ArgReduce { largest, axis } = kernel.primitive else { unreachable!("applies") };
    let input = context.program.value(kernel.inputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], 1);
    store(&mut writer, context, kernel, 1);
    let extent = writer.param(input.shape[axis]);
    let inner = writer.param(input.shape[axis + 1..].iter().product());
    let (first, value) = (array.elements("base"), array.elements(&format!("base + at * {inner}")));
    let better = if largest { ">" } else { "<" };
    let body = format!(
        "    let base = g / {inner} * {extent} * {inner} + g % {inner};
    var best = {first};
    var best_at = 0;
    for (var at = 1u; at < {extent}; at++) {{
        let value = {value};
        if (value {better} best) {{ best = value; best_at = i32(at); }}
    }}
    store(g, best_at);\n"
    );
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements(), &body)]
}
