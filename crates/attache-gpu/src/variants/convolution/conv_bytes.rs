//! Variant `conv_bytes`: convolution of 8-bit integers with one group and a constant filter, with four
//! products per instruction (`dot4I8Packed`).
//!
//! With zero points `z` of the data `x` and `w` of the filter `f`,
//! `Σ (x − z)(f − w) = Σ x·f − w Σ x − z Σ (f − w)`, where padding counts as `x = z`. The last sum is
//! constant and is added to the bias in advance.

use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{ByteType, Primitive, Source};

use super::tiling::{Loops, Tiling, fits};
use crate::kernel::{Kernel, StorageFormat, signed_point};
use crate::variants::{Computes, Variant};
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_bytes", computes: Computes::Nothing, applies, priority: |_, _| 2, write };

/// Whether the filter is a constant of 8-bit integers.
pub(super) fn has_byte_filter(context: &Context<'_>, kernel: &Kernel) -> bool {
    let filter = context.program.value(kernel.inputs[1]);
    filter.bytes.is_some() && matches!(filter.source, Source::Constant(_))
}

/// Returns the elements of a constant filter as signed bytes, and its zero point in that representation:
/// elements and zero point of an unsigned filter are shifted by -128. `None` if the filter is not a constant
/// of 8-bit integers.
pub(super) fn signed_filter(context: &Context<'_>, kernel: &Kernel) -> Option<(Vec<i8>, i32)> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return None };
    let filter = context.program.value(kernel.inputs[1]);
    let Source::Constant(constant) = &filter.source else { return None };
    let (bytes, point) = (constant.aligned_bytes()?, convolution.zero_points[1]);
    let (flip, shift) = if filter.bytes? == ByteType::Unsigned { (0x80, 128) } else { (0, 0) };
    Some((bytes.iter().map(|byte| (byte ^ flip) as i8).collect(), point.wrapping_sub(shift)))
}

/// Returns the zero point of the data as a signed byte (that of unsigned data is shifted by -128), and
/// whether the data is stored as signed bytes. `None` if the data is not stored as bytes.
pub(super) fn signed_data(context: &Context<'_>, kernel: &Kernel) -> Option<(i8, bool)> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return None };
    let StorageFormat::Bytes(bytes) = context.storages.of(kernel.inputs[0]) else { return None };
    Some((signed_point(bytes, convolution.zero_points[0])?, bytes == ByteType::Signed))
}

/// Returns the bias, with one element per output channel; zeros if there is no bias, `None` if it is not
/// constant.
pub(super) fn bias(context: &Context<'_>, kernel: &Kernel) -> Option<Vec<i32>> {
    let outputs = context.program.shape(kernel.inputs[1])[0];
    let Some(id) = kernel.inputs.get(2) else { return Some(vec![0; outputs]) };
    match &context.program.value(*id).source {
        Source::Constant(constant) => Some(constant.integers()?.into_iter().map(|integer| integer as i32).collect()),
        _ => None,
    }
}

pub(super) fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let filter = context.program.shape(kernel.inputs[1]);
    convolution.groups == 1
        && fits(context, kernel, filter[1] * filter[2] * filter[3].div_ceil(4))
        && signed_data(context, kernel).is_some()
        && has_byte_filter(context, kernel)
        && bias(context, kernel).is_some()
}

/// Packs up to four signed bytes into a word, the first in the lowest bits. Missing bytes are 0.
pub(super) fn word(bytes: impl IntoIterator<Item = i8>) -> u32 {
    bytes.into_iter().enumerate().map(|(index, byte)| u32::from(byte as u8) << (8 * index)).sum()
}

