//! Variant `matmul_group`: batched matrix products of floats with few rows, as attention has them for one token. A work
//! group computes a few columns of up to four rows, which it may compute as the kernel's prologue does. Its invocations
//! divide K among them, in the order in which the right matrix lies in memory, and add their sums in work-group memory.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, Scalar};

use super::left_rows::LeftRows;
use super::matmul::{Product, in_place};
use crate::kernel::{Kernel, MAX_GROUPS, STAGED_ROWS, StorageFormat, rows_group, vector_width};
use crate::variants::elementwise::update::{Updated, updated};
use crate::variants::reduction::partial_results::Parts;
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "matmul_group", computes: Computes::Rows, applies, priority, write };

/// Number of work groups that fill a large device.
const ENOUGH_GROUPS: usize = 128;

/// Number of elements along K from which dividing them is worth the barriers.
const LEAST_DEPTH: usize = 32;

/// Maximum number of elements of the right matrix that an invocation loads before it multiplies the first.
const AT_ONCE: usize = 8;

/// How a product is computed.
struct Problem {
    product: Product,
    /// First element of each input.
    offsets: [usize; 2],
    /// Whether neighbouring elements of the right matrix along K are neighbours in memory.
    is_along_depth: bool,
    /// Number of elements of the right matrix that are loaded at once, along K or along the columns.
    width: usize,
    /// Number of units of columns of a work group, and of invocations that divide K. Both are powers of two.
    columns: usize,
    parts: usize,
}

impl Problem {
    fn new(context: &Context<'_>, kernel: &Kernel) -> Option<Self> {
        let (product, offsets) = in_place(context, kernel)?;
        let rank = product.output.len();
        let [left, right] = &product.inputs;
        let is_along_depth = right[rank - 2] <= right[rank - 1] && right[rank - 2] == 1;
        let other_strides = |strides: &[usize], skipped: usize| {
            strides.iter().enumerate().all(|(axis, stride)| axis == skipped || stride.is_multiple_of(4))
        };
        let is_whole = match is_along_depth {
            true => {
                let contiguous = left[rank - 1] == 1 && other_strides(left, rank - 1) && offsets[0].is_multiple_of(4);
                contiguous && product.depth.is_multiple_of(4) && other_strides(right, rank - 2)
            }
            false => right[rank - 1] == 1 && product.columns.is_multiple_of(4) && other_strides(right, rank - 1),
        };
        let width = if is_whole && offsets[1].is_multiple_of(4) { 4 } else { 1 };
        let group = rows_group(context.limits);
        let mut problem = Self { product, offsets, is_along_depth, width, columns: 1, parts: 1 };
        let units = problem.depth().next_power_of_two().min(group);
        // Along columns, neighbours load whole memory transactions; along K, any number of columns is as good.
        let least = if is_along_depth { group / units } else { 8 / width };
        let sizes = (0..=group.ilog2()).rev().map(|power| 1 << power).filter(|columns| *columns >= least.max(1));
        for columns in sizes {
            (problem.columns, problem.parts) = (columns, (group / columns).min(units));
            if problem.groups().iter().product::<usize>() >= ENOUGH_GROUPS {
                break;
            }
        }
        let fits = problem.groups().iter().all(|count| *count <= MAX_GROUPS);
        (fits && group * 16 * problem.rows() <= context.limits.work_group_bytes).then_some(problem)
    }

    /// Returns the number of units along K that invocations divide.
    fn depth(&self) -> usize {
        self.product.depth / if self.is_along_depth { self.width } else { 1 }
    }

    /// Returns the number of columns of a unit.
    fn unit(&self) -> usize {
        if self.is_along_depth { 1 } else { self.width }
    }

    /// Returns the number of elements of the left matrix that are loaded at once.
    fn left_width(&self) -> usize {
        if self.is_along_depth { self.width } else { 1 }
    }

