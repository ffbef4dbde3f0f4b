//! Where a contraction that goes through the memory of a work group takes its data from: the value as it lies, the taps of
//! a window over it, or a depthwise contraction or a mean that is computed as it is read.

use attache_gpu_ir::{Primitive, Window};

use super::contract::source;
use crate::access::finish;
use crate::array::Array;
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::Writer;

/// Taps of a depthwise contraction that are written out, so that they are all under way at once.
const MAX_UNROLLED: usize = 49;

/// The data of a contraction, in quads: vectors of 4 neighbouring channels of one position.
pub(super) struct Supply {
    /// Quads of a position.
    pub(super) depth: usize,
    /// The filter's height and width.
    pub(super) taps: [usize; 2],
    kind: Kind,
    extents: Vec<String>,
}

enum Kind {
    /// Output position `p` reads input position `p`.
    Pointwise,
    /// Each tap of the window reads a position of its own.
    Window,
    /// Another kernel comes first.
    Prologue,
}

impl Supply {
    /// Adds the functions that read the data; the depthwise contraction's packed numbers start with the quad `start`.
    pub(super) fn new(
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &Kernel,
        (weights, start): (&Array, usize),
    ) -> Self {
        let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("a contraction has a supply") };
        let (data, filter) = (context.program.shape(kernel.inputs[0]), context.program.shape(kernel.inputs[1]));
        let (depth, taps) = (data[3].div_ceil(4), [filter[1], filter[2]]);
        let extents = |writer: &mut Writer<'_>, input: &[usize], output: &[usize]| {
            [input[1], input[2], output[1], output[2]].map(|extent| writer.param(extent)).to_vec()
        };
        let output = context.program.shape(kernel.outputs[0]);
        let (kind, extents) = match &kernel.prologue {
            Some(first) => {
                let input = context.program.shape(first.inputs[0]);
                read_quads(writer, context, first);
                let extents = extents(writer, input, data);
                match &first.primitive {
                    Primitive::Window(window) => mean(writer, context, first, window, &extents),
                    _ => depthwise(writer, context, first, (weights, start), &extents),
                }
                (Kind::Prologue, extents)
            }
            None => {
                read_quads(writer, context, kernel);
                match contraction.is_pointwise(data, filter) {
                    true => (Kind::Pointwise, Vec::new()),
                    false => {
                        source(writer, contraction);
                        (Kind::Window, extents(writer, data, output))
                    }
                }
            }
        };
        Self { depth, taps, kind, extents }
    }

    /// Whether one position is read for each of the window's taps.
    pub(super) fn is_window(&self) -> bool {
        matches!(self.kind, Kind::Window)
    }

    /// WGSL before the loops over the taps, for the output position named `p{slot}`.
    pub(super) fn before(&self, slot: usize) -> String {
        let [_, _, height, width] = &self.extents[..] else { return String::new() };
        match self.kind {
            Kind::Window => format!(
                "    let x{slot} = i32(p{slot} % {width});
    let y{slot} = i32(p{slot} / {width} % {height});
    let b{slot}_ = i32(p{slot} / {width} / {height});\n"
            ),
            Kind::Pointwise | Kind::Prologue => String::new(),
        }
    }

    /// WGSL inside the loops over the taps `i` and `j`.
    pub(super) fn within(&self, slot: usize) -> String {
        let [height, width, ..] = &self.extents[..] else { return String::new() };
        match self.kind {
            Kind::Window => format!(
                "        let sy{slot} = source_y(y{slot}, i, i32({height}));
        let sx{slot} = source_x(x{slot}, j, i32({width}));
        let inside{slot} = sy{slot} >= 0 && sx{slot} >= 0;
        let from{slot} = u32(max((b{slot}_ * i32({height}) + sy{slot}) * i32({width}) + sx{slot}, 0));\n"
            ),
            Kind::Pointwise | Kind::Prologue => String::new(),
        }
    }

    /// WGSL for quad `c` of the data of output position `p{slot}`, a `vec4<f32>`: zeros beyond the channels and in padding.
    pub(super) fn quad(&self, slot: usize, c: &str) -> String {
        match self.kind {
            Kind::Pointwise => format!("quad_at(p{slot}, {c})"),
            Kind::Window => format!("select(vec4<f32>(), quad_at(from{slot}, {c}), inside{slot})"),
            Kind::Prologue => format!("prologue(p{slot}, {c})"),
        }
    }
}

