//! Variant `concatenate`: concatenation along an axis. Each invocation finds the input that its element comes
//! from. If there are more inputs than one shader can bind, several dispatches each write a part of the
//! output. Inputs that maps compute are computed where they are loaded.

use attache_gpu_ir::{Primitive, ValueId};

use crate::kernel::{Kernel, vector_width};
use crate::variants::{Computes, Variant};
use crate::wgsl::accessor::Array;
use crate::wgsl::computed::elements;
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "concatenate",
    computes: Computes::Maps,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Concatenate { .. }),
    priority: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Concatenate { axis } = kernel.primitive else { unreachable!("applies") };
    let inner = |id: &ValueId| context.program.shape(*id)[axis..].iter().product::<usize>();
    let runs: Vec<usize> = kernel.inputs.iter().map(inner).collect();
    let vector_width =
        if runs.iter().all(|run| run.is_multiple_of(4)) { vector_width(context.program, kernel) } else { 1 };
    let runs: Vec<usize> = runs.iter().map(|run| run / vector_width).collect();
    // With maps, fusion has counted what is bound.
    let at_once = match kernel.maps.len() {
        0 => (context.limits.max_bindings - 1).saturating_sub(kernel.operands.len()).max(1),
        _ => kernel.inputs.len(),
    };
    let mut start = 0;
    let mut shaders = Vec::new();
    for (inputs, lengths) in kernel.inputs.chunks(at_once).zip(runs.chunks(at_once)) {
        shaders.push(part(context, kernel, inputs, lengths, (start, runs.iter().sum()), vector_width));
        start += lengths.iter().sum::<usize>();
    }
    shaders
}

/// Generates the shader that copies some of the inputs to the output. The output consists of runs of `total`
/// units of `vector_width` elements; the shader writes the units of each run from `start` on. `lengths` are
/// the units per run of each input.
fn part(
    context: &Context<'_>,
    kernel: &Kernel,
    inputs: &[ValueId],
    lengths: &[usize],
    (start, total): (usize, usize),
    vector_width: usize,
) -> Shader {
    let mut writer = Writer::new(VARIANT.name, context);
    let arrays: Vec<Array> = inputs.iter().map(|id| elements(&mut writer, context, *id, vector_width)).collect();
    store_anywhere(&mut writer, context, kernel, vector_width);
    let length: usize = lengths.iter().sum();
    let elements = context.program.shape(kernel.outputs[0]).elements() / vector_width;
    let runs = elements.checked_div(total).unwrap_or(0);
    let (within, from, all) = (writer.param(length), writer.param(start), writer.param(total));
    let mut body =
        format!("    let run = g / {within};\n    var at = g % {within};\n    let to = run * {all} + {from} + at;\n");
    for (index, (array, length)) in arrays.iter().zip(lengths).enumerate() {
        let length = writer.param(*length);
        let fetch = format!("store(to, {});", array.elements(&format!("run * {length} + at")));
        body += &if index + 1 == arrays.len() {
            format!("    {fetch}\n")
        } else {
            format!("    if (at < {length}) {{ {fetch} return; }}\n    at -= {length};\n")
        };
    }
    writer.linear(runs * length, &body)
}