    /// Returns the number of units of the right matrix that an invocation loads before it multiplies the first; `None` if it
    /// multiplies each before it loads the next.
    fn turns_ahead(&self) -> Option<usize> {
        Some(self.depth().div_ceil(self.parts)).filter(|turns| *turns <= AT_ONCE)
    }

    /// Returns the number of rows that a work group computes.
    fn rows(&self) -> usize {
        self.product.rows.min(STAGED_ROWS)
    }

    /// Returns WGSL of the number of an invocation among those that divide K, and of its unit of columns.
    fn places(&self) -> String {
        let Self { columns, parts, is_along_depth, .. } = self;
        match is_along_depth {
            true => format!("    let part = local.x % {parts}u;\n    let own = local.x / {parts}u;\n"),
            false => format!("    let part = local.x / {columns}u;\n    let own = local.x % {columns}u;\n"),
        }
    }

    /// Whether the elements of the right matrices are all of this many, each once for all products that share a matrix.
    fn loads_all(&self, elements: usize) -> bool {
        let Product { outer, depth, columns, inputs: [_, right], .. } = &self.product;
        let extents = outer.iter().chain([depth, columns]).copied();
        let mut axes: Vec<(usize, usize)> =
            right.iter().copied().zip(extents).filter(|(_, extent)| *extent != 1).collect();
        axes.retain(|(stride, _)| *stride != 0);
        axes.sort_unstable();
        let next = |reached: usize, (stride, extent): &(usize, usize)| (*stride == reached).then_some(reached * extent);
        self.offsets[1] == 0 && axes.iter().try_fold(1, next) == Some(elements)
    }

    /// Returns WGSL of whether an invocation is the first of those that load the same column of the right matrix.
    /// `column_count` is WGSL of the number of columns.
    fn owns(&self, writer: &mut Writer<'_>, column_count: &str) -> String {
        let Product { outer, inputs: [_, right], .. } = &self.product;
        let mut text = format!("group.y == 0u && column < {column_count}");
        let mut inner = 1;
        for (extent, stride) in outer.iter().zip(right).rev() {
            if *stride == 0 && *extent != 1 {
                let [inner, extent] = [inner, *extent].map(|number| writer.param(number));
                text += &format!(" && group.z / {inner} % {extent} == 0u");
            }
            inner *= extent;
        }
        text
    }

    fn groups(&self) -> [usize; 3] {
        let Product { outer, rows, columns, .. } = &self.product;
        [columns.div_ceil(self.columns * self.unit()), rows.div_ceil(self.rows()), outer.iter().product()]
    }
}

/// Where the elements of the left matrix are.
enum Left {
    /// In memory, as they are.
    Stored(Array),
    /// In work-group memory.
    Staged(LeftRows),
}

impl Left {
    fn of(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, problem: &Problem) -> Self {
        if kernel.prologue.is_none() {
            return Left::Stored(writer.read_stored(kernel.source(kernel.inputs[0]), problem.left_width()));
        }
        let depth = problem.product.depth;
        let first = format!("from_left / {depth}u");
        let sizes = ([problem.rows(), depth], &*first, problem.columns * problem.parts);
        Left::Staged(LeftRows::new(writer, context, kernel, sizes))
    }

    fn declarations(&self) -> &str {
        if let Left::Staged(rows) = self { &rows.declarations } else { "" }
    }

    fn body(&self) -> &str {
        if let Left::Staged(rows) = self { &rows.body } else { "" }
    }
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    matches!(kernel.primitive, Primitive::MatMul { .. })
        && context.program.value(kernel.inputs[0]).scalar == Scalar::F32
        && context.program.shape(kernel.outputs[0]).elements() > 0
        && kernel.inputs.iter().all(|id| context.program.shape(*id).elements() > 0)
        && Problem::new(context, kernel).is_some()
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Product { rows, depth, .. } = Product::of(context, kernel);
    if rows <= 2 * STAGED_ROWS && depth >= LEAST_DEPTH && context.limits.splits_k { 0 } else { 60 }
}

