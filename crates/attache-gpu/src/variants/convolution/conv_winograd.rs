//! Variant `conv_winograd`: convolution of floats with one group and a 3×3 window over a large image, by
//! Winograd's minimal filtering along the width, F(4, 3): for each row of the window and each input channel,
//! 4 adjacent results of a row take 6 products instead of 12.
//!
//! The 6 input elements that 4 results read are transformed into 6 values, called *points* here. So are the 3
//! weights of a row of the window, on the CPU when the filter is packed. The products are summed point by
//! point, and the sums are transformed into the 4 results. In terms of polynomials, data and weights are
//! evaluated at 0, ±√½, ±√2 and infinity, and multiplied there.
//!
//! With these points rounding errors are as small as those of plain sums. With the usual 0, ±1, ±2 they are
//! several times as large, and with Winograd along both axes ten times. The errors are relative to the
//! largest of the 6 elements that are read together, whereas those of a plain sum are relative to the largest
//! of the 3 elements that contribute. An element that is a million times as large as its neighbours therefore
//! costs digits in results that it does not contribute to, and one that is infinite or NaN spoils all 4
//! results.
//!
//! Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{Primitive, Scalar, Source, ValueId};

use super::input_loader::read_vec4s;
use super::tiling::put;
use crate::kernel::{Kernel, MAX_GROUPS, StorageFormat, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::expression::literal;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_winograd", computes: Computes::Nothing, applies, priority, write };

/// Number of adjacent results of a row that are computed together.
const RESULTS: usize = 4;

/// Number of input elements that [`RESULTS`] adjacent results read, and of points.
const POINTS: usize = 6;

/// Transforms the 3 weights of a row of the window into 6 points, scaled such that the data's transform needs
/// no divisions.
fn points([a, b, c]: [f32; 3]) -> [f32; POINTS] {
    let at = |x: f64, scale: f64| ((f64::from(a) + x * (f64::from(b) + x * f64::from(c))) * scale) as f32;
    let near = [FRAC_1_SQRT_2, -FRAC_1_SQRT_2].map(|x| at(x, -2.0 / 3.0));
    let far = [SQRT_2, -SQRT_2].map(|x| at(x, 1.0 / 6.0));
    [a, near[0], near[1], far[0], far[1], c]
}

/// Number of output rows per invocation, which computes one point of each, for two vec4s of output channels.
const ROWS: usize = 4;

/// Number of rows and of columns of the window.
const WINDOW: usize = 3;

/// Number of tiles of a work group times its vec4s of output channels: the fewer output channels, the more
/// tiles.
const WIDTH: usize = 32;

/// Minimum number of work groups for which this variant is preferred: a device is then busy for several
/// rounds. Other variants distribute smaller images better.
const ENOUGH_GROUPS: usize = 1000;

/// Minimum number of input and of output channels for which the transforms pay off.
const ENOUGH_CHANNELS: usize = 16;

/// How the results are distributed over work groups. A device runs many work groups at a time only if each
/// takes little work-group memory. The filter, which all of them read, is therefore not staged but left to
/// the device's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Number of vec4s of output channels of a work group, at least 2.
    vec4s: usize,
    /// Number of tiles of [`RESULTS`] adjacent results, side by side along a row.
    tiles: usize,
    /// Number of vec4s of input channels that are staged at once.
    staged: usize,
}

impl Tiling {
    /// Chooses the tiling for these numbers of vec4s of output channels and of input channels.
    fn new([vec4s, depth]: [usize; 2]) -> Self {
        let vec4s = vec4s.next_power_of_two().clamp(2, 8);
        let tiles = WIDTH / vec4s;
        let staged = [4, 2, 1].into_iter().find(|staged| staged * tiles <= WIDTH / 2 && depth.is_multiple_of(*staged));
        Self { vec4s, tiles, staged: staged.unwrap_or(1) }
    }

    fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let filter = context.program.shape(kernel.inputs[1]);
        Self::new([filter[0], filter[3]].map(|channels| channels.div_ceil(4)))
    }

    fn invocations(&self) -> usize {
        POINTS * self.tiles * self.vec4s / 2
    }

    /// Returns the number of vec4s of work-group memory between two staged vec4s of input channels, such that
    /// simultaneous writes go to different memory banks.
    fn stride(&self) -> usize {
        (ROWS + WINDOW - 1) * POINTS * self.tiles + self.tiles / 2
    }

    /// Returns the number of vec4s of work-group memory: the points of the data, later reused for the sums of
    /// half of the output rows.
    fn vectors(&self) -> usize {
        (self.staged * self.stride()).max(POINTS * ROWS / 2 * self.tiles * self.vec4s)
    }

    /// Returns the number of vec4s of the transformed filter for one vec4 of input channels and one block of
    /// output channels.
    fn filter(&self) -> usize {
        WINDOW * 4 * POINTS * self.vec4s
    }

    /// Returns the number of blocks of output channels, each of `vec4s` vec4s, for `outputs` output channels.
    fn blocks(&self, outputs: usize) -> usize {
        outputs.div_ceil(4 * self.vec4s)
    }

    /// Returns the number of vec4s that [`pack`] returns, for `outputs` output channels and `depth` vec4s of
    /// input channels.
    fn packed(&self, outputs: usize, depth: usize) -> usize {
        self.blocks(outputs) * (self.vec4s + depth * self.filter())
    }
}

