//! Variant `rows_vectors`: reductions and maps over rows of adjacent elements, such as a softmax or a normalization along
//! the last axis. The invocations of a work group, or a part of them for short rows, load a row as vec4s once and keep them
//! in registers.

use std::fmt::Write;

use attache_gpu_ir::{Expression, Primitive, ReduceOp, RowStep, Rows};

use super::partial_results::{Reduced, Tiling};
use super::reduce::{folding, mean_factor};
use super::rows_group::is_in_order;
use crate::kernel::{Kernel, MAX_GROUPS, StorageFormat, axes};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::{operand, store_anywhere};
use crate::wgsl::expression::{expression, functions};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "rows_vectors", computes: Computes::Nothing, applies, priority, write };

/// Number of vec4s of a row for each invocation, if the row is long enough.
const EACH: usize = 4;

/// Maximum number of vec4s of all inputs that an invocation keeps in registers.
const MAX_STAGED: usize = 16;

/// Minimum and maximum number of invocations for a row.
const WORKERS: [usize; 2] = [8, 256];

/// Number of invocations of a work group that has several rows.
const GROUP: usize = 128;

/// Minimum number of elements of a row: for fewer, one invocation reads a row as fast.
const MIN_ELEMENTS: usize = 64;

/// How rows are distributed over a work group.
fn tiling(context: &Context<'_>, rows: &Rows) -> Tiling {
    let vectors = rows.extent() / 4;
    let [fewest, most] = WORKERS;
    let most = most.min(1 << context.limits.max_invocations.ilog2());
    let workers = vectors.div_ceil(EACH).next_power_of_two().clamp(fewest, most);
    let count = rows.folded().elements();
    let side_by_side = (GROUP.min(most) / workers).max(1);
    let rows_per_group = (0..=side_by_side.ilog2()).rev().map(|power| 1 << power).find(|n| count.is_multiple_of(*n));
    Tiling { rows_per_group: rows_per_group.unwrap_or(1), workers }
}

/// Returns the indices of the inputs that vary along a row.
fn varying(context: &Context<'_>, kernel: &Kernel, rows: &Rows) -> Vec<usize> {
    (0..kernel.inputs.len()).filter(|input| rows.varies(context.program.shape(kernel.inputs[*input]))).collect()
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Rows(rows) = &kernel.primitive else { return false };
    let Tiling { rows_per_group, workers } = tiling(context, rows);
    InRegisters::fits(context, kernel, workers) && rows.folded().elements() / rows_per_group <= MAX_GROUPS
}

fn priority(context: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Rows(rows) = &kernel.primitive else { unreachable!("applies") };
    if rows.extent() >= MIN_ELEMENTS && context.limits.splits_k { 0 } else { 55 }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Rows(rows) = &kernel.primitive else { unreachable!("applies") };
    let tiling = tiling(context, rows);
    let Tiling { rows_per_group, workers } = tiling;
    let mut writer = Writer::new(VARIANT.name, context);
    let held = InRegisters::new(&mut writer, context, kernel, workers);
    store_anywhere(&mut writer, context, kernel, if rows.is_folded { 1 } else { 4 });
    let mut body = format!(
        "    let worker = local.x / {rows_per_group}u;
    let row = group.x * {rows_per_group}u + local.x % {rows_per_group}u;\n"
    );
    body += &(held.load() + &held.steps(&mut writer, tiling));
    body += &match rows.is_folded {
        true => format!("    if (worker == 0u) {{ store(row, {}.x); }}\n", expression(&rows.result, 4)),
        false => held.each(&rows.result, "store(atSLOT, value);"),
    };
    let declarations = format!("var<workgroup> shared_folded: array<f32, {}>;\n", tiling.invocations());
    let groups = (rows.folded().elements() / rows_per_group) as u32;
    vec![writer.finish([tiling.invocations() as u32, 1, 1], [groups, 1, 1], &declarations, &body)]
}

/// Generates the WGSL of rows whose invocations load their elements once, as vec4s, and keep them in registers. The shader
/// defines `row`, and `worker`, the number of the invocation among the `workers` of the row. All invocations of a work group
/// have to run it.
pub(in crate::variants) struct InRegisters<'a> {
    kernel: &'a Kernel,
    rows: &'a Rows,
    varying: Vec<usize>,
    workers: usize,
    /// Number of vec4s of a row that an invocation has.
    slots: usize,
    /// WGSL of the number of vec4s of a row.
    vectors: String,
}

impl<'a> InRegisters<'a> {
    /// Whether a kernel of rows can be computed in registers. Sums of floats that are stored in 16 bits are not added in order,
    /// because their rounding is far coarser than what the order changes.
    pub(in crate::variants) fn fits(context: &Context<'_>, kernel: &Kernel, workers: usize) -> bool {
        let Primitive::Rows(rows) = &kernel.primitive else { return false };
        let are_rounded = || {
            let varying = varying(context, kernel, rows);
            let storage = |input: &usize| context.storages.of(context.source(kernel.inputs[*input]));
            let is_rounded = |input| matches!(storage(input), StorageFormat::Half | StorageFormat::HalfPairs);
            varying.iter().all(is_rounded)
        };
        let is_plain = |step: &RowStep| match step {
            RowStep::Fold(reduction, of) => (reduction.is_sum() && are_rounded()) || !is_in_order(rows, *reduction, of),
            RowStep::Map(_) => true,
            RowStep::Across(..) => false,
        };
        let (extent, varying) = (rows.extent(), varying(context, kernel, rows));
        let is_whole = |input: &usize| {
            let axes = axes(context.program.shape(kernel.inputs[*input]), &rows.shape);
            axes.first().is_none_or(|axis| axis.extent.is_multiple_of(4))
        };
        rows.shape[rows.axes.end..].iter().all(|extent| *extent == 1)
            && extent > 0
            && extent.is_multiple_of(4)
            && rows.steps.iter().all(is_plain)
            && varying.iter().all(is_whole)
            && (extent / 4).div_ceil(workers) * varying.len().max(1) <= MAX_STAGED
    }

