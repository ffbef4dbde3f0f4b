//! The common part of convolutions with one group and a constant filter that do not stage data in work-group memory,
//! for floats and integers. An invocation computes 4 channels of several adjacent output pixels. If there are few
//! results with many products each, several invocations of a work group split the K sum of one result (split-K).

use std::fmt::Write;

use attache_gpu_ir::Primitive;

use super::conv::source;
use crate::kernel::{Kernel, MAX_GROUPS, vector_width};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, GROUP, Shader, Writer};

/// Maximum number of results, in vectors of 4, for which split-K is used.
const FEW_RESULTS: usize = 32768;

/// Minimum number of loop steps along K for which split-K pays.
const MANY_STEPS: usize = 16;

/// Split-K factor: invocations that jointly compute one result.
const SPLIT_K: usize = 8;

/// Whether the dispatch and the packed filter fit the device's limits. After the bias the filter has `rows` rows, each
/// with a 4-byte word per output channel, padded to a multiple of 4 channels.
pub(super) fn fits(context: &Context<'_>, kernel: &Kernel, rows: usize) -> bool {
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let bytes = (1 + rows) * outputs.next_multiple_of(4) * 4;
    bytes <= context.limits.max_binding_bytes && outputs.div_ceil(32) <= MAX_GROUPS
}

/// How results and products are distributed over invocations.
pub(super) struct Tiling {
    /// Output pixels per invocation.
    pub(super) each: usize,
    /// The split-K factor.
    split: usize,
    /// Invocations of a work group along the vectors of output channels and along the output pixels.
    across: usize,
    down: usize,
    pointwise: bool,
    out_vector_width: usize,
    positions: usize,
    vec4s: usize,
}

/// The WGSL of one variant's loops. In it `c` counts the steps through the channels of an input pixel. `tap` is the
/// filter's first row for the current tap and the vector of output channels `vector`; rows are `WIDE` vectors apart.
/// `from0`, `from1`, … are input pixels, and `inside0`, … are false for those in the padding.
pub(super) struct Loops {
    /// The element type of a sum.
    pub(super) element: &'static str,
    /// Rows of the packed filter per step.
    pub(super) rows: usize,
    /// Steps through the channels of an input pixel.
    pub(super) depth: usize,
    /// Whether a tap is skipped if all input pixels are padding.
    pub(super) skips_padding: bool,
    /// Declarations before the loops.
    pub(super) before: String,
    /// One step, which adds to `sum0`, `sum1`, ….
    pub(super) step: String,
    /// Statements after the loops.
    pub(super) after: String,
    /// WGSL of the bias of `vector`.
    pub(super) bias: String,
}

