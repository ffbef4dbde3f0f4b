//! Values that share memory: a reshape's output shares the memory of its input.

use attache_gpu_ir::{Primitive, Program, Source, ValueId};

/// Returns for each value the value whose memory it uses: the input of the first reshape in the chain of
/// reshapes that computes it, or the value itself if no reshape computes it.
pub(crate) fn roots(program: &Program) -> Vec<ValueId> {
    let mut roots: Vec<ValueId> = (0..program.values.len() as u32).map(ValueId).collect();
    for id in 0..roots.len() {
        if let Source::Step(step) = program.values[id].source {
            let step = &program.steps[step];
            if matches!(step.primitive, Primitive::Reshape(_)) {
                roots[id] = roots[step.inputs[0].index()];
            }
        }
    }
    roots
}

/// Returns the value whose memory one value uses, as [`roots`] does.
pub(crate) fn root(program: &Program, mut id: ValueId) -> ValueId {
    while let Source::Step(step) = program.value(id).source {
        let step = &program.steps[step];
        if !matches!(step.primitive, Primitive::Reshape(_)) {
            break;
        }
        id = step.inputs[0];
    }
    id
}
