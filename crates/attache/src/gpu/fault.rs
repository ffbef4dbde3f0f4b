//! Fault injection for tests, compiled in with the feature `_fault` and controlled by environment variables.
//!
//! - `ATTACHE_FAULT_NODE` is the index of an operator in its subgraph. The GPU multiplies the float outputs
//!   of that operator by 1.01.
//! - `ATTACHE_FAULT_PANIC` is also the index of an operator. The delegate panics when it claims that
//!   operator.
//! - `ATTACHE_FAULT_DEVICE` makes the device fail, for example `lost,submit,2`. The first word is `lost` or
//!   `memory` (out of memory). The second word is the operation that fails: `record`, `submit`, `wait` or
//!   `read`. The number is how many of these operations succeed first; it may be left out and is then 0.
//!
//! Without the feature, the functions of this module inject nothing.

use attache_gpu::Fault;
use attache_graph::{Lowered, Node};

/// Returns the device fault that `ATTACHE_FAULT_DEVICE` describes; `None` if the variable is not set.
#[cfg(feature = "_fault")]
pub(super) fn of_device() -> Option<Fault> {
    use attache_gpu::{FaultPoint, GpuErrorKind};

    let text = std::env::var("ATTACHE_FAULT_DEVICE").ok()?;
    let mut words = text.split(',');
    let kind = match words.next()? {
        "lost" => GpuErrorKind::DeviceLost,
        "memory" => GpuErrorKind::OutOfMemory,
        other => panic!("ATTACHE_FAULT_DEVICE: {other} is neither lost nor memory"),
    };
    let point = match words.next()? {
        "record" => FaultPoint::Record,
        "submit" => FaultPoint::Submit,
        "wait" => FaultPoint::Wait,
        "read" => FaultPoint::Read,
        other => panic!("ATTACHE_FAULT_DEVICE: {other} is neither record, submit, wait nor read"),
    };
    Some(Fault { kind, point, after: words.next().map_or(0, |count| count.parse().expect("a number of times")) })
}

/// Returns `None`: without the feature `_fault` no device fault is injected.
#[cfg(not(feature = "_fault"))]
pub(super) fn of_device() -> Option<Fault> {
    None
}

/// Whether a fault of an operator is asked for, so that nothing may be stored.
#[cfg(feature = "_fault")]
pub(super) fn is_planted() -> bool {
    ["ATTACHE_FAULT_NODE", "ATTACHE_FAULT_PANIC"].iter().any(|variable| std::env::var_os(variable).is_some())
}

/// Returns false: without the feature `_fault` nothing is injected.
#[cfg(not(feature = "_fault"))]
pub(super) fn is_planted() -> bool {
    false
}

/// Returns the node's program. If `ATTACHE_FAULT_NODE` selects the node, its float outputs are multiplied by
/// 1.01; if `ATTACHE_FAULT_PANIC` does, this function panics.
#[cfg(feature = "_fault")]
pub(super) fn plant(node: &Node, mut lowered: Lowered) -> Lowered {
    use attache_gpu_ir::{Expression, Primitive, Scalar};

    let is_wanted = |variable: &str| {
        let wanted = std::env::var(variable).ok().and_then(|index| index.parse().ok());
        wanted.is_some_and(|index| node.origins.contains(&index))
    };
    assert!(!is_wanted("ATTACHE_FAULT_PANIC"), "a planted panic");
    if !is_wanted("ATTACHE_FAULT_NODE") {
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

/// Returns the node's program unchanged: without the feature `_fault` nothing is injected.
#[cfg(not(feature = "_fault"))]
pub(super) fn plant(_: &Node, lowered: Lowered) -> Lowered {
    lowered
}
