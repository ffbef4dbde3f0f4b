//! Variant `suppress`: non-maximum suppression with one work group per row of scores. In one pass over the remaining
//! boxes per selected box, the work group drops those that overlap the box selected last and finds the best of the others.
//!
//! The selected boxes are exactly the CPU's for equal boxes and scores, on devices that round sums and products of f32
//! correctly. Differences and products are kept from being contracted (`apart`), and as division need not be
//! correctly rounded, a quotient near the limit is decided by integers (`reaches`).

use attache_gpu_ir::{Primitive, Suppression};

use crate::kernel::{Kernel, MAX_GROUPS};
use crate::variants::{Computes, Variant};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "suppress",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Suppress(_)),
    priority: |_, _| 1,
    write,
};

/// Maximum number of invocations of a work group.
const MAX_GROUP: usize = 256;

/// WGSL of `apart(value)`, which returns the value and keeps compilers from contracting its computation with what follows.
/// They do not know that `nothing` is 0.
const APART: &str = "var<private> nothing: u32;
fn apart(value: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(value) ^ nothing);
}
";

/// WGSL of `is_dropped(one, other)`: whether two boxes overlap too much, and of what it calls.
const OVERLAP: &str = "fn sorted(corners: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(min(corners.xy, corners.zw), max(corners.xy, corners.zw));
}
fn area(corners: vec4<f32>) -> f32 {
    return apart(apart(corners.z - corners.x) * apart(corners.w - corners.y));
}
fn is_dropped(one: vec4<f32>, other: vec4<f32>) -> bool {
    let left = sorted(one);
    let right = sorted(other);
    let areas = vec2<f32>(area(left), area(right));
    if (!(areas.x > 0.0 && areas.y > 0.0)) { return false; }
    let height = max(apart(min(left.z, right.z) - max(left.x, right.x)), 0.0);
    let width = max(apart(min(left.w, right.w) - max(left.y, right.y)), 0.0);
    let joint = apart(height * width);
    return reaches(joint, apart(apart(areas.x + areas.y) - joint));
}
";

/// Returns WGSL of `reaches(part, whole)`: whether the quotient, rounded to the nearest f32, is `limit` or more. `limit` is
/// positive and normal. The quotient rounds to `limit` from halfway between it and the next smaller f32, which is an
/// integer of 26 bits times a power of two; it is multiplied by `whole` exactly.
fn reaches(limit: f32) -> String {
    let bits = limit.to_bits();
    let (fraction, exponent) = (bits & 0x7f_ffff, (bits >> 23) as i32);
    let halfway = 4 * (fraction | 0x80_0000) - if fraction == 0 { 1 } else { 2 };
    let above = if fraction.is_multiple_of(2) { ">=" } else { ">" };
    format!(
        "fn reaches(part: f32, whole: f32) -> bool {{
    let limit = bitcast<f32>({bits}u);
    let quotient = part / whole;
    let a = bitcast<u32>(part);
    let b = bitcast<u32>(whole);
    let are_normal = a >= 0x00800000u && a < 0x7f800000u && b >= 0x00800000u && b < 0x7f800000u;
    if (!are_normal || abs(quotient - limit) > limit * 0.0001) {{ return quotient >= limit; }}
    let shift = u32(clamp(i32(a >> 23u) - i32(b >> 23u) - ({exponent} - 127 - 25), 1, 31));
    let own = (a & 0x7fffffu) | 0x800000u;
    let left = vec2<u32>(own >> (32u - shift), own << shift);
    let factor = (b & 0x7fffffu) | 0x800000u;
    let high = factor >> 12u;
    let low = factor & 0xfffu;
    let middle = high * {low_half}u + 2u * low * {high_half}u;
    let first = low * {low_half}u;
    let second = first + (middle << 12u);
    let third = second + ((high * {high_half}u) << 25u);
    var carried = (middle >> 20u) + ((high * {high_half}u) >> 7u);
    carried += select(0u, 1u, second < first) + select(0u, 1u, third < second);
    return left.x > carried || (left.x == carried && left.y {above} third);
}}
",
        low_half = halfway & 0x1fff,
        high_half = halfway >> 13,
    )
}

/// Returns WGSL of the functions that a limit needs: `is_dropped`, and what it calls.
fn dropping(limit: f32) -> String {
    if limit <= 0.0 {
        return "fn is_dropped(one: vec4<f32>, other: vec4<f32>) -> bool { return true; }\n".into();
    }
    format!("{APART}{}{OVERLAP}", reaches(limit))
}

