//! Variant `matmul_matrix`: batched matrix products of computed values on cooperative matrices, in f16 with f32
//! accumulators. A work group computes a tile of results, of which each subgroup has a block of 16×16 matrices in registers.
//! Slices of both inputs along K are copied to work-group memory as 16×16 matrices, in the order in which they lie in memory:
//! the device transposes a matrix when it is loaded from there. The next slice is fetched while one is multiplied.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, ValueId};

use super::matmul::{Product, in_place};
use crate::kernel::{Kernel, MAX_GROUPS, Matrices, StorageFormat, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::cooperative_matrix::{Products, Rows, SIDE, SUBGROUP};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "matmul_matrix", computes: Computes::Nothing, applies, priority, write };

/// Vec4s of a matrix.
const VECTORS: usize = SIDE * SIDE / 4;

/// Number of compute units of a large device.
const UNITS: usize = 128;

/// How a tile of results is distributed over the subgroups of a work group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tiling {
    /// Rows and columns of subgroups.
    subgroups: [usize; 2],
    /// Rows and columns of the matrices of results of a subgroup.
    blocks: [usize; 2],
    /// Extent along K of the slices that are copied at once, in matrices.
    depth: usize,
    /// Relative time of one multiplication, as smaller blocks load more for each.
    cost: usize,
}

/// The tilings, from large tiles to small ones.
const TILINGS: [Tiling; 5] = [
    Tiling { subgroups: [4, 2], blocks: [4, 4], depth: 2, cost: 3 },
    Tiling { subgroups: [2, 4], blocks: [4, 2], depth: 2, cost: 4 },
    Tiling { subgroups: [2, 2], blocks: [2, 2], depth: 2, cost: 6 },
    Tiling { subgroups: [2, 2], blocks: [1, 1], depth: 8, cost: 8 },
    Tiling { subgroups: [2, 2], blocks: [1, 1], depth: 2, cost: 9 },
];

/// Number of slices of K from which larger ones are worth their memory.
const MANY_SLICES: usize = 4;

impl Tiling {
    /// Returns the rows (0) or columns (1) of matrices of a tile.
    fn matrices(&self, axis: usize) -> usize {
        self.subgroups[axis] * self.blocks[axis]
    }

    fn invocations(&self) -> usize {
        SUBGROUP * self.subgroups[0] * self.subgroups[1]
    }

    /// Returns the vec4s of a slice of an input.
    fn slice(&self, input: usize) -> usize {
        self.depth * self.matrices(input) * VECTORS
    }

    /// Returns the bytes of work-group memory: two slices of f16, and a matrix of f32 for each subgroup.
    fn bytes(&self) -> usize {
        8 * (self.slice(0) + self.slice(1)) + 16 * self.sums()
    }

    /// Returns the vec4s of work-group memory through which results are stored.
    fn sums(&self) -> usize {
        VECTORS * self.subgroups[0] * self.subgroups[1]
    }

    /// Returns the number of work groups along the columns, the rows and the products.
    fn groups(&self, product: &Product) -> [usize; 3] {
        let [down, across] = [0, 1].map(|axis| SIDE * self.matrices(axis));
        [product.columns.div_ceil(across), product.rows.div_ceil(down), product.outer.iter().product()]
    }

    /// Estimates the time on a large device.
    fn time(&self, product: &Product) -> usize {
        let groups = self.groups(product).iter().product::<usize>();
        groups.div_ceil(UNITS).saturating_mul(self.matrices(0) * self.matrices(1) * self.cost)
    }

    fn of(context: &Context<'_>, product: &Product) -> Option<Self> {
        let limits = context.limits;
        let fits = |tiling: &&Self| {
            let groups = tiling.groups(product).iter().all(|count| *count <= MAX_GROUPS);
            let is_deep = tiling.depth == 2 || product.depth >= MANY_SLICES * SIDE * tiling.depth;
            groups
                && is_deep
                && tiling.invocations() <= limits.max_invocations
                && tiling.bytes() <= limits.work_group_bytes
        };
        TILINGS.iter().filter(fits).min_by_key(|tiling| tiling.time(product)).copied()
    }
}

/// Where the elements of an input are in memory, as vec4s.
struct Input {
    array: Array,
    /// WGSL of the first element.
    offset: String,
    /// WGSL of the stride along the axis that vec4s do not run along.
    stride: String,
    /// Whether vec4s run along K, rather than along the rows of the left or the columns of the right matrix.
    is_along_depth: bool,
}

