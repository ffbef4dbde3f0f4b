//! The data of variant `conv_matrix`. If the kernel's prologue scales rows, its work groups reduce the rows that they have
//! staged, and scale the sums.

use std::fmt::Write;

use attache_gpu_ir::{Primitive, RowStep};

use super::problem::Problem;
use crate::kernel::{Kernel, ScaledRows};
use crate::variants::reduction::partial_results::{BARRIER, Reduced};
use crate::variants::reduction::reduce::mean_factor;
use crate::variants::reduction::rows_vectors::fold;
use crate::wgsl::accessor::Array;
use crate::wgsl::cooperative_matrix::SIDE;
use crate::wgsl::epilogue::operand;
use crate::wgsl::expression::{expression, functions};
use crate::wgsl::{Context, Writer};

/// The data, and what the sums of each pixel are multiplied by.
pub(super) struct Left<'a> {
    data: Array,
    rows: Option<RowScales<'a>>,
}

/// Factors that are computed from the staged rows, see [`ScaledRows`].
struct RowScales<'a> {
    kernel: &'a Kernel,
    scaled: ScaledRows,
    problem: &'a Problem,
}

impl<'a> Left<'a> {
    pub(super) fn new(
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &'a Kernel,
        problem: &'a Problem,
    ) -> Self {
        let Some(first) = kernel.prologue.as_deref() else {
            return Self { data: writer.read(kernel.inputs[0], 4), rows: None };
        };
        let scaled = ScaledRows::of(context.program, first).expect("applies");
        let data = writer.read(first.inputs[scaled.data], 4);
        Self { data, rows: Some(RowScales { kernel: first, scaled, problem }) }
    }

    /// Returns WGSL of a vec4 of f16.
    pub(super) fn vec4(&self, at: &str) -> String {
        self.data.word(at)
    }

    /// Returns WGSL declarations of work-group memory.
    pub(super) fn declarations(&self) -> String {
        let Some(RowScales { problem, .. }) = &self.rows else { return String::new() };
        format!(
            "var<workgroup> shared_folded: array<f32, {}>;\nvar<workgroup> scales: array<f32, {}>;\n",
            problem.tiling.invocations(),
            problem.pixels()
        )
    }

    /// Returns WGSL that computes the factors of the pixels from the staged data.
    pub(super) fn scales(&self, writer: &mut Writer<'_>, context: &Context<'_>, pixels: usize) -> String {
        self.rows.as_ref().map_or_else(String::new, |rows| rows.compute(writer, context, pixels))
    }

    /// Returns WGSL of the factor of the sums of a pixel of the tile, with the operator; empty if there is none.
    pub(super) fn scale(&self, pixel: &str) -> String {
        if self.rows.is_some() { format!(" * scales[{pixel}]") } else { String::new() }
    }
}

impl RowScales<'_> {
    /// Adjacent invocations reduce adjacent vec4s of a pixel.
    fn compute(&self, writer: &mut Writer<'_>, context: &Context<'_>, pixels: usize) -> String {
        let Self { kernel, scaled, problem } = self;
        let Primitive::Rows(rows) = &kernel.primitive else { unreachable!("only rows are scaled") };
        let (workers, stride, vectors) = (problem.workers(), problem.stride(), rows.extent() / 4);
        let all = rows.expressions().map(|(expression, _)| expression);
        for function in all.flat_map(|expression| functions(expression, 4)) {
            writer.function(&function);
        }
        let mut text = format!(
            "    let worker = local.x % {workers}u;
    let pixel = local.x / {workers}u;
    let row = min(top * {}u + pixel, {} - 1u);\n",
            SIDE,
            writer.param(pixels)
        );
        for (index, id) in kernel.inputs.iter().enumerate() {
            let value = context.program.value(*id);
            if !rows.varies(&value.shape) {
                operand(writer, &format!("input{index}"), (*id, value), &rows.folded(), ("f32", 1));
                let _ = writeln!(text, "    let x{index} = vec4<f32>(input{index}(row));");
            }
        }
        let each = |of: &str, work: &str| {
            format!(
                "    for (var r = worker; r < {vectors}u; r += {workers}u) {{
        let x{data} = vec4<f32>(tile[pixel * {stride}u + r]);
        let value = {of};
        {work}
    }}\n",
                data = scaled.data
            )
        };
        let reduce = |fold: &str| {
            let text = format!(
                "    shared_folded[local.x] = folded;
    workgroupBarrier();
    folded = shared_folded[local.x - worker];
    for (var other = 1u; other < {workers}u; other++) {{
        let value = shared_folded[local.x - worker + other];
        {fold}
    }}\n"
            );
            Reduced { text, result: "folded".to_owned(), end: BARRIER }
        };
        for (index, step) in rows.steps.iter().enumerate() {
            let variable = kernel.inputs.len() + index;
            text += &match step {
                RowStep::Map(of) => format!("    let x{variable} = {};\n", expression(of, 4)),
                RowStep::Across(..) => unreachable!("applies"),
                RowStep::Fold(reduction, of) => {
                    let mean_factor = mean_factor(writer, "f32", *reduction, rows.extent());
                    let of = expression(of, 4);
                    fold(writer, *reduction, (variable, &mean_factor), reduce, |fold| each(&of, fold))
                }
            };
        }
        let scale = expression(&scaled.scale, 4);
        let power = writer.float_param(scaled.power);
        let _ = writeln!(text, "    if (worker == 0u) {{ scales[pixel] = ({scale}).x * {power}; }}");
        text
    }
}
