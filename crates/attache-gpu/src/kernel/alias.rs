//! Values that share memory: a reshaped value lies where the value it reshapes lies.

use attache_gpu_ir::{Primitive, Program, Source, ValueId};

/// The value in whose place each value lies: itself, but for reshapes.
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
