//! Rounding of quantized convolutions that a device computes in floats. Their sums are rounded in the CPU's
//! two stages, so that differences of a single quantization step do not grow from one convolution to the
//! next.

use attache_base::{Activation, Constant, DataType};
use attache_gpu_ir::{Expression, UnaryOp, ValueId};
use attache_graph::{AffineParameters, Fact, Lowering, Unsupported};

use super::{Arithmetic, OperandLayout, RequantizationParameters, ScalePrecision, WeightScales};
use crate::shared::support::refuse;

/// Emits the requantized sums of a convolution as floats, before the activation: rounded to a binary fraction
/// of a quantization step, then to whole quantization steps, with ties away from zero. Sums of anything other
/// than 8-bit activations and weights are returned unchanged. `outputs` is the number of output channels.
pub(crate) fn round_twice(
    lowering: &mut Lowering<'_>,
    sums: ValueId,
    layout: &OperandLayout,
    outputs: usize,
) -> Result<ValueId, Unsupported> {
    let [image, weights] = [layout.operands[0], layout.operands[1]].map(|index| lowering.stored_input(index));
    let (image, weights, output) = (image?, weights?, lowering.stored_output(0)?);
    let has_zero_point =
        weights.quantization.as_ref().is_some_and(|one| one.zero_point.iter().any(|point| *point != 0));
    if has_zero_point && !matches!(weights.data_type, DataType::UInt8) {
        return Err(Unsupported::new("weights with a sign whose zero point is not 0"));
    }
    if Arithmetic::of(image.data_type, weights.data_type).ok() != Some(Arithmetic::Bytes) {
        return Ok(sums);
    }
    let scales = WeightScales::new(weights.data_type, weights.quantization.as_ref(), layout.axis, Some(outputs));
    let of = |fact: &'_ Fact| (fact.data_type, fact.quantization.clone());
    let ((from, input), (to, stored)) = (of(image), of(output));
    let (from, to) = ((from, input.as_ref()), (to, stored.as_ref()));
    let requantization =
        RequantizationParameters::of_types(from, scales.map_err(refuse)?, to, Activation::None).map_err(refuse)?;
    let factors = requantization.factors(ScalePrecision::of(image.data_type));
    let units: Vec<f32> = factors.iter().map(|factor| 2f32.powi(factor.exponent.min(0))).collect();
    let scale = Expression::Constant(requantization.output.scale);
    let steps = Expression::Input(0).multiply(Expression::Constant(requantization.output.scale.recip()));
    let shape = lowering.shape(sums).clone();
    let rounded = |inverse: Expression, unit: Expression| {
        let fraction = steps.clone().multiply(inverse).unary(UnaryOp::Round).multiply(unit);
        AffineParameters::away_from_zero(fraction).multiply(scale.clone())
    };
    if units.iter().all(|unit| *unit == units[0]) {
        let expression = rounded(Expression::Constant(units[0].recip()), Expression::Constant(units[0]));
        return lowering.map(expression, &shape, &[sums]);
    }
    let inverses: Vec<f32> = units.iter().map(|unit| unit.recip()).collect();
    let inverses = lowering.precise_constant(Constant::from_values([outputs], &inverses))?;
    let units = lowering.precise_constant(Constant::from_values([outputs], &units))?;
    lowering.map(rounded(Expression::Input(1), Expression::Input(2)), &shape, &[sums, inverses, units])
}
