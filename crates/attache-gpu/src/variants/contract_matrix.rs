//! A contraction of one group with a constant filter on cooperative matrices: the invocations of a subgroup multiply 16
//! positions × 16 channels of the data by 16 × 16 weights together, in binary16 with sums in binary32.
//!
//! A work group brings a tile of the image, with the margin that the window needs, into its memory once for some channels,
//! and reads it there for every tap: 16 neighbouring positions of a row are a matrix's rows, and those of the next tap
//! start one position further. A row of data serves every row of results whose window covers it. Where each result reads one
//! position only, positions count as an image 16 wide.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{Contraction, Primitive, Source, ValueId};

use super::Variant;
use super::tile::put;
use crate::access::{lanes, store_anywhere};
use crate::array::Array;
use crate::context::Context;
use crate::fuse::Kernel;
use crate::limits::MAX_GROUPS;
use crate::shader::{Shader, Writer};
use crate::storage::Storage;

pub(super) const VARIANT: Variant = Variant { name: "contract_matrix", takes_prologues: false, applies, cost, write };

/// Rows and columns of a matrix.
const SIDE: usize = 16;

/// Invocations of a subgroup.
const SUBGROUP: usize = 32;

/// Channels of the data that an invocation brings into memory at once, in two vectors.
const EIGHT: usize = 8;

/// Rows that a window may have: each adds to the matrices that an invocation holds.
const MAX_ROWS: usize = 5;

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Contract(contraction) = &kernel.primitive else { return false };
    let [data, filter, output] =
        [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
    let constant = |id: &ValueId| matches!(context.program.value(*id).source, Source::Constant(_));
    let is_view = context.views.iter().any(|view| view.value == kernel.inputs[0]);
    let halves = [context.storages.of(kernel.inputs[0]), context.storages.packed()] == [Storage::Half; 2];
    context.limits.cooperative_matrices
        && halves
        && !is_view
        && contraction.groups == 1
        && !contraction.transposed
        && kernel.inputs[1..].iter().all(constant)
        && data[3].is_multiple_of(EIGHT)
        && filter[0] >= SIDE / 2
        && filter[1] <= MAX_ROWS
        && data.elements() > 0
        && filter.elements() > 0
        && output.elements() > 0
        && fits(context, &Spread::new(context, kernel))
}

/// A tile with margins brings in what a window of one tap that skips positions never reads, and a few positions leave most rows
/// of a matrix empty.
fn cost(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("applies") };
    let filter = context.program.shape(kernel.inputs[1]);
    let positions: usize = context.program.shape(kernel.outputs[0])[..3].iter().product();
    let skips = filter[1..3] == [1, 1] && contraction.strides != [1, 1];
    if skips || positions < SIDE / 2 { 10 } else { 0 }
}

fn fits(context: &Context<'_>, spread: &Spread) -> bool {
    spread.weights() * 2 <= context.limits.max_binding_bytes
        && spread.bytes() <= context.limits.work_group_bytes
        && spread.tile.subgroups() * SUBGROUP <= context.limits.max_invocations
        && spread.groups().iter().all(|count| *count <= MAX_GROUPS)
}

/// How a tile is spread over the subgroups of a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    /// Rows of 16 positions of a subgroup.
    rows: usize,
    /// Matrices of 16 output channels of a subgroup.
    blocks: usize,
    /// Subgroups along the image's rows and columns, and along the output channels.
    down: usize,
    across: usize,
    wide: usize,
    /// Subgroups that share the products of one result.
    shares: usize,
    /// Matrices of 16 channels of the data that are held at once.
    chunk: usize,
}

/// What there is to compute, and in which tiles.
struct Spread {
    tile: Tile,
    window: Window,
    /// Images, and their rows and columns of results.
    images: usize,
    output: [usize; 2],
    /// Matrices of 16 channels of the data, and of the output.
    depth: usize,
    outputs: usize,
}

/// The taps, each at `result × stride + tap × dilation`, rows before columns.
#[derive(Clone, Copy)]
struct Window {
    taps: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    before: [usize; 2],
    /// Whether result `p` reads position `p`, and no other.
    pointwise: bool,
}

impl Window {
    fn new(contraction: &Contraction, data: &[usize], filter: &[usize]) -> Self {
        let Contraction { strides, dilations, before, .. } = *contraction;
        let pointwise = contraction.is_pointwise(data, filter);
        Self { taps: [filter[1], filter[2]], strides, dilations, before, pointwise }
    }

