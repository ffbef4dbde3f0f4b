//! Lowering of convolutions of 16-bit activations and 8-bit weights in the CPU's integer arithmetic. The CPU
//! uses 64-bit sums, a device has 32-bit ones. The sums are bounded by the constant weights: where the bound
//! fits 32 bits whatever the activations are, both give the same results; other convolutions are not lowered.

use attache_base::Activation;
use attache_gpu_ir::{IntExpression, IntRounding, ValueId};
use attache_graph::{Fact, Lowering, Unsupported};
use attache_kernels::convolution::Convolution;
use attache_kernels::quantized::{Int16x8Epilogue, Int16x8Rounding, Multiplier};

use super::primitive::contract;
use super::{OperandLayout, RequantizationParameters, ScalePrecision, WeightScales, int16x8_rounding};
use crate::shared::exact::{integers, known_integers};
use crate::shared::quantized::SUMS_OF_64_BITS;
use crate::shared::support::refuse;

/// Returns the requantization of a node with these weights, whose activations are input `index`, to its
/// output 0.
pub(crate) fn int16x8_parameters<'a>(
    lowering: &Lowering<'a>,
    index: usize,
    weights: WeightScales<'a>,
    activation: Activation,
) -> Result<RequantizationParameters<'a>, Unsupported> {
    let of = |fact: &'a Fact| (fact.data_type, fact.quantization.as_ref());
    let (input, output) = (lowering.input_fact(index)?, lowering.output_fact(0)?);
    RequantizationParameters::of_types(of(input), weights, of(output), activation).map_err(refuse)
}

/// Emits a convolution of 16-bit elements, including requantization and activation, and returns its result.
pub(crate) fn lower_int16x8<'a>(
    lowering: &mut Lowering<'a>,
    convolution: &Convolution,
    layout: &OperandLayout,
    activation: Activation,
) -> Result<ValueId, Unsupported> {
    let weights = lowering.input_fact(layout.operands[1])?;
    let outputs = Some(convolution.output[2]);
    let scales = WeightScales::new(weights.data_type, weights.quantization.as_ref(), layout.axis, outputs);
    let scales = scales.map_err(refuse)?.as_stored(weights.data_type);
    let requantization = int16x8_parameters(lowering, layout.operands[0], scales, activation)?;
    let bias = layout.operands[2];
    let bias = if lowering.has_input(bias) { Some(lowering.input_fact(bias)?.data_type) } else { None };
    let rounding = int16x8_rounding(bias);
    let epilogue = requantization.int16x8(rounding, ScalePrecision::Double).map_err(refuse)?;
    let sums = int16x8_sums(lowering, convolution, layout, 0)?;
    finish_int16x8(lowering, sums, &epilogue)
}

/// Emits the 32-bit sums of a convolution of 16-bit elements, including the bias, and returns them.
/// `zero_point` is the weights' zero point. Fails where weights or bias are not constant, or where a sum may
/// not fit 32 bits.
pub(crate) fn int16x8_sums(
    lowering: &mut Lowering<'_>,
    convolution: &Convolution,
    layout: &OperandLayout,
    zero_point: i32,
) -> Result<ValueId, Unsupported> {
    let [data, filter, bias] = layout.operands;
    let [height, width, channels] = convolution.input;
    let (outputs, [rows, columns]) = (convolution.output[2], convolution.kernel);
    let shape = [outputs, rows, columns, channels / convolution.groups.max(1)];
    let weights = known_integers(lowering.input_fact(filter)?)
        .ok_or_else(|| Unsupported::new(format!("weights that only a run tells, and {SUMS_OF_64_BITS}")))?;
    let taps = weights.len() / outputs.max(1);
    // The weights of a depthwise convolution are stored as `[tap, output]`.
    let place = |to: usize| if layout.is_depthwise { to % taps * outputs + to / taps } else { to };
    let weights: Vec<i32> = (0..weights.len()).map(|to| weights[place(to)].wrapping_sub(zero_point)).collect();
    let bias = known_bias(lowering, bias)?.unwrap_or_else(|| vec![0; outputs]);
    let bias = fitting_bias(&weights, &bias).ok_or_else(|| Unsupported::new(SUMS_OF_64_BITS))?;
    let input = lowering.input(data)?;
    let operands = [
        lowering.reshape(input, &[convolution.batches, height, width, channels].into())?,
        integers(lowering, shape, &weights)?,
        integers(lowering, [outputs], &bias)?,
    ];
    contract(lowering, convolution, layout.transposed, &operands, [0; 2])
}

