//! Variant `matmul_matrix`: batched matrix products of computed values on cooperative matrices, in f16 with f32
//! accumulators. A work group computes a tile of results, of which each subgroup has a block of 16×16 matrices in registers.
//! Slices of both inputs along K are copied to work-group memory in the order in which they lie in memory: the device
//! transposes a matrix when it is loaded from there. The next slice is fetched while one is multiplied.

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

/// The tilings of products with few slices along K and many results: the first one if it has one or two work groups for each
/// unit, and the second one if it has more. Most of their time goes into loads and stores, which other work groups on the same
/// unit overlap.
const SHALLOW_TILINGS: [Tiling; 2] = [
    Tiling { subgroups: [2, 4], blocks: [2, 2], depth: 2, cost: 4 },
    Tiling { subgroups: [2, 2], blocks: [4, 2], depth: 1, cost: 4 },
];

/// Largest extent along K that has few slices.
const SHALLOW: usize = 64;

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

    /// Returns the vec4s of a line of a slice, which extends in the direction in which the input lies in memory.
    fn line(&self, input: usize, is_along_depth: bool) -> usize {
        SIDE / 4 * if is_along_depth { self.depth } else { self.matrices(input) }
    }

    /// Returns the vec4s from one line to the next in work-group memory: two more than a line has, so that neighbouring lines
    /// are in different memory banks.
    fn stride(&self, input: usize, is_along_depth: bool) -> usize {
        self.line(input, is_along_depth) + 2
    }

    /// Returns the vec4s that a slice of an input takes in work-group memory, at most.
    fn memory(&self, input: usize) -> usize {
        let of =
            |is_along_depth| self.slice(input) / self.line(input, is_along_depth) * self.stride(input, is_along_depth);
        of(true).max(of(false))
    }

    /// Returns the bytes of work-group memory: two slices of f16, and a matrix of f32 for each subgroup.
    fn bytes(&self) -> usize {
        8 * (self.memory(0) + self.memory(1)) + 16 * self.sums()
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
            let is_deep = tiling.depth <= 2 || product.depth >= MANY_SLICES * SIDE * tiling.depth;
            groups
                && is_deep
                && tiling.invocations() <= limits.max_invocations
                && tiling.bytes() <= limits.work_group_bytes
        };
        let shallow = Self::shallow(product).filter(|tiling| fits(&tiling));
        shallow.or_else(|| TILINGS.iter().filter(fits).min_by_key(|tiling| tiling.time(product)).copied())
    }

    /// Returns the tiling of a product with few slices along K and many results; `None` for others.
    fn shallow(product: &Product) -> Option<Self> {
        let [first, second] = SHALLOW_TILINGS;
        let groups = first.groups(product).iter().product::<usize>();
        let has_many = product.depth <= SHALLOW && groups >= UNITS;
        has_many.then_some(if groups <= 2 * UNITS { first } else { second })
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
    /// Whether all tiles, and all slices along K, are within the matrix.
    is_whole: [bool; 2],
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
        let extent = [product.rows, product.columns][input];
        let is_whole =
            [extent.is_multiple_of(SIDE * tiling.matrices(input)), product.depth.is_multiple_of(SIDE * tiling.depth)];
        Input { array, offset, stride: writer.param(stride), is_along_depth, is_whole }
    });
    let right = Array::new("right_slice".into(), StorageFormat::Half, 4);
    let products = Products {
        is_emulated: context.limits.matrices == Matrices::Emulated,
        data: Rows { name: "left_slice", stride: tiling.stride(0, inputs[0].is_along_depth) },
        weights: &right,
        weights_stride: tiling.stride(1, inputs[1].is_along_depth),
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
        copied = copy(tiling, directions),
        multiplied = multiply(tiling, directions, &products),
    );
    let strides = [rank - 2, rank - 1].map(|axis| writer.param(product.output[axis]));
    let has_whole_tiles = inputs.iter().all(|input| input.is_whole[0]);
    body += &finish(tiling, &products, (width, has_whole_tiles), (&extents, &strides));
    let declarations = format!(
        "var<workgroup> left_slice: array<vec4<f16>, {}>;\nvar<workgroup> right_slice: array<vec4<f16>, {}>;\nvar<workgroup> sums: array<vec4<f32>, {}>;\n",
        tiling.memory(0),
        tiling.memory(1),
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
fn fetch(
    writer: &mut Writer<'_>,
    tiling: Tiling,
    (input, of): (usize, &Input),
    [rows, columns, depth]: &[String; 3],
) -> String {
    let (name, first, extent) = [("left", "first_row", rows), ("right", "first_column", columns)][input];
    let length = tiling.line(input, of.is_along_depth);
    let within = |width: usize| match of.is_whole[0] {
        true => "place".to_owned(),
        false => format!("min(place, {extent} - {width}u)"),
    };
    let (along_tile, along_depth, at) = match of.is_along_depth {
        true => (
            "first + line".to_owned(),
            "start + vector * 4u".to_owned(),
            format!("{} * {} + min(k, {depth} - 4u)", within(1), of.stride),
        ),
        false => (
            "first + vector * 4u".to_owned(),
            "start + line".to_owned(),
            format!("{} + min(k, {depth} - 1u) * {}", within(4), of.stride),
        ),
    };
    let loaded = format!("vec4<f16>({})", of.array.floats(&format!("(base + {at}) / 4u")));
    // What is fetched after the last slice is not multiplied.
    let loaded = if of.is_whole[1] { loaded } else { format!("select(vec4<f16>(), {loaded}, k < {depth})") };
    writer.function(&format!(
        "fn fetch_{name}(unit: u32, base: u32, first: u32, start: u32) -> vec4<f16> {{
    let line = unit / {length}u;
    let vector = unit % {length}u;
    let place = {along_tile};
    let k = {along_depth};
    return {loaded};\n}}\n"
    ));
    let load = |turn: usize| {
        let unit = format!("local.x + {}u", turn * tiling.invocations());
        format!("    {name}{turn} = fetch_{name}({unit}, {}, {first}, start);\n", of.offset)
    };
    (0..turns(tiling, input)).map(load).collect()
}