    /// Adds the WGSL functions that load the inputs, and those that the expressions call.
    pub(in crate::variants) fn new(
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &'a Kernel,
        workers: usize,
    ) -> Self {
        let Primitive::Rows(rows) = &kernel.primitive else { unreachable!("only rows are kept in registers") };
        let varying = varying(context, kernel, rows);
        for (index, id) in kernel.inputs.iter().enumerate() {
            let (to, width) = if varying.contains(&index) { (rows.shape.clone(), 4) } else { (rows.folded(), 1) };
            operand(writer, &format!("input{index}"), (*id, context.program.value(*id)), &to, ("f32", width));
        }
        let all = rows.expressions().map(|(expression, _)| expression.clone()).reduce(Expression::add);
        functions(&all.expect("there is a result"), 4).iter().for_each(|function| writer.function(function));
        let vectors = writer.param(rows.extent() / 4);
        Self { kernel, rows, varying, workers, slots: (rows.extent() / 4).div_ceil(workers), vectors }
    }

    /// Returns WGSL that loads the elements of an invocation.
    pub(in crate::variants) fn load(&self) -> String {
        let (varying, vectors) = (&self.varying, &self.vectors);
        let mut text = String::new();
        for index in (0..self.kernel.inputs.len()).filter(|index| !varying.contains(index)) {
            let _ = writeln!(text, "    let x{index} = vec4<f32>(input{index}(row));");
        }
        for slot in 0..self.slots {
            let _ = writeln!(text, "    let r{slot} = worker + {}u;", slot * self.workers);
            let _ = writeln!(text, "    let at{slot} = row * {vectors} + min(r{slot}, {vectors} - 1u);");
        }
        for (index, slot) in varying.iter().flat_map(|index| (0..self.slots).map(move |slot| (index, slot))) {
            let _ = writeln!(text, "    let e{index}_{slot} = input{index}(at{slot});");
        }
        text
    }

    /// Returns WGSL that computes the steps of the loaded row. It needs the work-group array `shared_folded` of as many floats
    /// as there are invocations.
    pub(in crate::variants) fn steps(&self, writer: &mut Writer<'_>, tiling: Tiling) -> String {
        let subgroup = writer.subgroup();
        let reduce = |fold: &str| Reduced::new(fold, tiling, subgroup);
        let step = |(index, step): (usize, &RowStep)| {
            let variable = self.kernel.inputs.len() + index;
            match step {
                RowStep::Map(of) => format!("    let x{variable} = {};\n", expression(of, 4)),
                RowStep::Across(..) => unreachable!("it does not fit"),
                RowStep::Fold(reduction, of) => {
                    let mean_factor = mean_factor(writer, "f32", *reduction, self.rows.extent());
                    fold(writer, *reduction, (variable, &mean_factor), reduce, |fold| self.each(of, fold))
                }
            }
        };
        self.rows.steps.iter().enumerate().map(step).collect()
    }

    /// Returns WGSL that runs a statement for each vec4 `value` of an expression. `SLOT` in the statement stands for the
    /// number of the vec4 among those of the invocation: `rSLOT` is its place in the row, and `atSLOT` that among all rows.
    pub(in crate::variants) fn each(&self, of: &Expression, work: &str) -> String {
        let slot = |slot: usize| {
            let read = self.varying.iter().filter(|input| of.reads(**input));
            let read: String = read.map(|input| format!(" let x{input} = e{input}_{slot};")).collect();
            format!(
                "    if (r{slot} < {}) {{{read} let value = {}; {} }}\n",
                self.vectors,
                expression(of, 4),
                work.replace("SLOT", &slot.to_string())
            )
        };
        (0..self.slots).map(slot).collect()
    }
}

/// Returns WGSL that defines the variable of a reduction. `each` returns WGSL that runs a statement for each vec4 `value`.
/// `reduce` returns, for a statement that reduces `value` into `folded`, how the values `folded` of all invocations of a row
/// are reduced.
pub(in crate::variants) fn fold(
    writer: &mut Writer<'_>,
    reduction: ReduceOp,
    (variable, mean_factor): (usize, &str),
    reduce: impl Fn(&str) -> Reduced,
    each: impl Fn(&str) -> String,
) -> String {
    let (of_vectors, start) = folding(writer, "vec4<f32>", reduction);
    let folded = each(of_vectors);
    let (of_floats, _) = folding(writer, "f32", reduction);
    let Reduced { text: reduced, result, end } = reduce(of_floats);
    let parts: String =
        ["y", "z", "w"].iter().map(|part| format!("    {{ let value = vectors.{part}; {of_floats} }}\n")).collect();
    format!(
        "    var x{variable}: vec4<f32>;
    {{
    var vectors: vec4<f32>;
    {{
    var folded = vec4<f32>({start});
{folded}    vectors = folded;
    }}
    var folded = vectors.x;
{parts}{reduced}    x{variable} = vec4<f32>({result}{mean_factor});
{end}    }}\n"
    )
}
