//! Variant `unpool`: max unpooling. Each output element takes the input's value if its position in its window
//! is the stored index of the maximum, and is 0 otherwise.

use attache_gpu_ir::Primitive;

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "unpool",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Unpool { .. }),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Unpool { size } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let vector_width = if shape[3].is_multiple_of(4) { vector_width(context.program, kernel) } else { 1 };
    let (float, integer) = (vector("f32", vector_width), vector("i32", vector_width));
    let mut writer = Writer::new(VARIANT.name, context);
    let values = writer.read(kernel.inputs[0], vector_width);
    let indices = writer.read(kernel.inputs[1], vector_width);
    store(&mut writer, context, kernel, vector_width);
    let output = [shape[0], shape[1] * size[0], shape[2] * size[1], shape[3] / vector_width];
    let extents = output.map(|extent| writer.param(extent));
    let [height, width] = [writer.param(shape[1]), writer.param(shape[2])];
    let [rows, columns] = size.map(|extent| writer.param(extent));
    let mut body = coordinates(&extents);
    body += &format!(
        "    let y = o1 / i32({rows});
    let x = o2 / i32({columns});
    let at = ((o0 * i32({height}) + y) * i32({width}) + x) * i32({channels}) + o3;
    let index = {integer}((o2 % i32({columns})) * i32({rows}) + o1 % i32({rows}));
    store(g, select({float}(0.0), {value}, {found} == index));\n",
        channels = extents[3],
        value = values.floats("at"),
        found = indices.integers("at"),
    );
    vec![writer.linear(output.iter().product(), &body)]
}
