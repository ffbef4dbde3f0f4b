//! Convolution of floats with one group and a 3×3 window over a large image, by Winograd's minimal filtering along the
//! width, F(4, 3): for each row of the window and each input channel, 4 adjacent results of a row take 6 products
//! instead of 12.
//!
//! The 6 input elements that 4 results read are transformed into 6 *points*. So are the 3 weights of a row of the
//! window, on the host. The products are summed point by point, and the sums are transformed into the 4 results. In
//! terms of polynomials, data and weights are evaluated at 0, ±√½, ±√2 and infinity, and multiplied there.
//!
//! With these points rounding errors are as small as those of plain sums. With the usual 0, ±1, ±2 they are several
//! times as large, and with Winograd along both axes ten times. The errors are relative to the largest of the 6
//! elements that are read together, where those of a plain sum are relative to the largest of the 3 that contribute. An
//! element that is a million times as large as its neighbours therefore costs digits in results that it does not
//! contribute to, and one that is infinite or NaN spoils all 4.
//!
//! Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016).

use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};
use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{Primitive, Scalar, Source, ValueId};

use super::supply::read_quads;
use super::tile::put;
use crate::kernel::{Kernel, MAX_GROUPS, Storage, lanes};
use crate::variants::Variant;
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::expression::literal;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "contract_winograd", takes_prologues: false, applies, cost, write };

/// Adjacent results that are computed together.
const RESULTS: usize = 4;

/// Input elements that they read, and points.
const POINTS: usize = 6;

/// Transforms the weights of a row of the window into points, scaled such that the data's transform needs no divisions.
fn points([a, b, c]: [f32; 3]) -> [f32; POINTS] {
    let at = |x: f64, scale: f64| ((f64::from(a) + x * (f64::from(b) + x * f64::from(c))) * scale) as f32;
    let near = [FRAC_1_SQRT_2, -FRAC_1_SQRT_2].map(|x| at(x, -2.0 / 3.0));
    let far = [SQRT_2, -SQRT_2].map(|x| at(x, 1.0 / 6.0));
    [a, near[0], near[1], far[0], far[1], c]
}

/// Output rows per invocation, which computes one point of each, for two vec4s of output channels.
const ROWS: usize = 4;

/// Rows and columns of the window.
const WINDOW: usize = 3;

/// Vec4s of output channels of all tiles in a row together: with fewer channels there are more tiles.
const WIDTH: usize = 32;

/// Work groups from which on a device is busy for several rounds. Other variants distribute smaller images better.
const ENOUGH_GROUPS: usize = 1000;

/// Minimum number of input and of output channels for which the transforms pay.
const ENOUGH_CHANNELS: usize = 16;

/// How the work is distributed over work groups. A device runs many work groups at a time only if each takes little
/// work-group memory. The filter, which all of them read, is therefore not staged but left to the device's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    /// Vec4s of output channels.
    quads: usize,
    /// Tiles of [`RESULTS`] adjacent results, side by side.
    tiles: usize,
    /// Vec4s of input channels that are staged at once.
    held: usize,
}

impl Tile {
    /// The tile for these numbers of vec4s of output and of input channels.
    fn new([quads, depth]: [usize; 2]) -> Self {
        let quads = quads.next_power_of_two().clamp(2, 8);
        let tiles = WIDTH / quads;
        let held = [4, 2, 1].into_iter().find(|held| held * tiles <= WIDTH / 2 && depth.is_multiple_of(*held));
        Self { quads, tiles, held: held.unwrap_or(1) }
    }

    fn of(context: &Context<'_>, kernel: &Kernel) -> Self {
        let filter = context.program.shape(kernel.inputs[1]);
        Self::new([filter[0], filter[3]].map(|channels| channels.div_ceil(4)))
    }

    fn invocations(&self) -> usize {
        POINTS * self.tiles * self.quads / 2
    }