/// How elements of the right matrix are loaded.
enum Right {
    /// From memory, as they are.
    Stored(Array),
    /// The WGSL function `updated` replaces loaded elements, and stores those that it replaces.
    Updated(Updated),
}

impl Right {
    fn array(&self) -> &Array {
        match self {
            Right::Stored(array) | Right::Updated(Updated { array, .. }) => array,
        }
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let problem = Problem::new(context, kernel).expect("applies");
    let mut writer = Writer::new(VARIANT.name, context);
    let right = Right::Stored(writer.read_stored(kernel.source(kernel.inputs[1]), problem.width));
    vec![shader(writer, context, kernel, (&problem, &right))]
}

/// Generates the shader of a product that also does the update which makes its right matrix, in the memory of the update's
/// operand. `None` if it may not load all elements of what the update makes, or in units that are not whole in the block.
pub(in crate::variants) fn write_updating(context: &Context<'_>, kernel: &Kernel, update: &Kernel) -> Option<Shader> {
    let problem = Problem::new(context, kernel)?;
    let made = update.outputs[0];
    let is_exact = context.storages.of(made) == StorageFormat::F32;
    if !is_exact || !problem.loads_all(context.program.shape(made).elements()) {
        return None;
    }
    let mut writer = Writer::new(VARIANT.name, context);
    let right = Right::Updated(updated(&mut writer, context, update, problem.width)?);
    Some(shader(writer, context, kernel, (&problem, &right)))
}

fn shader(
    mut writer: Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    (problem, right): (&Problem, &Right),
) -> Shader {
    let Problem { product, offsets, is_along_depth, width, columns, parts } = problem;
    let (rank, rows, unit) = (product.output.len(), problem.rows(), problem.unit());
    let left_width = problem.left_width();
    let left = Left::of(&mut writer, context, kernel, problem);
    let is_whole = unit == 4 && product.output[rank - 1] == 1;
    let stored = if is_whole { vector_width(context.program, kernel) } else { 1 };
    store_anywhere(&mut writer, context, kernel, stored);
    let [row_count, column_count, depth] =
        [product.rows, product.columns, problem.depth()].map(|extent| writer.param(extent));
    let (row, column) = (rank - 2, rank - 1);
    let [left_row, left_k, right_k, right_column, to_row, to_column] = [
        product.inputs[0][row],
        product.inputs[0][column] * left_width,
        product.inputs[1][row] * if *is_along_depth { *width } else { 1 },
        product.inputs[1][column],
        product.output[row],
        product.output[column],
    ]
    .map(|stride| writer.param(stride));
    let [left_offset, right_offset] = offsets.map(|offset| writer.param(offset));
    let mut body = format!(
        "    var rest = group.z;
{}{}    let column = (group.x * {columns}u + own) * {unit}u;
    let right = {right_offset} + from_right + min(column, {column_count} - {unit}u) * {right_column};\n",
        product.offsets(&mut writer),
        problem.places(),
    );
    if let Right::Updated(Updated { starts, .. }) = right {
        let _ = writeln!(body, "{starts}    let owns = {};", problem.owns(&mut writer, &column_count));
    }
    let steps = Steps { depth, left_k, right_k };
    body += &steps.load_ahead(problem, right);
    body += left.body();
    for index in 0..rows {
        let _ = writeln!(body, "    let row{index} = group.y * {rows}u + {index}u;");
        let _ = writeln!(
            body,
            "    let left{index} = {left_offset} + from_left + min(row{index}, {row_count} - 1u) * {left_row};"
        );
    }
    body += &steps.products(problem, right, &left);
    let division = Parts { columns: *columns, parts: *parts, are_adjacent: *is_along_depth };
    body += &division.add(rows, context.limits.subgroup);
    let texts: [&str; 4] = [&row_count, &column_count, &to_row, &to_column];
    (0..rows).for_each(|index| body += &store_row(index, (stored, unit), texts));
    let sum = vector("f32", unit);
    let declarations =
        format!("{}var<workgroup> sums: array<array<{sum}, {}>, {rows}>;\n", left.declarations(), columns * parts);
    let groups = problem.groups().map(|count| count as u32);
    writer.finish([(columns * parts) as u32, 1, 1], groups, &declarations, &body)
}

/// WGSL of the number of units along K, and of the distances between them in the matrices.
struct Steps {
    depth: String,
    left_k: String,
    right_k: String,
}

impl Steps {
    /// Returns WGSL of where a unit of the right matrix is.
    fn of_right(&self, problem: &Problem, unit: &str) -> String {
        format!("(right + {unit} * {}) / {}u", self.right_k, problem.width)
    }

