//! Shared by the operators that a device computes on quantized elements as stored integers
//! (`Quantized::Exact`): quantization parameters of facts, lookup tables, and fixed-point factors. Factors
//! and tables are computed by the CPU's code, so that results cannot differ.

pub(crate) mod functions;
pub(crate) mod normalization;

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{
    Expression, Gather, IntBinaryOp, IntExpression, IntRounding, Primitive, ReduceOp, Scalar, ValueId,
};
use attache_graph::{AffineParameters, Fact, Lowering, Unsupported};
use attache_kernels::quantized::elementwise::Finish;
use attache_kernels::quantized::fixed_point::divide_by_power;
use attache_kernels::quantized::softmax::SUM_BITS;
use attache_kernels::quantized::{Multiplier, Rounding};

use crate::shared::quantized::{QuantizationParameters, is_stored, range};
use crate::shared::support::refuse;

/// Whether the device computes input `index` on its quantized elements. With `Quantized::View` it computes on
/// floats instead, and this is false.
pub(crate) fn is_exact(lowering: &Lowering<'_>, index: usize) -> bool {
    lowering.input_fact(index).is_ok_and(|fact| is_stored(fact.data_type))
}

/// Returns the scale and zero point of a tensor that must have one of each.
pub(crate) fn affine(fact: &Fact) -> Result<QuantizationParameters, Unsupported> {
    QuantizationParameters::new(fact.data_type, fact.quantization.as_ref()).map_err(refuse)
}

/// Returns the quantization parameters and the range of a quantized tensor, for expressions that convert
/// between its elements and floats.
pub(crate) fn grid(fact: &Fact) -> Result<AffineParameters, Unsupported> {
    let (QuantizationParameters { scale, zero_point }, (least, most)) =
        (affine(fact)?, range(fact.data_type).map_err(refuse)?);
    Ok(AffineParameters { scale, zero_point: zero_point as f32, stored: (least as f32, most as f32) })
}

/// Emits a constant tensor of 32-bit integers and returns it.
pub(crate) fn integers(
    lowering: &mut Lowering<'_>,
    shape: impl Into<Shape>,
    values: &[i32],
) -> Result<ValueId, Unsupported> {
    lowering.constant(Constant::from_values(shape, values))
}

/// Returns the elements of a constant tensor of integers; `None` where the tensor isn't constant or an
/// element doesn't fit 32 bits.
pub(crate) fn known_integers(fact: &Fact) -> Option<Vec<i32>> {
    let values = fact.constant.as_ref()?.integers()?;
    values.into_iter().map(|value| i32::try_from(value).ok()).collect()
}

/// Returns the expression `x × factor`, rounded as the CPU does with this rounding mode.
pub(crate) fn rescaled(x: IntExpression, factor: Multiplier, rounding: Rounding) -> IntExpression {
    x.rescale(
        int_rounding(rounding),
        IntExpression::Constant(factor.mantissa),
        IntExpression::Constant(factor.exponent),
    )
}

/// Returns the rounding mode of the GPU primitives that equals one of the CPU kernels.
pub(crate) fn int_rounding(rounding: Rounding) -> IntRounding {
    match rounding {
        Rounding::Twice => IntRounding::Twice,
        Rounding::Once => IntRounding::Once,
    }
}

/// Returns the expression `x × factor + zero point`, clamped to bounds, for the factor, zero point and bounds
/// in `finish`.
pub(crate) fn finished(x: IntExpression, finish: Finish) -> IntExpression {
    rescaled(x, finish.factor, Rounding::Twice).plus(finish.zero_point).clamp(finish.bounds)
}

