//! Which 8-bit nodes LiteRT's default interpreter gives to XNNPACK, and the numbers that XNNPACK computes them with, for
//! [`IntegerRounding::XnnPack`].
//!
//! XNNPACK converts a sum of products to `f32`, multiplies it by one scale and rounds to the nearest number, ties to even.
//! It adds two tensors with integer factors and one rounding shift. Limits of fused activations are rounded after the zero
//! point is added. Sources: the checks of LiteRT's delegate for XNNPACK, and experiments with LiteRT's default
//! interpreter, which fails where XNNPACK refuses a node after these checks. Such nodes count as not taken here.

use attache_base::{Activation, DataType, IntegerRounding, Quantization};
use attache_graph::{Eval, TensorMut, TensorRef};
use attache_kernels::quantized::Requantize;
use attache_kernels::quantized::elementwise::{IntegerFunction, ScaledProduct, WeightedSum};

use super::quantized::{QuantizationParameters, range};

/// Most axes of a tensor.
const MOST_AXES: usize = 6;
/// The scale of sums of products, relative to the output's, has to be less.
const LARGEST_SCALE: f32 = 256.0;
/// The least scale of an operand of a sum, relative to the output's.
const LEAST_OF_SUM: f32 = 1.0 / 1024.0;
/// The least scale of a product of two tensors, relative to the output's.
const LEAST_OF_PRODUCT: f32 = 1.0 / 65536.0;
/// The number of bits of the larger factor of a sum, after the first.
const FACTOR_BITS: i32 = 20;

/// Whether results are to be rounded as XNNPACK does.
#[inline]
pub(crate) fn is_asked(eval: &Eval<'_>) -> bool {
    !cfg!(attache_small) && eval.host.rounding() == IntegerRounding::XnnPack
}

/// Returns the epilogue of a convolution or matrix product of `outputs` output channels. `weights` are filter and bias,
/// with one scale or one for each output channel; `output` is the type and the quantization. `None` if XNNPACK does not
/// take the node.
pub(crate) fn requantize(
    input: &TensorRef<'_>,
    weights: (&TensorRef<'_>, Option<TensorRef<'_>>),
    output: (DataType, Option<&Quantization>),
    (activation, outputs): (Activation, usize),
) -> Option<Requantize> {
    let (filter, bias) = weights;
    let (from, to) = (taken(input.data_type, input.quantization)?, taken(output.0, output.1)?);
    let has_type = filter.data_type == input.data_type || is_matrix_of_nibbles(input, filter);
    if output.0 != input.data_type || !has_type || !is_filter(filter) || !bias.as_ref().is_none_or(is_bias) {
        return None;
    }
    let scale = |weight: &f32| from.scale * weight / to.scale;
    let scales: Vec<f32> = filter.quantization?.scale.iter().map(scale).collect();
    let bounds = bounds(activation, output.0, to)?;
    let are_taken = scales.iter().all(|scale| *scale < LARGEST_SCALE);
    are_taken.then(|| Requantize::in_floats(&scales, outputs, to.zero_point, bounds))
}

