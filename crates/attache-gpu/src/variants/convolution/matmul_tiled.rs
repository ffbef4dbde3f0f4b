//! Variant `matmul_tiled`: batched matrix products of floats, one work group per tile of results. The matrices are staged
//! in work-group memory slice by slice along K, of which the next is loaded while one is multiplied; each invocation computes
//! a block of results in registers. Where there are few tiles, parts of K are multiplied at the same time. Inputs that are
//! transposed, sliced or permuted are read in place.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, Scalar};

use super::matmul::{Product, in_place};
use crate::kernel::{Kernel, MAX_GROUPS, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "matmul_tiled", computes: Computes::Nothing, applies, priority, write };

/// How a tile of results is distributed over the invocations of a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Rows and columns of results that an invocation computes, multiples of 4.
    block: [usize; 2],
    /// Rows and columns of invocations.
    invocations: [usize; 2],
    /// Extent along K of the slices that are staged at once.
    depth: usize,
    /// Number of parts of K, each of which other invocations multiply with slices of their own (split-K).
    parts: usize,
    /// Relative time of one multiplication, as smaller blocks load more for each.
    cost: usize,
}

/// The tilings, from large tiles to small ones.
const TILINGS: [Tiling; 4] = [
    Tiling { block: [8, 8], invocations: [8, 16], depth: 16, parts: 1, cost: 40 },
    Tiling { block: [8, 4], invocations: [8, 16], depth: 16, parts: 1, cost: 44 },
    Tiling { block: [4, 4], invocations: [8, 8], depth: 16, parts: 1, cost: 52 },
    Tiling { block: [4, 4], invocations: [8, 8], depth: 16, parts: 4, cost: 66 },
];

/// Rows and columns of invocations with adjacent blocks whose numbers are consecutive. Those that run in step thus load few
/// different vec4s of both slices.
const PATCH: [usize; 2] = [4, 8];

/// Number of compute units of a large device.
const UNITS: usize = 128;

/// Number of rows, columns and elements along K from which tiles are worth their barriers.
const LEAST: usize = 8;

/// Number of elements along K from which parts of them are worth adding their sums.
const LEAST_SPLIT: usize = 128;

impl Tiling {
    fn tile(&self) -> [usize; 2] {
        [0, 1].map(|axis| self.block[axis] * self.invocations[axis])
    }

    /// Returns the number of invocations that multiply a part of K.
    fn members(&self) -> usize {
        self.invocations[0] * self.invocations[1]
    }

    fn group(&self) -> usize {
        self.members() * self.parts
    }

    /// Returns the number of vec4s between neighbouring elements along K in the staged slice of the left (0) or right (1)
    /// matrix. It is odd, so that these are in different memory banks.
    fn pitch(&self, input: usize) -> usize {
        self.tile()[input] / 4 + 1
    }

    /// Returns the vec4s in which parts pass their sums on.
    fn sums(&self) -> usize {
        if self.parts == 1 { 0 } else { self.group() * self.block[0] * self.block[1] / 4 }
    }

    fn bytes(&self) -> usize {
        16 * (self.parts * self.depth * (self.pitch(0) + self.pitch(1)) + self.sums())
    }

    /// Returns the number of work groups along the columns, the rows and the products.
    fn groups(&self, product: &Product) -> [usize; 3] {
        let [down, across] = self.tile();
        [product.columns.div_ceil(across), product.rows.div_ceil(down), product.outer.iter().product()]
    }

    /// Estimates the time on a large device: a compute unit runs several small work groups at the same time.
    fn time(&self, product: &Product) -> usize {
        let groups = self.groups(product).iter().product::<usize>();
        let work = self.tile().iter().product::<usize>() * self.cost;
        if groups * self.parts <= 4 * UNITS {
            groups.div_ceil(UNITS) * work / self.parts
        } else {
            groups.saturating_mul(work) / UNITS
        }
    }

    fn of(context: &Context<'_>, product: &Product) -> Option<Self> {
        let limits = context.limits;
        let fits = |tiling: &&Self| {
            let groups = tiling.groups(product).iter().all(|count| *count <= MAX_GROUPS);
            let is_split = tiling.parts == 1 || product.depth >= LEAST_SPLIT;
            groups && is_split && tiling.group() <= limits.max_invocations && tiling.bytes() <= limits.work_group_bytes
        };
        TILINGS.iter().filter(fits).min_by_key(|tiling| tiling.time(product)).copied()
    }
}

