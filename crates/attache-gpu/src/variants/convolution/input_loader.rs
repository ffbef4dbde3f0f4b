//! Input loaders: generate the WGSL with which a convolution that stages its data in work-group memory loads
//! that data. The data is the input itself, the taps of a window over it, or the result of a prologue (a
//! depthwise convolution or a mean) that is computed while its own input is loaded.

mod bytes;

use attache_gpu_ir::{ConvolutionGeometry, Primitive, Window};

use super::conv::source;
use crate::kernel::Kernel;
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::finish;
use crate::wgsl::{Context, Writer};

/// Generates the WGSL that loads the data of a convolution in groups of four adjacent channels of one pixel:
/// a vec4 of floats or a word of signed bytes. An invocation loads several groups at a time, each into
/// variables of its own, called a *slot*.
pub(super) struct InputLoader {
    /// The WGSL type of a group of four channels.
    group_type: &'static str,
    /// K in groups of four channels: all channels of the first tap, then of the next tap, and so on.
    pub(super) depth: usize,
    kind: Kind,
    /// WGSL of the height and width of the image that is loaded (the prologue's input if there is a
    /// prologue), and of the height and width of the output.
    extents: [String; 4],
}

/// The WGSL type of a group of four float channels.
const GROUP_TYPE: &str = "vec4<f32>";

enum Kind {
    /// Output pixel `p` reads input pixel `p`.
    Pointwise,
    /// Each tap of the window reads an input pixel of its own.
    Window,
    /// There is a prologue: a depthwise convolution with these taps, each a row and a column of the window.
    Depthwise(Vec<[usize; 2]>),
    /// There is a prologue: the mean over all pixels of an image.
    Mean,
}

/// The geometry of a convolution's input.
struct InputGeometry<'a> {
    convolution: &'a ConvolutionGeometry,
    /// Rows and columns of the convolution's window.
    size: [usize; 2],
    /// Number of groups of four input channels.
    channels: usize,
    /// Whether each output pixel reads only the input pixel at the same position.
    is_pointwise: bool,
}

impl<'a> InputGeometry<'a> {
    /// Returns the geometry of a kernel's input, and WGSL of the height and width of the image that is loaded
    /// (the prologue's input if there is a prologue) and of the output.
    fn of(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &'a Kernel) -> (Self, [String; 4]) {
        let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("a convolution has a loader") };
        let shape = |id| context.program.shape(id);
        let (data, filter, output) = (shape(kernel.inputs[0]), shape(kernel.inputs[1]), shape(kernel.outputs[0]));
        let read = kernel.prologue.as_ref().map_or(data, |first| shape(first.inputs[0]));
        let extents = [read[1], read[2], output[1], output[2]].map(|extent| writer.param(extent));
        let (size, channels) = ([filter[1], filter[2]], data[3].div_ceil(4));
        (Self { convolution, size, channels, is_pointwise: convolution.is_pointwise(data, filter) }, extents)
    }
}

impl InputLoader {
    /// Adds the WGSL functions that load the data of a float convolution, and returns the loader that calls
    /// them. The packed weights of a depthwise prologue start at vec4 `start` of `weights`.
    pub(super) fn new(
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &Kernel,
        (weights, start): (&Array, usize),
    ) -> Self {
        let (InputGeometry { convolution, size, channels, is_pointwise }, extents) =
            InputGeometry::of(writer, context, kernel);
        read_vec4s(writer, context, kernel.prologue.as_deref().unwrap_or(kernel));
        let kind = match kernel.prologue.as_deref() {
            Some(first) => match &first.primitive {
                Primitive::Window(window) => {
                    mean(writer, context, first, window, &extents);
                    Kind::Mean
                }
                _ => Kind::Depthwise(depthwise(writer, context, first, (weights, start), &extents)),
            },
            None if is_pointwise => Kind::Pointwise,
            None => {
                let read = "select(vec4<f32>(), vec4_at(start, c), is_inside)";
                window(writer, convolution, &Windows { size, channels, group_type: GROUP_TYPE, read }, &extents);
                Kind::Window
            }
        };
        Self { group_type: GROUP_TYPE, depth: size[0] * size[1] * channels, kind, extents }
    }

