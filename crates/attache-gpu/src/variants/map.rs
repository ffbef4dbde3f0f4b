//! A map: one expression for each element.

use attache_gpu_ir::Primitive;

use super::Variant;
use crate::access::{lanes, store_map};
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::{Shader, Writer};

pub(super) const VARIANT: Variant =
    Variant { name: "map", applies: |_, kernel| matches!(kernel.primitive, Primitive::Map { .. }), cost: 1, write };

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Map { expression, shape, .. } = &kernel.primitive else { unreachable!("applies") };
    let lanes = lanes(context.program, kernel);
    let mut writer = Writer::new(VARIANT.name, context);
    store_map(&mut writer, context, kernel, expression, lanes);
    vec![writer.linear(shape.elements() / lanes, "    store(g);\n")]
}