/// Returns the number of work groups along the width, the height, and batch × blocks of output channels.
fn groups(context: &Context<'_>, kernel: &Kernel) -> [usize; 3] {
    let (tiling, output) = (Tiling::of(context, kernel), context.program.shape(kernel.outputs[0]));
    [output[2].div_ceil(RESULTS * tiling.tiles), output[1].div_ceil(ROWS), output[0] * tiling.blocks(output[3])]
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let (filter, output) = (context.program.shape(kernel.inputs[1]), context.program.shape(kernel.outputs[0]));
    let is_float = context.program.value(kernel.inputs[0]).scalar == Scalar::F32;
    let is_plain = convolution.groups == 1 && !convolution.transposed;
    let is_dense = convolution.strides == [1, 1] && convolution.dilations == [1, 1];
    let has_elements = filter.elements() > 0 && output.elements() > 0;
    let fits = || {
        let vectors = Tiling::of(context, kernel).packed(filter[0], filter[3].div_ceil(4));
        vectors * 16 <= context.limits.max_binding_bytes && groups(context, kernel).iter().all(|n| *n <= MAX_GROUPS)
    };
    // Transformed weights in f16 would be less exact than plain weights in f16.
    is_float
        && context.storages.packed() == StorageFormat::F32
        && is_plain
        && is_dense
        && [filter[1], filter[2]] == [WINDOW; 2]
        && has_elements
        && kernel.inputs[1..].iter().all(constant)
        && fits()
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let filter = context.program.shape(kernel.inputs[1]);
    let many = groups(context, kernel).iter().product::<usize>() >= ENOUGH_GROUPS;
    match context.limits.splits_k {
        true if many && filter[0].min(filter[3]) >= ENOUGH_CHANNELS => 0,
        true => 45,
        false => 70,
    }
}