/// Returns for each input whether its vec4s run along K; `None` if elements of an input are not adjacent and aligned along
/// one of its axes.
fn directions(product: &Product, offsets: [usize; 2]) -> Option<[bool; 2]> {
    let rank = product.output.len();
    let direction = |input: usize| {
        let (strides, extent) = (&product.inputs[input], [product.rows, product.columns][input]);
        // The axis of the rows or columns, and that of K.
        let axes = if input == 0 { [rank - 2, rank - 1] } else { [rank - 1, rank - 2] };
        let is_along = |axis: usize, extent: usize| {
            let others = strides.iter().enumerate().filter(|(other, _)| *other != axis);
            strides[axis] == 1
                && extent.is_multiple_of(4)
                && others.into_iter().all(|(_, stride)| stride.is_multiple_of(4))
        };
        let found = match (is_along(axes[1], product.depth), is_along(axes[0], extent)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        found.filter(|_| offsets[input].is_multiple_of(4))
    };
    Some([direction(0)?, direction(1)?])
}

/// Whether a value may be rounded to f16: it is stored so, or is no intermediate value of an operator.
fn is_half(context: &Context<'_>, id: ValueId) -> bool {
    match context.storages.of(id) {
        StorageFormat::Half => true,
        StorageFormat::F32 => !context.program.value(id).is_inner,
        _ => false,
    }
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let halves = || {
        let sources = kernel.inputs.iter().map(|id| kernel.source(*id));
        context.storages.packed() == StorageFormat::Half && sources.into_iter().all(|id| is_half(context, id))
    };
    let has_elements = || {
        let all = kernel.inputs.iter().chain(&kernel.outputs);
        all.into_iter().all(|id| context.program.shape(*id).elements() > 0)
    };
    matches!(kernel.primitive, Primitive::MatMul { .. })
        && context.limits.matrices != Matrices::Absent
        && halves()
        && has_elements()
        && in_place(context, kernel).is_some_and(|(product, offsets)| {
            directions(&product, offsets).is_some() && Tiling::of(context, &product).is_some()
        })
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Product { rows, depth, columns, .. } = Product::of(context, kernel);
    if rows.min(columns).min(depth) >= SIDE { 0 } else { 70 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let (product, offsets) = in_place(context, kernel).expect("applies");
    let directions = directions(&product, offsets).expect("applies");
    let tiling = Tiling::of(context, &product).expect("applies");
    let rank = product.output.len();
    let mut writer = Writer::new(VARIANT.name, context);
    writer.use_matrices(context.limits.matrices);
    let inputs = [0, 1].map(|input| {
        let array = writer.read_stored(kernel.source(kernel.inputs[input]), 4);
        let is_along_depth = directions[input];
        let is_last = is_along_depth == (input == 0);
        let stride = product.inputs[input][if is_last { rank - 2 } else { rank - 1 }];
        let offset = format!("{} + {}", ["from_left", "from_right"][input], writer.param(offsets[input]));
        Input { array, offset, stride: writer.param(stride), is_along_depth }
    });
    let right = Array::new("right_slice".into(), StorageFormat::Half, 4);
    let products = Products {
        is_emulated: context.limits.matrices == Matrices::Emulated,
        data: Rows { name: "left_slice", stride: SIDE / 4 },
        weights: &right,
        sums: Rows { name: "sums", stride: SIDE / 4 },
        transposed: [!inputs[0].is_along_depth, inputs[1].is_along_depth],
    };
    writer.function(&products.functions());
    let is_whole = product.output[rank - 1] == 1 && product.columns.is_multiple_of(4);
    let width = if is_whole { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, width);
    let extents = [product.rows, product.columns, product.depth].map(|extent| writer.param(extent));
    let mut body = format!("    var rest = group.z;\n{}", product.offsets(&mut writer));
    let [down, across] = [0, 1].map(|axis| SIDE * tiling.matrices(axis));
    let _ = write!(
        body,
        "    let first_row = group.y * {down}u;
    let first_column = group.x * {across}u;
    let subgroup = local.x / {SUBGROUP}u;
    let own_row = subgroup / {wide}u * {rows}u;
    let own_column = subgroup % {wide}u * {columns}u;\n",
        wide = tiling.subgroups[1],
        rows = tiling.blocks[0],
        columns = tiling.blocks[1],
    );
    for (row, column) in blocks(tiling) {
        body += &products.zeros(&format!("sum{row}_{column}"));
    }
    for (input, name) in ["left", "right"].into_iter().enumerate() {
        (0..turns(tiling, input)).for_each(|turn| body += &format!("    var {name}{turn}: vec4<f16>;\n"));
    }
    let fetched: String =
        inputs.iter().enumerate().map(|(input, of)| fetch(&mut writer, tiling, (input, of), &extents)).collect();
    let _ = write!(
        body,
        "    var start = 0u;\n{fetched}    for (var done = 0u; done < {depth}; done += {slice}u) {{
    workgroupBarrier();\n{copied}    workgroupBarrier();
    start = done + {slice}u;\n{fetched}{multiplied}    }}\n",
        depth = extents[2],
        slice = tiling.depth * SIDE,
        copied = copy(tiling),
        multiplied = multiply(tiling, &products),
    );
    let strides = [rank - 2, rank - 1].map(|axis| writer.param(product.output[axis]));
    body += &finish(tiling, &products, width, (&extents, &strides));
    let declarations = format!(
        "var<workgroup> left_slice: array<vec4<f16>, {}>;\nvar<workgroup> right_slice: array<vec4<f16>, {}>;\nvar<workgroup> sums: array<vec4<f32>, {}>;\n",
        tiling.slice(0),
        tiling.slice(1),
        tiling.sums(),
    );
    let groups = tiling.groups(&product).map(|count| count as u32);
    vec![writer.finish([tiling.invocations() as u32, 1, 1], groups, &declarations, &body)]
}