/// Emits a function of quantized elements as a table lookup and returns its result. The table has one entry
/// for each value of the type `from`; results are clamped to the range of the type `to`.
pub(crate) fn look_up(
    lowering: &mut Lowering<'_>,
    input: ValueId,
    [from, to]: [DataType; 2],
    function: impl Fn(i32) -> i32,
) -> Result<ValueId, Unsupported> {
    let ((least, most), (low, high)) = (range(from).map_err(refuse)?, range(to).map_err(refuse)?);
    let values: Vec<i32> = (least..=most).map(|x| function(x).clamp(low, high)).collect();
    let table = integers(lowering, [values.len()], &values)?;
    let shape = lowering.shape(input).clone();
    let index = lowering.int_map(IntExpression::Input(0).plus(-least), &shape, &[input])?;
    entries(lowering, table, index)
}

/// Emits the lookup of the table's entries at the indices `places` and returns them, in the shape of
/// `places`.
pub(crate) fn entries(lowering: &mut Lowering<'_>, table: ValueId, places: ValueId) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(places).clone();
    let places = lowering.reshape(places, &shape.iter().copied().chain([1]).collect())?;
    lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 0 }), &[table, places])
}

/// Emits the conversion of quantized elements to floats of the same integer value: f32 represents all 16-bit
/// integers exactly. Operators that only move or compare elements work on these floats and end with
/// [`as_stored`].
pub(crate) fn as_reals(lowering: &mut Lowering<'_>, input: ValueId) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(input).clone();
    lowering.map(Expression::Input(0), &shape, &[input])
}

/// Emits the conversion of integer-valued floats to quantized elements of the same value.
pub(crate) fn as_stored(lowering: &mut Lowering<'_>, reals: ValueId) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(reals).clone();
    lowering.emit(Primitive::Map { expression: Expression::Input(0), shape, scalar: Scalar::I32 }, &[reals])
}

/// Emits the differences between the maximum along an axis and the quantized elements, which are 0 or
/// positive, and returns them.
pub(crate) fn below_largest(lowering: &mut Lowering<'_>, input: ValueId, axis: usize) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(input).clone();
    let reals = as_reals(lowering, input)?;
    let largest = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Maximum, axes: vec![axis] }, &[reals])?;
    let largest = as_stored(lowering, largest)?;
    let below = IntExpression::Input(1).subtract(IntExpression::Input(0));
    lowering.int_map(below, &shape, &[input, largest])
}

/// Emits two steps of a softmax over 8-bit elements and returns both: the differences between each row's
/// maximum and its elements, and the rows' sums of exponentials. The sums are fixed-point with [`SUM_BITS`]
/// integer bits, like the CPU's, and at least 1 as integers. `exponentials` is the table of exponentials by
/// difference, which are 0 beyond its end. Rows are along `axis`.
pub(crate) fn sum_of_exponentials(
    lowering: &mut Lowering<'_>,
    input: ValueId,
    axis: usize,
    exponentials: &[i32],
) -> Result<[ValueId; 2], Unsupported> {
    let below = below_largest(lowering, input, axis)?;
    let mut parts: Vec<i32> = exponentials.iter().map(|x| divide_by_power(*x, SUM_BITS as u32)).collect();
    parts.resize(256, 0);
    let parts = integers(lowering, [256], &parts)?;
    let parts = entries(lowering, parts, below)?;
    let sums = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![axis] }, &[parts])?;
    let shape = lowering.shape(sums).clone();
    let at_least_one = IntExpression::Input(0).binary(IntBinaryOp::Maximum, IntExpression::Constant(1));
    Ok([below, lowering.int_map(at_least_one, &shape, &[sums])?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_multiply_as_the_cpu_does() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        let edges = [i32::MIN, i32::MIN + 1, -1, 0, 1, 1 << 30, i32::MAX];
        for round in 0..200_000 {
            let x = edges.get(round % 16).copied().unwrap_or((random() as i32) >> (random() % 31));
            let real = f64::from(random()) * 2f64.powi((random() % 62) as i32 - 63);
            let factor = Multiplier::new(if random() % 2 == 0 { real } else { -real });
            for rounding in [Rounding::Once, Rounding::Twice] {
                let made = rescaled(IntExpression::Input(0), factor, rounding).evaluate(&[x]);
                assert_eq!(made, factor.apply(x, rounding), "{x} × {factor:?}, {rounding:?}");
            }
        }
    }
}