    /// Positions that so many results in a row cover along an axis.
    fn span(&self, axis: usize, results: usize) -> usize {
        let moves = (results - 1).saturating_mul(self.strides[axis]);
        let reaches = self.taps[axis].saturating_sub(1).saturating_mul(self.dilations[axis]);
        moves.saturating_add(reaches).saturating_add(1)
    }
}

impl Tile {
    fn subgroups(&self) -> usize {
        self.down * self.across * self.wide * self.shares
    }

    /// Rows and columns of results.
    fn results(&self) -> [usize; 2] {
        [self.rows * self.down, SIDE * self.across]
    }

    /// Matrices of output channels.
    fn outputs(&self) -> usize {
        self.blocks * self.wide
    }
}

/// Tiles in the order in which they are tried, as rows, blocks, down, across, wide, shares and chunk: the first that makes
/// enough work groups, else the last.
const WINDOWS: [[usize; 7]; 4] =
    [[4, 1, 2, 2, 2, 1, 4], [4, 2, 1, 1, 2, 2, 4], [4, 1, 1, 1, 1, 4, 4], [2, 1, 1, 1, 1, 8, 8]];

/// The same where each result reads one position.
const POINTS: [[usize; 7]; 3] = [[1, 2, 2, 1, 2, 1, 4], [1, 2, 1, 1, 1, 8, 16], [1, 1, 1, 1, 1, 8, 16]];

/// Work groups from which on a large device is busy.
const ENOUGH_GROUPS: usize = 100;

impl Spread {
    fn new(context: &Context<'_>, kernel: &Kernel) -> Self {
        let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("a contraction has a window") };
        let [data, filter, output] =
            [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
        let window = Window::new(contraction, data, filter);
        let (images, output) = match window.pointwise {
            true => (1, [output[..3].iter().product::<usize>().div_ceil(SIDE), SIDE]),
            false => (output[0], [output[1], output[2]]),
        };
        let (depth, outputs) = (data[3].div_ceil(SIDE), filter[0].div_ceil(SIDE));
        let choices = if window.pointwise { &POINTS[..] } else { &WINDOWS[..] };
        let spreads = choices.iter().map(|[rows, blocks, down, across, wide, shares, chunk]| {
            let tile = Tile {
                rows: *rows,
                blocks: *blocks,
                down: *down,
                across: *across,
                wide: *wide,
                shares: *shares,
                chunk: depth.min(*chunk),
            };
            Self { tile, window, images, output, depth, outputs }
        });
        let is_busy = |spread: &Self| spread.groups().iter().product::<usize>() >= ENOUGH_GROUPS;
        let fitting: Vec<Self> = spreads.map(|spread| spread.within(context.limits.work_group_bytes)).collect();
        let last = fitting.len() - 1;
        let best = fitting.iter().position(is_busy).unwrap_or(last);
        fitting.into_iter().nth(best).expect("a position of the list")
    }

    /// With as few channels held at once as so many bytes of memory ask for.
    fn within(mut self, bytes: usize) -> Self {
        while self.bytes() > bytes && self.tile.chunk > 1 {
            self.tile.chunk = self.tile.chunk.div_ceil(2);
        }
        self
    }

    /// Work groups along columns, rows of all images, and output channels.
    fn groups(&self) -> [usize; 3] {
        let [_, columns] = self.tile.results();
        [self.output[1].div_ceil(columns), self.down() * self.images, self.outputs.div_ceil(self.tile.outputs())]
    }

    /// Tiles down an image.
    fn down(&self) -> usize {
        self.output[0].div_ceil(self.tile.results()[0])
    }

    /// Rows and columns of the data under a tile.
    fn under(&self) -> [usize; 2] {
        let [rows, columns] = self.tile.results();
        [self.window.span(0, rows), self.window.span(1, columns)]
    }

    /// Vectors of 4 numbers of binary16 from one position of the data to the next: two more than there are, so that
    /// neighbours lie in different banks.
    fn stride(&self) -> usize {
        self.tile.chunk * SIDE / 4 + 2
    }

    /// Vectors of memory for the data.
    fn vectors(&self) -> usize {
        self.under().iter().fold(self.stride(), |product, extent| product.saturating_mul(*extent))
    }

    /// Vectors of memory for the sums of one matrix of each subgroup.
    fn sums(&self) -> usize {
        self.tile.subgroups() * SIDE * SIDE / 4
    }

    fn bytes(&self) -> usize {
        self.vectors().saturating_mul(8).saturating_add(self.sums() * 16)
    }

    /// Output channels, padded to whole blocks of a work group.
    fn padded_outputs(&self) -> usize {
        self.groups()[2] * self.tile.outputs() * SIDE
    }

