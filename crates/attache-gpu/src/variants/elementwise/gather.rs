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
    let inner = slice(context, kernel);
    let vector_width = if inner.is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], vector_width);
    let (mut body, each) = positions(&mut writer, context, kernel, vector_width);
    store(&mut writer, context, kernel, vector_width);
    body += &format!("    store(g, {});\n", array.elements(&format!("at * {each} + g % {each}")));
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements() / vector_width, &body)]
}

/// Returns the number of elements of a slice that a kernel gathers.
pub(super) fn slice(context: &Context<'_>, kernel: &Kernel) -> usize {
    let Primitive::Gather(gather) = &kernel.primitive else { unreachable!("applies") };
    let [data, indices] = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    data[gather.axis + indices[indices.rank() - 1]..].iter().product()
}

/// Returns WGSL that sets `at` to the number of the slice of the data that unit `g` belongs to, and WGSL of the number of units
/// of a slice, which have `vector_width` elements.
pub(super) fn positions(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    vector_width: usize,
) -> (String, String) {
    let Primitive::Gather(gather) = &kernel.primitive else { unreachable!("applies") };
    let [data, indices] = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    let indexed = indices[indices.rank() - 1];
    let index_array = writer.read(kernel.inputs[1], 1);
    let each = writer.param(slice(context, kernel) / vector_width);
    let listed = writer.param(indices[gather.batch..indices.rank() - 1].iter().product());
    let kept = writer.param(data[gather.batch..gather.axis].iter().product());
    let mut body = format!(
        "    let slice = g / {each};
    let j = slice % {listed};
    let outer = slice / {listed};
    let row = (outer / {kept} * {listed} + j) * {indexed}u;
    var at = outer;\n"
    );
    for component in 0..indexed {
        let extent = writer.param(data[gather.axis + component]);
        let index = index_array.integers(&format!("row + {component}u"));
        body += &format!("    at = at * {extent} + u32(clamp({index}, 0, i32({extent}) - 1));\n");
    }
    (body, each)
}
