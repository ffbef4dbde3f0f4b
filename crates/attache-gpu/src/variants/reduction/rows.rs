//! Variant `rows`: reductions and maps over the rows of a tensor ([`Primitive::Rows`]), with one invocation
//! per row. Used for short rows and for many rows.

use std::fmt::Write;

use attache_gpu_ir::{Expression, Primitive, RowStep, Rows};

use super::reduce::{folding, mean_factor};
use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::{operand, store_anywhere};
use crate::wgsl::expression::{expression, functions};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "rows",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Rows(_)),
    priority: |_, _| 2,
    write,
};

/// Generates the WGSL that all variants of [`Primitive::Rows`] share. In the shader, the functions `input0`,
/// `input1`, … load the inputs, and the variables `x0`, `x1`, … are the loaded elements, followed by the
/// results of the steps.
pub(in crate::variants) struct Parts<'a> {
    /// The primitive that is implemented.
    pub(in crate::variants) rows: &'a Rows,
    /// For each input, whether its elements vary along a row.
    varying: Vec<bool>,
    /// WGSL of the number of elements of a row.
    pub(in crate::variants) extent: String,
    /// WGSL of the number of elements between adjacent elements of a row.
    pub(super) inner: String,
    /// WGSL of the number of elements between rows of adjacent outer coordinates.
    outer: String,
    /// WGSL of the number of rows that are parts of the same longer row.
    parts: String,
}

impl<'a> Parts<'a> {
    /// Adds the WGSL functions that load the inputs and store the result, and those that the expressions
    /// call.
    pub(super) fn new(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &'a Kernel) -> Self {
        let parts = Self::of_prologue(writer, context, kernel);
        store_anywhere(writer, context, kernel, 1);
        parts
    }

    /// Adds the WGSL functions that load the inputs of rows, and those that the expressions call.
    pub(in crate::variants) fn of_prologue(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &'a Kernel) -> Self {
        let Primitive::Rows(rows) = &kernel.primitive else { unreachable!("applies") };
        let mut varying = Vec::with_capacity(kernel.inputs.len());
        for (index, id) in kernel.inputs.iter().enumerate() {
            let value = context.program.value(*id);
            varying.push(rows.varies(&value.shape));
            let to = if varying[index] { rows.shape.clone() } else { rows.folded() };
            operand(writer, &format!("input{index}"), (*id, value), &to, ("f32", 1));
        }
        let all = rows.expressions().map(|(expression, _)| expression.clone()).reduce(Expression::add);
        functions(&all.expect("there is a result"), 1).iter().for_each(|function| writer.function(function));
        let (extent, inner) = (rows.extent(), rows.shape[rows.axes.end..].iter().product::<usize>());
        let sizes = [extent, inner, extent * inner, rows.parts()];
        let [extent, inner, outer, parts] = sizes.map(|size| writer.param(size));
        Self { rows, varying, extent, inner, outer, parts }
    }

    /// Returns WGSL that defines `base`, the index of the first element of row `row`, and loads the inputs
    /// that are constant along the row.
    pub(in crate::variants) fn start(&self, row: &str) -> String {
        let (inner, outer) = (&self.inner, &self.outer);
        let mut text = format!("    let base = {row} / {inner} * {outer} + {row} % {inner};\n");
        for index in (0..self.varying.len()).filter(|index| !self.varying[*index]) {
            let _ = writeln!(text, "    let x{index} = input{index}({row});");
        }
        text
    }

    /// Returns the indices of the inputs that vary along a row.
    pub(super) fn varying(&self) -> impl Iterator<Item = usize> {
        (0..self.varying.len()).filter(|index| self.varying[*index])
    }

    /// Returns the number `k` of the variable `xk` that holds the result of step `step`.
    pub(super) fn variable(&self, step: usize) -> usize {
        self.varying.len() + step
    }

    /// Returns WGSL that defines `at`, the index of the row's element `r`, and loads the varying inputs that
    /// the expression reads there.
    pub(in crate::variants) fn element(&self, of: &Expression) -> String {
        let mut text = format!("        let at = base + r * {};\n", self.inner);
        for index in self.varying().filter(|index| of.reads(*index)) {
            let _ = writeln!(text, "        let x{index} = input{index}(at);");
        }
        text
    }

    /// Returns WGSL that reduces the expression over the parts of the longer row that row `row` belongs to:
    /// every `step`-th part from `first` on. `fold` is the statement that reduces `value` into the
    /// accumulator `folded`.
    pub(super) fn across(&self, of: &Expression, row: &str, fold: &str, [first, step]: [&str; 2]) -> String {
        let (inner, parts) = (&self.inner, &self.parts);
        let constant = (0..self.varying.len()).filter(|index| !self.varying[*index] && of.reads(*index));
        let read: String = constant.map(|index| format!("        let x{index} = input{index}(part);\n")).collect();
        format!(
            "    let part0 = {row} - {row} / {inner} % {parts} * {inner};
    for (var p = {first}; p < {parts}; p += {step}) {{
        let part = part0 + p * {inner};
{read}        let value = {value};
        {fold}
    }}\n",
            value = expression(of, 1)
        )
    }

    /// Returns WGSL of the head of the loop over the elements of a row that an invocation processes: every
    /// `step`-th element from `first` on.
    pub(in crate::variants) fn each(&self, first: &str, step: &str) -> String {
        format!("    for (var r = {first}; r < {}; r += {step}) {{\n", self.extent)
    }

    /// Returns WGSL that stores the result: one element per row, or one for each element of the row. `each`
    /// is the head of the loop over the elements.
    pub(super) fn finish(&self, row: &str, each: &str) -> String {
        let result = &self.rows.result;
        let value = expression(result, 1);
        if self.rows.is_folded {
            return format!("    store({row}, {value});\n");
        }
        format!("{each}{}        store(at, {value});\n    }}\n", self.element(result))
    }
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let mut writer = Writer::new(VARIANT.name, context);
    let parts = Parts::new(&mut writer, context, kernel);
    let each = parts.each("0u", "1u");
    let mut body = parts.start("g");
    for (index, step) in parts.rows.steps.iter().enumerate() {
        let variable = parts.variable(index);
        body += &match step {
            RowStep::Map(of) => format!("    let x{variable} = {};\n", expression(of, 1)),
            RowStep::Fold(reduction, of) => {
                let (fold, start) = folding(&mut writer, "f32", *reduction);
                let mean_factor = mean_factor(&mut writer, "f32", *reduction, parts.rows.extent());
                let (element, value) = (parts.element(of), expression(of, 1));
                format!(
                    "    var x{variable}: f32;\n    {{
    var folded = f32({start});
{each}{element}        let value = {value};
        {fold}
    }}
    x{variable} = folded{mean_factor};\n    }}\n"
                )
            }
            RowStep::Across(reduction, of) => {
                let (fold, start) = folding(&mut writer, "f32", *reduction);
                let mean_factor = mean_factor(&mut writer, "f32", *reduction, parts.rows.parts());
                let folded = parts.across(of, "g", fold, ["0u", "1u"]);
                format!(
                    "    var x{variable}: f32;\n    {{\n    var folded = f32({start});\n{folded}    x{variable} = folded{mean_factor};\n    }}\n"
                )
            }
        };
    }
    body += &parts.finish("g", &each);
    vec![writer.linear(parts.rows.folded().elements(), &body)]
}
