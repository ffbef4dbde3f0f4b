//! Input loaders of convolutions of 8-bit integers: a group of four channels is a word of signed bytes.

use attache_gpu_ir::{ByteType, Primitive};

use super::{InputGeometry, InputLoader, Kind, Windows, source, window};
use crate::kernel::{Kernel, StorageFormat};
use crate::variants::convolution::conv_bytes::{fetch, signed_data, signed_filter};
use crate::wgsl::epilogue::finish;
use crate::wgsl::{Context, Writer};

/// The WGSL type of a group of four 8-bit channels.
const GROUP_TYPE: &str = "u32";

impl InputLoader {
    /// Adds the WGSL functions that load the data of a convolution of 8-bit integers, and returns the loader
    /// that calls them. The packed words of a depthwise prologue start at vec4 `start` of `words`: the bias,
    /// then the filter, four taps to a vec4: `[channels / 4][⌈taps / 4⌉]`.
    pub(in crate::variants) fn of_bytes(
        writer: &mut Writer<'_>,
        context: &Context<'_>,
        kernel: &Kernel,
        (words, start): (&str, usize),
    ) -> Self {
        let (InputGeometry { convolution, size, channels, is_pointwise }, extents) =
            InputGeometry::of(writer, context, kernel);
        let (zero, signed) = signed_data(context, kernel).expect("a convolution of bytes");
        let kind = match kernel.prologue.as_deref() {
            Some(first) => {
                let made = if signed { ByteType::Signed } else { ByteType::Unsigned };
                Kind::Depthwise(depthwise(writer, context, (first, made), (words, start), &extents))
            }
            None => {
                fetch(writer, kernel, context.program.shape(kernel.inputs[0])[3], zero, signed);
                if is_pointwise {
                    let all = "fn vec4_at(position: u32, c: u32) -> u32 {\n    return fetch(position, c, true);\n}\n";
                    writer.function(all);
                    Kind::Pointwise
                } else {
                    let read = "fetch(start, c, is_inside)";
                    window(writer, convolution, &Windows { size, channels, group_type: GROUP_TYPE, read }, &extents);
                    Kind::Window
                }
            }
        };
        Self { group_type: GROUP_TYPE, depth: size[0] * size[1] * channels, kind, extents }
    }
}

/// WGSL function that packs the low bytes of four integers into a word.
const WORD_OF: &str = "fn word_of(integers: vec4<i32>) -> u32 {
    let bytes = (vec4<u32>(integers) & vec4<u32>(255u)) << vec4<u32>(0u, 8u, 16u, 24u);
    return bytes.x | bytes.y | bytes.z | bytes.w;
}
";

/// Adds the WGSL functions `tap_at(x, y, b, i, j, c)`, which loads one tap, and
/// `prologue(x, y, position, c, …)`, which computes 4 channels of a depthwise prologue from the loaded taps,
/// as a word of signed bytes. `made` is the type of the prologue's result. Returns the taps as rows and
/// columns of the window.
fn depthwise(
    writer: &mut Writer<'_>,
    context: &Context<'_>,
    (kernel, made): (&Kernel, ByteType),
    (words, start): (&str, usize),
    [height, width, ..]: &[String; 4],
) -> Vec<[usize; 2]> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("only a convolution comes first") };
    let filter = context.program.shape(kernel.inputs[1]);
    let ([rows, columns], vec4s) = ([filter[1], filter[2]], filter[0] / 4);
    let taps: Vec<[usize; 2]> = (0..rows).flat_map(|i| (0..columns).map(move |j| [i, j])).collect();
    let data = writer.read(kernel.inputs[0], 4);
    let read = match context.storages.of(kernel.inputs[0]) {
        StorageFormat::Bytes(_) => data.word("at"),
        _ => format!("word_of({})", data.integers("at")),
    };
    let unpack = match context.program.value(kernel.inputs[0]).bytes {
        Some(ByteType::Unsigned) => "vec4<i32>(unpack4xU8(",
        _ => "vec4<i32>(unpack4xI8(",
    };
    finish(writer, context, kernel, ("prologue_result", 4));
    source(writer, convolution);
    writer.function(WORD_OF);
    let (depth, start) = (writer.param(vec4s), writer.param(start));
    writer.function(&format!(
        "fn tap_at(x: i32, y: i32, b: i32, i: u32, j: u32, c: u32) -> u32 {{
    let sy = max(source_y(y, i, i32({height})), 0);
    let sx = max(source_x(x, j, i32({width})), 0);
    let at = u32((b * i32({height}) + sy) * i32({width}) + sx) * {depth} + min(c, {depth} - 1u);
    return {read};\n}}\n"
    ));
    let read: String = taps.iter().map(|[i, j]| format!(", d{i}_{j}: u32")).collect();
    let mut text = format!(
        "fn prologue(x: i32, y: i32, position: u32, c: u32{read}) -> u32 {{
    let vector = min(c, {depth} - 1u);
    var sum = bitcast<vec4<i32>>({words}[{start} + vector]);\n"
    );
    (0..rows).for_each(|i| text += &format!("    let iy{i} = source_y(y, {i}u, i32({height})) >= 0;\n"));
    (0..columns).for_each(|j| text += &format!("    let ix{j} = source_x(x, {j}u, i32({width})) >= 0;\n"));
    let vectors = taps.len().div_ceil(4);
    for tap_vector in 0..vectors {
        text += &format!("    let w{tap_vector} = {words}[{start} + {depth} + vector * {vectors}u + {tap_vector}u];\n");
    }
    let (_, filter_zero) = signed_filter(context, kernel).expect("a convolution of bytes");
    let [data_zero, filter_zero] =
        [convolution.zero_points[0], filter_zero].map(|zero| writer.signed_param(zero.into()));
    for (tap, [i, j]) in taps.iter().enumerate() {
        let weight = format!("w{}.{}", tap / 4, ["x", "y", "z", "w"][tap % 4]);
        text += &format!(
            "    let p{tap} = ({unpack}d{i}_{j})) - vec4<i32>({data_zero})) * (unpack4xI8({weight}) - vec4<i32>({filter_zero}));
    sum += select(vec4<i32>(), p{tap}, iy{i} && ix{j});\n"
        );
    }
    let flip = if made == ByteType::Signed { "" } else { " ^ 0x80808080u" };
    text += &format!(
        "    return select(0u, word_of(prologue_result(position * {depth} + vector, sum)){flip}, c < {depth});\n}}\n"
    );
    writer.function(&text);
    taps
}
