//! Fused activations of float operators: as bounds of a CPU kernel, as a step after the kernel, and as GPU
//! primitives.

use attache_base::Activation;
use attache_gpu_ir::{Expression, ValueId};
use attache_graph::{Lowering, Unsupported};
use attache_kernels::Engine;
use attache_kernels::elementwise::{Unary, unary_in_place};

/// Returns the bounds to which a CPU kernel clamps its result; infinite where the activation is not a clamp.
pub(crate) fn clamp(activation: Activation) -> (f32, f32) {
    activation.bounds().unwrap_or((f32::NEG_INFINITY, f32::INFINITY))
}

/// Applies the activation to the output of a CPU kernel, in place, where it is tanh. Does nothing for
/// activations that are clamps, which the kernel has already applied.
pub(crate) fn finish(engine: Engine<'_>, activation: Activation, output: &mut [f32]) {
    if activation == Activation::Tanh {
        unary_in_place(engine, Unary::Tanh, output);
    }
}

/// Emits the activation of a value and returns its result.
pub(crate) fn lower(lowering: &mut Lowering<'_>, activation: Activation, id: ValueId) -> Result<ValueId, Unsupported> {
    let expression = Expression::Input(0).activation(activation);
    let expression =
        expression.ok_or_else(|| Unsupported::new(format!("no GPU form of the activation {activation:?}")))?;
    let shape = lowering.shape(id).clone();
    lowering.map(expression, &shape, &[id])
}
