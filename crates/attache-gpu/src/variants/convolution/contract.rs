//! Convolution in the general form: one invocation per result, with filter and data as the program stores them. It is
//! the fallback if no faster variant applies, and the reference that the others are tested against.

use attache_gpu_ir::{Contraction, Primitive, Scalar};

use crate::kernel::Kernel;
use crate::variants::Variant;
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "contract",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Contract(_)),
    cost: |_, _| 100,
    write,
};

/// WGSL of the function `source(o, tap, axis…)`: the input coordinate that output coordinate `o` reads for a tap of the
/// window, or -1 if there is none. `source_y` and `source_x` call it with the parameters of the two axes.
pub(super) fn source(writer: &mut Writer<'_>, contraction: &Contraction) {
    let [sy, sx] = contraction.strides.map(|stride| writer.param(stride));
    let [dy, dx] = contraction.dilations.map(|dilation| writer.param(dilation));
    let [by, bx] = contraction.before.map(|before| writer.param(before));
    let body = if contraction.transposed {
        "    let spread = o + before - tap * dilation;
    if (spread < 0 || spread % stride != 0) { return -1; }
    let at = spread / stride;\n"
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
    let Primitive::Contract(contraction) = &kernel.primitive else { unreachable!("applies") };
    let data = context.program.shape(kernel.inputs[0]);
    let filter = context.program.shape(kernel.inputs[1]);
    let output = context.program.shape(kernel.outputs[0]);
    let mut writer = Writer::new(VARIANT.name, context);
    let inputs: Vec<Array> = kernel.inputs.iter().map(|id| writer.read(*id, 1)).collect();
    store(&mut writer, context, kernel, 1);
    source(&mut writer, contraction);
    let extents: Vec<String> = output.iter().map(|extent| writer.param(*extent)).collect();
    let [height, width, channels] = [1, 2, 3].map(|axis| writer.param(data[axis]));
    let [rows, columns, depth] = [1, 2, 3].map(|axis| writer.param(filter[axis]));
    let per_group = writer.param(filter[0] / contraction.groups);
    let is_real = context.program.value(kernel.inputs[0]).scalar == Scalar::F32;
    let (data, filter) = (inputs[0].numbers("start + c"), inputs[1].numbers("tap + c"));
    let (element, step) = if is_real {
        ("f32", format!("fma({data}, {filter}, sum)"))
    } else {
        let [data_zero, filter_zero] = contraction.zero_points.map(|point| writer.signed_param(point.into()));
        ("i32", format!("sum + ({data} - {data_zero}) * ({filter} - {filter_zero})"))
    };
    let bias = inputs.get(2).map_or(format!("{element}(0)"), |bias| bias.numbers("o3"));
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