/// Where the elements of a matrix are in memory.
struct Matrix {
    array: Array,
    /// WGSL of the first element.
    offset: String,
    /// WGSL of the strides along the tile's axis (rows or columns) and along K.
    strides: [String; 2],
    /// Whether neighbouring elements along K are neighbours in memory.
    is_along_depth: bool,
    /// Number of elements along the tile's axis that are loaded at once: 4 if they are adjacent and aligned, otherwise 1.
    width: usize,
    /// Whether all tiles, and all slices along K, are within the matrix.
    is_whole: [bool; 2],
}

impl Matrix {
    /// Binds the left (0) or right (1) matrix of a product.
    fn new(
        writer: &mut Writer<'_>,
        kernel: &Kernel,
        (product, offsets, tiling): (&Product, [usize; 2], Tiling),
        input: usize,
    ) -> Self {
        let rank = product.output.len();
        // Views are read from their sources, without the functions that compute their index maps.
        let strides = &product.inputs[input][rank - 2..];
        let (axis, extent) = [(rank - 2, product.rows), (rank - 1, product.columns)][input];
        let others = product.inputs[input].iter().enumerate().filter(|(other, _)| *other != axis);
        let is_aligned = others.chain([(0, &offsets[input]), (0, &extent)]).all(|(_, number)| number.is_multiple_of(4));
        let width = if product.inputs[input][axis] == 1 && is_aligned { 4 } else { 1 };
        let is_whole =
            [extent.is_multiple_of(tiling.tile()[input]), product.depth.is_multiple_of(tiling.parts * tiling.depth)];
        let array = writer.read_stored(kernel.source(kernel.inputs[input]), width);
        let [along_tile, along_depth] = if input == 0 { [strides[0], strides[1]] } else { [strides[1], strides[0]] };
        let offset = format!("{} + {}", ["from_left", "from_right"][input], writer.param(offsets[input]));
        let is_along_depth = along_depth <= along_tile;
        Self {
            array,
            offset,
            strides: [along_tile, along_depth].map(|s| writer.param(s)),
            is_along_depth,
            width,
            is_whole,
        }
    }
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let is_float = || context.program.value(kernel.inputs[0]).scalar == Scalar::F32;
    let has_elements = || context.program.shape(kernel.outputs[0]).elements() > 0;
    matches!(kernel.primitive, Primitive::MatMul { .. })
        && is_float()
        && has_elements()
        && in_place(context, kernel).is_some_and(|(product, _)| Tiling::of(context, &product).is_some())
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Product { rows, depth, columns, .. } = Product::of(context, kernel);
    if rows.min(columns).min(depth) >= LEAST && context.limits.splits_k { 1 } else { 50 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let (product, offsets) = in_place(context, kernel).expect("applies");
    let tiling = Tiling::of(context, &product).expect("applies");
    let rank = product.output.len();
    let mut writer = Writer::new(VARIANT.name, context);
    let parts = (&product, offsets, tiling);
    let matrices = [0, 1].map(|input| Matrix::new(&mut writer, kernel, parts, input));
    let is_whole = product.output[rank - 1] == 1 && product.columns.is_multiple_of(4);
    let width = if is_whole { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, width);
    let extents = [product.rows, product.columns, product.depth].map(|extent| writer.param(extent));
    let mut body = format!("    var rest = group.z;\n{}", product.offsets(&mut writer));
    let [down, across] = tiling.tile();
    let length = writer.param(product.depth.div_ceil(tiling.parts));
    let _ = write!(
        body,
        "    let first_row = group.y * {down}u;
    let first_column = group.x * {across}u;
    let part = local.x / {members}u;
    let member = local.x % {members}u;
    let own_row = (member / {patch}u / {beside}u * {patch_rows}u + member % {patch}u / {patch_columns}u) * {rows}u;
    let own_column = (member / {patch}u % {beside}u * {patch_columns}u + member % {patch_columns}u) * 4u;
    let first_k = part * {length};
    let end = min(first_k + {length}, {all});\n",
        members = tiling.members(),
        length = length,
        all = extents[2],
        patch = PATCH[0] * PATCH[1],
        patch_rows = PATCH[0],
        patch_columns = PATCH[1],
        beside = tiling.invocations[1] / PATCH[1],
        rows = tiling.block[0],
    );
    for (row, vector) in blocks(tiling) {
        let _ = writeln!(body, "    var sum{row}_{vector} = vec4<f32>();");
    }
    let [fetched, copied] = [fetch, copy].map(|write| {
        matrices.iter().enumerate().map(|(input, matrix)| write(tiling, input, matrix, &extents)).collect::<String>()
    });
    for (input, name) in ["left", "right"].into_iter().enumerate() {
        (0..turns(tiling, input)).for_each(|turn| body += &format!("    var {name}_loaded{turn}: vec4<f32>;\n"));
    }
    let _ = write!(
        body,
        "    var start = first_k;
{fetched}    for (var done = 0u; done < {length}; done += {slice}u) {{
{copied}        start += {slice}u;
        workgroupBarrier();
{fetched}{multiplied}    }}\n",
        slice = tiling.depth,
        multiplied = multiply(tiling),
    );
    body += &join(tiling);
    let strides = [rank - 2, rank - 1].map(|axis| writer.param(product.output[axis]));
    body += &finish(tiling, width, &extents, &strides);
    let mut declarations = format!(
        "var<workgroup> left_slice: array<vec4<f32>, {}>;\nvar<workgroup> right_slice: array<vec4<f32>, {}>;\n",
        tiling.parts * tiling.depth * tiling.pitch(0),
        tiling.parts * tiling.depth * tiling.pitch(1)
    );
    if tiling.parts > 1 {
        let _ = writeln!(declarations, "var<workgroup> sums: array<vec4<f32>, {}>;", tiling.sums());
    }
    let groups = tiling.groups(&product).map(|count| count as u32);
    vec![writer.finish([tiling.group() as u32, 1, 1], groups, &declarations, &body)]
}

/// Returns the rows and vec4s of columns of an invocation's block.
fn blocks(tiling: Tiling) -> impl Iterator<Item = (usize, usize)> {
    (0..tiling.block[0]).flat_map(move |row| (0..tiling.block[1] / 4).map(move |vector| (row, vector)))
}

/// Returns the number of vec4s of a slice that an invocation stages.
fn turns(tiling: Tiling, input: usize) -> usize {
    (tiling.tile()[input] / 4 * tiling.depth).div_ceil(tiling.members())
}

/// Returns WGSL of the places of a vec4 along the tile and along K, of which the invocation stages the one of this turn.
fn place(tiling: Tiling, input: usize, matrix: &Matrix, turn: usize) -> String {
    let (vectors, slice) = (tiling.tile()[input] / 4, tiling.depth);
    let (vector, k) = match matrix.is_along_depth {
        true => (format!("unit / {slice}u"), format!("unit % {slice}u")),
        false => (format!("unit % {vectors}u"), format!("unit / {vectors}u")),
    };
    format!(
        "            let unit = min(member + {}u, {}u);
            let vector = {vector};
            let k = {k};\n",
        turn * tiling.members(),
        vectors * slice - 1,
    )
}

/// Returns WGSL that loads a slice of the left (0) or right (1) matrix: vec4s of four rows or columns for each element along
/// K. Elements beyond the end of K are 0.
fn fetch(tiling: Tiling, input: usize, matrix: &Matrix, [rows, columns, depth]: &[String; 3]) -> String {
    let (name, first, extent) = [("left", "first_row", rows), ("right", "first_column", columns)][input];
    let [along_tile, along_depth] = &matrix.strides;
    let element = |component: usize| {
        let at = match matrix.is_whole[0] {
            true => format!("line + (at + {component}u) * {along_tile}"),
            false => format!("line + min(at + {component}u, {extent} - 1u) * {along_tile}"),
        };
        matrix.array.floats(&at)
    };
    let vec4 = match matrix.width {
        4 => matrix.array.floats(&format!("(line + min(at, {extent} - 4u)) / 4u")),
        _ => format!("vec4<f32>({})", (0..4).map(element).collect::<Vec<_>>().join(",\n                ")),
    };
    let load = |turn: usize| {
        format!(
            "        {{
{place}            let at = {first} + vector * 4u;
            let line = {offset} + min(start + k, {depth} - 1u) * {along_depth};
            let loaded = {vec4};
            {name}_loaded{turn} = {loaded};
        }}\n",
            place = place(tiling, input, matrix, turn),
            offset = matrix.offset,
            // What is loaded after the last slice is not multiplied.
            loaded = if matrix.is_whole[1] { "loaded" } else { "select(vec4<f32>(), loaded, start + k < end)" },
        )
    };
    (0..turns(tiling, input)).map(load).collect()
}

