//! Variant `conv_vector`: pointwise convolution of floats with one group, a constant filter and few output pixels, which
//! is a product of a matrix and a few vectors. A work group stages all input channels of all pixels, or computes them, and
//! multiplies them by a few columns of the filter, of which its invocations divide K among them.

use std::fmt::Write;

use super::conv_dense;
use super::left_rows::LeftRows;
use super::tiling::put;
use crate::kernel::{Kernel, rows_group, staged_rows, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_vector", computes: Computes::Rows, applies, priority, write };

/// Maximum output pixels for which no other variant is faster. These would need a few for each invocation.
const FEW_PIXELS: usize = 3;

/// Numbers of vec4s of output channels of a work group: the second one if it leaves enough work groups. Adjacent ones share
/// a memory transaction.
const COLUMNS: [usize; 2] = [4, 8];

/// Number of work groups that fill a large device.
const ENOUGH_GROUPS: usize = 256;

/// Number of rows of the filter that an invocation loads before it multiplies the first.
const AT_ONCE: usize = 4;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let is_convolution = matches!(kernel.primitive, attache_gpu_ir::Primitive::Convolution(_));
    is_convolution && staged_rows(context.program, kernel, context.limits).is_some()
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let [rows, _] = staged_rows(context.program, kernel, context.limits).expect("applies");
    if rows <= FEW_PIXELS && context.limits.splits_k { 0 } else { 60 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let [rows, depth] = staged_rows(context.program, kernel, context.limits).expect("applies");
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let vec4s = outputs.div_ceil(4);
    let columns = if vec4s / COLUMNS[1] >= ENOUGH_GROUPS { COLUMNS[1] } else { COLUMNS[0] };
    let invocations = rows_group(context.limits);
    let parts = invocations / columns;
    let mut writer = Writer::new(VARIANT.name, context);
    let weights = writer.packed(conv_dense::pack(context, kernel), 4);
    let left = LeftRows::new(&mut writer, context, kernel, ([rows, depth], "0u", invocations));
    let stored = if outputs.is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, stored);
    let [wide, outputs, deep] = [vec4s, outputs, depth].map(|extent| writer.param(extent));
    let mut body = left.body.clone();
    let _ = write!(
        body,
        "    let part = local.x / {columns}u;
    let own = local.x % {columns}u;
    let vector = group.x * {columns}u + own;
    let column = min(vector, {wide} - 1u);\n"
    );
    (0..rows).for_each(|row| body += &format!("    var sum{row} = vec4<f32>();\n"));
    let _ = writeln!(body, "    for (var k = part; k < {deep}; k += {}u) {{", AT_ONCE * parts);
    for ahead in 0..AT_ONCE {
        let _ = writeln!(body, "        let k{ahead} = min(k + {}u, {deep} - 1u);", ahead * parts);
        let _ =
            writeln!(body, "        let w{ahead} = {};", weights.floats(&format!("(1u + k{ahead}) * {wide} + column")));
    }
    for (ahead, row) in (0..AT_ONCE).flat_map(|ahead| (0..rows).map(move |row| (ahead, row))) {
        let value = left.elements(row, &format!("k{ahead}"), 1);
        let value = format!("select(0.0, {value}, k + {}u < {deep})", ahead * parts);
        let _ = writeln!(body, "        sum{row} = fma(vec4<f32>({value}), w{ahead}, sum{row});");
    }
    body += "    }\n";
    body += &add(rows, columns, parts);
    let bias = weights.floats("vector");
    let _ = writeln!(body, "    if (part > 0u || vector >= {wide}) {{ return; }}\n    let bias = {bias};");
    for row in 0..rows {
        let stores = put(stored, &format!("{row}u"), &format!("sums[{row}u][own]"), &wide, &outputs);
        let _ = writeln!(body, "    {{ {stores} }}");
    }
    let declarations =
        format!("{}var<workgroup> sums: array<array<vec4<f32>, {invocations}>, {rows}>;\n", left.declarations);
    let groups = [vec4s.div_ceil(columns) as u32, 1, 1];
    vec![writer.finish([invocations as u32, 1, 1], groups, &declarations, &body)]
}

/// Returns WGSL that adds the sums of all parts to those of the first in work-group memory.
pub(super) fn add(rows: usize, columns: usize, parts: usize) -> String {
    let mut text = String::new();
    for row in 0..rows {
        let _ = writeln!(text, "    sums[{row}u][part * {columns}u + own] = sum{row};");
    }
    let mut half = parts / 2;
    while half > 0 {
        let _ = writeln!(text, "    workgroupBarrier();\n    if (part < {half}u) {{");
        for row in 0..rows {
            let [to, from] =
                ["part".to_owned(), format!("(part + {half}u)")].map(|part| format!("{part} * {columns}u + own"));
            let _ = writeln!(text, "        sums[{row}u][{to}] += sums[{row}u][{from}];");
        }
        text += "    }\n";
        half /= 2;
    }
    text
}
