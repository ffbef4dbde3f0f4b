//! Variant `conv_staged_bytes`: convolution of 8-bit integers with one group and a constant filter. All input
//! channels of a block's output pixels are staged in work-group memory. Like
//! [`conv_bytes`](super::conv_bytes), it computes four products per instruction.

use std::fmt::Write;
use std::sync::Arc;

use super::conv_bytes::{self, signed_filter, word};
use super::input_loader::InputLoader;
use super::staged::{self, EACH, Texts, Tiling};
use crate::kernel::{Kernel, MAX_OUTPUTS};
use crate::variants::{Computes, Variant};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_staged_bytes", computes: Computes::Pixels, applies, priority, write };

/// Number of steps along K for which the filter is prefetched. Software devices prefetch one step only,
/// because they have no latency to hide.
const AHEAD: usize = 4;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let has_elements = |id| context.program.shape(id).elements() > 0;
    conv_bytes::applies(context, kernel)
        && has_elements(kernel.inputs[1])
        && has_elements(kernel.outputs[0])
        && context.program.shape(kernel.inputs[1])[0] <= MAX_OUTPUTS
        && Tiling::of(context, kernel).is_some()
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    if context.limits.splits_k && staged::is_small(context, kernel) { 1 } else { 31 }
}

/// Packs the words of [`conv_bytes::pack`], then those of a depthwise prologue if there is one. Also returns
/// the vec4 of words at which the prologue's words start, and the filter's zero point.
fn pack(context: &Context<'_>, kernel: &Kernel) -> (Arc<[u32]>, usize, i32) {
    let (zero, _) = conv_bytes::signed_data(context, kernel).expect("applies");
    let (packed, filter_zero) = conv_bytes::pack(context, kernel, zero);
    let start = packed.len() / 4;
    let words = match kernel.prologue.as_deref() {
        Some(first) => [&packed[..], &in_front(context, first)].concat().into(),
        None => packed,
    };
    (words, start, filter_zero)
}

/// Packs a depthwise prologue into words: the bias, then the filter with the weights of four channels to a
/// word and four taps to a vec4: `[channels / 4][⌈taps / 4⌉ × 4]`.
fn in_front(context: &Context<'_>, kernel: &Kernel) -> Vec<u32> {
    let shape = context.program.shape(kernel.inputs[1]);
    let (channels, taps) = (shape[0], shape[1] * shape[2]);
    let (filter, _) = signed_filter(context, kernel).expect("fusion takes bytes");
    let bias = conv_bytes::bias(context, kernel).expect("fusion takes what is known");
    let weight = |channel: usize, tap: usize| if tap < taps { filter[channel * taps + tap] } else { 0 };
    let groups =
        (0..channels).step_by(4).flat_map(|channel| (0..taps.next_multiple_of(4)).map(move |tap| (channel, tap)));
    let weights = groups.map(|(first, tap)| word((first..first + 4).map(|channel| weight(channel, tap))));
    bias.into_iter().map(|bias| bias as u32).chain(weights).collect()
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let tiling = Tiling::of(context, kernel).expect("applies");
    let mut writer = Writer::new(VARIANT.name, context);
    let (packed, start, filter_zero) = pack(context, kernel);
    let words = writer.words(packed, 4);
    let loader = InputLoader::of_bytes(&mut writer, context, kernel, (&words, start));
    staged::store(&mut writer, context, kernel);
    let wide = writer.param(context.program.shape(kernel.inputs[1])[0].div_ceil(4));
    let depth = writer.param(loader.depth);
    let point = (filter_zero != 0).then(|| writer.signed_param(filter_zero.into()));
    let ahead = if context.limits.splits_k { AHEAD } else { 1 };
    let parts = tiling.parts();
    let plane = |plane: usize, index: &str| format!("memory[{}u + {index}]", plane * parts);
    let texts = Texts {
        wide: &wide,
        depth: &depth,
        memory: format!("var<workgroup> memory: array<u32, {}>;\n", tiling.memory()),
        multiply: multiply((tiling, ahead), &depth, |row| format!("{words}[({row}) * {wide} + filter_vec4]"), point),
        store_part: &|index, sum| {
            let store =
                |(plane_index, component)| format!("{} = bitcast<u32>({sum}.{component});", plane(plane_index, index));
            ["x", "y", "z", "w"].into_iter().enumerate().map(store).collect()
        },
        load_part: &|index| {
            let parts: Vec<String> = (0..4).map(|plane_index| plane(plane_index, index)).collect();
            format!("bitcast<vec4<i32>>(vec4<u32>({}))", parts.join(", "))
        },
        bias: format!("bitcast<vec4<i32>>({words}[vector])"),
    };
    vec![staged::shader(writer, (context, kernel), tiling, &loader, &texts)]
}

/// Returns WGSL that multiplies the staged data by the filter. `weight` returns the WGSL that loads a row of
/// the filter. `point` is the WGSL of the filter's zero point, or `None` if that is 0. The weights of the
/// next `ahead` steps are loaded while the current ones are multiplied.
fn multiply(
    (tiling, ahead): (Tiling, usize),
    depth: &str,
    weight: impl Fn(&str) -> String,
    point: Option<String>,
) -> String {
    let Tiling { rows, split, .. } = tiling;
    let (stride, down) = (tiling.stride(), rows / EACH);
    let at_once = ahead.min(tiling.depth.div_ceil(split)).max(1);
    let hop = at_once * split;
    let read = |q: &str, declared: &str| {
        let row = |u: usize| weight(&format!("1u + min({q} + {}u, {depth} - 1u)", u * split));
        (0..at_once).map(|u| format!("    {declared}next{u} = {};\n", row(u))).collect::<String>()
    };
    let mut text = String::new();
    for p in 0..EACH {
        let _ = writeln!(text, "    var sum{p} = vec4<i32>();");
        if point.is_some() {
            let _ = writeln!(text, "    var all{p} = 0;");
        }
    }
    text += &read("split_part", "var ");
    let _ = writeln!(text, "    for (var q = split_part; q < {depth}; q += {hop}u) {{");
    (0..at_once).for_each(|u| text += &format!("    let w{u} = next{u};\n"));
    text += &read(&format!("q + {hop}u"), "");
    for (u, p) in (0..at_once).flat_map(|u| (0..EACH).map(move |p| (u, p))) {
        let q = format!("q + {}u", u * split);
        let staged = format!("memory[(row + {}u) * {stride}u + min({q}, {depth} - 1u)]", p * down);
        let products = ["x", "y", "z", "w"].map(|part| format!("dot4I8Packed(v{u}_{p}, w{u}.{part})")).join(", ");
        let _ = write!(
            text,
            "    let v{u}_{p} = select(0u, {staged}, {q} < {depth});
    sum{p} += vec4<i32>({products});\n"
        );
        if point.is_some() {
            let _ = writeln!(text, "    all{p} += dot4I8Packed(v{u}_{p}, 0x01010101u);");
        }
    }
    text += "    }\n";
    if let Some(point) = point {
        (0..EACH).for_each(|p| text += &format!("    sum{p} -= vec4<i32>({point} * all{p});\n"));
    }
    text
}
