//! Variant `matmul`: batched matrix products of floats or integers, one invocation per element of the result.

use attache_gpu_ir::{Primitive, Scalar};

use crate::kernel::Kernel;
use crate::variants::Variant;
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "matmul",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::MatMul { .. }),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::MatMul { transposed } = kernel.primitive else { unreachable!("applies") };
    let shapes = [0, 1].map(|input| context.program.shape(kernel.inputs[input]));
    let output = context.program.shape(kernel.outputs[0]);
    let rank = output.rank();
    let mut writer = Writer::new(VARIANT.name, context);
    let [left, right] = [0, 1].map(|input| writer.read(kernel.inputs[input], 1));
    let are_integers = context.program.value(kernel.inputs[0]).scalar == Scalar::I32;
    store(&mut writer, context, kernel, 1);
    let start = if are_integers { "0" } else { "0.0" };
    let (rows, columns) = (writer.param(output[rank - 2]), writer.param(output[rank - 1]));
    let last = |shape: &attache_base::Shape, from_end: usize| shape[shape.rank() - from_end];
    let depth = writer.param(last(shapes[0], if transposed[0] { 2 } else { 1 }));
    // The offset of each operand's matrix, computed from the coordinates of the batch axes, innermost axis
    // first.
    let mut body = format!(
        "    let column = g % {columns};
    let row = g / {columns} % {rows};
    var rest = g / {columns} / {rows};
    var from_left = 0u;
    var from_right = 0u;\n"
    );
    let strides = shapes.map(|shape| attache_base::broadcast_strides(&shape[..shape.rank() - 2], &output[..rank - 2]));
    let matrices = shapes.map(|shape| shape[shape.rank() - 2..].iter().product::<usize>());
    for axis in (0..rank - 2).rev() {
        let extent = writer.param(output[axis]);
        let [left, right] = [0, 1].map(|input| writer.param(strides[input][axis] * matrices[input]));
        body += &format!(
            "    from_left += rest % {extent} * {left};
    from_right += rest % {extent} * {right};
    rest = rest / {extent};\n"
        );
    }
    let at_left = if transposed[0] { format!("k * {rows} + row") } else { format!("row * {depth} + k") };
    let at_right = if transposed[1] { format!("column * {depth} + k") } else { format!("k * {columns} + column") };
    let (at_left, at_right) = (format!("from_left + {at_left}"), format!("from_right + {at_right}"));
    let step = if are_integers {
        format!("sum + {} * {}", left.integers(&at_left), right.integers(&at_right))
    } else {
        format!("fma({}, {}, sum)", left.floats(&at_left), right.floats(&at_right))
    };
    body += &format!(
        "    var sum = {start};
    for (var k = 0u; k < {depth}; k++) {{
        sum = {step};
    }}
    store(g, sum);\n"
    );
    vec![writer.linear(output.elements(), &body)]
}