/// Packs the bias, then the filter, with output channels innermost and padded to a multiple of 4, and four
/// input channels to a word: `[1 + height × width × ⌈channels / 4⌉][outputs]`. The constant part of the
/// zero-point correction is added to the bias. Also returns the filter's zero point, as [`signed_filter`]
/// does.
pub(super) fn pack(context: &Context<'_>, kernel: &Kernel, data_zero: i8) -> (Arc<[u32]>, i32) {
    let shape = context.program.shape(kernel.inputs[1]);
    let (outputs, taps, channels) = (shape[0], shape[1] * shape[2], shape[3]);
    let (filter, filter_zero) = signed_filter(context, kernel).expect("applies");
    let bias = bias(context, kernel).expect("applies");
    let (padded, depth) = (outputs.next_multiple_of(4), channels.div_ceil(4));
    let mut packed = vec![0; (1 + taps * depth) * padded];
    for (output, row) in filter.chunks_exact((taps * channels).max(1)).enumerate() {
        let weights =
            row.iter().fold(0i32, |sum, weight| sum.wrapping_add(i32::from(*weight).wrapping_sub(filter_zero)));
        packed[output] = bias[output].wrapping_sub(weights.wrapping_mul(data_zero.into())) as u32;
        for (tap, weights) in row.chunks_exact(channels).enumerate() {
            for (index, weights) in weights.chunks(4).enumerate() {
                packed[(1 + tap * depth + index) * padded + output] = word(weights.iter().copied());
            }
        }
    }
    (packed.into(), filter_zero)
}

/// Adds the WGSL function `fetch(position, c, inside)`, which returns four channels of an input pixel from
/// channel `4·c` on as a word of signed bytes, or the data's zero point if `inside` is false. Channels beyond
/// the last are 0.
pub(super) fn fetch(writer: &mut Writer<'_>, kernel: &Kernel, channels: usize, zero: i8, signed: bool) {
    let words = writer.read(kernel.inputs[0], 4);
    let flip = if signed { "" } else { " ^ 0x80808080u" };
    let zeros = writer.param(word([zero; 4]) as usize);
    let count = writer.param(channels);
    let (value, mask) = if channels.is_multiple_of(4) {
        (format!("    let value = {};\n", words.word(&format!("position * ({count} / 4u) + c"))), "word".to_owned())
    } else {
        let value = format!(
            "    let first = position * {count} + 4u * c;
    let shift = first % 4u * 8u;
    let low = {};
    let high = {};
    let value = select((low >> shift) | (high << ((32u - shift) & 31u)), low, shift == 0u);\n",
            words.word("first / 4u"),
            words.word("(first + min(3u, COUNT - 4u * c - 1u)) / 4u").replace("COUNT", &count),
        );
        (value, format!("word & (0xffffffffu >> (32u - 8u * min(4u, {count} - 4u * c)))"))
    };
    writer.function(&format!(
        "fn fetch(position: u32, c: u32, inside: bool) -> u32 {{
{value}    let word = select({zeros}, value{flip}, inside);
    return {mask};
}}\n"
    ));
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let channels = context.program.shape(kernel.inputs[0])[3];
    let depth = channels.div_ceil(4);
    let tiling = Tiling::new(context, kernel, depth);
    let mut writer = Writer::new(VARIANT.name, context);
    let (zero, signed) = signed_data(context, kernel).expect("applies");
    fetch(&mut writer, kernel, channels, zero, signed);
    let (packed, filter_zero) = pack(context, kernel, zero);
    let weights = writer.words(packed, 4);
    tiling.prepare(&mut writer, context, kernel);
    let mut before = String::new();
    let mut step = format!("            let w = {weights}[tap + c * WIDE];\n");
    let mut after = String::new();
    let filter_point = writer.signed_param(filter_zero.into());
    for p in 0..tiling.each {
        let _ = writeln!(step, "            let v{p} = fetch(from{p}, c, {});", tiling.inside(p));
        let parts = ["x", "y", "z", "w"].map(|part| format!("dot4I8Packed(v{p}, w.{part})")).join(", ");
        let _ = writeln!(step, "            sum{p} += vec4<i32>({parts});");
        if filter_zero != 0 {
            let _ = writeln!(before, "    var all{p} = 0;");
            let _ = writeln!(step, "            all{p} += dot4I8Packed(v{p}, 0x01010101u);");
            let _ = writeln!(after, "    sum{p} -= vec4<i32>({filter_point} * all{p});");
        }
    }
    let bias = format!("bitcast<vec4<i32>>({weights}[vector])");
    let loops = Loops { element: "i32", rows: 1, depth, skips_padding: false, before, step, after, bias };
    vec![tiling.shader(writer, context, kernel, &loops)]
}