    /// Numbers of the packed bias and filter.
    fn weights(&self) -> usize {
        let [rows, columns] = self.window.taps;
        self.padded_outputs() * (1 + rows * columns * self.depth * SIDE)
    }

    /// Bias, then the filter as matrices, filled up with zeros:
    /// `[outputs / 16][height × width][channels / 16][16 channels][16 outputs]`.
    fn pack(&self, context: &Context<'_>, kernel: &Kernel) -> Arc<[f32]> {
        let shape = context.program.shape(kernel.inputs[1]);
        let (taps, channels) = (shape[1] * shape[2], shape[3]);
        let mut packed = vec![0.0; self.weights()];
        if let Some(bias) = kernel.inputs.get(2) {
            packed[..shape[0]].copy_from_slice(&context.floats(*bias));
        }
        let filter = &mut packed[self.padded_outputs()..];
        for (row, weights) in context.floats(kernel.inputs[1]).chunks_exact(channels.max(1)).enumerate() {
            let (output, tap) = (row / taps, row % taps);
            let start = (output / SIDE * taps + tap) * self.depth;
            for (channel, weight) in weights.iter().enumerate() {
                let matrix = (start + channel / SIDE) * SIDE * SIDE;
                filter[matrix + channel % SIDE * SIDE + output % SIDE] = *weight;
            }
        }
        packed.into()
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let spread = Spread::new(context, kernel);
    let mut writer = Writer::new(VARIANT.name, context);
    writer.use_matrices();
    let data = writer.read(kernel.inputs[0], 4);
    let weights = writer.packed(spread.pack(context, kernel), 4);
    let tile = spread.tile;
    let Tile { rows, blocks, down, across, wide, .. } = tile;
    let [tile_rows, tile_columns] = tile.results();
    let tiles_down = writer.param(spread.down());
    let mut body = format!(
        "    let subgroup = local.x / {SUBGROUP}u;
    let sx = subgroup % {across}u;
    let sy = subgroup / {across}u % {down}u;
    let sn = subgroup / {each}u % {wide}u;
    let share = subgroup / {layer}u;
    let left = group.x * {tile_columns}u;
    let top = group.y % {tiles_down} * {tile_rows}u;
    let image = group.y / {tiles_down};
    let block = group.z * {outputs}u + sn * {blocks}u;\n",
        each = across * down,
        layer = across * down * wide,
        outputs = tile.outputs(),
    );
    for (row, block) in pairs(rows, blocks) {
        let _ = writeln!(body, "    var sum{row}_{block} = coop_mat{SIDE}x{SIDE}<f32, C>();");
    }
    let [depth, filter] = [spread.depth, spread.padded_outputs() / 4].map(|number| writer.param(number));
    let meeting = if spread.depth > tile.chunk { "        workgroupBarrier();\n" } else { "" };
    let _ = write!(
        body,
        "    for (var chunk = 0u; chunk < {depth}; chunk += {}u) {{\n{meeting}{}        workgroupBarrier();\n{}    }}\n",
        tile.chunk,
        spread.bring(&mut writer, context, kernel, &data),
        spread.multiply([&depth, &filter], &weights),
    );
    body += &spread.hand_out(&mut writer, context, kernel, &weights);
    let declarations = format!(
        "var<workgroup> tile: array<vec4<f16>, {}>;\nvar<workgroup> sums: array<vec4<f32>, {}>;\n",
        spread.vectors(),
        spread.sums()
    );
    let invocations = (SUBGROUP * tile.subgroups()) as u32;
    vec![writer.finish([invocations, 1, 1], spread.groups().map(|count| count as u32), &declarations, &body)]
}

/// Every pair of numbers below two bounds.
fn pairs(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

impl Spread {
    /// WGSL that brings the data under the tile into memory, from matrix `chunk` of its channels on; what is beyond the
    /// image or the channels is 0.
    fn bring(&self, writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, data: &Array) -> String {
        let shape = context.program.shape(kernel.inputs[0]);
        let [under_rows, under_columns] = self.under();
        let (eights, stride) = (self.tile.chunk * SIDE / EIGHT, self.stride());
        let all_eights = writer.param(shape[3] / EIGHT);
        let place = if self.window.pointwise {
            let positions = writer.param(shape[..3].iter().product());
            format!(
                "            let origin = top * {SIDE}u + place;
            let is_inside = origin < {positions};\n"
            )
        } else {
            let [sy, sx] = self.window.strides;
            let [height, width] = [1, 2].map(|axis| writer.param(shape[axis]));
            let [above, before] = self.window.before.map(|before| writer.param(before));
            format!(
                "            let y = i32(top * {sy}u + place / {under_columns}u) - i32({above});
            let x = i32(left * {sx}u + place % {under_columns}u) - i32({before});
            let is_inside = y >= 0 && x >= 0 && y < i32({height}) && x < i32({width});
            let origin = u32((i32(image * {height}) + y) * i32({width}) + x);\n"
            )
        };
        format!(
            "        for (var at = local.x; at < {count}u; at += {invocations}u) {{
            let place = at / {eights}u;
            let eight = chunk * {per_matrix}u + at % {eights}u;
{place}            var first = vec4<f16>();
            var second = vec4<f16>();
            if (is_inside && eight < {all_eights}) {{
                first = {first};
                second = {second};
            }}
            let to = place * {stride}u + at % {eights}u * 2u;
            tile[to] = first;
            tile[to + 1u] = second;
        }}\n",
            first = data.word(&format!("(origin * {all_eights} + eight) * 2u")),
            second = data.word(&format!("(origin * {all_eights} + eight) * 2u + 1u")),
            count = under_rows * under_columns * eights,
            invocations = SUBGROUP * self.tile.subgroups(),
            per_matrix = SIDE / EIGHT,
        )
    }

