//! Variant `conv`: convolution of any kind, with one invocation per output element and with filter and data
//! as the program stores them. It is the fallback if no faster variant applies, and the reference that the
//! other variants are tested against.

use attache_gpu_ir::{ConvolutionGeometry, Primitive, Scalar};

use crate::kernel::Kernel;
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "conv",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Convolution(_)),
    priority: |_, _| 100,
    write,
};

/// Adds the WGSL function `source(o, tap, …)`, which returns the input coordinate along one axis that output
/// coordinate `o` reads for a tap of the window, or -1 if that is outside the image. Also adds `source_y` and
/// `source_x`, which call it with stride, dilation and padding of the vertical and the horizontal axis.
pub(super) fn source(writer: &mut Writer<'_>, convolution: &ConvolutionGeometry) {
    let [sy, sx] = convolution.strides.map(|stride| writer.param(stride));
    let [dy, dx] = convolution.dilations.map(|dilation| writer.param(dilation));
    let [by, bx] = convolution.before.map(|before| writer.param(before));
    let body = if convolution.transposed {
        "    let offset = o + before - tap * dilation;
    if (offset < 0 || offset % stride != 0) { return -1; }
    let at = offset / stride;\n"
    } else {
        "    let at = o * stride + tap * dilation - before;\n"
    };
    writer.function(&format!(
        "fn source(o: i32, tap: i32, stride: i32, dilation: i32, before: i32, extent: i32) -> i32 {{
{body}    return select(-1, at, at >= 0 && at < extent);
}}
fn source_y(o: i32, tap: u32, extent: i32) -> i32 {{
    return source(o, i32(tap), i32({sy}), i32({dy}), i32({by}), extent);
}}
fn source_x(o: i32, tap: u32, extent: i32) -> i32 {{
    return source(o, i32(tap), i32({sx}), i32({dx}), i32({bx}), extent);
}}\n"
    ));
}

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Convolution(convolution) = &kernel.primitive else { unreachable!("applies") };
    let data = context.program.shape(kernel.inputs[0]);
    let filter = context.program.shape(kernel.inputs[1]);
    let output = context.program.shape(kernel.outputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let inputs: Vec<Array> = kernel.inputs.iter().map(|id| writer.read(*id, 1)).collect();
    store(&mut writer, context, kernel, 1);
    source(&mut writer, convolution);
    let extents: Vec<String> = output.iter().map(|extent| writer.param(*extent)).collect();
    let [height, width, channels] = [1, 2, 3].map(|axis| writer.param(data[axis]));
    let [rows, columns, depth] = [1, 2, 3].map(|axis| writer.param(filter[axis]));
    let per_group = writer.param(filter[0] / convolution.groups);
    let is_float = context.program.value(kernel.inputs[0]).scalar == Scalar::F32;
    let (data, filter) = (inputs[0].elements("start + c"), inputs[1].elements("tap + c"));
    let (element, step) = if is_float {
        ("f32", format!("fma({data}, {filter}, sum)"))
    } else {
        let [data_zero, filter_zero] = convolution.zero_points.map(|point| writer.signed_param(point.into()));
        ("i32", format!("sum + ({data} - {data_zero}) * ({filter} - {filter_zero})"))
    };
    let bias = inputs.get(2).map_or(format!("{element}(0)"), |bias| bias.elements("o3"));
    let mut body = coordinates(&extents);
    body += &format!(
        "    var sum = {bias};
    let first = u32(o3) / {per_group} * {depth};
    for (var i = 0u; i < {rows}; i++) {{
        let y = source_y(o1, i, i32({height}));
        if (y < 0) {{ continue; }}
        for (var j = 0u; j < {columns}; j++) {{
            let x = source_x(o2, j, i32({width}));
            if (x < 0) {{ continue; }}
            let start = u32((o0 * i32({height}) + y) * i32({width}) + x) * {channels} + first;
            let tap = ((u32(o3) * {rows} + i) * {columns} + j) * {depth};
            for (var c = 0u; c < {depth}; c++) {{
                sum = {step};
            }}
        }}
    }}
    store(g, sum);\n"
    );
    vec![writer.linear(output.elements(), &body)]
}
