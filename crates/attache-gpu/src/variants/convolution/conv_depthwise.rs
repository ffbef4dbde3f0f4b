//! Variant `conv_depthwise`: depthwise convolution of floats with a constant filter, 4 channels of one output
//! pixel per invocation.

use std::sync::Arc;

use attache_gpu_ir::{Primitive, Scalar, Source};

use super::conv::source;
use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant =
    Variant { name: "conv_depthwise", computes: Computes::Nothing, applies, priority: |_, _| 1, write };

fn applies(context: &Context<'_>, kernel: &Kernel) -> bool {
    let Primitive::Convolution(convolution) = &kernel.primitive else { return false };
    if context.program.value(kernel.inputs[0]).scalar == Scalar::I32 {
        return false;
    }
    let constant = |index: usize| {
        kernel.inputs.get(index).is_none_or(|id| matches!(context.program.value(*id).source, Source::Constant(_)))
    };
    let (data, filter) = (context.program.shape(kernel.inputs[0]), context.program.shape(kernel.inputs[1]));
    let vectors = data[3].is_multiple_of(4) && vector_width(context.program, kernel) == 4;
    convolution.is_depthwise(data, filter) && vectors && constant(1) && constant(2)
}

/// Packs the bias, then the filter, with channels innermost and padded to a multiple of 4:
/// `[1 + height × width][channels]`.
pub(super) fn pack(context: &Context<'_>, kernel: &Kernel) -> Arc<[f32]> {
    let shape = context.program.shape(kernel.inputs[1]);
    let (channels, taps) = (shape[0], shape[1] * shape[2]);
    let width = channels.next_multiple_of(4);
    let filter = context.floats(kernel.inputs[1]);
    let mut packed = vec![0.0; (1 + taps) * width];
    if let Some(bias) = kernel.inputs.get(2) {
        packed[..channels].copy_from_slice(&context.floats(*bias));
    }
    for (channel, weights) in filter.chunks_exact(taps.max(1)).enumerate() {
        for (tap, weight) in weights.iter().enumerate() {
            packed[(1 + tap) * width + channel] = *weight;
        }
    }
    packed.into()
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let data = context.program.shape(kernel.inputs[0]);
    let filter = context.program.shape(kernel.inputs[1]);
    let output = context.program.shape(kernel.outputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let input = writer.read(kernel.inputs[0], 4);
    let weights = writer.packed(pack(context, kernel), 4);
    store(&mut writer, context, kernel, 4);
    source(&mut writer, convolution);
    let channels = data[3] / 4;
    let extents = [output[0], output[1], output[2], channels].map(|extent| writer.param(extent));
    let [height, width] = [1, 2].map(|axis| writer.param(data[axis]));
    let [rows, columns] = [filter[1], filter[2]];
    let mut body = coordinates(&extents);
    body += &format!(
        "    var sum = {bias};
    for (var i = 0u; i < {rows}u; i++) {{
        let y = source_y(o1, i, i32({height}));
        if (y < 0) {{ continue; }}
        for (var j = 0u; j < {columns}u; j++) {{
            let x = source_x(o2, j, i32({width}));
            if (x < 0) {{ continue; }}
            let start = ((o0 * i32({height}) + y) * i32({width}) + x) * i32({channels}) + o3;
            let tap = i32(1u + i * {columns}u + j) * i32({channels}) + o3;
            sum = fma({value}, {weight}, sum);
        }}
    }}
    store(g, sum);\n",
        channels = extents[3],
        bias = weights.floats("o3"),
        value = input.floats("start"),
        weight = weights.floats("tap"),
    );
    vec![writer.linear(output.elements() / 4, &body)]
}
