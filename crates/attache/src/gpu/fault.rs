//! A test's fault: with the feature `fault`, the GPU scales by 1.01 whatever floats the operator of the file makes that
//! the environment variable `ATTACHE_FAULT_NODE` has the index of. Without it nothing happens.

use attache_graph::{Lowered, Node};

/// The node's program, with the fault where it is the node's turn.
#[cfg(feature = "fault")]
pub(super) fn plant(node: &Node, mut lowered: Lowered) -> Lowered {
    use attache_gpu_ir::{Expression, Primitive, Scalar};

    let wanted = std::env::var("ATTACHE_FAULT_NODE").ok().and_then(|index| index.parse().ok());
    if !wanted.is_some_and(|index| node.origins.contains(&index)) {
        return lowered;
    }
    for output in 0..lowered.program.outputs.len() {
        let program = &mut lowered.program;
        let (id, shape) = (program.outputs[output], program.shape(program.outputs[output]).clone());
        let scalar = program.value(id).scalar;
        if scalar == Scalar::F32 {
            let expression = Expression::Input(0).multiply(Expression::Constant(1.01));
            let step = program.step(Primitive::Map { expression, shape, scalar }, &[id], 0);
            program.outputs[output] = step.expect("a map of one value fits it")[0];
        }
    }
    lowered
}

/// The node's program as it is.
#[cfg(not(feature = "fault"))]
pub(super) fn plant(_: &Node, lowered: Lowered) -> Lowered {
    lowered
}