/// Returns the sum of two tensors as XNNPACK computes it; `None` if XNNPACK does not take the node.
pub(crate) fn sum(inputs: [&TensorRef<'_>; 2], output: &TensorMut<'_>, by: Activation) -> Option<IntegerFunction> {
    let ([left, right], to) = operands(inputs, output)?;
    let scales = [left, right].map(|operand| operand.scale / to.scale);
    let are_taken = scales.iter().all(|scale| (LEAST_OF_SUM..LARGEST_SCALE).contains(scale));
    let bounds = bounds(by, output.data_type, to).filter(|_| are_taken)?;
    // The exponent of the larger scale: scales are normal numbers from 2^-10 on.
    let exponent = (scales[0].max(scales[1]).to_bits() >> 23) as i32 - 127;
    let shift = FACTOR_BITS - exponent;
    let factors = scales.map(|scale| (scale * 2f32.powi(shift)).round_ties_even() as i32);
    let bias = (1 << (shift - 1)) - factors[0] * left.zero_point - factors[1] * right.zero_point;
    let shift = shift.unsigned_abs();
    Some(IntegerFunction::WeightedSum(WeightedSum { factors, bias, shift, zero_point: to.zero_point, bounds }))
}

/// Returns the product of two tensors as XNNPACK computes it; `None` if XNNPACK does not take the node.
pub(crate) fn product(inputs: [&TensorRef<'_>; 2], output: &TensorMut<'_>, by: Activation) -> Option<IntegerFunction> {
    let ([left, right], to) = operands(inputs, output)?;
    let scale = left.scale * right.scale / to.scale;
    let is_taken = (LEAST_OF_PRODUCT..LARGEST_SCALE).contains(&scale);
    let bounds = bounds(by, output.data_type, to).filter(|_| is_taken)?;
    let (zero_points, zero_point) = ([left.zero_point, right.zero_point], to.zero_point);
    Some(IntegerFunction::ScaledProduct(ScaledProduct { zero_points, scale, zero_point, bounds }))
}

/// Returns the quantization parameters of both inputs and of the output of a function of two tensors; `None` if XNNPACK
/// takes no function of them.
fn operands(
    inputs: [&TensorRef<'_>; 2],
    output: &TensorMut<'_>,
) -> Option<([QuantizationParameters; 2], QuantizationParameters)> {
    let is_shape = |tensor: &&TensorRef<'_>| tensor.shape.len() <= MOST_AXES && tensor.shape.elements() > 0;
    let have_type = inputs.iter().all(|input| input.data_type == output.data_type);
    if !have_type || !inputs.iter().all(is_shape) {
        return None;
    }
    let [left, right] = inputs.map(|input| taken(input.data_type, input.quantization));
    Some(([left?, right?], taken(output.data_type, output.quantization)?))
}

/// Returns the quantization parameters of activations; `None` if XNNPACK does not take the tensor. A single scale has to be
/// stated along the first axis.
fn taken(data_type: DataType, quantization: Option<&Quantization>) -> Option<QuantizationParameters> {
    if !matches!(data_type, DataType::Int8 | DataType::UInt8) {
        return None;
    }
    let quantization = quantization.filter(|quantization| quantization.axis == 0)?;
    let affine = QuantizationParameters::new(data_type, Some(quantization)).ok()?;
    affine.scale.is_normal().then_some(affine)
}

/// Whether these are 4-bit weights of a matrix product, of rows that fill whole bytes.
fn is_matrix_of_nibbles(input: &TensorRef<'_>, filter: &TensorRef<'_>) -> bool {
    let fills_bytes = matches!(filter.shape[..], [_, depth] if depth % 2 == 0);
    (input.data_type, filter.data_type) == (DataType::Int8, DataType::Int4) && fills_bytes
}

/// Whether these are constant weights with scales that XNNPACK takes. Their type and axis are known to be right.
fn is_filter(filter: &TensorRef<'_>) -> bool {
    let are_normal = |quantization: &Quantization| quantization.scale.iter().all(|scale| scale.is_normal());
    let has_axis = |quantization: &Quantization| filter.data_type != DataType::UInt8 || quantization.axis == 0;
    filter.is_constant && filter.quantization.is_some_and(|one| are_normal(one) && has_axis(one))
}

/// Whether this is a constant bias that states scales along its only axis, with the zero point 0.
fn is_bias(bias: &TensorRef<'_>) -> bool {
    let is_symmetric = |quantization: &Quantization| quantization.zero_point.iter().all(|point| *point == 0);
    let has_scales = |quantization: &Quantization| quantization.scale.iter().all(|scale| scale.is_normal());
    let is_taken = |one: &Quantization| one.axis == 0 && !one.scale.is_empty() && has_scales(one) && is_symmetric(one);
    bias.is_constant && bias.data_type == DataType::Int32 && bias.quantization.is_some_and(is_taken)
}

/// Returns the smallest and the largest element that a fused activation permits; `None` if XNNPACK does not take it.
fn bounds(activation: Activation, data_type: DataType, to: QuantizationParameters) -> Option<(i32, i32)> {
    let (least, most) = range(data_type).ok()?;
    let stored = |real: f32| {
        let nearest = (real / to.scale + to.zero_point as f32).round_ties_even();
        nearest.clamp(least as f32, most as f32) as i32
    };
    match activation {
        Activation::None => Some((least, most)),
        Activation::Relu => Some((stored(0.0), most)),
        Activation::Relu6 => Some((stored(0.0), stored(6.0))),
        Activation::ReluN1To1 => Some((stored(-1.0), stored(1.0))),
        Activation::Tanh | Activation::SignBit => None,
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Shape;

    use super::*;

    fn affine(scale: f32, zero_point: i64) -> Quantization {
        Quantization { scale: vec![scale], zero_point: vec![zero_point], axis: 0 }
    }

    fn tensor<'a>(shape: &'a Shape, quantization: &'a Quantization, is_constant: bool) -> TensorRef<'a> {
        TensorRef { data_type: DataType::Int8, shape, bytes: &[], quantization: Some(quantization), is_constant }
    }

    /// Returns whether XNNPACK takes the sum and the product of tensors with these scales.
    fn pair(shape: &[usize], scales: [f32; 3], activation: Activation) -> [bool; 2] {
        let (shape, quantizations) = (Shape::from(shape), scales.map(|scale| affine(scale, 3)));
        let [left, right] = [0, 1].map(|index| tensor(&shape, &quantizations[index], false));
        let quantization = Some(&quantizations[2]);
        let output = TensorMut { data_type: DataType::Int8, shape: &shape, bytes: &mut [], quantization };
        [sum, product].map(|function| function([&left, &right], &output, activation).is_some())
    }

    #[test]
    fn scales_of_two_tensors_have_limits() {
        let takes = |scales| pair(&[2, 3], scales, Activation::None);
        assert_eq!(takes([0.5, 0.25, 0.5]), [true, true]);
        assert_eq!(takes([1.0, 1.0 / 1024.0, 1.0]), [true, true]);
        assert_eq!(takes([1.0, 1.0 / 1025.0, 1.0]), [false, true]);
        assert_eq!(takes([1.0, 1.0 / 65536.0, 1.0]), [false, true]);
        assert_eq!(takes([1.0, 1.0 / 65537.0, 1.0]), [false, false]);
        assert_eq!(takes([255.0, 1.0, 1.0]), [true, true]);
        assert_eq!(takes([256.0, 1.0, 1.0]), [false, false]);
        assert_eq!(pair(&[1; 6], [1.0; 3], Activation::Relu6), [true, true]);
        assert_eq!(pair(&[1; 7], [1.0; 3], Activation::None), [false, false]);
        assert_eq!(pair(&[0, 2], [1.0; 3], Activation::None), [false, false]);
        assert_eq!(pair(&[1], [1.0; 3], Activation::Tanh), [false, false]);
    }

    #[test]
    fn limits_of_activations_are_rounded_after_the_zero_point_is_added() {
        let limits = |zero_point| {
            let to = QuantizationParameters { scale: 1.0 / 2.5, zero_point };
            bounds(Activation::ReluN1To1, DataType::Int8, to)
        };
        // As LiteRT gives them: ±2.5 beside an odd and an even zero point.
        assert_eq!([limits(3), limits(4)], [Some((0, 6)), Some((2, 6))]);
    }

    #[test]
    fn weights_are_constants_with_scales() {
        let (image, shape, one) = (Shape::from([1, 1, 1, 2]), Shape::from([2, 1, 1, 2]), affine(0.5, 0));
        let (bias_shape, large, shifted) = (Shape::from([2]), affine(512.0, 0), affine(0.5, 1));
        let takes = |filter: TensorRef<'_>, bias: Option<TensorRef<'_>>| {
            let (input, output) = (tensor(&image, &one, false), (DataType::Int8, Some(&one)));
            requantize(&input, (&filter, bias), output, (Activation::None, 2)).is_some()
        };
        let filter = tensor(&shape, &one, true);
        let bias = TensorRef { data_type: DataType::Int32, ..tensor(&bias_shape, &one, true) };
        assert!(takes(filter, Some(bias)) && takes(filter, None));
        assert!(!takes(TensorRef { is_constant: false, ..filter }, Some(bias)));
        assert!(!takes(tensor(&shape, &large, true), Some(bias)));
        assert!(!takes(TensorRef { data_type: DataType::Int4, ..filter }, Some(bias)));
        let (even, odd) = (Shape::from([2, 4]), Shape::from([2, 5]));
        assert!(takes(TensorRef { data_type: DataType::Int4, ..tensor(&even, &one, true) }, Some(bias)));
        assert!(!takes(TensorRef { data_type: DataType::Int4, ..tensor(&odd, &one, true) }, Some(bias)));
        assert!(!takes(filter, Some(TensorRef { is_constant: false, ..bias })));
        assert!(!takes(filter, Some(TensorRef { quantization: None, ..bias })));
        assert!(!takes(filter, Some(TensorRef { quantization: Some(&shifted), ..bias })));
    }
}