/// Returns the elements of the bias, input `index`; `None` where there is none. Fails where it is not
/// constant.
fn known_bias(lowering: &Lowering<'_>, index: usize) -> Result<Option<Vec<i64>>, Unsupported> {
    if !lowering.has_input(index) {
        return Ok(None);
    }
    let known = lowering.input_fact(index)?.constant.as_ref().and_then(|constant| constant.integers());
    known.map(Some).ok_or_else(|| Unsupported::new(format!("a bias that only a run tells, and {SUMS_OF_64_BITS}")))
}

/// Returns the bias in 32 bits; `None` unless every sum with these weights, `[outputs, depth]`, fits 32 bits
/// for all 16-bit activations.
fn fitting_bias(weights: &[i32], bias: &[i64]) -> Option<Vec<i32>> {
    let rows = weights.chunks((weights.len() / bias.len().max(1)).max(1));
    let fits = |(row, bias): (&[i32], &i64)| {
        let largest: u64 = row.iter().map(|weight| u64::from(weight.unsigned_abs()) << 15).sum();
        (largest.saturating_add(bias.unsigned_abs()) <= i32::MAX as u64).then_some(*bias as i32)
    };
    rows.zip(bias).map(fits).collect()
}

/// Emits the requantization of sums to 16-bit elements and returns the result. The last axis of the sums is
/// that of the output channels.
pub(crate) fn finish_int16x8(
    lowering: &mut Lowering<'_>,
    sums: ValueId,
    epilogue: &Int16x8Epilogue,
) -> Result<ValueId, Unsupported> {
    let factors: Option<Vec<Multiplier>> =
        epilogue.factors.iter().map(|factor| rounded(*factor, epilogue.rounding)).collect();
    let factors = factors.ok_or_else(|| Unsupported::new("a factor that a device has no digits for"))?;
    let mantissas: Vec<i32> = factors.iter().map(|factor| factor.mantissa).collect();
    let exponents: Vec<i32> = factors.iter().map(|factor| factor.exponent).collect();
    let operands =
        [sums, integers(lowering, [factors.len()], &mantissas)?, integers(lowering, [factors.len()], &exponents)?];
    let rounding = if epilogue.rounding == Int16x8Rounding::Twice { IntRounding::Twice } else { IntRounding::Once };
    let scaled = IntExpression::Input(0).rescale(rounding, IntExpression::Input(1), IntExpression::Input(2));
    let shape = lowering.shape(sums).clone();
    lowering.int_map(scaled.plus(epilogue.zero_point).clamp(epilogue.bounds), &shape, &operands)
}

/// Returns the factor with its mantissa rounded to the bits that the rounding mode uses; `None` where a
/// product would have to be shifted left.
fn rounded(factor: Multiplier, rounding: Int16x8Rounding) -> Option<Multiplier> {
    match rounding {
        Int16x8Rounding::Full | Int16x8Rounding::Twice => Some(factor),
        Int16x8Rounding::Short if factor.exponent >= 15 => None,
        Int16x8Rounding::Short => {
            let mantissa = factor.mantissa.saturating_add(1 << 15) >> 16 << 16;
            Some(Multiplier { mantissa, ..factor })
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_kernels::quantized::fixed_point::multiply_int16x8;

    use super::*;

    #[test]
    fn sums_fit_or_they_do_not() {
        assert_eq!(fitting_bias(&[-128; 511], &[0]), Some(vec![0]));
        assert_eq!(fitting_bias(&[-128; 511], &[1 << 30]), None);
        assert_eq!(fitting_bias(&[-128; 512], &[0]), None);
        assert_eq!(fitting_bias(&[1, -1, 2, 2], &[-7, 5]), Some(vec![-7, 5]));
        assert_eq!(fitting_bias(&[1, 1], &[0, i64::MIN]), None);
    }

    #[test]
    fn short_factors_are_the_cpus() {
        for mantissa in [1 << 30, 0x4000_7fff, 0x4000_8000, 0x7ffe_ffff, 0x7fff_0000, i32::MAX, 0] {
            for (exponent, x) in [(-20, 1 << 30), (0, -12_345), (3, 7), (14, 1), (-31, i32::MIN)] {
                let factor = Multiplier { mantissa, exponent };
                let Multiplier { mantissa, exponent } = rounded(factor, Int16x8Rounding::Short).unwrap();
                let (mantissa, exponent) = (IntExpression::Constant(mantissa), IntExpression::Constant(exponent));
                let made = IntExpression::Input(0).rescale(IntRounding::Once, mantissa, exponent).evaluate(&[x]);
                assert_eq!(made, multiply_int16x8(x.into(), factor), "{x} × {factor:?}");
            }
        }
        assert!(rounded(Multiplier { mantissa: 1 << 30, exponent: 15 }, Int16x8Rounding::Short).is_none());
    }
}
