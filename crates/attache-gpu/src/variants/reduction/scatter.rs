//! Variant `scatter`: rows of updates combined with those of an operand, with one invocation per element of the output. A
//! binary search finds the first of the ascending places that is that of the element's row; the invocation combines the
//! updates from there on in their order, so that nothing is written by two invocations and sums do not depend on a
//! schedule.

use attache_base::Shape;
use attache_gpu_ir::{Primitive, ReduceOp};

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::{computed_type, operand, store};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "scatter",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Scatter { .. }),
    priority: |_, _| 1,
    write,
};

/// Returns WGSL of `value` combined with `folded`. Of two floats, the larger or smaller one is found by a comparison,
/// since `max` and `min` of NaN differ among devices.
fn combined(combination: Option<ReduceOp>) -> &'static str {
    match combination {
        None => "value",
        Some(ReduceOp::Sum | ReduceOp::Mean) => "folded + value",
        Some(ReduceOp::Product) => "folded * value",
        Some(ReduceOp::Maximum) => "select(folded, value, folded < value)",
        Some(ReduceOp::Minimum) => "select(folded, value, value < folded)",
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Scatter { combination, rows } = kernel.primitive else { unreachable!("applies") };
    let [start, places, updates] = [0, 1, 2].map(|input| kernel.inputs[input]);
    let &[count, width] = context.program.shape(updates).extents() else { unreachable!("updates are rows") };
    let vector_width = if width.is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let element = computed_type(context.program, kernel);
    let output = Shape::from([rows, width]);
    operand(&mut writer, "start", (start, context.program.value(start)), &output, (element, vector_width));
    let place = writer.read(places, 1).integers("row");
    let array = writer.read(updates, vector_width);
    store(&mut writer, context, kernel, vector_width);
    let [count, each] = [count, width / vector_width].map(|extent| writer.param(extent));
    writer.function(&format!("fn place_of(row: u32) -> i32 {{\n    return {place};\n}}\n"));
    let body = format!(
        "    let own = i32(g / {each});
    var first = 0u;
    var behind = {count};
    while (first < behind) {{
        let middle = (first + behind) / 2u;
        if (place_of(middle) < own) {{ first = middle + 1u; }} else {{ behind = middle; }}
    }}
    var folded = start(g);
    for (var row = first; row < {count}; row++) {{
        if (place_of(row) != own) {{ break; }}
        let value = {value};
        folded = {combined};
    }}
    store(g, folded);\n",
        value = array.elements(&format!("row * {each} + g % {each}")),
        combined = combined(combination),
    );
    vec![writer.linear(output.elements() / vector_width, &body)]
}