/// Returns the rows and columns of the matrices of results of a subgroup.
fn blocks(tiling: Tiling) -> impl Iterator<Item = (usize, usize)> {
    (0..tiling.blocks[0]).flat_map(move |row| (0..tiling.blocks[1]).map(move |column| (row, column)))
}

/// Returns the number of vec4s of a slice that an invocation copies.
fn turns(tiling: Tiling, input: usize) -> usize {
    tiling.slice(input).div_ceil(tiling.invocations())
}

/// Adds a function that loads vec4 `unit` of the slice of an input that begins at `start`, in the order of work-group memory,
/// and returns WGSL that loads all that an invocation copies. Elements beyond the end of K are 0.
///
/// A slice consists of matrices, those of one place along K after the other. Each has lines of four vec4s along the direction
/// in which the input lies in memory.
fn fetch(
    writer: &mut Writer<'_>,
    tiling: Tiling,
    (input, of): (usize, &Input),
    [rows, columns, depth]: &[String; 3],
) -> String {
    let (name, first, extent) = [("left", "first_row", rows), ("right", "first_column", columns)][input];
    let matrices = tiling.matrices(input);
    let (along_tile, along_depth, at, is_inside) = match of.is_along_depth {
        true => (
            format!("first + matrix % {matrices}u * {SIDE}u + line"),
            format!("start + matrix / {matrices}u * {SIDE}u + vector * 4u"),
            format!("min(place, {extent} - 1u) * {} + min(k, {depth} - 4u)", of.stride),
            format!("k < {depth}"),
        ),
        false => (
            format!("first + matrix % {matrices}u * {SIDE}u + vector * 4u"),
            format!("start + matrix / {matrices}u * {SIDE}u + line"),
            format!("min(place, {extent} - 4u) + min(k, {depth} - 1u) * {}", of.stride),
            format!("k < {depth}"),
        ),
    };
    let loaded = of.array.floats(&format!("(base + {at}) / 4u"));
    writer.function(&format!(
        "fn fetch_{name}(unit: u32, base: u32, first: u32, start: u32) -> vec4<f16> {{
    let matrix = unit / {VECTORS}u;
    let line = unit % {VECTORS}u / 4u;
    let vector = unit % 4u;
    let place = {along_tile};
    let k = {along_depth};
    return select(vec4<f16>(), vec4<f16>({loaded}), {is_inside});\n}}\n"
    ));
    let load = |turn: usize| {
        let unit = format!("local.x + {}u", turn * tiling.invocations());
        format!("    {name}{turn} = fetch_{name}({unit}, {}, {first}, start);\n", of.offset)
    };
    (0..turns(tiling, input)).map(load).collect()
}