    /// Returns WGSL that loads what an invocation reads of the right matrix, if that is little: while the rows are staged.
    fn load_ahead(&self, problem: &Problem, right: &Right) -> String {
        let load = |turn: usize| {
            let unit = format!("min(part + {}u, {} - 1u)", turn * problem.parts, self.depth);
            format!("    let y{turn} = {};\n", right.array().floats(&self.of_right(problem, &unit)))
        };
        (0..problem.turns_ahead().unwrap_or(0)).map(load).collect()
    }

    /// Returns WGSL that adds the products of each row to `sum0`, `sum1` and so on.
    fn products(&self, problem: &Problem, right: &Right, left: &Left) -> String {
        let (Self { depth, left_k, .. }, Problem { width, parts, .. }) = (self, problem);
        let (sum, left_width) = (vector("f32", problem.unit()), problem.left_width());
        let mut text: String = (0..problem.rows()).map(|index| format!("    var sum{index} = {sum}();\n")).collect();
        let at = self.of_right(problem, "k");
        let mut multiply = |start: &str, y: &str| {
            let _ = match right {
                Right::Stored(_) => writeln!(text, "    {start}\n        let y = {y};"),
                Right::Updated(_) => writeln!(text, "    {start}\n        let y = updated({at}, {y}, owns, starts);"),
            };
            for index in 0..problem.rows() {
                let x = match left {
                    Left::Stored(left) => left.floats(&format!("(left{index} + k * {left_k}) / {left_width}u")),
                    Left::Staged(rows) => rows.elements(index, &format!("k * {left_width}u"), left_width),
                };
                let _ = match (problem.is_along_depth, width) {
                    (true, 4) => writeln!(text, "        sum{index} += dot({x}, y);"),
                    _ => writeln!(text, "        sum{index} = fma({sum}({x}), y, sum{index});"),
                };
            }
            text += "    }\n";
        };
        match problem.turns_ahead() {
            Some(turns) => (0..turns).for_each(|turn| {
                let k = format!("part + {}u", turn * parts);
                multiply(&format!("if ({k} < {depth}) {{ let k = {k};"), &format!("y{turn}"));
            }),
            None => {
                let start = format!("for (var k = part; k < {depth}; k += {parts}u) {{");
                multiply(&start, &right.array().floats(&at));
            }
        }
        text
    }
}

/// Returns WGSL that stores a unit of results of a row, `stored` elements at a time.
fn store_row(
    index: usize,
    (stored, unit): (usize, usize),
    [row_count, column_count, to_row, to_column]: [&str; 4],
) -> String {
    let value = format!("sum{index}");
    let is_there = format!("row{index} < {row_count} && column < {column_count}");
    let at = format!("to + row{index} * {to_row} + column * {to_column}");
    let stores: String = match (stored, unit) {
        (4, _) => format!("store(({at}) / 4u, {value});"),
        (_, 1) => format!("store({at}, {value});"),
        _ => (0..4).map(|c| format!("store({at} + {c}u * {to_column}, {value}[{c}]); ")).collect(),
    };
    format!("    if (part == 0u && {is_there}) {{ {stores} }}\n")
}
