//! Generates the WGSL of variant `conv_matrix`: staging the data, multiplying the matrices and storing the
//! results.
//!
//! Loads from device memory are issued early to hide their latency: the weights before the barrier that waits
//! for the data, the next chunk of the data before the current one is multiplied, and the epilogue's operands
//! before the loop over chunks.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::left::Left;
use super::problem::{EIGHT, Problem, Tiling, Window};
use crate::kernel::{Kernel, Matrices, vector_width};
use crate::wgsl::accessor::Array;
use crate::wgsl::cooperative_matrix::{Products, Rows, SIDE, SUBGROUP};
use crate::wgsl::epilogue::{store_anywhere, store_given};
use crate::wgsl::{Context, Writer};

/// Generates the WGSL of one kernel from its sizes and its bound inputs.
pub(super) struct Text<'a> {
    problem: &'a Problem,
    emulates: bool,
    left: Left<'a>,
    weights: Array,
    /// WGSL of the number of matrices of 16 input channels.
    depth: String,
    /// WGSL of the vec4 of `weights` at which the filter starts: the number of vec4s of padded output
    /// channels.
    filter: String,
}

/// Returns every pair of an index below `rows` and an index below `columns`, row by row.
fn pairs(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}

impl<'a> Text<'a> {
    pub(super) fn new(
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &'a Kernel,
        problem: &'a Problem,
    ) -> Self {
        let left = Left::new(writer, context, kernel, problem);
        let weights = writer.packed(problem.pack(context, kernel).into(), 4);
        let [depth, filter] = [problem.depth, problem.padded_outputs() / 4].map(|extent| writer.param(extent));
        Self { problem, emulates: context.limits.matrices == Matrices::Emulated, left, weights, depth, filter }
    }

    /// Returns the WGSL declarations of work-group memory: the staged data `tile` and the accumulators
    /// `sums`.
    pub(super) fn declarations(&self) -> String {
        format!(
            "const OUTSIDE = {}u;
var<workgroup> tile: array<vec4<f16>, {}>;
var<workgroup> sums: array<vec4<f32>, {}>;\n{}",
            u32::MAX,
            self.problem.vectors(),
            self.problem.tiling.sums(),
            self.left.declarations(),
        )
    }

