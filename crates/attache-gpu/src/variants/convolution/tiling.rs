//! Shared by the convolutions with one group and a constant filter that do not stage data in work-group
//! memory, for floats and integers: the sizes and the frame of the shader. An invocation computes 4 output
//! channels of several adjacent output pixels. If there are few results with many products each, several
//! invocations of a work group split the K sum of each result (split-K).

use std::fmt::Write;

use attache_gpu_ir::Primitive;

use super::conv::source;
use crate::kernel::{Kernel, MAX_GROUPS, vector_width};
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, GROUP, Shader, Writer};

/// Maximum number of results, in vec4s of output channels, for which split-K is used.
const FEW_RESULTS: usize = 32768;

/// Minimum number of loop steps along K for which split-K is used.
const MANY_STEPS: usize = 16;

/// The split-K factor where split-K is used: the number of invocations that jointly compute one result.
const SPLIT_K: usize = 8;

/// Whether the work groups and the packed filter fit the device's limits. The packed buffer has one row for
/// the bias and `rows` rows for the filter, each with a 4-byte word per output channel, padded to a multiple
/// of 4 channels.
pub(super) fn fits(context: &Context<'_>, kernel: &Kernel, rows: usize) -> bool {
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let bytes = (1 + rows) * outputs.next_multiple_of(4) * 4;
    bytes <= context.limits.max_binding_bytes && outputs.div_ceil(32) <= MAX_GROUPS
}

/// How results and products are distributed over invocations.
pub(super) struct Tiling {
    /// Number of output pixels per invocation.
    pub(super) each: usize,
    /// The split-K factor; 1 without split-K.
    split: usize,
    /// Number of invocations of a work group along the vec4s of output channels.
    across: usize,
    /// Number of invocations of a work group along the output pixels.
    down: usize,
    /// Whether each output pixel reads only the input pixel at the same position.
    pointwise: bool,
    /// Number of adjacent output channels that are stored at once: 4 or 1.
    out_vector_width: usize,
    /// M: output pixels.
    positions: usize,
    /// N: output channels, in vec4s.
    vec4s: usize,
}

/// The WGSL statements of a variant's loops over window and channels, for [`Tiling::shader`]. In them `c`
/// counts the steps through the channels of an input pixel. `tap` is the vec4 of the filter for the first
/// step of the current tap and output channels `vector`; rows of the filter are `WIDE` vec4s apart. `from0`,
/// `from1`, … are the indices of input pixels, and `inside0`, … are false for pixels in the padding.
pub(super) struct Loops {
    /// WGSL type of one channel of a sum: `f32` or `i32`.
    pub(super) element: &'static str,
    /// Number of rows of the packed filter per step.
    pub(super) rows: usize,
    /// Number of steps through the channels of an input pixel.
    pub(super) depth: usize,
    /// Whether a tap is skipped if all input pixels that an invocation reads for it are padding.
    pub(super) skips_padding: bool,
    /// Declarations in front of the loops.
    pub(super) before: String,
    /// Statements of one step, which add to `sum0`, `sum1`, ….
    pub(super) step: String,
    /// Statements after the loops.
    pub(super) after: String,
    /// Expression of the bias of the vec4 of output channels `vector`.
    pub(super) bias: String,
}

impl Tiling {
    /// Chooses the tiling of a convolution that processes the channels of an input pixel in `depth` steps.
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

    /// Returns the WGSL expression that is true if the `p`-th input pixel of an invocation is inside the
    /// image.
    pub(super) fn inside(&self, p: usize) -> String {
        if self.pointwise { "true".to_owned() } else { format!("inside{p}") }
    }

    /// Adds the WGSL functions that store results and compute input coordinates. Must be called after all
    /// inputs of the loops are bound.
    pub(super) fn prepare(&self, writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
        store_anywhere(writer, context, kernel, self.out_vector_width);
        if let (false, Primitive::Convolution(convolution)) = (self.pointwise, &kernel.primitive) {
            source(writer, convolution);
        }
    }

    /// Generates the shader that runs these loops, adds the partial sums and stores the results.
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

    /// Returns WGSL of the loops over the window and the channels of an input pixel.
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

/// Returns WGSL that stores the vec4 `sum`, plus the bias, as output channels `4·vector` to `4·vector + 3` of
/// output pixel `at`: as a vector if `out_vector_width` is 4, else one channel after the other. `wide` and
/// `outputs` are WGSL of the number of vec4s of output channels and of the number of output channels.
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