    /// Returns WGSL that declares the variables of a slot. The slot loads data for the output pixel whose
    /// index is in the variable `p{slot}`.
    pub(super) fn declare(&self, slot: usize) -> String {
        let [_, _, height, width] = &self.extents;
        let coordinates = format!(
            "    let x{slot} = i32(p{slot} % {width});
    let y{slot} = i32(p{slot} / {width} % {height});
    let b{slot}_ = i32(p{slot} / {width} / {height});\n"
        );
        let data = format!("    var data{slot} = {}();\n", self.group_type);
        match &self.kind {
            Kind::Pointwise | Kind::Mean => data,
            Kind::Window => coordinates + &data,
            Kind::Depthwise(taps) => {
                let declare = |[i, j]: &[usize; 2]| format!("    var data{slot}_{i}_{j} = {}();\n", self.group_type);
                let group = format!("    var loaded_group{slot} = 0u;\n");
                coordinates + &data + &group + &taps.iter().map(declare).collect::<String>()
            }
        }
    }

    /// Returns WGSL that starts loading group `k` along K into a slot.
    pub(super) fn fetch(&self, slot: usize, k: &str) -> String {
        match &self.kind {
            Kind::Pointwise => format!("    data{slot} = vec4_at(p{slot}, {k});\n"),
            Kind::Mean => format!("    data{slot} = mean_at(p{slot}, {k});\n"),
            Kind::Window => format!("    data{slot} = window_at(x{slot}, y{slot}, b{slot}_, {k});\n"),
            Kind::Depthwise(taps) => {
                let tap = |[i, j]: &[usize; 2]| {
                    format!(
                        "    data{slot}_{i}_{j} = tap_at(x{slot}, y{slot}, b{slot}_, {i}u, {j}u, loaded_group{slot});\n"
                    )
                };
                format!("    loaded_group{slot} = {k};\n") + &taps.iter().map(tap).collect::<String>()
            }
        }
    }

    /// Returns WGSL that sets `data{slot}` to its final value. For a depthwise prologue this computes the
    /// prologue from the loaded taps, with 0 for padding and beyond the last channel; otherwise nothing
    /// remains to be done. The statements wait for the loads and are therefore placed as late as possible.
    pub(super) fn settle(&self, slot: usize) -> String {
        match &self.kind {
            Kind::Pointwise | Kind::Window | Kind::Mean => String::new(),
            Kind::Depthwise(taps) => {
                let taps: String = taps.iter().map(|[i, j]| format!(", data{slot}_{i}_{j}")).collect();
                format!("    data{slot} = prologue(x{slot}, y{slot}, p{slot}, loaded_group{slot}{taps});\n")
            }
        }
    }
}

/// Adds the WGSL function `vec4_at(position, c)`, which returns channels `4·c` to `4·c + 3` of an input
/// pixel, with zeros beyond the last channel.
pub(super) fn read_vec4s(writer: &mut Writer<'_>, context: &Context<'_>, kernel: &Kernel) {
    let channels = context.program.shape(kernel.inputs[0])[3];
    let whole = channels.is_multiple_of(4);
    let array = writer.read(kernel.inputs[0], if whole { 4 } else { 1 });
    let text = if whole {
        let depth = writer.param(channels / 4);
        let read = array.floats(&format!("position * {depth} + min(c, {depth} - 1u)"));
        format!("    return select(vec4<f32>(), {read}, c < {depth});\n")
    } else {
        let channels = writer.param(channels);
        let one = |k: usize| {
            let read = array.floats(&format!("position * {channels} + min(4u * c + {k}u, {channels} - 1u)"));
            format!("select(0.0, {read}, 4u * c + {k}u < {channels})")
        };
        format!("    return vec4<f32>({}, {}, {}, {});\n", one(0), one(1), one(2), one(3))
    };
    writer.function(&format!("fn vec4_at(position: u32, c: u32) -> vec4<f32> {{\n{text}}}\n"));
}

/// What [`window`] needs to know of a convolution that reads its input through a window.
struct Windows<'a> {
    /// Rows and columns of the window.
    size: [usize; 2],
    /// Number of groups of four input channels.
    channels: usize,
    /// The WGSL type of a group of four channels.
    group_type: &'static str,
    /// WGSL that loads group `c` of the input pixel with index `start`, or the zero point if `is_inside` is
    /// false.
    read: &'a str,
}

