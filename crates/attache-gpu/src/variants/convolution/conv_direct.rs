//! Variant `conv_direct`: convolution of floats with one group and a small window over a large image, without
//! strides and dilations. A tile of the image, including the margin that the window needs, is staged in
//! work-group memory once and used for every tap.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, Scalar, Source, ValueId};

use super::conv_blocked::{fits, pack};
use super::input_loader::read_vec4s;
use super::tiling::put;
use crate::kernel::{Kernel, MAX_GROUPS, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_direct", computes: Computes::Nothing, applies, priority, write };

/// Number of adjacent output pixels of a row per invocation, which computes one vec4 of output channels for
/// each.
const EACH: usize = 8;

/// Number of output rows of a tile.
const ROWS: usize = 8;

/// Minimum number of work groups for which this variant is preferred: a device is then busy for several
/// rounds. Other variants distribute smaller images better.
const ENOUGH_GROUPS: usize = 250;

/// The tile of results that a work group computes, [`ROWS`] rows high, and what it stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Number of vec4s of output channels of a tile.
    vec4s: usize,
    /// Number of output columns of a tile.
    columns: usize,
    /// Height and width of the window, in taps.
    window: [usize; 2],
    /// Number of vec4s of input channels that are staged at once.
    depth: usize,
}

impl Tiling {
    /// Chooses the tiling for these numbers of vec4s of output channels and of input channels, and a window
    /// of this size, within `bytes` bytes of work-group memory; `None` if even one vec4 of input channels
    /// does not fit.
    fn new([vec4s, data]: [usize; 2], window: [usize; 2], bytes: usize) -> Option<Self> {
        let vec4s = vec4s.next_power_of_two().min(8);
        let columns = if vec4s < 4 { 64 } else { 32 };
        let tiling = |depth| Self { vec4s, columns, window, depth };
        [data.clamp(1, 2), 1].map(tiling).into_iter().find(|tiling| tiling.vectors() * 16 <= bytes)
    }

    fn invocations(&self) -> usize {
        self.vec4s * ROWS * self.columns / EACH
    }

    /// Returns the height and width of the input tile, in pixels.
    fn reach(&self) -> [usize; 2] {
        [ROWS + self.window[0] - 1, self.columns + self.window[1] - 1]
    }

    /// Returns the number of vec4s of work-group memory for one vec4 of input channels of the input tile.
    fn data(&self) -> usize {
        self.reach()[0] * self.reach()[1]
    }

    /// Returns the number of vec4s of work-group memory for the filter of the staged input channels.
    fn filter(&self) -> usize {
        self.window[0] * self.window[1] * self.depth * 4 * self.vec4s
    }

    /// Returns the number of vec4s of work-group memory for data and filter.
    fn vectors(&self) -> usize {
        self.depth * self.data() + self.filter()
    }
}

fn tiling(context: &Context<'_>, kernel: &Kernel) -> Option<Tiling> {
    let filter = context.program.shape(kernel.inputs[1]);
    let vec4s = [filter[0], filter[3]].map(|channels| channels.div_ceil(4));
    Tiling::new(vec4s, [filter[1], filter[2]], context.limits.work_group_bytes)
}

