//! Variant `conv_staged`: convolution of floats with one group and a constant filter. All input channels of a
//! block's output pixels are staged in work-group memory before the first product.

use std::fmt::Write;

use super::conv_blocked;
use super::input_loader::InputLoader;
use super::staged::{self, EACH, Problem, Texts, Tiling};
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_staged", computes: Computes::Pixels, applies, priority, write };

/// Number of steps along K for which the filter is prefetched.
const AHEAD: usize = 2;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    conv_blocked::applies(context, kernel)
        && Problem::of(context, kernel).positions >= EACH
        && Tiling::of(context, kernel).is_some()
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    match context.limits.splits_k {
        true if kernel.prologue.is_some() || staged::is_small(context, kernel) => 1,
        true => 31,
        false => 55,
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let tiling = Tiling::of(context, kernel).expect("applies");
    let mut writer = Writer::new(VARIANT.name, context);
    let (packed, start) = conv_blocked::pack(context, kernel);
    let weights = writer.packed(packed, 4);
    let loader = InputLoader::new(&mut writer, context, kernel, (&weights, start));
    staged::store(&mut writer, context, kernel);
    let wide = writer.param(context.program.shape(kernel.inputs[1])[0].div_ceil(4));
    let depth = writer.param(loader.depth);
    let texts = Texts {
        wide: &wide,
        depth: &depth,
        memory: format!("var<workgroup> memory: array<vec4<f32>, {}>;\n", tiling.memory().div_ceil(4)),
        multiply: multiply(tiling, &depth, |row| weights.floats(&format!("({row}) * {wide} + filter_vec4"))),
        store_part: &|index, sum| format!("memory[{index}] = {sum};"),
        load_part: &|index| format!("memory[{index}]"),
        bias: weights.floats("vector"),
    };
    vec![staged::shader(writer, (context, kernel), tiling, &loader, &texts)]
}

/// Returns WGSL that multiplies the staged data by the filter. `weight` returns the WGSL that loads a row of
/// the filter. The weights of the next steps are loaded while the current ones are multiplied.
fn multiply(tiling: Tiling, depth: &str, weight: impl Fn(&str) -> String) -> String {
    let Tiling { rows, split, .. } = tiling;
    let (stride, down) = (tiling.stride(), rows / EACH);
    let at_once = AHEAD.min(tiling.depth.div_ceil(split)).max(1);
    let read = |q: &str, declared: &str| {
        let mut text = String::new();
        for (u, k) in (0..at_once).flat_map(|u| (0..4).map(move |k| (u, k))) {
            let row = format!("1u + min({q} + {}u, {depth} - 1u) * 4u + {k}u", u * split);
            let _ = writeln!(text, "    {declared}next{u}_{k} = {};", weight(&row));
        }
        text
    };
    let mut text: String = (0..EACH).map(|p| format!("    var sum{p} = vec4<f32>();\n")).collect();
    let hop = at_once * split;
    text += &read("split_part", "var ");
    let _ = writeln!(text, "    for (var q = split_part; q < {depth}; q += {hop}u) {{");
    for (u, k) in (0..at_once).flat_map(|u| (0..4).map(move |k| (u, k))) {
        let _ = writeln!(text, "    let w{u}_{k} = next{u}_{k};");
    }
    text += &read(&format!("q + {hop}u"), "");
    for u in 0..at_once {
        let q = format!("q + {}u", u * split);
        for p in 0..EACH {
            let staged = format!("memory[(row + {}u) * {stride}u + min({q}, {depth} - 1u)]", p * down);
            let _ = writeln!(text, "    let v{u}_{p} = select(vec4<f32>(), {staged}, {q} < {depth});");
        }
        for (k, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
            for p in 0..EACH {
                let _ = writeln!(text, "    sum{p} = fma(vec4<f32>(v{u}_{p}.{part}), w{u}_{k}, sum{p});");
            }
        }
    }
    text + "    }\n"
}
