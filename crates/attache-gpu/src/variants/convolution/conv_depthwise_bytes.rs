//! Variant `conv_depthwise_bytes`: depthwise convolution of 8-bit integers with a constant filter, 4 channels
//! of one output pixel per invocation.

use std::sync::Arc;

use attache_gpu_ir::Primitive;

use super::conv::source;
use super::conv_bytes::{bias, has_byte_filter, signed_data, signed_filter, word};
use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_depthwise_bytes", computes: Computes::Nothing, applies, priority: |_, _| 1, write };

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    let (data, filter) = (context.program.shape(kernel.inputs[0]), context.program.shape(kernel.inputs[1]));
    let vectors = data[3].is_multiple_of(4) && vector_width(context.program, kernel) == 4;
    convolution.is_depthwise(data, filter)
        && vectors
        && signed_data(context, kernel).is_some()
        && has_byte_filter(context, kernel)
        && bias(context, kernel).is_some()
}

/// Packs the bias, one word per channel, then the filter with channels innermost, four channels to a word:
/// `[height × width][channels / 4]`. Also returns the filter's zero point, as [`signed_filter`] does.
fn pack(context: &Context<'_>, kernel: &Kernel) -> (Arc<[u32]>, i32) {
    let shape = context.program.shape(kernel.inputs[1]);
    let (channels, taps) = (shape[0], shape[1] * shape[2]);
    let (filter, filter_zero) = signed_filter(context, kernel).expect("applies");
    let bias = bias(context, kernel).expect("applies").into_iter().map(|bias| bias as u32);
    let vec4s = (0..taps).flat_map(|tap| (0..channels).step_by(4).map(move |channel| (tap, channel)));
    let weights = vec4s.map(|(tap, channel)| word((channel..channel + 4).map(|channel| filter[channel * taps + tap])));
    (bias.chain(weights).collect(), filter_zero)
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let data = context.program.shape(kernel.inputs[0]);
    let filter = context.program.shape(kernel.inputs[1]);
    let output = context.program.shape(kernel.outputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let input = writer.read(kernel.inputs[0], 4);
    let (packed, filter_zero) = pack(context, kernel);
    let words = writer.words(packed, 1);
    store(&mut writer, context, kernel, 4);
    source(&mut writer, convolution);
    let channels = data[3] / 4;
    let extents = [output[0], output[1], output[2], channels].map(|extent| writer.param(extent));
    let [height, width] = [1, 2].map(|axis| writer.param(data[axis]));
    let [rows, columns] = [filter[1], filter[2]];
    let [data_zero, filter_zero] =
        [convolution.zero_points[0], filter_zero].map(|zero| writer.signed_param(zero.into()));
    let mut body = coordinates(&extents);
    body += &format!(
        "    let channel = u32(o3) * 4u;
    var sum = bitcast<vec4<i32>>(vec4<u32>({words}[channel], {words}[channel + 1u], {words}[channel + 2u], \
         {words}[channel + 3u]));
    for (var i = 0u; i < {rows}u; i++) {{
        let y = source_y(o1, i, i32({height}));
        if (y < 0) {{ continue; }}
        for (var j = 0u; j < {columns}u; j++) {{
            let x = source_x(o2, j, i32({width}));
            if (x < 0) {{ continue; }}
            let start = ((o0 * i32({height}) + y) * i32({width}) + x) * i32({channels}) + o3;
            let tap = (4u + i * {columns}u + j) * {channels} + u32(o3);
            sum += ({value} - vec4<i32>({data_zero})) * (unpack4xI8({words}[tap]) - vec4<i32>({filter_zero}));
        }}
    }}
    store(g, sum);\n",
        channels = extents[3],
        value = input.integers("start"),
    );
    vec![writer.linear(output.elements() / 4, &body)]
}