    /// Returns the generator of the matrix operations, set up for the layouts of `tile`, the packed weights
    /// and `sums`.
    fn products(&self) -> Products<'_> {
        let data = Rows { name: "tile", stride: self.problem.stride() * self.problem.window.strides[1] };
        let sums = Rows { name: "sums", stride: self.problem.tiling.pitch() };
        let (is_emulated, weights_stride) = (self.emulates, SIDE / 4);
        Products { is_emulated, data, weights: &self.weights, weights_stride, sums, transposed: [false; 2] }
    }

    /// Returns the WGSL body of the main function, and adds the functions that it calls to `writer`.
    pub(super) fn body(&self, writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) -> String {
        let Tiling { rows, blocks, wide, chunk, .. } = self.problem.tiling;
        let down = writer.param(self.problem.down());
        self.add_source(writer, context, kernel);
        writer.function(&self.products().functions());
        let results = Results::new(writer, context, kernel, self);
        let mut body = format!(
            "    let subgroup = local.x / {SUBGROUP}u;
    let across = subgroup % {wide}u;
    let split_part = subgroup / {wide}u;
    let left = group.x * {SIDE}u;
    let top = group.y % {down} * {rows}u;
    let image = group.y / {down};
    let block = group.z * {outputs}u + across * {blocks}u;\n",
            outputs = self.problem.tiling.outputs(),
        );
        for (row, block) in pairs(rows, blocks) {
            body += &self.products().zeros(&format!("sum{row}_{block}"));
        }
        body += &self.fetch("0u", "var ");
        body += &results.prefetch();
        if self.problem.depth == chunk {
            let (load, stage, multiply) = (self.load(), self.stage(), self.multiply());
            let pixels = context.program.shape(kernel.inputs[0])[..3].iter().product();
            let scales = self.left.scales(writer, context, pixels);
            let _ = write!(body, "    let chunk = 0u;\n{load}{stage}    workgroupBarrier();\n{scales}{multiply}");
        } else {
            let _ = write!(
                body,
                "    for (var chunk = 0u; chunk < {}; chunk += {chunk}u) {{
{}    workgroupBarrier();\n{}    workgroupBarrier();\n{}{}    }}\n",
                self.depth,
                self.load(),
                self.stage(),
                self.fetch(&format!("chunk + {chunk}u"), ""),
                self.multiply(),
            );
        }
        body + &results.store()
    }

    /// Adds the WGSL functions `source`, which returns the index in the data of the group of eight input
    /// channels numbered `at` within a tile, and `stage`, which writes such a group to work-group memory.
    /// `source` returns `OUTSIDE` for groups outside the image or beyond the last channel, and `stage` writes
    /// zeros for them.
    fn add_source(&self, writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
        let shape = context.program.shape(kernel.inputs[0]);
        let (under_columns, eights) = (self.problem.under()[1], self.problem.tiling.chunk * SIDE / EIGHT);
        let all_eights = writer.param(shape[3] / EIGHT);
        let Window { strides: [sy, sx], before, pointwise, .. } = self.problem.window;
        let locate = if pointwise {
            let positions = writer.param(shape[..3].iter().product());
            format!(
                "    let origin = top * {SIDE}u + pixel;
    let is_inside = origin < {positions};\n"
            )
        } else {
            let [height, width] = [1, 2].map(|axis| writer.param(shape[axis]));
            let [above, before] = before.map(|before| writer.param(before));
            format!(
                "    let y = i32(top * {sy}u + pixel / {under_columns}u) - i32({above});
    let x = i32(left * {sx}u + pixel % {under_columns}u) - i32({before});
    let is_inside = y >= 0 && x >= 0 && y < i32({height}) && x < i32({width});
    let origin = u32((i32(image * {height}) + y) * i32({width}) + x);\n"
            )
        };
        writer.function(&format!(
            "fn source(at: u32, chunk: u32, left: u32, top: u32, image: u32) -> u32 {{
    let pixel = at / {eights}u;
    let eight = chunk * {per_matrix}u + at % {eights}u;
{locate}    return select(OUTSIDE, (origin * {all_eights} + eight) * 2u, is_inside && eight < {all_eights});\n}}
fn clamped(at: u32) -> u32 {{\n    return select(at, 0u, at == OUTSIDE);\n}}
fn stage(at: u32, origin: u32, first: vec4<f16>, second: vec4<f16>) {{
    let to = at / {eights}u * {stride}u + at % {eights}u * 2u;
    tile[to] = select(first, vec4<f16>(), origin == OUTSIDE);
    tile[to + 1u] = select(second, vec4<f16>(), origin == OUTSIDE);\n}}\n",
            per_matrix = SIDE / EIGHT,
            stride = self.problem.stride(),
        ));
    }

    /// Returns WGSL that loads the data of a tile into registers, starting at matrix `chunk` of the input
    /// channels. `declare` is `"var "` if the statements also declare the variables, else empty.
    fn fetch(&self, chunk: &str, declare: &str) -> String {
        let fetch = |(index, at): (usize, usize)| {
            let [first, second] = ["", " + 1u"].map(|next| self.left.vec4(&format!("clamped(from{index}){next}")));
            format!(
                "    {declare}from{index} = source(local.x + {at}u, {chunk}, left, top, image);
    {declare}first{index} = {first};
    {declare}second{index} = {second};\n"
            )
        };
        self.loads().map(fetch).collect()
    }

    /// Returns WGSL that writes the data loaded by [`Text::fetch`] to work-group memory.
    fn stage(&self) -> String {
        let count = self.problem.eights();
        let stage = |(index, at): (usize, usize)| {
            let stage = format!("stage(local.x + {at}u, from{index}, first{index}, second{index});");
            match at + self.problem.tiling.invocations() > count {
                true => format!("    if (local.x + {at}u < {count}u) {{ {stage} }}\n"),
                false => format!("    {stage}\n"),
            }
        };
        self.loads().map(stage).collect()
    }

    /// Returns the index of each load of an invocation, and the number of the group of eight channels that
    /// the first invocation loads with it.
    fn loads(&self) -> impl Iterator<Item = (usize, usize)> {
        let invocations = self.problem.tiling.invocations();
        (0..self.problem.fetches()).map(move |index| (index, index * invocations))
    }

    /// Returns WGSL that loads the weight matrices of a chunk. Columns of taps and matrices of input channels
    /// are distributed over the split-K parts. Rows of taps are unrolled, so that each data matrix is read
    /// once.
    fn load(&self) -> String {
        let Tiling { blocks, split, .. } = self.problem.tiling;
        let [down, across] = self.problem.window.taps;
        let mut text = String::new();
        for step in 0..self.problem.steps() {
            let unit = if split == 1 { format!("{step}u") } else { format!("(split_part + {}u)", step * split) };
            let _ = write!(
                text,
                "    let tap{step} = {unit} % {across}u;
    let slice{step} = {unit} / {across}u;\n"
            );
            for (tap, block) in pairs(down, blocks) {
                let at = format!(
                    "{filter} + (((block + {block}u) * {taps}u + {row}u + tap{step}) * {depth} + chunk + slice{step}) * {matrix}u",
                    filter = self.filter,
                    taps = down * across,
                    row = tap * across,
                    depth = self.depth,
                    matrix = SIDE * SIDE / 4,
                );
                text += &self.products().load_weights(&format!("w{step}_{tap}_{block}"), &at);
            }
        }
        text
    }

    /// Returns WGSL that multiplies the staged data by the loaded weights and adds the products to the
    /// accumulators.
    fn multiply(&self) -> String {
        let Tiling { rows, blocks, .. } = self.problem.tiling;
        let Window { taps: [taps_down, _], strides, dilations, .. } = self.problem.window;
        let (under_columns, stride) = (self.problem.under()[1], self.problem.stride());
        let mut uses: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for (row, tap) in pairs(rows, taps_down) {
            uses.entry(row * strides[0] + tap * dilations[0]).or_default().push((row, tap));
        }
        let mut text = String::new();
        for (step, (from, uses)) in (0..self.problem.steps()).flat_map(|step| uses.iter().map(move |uses| (step, uses)))
        {
            let name = format!("d{step}_{from}");
            let at = format!(
                "({first}u + tap{step} * {dilation}u) * {stride}u + slice{step} * {vec4s}u",
                first = from * under_columns,
                dilation = dilations[1],
                vec4s = SIDE / 4,
            );
            text += &self.products().load_data(&name, &at);
            for ((row, tap), block) in uses.iter().flat_map(|uses| (0..blocks).map(move |block| (uses, block))) {
                text += &self.products().add(&format!("sum{row}_{block}"), &name, &format!("w{step}_{tap}_{block}"));
            }
        }
        text
    }
}

