//! Variant `top_k_group`: the largest elements of each row in descending order and their indices, with one work group
//! per row. A radix select finds the last element of the output, digit by digit of its key and, where elements are
//! equal, of its index. Then the elements before it are collected and each is counted to its place.

use std::fmt::Write;

use attache_gpu_ir::Primitive;

use super::top_k::access;
use crate::kernel::{Kernel, MAX_GROUPS};
use crate::variants::{Computes, Variant};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "top_k_group", computes: Computes::Nothing, applies, priority, write };

/// Maximum number of invocations of a work group.
const MAX_GROUP: usize = 512;

/// Maximum number of elements that are selected, which are in work-group memory at the same time.
const MAX_COUNT: usize = 1024;

/// Returns the extent of a row and the number of rows.
fn sizes(context: &Context<'_>, kernel: &Kernel) -> [usize; 2] {
    let shape = context.program.shape(kernel.inputs[0]);
    let extent = shape.last().copied().unwrap_or(1);
    [extent, shape.elements() / extent.max(1)]
}

/// Returns the number of bits of a digit. A work group has an invocation for each value of a digit.
fn digit(context: &Context<'_>, extent: usize) -> u32 {
    let most = MAX_GROUP.min(context.limits.max_invocations).ilog2();
    extent.max(1).ilog2().clamp(5, most)
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::TopK { count } = kernel.primitive else { return false };
    let memory = 4 * ((1 << digit(context, sizes(context, kernel)[0])) + 4) + 8 * count;
    let fits = memory <= context.limits.work_group_bytes && (1..=MAX_COUNT).contains(&count);
    fits && sizes(context, kernel)[1] <= MAX_GROUPS * MAX_GROUPS
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let [extent, rows] = sizes(context, kernel);
    // With many short rows, counting in one pass takes less time than the barriers.
    if extent <= 256 || (extent <= 1024 && rows > MAX_GROUPS) { 50 } else { 1 }
}

/// Returns WGSL that finds a digit of `bits` bits at `shift` of the last selected element. `number` is WGSL of the
/// number that has the digit, for element `at`, `other` of a further condition, and `found` the name of the variable to
/// which digits found before belong.
fn pass([shift, bits]: [u32; 2], number: &str, condition: &str, found: &str, group: u32) -> String {
    let values = 1u32 << bits;
    let above = shift + bits;
    let same = if above >= 32 { String::new() } else { format!(" && (number >> {above}u) == ({found} >> {above}u)") };
    format!(
        "    tally[local.x] = 0u;
    workgroupBarrier();
    for (var at = local.x; at < extent; at += {group}u) {{
        let number = {number};
        if ({condition}{same}) {{ atomicAdd(&tally[(number >> {shift}u) & {mask}u], 1u); }}
    }}
    // Each tally becomes the number of elements with this digit or a larger one.
    for (var hop = 1u; hop < {values}u; hop *= 2u) {{
        workgroupBarrier();
        var more = 0u;
        if (local.x + hop < {values}u) {{ more = atomicLoad(&tally[local.x + hop]); }}
        workgroupBarrier();
        atomicAdd(&tally[local.x], more);
    }}
    workgroupBarrier();
    if (local.x < {values}u) {{
        let above = select(0u, atomicLoad(&tally[min(local.x + 1u, {group}u - 1u)]), local.x + 1u < {values}u);
        let all = atomicLoad(&tally[local.x]);
        if (above < wanted && all >= wanted) {{
            chosen = vec3<u32>(local.x, above, all - above);
        }}
    }}
    workgroupBarrier();
    {found} |= chosen.x << {shift}u;
    wanted -= chosen.y;
    equals = chosen.z;
    workgroupBarrier();\n",
        mask = values - 1
    )
}

/// Returns the digits of a number of `width` bits, highest first: the shift and the number of bits of each.
fn digits(width: u32, digit: u32) -> impl Iterator<Item = [u32; 2]> {
    (0..width.div_ceil(digit)).map(move |index| {
        let above = width - index * digit;
        [above.saturating_sub(digit), above.min(digit)]
    })
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::TopK { count } = kernel.primitive else { unreachable!("applies") };
    let [extent, rows] = sizes(context, kernel);
    let (digit, index_bits) = (digit(context, extent), usize::BITS - (extent.max(2) - 1).leading_zeros());
    let group = 1u32 << digit;
    let mut writer = Writer::new(VARIANT.name, context);
    let [extent_text, count_text, rows_text] = [extent, count, rows].map(|number| writer.param(number));
    let across = rows.clamp(1, MAX_GROUPS);
    let across_text = writer.param(across);
    let [key, put] = access(&mut writer, context, kernel, [&extent_text, &count_text]);
    writer
        .function(&format!("fn key(row: u32, at: u32) -> u32 {{\n    return bitcast<u32>({key}) ^ 0x80000000u;\n}}\n"));
    let mut body = format!(
        "    let row = min(group.x + group.y * {across_text}, {rows_text} - 1u);
    let extent = {extent_text};
    var wanted = {count_text};
    var equals = extent;
    var last = 0u;
    // Of equal elements those with the largest complement of the index come first.
    var last_order = 0u;
    if (local.x == 0u) {{ atomicStore(&collected, 0u); }}\n"
    );
    for [shift, bits] in digits(32, digit) {
        body += &pass([shift, bits], "key(row, at)", "true", "last", group);
    }
    body += "    if (equals > wanted) {\n";
    for [shift, bits] in digits(index_bits, digit) {
        body += &pass(
            [shift, bits],
            &format!("{}u - at", (1u64 << index_bits) - 1),
            "key(row, at) == last",
            "last_order",
            group,
        );
    }
    let _ = write!(
        body,
        "    }}
    for (var at = local.x; at < extent; at += {group}u) {{
        let own = key(row, at);
        if (own > last || (own == last && {most}u - at >= last_order)) {{
            // There are no more of these than wanted.
            let slot = min(atomicAdd(&collected, 1u), {count}u - 1u);
            selected[slot] = vec2<u32>(own, at);
        }}
    }}
    workgroupBarrier();
    for (var slot = local.x; slot < {count}u; slot += {group}u) {{
        let own = selected[slot];
        var place = 0u;
        for (var index = 0u; index < {count}u; index++) {{
            let other = selected[index];
            place += select(0u, 1u, other.x > own.x || (other.x == own.x && other.y < own.y));
        }}
        let at = own.y;
        {put}
    }}\n",
        most = (1u64 << index_bits) - 1
    );
    let declarations = format!(
        "var<workgroup> tally: array<atomic<u32>, {group}>;
var<workgroup> chosen: vec3<u32>;
var<workgroup> collected: atomic<u32>;
var<workgroup> selected: array<vec2<u32>, {count}>;\n"
    );
    let groups = [across as u32, rows.div_ceil(across) as u32, 1];
    vec![writer.finish([group, 1, 1], groups, &declarations, &body)]
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_cover_a_number_once() {
        let digits = |width, digit| super::digits(width, digit).collect::<Vec<_>>();
        assert_eq!(digits(32, 9), [[23, 9], [14, 9], [5, 9], [0, 5]]);
        assert_eq!(digits(14, 7), [[7, 7], [0, 7]]);
        assert_eq!(digits(3, 9), [[0, 3]]);
    }
}