    /// Vec4s of memory between two vec4s of input channels, such that simultaneous writes go to different memory banks.
    fn stride(&self) -> usize {
        (ROWS + WINDOW - 1) * POINTS * self.tiles + self.tiles / 2
    }

    /// Vec4s of work-group memory: the points of the data, later reused for those of half of the output rows.
    fn vectors(&self) -> usize {
        (self.held * self.stride()).max(POINTS * ROWS / 2 * self.tiles * self.quads)
    }

    /// Vec4s of the transformed filter for one vec4 of input channels.
    fn filter(&self) -> usize {
        WINDOW * 4 * POINTS * self.quads
    }

    /// Blocks of output channels.
    fn blocks(&self, outputs: usize) -> usize {
        outputs.div_ceil(4 * self.quads)
    }

    /// Vec4s that [`pack`] returns.
    fn packed(&self, outputs: usize, depth: usize) -> usize {
        self.blocks(outputs) * (self.quads + depth * self.filter())
    }
}

/// Work groups along the width, the height, and batch × channels.
fn groups(context: &Context<'_>, kernel: &Kernel) -> [usize; 3] {
    let (tile, output) = (Tile::of(context, kernel), context.program.shape(kernel.outputs[0]));
    [output[2].div_ceil(RESULTS * tile.tiles), output[1].div_ceil(ROWS), output[0] * tile.blocks(output[3])]
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Contract(contraction) = &kernel.primitive else { return false };
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let (filter, output) = (context.program.shape(kernel.inputs[1]), context.program.shape(kernel.outputs[0]));
    let is_real = context.program.value(kernel.inputs[0]).scalar == Scalar::F32;
    let is_plain = contraction.groups == 1 && !contraction.transposed;
    let is_dense = contraction.strides == [1, 1] && contraction.dilations == [1, 1];
    let has_elements = filter.elements() > 0 && output.elements() > 0;
    let fits = || {
        let vectors = Tile::of(context, kernel).packed(filter[0], filter[3].div_ceil(4));
        vectors * 16 <= context.limits.max_binding_bytes && groups(context, kernel).iter().all(|n| *n <= MAX_GROUPS)
    };
    // Transformed weights in f16 would be less exact than plain weights in f16.
    is_real
        && context.storages.packed() == Storage::F32
        && is_plain
        && is_dense
        && [filter[1], filter[2]] == [WINDOW; 2]
        && has_elements
        && kernel.inputs[1..].iter().all(constant)
        && fits()
}

fn cost(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let filter = context.program.shape(kernel.inputs[1]);
    let many = groups(context, kernel).iter().product::<usize>() >= ENOUGH_GROUPS;
    match context.limits.shares_sums {
        true if many && filter[0].min(filter[3]) >= ENOUGH_CHANNELS => 0,
        true => 45,
        false => 70,
    }
}