/// Generates the WGSL that stores the results, one row of output pixels at a time, through work-group memory,
/// where the partial sums of the split-K parts are added.
struct Results<'a> {
    tiling: Tiling,
    products: Products<'a>,
    left: &'a Left<'a>,
    /// WGSL of the number of output channels.
    outputs: String,
    vector_width: usize,
    /// Number of epilogue operands that are loaded before the loop over chunks, or that are results of the twin.
    operands: usize,
    /// The number of the operand that is the twin's results; `None` if there is no twin.
    twin: Option<usize>,
}

impl<'a> Results<'a> {
    /// Adds the WGSL functions `result`, which returns the index of a result in the output or `OUTSIDE`, and
    /// `store`, which stores a result there.
    fn new(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, text: &'a Text<'_>) -> Self {
        let (tiling, window) = (text.problem.tiling, text.problem.window);
        let output = context.program.shape(kernel.outputs[0]);
        let vector_width = if output[3].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
        let operands = match vector_width {
            1 => {
                store_anywhere(writer, context, kernel, 1);
                0
            }
            _ => store_given(writer, context, kernel, vector_width),
        };
        let [height, width, outputs] = [1, 2, 3].map(|axis| writer.param(output[axis]));
        let (position, is_there) = match window.pointwise {
            true => (format!("y * {SIDE}u + x"), format!("at < {}", writer.param(output[..3].iter().product()))),
            false => (format!("(image * {height} + y) * {width} + x"), format!("y < {height} && x < {width}")),
        };
        let (vec4s, unit) = (writer.param(output[3].div_ceil(4)), writer.param(output[3].div_ceil(vector_width)));
        writer.function(&format!(
            "fn result(index: u32, row: u32, vector: u32, left: u32, top: u32, image: u32) -> u32 {{
    let x = left + index / {wide}u;
    let y = top + row;
    let at = {position};
    return select(OUTSIDE, at * {unit} + vector * {each}u, {is_there} && vector < {vec4s} && index < {count}u);\n}}\n",
            wide = tiling.results(),
            each = 4 / vector_width,
            count = tiling.row().0,
        ));
        let twin = kernel.operands.iter().position(|id| kernel.computed(*id).is_some()).map(|index| index + 1);
        Self { tiling, products: text.products(), left: &text.left, outputs, vector_width, operands, twin }
    }

    /// Returns WGSL that computes the output index of each result of an invocation, and loads the result's
    /// bias and epilogue operands.
    fn prefetch(&self) -> String {
        let (wide, all) = (self.tiling.results(), self.tiling.outputs() * SIDE / 4);
        let mut text = String::new();
        for turn in 0..self.tiling.row().1 {
            let _ = write!(
                text,
                "    let index{turn} = local.x + {at}u;
    let vector{turn} = group.z * {wide}u + index{turn} % {wide}u;\n",
                at = turn * self.tiling.invocations(),
            );
            for (filter, name) in ["bias", "twin_bias"].iter().enumerate().take(self.tiling.filters) {
                let at = format!("group.z * {all}u + index{turn} % {wide}u + {}u", filter * wide);
                let _ = writeln!(text, "    let {name}{turn} = {};", self.products.weights.floats(&at));
            }
        }
        for (row, turn) in pairs(self.tiling.rows, self.tiling.row().1) {
            let to = format!("to{row}_{turn}");
            let _ = writeln!(text, "    let {to} = result(index{turn}, {row}u, vector{turn}, left, top, image);");
            for index in (1..=self.operands).filter(|index| self.twin != Some(*index)) {
                let _ = writeln!(text, "    let x{index}_{row}_{turn} = operand{index}(clamped({to}));");
            }
        }
        text
    }

    /// Returns WGSL that adds the partial sums of the split-K parts and stores the results.
    fn store(&self) -> String {
        let Tiling { rows, blocks, split, .. } = self.tiling;
        let (wide, pitch) = (self.tiling.results(), self.tiling.pitch());
        let mut text = String::new();
        for row in 0..rows {
            text += if row > 0 { "    workgroupBarrier();\n" } else { "" };
            for block in 0..blocks {
                let at = format!(
                    "split_part * {layer}u + (across * {blocks}u + {block}u) * {vec4s}u",
                    layer = SIDE * pitch,
                    vec4s = SIDE / 4,
                );
                let [sum, into] = ["sum", "into"].map(|kind| format!("{kind}{row}_{block}"));
                text += &self.products.store(&sum, &into, &at);
            }
            text += "    workgroupBarrier();\n";
            for turn in 0..self.tiling.row().1 {
                let scale = self.left.scale(&format!("{}u + index{turn} / {wide}u", row * SIDE));
                let added = |filter: usize| {
                    let part = |split_part: usize| split_part * SIDE * pitch + filter * wide;
                    let parts: Vec<String> = (0..split).map(|at| format!("sums[start + {}u]", part(at))).collect();
                    let sum = parts.join(" + ");
                    if scale.is_empty() { sum } else { format!("({sum}){scale}") }
                };
                let twin = match self.twin {
                    Some(index) => format!("let x{index}_{row}_{turn} = {} + twin_bias{turn};", added(1)),
                    None => String::new(),
                };
                let _ = writeln!(
                    text,
                    "    if (to{row}_{turn} != OUTSIDE) {{
        let start = index{turn} / {wide}u * {pitch}u + index{turn} % {wide}u;
        let sum = {} + bias{turn};
        {twin}
        {}
    }}",
                    added(0),
                    self.put(row, turn)
                );
            }
        }
        text
    }

    /// Returns WGSL that stores one vec4 of results: as a vector if `vector_width` is 4, else one channel
    /// after the other.
    fn put(&self, row: usize, turn: usize) -> String {
        let to = format!("to{row}_{turn}");
        if self.vector_width == 4 {
            let operands: String = (1..=self.operands).map(|index| format!(", x{index}_{row}_{turn}")).collect();
            return format!("store({to}, sum{operands});");
        }
        let one = |(k, part)| {
            format!("if (vector{turn} * 4u + {k}u < {}) {{ store({to} + {k}u, sum.{part}); }} ", self.outputs)
        };
        ["x", "y", "z", "w"].into_iter().enumerate().map(one).collect()
    }
}
