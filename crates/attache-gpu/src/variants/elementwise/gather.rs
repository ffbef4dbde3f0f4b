//! Variant `gather`: gathers slices of the data by index. Each index is clamped to the extent of its axis.

use attache_gpu_ir::Primitive;

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "gather",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Gather(_)),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Gather(gather) = &kernel.primitive else { unreachable!("applies") };
    let data = context.program.value(kernel.inputs[0]);
    let indices = context.program.shape(kernel.inputs[1]);
    let indexed = indices[indices.rank() - 1];
    let inner: usize = data.shape[gather.axis + indexed..].iter().product();
    let vector_width = if inner.is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], vector_width);
    let index_array = writer.read(kernel.inputs[1], 1);
    store(&mut writer, context, kernel, vector_width);
    let each = writer.param(inner / vector_width);
    let listed = writer.param(indices[gather.batch..indices.rank() - 1].iter().product());
    let kept = writer.param(data.shape[gather.batch..gather.axis].iter().product());
    let mut body = format!(
        "    let slice = g / {each};
    let j = slice % {listed};
    let outer = slice / {listed};
    let first = (outer / {kept} * {listed} + j) * {indexed}u;
    var at = outer;\n"
    );
    for component in 0..indexed {
        let extent = writer.param(data.shape[gather.axis + component]);
        let index = index_array.integers(&format!("first + {component}u"));
        body += &format!("    at = at * {extent} + u32(clamp({index}, 0, i32({extent}) - 1));\n");
    }
    body += &format!("    store(g, {});\n", array.elements(&format!("at * {each} + g % {each}")));
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements() / vector_width, &body)]
}