/// Packs the bias, padded to whole blocks of output channels, then the transformed filter, by block:
/// `[blocks][input channels, padded to a multiple of 4 × rows of the window][points][outputs of a block]`.
/// The second index consists of the vec4 of input channels, the row of the window and the channel in the
/// vec4, outermost first.
fn pack(context: &Context<'_>, kernel: &Kernel, tiling: Tiling) -> Arc<[f32]> {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, channels) = (shape[0], shape[3]);
    let (depth, block) = (channels.div_ceil(4), 4 * tiling.vec4s);
    let filter = context.floats(kernel.inputs[1]);
    let mut packed = vec![0.0; 4 * tiling.packed(outputs, depth)];
    if let Some(bias) = kernel.inputs.get(2) {
        packed[..outputs].copy_from_slice(&context.floats(*bias));
    }
    let (_, by_block) = packed.split_at_mut(block * tiling.blocks(outputs));
    for output in 0..outputs {
        let start = output / block * depth * tiling.filter() * 4 + output % block;
        for row in 0..WINDOW {
            for channel in 0..channels {
                let weight = |column| filter[((output * WINDOW + row) * WINDOW + column) * channels + channel];
                let line = (channel / 4 * WINDOW + row) * 4 + channel % 4;
                for (point, weight) in points([weight(0), weight(1), weight(2)]).into_iter().enumerate() {
                    by_block[start + (line * POINTS + point) * block] = weight;
                }
            }
        }
    }
    packed.into()
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let [data, filter, output] =
        [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
    let tiling = Tiling::of(context, kernel);
    let mut writer = Writer::new(VARIANT.name, context);
    let weights = writer.packed(pack(context, kernel, tiling), 4);
    read_vec4s(&mut writer, context, kernel);
    let out_vector_width = if filter[0].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, out_vector_width);
    let Tiling { vec4s, tiles, staged } = tiling;
    let half = vec4s / 2;
    let sizes = [data[3].div_ceil(4), filter[0].div_ceil(4), tiling.blocks(filter[0]), filter[0]];
    let [depth, wide, blocks, outputs] = sizes.map(|extent| writer.param(extent));
    let [height, width, out_height, out_width] =
        [data[1], data[2], output[1], output[2]].map(|extent| writer.param(extent));
    let [top, left] = convolution.before.map(|before| writer.param(before));
    let mut body = format!(
        "    let column = local.x % {half}u;
    let tile = local.x / {half}u % {tiles}u;
    let point = local.x / {line}u;
    let block = group.z % {blocks};
    let b = group.z / {blocks};
    let near_x = i32(group.x * {across}u) - i32({left});
    let near_y = i32(group.y * {ROWS}u) - i32({top});\n",
        line = half * tiles,
        across = RESULTS * tiles,
    );
    for r in 0..ROWS {
        let _ = writeln!(body, "    var sum{r}_0 = vec4<f32>();\n    var sum{r}_1 = vec4<f32>();");
    }
    let _ = write!(
        body,
        "    for (var q0 = 0u; q0 < {depth}; q0 += {staged}u) {{
        workgroupBarrier();
{transformed}        workgroupBarrier();
        for (var q = 0u; q < {staged}u; q++) {{
            let line = q * {stride}u + point * {tiles}u + tile;
            let taps = {blocks} * {vec4s}u + (block * {depth} + q0 + q) * {filter}u + point * {vec4s}u + column;
{multiplied}        }}\n    }}\n",
        transformed = transform_input(tiling, [&height, &width]),
        stride = tiling.stride(),
        filter = tiling.filter(),
        multiplied = multiply(tiling, |at| weights.floats(at)),
    );
    let bias = weights.floats("vector");
    for first in [0, ROWS / 2] {
        body += &exchange(tiling, first);
        let _ = write!(
            body,
            "    if (local.x < {results}u) {{
        let index = local.x % {vec4s}u;
        let vector = block * {vec4s}u + index;
        let across = local.x / {vec4s}u % {tiles}u;
        let row = local.x / {WIDTH}u;
        let y = group.y * {ROWS}u + row + {first}u;
        let x = (group.x * {tiles}u + across) * {RESULTS}u;
        let at = (b * {out_height} + y) * {out_width} + x;
        if (vector < {wide} && y < {out_height}) {{
            let bias = {bias};
{transformed}",
            results = ROWS / 2 * WIDTH,
            transformed = transform_output(tiling),
        );
        for j in 0..RESULTS {
            let stored = put(out_vector_width, &format!("(at + {j}u)"), &format!("y{j}"), &wide, &outputs);
            let _ = writeln!(body, "            if (x + {j}u < {out_width}) {{ {stored} }}");
        }
        body += "        }\n    }\n";
    }
    let declarations = format!("var<workgroup> memory: array<vec4<f32>, {}>;\n", tiling.vectors());
    let groups = groups(context, kernel).map(|count| count as u32);
    vec![writer.finish([tiling.invocations() as u32, 1, 1], groups, &declarations, &body)]
}

/// Returns WGSL that transforms the input for the staged vec4s of channels into points and writes them to
/// work-group memory: `memory[vec4 of channels][row][point][tile]`.
fn transform_input(tiling: Tiling, [height, width]: [&str; 2]) -> String {
    let Tiling { tiles, staged, .. } = tiling;
    let mut text = format!(
        "        if (local.x < {loads}u) {{
            let q = local.x % {staged}u;
            let across = local.x / {staged}u % {tiles}u;
            let row = local.x / {line}u;
            let x = near_x + i32(across * {RESULTS}u);
            let y = near_y + i32(row);
            let is_row = y >= 0 && y < i32({height});
            let start = (i32(b * {height}) + clamp(y, 0, i32({height}) - 1)) * i32({width});\n",
        loads = staged * tiles * (ROWS + WINDOW - 1),
        line = staged * tiles,
    );
    for j in 0..POINTS {
        let _ = writeln!(
            text,
            "            let at{j} = u32(start + clamp(x + {j}, 0, i32({width}) - 1));
            let d{j} = select(vec4<f32>(), vec4_at(at{j}, q0 + q), is_row && x + {j} >= 0 && x + {j} < i32({width}));"
        );
    }
    let [near, far] = [FRAC_1_SQRT_2, SQRT_2].map(|x| literal(x as f32));
    let _ = write!(
        text,
        "            let near = d4 - 2.0 * d2;
            let near_odd = {near} * (d3 - 2.0 * d1);
            let far = d4 - 0.5 * d2;
            let far_odd = {far} * (d3 - 0.5 * d1);
            let index = q * {stride}u + row * {row}u + across;\n",
        stride = tiling.stride(),
        row = POINTS * tiles,
    );
    let transformed = ["d0 - 2.5 * d2 + d4", "near + near_odd", "near - near_odd", "far + far_odd", "far - far_odd"];
    for (point, value) in transformed.into_iter().chain(["d1 - 2.5 * d3 + d5"]).enumerate() {
        let _ = writeln!(text, "            memory[index + {}u] = {value};", point * tiles);
    }
    text + "        }\n"
}

/// Returns WGSL that adds the products of one vec4 of input channels to the sums. `read` returns the WGSL
/// that loads a vec4 of the packed filter.
fn multiply(tiling: Tiling, read: impl Fn(&str) -> String) -> String {
    let Tiling { vec4s, tiles, .. } = tiling;
    let mut text = String::new();
    for r in 0..ROWS + WINDOW - 1 {
        let _ = writeln!(text, "            let v{r} = memory[line + {}u];", r * POINTS * tiles);
    }
    for i in 0..WINDOW {
        for (k, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let index = (i * 4 + k) * POINTS * vec4s;
            for n in 0..2 {
                let weight = read(&format!("taps + {}u", index + n * vec4s / 2));
                let _ = writeln!(text, "            let w{i}_{k}_{n} = {weight};");
            }
            for (r, n) in (0..ROWS).flat_map(|r| [(r, 0), (r, 1)]) {
                let from = r + i;
                let _ = writeln!(
                    text,
                    "            sum{r}_{n} = fma(vec4<f32>(v{from}.{part}), w{i}_{k}_{n}, sum{r}_{n});"
                );
            }
        }
    }
    text
}

/// Returns WGSL that writes the sums of half of the output rows, those from `first` on, to work-group memory,
/// from where [`transform_output`] reads them: `memory[point][row][tile][vec4 of outputs]`. Adjacent tiles
/// order their vec4s differently, so that these are in different memory banks.
fn exchange(tiling: Tiling, first: usize) -> String {
    let Tiling { vec4s, tiles, .. } = tiling;
    let half = vec4s / 2;
    let mut text = "    workgroupBarrier();\n".to_owned();
    for (r, n) in (0..ROWS / 2).flat_map(|r| [(r, 0), (r, 1)]) {
        let _ = writeln!(
            text,
            "    memory[((point * {rows}u + {r}u) * {tiles}u + tile) * {vec4s}u + ((column + {at}u) ^ (tile % 2u * {half}u))] = sum{row}_{n};",
            rows = ROWS / 2,
            at = n * half,
            row = first + r,
        );
    }
    text + "    workgroupBarrier();\n"
}

/// Returns WGSL that transforms the sums of one tile and one vec4 of output channels into the results `y0`,
/// `y1`, ….
fn transform_output(tiling: Tiling) -> String {
    let Tiling { vec4s, tiles, .. } = tiling;
    let mut text = format!(
        "            let start = (row * {tiles}u + across) * {vec4s}u + (index ^ (across % 2u * {}u));\n",
        vec4s / 2
    );
    for point in 0..POINTS {
        let _ = writeln!(text, "            let m{point} = memory[start + {}u];", point * ROWS / 2 * WIDTH);
    }
    let [near, far, near_cubed, far_cubed] =
        [FRAC_1_SQRT_2, SQRT_2, FRAC_1_SQRT_2 / 2.0, SQRT_2 * 2.0].map(|x| literal(x as f32));
    text + &format!(
        "            let near = m1 + m2;
            let near_odd = m1 - m2;
            let far = m3 + m4;
            let far_odd = m3 - m4;
            let y0 = m0 + near + far;
            let y1 = {near} * near_odd + {far} * far_odd;
            let y2 = 0.5 * near + 2.0 * far;
            let y3 = {near_cubed} * near_odd + {far_cubed} * far_odd + m5;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_alike_whatever_the_channels() {
        assert_eq!(Tiling::new([8, 8]), Tiling { vec4s: 8, tiles: 4, staged: 4 });
        assert_eq!(Tiling::new([3, 6]), Tiling { vec4s: 4, tiles: 8, staged: 2 });
        assert_eq!(Tiling::new([1, 3]), Tiling { vec4s: 2, tiles: 16, staged: 1 });
        for (vec4s, depth) in (1..20).flat_map(|vec4s| (1..20).map(move |depth| (vec4s, depth))) {
            let tiling = Tiling::new([vec4s, depth]);
            assert_eq!(tiling.invocations(), 96);
            assert!(tiling.staged * tiling.tiles * (ROWS + WINDOW - 1) <= tiling.invocations());
            assert!(ROWS / 2 * tiling.tiles * tiling.vec4s <= tiling.invocations() && tiling.vectors() * 16 <= 16384);
        }
    }
}