impl Tiling {
    /// The tiling of a convolution that processes the channels of an input pixel in `depth` steps.
    pub(super) fn new(context: &Context<'_>, kernel: &Kernel, depth: usize) -> Self {
        let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("a convolution is tiled") };
        let [data, filter, output] =
            [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
        let (positions, vec4s): (usize, usize) = (output[..3].iter().product(), filter[0].div_ceil(4));
        let is_long = depth * filter[1] * filter[2] >= MANY_STEPS;
        let is_split = context.limits.splits_k && positions * vec4s <= FEW_RESULTS && is_long;
        let split = if is_split { SPLIT_K } else { 1 };
        let each = match positions {
            _ if is_split => 1,
            4096.. => 4,
            256.. => 2,
            _ => 1,
        };
        let across = vec4s.next_power_of_two().min(if is_split { 8 } else { 16 });
        Self {
            each,
            split,
            across,
            down: GROUP as usize / split / across,
            pointwise: convolution.is_pointwise(data, filter),
            out_vector_width: if filter[0].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 },
            positions,
            vec4s,
        }
    }

    /// WGSL of whether input pixel `p` is inside the image.
    pub(super) fn inside(&self, p: usize) -> String {
        if self.pointwise { "true".to_owned() } else { format!("inside{p}") }
    }

    /// Adds the functions that store results and compute input coordinates. Must be called after the loops' inputs are
    /// bound.
    pub(super) fn prepare(&self, writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
        store_anywhere(writer, context, kernel, self.out_vector_width);
        if let (false, Primitive::Convolution(convolution)) = (self.pointwise, &kernel.primitive) {
            source(writer, convolution);
        }
    }

    /// The shader with these loops.
    pub(super) fn shader(
        self,
        mut writer: Writer<'_>,
        context: &Context<'_>,
        kernel: &Kernel,
        loops: &Loops,
    ) -> Shader {
        let Self { each, split, across, down, .. } = self;
        let tiles = self.positions.div_ceil(each).div_ceil(down);
        let row = writer.param(MAX_GROUPS * down);
        let (total, wide) = (writer.param(self.positions), writer.param(self.vec4s));
        let (element, before, after) = (loops.element, &loops.before, &loops.after);
        let mut body = format!(
            "    let split_part = id.z % {split}u;
    let first = (id.y + id.z / {split}u * {row}) * {each}u;
    let is_there = id.x < {wide} && first < {total};
    let vector = min(id.x, {wide} - 1u);\n"
        );
        for p in 0..each {
            let _ =
                writeln!(body, "    var sum{p} = vec4<{element}>();\n    let at{p} = min(first + {p}u, {total} - 1u);");
        }
        body += before;
        body += &self.nested_loops(&mut writer, context, kernel, loops, &wide);
        body += after;
        let mut declarations = String::new();
        if split > 1 {
            declarations = format!("var<workgroup> parts: array<vec4<{element}>, {GROUP}>;\n");
            let layer = across * down;
            let _ = write!(
                body,
                "    let index = local.y * {across}u + local.x;
    parts[local.z * {layer}u + index] = sum0;
    workgroupBarrier();
    if (split_part > 0u) {{ return; }}
    for (var other = 1u; other < {split}u; other++) {{ sum0 += parts[other * {layer}u + index]; }}\n",
            );
        }
        let _ = writeln!(body, "    if (!is_there) {{ return; }}\n    let bias = {};", loops.bias);
        let outputs = writer.param(context.program.shape(kernel.inputs[1])[0]);
        for p in 0..each {
            let _ = writeln!(
                body,
                "    if (first + {p}u < {total}) {{ {} }}",
                put(self.out_vector_width, &format!("at{p}"), &format!("sum{p}"), &wide, &outputs)
            );
        }
        let rows_of_groups = tiles.div_ceil(MAX_GROUPS);
        let groups = [self.vec4s.div_ceil(across), tiles.min(MAX_GROUPS), rows_of_groups].map(|count| count as u32);
        writer.finish([across as u32, down as u32, split as u32], groups, &declarations, &body)
    }

    /// The loops over the window and the channels.
    fn nested_loops(
        &self,
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &Kernel,
        loops: &Loops,
        wide: &str,
    ) -> String {
        let [data, filter, output] =
            [kernel.inputs[0], kernel.inputs[1], kernel.outputs[0]].map(|id| context.program.shape(id));
        let (rows, split, step) = (loops.rows, self.split, loops.step.replace("WIDE", wide));
        let depth = writer.param(loops.depth);
        let channels = format!("        for (var c = split_part; c < {depth}; c += {split}u) {{\n{step}        }}\n");
        let mut text = String::new();
        if self.pointwise {
            for p in 0..self.each {
                let _ = writeln!(text, "    let from{p} = at{p};");
            }
            return format!("{text}    let tap = {wide} + vector;\n{channels}");
        }
        let [height, width] = [1, 2].map(|axis| writer.param(data[axis]));
        let [out_height, out_width] = [1, 2].map(|axis| writer.param(output[axis]));
        for p in 0..self.each {
            let _ = writeln!(
                text,
                "    let x{p} = i32(at{p} % {out_width});
    let y{p} = i32(at{p} / {out_width} % {out_height});
    let b{p}_ = i32(at{p} / {out_width} / {out_height});"
            );
        }
        let (down, across) = (filter[1], filter[2]);
        let _ =
            writeln!(text, "    for (var i = 0u; i < {down}u; i++) {{\n    for (var j = 0u; j < {across}u; j++) {{");
        for p in 0..self.each {
            let _ = writeln!(
                text,
                "        let sy{p} = source_y(y{p}, i, i32({height}));
        let sx{p} = source_x(x{p}, j, i32({width}));
        let inside{p} = sy{p} >= 0 && sx{p} >= 0;
        let from{p} = u32(max((b{p}_ * i32({height}) + sy{p}) * i32({width}) + sx{p}, 0));"
            );
        }
        if loops.skips_padding {
            let any = (0..self.each).map(|p| self.inside(p)).collect::<Vec<_>>().join(" || ");
            let _ = writeln!(text, "        if (!({any})) {{ continue; }}");
        }
        let _ = write!(
            text,
            "        let tap = {wide} + (i * {across}u + j) * {depth} * {rows}u * {wide} + vector;\n{channels}    }}\n    }}\n"
        );
        text
    }
}

/// WGSL that stores `sum` as channel vector `vector` of output pixel `at`: as a vector if `out_vector_width` is 4, else
/// one channel after the other.
pub(super) fn put(out_vector_width: usize, at: &str, sum: &str, wide: &str, outputs: &str) -> String {
    if out_vector_width == 4 {
        return format!("store({at} * {wide} + vector, {sum} + bias);");
    }
    let one = |(k, part): (usize, &str)| {
        format!(
            "if (vector * 4u + {k}u < {outputs}) {{ store({at} * {outputs} + vector * 4u + {k}u, {sum}.{part} + bias.{part}); }} "
        )
    };
    ["x", "y", "z", "w"].into_iter().enumerate().map(one).collect()
}