/// Returns WGSL that copies what was fetched to work-group memory.
fn copy(tiling: Tiling) -> String {
    let mut text = String::new();
    for (input, name) in ["left", "right"].into_iter().enumerate() {
        for turn in 0..turns(tiling, input) {
            let first = turn * tiling.invocations();
            let copy = format!("{name}_slice[local.x + {first}u] = {name}{turn};");
            let _ = match first + tiling.invocations() > tiling.slice(input) {
                true => writeln!(text, "    if (local.x + {first}u < {}u) {{ {copy} }}", tiling.slice(input)),
                false => writeln!(text, "    {copy}"),
            };
        }
    }
    text
}

/// Returns WGSL that multiplies the slices in work-group memory.
fn multiply(tiling: Tiling, products: &Products<'_>) -> String {
    let mut text = String::new();
    for slice in 0..tiling.depth {
        for row in 0..tiling.blocks[0] {
            let at = format!("({}u + own_row + {row}u) * {VECTORS}u", slice * tiling.matrices(0));
            text += &products.load_data(&format!("data{slice}_{row}"), &at);
        }
        for column in 0..tiling.blocks[1] {
            let at = format!("({}u + own_column + {column}u) * {VECTORS}u", slice * tiling.matrices(1));
            text += &products.load_weights(&format!("weights{slice}_{column}"), &at);
        }
        for (row, column) in blocks(tiling) {
            let [data, weights] = [format!("data{slice}_{row}"), format!("weights{slice}_{column}")];
            text += &products.add(&format!("sum{row}_{column}"), &data, &weights);
        }
    }
    text
}

/// Returns WGSL that stores the results, one matrix of each subgroup at a time, `width` elements at once.
fn finish(
    tiling: Tiling,
    products: &Products<'_>,
    width: usize,
    ([rows, columns, _], [to_row, to_column]): (&[String; 3], &[String; 2]),
) -> String {
    let mut text = format!("    let lane = local.x % {SUBGROUP}u;\n    let own = subgroup * {VECTORS}u;\n");
    for (row, column) in blocks(tiling) {
        let (sum, name) = (format!("sum{row}_{column}"), format!("into{row}_{column}"));
        text += "    workgroupBarrier();\n";
        text += &products.store(&sum, &name, "own");
        text += "    workgroupBarrier();\n";
        for turn in 0..VECTORS / SUBGROUP {
            let vector = format!("lane + {}u", turn * SUBGROUP);
            let _ = write!(
                text,
                "    {{
        let vector = {vector};
        let row = first_row + (own_row + {row}u) * {SIDE}u + vector / 4u;
        let column = first_column + (own_column + {column}u) * {SIDE}u + vector % 4u * 4u;
        let value = sums[own + vector];
        let at = to + row * {to_row} + column * {to_column};
        if (row < {rows}) {{ {} }}\n    }}\n",
                match width {
                    4 => format!("if (column < {columns}) {{ store(at / 4u, value); }}"),
                    _ => (0..4)
                        .map(|c| format!(
                            "if (column + {c}u < {columns}) {{ store(at + {c}u * {to_column}, value[{c}]); }} "
                        ))
                        .collect(),
                }
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use attache_gpu_ir::{Expression, Program, Scalar, UnaryOp};

    use super::super::conv_matrix::tests::last_shader;
    use super::*;

    #[test]
    fn shaders_are_valid() {
        for (batch, [rows, depth, columns], groups) in [
            (8, [1024, 1024, 1024], [8, 4, 8]),
            (12, [512, 64, 512], [4, 2, 12]),
            (4, [512, 1024, 64], [2, 16, 4]),
            (1, [20, 36, 100], [4, 1, 1]),
        ] {
            for transposed in [[false, false], [false, true], [true, false], [true, true]] {
                let mut program = Program::default();
                let inputs = [(0, rows, depth), (1, depth, columns)].map(|(input, first, second)| {
                    let matrix = if transposed[input] { [batch, second, first] } else { [batch, first, second] };
                    let value = program.input(Scalar::F32, matrix.into());
                    let expression = Expression::Input(0).unary(UnaryOp::Tanh);
                    let map = Primitive::Map { expression, shape: matrix.into(), scalar: Scalar::F32 };
                    program.step(map, &[value], 0).unwrap()[0]
                });
                program.outputs =
                    program.step(Primitive::MatMul { transposed, order: Vec::new() }, &inputs, 1).unwrap();
                let shader = last_shader(program);
                assert_eq!((shader.variant, shader.groups), (VARIANT.name, groups), "{rows} {depth} {columns}");
            }
        }
    }
}
