//! Convolution of floats with one group and a constant filter, with all input channels of the block's output pixels
//! staged in work-group memory.

use std::fmt::Write;

use super::contract_blocked;
use super::held::{self, Block, EACH, Texts, Work};
use super::supply::Supply;
use crate::kernel::Kernel;
use crate::variants::Variant;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "contract_held", takes_prologues: true, applies, cost, write };

/// Steps along K for which the filter is prefetched.
const AHEAD: usize = 2;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    contract_blocked::applies(context, kernel)
        && Work::of(context, kernel).positions >= EACH
        && Block::of(context, kernel).is_some()
}

fn cost(context: &Context<'_>, kernel: &Kernel) -> u32 {
    match context.limits.shares_sums {
        true if kernel.prologue.is_some() || held::is_small(context, kernel) => 1,
        true => 31,
        false => 55,
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let block = Block::of(context, kernel).expect("applies");
    let mut writer = Writer::new(VARIANT.name, context);
    let (packed, start) = contract_blocked::pack(context, kernel);
    let weights = writer.packed(packed, 4);
    let supply = Supply::new(&mut writer, context, kernel, (&weights, start));
    held::store(&mut writer, context, kernel);
    let wide = writer.param(context.program.shape(kernel.inputs[1])[0].div_ceil(4));
    let depth = writer.param(supply.depth);
    let texts = Texts {
        wide: &wide,
        depth: &depth,
        memory: format!("var<workgroup> memory: array<vec4<f32>, {}>;\n", block.memory().div_ceil(4)),
        multiply: multiply(block, &depth, |row| weights.reals(&format!("({row}) * {wide} + filter_quad"))),
        keep: &|place, sum| format!("memory[{place}] = {sum};"),
        part: &|place| format!("memory[{place}]"),
        bias: weights.reals("quad"),
    };
    vec![held::shader(writer, (context, kernel), block, &supply, &texts)]
}

/// WGSL that multiplies the staged data by the filter; `weight` returns the WGSL of a row of the filter. The next
/// steps' weights are loaded while the current ones are multiplied.
fn multiply(block: Block, depth: &str, weight: impl Fn(&str) -> String) -> String {
    let Block { rows, shares, .. } = block;
    let (stride, down) = (block.stride(), rows / EACH);
    let at_once = AHEAD.min(block.depth.div_ceil(shares)).max(1);
    let read = |q: &str, declared: &str| {
        let mut text = String::new();
        for (u, k) in (0..at_once).flat_map(|u| (0..4).map(move |k| (u, k))) {
            let row = format!("1u + min({q} + {}u, {depth} - 1u) * 4u + {k}u", u * shares);
            let _ = writeln!(text, "    {declared}next{u}_{k} = {};", weight(&row));
        }
        text
    };
    let mut text: String = (0..EACH).map(|p| format!("    var sum{p} = vec4<f32>();\n")).collect();
    let hop = at_once * shares;
    text += &read("share", "var ");
    let _ = writeln!(text, "    for (var q = share; q < {depth}; q += {hop}u) {{");
    for (u, k) in (0..at_once).flat_map(|u| (0..4).map(move |k| (u, k))) {
        let _ = writeln!(text, "    let w{u}_{k} = next{u}_{k};");
    }
    text += &read(&format!("q + {hop}u"), "");
    for u in 0..at_once {
        let q = format!("q + {}u", u * shares);
        for p in 0..EACH {
            let held = format!("memory[(row + {}u) * {stride}u + min({q}, {depth} - 1u)]", p * down);
            let _ = writeln!(text, "    let v{u}_{p} = select(vec4<f32>(), {held}, {q} < {depth});");
        }
        for (k, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
            for p in 0..EACH {
                let _ = writeln!(text, "    sum{p} = fma(vec4<f32>(v{u}_{p}.{part}), w{u}_{k}, sum{p});");
            }
        }
    }
    text + "    }\n"
}