/// Adds `quad_at(position, c)`: 4 channels of the kernel's data, zeros beyond the last.
fn read_quads(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
    let channels = context.program.shape(kernel.inputs[0])[3];
    let whole = channels.is_multiple_of(4);
    let array = writer.read(kernel.inputs[0], if whole { 4 } else { 1 });
    let text = if whole {
        let depth = writer.param(channels / 4);
        let read = array.reals(&format!("position * {depth} + min(c, {depth} - 1u)"));
        format!("    return select(vec4<f32>(), {read}, c < {depth});\n")
    } else {
        let channels = writer.param(channels);
        let one = |k: usize| {
            let read = array.reals(&format!("position * {channels} + min(4u * c + {k}u, {channels} - 1u)"));
            format!("select(0.0, {read}, 4u * c + {k}u < {channels})")
        };
        format!("    return vec4<f32>({}, {}, {}, {});\n", one(0), one(1), one(2), one(3))
    };
    writer.function(&format!("fn quad_at(position: u32, c: u32) -> vec4<f32> {{\n{text}}}\n"));
}

/// Adds `prologue(position, c)`: 4 channels of what a depthwise contraction makes.
fn depthwise(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    (weights, start): (&Array, usize),
    extents: &[String],
) {
    let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("only a contraction comes first") };
    let (filter, depth) =
        (context.program.shape(kernel.inputs[1]), context.program.shape(kernel.inputs[0])[3].div_ceil(4));
    let [rows, columns] = [filter[1], filter[2]];
    finish(writer, context, kernel, "prologue_result");
    source(writer, contraction);
    let (depth, start) = (writer.param(depth), writer.param(start));
    let [height, width, out_height, out_width] = extents else { unreachable!("there are four extents") };
    let row = |i: &str| format!("source_y(y, {i}, i32({height}))");
    let column = |j: &str| format!("source_x(x, {j}, i32({width}))");
    let value = |sy: &str, sx: &str| {
        format!("quad_at(u32((b * i32({height}) + max({sy}, 0)) * i32({width}) + max({sx}, 0)), quad)")
    };
    let weight = |tap: &str| weights.reals(&format!("{start} + (1u + {tap}) * {depth} + quad"));
    let mut text = format!(
        "fn prologue(position: u32, c: u32) -> vec4<f32> {{
    let quad = min(c, {depth} - 1u);
    let x = i32(position % {out_width});
    let y = i32(position / {out_width} % {out_height});
    let b = i32(position / {out_width} / {out_height});
    var sum = {};\n",
        weights.reals(&format!("{start} + quad"))
    );
    if rows * columns <= MAX_UNROLLED {
        (0..rows).for_each(|i| text += &format!("    let sy{i} = {};\n", row(&format!("{i}u"))));
        (0..columns).for_each(|j| text += &format!("    let sx{j} = {};\n", column(&format!("{j}u"))));
        let taps = || (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
        for (i, j) in taps() {
            text += &format!("    let d{i}_{j} = {};\n", value(&format!("sy{i}"), &format!("sx{j}")));
        }
        for (i, j) in taps() {
            let inside = format!("sy{i} >= 0 && sx{j} >= 0");
            let weight = weight(&format!("{}u", i * columns + j));
            text += &format!("    sum = fma(select(vec4<f32>(), d{i}_{j}, {inside}), {weight}, sum);\n");
        }
    } else {
        text += &format!(
            "    for (var i = 0u; i < {rows}u; i++) {{
        let sy = {};
        for (var j = 0u; j < {columns}u; j++) {{
            let sx = {};
            if (sy >= 0 && sx >= 0) {{ sum = fma({}, {}, sum); }}
        }}
    }}\n",
            row("i"),
            column("j"),
            value("sy", "sx"),
            weight(&format!("i * {columns}u + j")),
        );
    }
    text +=
        &format!("    return select(vec4<f32>(), prologue_result(position * {depth} + quad, sum), c < {depth});\n}}\n");
    writer.function(&text);
}

/// Adds `prologue(position, c)`: 4 channels of the mean of an image, added up column by column as a window is.
fn mean(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel, window: &Window, extents: &[String]) {
    finish(writer, context, kernel, "prologue_result");
    let depth = writer.param(context.program.shape(kernel.inputs[0])[3].div_ceil(4));
    let [height, width, ..] = extents else { unreachable!("there are four extents") };
    let [rows, columns] = window.size;
    let mut text = format!(
        "fn prologue(position: u32, c: u32) -> vec4<f32> {{
    let quad = min(c, {depth} - 1u);
    let start = position * {height} * {width};\n"
    );
    let taps = || (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j)));
    for (i, j) in taps() {
        text += &format!("    let d{i}_{j} = quad_at(start + {i}u * {width} + {j}u, quad);\n");
    }
    text += "    var sum = vec4<f32>();\n";
    for (i, j) in taps() {
        text += &format!("    sum += d{i}_{j};\n");
    }
    let mean = format!("sum / {}.0", rows * columns);
    text += &format!(
        "    return select(vec4<f32>(), prologue_result(position * {depth} + quad, {mean}), c < {depth});\n}}\n"
    );
    writer.function(&text);
}