/// Returns WGSL that copies what was loaded to work-group memory.
fn copy(tiling: Tiling, input: usize, matrix: &Matrix, _: &[String; 3]) -> String {
    let name = ["left", "right"][input];
    let copy = |turn: usize| {
        format!(
            "        {{
{place}            {name}_slice[(part * {slice}u + k) * {pitch}u + vector] = {name}_loaded{turn};
        }}\n",
            place = place(tiling, input, matrix, turn),
            slice = tiling.depth,
            pitch = tiling.pitch(input),
        )
    };
    (0..turns(tiling, input)).map(copy).collect()
}

/// Returns WGSL that multiplies the staged slices. It has no loop: drivers don't unroll one of this size, and then each of its
/// steps waits for its own loads.
fn multiply(tiling: Tiling) -> String {
    (0..tiling.depth).map(|k| multiply_once(tiling, k)).collect::<String>() + "        workgroupBarrier();\n"
}

/// Returns WGSL that multiplies the column `k` of the left slice by the row `k` of the right one.
fn multiply_once(tiling: Tiling, k: usize) -> String {
    // Neighbouring invocations load neighbouring vec4s of the right slice, from different memory banks.
    let [rows, columns] = tiling.block;
    let mut text = "        {\n".to_owned();
    let between = tiling.invocations[1];
    for (name, input, own, count, stride) in
        [("left", 0, "own_row", rows / 4, 1), ("right", 1, "own_column", columns / 4, between)]
    {
        for vector in 0..count {
            let (pitch, own) = (tiling.pitch(input), format!("{own} / 4u + {}u", vector * stride));
            let at = match tiling.parts {
                1 => format!("{}u + {own}", k * pitch),
                _ => format!("(part * {}u + {k}u) * {pitch}u + {own}", tiling.depth),
            };
            let _ = writeln!(text, "            let {name}{vector} = {name}_slice[{at}];");
        }
    }
    for (row, vector) in blocks(tiling) {
        let part = ["x", "y", "z", "w"][row % 4];
        let sum = format!("sum{row}_{vector}");
        let _ = writeln!(text, "            {sum} = fma(vec4<f32>(left{}.{part}), right{vector}, {sum});", row / 4);
    }
    text + "        }\n"
}