/// Adds the WGSL function `window_at(x, y, b, k)`, which returns group `k` along K of the elements that
/// output pixel (`x`, `y`) of image `b` reads through the window. In the padding and beyond the last tap it
/// returns the zero point.
fn window(
    writer: &mut Writer<'_>,
    convolution: &ConvolutionGeometry,
    Windows { size: [rows, columns], channels, group_type, read }: &Windows<'_>,
    [height, width, ..]: &[String; 4],
) {
    source(writer, convolution);
    let channels = writer.param(*channels);
    writer.function(&format!(
        "fn window_at(x: i32, y: i32, b: i32, k: u32) -> {group_type} {{
    let tap = k / {channels};
    let sy = source_y(y, tap / {columns}u, i32({height}));
    let sx = source_x(x, tap % {columns}u, i32({width}));
    let start = u32((b * i32({height}) + max(sy, 0)) * i32({width}) + max(sx, 0));
    let c = k % {channels};
    let is_inside = tap < {taps}u && sy >= 0 && sx >= 0;
    return {read};
}}\n",
        taps = rows * columns
    ));
}

/// Adds the WGSL functions `tap_at(x, y, b, i, j, c)`, which loads one tap, and
/// `prologue(x, y, position, c, …)`, which computes 4 channels of a depthwise prologue from the loaded taps.
/// Returns the taps as rows and columns of the window.
fn depthwise(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    (weights, start): (&Array, usize),
    [height, width, ..]: &[String; 4],
) -> Vec<[usize; 2]> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("only a convolution comes first") };
    let filter = context.program.shape(kernel.inputs[1]);
    let [rows, columns] = [filter[1], filter[2]];
    let taps: Vec<[usize; 2]> = (0..rows).flat_map(|i| (0..columns).map(move |j| [i, j])).collect();
    finish(writer, context, kernel, ("prologue_result", 4));
    source(writer, convolution);
    let (depth, start) = (writer.param(filter[0].div_ceil(4)), writer.param(start));
    writer.function(&format!(
        "fn tap_at(x: i32, y: i32, b: i32, i: u32, j: u32, c: u32) -> vec4<f32> {{
    let sy = max(source_y(y, i, i32({height})), 0);
    let sx = max(source_x(x, j, i32({width})), 0);
    return vec4_at(u32((b * i32({height}) + sy) * i32({width}) + sx), min(c, {depth} - 1u));
}}\n"
    ));
    let read: String = taps.iter().map(|[i, j]| format!(", d{i}_{j}: vec4<f32>")).collect();
    let mut text = format!(
        "fn prologue(x: i32, y: i32, position: u32, c: u32{read}) -> vec4<f32> {{
    let vector = min(c, {depth} - 1u);
    var sum = {};\n",
        weights.floats(&format!("{start} + vector"))
    );
    (0..rows).for_each(|i| text += &format!("    let iy{i} = source_y(y, {i}u, i32({height})) >= 0;\n"));
    (0..columns).for_each(|j| text += &format!("    let ix{j} = source_x(x, {j}u, i32({width})) >= 0;\n"));
    for [i, j] in &taps {
        let weight = weights.floats(&format!("{start} + {}u * {depth} + vector", 1 + i * columns + j));
        text += &format!("    sum = fma(select(vec4<f32>(), d{i}_{j}, iy{i} && ix{j}), {weight}, sum);\n");
    }
    writer.function(&format!(
        "{text}    return select(vec4<f32>(), prologue_result(position * {depth} + vector, sum), c < {depth});\n}}\n"
    ));
    taps
}

/// Adds the WGSL function `mean_at(position, c)`, which returns 4 channels of the mean over an image. Pixels
/// are added column by column, in the same order as in variant `window`.
fn mean(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    kernel: &Kernel,
    window: &Window,
    [height, width, ..]: &[String; 4],
) {
    finish(writer, context, kernel, ("mean_result", 4));
    let depth = writer.param(context.program.shape(kernel.inputs[0])[3].div_ceil(4));
    let [rows, columns] = window.size;
    let mut text = format!(
        "fn mean_at(position: u32, c: u32) -> vec4<f32> {{
    let vector = min(c, {depth} - 1u);
    let start = position * {height} * {width};\n"
    );
    let taps = || (0..columns).flat_map(|j| (0..rows).map(move |i| (i, j)));
    for (i, j) in taps() {
        text += &format!("    let d{i}_{j} = vec4_at(start + {i}u * {width} + {j}u, vector);\n");
    }
    text += "    var sum = vec4<f32>();\n";
    for (i, j) in taps() {
        text += &format!("    sum += d{i}_{j};\n");
    }
    let mean = format!("sum / {}.0", rows * columns);
    text += &format!(
        "    return select(vec4<f32>(), mean_result(position * {depth} + vector, {mean}), c < {depth});\n}}\n"
    );
    writer.function(&text);
}
