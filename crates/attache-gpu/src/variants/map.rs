//! A map of reals or integers: one expression for each element.

use attache_gpu_ir::Primitive;

use super::Variant;
use crate::access::{lanes, store_map};
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::{Shader, Writer};

pub(super) const VARIANT: Variant = Variant {
    name: "map",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Map { .. } | Primitive::WholeMap { .. }),
    cost: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let lanes = lanes(context.program, kernel);
    let mut writer = Writer::new(VARIANT.name, context);
    store_map(&mut writer, context, kernel, lanes);
    vec![writer.linear(context.program.shape(kernel.outputs[0]).elements() / lanes, "    store(g);\n")]
}