/// Returns WGSL that adds the sums of all parts to those of the first one.
fn join(tiling: Tiling) -> String {
    let mut text = String::new();
    if tiling.parts == 1 {
        return text;
    }
    let group = tiling.group();
    for (index, (row, vector)) in blocks(tiling).enumerate() {
        let _ = writeln!(text, "    sums[{}u + local.x] = sum{row}_{vector};", index * group);
    }
    text += "    workgroupBarrier();\n    if (part > 0u) { return; }\n";
    for (index, (row, vector)) in blocks(tiling).enumerate() {
        for part in 1..tiling.parts {
            let at = index * group + part * tiling.members();
            let _ = writeln!(text, "    sum{row}_{vector} += sums[{at}u + member];");
        }
    }
    text
}

/// Returns WGSL that stores an invocation's results, `width` at once.
fn finish(tiling: Tiling, width: usize, [rows, columns, _]: &[String; 3], [to_row, to_column]: &[String; 2]) -> String {
    let mut text = "    let row = first_row + own_row;\n    let column = first_column + own_column;\n".to_owned();
    for (row, vector) in blocks(tiling) {
        let at = format!("to + (row + {row}u) * {to_row}");
        let is_row = format!("row + {row}u < {rows}");
        if width == 4 {
            let _ = writeln!(
                text,
                "    if ({is_row} && column + {c}u < {columns}) {{ store(({at} + column + {c}u) / 4u, sum{row}_{vector}); }}",
                c = 4 * vector * tiling.invocations[1]
            );
            continue;
        }
        for (component, part) in ["x", "y", "z", "w"].into_iter().enumerate() {
            let c = 4 * vector * tiling.invocations[1] + component;
            let _ = writeln!(
                text,
                "    if ({is_row} && column + {c}u < {columns}) {{ store({at} + (column + {c}u) * {to_column}, sum{row}_{vector}.{part}); }}"
            );
        }
    }
    text
}
