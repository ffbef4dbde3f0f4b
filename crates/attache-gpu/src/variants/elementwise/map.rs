//! Variant `map`: a map over floats or integers, which evaluates one expression per element.

use attache_gpu_ir::Primitive;

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store_map;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "map",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Map { .. } | Primitive::IntMap { .. }),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let vector_width = vector_width(context.program, kernel);
    let mut writer = Writer::new(VARIANT.name, context);
    store_map(&mut writer, context, kernel, vector_width);
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements() / vector_width, "    store(g);\n")]
}
