//! Shared by the variants of products with few rows: work groups that put all rows of the left matrix into their memory,
//! which they load, or compute as the kernel's prologue does.

use attache_gpu_ir::{Primitive, Rows};

use crate::kernel::Kernel;
use crate::variants::reduction::rows::Parts;
use crate::variants::reduction::rows_group::{Tiling, steps};
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
        let mut declarations = format!("var<workgroup> left_rows: array<f32, {}>;\n", rows * depth);
        let body = match kernel.prologue.as_deref().map(|first| (first, &first.primitive)) {
            Some((prologue, Primitive::Rows(made))) => {
                declarations += &format!("var<workgroup> shared_folded: array<f32, {invocations}>;\n");
                folded(writer, context, (prologue, made), (rows, first, invocations))
            }
            prologue => {
                let left = match prologue {
                    Some((prologue, _)) => computed(writer, context, prologue, ("left", 1)),
                    None => writer.read(kernel.inputs[0], 1),
                };
                let value = left.floats(&format!("{first} * {depth}u + index"));
                let count = rows * depth;
                format!(
                    "    for (var index = local.x; index < {count}u; index += {invocations}u) {{ left_rows[index] = {value}; }}\n"
                )
            }
        };
        Self { declarations, body: body + "    workgroupBarrier();\n", depth }
    }

    /// Returns WGSL of `width` elements of a row from element `k` on, as a vector if there are four.
    pub(super) fn elements(&self, row: usize, k: &str, width: usize) -> String {
        let one = |offset: usize| format!("left_rows[{k} + {}u]", row * self.depth + offset);
        match width {
            1 => one(0),
            _ => format!("vec4<f32>({}, {}, {}, {})", one(0), one(1), one(2), one(3)),
        }
    }
}

/// Returns WGSL that computes each row from the reductions of its elements.
fn folded(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    (prologue, made): (&Kernel, &Rows),
    (rows, first, invocations): (usize, &str, usize),
) -> String {
    let parts = Parts::of_prologue(writer, context, prologue);
    let tiling = Tiling { rows_per_group: 1, workers: invocations };
    let (start, steps) = (parts.start("row"), steps(writer, &parts, tiling));
    let (each, element) = (parts.each("worker", &format!("{invocations}u")), parts.element(&made.result));
    let (value, depth) = (expression(&made.result, 1), made.extent());
    format!(
        "    let worker = local.x;
    for (var staged = 0u; staged < {rows}u; staged++) {{
    let row = {first} + staged;
{start}{steps}{each}{element}        left_rows[staged * {depth}u + r] = {value};
    }}
    }}\n"
    )
}
