//! Variant `reduce`: a reduction along axes (sum, mean, maximum, minimum or product) with one invocation per
//! result, which combines its elements in the input's order.

use attache_base::{Shape, strides};
use attache_gpu_ir::{Primitive, ReduceOp};

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::{computed_type, store};
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "reduce",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Reduce { .. }),
    priority: |_, _| 2,
    write,
};

/// Returns the WGSL statement that reduces `value` into the accumulator `folded`, and WGSL of the
/// accumulator's initial value. Both are of type `computed_type`, `f32` or `i32`.
pub(super) fn folding(writer: &mut Writer<'_>, computed_type: &str, reduction: ReduceOp) -> (&'static str, String) {
    let mut bound = |float: f32, integer: i32| match computed_type {
        "i32" => writer.signed_param(integer.into()),
        _ => writer.float_param(float),
    };
    match reduction {
        ReduceOp::Sum | ReduceOp::Mean => ("folded = folded + value;", "0".to_owned()),
        ReduceOp::Maximum => ("folded = max(folded, value);", bound(f32::NEG_INFINITY, i32::MIN)),
        ReduceOp::Minimum => ("folded = min(folded, value);", bound(f32::INFINITY, i32::MAX)),
        ReduceOp::Product => ("folded = folded * value;", "1".to_owned()),
    }
}

/// Returns WGSL that is appended to a reduced float to scale it: by 1 / `count` for a mean, else by 1. Empty
/// if `computed_type` is `i32`.
pub(in crate::variants) fn mean_factor(
    writer: &mut Writer<'_>,
    computed_type: &str,
    reduction: ReduceOp,
    count: usize,
) -> String {
    let mean_factor = if reduction == ReduceOp::Mean { 1.0 / count as f32 } else { 1.0 };
    if computed_type == "i32" { String::new() } else { format!(" * {}", writer.float_param(mean_factor)) }
}

/// Returns the number of elements that are reduced to one result, and WGSL that adds to `at` the offset of
/// the `r`-th of them, in units of `vector_width` elements.
pub(super) fn walk(writer: &mut Writer<'_>, shape: &Shape, axes: &[usize], vector_width: usize) -> (usize, String) {
    let strides = strides(shape);
    let folded: Vec<(usize, usize)> = axes.iter().map(|axis| (shape[*axis], strides[*axis] / vector_width)).collect();
    let mut text = "        var left = r;\n".to_owned();
    for (extent, stride) in folded.iter().rev() {
        let (extent, stride) = (writer.param(*extent), writer.param(*stride));
        text += &format!("        at += (left % {extent}) * {stride};\n        left = left / {extent};\n");
    }
    (folded.iter().map(|(extent, _)| extent).product(), text)
}

/// Returns WGSL that defines `base`, the index of the first element that is reduced into result `g`, in units
/// of `vector_width` elements.
pub(super) fn base(writer: &mut Writer<'_>, shape: &Shape, axes: &[usize], vector_width: usize) -> String {
    let rank = shape.rank();
    let kept = |axis: usize| if axes.contains(&axis) { 1 } else { shape[axis] };
    let unit = |axis: usize, extent: usize| if axis + 1 == rank { extent / vector_width } else { extent };
    let extents: Vec<String> = (0..rank).map(|axis| writer.param(unit(axis, kept(axis)).max(1))).collect();
    let mut text = coordinates(&extents);
    text += "    var base = 0u;\n";
    for (axis, stride) in strides(shape).iter().enumerate() {
        let stride = writer.param(if axis + 1 == rank { *stride } else { stride / vector_width });
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
    let vector_width = if inner_kept { vector_width(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.read(kernel.inputs[0], vector_width);
    store(&mut writer, context, kernel, vector_width);
    let computed_type = computed_type(context.program, kernel);
    let element_type = vector(computed_type, vector_width);
    let (fold, start) = folding(&mut writer, computed_type, *reduction);
    let element = if computed_type == "i32" { array.integers("at") } else { array.floats("at") };
    let mut body = base(&mut writer, shape, axes, vector_width);
    let (count, walk) = walk(&mut writer, shape, axes, vector_width);
    let (mean_factor, count) = (mean_factor(&mut writer, computed_type, *reduction, count), writer.param(count));
    body += &format!(
        "    var folded = {element_type}({start});
    for (var r = 0u; r < {count}; r++) {{
        var at = base;
{walk}        let value = {element};
        {fold}
    }}
    store(g, folded{mean_factor});\n"
    );
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements() / vector_width, &body)]
}
