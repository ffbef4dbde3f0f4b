//! Max unpooling: each output element compares its place in its window with the stored place of the maximum, and is 0
//! elsewhere.

use attache_gpu_ir::Primitive;

use crate::kernel::{Kernel, lanes};
use crate::variants::Variant;
use crate::wgsl::epilogue::store;
use crate::wgsl::expression::vector;
use crate::wgsl::{Context, Shader, Writer, coordinates};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "unpool",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Unpool { .. }),
    cost: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Unpool { size } = kernel.primitive else { unreachable!("applies") };
    let shape = context.program.shape(kernel.inputs[0]);
    let lanes = if shape[3].is_multiple_of(4) { lanes(context.program, kernel) } else { 1 };
    let (real, whole) = (vector("f32", lanes), vector("i32", lanes));
    let mut writer = Writer::new(VARIANT.name, context);
    let values = writer.read(kernel.inputs[0], lanes);
    let places = writer.read(kernel.inputs[1], lanes);
    store(&mut writer, context, kernel, lanes);
    let output = [shape[0], shape[1] * size[0], shape[2] * size[1], shape[3] / lanes];
    let extents = output.map(|extent| writer.param(extent));
    let [height, width] = [writer.param(shape[1]), writer.param(shape[2])];
    let [rows, columns] = size.map(|extent| writer.param(extent));
    let mut body = coordinates(&extents);
    body += &format!(
        "    let y = o1 / i32({rows});
    let x = o2 / i32({columns});
    let at = ((o0 * i32({height}) + y) * i32({width}) + x) * i32({channels}) + o3;
    let place = {whole}((o2 % i32({columns})) * i32({rows}) + o1 % i32({rows}));
    store(g, select({real}(0.0), {value}, {found} == place));\n",
        channels = extents[3],
        value = values.reals("at"),
        found = places.integers("at"),
    );
    vec![writer.linear(output.iter().product(), &body)]
}