/// Returns WGSL that copies what was fetched to work-group memory.
fn copy(tiling: Tiling, directions: [bool; 2]) -> String {
    let mut text = String::new();
    for (input, name) in ["left", "right"].into_iter().enumerate() {
        for turn in 0..turns(tiling, input) {
            let first = turn * tiling.invocations();
            let [line, stride] = [Tiling::line, Tiling::stride].map(|of| of(&tiling, input, directions[input]));
            let unit = format!("(local.x + {first}u)");
            let copy = format!("{name}_slice[{unit} / {line}u * {stride}u + {unit} % {line}u] = {name}{turn};");
            let _ = match first + tiling.invocations() > tiling.slice(input) {
                true => writeln!(text, "    if (local.x + {first}u < {}u) {{ {copy} }}", tiling.slice(input)),
                false => writeln!(text, "    {copy}"),
            };
        }
    }
    text
}

/// Returns WGSL that multiplies the slices in work-group memory.
fn multiply(tiling: Tiling, directions: [bool; 2], products: &Products<'_>) -> String {
    let mut text = String::new();
    // The first vec4 of the matrix at this place along K and along the tile.
    let at = |input: usize, slice: usize, along_tile: &str| {
        let stride = tiling.stride(input, directions[input]);
        match directions[input] {
            true => format!("({along_tile}) * {}u + {}u", SIDE * stride, slice * SIDE / 4),
            false => format!("{}u + ({along_tile}) * {}u", slice * SIDE * stride, SIDE / 4),
        }
    };
    for slice in 0..tiling.depth {
        for row in 0..tiling.blocks[0] {
            let at = at(0, slice, &format!("own_row + {row}u"));
            text += &products.load_data(&format!("data{slice}_{row}"), &at);
        }
        for column in 0..tiling.blocks[1] {
            let at = at(1, slice, &format!("own_column + {column}u"));
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
/// `has_whole_tiles` states whether all elements of all tiles are results.
fn finish(
    tiling: Tiling,
    products: &Products<'_>,
    (width, has_whole_tiles): (usize, bool),
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
        {}\n    }}\n",
                match width {
                    4 if has_whole_tiles => "store(at / 4u, value);".to_owned(),
                    4 => format!("if (row < {rows} && column < {columns}) {{ store(at / 4u, value); }}"),
                    _ => (0..4)
                        .map(|c| format!(
                            "if (row < {rows} && column + {c}u < {columns}) {{ store(at + {c}u * {to_column}, value[{c}]); }} "
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
            (12, [512, 64, 512], [8, 4, 12]),
            (4, [512, 64, 1024], [8, 8, 4]),
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