/// Bias, padded to whole blocks of output channels. Then the transformed filter, by block:
/// `[blocks][input channels, padded to a multiple of 4 × rows of the window][points][outputs of a block]`. In the
/// second index the rows of the window come between the vec4s of input channels and the channels of a vec4.
fn pack(context: &Context<'_>, kernel: &Kernel, tile: Tile) -> Arc<[f32]> {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, channels) = (shape[0], shape[3]);
    let (depth, block) = (channels.div_ceil(4), 4 * tile.quads);
    let filter = context.floats(kernel.inputs[1]);
    let mut packed = vec![0.0; 4 * tile.packed(outputs, depth)];
    if let Some(bias) = kernel.inputs.get(2) {
        packed[..outputs].copy_from_slice(&context.floats(*bias));
    }
    let (_, by_block) = packed.split_at_mut(block * tile.blocks(outputs));
    for output in 0..outputs {
        let start = output / block * depth * tile.filter() * 4 + output % block;
        for row in 0..WINDOW {
            for channel in 0..channels {
                let weight = |column| filter[((output * WINDOW + row) * WINDOW + column) * channels + channel];
                let line = (channel / 4 * WINDOW + row) * 4 + channel % 4;
                for (point, number) in points([weight(0), weight(1), weight(2)]).into_iter().enumerate() {
                    by_block[start + (line * POINTS + point) * block] = number;
                }
            }
        }
    }
    packed.into()
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("applies") };
    let [data, filter, output] =
        [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
    let tile = Tile::of(context, kernel);
    let mut writer = Writer::new(VARIANT.name, context);
    let weights = writer.packed(pack(context, kernel, tile), 4);
    read_quads(&mut writer, context, kernel);
    let out_lanes = if filter[0].is_multiple_of(4) { lanes(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, out_lanes);
    let Tile { quads, tiles, held } = tile;
    let half = quads / 2;
    let sizes = [data[3].div_ceil(4), filter[0].div_ceil(4), tile.blocks(filter[0]), filter[0]];
    let [depth, wide, blocks, outputs] = sizes.map(|extent| writer.param(extent));
    let [height, width, out_height, out_width] =
        [data[1], data[2], output[1], output[2]].map(|extent| writer.param(extent));
    let [top, left] = contraction.before.map(|before| writer.param(before));
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
        "    for (var q0 = 0u; q0 < {depth}; q0 += {held}u) {{
        workgroupBarrier();
{turned}        workgroupBarrier();
        for (var q = 0u; q < {held}u; q++) {{
            let line = q * {stride}u + point * {tiles}u + tile;
            let taps = {blocks} * {quads}u + (block * {depth} + q0 + q) * {filter}u + point * {quads}u + column;
{multiplied}        }}\n    }}\n",
        turned = turn(tile, [&height, &width]),
        stride = tile.stride(),
        filter = tile.filter(),
        multiplied = multiply(tile, |at| weights.reals(at)),
    );
    let bias = weights.reals("quad");
    for first in [0, ROWS / 2] {
        body += &exchange(tile, first);
        let _ = write!(
            body,
            "    if (local.x < {results}u) {{
        let place = local.x % {quads}u;
        let quad = block * {quads}u + place;
        let across = local.x / {quads}u % {tiles}u;
        let row = local.x / {WIDTH}u;
        let y = group.y * {ROWS}u + row + {first}u;
        let x = (group.x * {tiles}u + across) * {RESULTS}u;
        let at = (b * {out_height} + y) * {out_width} + x;
        if (quad < {wide} && y < {out_height}) {{
            let bias = {bias};
{made}",
            results = ROWS / 2 * WIDTH,
            made = make(tile),
        );
        for j in 0..RESULTS {
            let stored = put(out_lanes, &format!("(at + {j}u)"), &format!("y{j}"), &wide, &outputs);
            let _ = writeln!(body, "            if (x + {j}u < {out_width}) {{ {stored} }}");
        }
        body += "        }\n    }\n";
    }
    let declarations = format!("var<workgroup> memory: array<vec4<f32>, {}>;\n", tile.vectors());
    let groups = groups(context, kernel).map(|count| count as u32);
    vec![writer.finish([tile.invocations() as u32, 1, 1], groups, &declarations, &body)]
}

/// WGSL that transforms the input for the staged vec4s of channels into points: `memory[quad][row][point][tile]`.
fn turn(tile: Tile, [height, width]: [&str; 2]) -> String {
    let Tile { tiles, held, .. } = tile;
    let mut text = format!(
        "        if (local.x < {places}u) {{
            let q = local.x % {held}u;
            let across = local.x / {held}u % {tiles}u;
            let row = local.x / {line}u;
            let x = near_x + i32(across * {RESULTS}u);
            let y = near_y + i32(row);
            let is_row = y >= 0 && y < i32({height});
            let start = (i32(b * {height}) + clamp(y, 0, i32({height}) - 1)) * i32({width});\n",
        places = held * tiles * (ROWS + WINDOW - 1),
        line = held * tiles,
    );
    for j in 0..POINTS {
        let _ = writeln!(
            text,
            "            let at{j} = u32(start + clamp(x + {j}, 0, i32({width}) - 1));
            let d{j} = select(vec4<f32>(), quad_at(at{j}, q0 + q), is_row && x + {j} >= 0 && x + {j} < i32({width}));"
        );
    }
    let [near, far] = [FRAC_1_SQRT_2, SQRT_2].map(|x| literal(x as f32));
    let _ = write!(
        text,
        "            let near = d4 - 2.0 * d2;
            let near_odd = {near} * (d3 - 2.0 * d1);
            let far = d4 - 0.5 * d2;
            let far_odd = {far} * (d3 - 0.5 * d1);
            let place = q * {stride}u + row * {row}u + across;\n",
        stride = tile.stride(),
        row = POINTS * tiles,
    );
    let turned = ["d0 - 2.5 * d2 + d4", "near + near_odd", "near - near_odd", "far + far_odd", "far - far_odd"];
    for (point, value) in turned.into_iter().chain(["d1 - 2.5 * d3 + d5"]).enumerate() {
        let _ = writeln!(text, "            memory[place + {}u] = {value};", point * tiles);
    }
    text + "        }\n"
}

/// WGSL that adds the products of one vec4 of input channels to the sums. `read` returns the WGSL that loads a vec4 of
/// the packed filter.
fn multiply(tile: Tile, read: impl Fn(&str) -> String) -> String {
    let Tile { quads, tiles, .. } = tile;
    let mut text = String::new();
    for r in 0..ROWS + WINDOW - 1 {
        let _ = writeln!(text, "            let v{r} = memory[line + {}u];", r * POINTS * tiles);
    }
    for i in 0..WINDOW {
        for (k, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let place = (i * 4 + k) * POINTS * quads;
            for n in 0..2 {
                let weight = read(&format!("taps + {}u", place + n * quads / 2));
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

/// WGSL that writes the sums of half of the rows to where [`make`] reads them: `memory[point][row][tile][quad]`.
/// Adjacent tiles order their vec4s differently, so that these are in different memory banks.
fn exchange(tile: Tile, first: usize) -> String {
    let Tile { quads, tiles, .. } = tile;
    let half = quads / 2;
    let mut text = "    workgroupBarrier();\n".to_owned();
    for (r, n) in (0..ROWS / 2).flat_map(|r| [(r, 0), (r, 1)]) {
        let _ = writeln!(
            text,
            "    memory[((point * {rows}u + {r}u) * {tiles}u + tile) * {quads}u + ((column + {at}u) ^ (tile % 2u * {half}u))] = sum{row}_{n};",
            rows = ROWS / 2,
            at = n * half,
            row = first + r,
        );
    }
    text + "    workgroupBarrier();\n"
}

/// WGSL that transforms the sums of one tile and vec4 of output channels into the results `y0`, `y1`, ….
fn make(tile: Tile) -> String {
    let Tile { quads, tiles, .. } = tile;
    let mut text = format!(
        "            let start = (row * {tiles}u + across) * {quads}u + (place ^ (across % 2u * {}u));\n",
        quads / 2
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
        assert_eq!(Tile::new([8, 8]), Tile { quads: 8, tiles: 4, held: 4 });
        assert_eq!(Tile::new([3, 6]), Tile { quads: 4, tiles: 8, held: 2 });
        assert_eq!(Tile::new([1, 3]), Tile { quads: 2, tiles: 16, held: 1 });
        for (quads, depth) in (1..20).flat_map(|quads| (1..20).map(move |depth| (quads, depth))) {
            let tile = Tile::new([quads, depth]);
            assert_eq!(tile.invocations(), 96);
            assert!(tile.held * tile.tiles * (ROWS + WINDOW - 1) <= tile.invocations());
            assert!(ROWS / 2 * tile.tiles * tile.quads <= tile.invocations() && tile.vectors() * 16 <= 16384);
        }
    }
}
