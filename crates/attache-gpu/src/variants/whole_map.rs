//! A map of integers: one expression for each element.

use std::fmt::Write;

use attache_gpu_ir::Primitive;

use super::Variant;
use crate::access::operand;
use crate::context::Context;
use crate::fuse::Kernel;
use crate::shader::{Shader, Writer};
use crate::whole::{functions, whole};

pub(super) const VARIANT: Variant = Variant {
    name: "whole_map",
    applies: |_, kernel| matches!(kernel.primitive, Primitive::WholeMap { .. }),
    cost: 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::WholeMap { expression, shape } = &kernel.primitive else { unreachable!("applies") };
    let mut writer = Writer::new(VARIANT.name, context);
    let mut body = String::new();
    for (index, id) in kernel.inputs.iter().enumerate() {
        operand(&mut writer, &format!("operand{index}"), (*id, context.program.value(*id)), shape, ("i32", 1));
        let _ = writeln!(body, "    let x{index} = operand{index}(g);");
    }
    let array = writer.write(kernel.outputs[0], 1);
    writer.function(&functions(expression));
    let _ = writeln!(body, "    {}", array.write("g", &whole(expression)));
    vec![writer.linear(shape.elements(), &body)]
}
