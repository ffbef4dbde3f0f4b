//! Variant `rows_group`: reductions and maps over rows, with a work group per row, or per few rows whose
//! elements are adjacent in memory. Used for few rows that are long.

use attache_gpu_ir::{Expression, Primitive, ReduceOp, RowStep, Rows};

use super::partial_results::{Reduced, Tiling};
use super::reduce::{folding, mean_factor};
use super::reduce_group::{MANY_ELEMENTS, MANY_RESULTS};
use super::rows::Parts;
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::expression::expression;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "rows_group", computes: Computes::Nothing, applies, priority, write };

/// Minimum number of invocations of a work group, and the maximum if the device allows it.
const GROUP: [usize; 2] = [64, 1024];

/// Number of elements of a row per invocation, up to the maximum size of a work group. With fewer, the
/// barriers would take longer than the reduction.
const EACH: usize = 4;

/// Number of rows per work group if elements of neighbouring rows are adjacent in memory, so that loads use
/// whole memory transactions.
const ROWS_PER_GROUP: usize = 8;

/// Number of elements that are loaded before the first of them is added, where one invocation reduces a row
/// in order. It then waits for memory once for all of them.
const AT_ONCE: usize = 8;

/// Number of elements of a row above which this variant is preferred to one invocation per row.
const FEW_ELEMENTS: usize = 32;

fn applies(_: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Rows(rows) = &kernel.primitive else { return false };
    rows.extent() > 0 && rows.folded().elements() <= MANY_RESULTS
}

fn priority(_: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Rows(rows) = &kernel.primitive else { unreachable!("applies") };
    if rows.extent() > FEW_ELEMENTS { 1 } else { 50 }
}

impl Tiling {
    /// Returns the tiling with `rows_per_group` rows per work group if the number of rows that are adjacent
    /// in memory is a multiple of that, else with one row.
    pub(super) fn new(context: &Context<'_>, rows: &Rows, rows_per_group: usize) -> Self {
        let inner: usize = rows.shape[rows.axes.end..].iter().product();
        let rows_per_group = if inner.is_multiple_of(rows_per_group) { rows_per_group } else { 1 };
        Self { rows_per_group, workers: group(context, rows.extent() * rows_per_group) as usize / rows_per_group }
    }
}

/// Returns the number of invocations of a work group that reduces `extent` elements, a power of two.
fn group(context: &Context<'_>, extent: usize) -> u32 {
    let most = GROUP[1].min(context.limits.max_invocations);
    let mut group = GROUP[0];
    while group * 2 <= most && group * EACH < extent {
        group *= 2;
    }
    group as u32
}

/// Whether the elements of a row must be reduced in the input's order. They must if the order affects the
/// result (products, and sums of terms that may be negative) and the row has at most [`MANY_ELEMENTS`]
/// elements. Parts of a longer row are exempt.
pub(super) fn is_in_order(rows: &Rows, reduction: ReduceOp, of: &Expression) -> bool {
    reduction.depends_on_order(of) && !rows.is_part && rows.extent() <= MANY_ELEMENTS
}

/// Returns WGSL that reduces all elements of a row in parallel: each invocation reduces a part of them, then
/// a tree reduction follows.
fn in_parallel(parts: &Parts<'_>, of: &Expression, fold: &str, (tiling, subgroup): (Tiling, Option<usize>)) -> Reduced {
    let (each, element, value) = (each(parts, tiling), parts.element(of), expression(of, 1));
    let reduced = Reduced::new(fold, tiling, subgroup);
    let text = format!("{each}{element}        let value = {value};\n        {fold}\n    }}\n{}", reduced.text);
    Reduced { text, ..reduced }
}

