//! Variant `rows_staged`: reductions and maps over rows whose elements are read several times, such as in a
//! normalisation. A work group per row, or per few rows whose elements are adjacent in memory, loads the
//! elements once and keeps them in registers. Used for few rows that are long.

use std::fmt::Write;

use attache_gpu_ir::{Expression, Primitive, RowStep, Rows};

use super::partial_results::{Reduced, Tiling};
use super::reduce::{folding, mean_factor};
use super::reduce_group::MANY_RESULTS;
use super::rows::Parts;
use super::rows_group::is_in_order;
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::expression::expression;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "rows_staged", computes: Computes::Nothing, applies, priority, write };

/// Number of rows per work group if elements of neighbouring rows are adjacent in memory: few enough for
/// their elements to fit the registers.
const ROWS_PER_GROUP: usize = 4;

/// Maximum number of elements that an invocation keeps in registers.
const MAX_STAGED: usize = 40;

/// Minimum number of elements of a row for which this variant is preferred: reading them again would take
/// noticeable time.
const MANY_ELEMENTS: usize = 2048;

/// Returns the expressions that are reduced over the elements of a row.
fn folds(rows: &Rows) -> impl Iterator<Item = &Expression> {
    rows.steps.iter().filter_map(|step| match step {
        RowStep::Fold(_, of) => Some(of),
        RowStep::Map(_) | RowStep::Across(..) => None,
    })
}

/// Returns the indices of the inputs that vary along a row and are read by a reduction. Their elements are
/// kept in registers.
fn staged_inputs(context: &Context<'_>, kernel: &Kernel, rows: &Rows) -> Vec<usize> {
    let varies = |input: &usize| rows.varies(context.program.shape(kernel.inputs[*input]));
    let is_folded = |input: &usize| folds(rows).any(|of| of.reads(*input));
    (0..kernel.inputs.len()).filter(varies).filter(is_folded).collect()
}

fn tiling(context: &Context<'_>, rows: &Rows) -> Tiling {
    Tiling::new(context, rows, ROWS_PER_GROUP)
}

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Rows(rows) = &kernel.primitive else { return false };
    let stays = |step: &RowStep| match step {
        RowStep::Fold(reduction, of) => is_in_order(rows, *reduction, of),
        RowStep::Map(_) => false,
        RowStep::Across(..) => true,
    };
    let times = folds(rows).count() + usize::from(!rows.is_folded);
    let each = rows.extent().div_ceil(tiling(context, rows).workers);
    rows.extent() > 0
        && times > 1
        && rows.folded().elements() <= MANY_RESULTS
        && !rows.steps.iter().any(stays)
        && each * staged_inputs(context, kernel, rows).len().max(1) <= MAX_STAGED
}

fn priority(_: &Context<'_>, kernel: &Kernel) -> u32 {
    let Primitive::Rows(rows) = &kernel.primitive else { unreachable!("applies") };
    if rows.extent() >= MANY_ELEMENTS { 0 } else { 51 }
}

/// Generates the WGSL that keeps an invocation's elements of a row in registers.
struct StagedRows<'a> {
    parts: &'a Parts<'a>,
    tiling: Tiling,
    /// Indices of the inputs whose elements are kept.
    inputs: Vec<usize>,
}

impl StagedRows<'_> {
    /// Returns the number of elements that an invocation keeps of each input.
    fn each(&self) -> usize {
        self.parts.rows.extent().div_ceil(self.tiling.workers)
    }

    /// Returns WGSL that loads all elements to keep into `e{input}_{slot}`, and defines their coordinates in
    /// the row (`r{slot}`) and their indices (`at{slot}`).
    fn read(&self) -> String {
        let (extent, inner, workers) = (&self.parts.extent, &self.parts.inner, self.tiling.workers);
        let mut text = String::new();
        for slot in 0..self.each() {
            let _ = writeln!(text, "    let r{slot} = worker + {}u;", slot * workers);
            let _ = writeln!(text, "    let at{slot} = base + min(r{slot}, {extent} - 1u) * {inner};");
        }
        text + &self.inputs.iter().map(|input| self.elements(*input)).collect::<String>()
    }

    /// Returns WGSL that loads an invocation's elements of one input.
    fn elements(&self, input: usize) -> String {
        (0..self.each()).map(|slot| format!("    let e{input}_{slot} = input{input}(at{slot});\n")).collect()
    }

    /// Returns WGSL that runs the statements `work(slot)` for each of the invocation's elements that is
    /// inside the row. The elements of `inputs` are in scope as `x{input}`.
    fn with_each(&self, inputs: &[usize], work: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for slot in 0..self.each() {
            if (slot + 1) * self.tiling.workers > self.parts.rows.extent() {
                let _ = write!(text, "    if (r{slot} < {})", self.parts.extent);
            }
            let names = inputs.iter().map(|input| format!(" let x{input} = e{input}_{slot};"));
            let _ = writeln!(text, "    {{{} {} }}", names.collect::<String>(), work(slot));
        }
        text
    }

    /// Returns WGSL that stores the result: one element per row, or one for each element of the row.
    fn finish(&self, row: &str) -> String {
        let (rows, value) = (self.parts.rows, expression(&self.parts.rows.result, 1));
        if rows.is_folded {
            return self.parts.finish(row, "");
        }
        let varying: Vec<usize> = self.parts.varying().filter(|input| rows.result.reads(*input)).collect();
        let others = varying.iter().filter(|input| !self.inputs.contains(input));
        let others: String = others.map(|input| self.elements(*input)).collect();
        others + &self.with_each(&varying, |slot| format!("store(at{slot}, {value});"))
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let mut writer = Writer::new(VARIANT.name, context);
    let parts = Parts::new(&mut writer, context, kernel);
    let tiling = tiling(context, parts.rows);
    let rows_per_group = tiling.rows_per_group;
    let staged = StagedRows { parts: &parts, tiling, inputs: staged_inputs(context, kernel, parts.rows) };
    let mut body = format!(
        "    let worker = local.x / {rows_per_group}u;\n    let row = group.x * {rows_per_group}u + local.x % {rows_per_group}u;\n{}{}",
        parts.start("row"),
        staged.read()
    );
    for (index, step) in parts.rows.steps.iter().enumerate() {
        let variable = parts.variable(index);
        body += &match step {
            RowStep::Map(of) => format!("    let x{variable} = {};\n", expression(of, 1)),
            RowStep::Across(..) => unreachable!("applies"),
            RowStep::Fold(reduction, of) => {
                let (fold, start) = folding(&mut writer, "f32", *reduction);
                let mean_factor = mean_factor(&mut writer, "f32", *reduction, parts.rows.extent());
                let value = expression(of, 1);
                let folded = staged.with_each(&staged.inputs, |_| format!("let value = {value}; {fold}"));
                let Reduced { text, result, end } = Reduced::new(fold, tiling, context.limits.subgroup);
                format!(
                    "    var x{variable}: f32;\n    {{\n    var folded = f32({start});
{folded}{text}    x{variable} = {result}{mean_factor};\n{end}    }}\n"
                )
            }
        };
    }
    body += &staged.finish("row");
    let declarations = format!("var<workgroup> shared_folded: array<f32, {}>;\n", tiling.invocations());
    let groups = (parts.rows.folded().elements() / rows_per_group) as u32;
    vec![writer.finish([tiling.invocations() as u32, 1, 1], [groups, 1, 1], &declarations, &body)]
}
