//! Variant `index_map`: an index map as a kernel of its own. Each output element is loaded from the
//! coordinates that the map gives, or is the fill value if these are outside the input.

use attache_gpu_ir::Primitive;

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::epilogue::store;
use crate::wgsl::{Context, Shader, Writer, keeps_vectors};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "index_map",
    computes: Computes::Nothing,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::IndexMap(_)),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::IndexMap(map) = &kernel.primitive else { unreachable!("applies") };
    let together = keeps_vectors(map, context.program.shape(kernel.inputs[0]));
    let vector_width = if together { vector_width(context.program, kernel) } else { 1 };
    let mut writer = Writer::new(VARIANT.name, context);
    let array = writer.fetch(kernel.inputs[0], map, vector_width);
    store(&mut writer, context, kernel, vector_width);
    let elements: usize = map.output.iter().product();
    vec![writer.linear(elements / vector_width, &format!("    store(g, {});\n", array.elements("g")))]
}