/// Returns WGSL with which one invocation reduces all elements of a row in order. All invocations of the row
/// load them into work-group memory first, chunk by chunk.
fn in_order(parts: &Parts<'_>, of: &Expression, fold: &str, tiling: Tiling) -> Reduced {
    let (extent, element, value) = (&parts.extent, parts.element(of), expression(of, 1));
    let Tiling { rows_per_group, workers } = tiling;
    let read =
        |n: usize| format!("            let value{n} = shared_folded[(index + {n}u) * {rows_per_group}u + local.x];\n");
    let add = |n: usize| format!("            {{ let value = value{n}; {fold} }}\n");
    let at_once = (0..AT_ONCE).map(read).chain((0..AT_ONCE).map(add)).collect::<String>();
    let text = format!(
        "    for (var start = 0u; start < {extent}; start += {workers}u) {{
        let r = min(start + worker, {extent} - 1u);
{element}        shared_folded[local.x] = {value};
        workgroupBarrier();
        let count = select(0u, min({workers}u, {extent} - start), worker == 0u);
        var index = 0u;
        for (; index + {AT_ONCE}u <= count; index += {AT_ONCE}u) {{
{at_once}        }}
        for (; index < count; index++) {{
            let value = shared_folded[index * {rows_per_group}u + local.x];
            {fold}
        }}
        workgroupBarrier();
    }}
    if (worker == 0u) {{ shared_folded[local.x] = folded; }}
    workgroupBarrier();\n"
    );
    Reduced::in_memory(text, tiling)
}

/// Returns WGSL of the head of the loop over the elements of a row that an invocation processes.
fn each(parts: &Parts<'_>, tiling: Tiling) -> String {
    parts.each("worker", &format!("{}u", tiling.workers))
}

/// Returns WGSL that computes the steps of the row `row` with all invocations of a work group, of which `worker` is the
/// number of the invocation. It needs the work-group array `shared_folded` of as many floats.
pub(in crate::variants) fn steps(writer: &mut Writer<'_>, parts: &Parts<'_>, tiling: Tiling) -> String {
    let (workers, subgroup) = (tiling.workers, writer.subgroup());
    let mut text = String::new();
    for (index, step) in parts.rows.steps.iter().enumerate() {
        let variable = parts.variable(index);
        text += &match step {
            RowStep::Map(of) => format!("    let x{variable} = {};\n", expression(of, 1)),
            RowStep::Fold(reduction, of) => {
                let extent = parts.rows.extent();
                let (fold, start) = folding(writer, "f32", *reduction);
                let mean_factor = mean_factor(writer, "f32", *reduction, extent);
                let Reduced { text, result, end } = match is_in_order(parts.rows, *reduction, of) {
                    true => in_order(parts, of, fold, tiling),
                    false => in_parallel(parts, of, fold, (tiling, subgroup)),
                };
                format!(
                    "    var x{variable}: f32;\n    {{
    var folded = f32({start});
{text}    x{variable} = {result}{mean_factor};
{end}    }}\n"
                )
            }
            RowStep::Across(reduction, of) => {
                let (fold, start) = folding(writer, "f32", *reduction);
                let mean_factor = mean_factor(writer, "f32", *reduction, parts.rows.parts());
                let folded = parts.across(of, "row", fold, ["worker", &format!("{workers}u")]);
                let Reduced { text, result, end } = Reduced::new(fold, tiling, subgroup);
                format!(
                    "    var x{variable}: f32;\n    {{
    var folded = f32({start});
{folded}{text}    x{variable} = {result}{mean_factor};
{end}    }}\n"
                )
            }
        };
    }
    text
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let mut writer = Writer::new(VARIANT.name, context);
    let parts = Parts::new(&mut writer, context, kernel);
    let tiling = Tiling::new(context, parts.rows, ROWS_PER_GROUP);
    let Tiling { rows_per_group, .. } = tiling;
    let mut body = format!(
        "    let worker = local.x / {rows_per_group}u;\n    let row = group.x * {rows_per_group}u + local.x % {rows_per_group}u;\n{}",
        parts.start("row")
    );
    body += &steps(&mut writer, &parts, tiling);
    body += &parts.finish("row", &each(&parts, tiling));
    let declarations = format!("var<workgroup> shared_folded: array<f32, {}>;\n", tiling.invocations());
    // The number of adjacent rows is a multiple of `rows_per_group`.
    let groups = (parts.rows.folded().elements() / rows_per_group) as u32;
    vec![writer.finish([tiling.invocations() as u32, 1, 1], [groups, 1, 1], &declarations, &body)]
}
