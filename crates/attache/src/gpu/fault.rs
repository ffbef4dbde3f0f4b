//! A test's faults, planted where the feature `fault` is there and the environment asks for them. With
//! `ATTACHE_FAULT_NODE`, the index of an operator of the file, the GPU scales by 1.01 whatever floats that operator makes;
//! with `ATTACHE_FAULT_PANIC`, likewise, the delegate panics over it.
//! `ATTACHE_FAULT_DEVICE` has the device lost or out of memory: `lost` or `memory`, at `record`, `submit`, `wait` or `read`,
//! after so many times that went well, as `lost,submit,2`. Without the feature nothing happens.

use attache_gpu::Fault;
use attache_graph::{Lowered, Node};

/// The device's fault, where there is to be one.
#[cfg(feature = "fault")]
pub(super) fn of_device() -> Option<Fault> {
    use attache_gpu::{FaultMoment, GpuErrorKind};

    let text = std::env::var("ATTACHE_FAULT_DEVICE").ok()?;
    let mut words = text.split(',');
    let kind = match words.next()? {
        "lost" => GpuErrorKind::DeviceLost,
        "memory" => GpuErrorKind::OutOfMemory,
        other => panic!("ATTACHE_FAULT_DEVICE: {other} is neither lost nor memory"),
    };
    let moment = match words.next()? {
        "record" => FaultMoment::Record,
        "submit" => FaultMoment::Submit,
        "wait" => FaultMoment::Wait,
        "read" => FaultMoment::Read,
        other => panic!("ATTACHE_FAULT_DEVICE: {other} is no moment"),
    };
    Some(Fault { kind, moment, after: words.next().map_or(0, |count| count.parse().expect("a number of times")) })
}

/// The device's fault: none.
#[cfg(not(feature = "fault"))]
pub(super) fn of_device() -> Option<Fault> {
    None
}

/// The node's program, with the fault where it is the node's turn.
#[cfg(feature = "fault")]
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

/// The node's program as it is.
#[cfg(not(feature = "fault"))]
pub(super) fn plant(_: &Node, lowered: Lowered) -> Lowered {
    lowered
}
