//! A reduction with one invocation per result, which adds the elements in order.

use attache_base::{Shape, strides};
use attache_gpu_ir::{Primitive, Reduction};

use crate::kernel::{Kernel, lanes};
use crate::variants::Variant;
use crate::wgsl::epilogue::{carried, store};
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "reduce",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Reduce { .. }),
    cost: |_, _| 2,
    write,
};

/// WGSL that folds `value` into `folded`, and the initial value.
pub(super) fn folding(writer: &mut Writer<'_>, reduction: Reduction) -> (&'static str, String) {
    match reduction {
        Reduction::Sum | Reduction::Mean => ("folded = folded + value;", "0".to_owned()),
        Reduction::Maximum => ("folded = max(folded, value);", writer.float_param(f32::NEG_INFINITY)),
        Reduction::Minimum => ("folded = min(folded, value);", writer.float_param(f32::INFINITY)),
        Reduction::Product => ("folded = folded * value;", "1.0".to_owned()),
    }
}

/// WGSL of the final scaling of floats: by 1 / `count` for a mean, else by 1. Empty for integers.
pub(super) fn share(writer: &mut Writer<'_>, carried: &str, reduction: Reduction, count: usize) -> String {
    let share = if reduction == Reduction::Mean { 1.0 / count as f32 } else { 1.0 };
    if carried == "i32" { String::new() } else { format!(" * {}", writer.float_param(share)) }
}

/// The number of elements that are folded into one result, and WGSL that adds the offset of element `r` of them to
/// `at`.
pub(super) fn walk(writer: &mut Writer<'_>, shape: &Shape, axes: &[usize], lanes: usize) -> (usize, String) {
    let strides = strides(shape);
    let folded: Vec<(usize, usize)> = axes.iter().map(|axis| (shape[*axis], strides[*axis] / lanes)).collect();
    let mut text = "        var left = r;\n".to_owned();
    for (extent, stride) in folded.iter().rev() {
        let (extent, stride) = (writer.param(*extent), writer.param(*stride));
        text += &format!("        at += (left % {extent}) * {stride};\n        left = left / {extent};\n");
    }
    (folded.iter().map(|(extent, _)| extent).product(), text)
}

/// WGSL that defines `base`, the index of the first element that is folded into result `g`.
pub(super) fn base(writer: &mut Writer<'_>, shape: &Shape, axes: &[usize], lanes: usize) -> String {
    let rank = shape.rank();
    let kept = |axis: usize| if axes.contains(&axis) { 1 } else { shape[axis] };
    let unit = |axis: usize, number: usize| if axis + 1 == rank { number / lanes } else { number };
    let extents: Vec<String> = (0..rank).map(|axis| writer.param(unit(axis, kept(axis)).max(1))).collect();
    let mut text = coordinates(&extents);
    text += "    var base = 0u;\n";
    for (axis, stride) in strides(shape).iter().enumerate() {
        let stride = writer.param(if axis + 1 == rank { *stride } else { stride / lanes });
        text += &format!("    base += u32(o{axis}) * {stride};\n");
    }
    text
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Reduce { reduction, axes } = &kernel.primitive else { unreachable!("applies") };
    let input = context.program.value(kernel.inputs[0]);
    let shape = &input.shape;
    let inner_kept =
        shape.rank() > 0 && !axes.contains(&(shape.rank() - 1)) && shape[shape.rank() - 1].is_multiple_of(4);
    let lanes = if inner_kept { lanes(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], lanes);
    store(&mut writer, context, kernel, lanes);
    let carried = carried(context.program, kernel);
    let number = vector(carried, lanes);
    let (fold, start) = folding(&mut writer, *reduction);
    let element = if carried == "i32" { array.integers("at") } else { array.reals("at") };
    let mut body = base(&mut writer, shape, axes, lanes);
    let (count, walk) = walk(&mut writer, shape, axes, lanes);
    let (share, count) = (share(&mut writer, carried, *reduction, count), writer.param(count));
    body += &format!(
        "    var folded = {number}({start});
    for (var r = 0u; r < {count}; r++) {{
        var at = base;
{walk}        let value = {element};
        {fold}
    }}
    store(g, folded{share});\n"
    );
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements() / lanes, &body)]
}
