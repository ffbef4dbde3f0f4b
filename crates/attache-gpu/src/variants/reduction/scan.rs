//! Variant `scan`: prefix sums along an axis, with one invocation per line of elements along the axis.

use attache_gpu_ir::Primitive;

use crate::kernel::Kernel;
use crate::variants::Variant;
use crate::wgsl::epilogue::{computed_type, store_anywhere};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "scan",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Scan { .. }),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Scan { axis, exclusive, reverse } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], 1);
    store_anywhere(&mut writer, context, kernel, 1);
    let extent = writer.param(shape[axis]);
    let inner = writer.param(shape[axis + 1..].iter().product());
    let at = if reverse { format!("({extent} - 1u - step)") } else { "step".to_owned() };
    let stored = if exclusive { "store(at, sum); sum += value;" } else { "sum += value; store(at, sum);" };
    let (value, computed_type) = (array.elements("at"), computed_type(context.program, kernel));
    let body = format!(
        "    let base = g / {inner} * {extent} * {inner} + g % {inner};
    var sum = {computed_type}(0);
    for (var step = 0u; step < {extent}; step++) {{
        let at = base + {at} * {inner};
        let value = {value};
        {stored}
    }}\n"
    );
    vec![writer.linear(shape.elements() / shape[axis].max(1), &body)]
}