    /// WGSL that adds the products of what is in memory. Columns of taps and matrices of channels are shared out; rows of
    /// taps are written out, so that each matrix of data is read once.
    fn multiply(&self, [depth, filter]: [&str; 2], weights: &Array) -> String {
        let Tile { rows, blocks, chunk, shares, .. } = self.tile;
        let Window { taps: [taps_down, taps_across], strides, dilations, .. } = self.window;
        let (under_columns, stride) = (self.under()[1], self.stride());
        let mut text = format!(
            "        let units = min({chunk}u, {depth} - chunk) * {taps_across}u;
        for (var unit = share; unit < units; unit += {shares}u) {{
            let tap = unit % {taps_across}u;
            let slice = unit / {taps_across}u;\n"
        );
        for (tap, block) in pairs(taps_down, blocks) {
            let taps = taps_down * taps_across;
            let first = weights.word(&format!("w{tap}_{block}_at"));
            let _ = writeln!(
                text,
                "            let w{tap}_{block}_at = {filter} + (((block + {block}u) * {taps}u + {row}u + tap) * {depth} + chunk \
                 + slice) * {matrix}u;
            let w{tap}_{block} = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, B>>(&{first}, {vectors}u);",
                row = tap * taps_across,
                matrix = SIDE * SIDE / 4,
                vectors = SIDE / 4,
            );
        }
        let mut uses: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (row, tap) in pairs(rows, taps_down) {
            uses.entry(row * strides[0] + tap * dilations[0]).or_default().push((row, tap));
        }
        for (from, uses) in uses {
            let _ = writeln!(
                text,
                "            let d{from}_at = ((sy * {down}u + {from}u) * {under_columns}u + sx * {across}u + tap * {dilation}u) * \
                 {stride}u + slice * {quads}u;
            let d{from} = coopLoadT<coop_mat{SIDE}x{SIDE}<f16, A>>(&tile[d{from}_at], {apart}u);",
                down = rows * strides[0],
                across = SIDE * strides[1],
                dilation = dilations[1],
                quads = SIDE / 4,
                apart = stride * strides[1],
            );
            for (row, tap) in uses {
                for block in 0..blocks {
                    let sum = format!("sum{row}_{block}");
                    let _ = writeln!(text, "            {sum} = coopMultiplyAdd(d{from}, w{tap}_{block}, {sum});");
                }
            }
        }
        text + "        }\n"
    }

    /// WGSL that stores the results, a matrix of each subgroup at a time: through memory, where the sums of all shares meet.
    fn hand_out(&self, writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, weights: &Array) -> String {
        let Tile { rows, blocks, down, across, wide, shares, .. } = self.tile;
        let output = context.program.shape(kernel.outputs[0]);
        let out_lanes = if output[3].is_multiple_of(4) { lanes(context.program, kernel) } else { 1 };
        store_anywhere(writer, context, kernel, out_lanes);
        let [height, width, outputs] = [1, 2, 3].map(|axis| writer.param(output[axis]));
        let quads = writer.param(output[3].div_ceil(4));
        let (position, is_there) = match self.window.pointwise {
            true => (format!("y * {SIDE}u + x"), format!("at < {}", writer.param(output[..3].iter().product()))),
            false => (format!("(image * {height} + y) * {width} + x"), format!("y < {height} && x < {width}")),
        };
        let stored = put(out_lanes, "at", "sum", &quads, &outputs);
        let layer = down * across * wide * SIDE * SIDE / 4;
        let others: String = (1..shares).map(|share| format!(" + sums[place + {}u]", share * layer)).collect();
        let bias = weights.reals("quad");
        writer.function(&format!(
            "fn hand_out(place: u32, row: u32, block: u32, left: u32, top: u32, image: u32) {{
    let subgroup = place / {area}u;
    let x = left + subgroup % {across}u * {SIDE}u + place / 4u % {SIDE}u;
    let y = top + subgroup / {across}u % {down}u * {rows}u + row;
    let quad = (block + subgroup / {each}u * {blocks}u) * 4u + place % 4u;
    let at = {position};
    if ({is_there} && quad < {quads}) {{
        let sum = sums[place]{others};
        let bias = {bias};
        {stored}
    }}
}}\n",
            area = SIDE * SIDE / 4,
            each = across * down,
        ));
        pairs(rows, blocks).fold(String::new(), |text, (row, block)| {
            text + &format!(
                "    {{
        workgroupBarrier();
        let to = subgroup * {area}u;
        coopStoreT(sum{row}_{block}, &sums[to], 4u);
        workgroupBarrier();
        for (var place = local.x; place < {layer}u; place += {invocations}u) {{
            hand_out(place, {row}u, group.z * {outputs}u + {block}u, left, top, image);
        }}
    }}\n",
                area = SIDE * SIDE / 4,
                invocations = SUBGROUP * self.tile.subgroups(),
                outputs = self.tile.outputs(),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, Shape};
    use attache_gpu_ir::{Expression, Program, Scalar, Unary};
    use wgpu::naga::{back::spv, front, valid};

    use super::*;
    use crate::limits::Limits;
    use crate::plan::Plan;
    use crate::precision::Precision;
    use crate::recording::Submission;

    /// A contraction of what another kernel makes, so that it lies in memory as binary16.
    fn program(image: [usize; 4], filter: [usize; 3], stride: usize) -> Program {
        let mut program = Program::default();
        let input = program.input(Scalar::F32, image.into());
        let (expression, shape) = (Expression::Input(0).unary(Unary::Tanh), Shape::from(image));
        let data = program.step(Primitive::Map { expression, shape, scalar: Scalar::F32 }, &[input], 0).unwrap()[0];
        let shape = Shape::from([filter[0], filter[1], filter[2], image[3]]);
        let weights = vec![0.5f32; shape.elements()];
        let weights = program.constant(Scalar::F32, Constant::from_values(shape, &weights));
        let contraction = Contraction {
            strides: [stride; 2],
            dilations: [1; 2],
            before: [filter[1] / 2, filter[2] / 2],
            output: [image[1].div_ceil(stride), image[2].div_ceil(stride)],
            groups: 1,
            transposed: false,
            zero_points: [0; 2],
        };
        program.outputs = program.step(Primitive::Contract(contraction), &[data, weights], 1).unwrap();
        program
    }

    /// Devices that run them are few: naga says whether they can be written, for which every index needs a name.
    #[test]
    fn shaders_are_valid() {
        let work_group_bytes = 49152;
        let limits = Limits {
            max_invocations: 1024,
            work_group_bytes,
            shader_f16: true,
            cooperative_matrices: true,
            ..Limits::default()
        };
        for (image, filter, stride, groups) in [
            ([1, 540, 960, 32], [32, 3, 3], 1, [30, 68, 1]),
            ([1, 56, 56, 64], [64, 3, 3], 1, [4, 14, 4]),
            ([2, 7, 7, 512], [512, 3, 3], 2, [1, 4, 32]),
            ([1, 56, 56, 64], [256, 1, 1], 1, [1, 98, 4]),
            ([1, 14, 14, 1024], [256, 1, 1], 1, [1, 13, 8]),
            ([3, 9, 9, 24], [10, 1, 5], 1, [1, 15, 1]),
        ] {
            let plan = Plan::new(program(image, filter, stride), Precision::F16, &limits, Submission::Replay).unwrap();
            let shader = &plan.dispatches.last().unwrap().shader;
            assert_eq!((shader.variant, shader.groups), (VARIANT.name, groups), "{image:?} {filter:?}");
            let module = front::wgsl::parse_str(&shader.source).map_err(|e| e.emit_to_string(&shader.source));
            let module = module.unwrap_or_else(|error| panic!("{error}"));
            let mut validator = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::all());
            let info = validator.validate(&module).map_err(|error| error.emit_to_string(&shader.source));
            let info = info.unwrap_or_else(|error| panic!("{error}"));
            let options = spv::Options { lang_version: (1, 6), ..spv::Options::default() };
            spv::write_vec(&module, &info, &options, None).unwrap();
        }
    }
}