/// Returns WGSL of the key of `score`, which is larger for the better one.
fn key(limits: &Suppression) -> &'static str {
    // Zeros of both signs have equal keys, or else the negative one has the smaller key.
    if limits.keeps_limits {
        "select(bits, -(bits & 0x7fffffff), bits < 0)"
    } else {
        "select(bits, bits ^ 0x7fffffff, bits < 0)"
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Suppress(limits) = &kernel.primitive else { unreachable!("applies") };
    let [rows, count] = [0, 1].map(|axis| context.program.shape(kernel.inputs[1])[axis]);
    let group = 1 << MAX_GROUP.min(context.limits.max_invocations).ilog2();
    // Each invocation has one bit for each of its boxes, which are `group` apart.
    let words = count.div_ceil(group).div_ceil(32).max(1);
    let mut writer = Writer::new(VARIANT.name, context);
    let [boxes, scores] = [0, 1].map(|input| writer.read(kernel.inputs[input], 1));
    let [places, counts] = [0, 1].map(|output| writer.write(kernel.outputs[output], 1));
    let across = rows.clamp(1, MAX_GROUPS);
    let [rows_text, count_text, across_text, most] = [rows, count, across, limits.most].map(|size| writer.param(size));
    let corner = |index: usize| boxes.floats(&format!("at * 4u + {index}u"));
    let corners = [0, 1, 2, 3].map(corner).join(", ");
    writer.function(&dropping(limits.dropped_from()));
    writer.function(&format!("fn box_of(at: u32) -> vec4<f32> {{\n    return vec4<f32>({corners});\n}}\n"));
    let score = writer.float_param(limits.score);
    let within = if limits.keeps_limits { ">=" } else { ">" };
    let opaque = if limits.dropped_from() > 0.0 { "    nothing = atomicLoad(&zero);\n" } else { "" };
    let best = search(group, words, &scores.floats("row * count + at"), key(limits));
    let body = format!(
        "    let row = min(group.x + group.y * {across_text}, {rows_text} - 1u);
    let count = {count_text};
    if (local.x == 0u) {{ atomicStore(&zero, 0u); }}
    workgroupBarrier();
{opaque}    var remaining: array<u32, {words}>;
    for (var at = local.x; at < count; at += {group}u) {{
        let turn = at / {group}u;
        if ({element} {within} {score}) {{ remaining[turn / 32u] |= 1u << (turn % 32u); }}
    }}
    var chosen = 0u;
    var last = 0u;
    for (; chosen < {most}; chosen++) {{
{best}        if (winner == 0xffffffffu) {{ break; }}
        last = winner;
        if (local.x == 0u) {{
            {put}
        }}
        if (last % {group}u == local.x) {{
            let turn = last / {group}u;
            remaining[turn / 32u] &= ~(1u << (turn % 32u));
        }}
    }}
    for (var place = chosen + local.x; place < {most}; place += {group}u) {{
        {pad}
    }}
    if (local.x == 0u) {{ {total} }}\n",
        element = scores.floats("row * count + at"),
        put = places.write(&format!("row * {most} + chosen"), "i32(last)"),
        pad = places.write(&format!("row * {most} + place"), &format!("i32({})", limits.unused)),
        total = counts.write("row", "i32(chosen)"),
    );
    let declarations = format!("var<workgroup> zero: atomic<u32>;\nvar<workgroup> found: array<vec2<u32>, {group}>;\n");
    let groups = [across as u32, rows.div_ceil(across) as u32, 1];
    vec![writer.finish([group as u32, 1, 1], groups, &declarations, &body)]
}

/// Returns WGSL that drops boxes and sets `winner` to the best of the others, or to the largest index if none is left.
fn search(group: usize, words: usize, score: &str, key: &str) -> String {
    format!(
        "        var best = 0;
        var best_at = 0xffffffffu;
        for (var word = 0u; word < {words}u; word++) {{
            var bits_left = remaining[word];
            while (bits_left != 0u) {{
                let bit = firstTrailingBit(bits_left);
                bits_left &= bits_left - 1u;
                let at = (word * 32u + bit) * {group}u + local.x;
                if (chosen > 0u && is_dropped(box_of(last), box_of(at))) {{
                    remaining[word] &= ~(1u << bit);
                    continue;
                }}
                let bits = bitcast<i32>({score});
                let key = {key};
                if (best_at == 0xffffffffu || key > best) {{ best = key; best_at = at; }}
            }}
        }}
        found[local.x] = vec2<u32>(bitcast<u32>(best), best_at);
        for (var half = {half}u; half > 0u; half = half / 2u) {{
            workgroupBarrier();
            if (local.x < half) {{
                let other = found[local.x + half];
                let key = bitcast<i32>(other.x);
                let is_better = key > best || (key == best && other.y < best_at);
                if (other.y != 0xffffffffu && (best_at == 0xffffffffu || is_better)) {{
                    best = key;
                    best_at = other.y;
                    found[local.x] = other;
                }}
            }}
        }}
        workgroupBarrier();
        let winner = found[0].y;
        workgroupBarrier();
",
        half = group / 2
    )
}
