//! Shared by the operators that make floats of quantized elements: `scale × (stored − zero point)`, with one scale or one for
//! each index of an axis.

use attache_base::{Constant as Values, Shape};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{IntExpression, ValueId};
use attache_graph::{Eval, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::quantized::Stored;
use attache_kernels::quantized::rescale::dequantize;

use crate::shared::quantized::Channels;
use crate::shared::support::refuse;

/// Computes output 0 from the elements `stored` of input 0.
pub(crate) fn write<T: Stored>(eval: &mut Eval<'_>, stored: &[T]) -> Result<(), OpError> {
    let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
    let channels = Channels::new(input.data_type, input.quantization, input.shape)?;
    let reals = eval.outputs[0].values::<f32>()?;
    for (range, affine) in channels.runs(stored.len()) {
        dequantize(engine, &stored[range.clone()], &mut reals[range], affine.pair());
    }
    Ok(())
}

/// Emits the floats of input 0, quantized elements of the shape of output 0, and returns them. The difference is computed on
/// integers, so that only the product rounds and no device can fuse the two operations.
pub(crate) fn lower_stored(lowering: &mut Lowering<'_>) -> Result<ValueId, Unsupported> {
    let (fact, shape) = (lowering.input_fact(0)?, lowering.output_shape(0)?.clone());
    let channels = Channels::new(fact.data_type, fact.quantization.as_ref(), &shape).map_err(refuse)?;
    let input = lowering.input(0)?;
    if let Some(affine) = channels.only() {
        let difference =
            lowering.int_map(IntExpression::Input(0).plus(affine.zero_point.wrapping_neg()), &shape, &[input])?;
        lowering.map(Input(0).multiply(Constant(affine.scale)), &shape, &[difference])
    } else {
        // Scales and zero points become vectors along their axis, with extent 1 for the axes after it, so
        // that they broadcast.
        let affines = channels.each();
        let behind = fact.quantization.as_ref().map_or(0, |quantization| shape.rank() - 1 - quantization.axis);
        let along: Shape = [affines.len()].into_iter().chain(std::iter::repeat_n(1, behind)).collect();
        let scales: Vec<f32> = affines.iter().map(|affine| affine.scale).collect();
        let points: Vec<i32> = affines.iter().map(|affine| affine.zero_point).collect();
        let scales = lowering.precise_constant(Values::from_values(along.clone(), &scales))?;
        let points = lowering.constant(Values::from_values(along, &points))?;
        let difference =
            lowering.int_map(IntExpression::Input(0).subtract(IntExpression::Input(1)), &shape, &[input, points])?;
        lowering.map(Input(0).multiply(Input(1)), &shape, &[difference, scales])
    }
}
