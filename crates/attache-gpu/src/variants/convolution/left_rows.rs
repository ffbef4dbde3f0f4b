//! Shared by the variants of products with few rows: work groups that put all rows of the left matrix into their memory,
//! which they load, or compute as the kernel's prologue does.

use attache_gpu_ir::{Primitive, Rows};

use crate::kernel::{Kernel, vector_width};
use crate::variants::reduction::rows::Parts;
use crate::variants::reduction::rows_group::{Tiling, steps};
use crate::variants::reduction::rows_vectors::InRegisters;
use crate::wgsl::computed::computed;
use crate::wgsl::expression::expression;
use crate::wgsl::{Context, Writer};

/// The left rows of a product in the work-group array `left_rows`, one after the other.
pub(super) struct LeftRows {
    /// Declarations of work-group memory.
    pub(super) declarations: String,
    /// Statements that fill the array. All invocations of the work group have to run them.
    pub(super) body: String,
    /// Number of elements of a row.
    depth: usize,
    /// Whether the array is of vec4s of elements.
    is_wide: bool,
}

impl LeftRows {
    /// Returns `rows` rows of `depth` elements, which `invocations` invocations of a work group stage. `first` is WGSL of
    /// the number of the first row, among those of all matrices.
    pub(super) fn new(
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &Kernel,
        ([rows, depth], first, invocations): ([usize; 2], &str, usize),
    ) -> Self {
        let is_wide = depth.is_multiple_of(4);
        let mut declarations = match is_wide {
            true => format!("var<workgroup> left_rows: array<vec4<f32>, {}>;\n", rows * depth / 4),
            false => format!("var<workgroup> left_rows: array<f32, {}>;\n", rows * depth),
        };
        let body = match kernel.prologue.as_deref().map(|first| (first, &first.primitive)) {
            Some((prologue, Primitive::Rows(made))) => {
                declarations += &format!("var<workgroup> shared_folded: array<f32, {invocations}>;\n");
                folded(writer, context, (prologue, made), (rows, first, invocations))
            }
            prologue => {
                let in_vec4s = |prologue: &Kernel| vector_width(context.program, prologue);
                let width = if is_wide { prologue.map_or(4, |(prologue, _)| in_vec4s(prologue)) } else { 1 };
                let left = match prologue {
                    Some((prologue, _)) => computed(writer, context, prologue, ("left", width)),
                    None => writer.read(kernel.inputs[0], width),
                };
                let units = depth / width;
                let value = |index: &str| left.floats(&format!("{first} * {units}u + {index}"));
                let put = |index: &str, value: &str| match width {
                    4 => format!("left_rows[{index}] = {value};"),
                    _ => format!("{} = {value};", element(is_wide, index)),
                };
                loaded(value, put, rows * units, invocations)
            }
        };
        Self { declarations, body: body + "    workgroupBarrier();\n", depth, is_wide }
    }

    /// Returns WGSL of `width` elements of a row from element `k` on, as a vector if there are four. `k` is then a multiple of
    /// 4, and so is the number of elements of a row.
    pub(super) fn elements(&self, row: usize, k: &str, width: usize) -> String {
        match width {
            1 => element(self.is_wide, &format!("({k} + {}u)", row * self.depth)),
            _ => format!("left_rows[({k}) / 4u + {}u]", row * self.depth / 4),
        }
    }
}

/// Maximum number of elements that an invocation loads before it stores the first.
const AT_ONCE: usize = 4;

/// Returns WGSL that loads `count` values and puts them where they belong.
fn loaded(
    value: impl Fn(&str) -> String,
    put: impl Fn(&str, &str) -> String,
    count: usize,
    invocations: usize,
) -> String {
    if count > AT_ONCE * invocations {
        let put = put("index", &value("index"));
        return format!("    for (var index = local.x; index < {count}u; index += {invocations}u) {{ {put} }}\n");
    }
    let turns = 0..count.div_ceil(invocations);
    let load = |turn| {
        let index = format!("min(local.x + {}u, {}u)", turn * invocations, count - 1);
        format!("    let loaded{turn} = {};\n", value(&index))
    };
    let store = |turn| {
        let index = format!("(local.x + {}u)", turn * invocations);
        format!("    if ({index} < {count}u) {{ {} }}\n", put(&index, &format!("loaded{turn}")))
    };
    turns.clone().map(load).chain(turns.map(store)).collect()
}

/// Returns WGSL of an element of the array.
fn element(is_wide: bool, index: &str) -> String {
    if is_wide { format!("left_rows[{index} / 4u][{index} % 4u]") } else { format!("left_rows[{index}]") }
}

/// Returns WGSL that computes each row from the reductions of its elements.
fn folded(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    (prologue, made): (&Kernel, &Rows),
    (rows, first, invocations): (usize, &str, usize),
) -> String {
    let tiling = Tiling { rows_per_group: 1, workers: invocations };
    let depth = made.extent();
    let row = match InRegisters::fits(context, prologue, invocations) {
        true => {
            let held = InRegisters::new(writer, context, prologue, invocations);
            let put = format!("left_rows[staged * {}u + rSLOT] = value;", depth / 4);
            held.load() + &held.steps(writer, tiling) + &held.each(&made.result, &put)
        }
        false => {
            let parts = Parts::of_prologue(writer, context, prologue);
            let (start, steps) = (parts.start("row"), steps(writer, &parts, tiling));
            let (each, load) = (parts.each("worker", &format!("{invocations}u")), parts.element(&made.result));
            let value = expression(&made.result, 1);
            let to = element(depth.is_multiple_of(4), &format!("(staged * {depth}u + r)"));
            format!("{start}{steps}{each}{load}        {to} = {value};\n    }}\n")
        }
    };
    format!(
        "    let worker = local.x;
    for (var staged = 0u; staged < {rows}u; staged++) {{
    let row = {first} + staged;
{row}    }}\n"
    )
}