/// Returns the number of work groups along the width, the height, and batch × blocks of output channels.
fn groups(context: &Context<'_>, kernel: &Kernel, tiling: Tiling) -> [usize; 3] {
    let (output, vec4s) =
        (context.program.shape(kernel.outputs[0]), context.program.shape(kernel.inputs[1])[0].div_ceil(4));
    [output[2].div_ceil(tiling.columns), output[1].div_ceil(ROWS), output[0] * vec4s.div_ceil(tiling.vec4s)]
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let filter = context.program.shape(kernel.inputs[1]);
    let is_float = context.program.value(kernel.inputs[0]).scalar == Scalar::F32;
    let is_plain = convolution.groups == 1 && !convolution.transposed;
    let is_dense = convolution.strides == [1, 1] && convolution.dilations == [1, 1];
    let has_elements = [kernel.inputs[1], kernel.outputs[0]].iter().all(|id| context.program.shape(*id).elements() > 0);
    let is_small = filter[2] > 1 && filter[1] <= 9 && filter[2] <= 9;
    let fits_groups = || {
        tiling(context, kernel).is_some_and(|tiling| {
            tiling.invocations() <= context.limits.max_invocations
                && groups(context, kernel, tiling).iter().all(|n| *n <= MAX_GROUPS)
        })
    };
    is_float
        && is_plain
        && is_dense
        && is_small
        && has_elements
        && kernel.inputs[1..].iter().all(constant)
        && fits(context, kernel)
        && fits_groups()
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let many = tiling(context, kernel)
        .is_some_and(|tiling| groups(context, kernel, tiling).iter().product::<usize>() >= ENOUGH_GROUPS);
    match context.limits.splits_k {
        true if many => 1,
        true => 40,
        false => 60,
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let [data, filter, output] =
        [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
    let tiling = tiling(context, kernel).expect("applies");
    let mut writer = Writer::new(VARIANT.name, context);
    let weights = writer.packed(pack(context, kernel).0, 4);
    read_vec4s(&mut writer, context, kernel);
    let out_vector_width = if filter[0].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, out_vector_width);
    let Tiling { vec4s, columns, window: [down, across], depth: staged } = tiling;
    let reach_across = tiling.reach()[1];
    let (image, behind, invocations) = (tiling.data(), tiling.depth * tiling.data(), tiling.invocations());
    let sizes = [data[3].div_ceil(4), filter[0].div_ceil(4), filter[0].div_ceil(4).div_ceil(vec4s), filter[0]];
    let [depth, wide, blocks, outputs] = sizes.map(|extent| writer.param(extent));
    let [height, width, out_height, out_width] =
        [data[1], data[2], output[1], output[2]].map(|extent| writer.param(extent));
    let [top, left] = convolution.before.map(|before| writer.param(before));
    let weight = weights.floats(&format!(
        "(1u + (at / {}u * {depth} + min(q0 + at / 4u % {staged}u, {depth} - 1u)) * 4u + at % 4u) * {wide} + column",
        staged * 4
    ));
    let mut body = format!(
        "    let column0 = group.z % {blocks} * {vec4s}u;
    let vector = column0 + local.x % {vec4s}u;
    let row = local.x / {vec4s}u % {ROWS}u;
    let run = local.x / {line}u * {EACH}u;
    let b = group.z / {blocks};
    let near_x = i32(group.x * {columns}u) - i32({left});
    let near_y = i32(group.y * {ROWS}u) - i32({top});\n",
        line = vec4s * ROWS,
    );
    (0..EACH).for_each(|p| body += &format!("    var sum{p} = vec4<f32>();\n"));
    let _ = write!(
        body,
        "    for (var q0 = 0u; q0 < {depth}; q0 += {staged}u) {{
        workgroupBarrier();
        for (var index = local.x; index < {behind}u; index += {invocations}u) {{
            let at = index / {staged}u;
            let x = near_x + i32(at % {reach_across}u);
            let y = near_y + i32(at / {reach_across}u);
            let inside = x >= 0 && y >= 0 && x < i32({width}) && y < i32({height});
            let start = u32((i32(b * {height}) + clamp(y, 0, i32({height}) - 1)) * i32({width}) + clamp(x, 0, i32({width}) - 1));
            memory[index % {staged}u * {image}u + at] = select(vec4<f32>(), vec4_at(start, q0 + index % {staged}u), inside);
        }}
        for (var index = local.x; index < {filter}u; index += {invocations}u) {{
            let column = min(column0 + index % {vec4s}u, {wide} - 1u);
            let at = index / {vec4s}u;
            memory[{behind}u + index] = {weight};
        }}
        workgroupBarrier();
        for (var q = 0u; q < {staged}u; q++) {{
        for (var i = 0u; i < {down}u; i++) {{
            let line = q * {image}u + (row + i) * {reach_across}u + run;
            let taps = {behind}u + (i * {across}u * {staged}u + q) * {tap}u + local.x % {vec4s}u;\n",
        filter = tiling.filter(),
        tap = 4 * vec4s,
    );
    body += &products(across, staged * 4 * vec4s, vec4s);
    let _ = write!(
        body,
        "        }}\n        }}\n    }}
    let y = group.y * {ROWS}u + row;
    if (vector >= {wide} || y >= {out_height}) {{ return; }}
    let bias = {};\n",
        weights.floats("vector")
    );
    for p in 0..EACH {
        let stored = put(out_vector_width, &format!("at{p}"), &format!("sum{p}"), &wide, &outputs);
        let _ = write!(
            body,
            "    let x{p} = group.x * {columns}u + run + {p}u;
    let at{p} = (b * {out_height} + y) * {out_width} + x{p};
    if (x{p} < {out_width}) {{ {stored} }}\n"
        );
    }
    let declarations = format!("var<workgroup> memory: array<vec4<f32>, {}>;\n", tiling.vectors());
    let groups = groups(context, kernel, tiling).map(|count| count as u32);
    vec![writer.finish([invocations as u32, 1, 1], groups, &declarations, &body)]
}

/// Returns WGSL that adds the products of one row of the window to the sums. The weights of adjacent taps are
/// `tap` vec4s apart, those of adjacent input channels `channel` vec4s.
fn products(across: usize, tap: usize, channel: usize) -> String {
    let mut text = String::new();
    (0..EACH + across - 1).for_each(|p| text += &format!("            let v{p} = memory[line + {p}u];\n"));
    for j in 0..across {
        for (k, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let index = j * tap + k * channel;
            let _ = writeln!(text, "            let w{j}_{k} = memory[taps + {index}u];");
            for p in 0..EACH {
                let _ = writeln!(text, "            sum{p} = fma(vec4<f32>(v{}.{part}), w{j}_{k}, sum{p});", p + j);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_fit_the_memory() {
        assert_eq!(
            Tiling::new([8, 8], [3, 3], 49152),
            Some(Tiling { vec4s: 8, columns: 32, window: [3, 3], depth: 2 })
        );
        assert_eq!(
            Tiling::new([1, 8], [9, 9], 32768),
            Some(Tiling { vec4s: 1, columns: 64, window: [9, 9], depth: 1 })
        );
        assert_eq!(Tiling::new([8, 8], [9, 9], 16384), None);
    }
}
