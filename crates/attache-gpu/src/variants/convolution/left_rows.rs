//! Shared by the variants of products with few rows: work groups that put all rows of the left matrix into their memory,
//! which they load, or compute as the kernel's prologue does.

use attache_gpu_ir::{Primitive, Rows};

use crate::kernel::{Kernel, vector_width};
use crate::variants::reduction::partial_results::Tiling;
use crate::variants::reduction::rows::Parts;
use crate::variants::reduction::rows_group::steps;
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
    /// Number of elements in one of the array's. An invocation stores all of them, since others may not store parts of a
    /// vector at the same time.
    width: usize,
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
        let prologue = kernel.prologue.as_deref();
        let width = width(context, prologue, depth, invocations);
        let mut declarations = match width {
            4 => format!("var<workgroup> left_rows: array<vec4<f32>, {}>;\n", rows * depth / 4),
            _ => format!("var<workgroup> left_rows: array<f32, {}>;\n", rows * depth),
        };
        let body = match prologue.map(|first| (first, &first.primitive)) {
            Some((prologue, Primitive::Rows(made))) => {
                declarations += &format!("var<workgroup> shared_folded: array<f32, {invocations}>;\n");
                folded(writer, context, (prologue, made, width), (rows, first, invocations))
            }
            prologue => {
                let left = match prologue {
                    Some((prologue, _)) => computed(writer, context, prologue, ("left", width)),
                    None => writer.read(kernel.inputs[0], width),
                };
                let value = |index: &str| left.floats(&format!("{first} * {}u + {index}", depth / width));
                loaded(value, rows * depth / width, invocations)
            }
        };
        Self { declarations, body: body + "    workgroupBarrier();\n", depth, width }
    }

    /// Returns WGSL of `width` elements of a row from element `k` on, as a vector if there are four. `k` is then a multiple of
    /// 4, and so is the number of elements of a row.
    pub(super) fn elements(&self, row: usize, k: &str, width: usize) -> String {
        let one = |offset: usize| {
            let index = format!("({k} + {}u)", row * self.depth + offset);
            if self.width == 4 {
                format!("left_rows[{index} / 4u][{index} % 4u]")
            } else {
                format!("left_rows[{index}]")
            }
        };
        match (width, self.width) {
            (1, _) => one(0),
            (_, 4) => format!("left_rows[({k}) / 4u + {}u]", row * self.depth / 4),
            _ => format!("vec4<f32>({}, {}, {}, {})", one(0), one(1), one(2), one(3)),
        }
    }
}

/// Returns the number of elements that an invocation stages at once.
fn width(context: &Context<'_>, prologue: Option<&Kernel>, depth: usize, invocations: usize) -> usize {
    let in_vec4s = |first: &Kernel| match first.primitive {
        Primitive::Rows(_) => InRegisters::fits(context, first, invocations),
        _ => vector_width(context.program, first) == 4,
    };
    if depth.is_multiple_of(4) && prologue.is_none_or(in_vec4s) { 4 } else { 1 }
}

/// Maximum number of elements that an invocation loads before it stores the first.
const AT_ONCE: usize = 4;

/// Returns WGSL that loads `count` values into the array.
fn loaded(value: impl Fn(&str) -> String, count: usize, invocations: usize) -> String {
    if count > AT_ONCE * invocations {
        return format!(
            "    for (var index = local.x; index < {count}u; index += {invocations}u) {{ left_rows[index] = {}; }}\n",
            value("index")
        );
    }
    let turns = 0..count.div_ceil(invocations);
    let load = |turn| {
        let index = format!("min(local.x + {}u, {}u)", turn * invocations, count - 1);
        format!("    let loaded{turn} = {};\n", value(&index))
    };
    let store = |turn| {
        let index = format!("local.x + {}u", turn * invocations);
        format!("    if ({index} < {count}u) {{ left_rows[{index}] = loaded{turn}; }}\n")
    };
    turns.clone().map(load).chain(turns.map(store)).collect()
}

/// Returns WGSL that computes each row from the reductions of its elements.
fn folded(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    (prologue, made, width): (&Kernel, &Rows, usize),
    (rows, first, invocations): (usize, &str, usize),
) -> String {
    let tiling = Tiling { rows_per_group: 1, workers: invocations };
    let depth = made.extent();
    let row = match width {
        4 => {
            let held = InRegisters::new(writer, context, prologue, invocations);
            let put = format!("left_rows[staged * {}u + rSLOT] = value;", depth / 4);
            held.load() + &held.steps(writer, tiling) + &held.each(&made.result, &put)
        }
        _ => {
            let parts = Parts::of_prologue(writer, context, prologue);
            let (start, steps) = (parts.start("row"), steps(writer, &parts, tiling));
            let (each, load) = (parts.each("worker", &format!("{invocations}u")), parts.element(&made.result));
            let value = expression(&made.result, 1);
            format!("{start}{steps}{each}{load}        left_rows[staged * {depth}u + r] = {value};\n    }}\n")
        }
    };
    format!(
        "    let worker = local.x;
    for (var staged = 0u; staged < {rows}u; staged++) {{
    let row = {first} + staged;
{row}    }}\n"
    )
}
