//! Variant `scan`: prefix sums along an axis, with one invocation per line of elements along the axis.

use attache_gpu_ir::Primitive;

use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::{computed_type, store_anywhere};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "scan",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Scan { .. }),
    priority: |_, _| 2,
    write,
};

/// Returns WGSL that defines `base`, the first element of line `g`, and WGSL of the two parts of a step along the line:
/// the definition of `value`, the element at `step`, and the statement that adds it to `sum` and stores the sum.
pub(super) fn stepping(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    array: &Array,
) -> (String, (String, &'static str)) {
    let Primitive::Scan { axis, exclusive, reverse } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let extent = writer.param(shape[axis]);
    let inner = writer.param(shape[axis + 1..].iter().product());
    let at = if reverse { format!("({extent} - 1u - step)") } else { "step".to_owned() };
    let stored = if exclusive { "store(at, sum); sum += value;" } else { "sum += value; store(at, sum);" };
    let start = format!("    let base = g / {inner} * {extent} * {inner} + g % {inner};\n");
    let value = format!("        let at = base + {at} * {inner};\n        let value = {};\n", array.elements("at"));
    (start, (value, stored))
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Scan { axis, .. } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], 1);
    store_anywhere(&mut writer, context, kernel, 1);
    let (start, (value, step)) = stepping(&mut writer, context, kernel, &array);
    let (extent, computed_type) = (writer.param(shape[axis]), computed_type(context.program, kernel));
    let body = format!(
        "{start}    var sum = {computed_type}(0);
    for (var step = 0u; step < {extent}; step++) {{
{value}        {step}
    }}\n"
    );
    vec![writer.linear(shape.elements() / shape[axis].max(1), &body)]
}
