//! Concatenation: each invocation finds the input that its element comes from. If there are more inputs than bindings,
//! several dispatches write parts of the output.

use attache_gpu_ir::{Primitive, ValueId};

use crate::kernel::{Kernel, lanes};
use crate::variants::Variant;
use crate::wgsl::accessor::Array;
use crate::wgsl::epilogue::store_anywhere;
use crate::wgsl::{Context, Shader, Writer};

pub(in crate::variants) const VARIANT: Variant = Variant {
    name: "concatenate",
    takes_prologues: false,
    applies: |_, kernel| matches!(kernel.primitive, Primitive::Concatenate { .. }),
    cost: |_, _| 1,
    write,
};

fn write(context: &Context<'_>, kernel: &Kernel) -> Vec<Shader> {
    let Primitive::Concatenate { axis } = kernel.primitive else { unreachable!("applies") };
    let inner = |id: &ValueId| context.program.shape(*id)[axis..].iter().product::<usize>();
    let runs: Vec<usize> = kernel.inputs.iter().map(inner).collect();
    let lanes = if runs.iter().all(|run| run.is_multiple_of(4)) { lanes(context.program, kernel) } else { 1 };
    let runs: Vec<usize> = runs.iter().map(|run| run / lanes).collect();
    let at_once = (context.limits.max_bindings - 1).saturating_sub(kernel.operands.len()).max(1);
    let mut start = 0;
    let mut shaders = Vec::new();
    for (inputs, lengths) in kernel.inputs.chunks(at_once).zip(runs.chunks(at_once)) {
        shaders.push(part(context, kernel, inputs, lengths, (start, runs.iter().sum()), lanes));
        start += lengths.iter().sum::<usize>();
    }
    shaders
}

/// The dispatch that copies some of the inputs to their place: `start` units into each run of `whole` units of the
/// output.
fn part(
    context: &Context<'_>,
    kernel: &Kernel,
    inputs: &[ValueId],
    lengths: &[usize],
    (start, whole): (usize, usize),
    lanes: usize,
) -> Shader {
    let mut writer = Writer::new(VARIANT.name, context);
    let arrays: Vec<Array> = inputs.iter().map(|id| writer.read(*id, lanes)).collect();
    store_anywhere(&mut writer, context, kernel, lanes);
    let length: usize = lengths.iter().sum();
    let elements = context.program.shape(kernel.outputs[0]).elements() / lanes;
    let runs = elements.checked_div(whole).unwrap_or(0);
    let (within, from, all) = (writer.param(length), writer.param(start), writer.param(whole));
    let mut body =
        format!("    let run = g / {within};\n    var at = g % {within};\n    let to = run * {all} + {from} + at;\n");
    for (index, (array, length)) in arrays.iter().zip(lengths).enumerate() {
        let length = writer.param(*length);
        let fetch = format!("store(to, {});", array.numbers(&format!("run * {length} + at")));
        body += &if index + 1 == arrays.len() {
            format!("    {fetch}\n")
        } else {
            format!("    if (at < {length}) {{ {fetch} return; }}\n    at -= {length};\n")
        };
    }
    writer.linear(runs * length, &body)
}
