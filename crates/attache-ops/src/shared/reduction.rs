//! Shared by the reduction operators: the axes that an input names, the output's shape, sums and means of
//! quantized elements, and lowering. Independent of the operators.
//!
//! Sums of INT8 and INT16 are rescaled to the output's scale in float32. Their results equal those of
//! TensorFlow Lite's optimized kernels bit by bit, as long as the sums there do not overflow. The reference
//! kernels are not followed here, because they (LiteRT 2.3.0) read the signed elements as unsigned. Sums of
//! UINT8, and all means, equal the results of the reference kernels bit by bit and are rescaled in fixed
//! point.

use std::ops::Add;

use attache_base::{DataType, Shape};
use attache_gpu_ir::{IntBinaryOp, IntExpression, Primitive, ReduceOp, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};

use attache_kernels::quantized::{Multiplier, Rounding, Stored};
use attache_kernels::{Engine, reduce};

use crate::shared::exact::{affine, as_reals, as_stored, entries, integers, rescaled};
use crate::shared::integers::wrapped;
use crate::shared::quantized::{
    QuantizationParameters, SUMS_OF_64_BITS, is_stored, range, require_symmetric, with_stored,
};
use crate::shared::support::{axis_of, countable, elements, elements_mut, refuse};
use crate::{Declaration, Facts};

/// A reduction over the axes that the second input names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding {
    /// Whether a reduced axis is kept with extent 1 rather than removed.
    pub(crate) keep_dims: bool,
}

/// Returns for each axis of a shape whether it is reduced. An axis that is named twice counts once; an error
/// where there is no such axis.
fn folded(shape: &Shape, axes: &[i64]) -> Result<Vec<bool>, OpError> {
    let mut folded = vec![false; shape.rank()];
    for axis in axes {
        folded[axis_of(shape, *axis)?] = true;
    }
    Ok(folded)
}

/// Computes output 0, the sum or the mean of quantized elements at the output's scale, on the CPU. `folded`
/// says for each axis of input 0 whether it is reduced. Results out of the output type's range saturate.
pub(crate) fn rescaled_sum(eval: &mut Eval<'_>, folded: &[bool], is_mean: bool) -> Result<(), OpError> {
    let (input, output) = (eval.input(0)?, &eval.outputs[0]);
    let from = QuantizationParameters::new(input.data_type, input.quantization)?;
    let to = QuantizationParameters::new(output.data_type, output.quantization)?;
    let count = input.shape.elements() / output.shape.elements().max(1);
    let sum = StoredSum::new(input.data_type, [from, to], count, is_mean);
    with_stored!(input.data_type, T => match sum.fits_32_bits(range(input.data_type)?) {
        true if cfg!(attache_small) => sum.fold::<T, i32>(eval, folded),
        true => sum.add::<T>(eval, folded),
        false => sum.fold::<T, i64>(eval, folded),
    })
}

/// How the sum of `count` quantized elements is rescaled to the sum or mean at the output's scale.
struct StoredSum {
    from: QuantizationParameters,
    to: QuantizationParameters,
    count: usize,
    factor: Multiplier,
    /// Whether the rescaling is done in float32 rather than in fixed point.
    is_float: bool,
}

impl StoredSum {
    /// Returns the rescaling of sums of `count` elements of this type from the input's scale to the output's;
    /// `is_mean` also divides them by `count`.
    fn new(data_type: DataType, [from, to]: [QuantizationParameters; 2], count: usize, is_mean: bool) -> Self {
        let factor = Multiplier::new(f64::from(from.scale) / f64::from(to.scale));
        let factor = if is_mean { divided(factor, count as i64) } else { factor };
        // The mean of no elements is stored as 0, whatever that stands for.
        let to = if is_mean && count == 0 { QuantizationParameters { zero_point: 0, ..to } } else { to };
        Self { from, to, count, factor, is_float: !is_mean && data_type != DataType::UInt8 }
    }

    /// Returns the quantized result for a sum of elements, before it saturates to the output type.
    fn stored(&self, sum: i64) -> i32 {
        let rescaled = if self.is_float {
            let scale = self.from.scale / self.to.scale;
            let bias = -(self.from.zero_point as f32) * scale * self.count as f32;
            (sum as f32 * scale + bias).round() as i32
        } else {
            multiplied(sum.wrapping_sub(self.offset()), self.factor)
        };
        rescaled.saturating_add(self.to.zero_point)
    }

    /// Returns, for each value of the output type except the smallest, the smallest 32-bit sum whose result
    /// is that value or a larger one. The arguments are the type's bounds.
    fn thresholds(&self, (least, most): (i32, i32)) -> Vec<i32> {
        let threshold = |stored: i32| {
            let (mut below, mut above) = (i64::from(i32::MIN), i64::from(i32::MAX));
            while below < above {
                let middle = (below + above).div_euclid(2);
                match self.stored(middle) >= stored {
                    true => above = middle,
                    false => below = middle + 1,
                }
            }
            above as i32
        };
        (least + 1..=most).map(threshold).collect()
    }

    /// Returns an expression of the result for a 32-bit sum in fixed-point arithmetic. It can differ from
    /// [`stored`](Self::stored) where the rescaling is done in float32.
    fn guess(&self, bounds: (i32, i32)) -> IntExpression {
        let zero = self.to.zero_point;
        let less = IntExpression::Input(0).plus((self.offset() as i32).wrapping_neg());
        // Clamp before the zero point is added, so that the addition cannot wrap.
        rescaled(less, self.factor, Rounding::Twice).clamp((bounds.0 - zero, bounds.1 - zero)).plus(zero)
    }

    /// Whether `guess` is never wrong by more than one. Guess and exact result both increase with the sum, so
    /// it is enough to check the sums at which the exact result changes.
    fn is_near(&self, guess: &IntExpression, thresholds: &[i32], (least, most): (i32, i32)) -> bool {
        let count = i32::try_from(self.count).unwrap_or(i32::MAX);
        let (first, last) = (count.saturating_mul(least), count.saturating_mul(most));
        let is_near = |sum: i32| {
            let stored = self.stored(sum.into()).clamp(least, most);
            guess.evaluate(&[sum]).abs_diff(stored) <= 1
        };
        let steps = thresholds.iter().filter(|sum| (first + 1..=last).contains(*sum));
        steps.flat_map(|sum| [sum - 1, *sum]).chain([first, last]).all(is_near)
    }

    /// Emits the quantized results for the value `sums` and returns them: the guess, corrected by the
    /// thresholds on either side where it may be wrong by one.
    fn emit(&self, lowering: &mut Lowering<'_>, sums: ValueId, bounds: (i32, i32)) -> Result<ValueId, Unsupported> {
        let (shape, guess) = (lowering.shape(sums).clone(), self.guess(bounds));
        let guessed = lowering.int_map(guess.clone(), &shape, &[sums])?;
        if !self.is_float {
            return Ok(guessed);
        }
        let thresholds = self.thresholds(bounds);
        if !self.is_near(&guess, &thresholds, bounds) {
            return Err(Unsupported::new("its sums lose digits in 32-bit floats"));
        }
        let around = [&[i32::MIN][..], &thresholds, &[i32::MAX]].concat();
        let table = integers(lowering, [around.len()], &around)?;
        let mut bound = |next: i32| {
            let place = lowering.int_map(IntExpression::Input(0).plus(next - bounds.0), &shape, &[guessed])?;
            entries(lowering, table, place)
        };
        let (low, high) = (bound(0)?, bound(1)?);
        let is_lower = IntExpression::Input(1).binary(IntBinaryOp::Less, IntExpression::Input(2));
        let is_higher = IntExpression::Input(1).binary(IntBinaryOp::Less, IntExpression::Input(3));
        let right = IntExpression::Input(0).plus(1).subtract(is_lower).subtract(is_higher).clamp(bounds);
        lowering.int_map(right, &shape, &[guessed, sums, low, high])
    }

    /// Returns the sum of `count` zero points of the input.
    fn offset(&self) -> i64 {
        (self.count as i64).wrapping_mul(self.from.zero_point.into())
    }

    /// Whether sums of `count` elements in this range, shifted left by the factor's exponent, always fit 32
    /// bits.
    fn fits_32_bits(&self, (least, most): (i32, i32)) -> bool {
        let zero = self.from.zero_point;
        let largest = [least - zero, most - zero, least, most].map(i32::unsigned_abs).into_iter().max().unwrap_or(0);
        let shifted = u64::from(largest) << self.factor.exponent.max(0);
        (self.count as u64).checked_mul(shifted).is_some_and(|sum| sum <= i32::MAX as u64)
    }

    /// Computes output 0 with sums of 32 bits, if [`fits_32_bits`](Self::fits_32_bits).
    fn add<T: Stored>(&self, eval: &mut Eval<'_>, folded: &[bool]) -> Result<(), OpError> {
        let (input, engine, output) = (eval.input(0)?, Engine::new(eval.parallel), &mut eval.outputs[0]);
        let mut sums = vec![0; output.shape.elements()];
        T::sums(engine, elements::<T>(input.bytes)?, input.shape, folded, &mut sums);
        let (offset, zero_point) = (self.offset() as i32, self.to.zero_point);
        // As `stored` does, without its 128 bits.
        let stored = |sum: i32| match self.is_float {
            true => self.stored(sum.into()),
            false => self.factor.apply(sum.wrapping_sub(offset), Rounding::Twice).saturating_add(zero_point),
        };
        for (value, sum) in elements_mut::<T>(output.bytes)?.iter_mut().zip(sums) {
            *value = T::saturate(stored(sum));
        }
        Ok(())
    }

    /// Computes output 0 with accumulators of type `A`, which must be able to represent every sum.
    fn fold<T: Stored, A>(&self, eval: &mut Eval<'_>, folded: &[bool]) -> Result<(), OpError>
    where
        A: Copy + From<i32> + Into<i64> + Add<Output = A>,
    {
        let (input, output) = (eval.input(0)?, &mut eval.outputs[0]);
        let mut sums = vec![A::from(0); output.shape.elements()];
        let step = |sum: A, element: T| sum + A::from(element.into());
        reduce::fold(elements::<T>(input.bytes)?, input.shape, folded, &mut sums, A::from(0), step);
        for (value, sum) in elements_mut::<T>(output.bytes)?.iter_mut().zip(sums) {
            *value = T::saturate(self.stored(sum.into()));
        }
        Ok(())
    }
}

/// Returns a sum times a factor: rounded twice, like in the 32-bit kernels, where no step overflows; else
/// rounded once and saturated.
fn multiplied(sum: i64, factor: Multiplier) -> i32 {
    let shifted = i128::from(sum) << factor.exponent.max(0);
    if let (Ok(sum), Ok(_)) = (i32::try_from(sum), i32::try_from(shifted)) {
        return factor.apply(sum, Rounding::Twice);
    }
    let (product, shift) = (i128::from(sum) * i128::from(factor.mantissa), 31 - factor.exponent);
    let rounded = (product.abs() + (1 << (shift - 1))) >> shift;
    (rounded * product.signum()).clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// Returns a factor divided by a count, truncated. The mantissa is first shifted left by the binary logarithm
/// of the count, rounded down, as far as it fits.
fn divided(factor: Multiplier, count: i64) -> Multiplier {
    if count <= 0 {
        return factor;
    }
    let digits = (63 - count.leading_zeros() as i32).min(32).min(31 + factor.exponent);
    let mantissa = ((i64::from(factor.mantissa) << digits) / count) as i32;
    Multiplier { mantissa, exponent: factor.exponent - digits }
}

/// Returns the expression `(Input(0) × 2¹⁶ + Input(1)) / count`, rounded towards zero, for an `Input(1)` that is not
/// negative.
fn mean_of_halves(count: i32) -> IntExpression {
    let count = IntExpression::Constant(count);
    let quotient = |of: IntExpression| of.binary(IntBinaryOp::Divide, count.clone());
    let rest = |of: IntExpression| of.clone().subtract(quotient(of).multiply(count.clone()));
    let upper = IntExpression::Input(0);
    // Both are rounded down, so that the rest is not negative.
    let is_below = rest(upper.clone()).less(IntExpression::Constant(0));
    let whole = quotient(upper.clone()).subtract(is_below.clone());
    let left = rest(upper).add(is_below.multiply(count.clone()));
    let lower = left.shifted_left(16).add(IntExpression::Input(1));
    let floor = whole.shifted_left(16).add(quotient(lower.clone()));
    let is_above = floor.clone().less(IntExpression::Constant(0));
    let is_inexact = IntExpression::Constant(0).less(rest(lower));
    floor.add(is_above.multiply(is_inexact))
}

impl Folding {
    /// Parses the options of a reduction operator.
    pub(crate) fn parse(declaration: &Declaration<'_>) -> Result<Self, OpError> {
        let options = declaration.options.builtin_options_as_reducer_options();
        let options = options.ok_or_else(|| declaration.no_options())?;
        Ok(Self { keep_dims: options.keep_dims() })
    }

    /// Returns the output's shape for an input of this shape.
    fn output(self, shape: &Shape, folded: &[bool]) -> Shape {
        let axes = shape.iter().zip(folded).filter(|(_, folded)| self.keep_dims || !**folded);
        axes.map(|(extent, folded)| if *folded { 1 } else { *extent }).collect()
    }

    /// Returns the type and shape of the only output; the shape is unknown unless the input's shape is known
    /// and the axes are constant. An error where an axis does not exist or the input's quantization
    /// parameters are not implemented.
    pub(crate) fn infer(self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if let Some(quantization) = input.quantization.as_ref().filter(|_| is_stored(input.data_type)) {
            require_symmetric(input.data_type, QuantizationParameters::new(input.data_type, Some(quantization))?)?;
        }
        let (Some(shape), Some(axes)) = (&input.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let output = countable(self.output(shape, &folded(shape, &axes)?))?;
        Ok(vec![Inferred::new(input.data_type, output)])
    }

    /// Returns for each axis of input 0 whether it is reduced, from the value of input 1.
    pub(crate) fn axes(self, eval: &Eval<'_>) -> Result<Vec<bool>, OpError> {
        folded(eval.input(0)?.shape, &eval.input(1)?.integers()?)
    }

    /// Emits the sum or the mean of quantized elements at the output's scale, as output 0.
    pub(crate) fn lower_sum(self, lowering: &mut Lowering<'_>, is_mean: bool) -> Result<(), Unsupported> {
        let (from, to) = (lowering.input_fact(0)?, lowering.output_fact(0)?);
        let bounds = range(from.data_type).map_err(refuse)?;
        let count = lowering.input_shape(0)?.elements() / lowering.output_shape(0)?.elements().max(1);
        let sum = StoredSum::new(from.data_type, [affine(from)?, affine(to)?], count, is_mean);
        if !sum.fits_32_bits(bounds) {
            return Err(Unsupported::new(SUMS_OF_64_BITS));
        }
        let input = lowering.input(0)?;
        let sums = self.fold(lowering, ReduceOp::Sum, input)?;
        let output = sum.emit(lowering, sums, bounds)?;
        lowering.output(0, output)
    }

    /// Emits the maximum or minimum of quantized elements, whose scale does not change, as output 0.
    pub(crate) fn lower_extremum(self, lowering: &mut Lowering<'_>, reduction: ReduceOp) -> Result<(), Unsupported> {
        let input = lowering.input(0)?;
        let reals = as_reals(lowering, input)?;
        let folded = self.fold(lowering, reduction, reals)?;
        let output = as_stored(lowering, folded)?;
        lowering.output(0, output)
    }

    /// Emits the product of integers of fewer than 32 bits without a scale, wrapped to their type, as output 0.
    pub(crate) fn lower_integer_product(self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (data_type, shape) = (lowering.input_fact(0)?.data_type, lowering.output_shape(0)?.clone());
        let input = lowering.input(0)?;
        let product = self.fold(lowering, ReduceOp::Product, input)?;
        let output = lowering.int_map(wrapped(IntExpression::Input(0), data_type), &shape, &[product])?;
        lowering.output(0, output)
    }

    /// Emits the reduction of `input`, which has the shape of input 0, as output 0.
    pub(crate) fn lower(
        self,
        lowering: &mut Lowering<'_>,
        reduction: ReduceOp,
        input: ValueId,
    ) -> Result<(), Unsupported> {
        let output = self.fold(lowering, reduction, input)?;
        lowering.output(0, output)
    }

    /// Emits the mean of plain integers of 32 bits, rounded towards zero, as output 0.
    ///
    /// Sums of 32 bits would wrap, so the upper and the lower halves of the elements are summed apart. With
    /// `sum = upper × 2¹⁶ + lower`, the quotient and the rest of `upper / count` are those of the sum's upper part.
    pub(crate) fn lower_integer_mean(self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (shape, output) = (lowering.input_shape(0)?.clone(), lowering.output_shape(0)?.clone());
        let count = shape.elements() / output.elements().max(1);
        // Up to here, rest × 2¹⁶ + lower is below 2³¹.
        let count = i32::try_from(count).ok().filter(|count| *count <= 1 << 14);
        let count = count.ok_or_else(|| Unsupported::new("the mean of more than 16,384 integers of 32 bits"))?;
        let input = lowering.input(0)?;
        let mut sum = |part: IntExpression| {
            let part = lowering.int_map(part, &shape, &[input])?;
            self.fold(lowering, ReduceOp::Sum, part)
        };
        let upper = sum(IntExpression::Input(0).shifted_right(16))?;
        let lower = sum(IntExpression::Input(0).binary(IntBinaryOp::And, IntExpression::Constant(0xffff)))?;
        let mean = lowering.int_map(mean_of_halves(count), &output, &[upper, lower])?;
        lowering.output(0, mean)
    }

    /// Emits the reduction of `input` and returns the result in the shape of output 0.
    fn fold(self, lowering: &mut Lowering<'_>, reduction: ReduceOp, input: ValueId) -> Result<ValueId, Unsupported> {
        let folded = folded(lowering.input_shape(0)?, &lowering.integers(1)?).map_err(refuse)?;
        let axes: Vec<usize> = (0..folded.len()).filter(|axis| folded[*axis]).collect();
        let shape = lowering.output_shape(0)?.clone();
        let result = match axes.is_empty() {
            true => input,
            false => lowering.emit(Primitive::Reduce { reduction, axes }, &[input])?,
        };
        lowering.reshape(result, &shape)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_graph::Fact;

    use super::*;
    use crate::input;

    fn infer(folding: Folding, inputs: [&Fact; 2]) -> Result<Vec<Inferred>, OpError> {
        folding.infer(Facts::checked(&[input("input"), input("axes")], &inputs.map(Some))?)
    }

    fn output(keep_dims: bool, axes: &[i32]) -> Result<Shape, OpError> {
        let axes = Fact::constant(Constant::from_values([axes.len()], axes));
        let input = Fact::new(DataType::Float32, [2, 3, 4]);
        Ok(infer(Folding { keep_dims }, [&input, &axes])?.remove(0).shape.unwrap())
    }

    #[test]
    fn axes_count_from_both_ends_and_once() {
        assert_eq!(output(false, &[-1, 0, 2]).unwrap(), Shape::from([3]));
        assert_eq!(output(true, &[-1]).unwrap(), Shape::from([2, 3, 1]));
        assert_eq!(output(false, &[]).unwrap(), Shape::from([2, 3, 4]));
        assert!(matches!(output(false, &[3]), Err(OpError::Invalid(_))));
        assert!(matches!(output(false, &[-4]), Err(OpError::Invalid(_))));
    }

    #[test]
    fn sums_beyond_32_bits_saturate() {
        let affine = |scale| QuantizationParameters { scale, zero_point: 0 };
        let sum = |count, to, is_mean| StoredSum::new(DataType::Int8, [affine(1.0), affine(to)], count, is_mean);
        let (bytes, words) = ((-128, 127), (-32_768, 32_767));
        assert!(sum(65_535, 1.0, true).fits_32_bits(words) && !sum(65_536, 1.0, true).fits_32_bits(words));
        assert!(sum(1 << 20, 1.0, false).fits_32_bits(bytes) && !sum(1 << 25, 1.0, false).fits_32_bits(bytes));
        assert!(!sum(1 << 20, 0.001, false).fits_32_bits(bytes), "what the factor multiplies would wrap");
        let total = 70_000 * 32_767;
        assert_eq!(multiplied(total, sum(70_000, 1.0, true).factor), 32_767);
        assert_eq!(multiplied(-total, sum(70_000, 4.0, true).factor), -8192);
        assert_eq!(multiplied(total, sum(70_000, 1.0, false).factor), i32::MAX);
        assert_eq!(multiplied(-(1 << 20), Multiplier::new(8192.0)), i32::MIN);
        assert_eq!(multiplied(-7, Multiplier::new(0.5)), -3, "as kernels of 32 bits round");
    }

    #[test]
    fn sums_are_rounded_as_the_kernels_of_their_type_do() {
        let affine = |scale| QuantizationParameters { scale, zero_point: 0 };
        let of = |data_type, sum| StoredSum::new(data_type, [affine(0.5), affine(1.0)], 3, false).stored(sum);
        assert_eq!([-7, -1, 1, 7].map(|sum| of(DataType::Int8, sum)), [-4, -1, 1, 4], "halves away from zero");
        assert_eq!([-7, -1, 1, 7].map(|sum| of(DataType::UInt8, sum)), [-3, 0, 1, 4], "twice, up");
    }

    #[test]
    fn thresholds_tell_what_is_stored() {
        let from = QuantizationParameters { scale: 0.07, zero_point: 3 };
        let sum =
            StoredSum::new(DataType::Int8, [from, QuantizationParameters { scale: 0.31, zero_point: -20 }], 40, false);
        let thresholds = sum.thresholds((-128, 127));
        for total in -5120..5080 {
            let stored = -128 + thresholds.partition_point(|least| *least <= total) as i32;
            assert_eq!(stored, sum.stored(total.into()).clamp(-128, 127), "{total}");
        }
    }

    #[test]
    fn means_of_halves_are_rounded_towards_zero() {
        for (numbers, expected) in [
            (&[-1, -2, -2][..], -1),
            (&[i32::MAX, i32::MAX, i32::MAX - 1], i32::MAX - 1),
            (&[i32::MIN, i32::MIN, i32::MIN], i32::MIN),
            (&[i32::MIN, i32::MAX], 0),
            (&[7, -100_000, 65_536], -11_485),
        ] {
            let upper = numbers.iter().map(|number| number >> 16).sum();
            let lower = numbers.iter().map(|number| number & 0xffff).sum();
            assert_eq!(mean_of_halves(numbers.len() as i32).evaluate(&[upper, lower]), expected, "{numbers:?}");
        }
    }

    #[test]
    fn factors_are_divided() {
        let factor = divided(Multiplier::new(0.75), 49);
        assert_eq!((factor.apply(4900, Rounding::Twice), factor.apply(-98_000, Rounding::Twice)), (75, -1500));
    }

    #[test]
    fn axes_that_a_run_tells_leave_the_shape_open() {
        let (input, axes) = (Fact::new(DataType::Float32, [2, 3]), Fact::new(DataType::Int32, [1]));
        let inferred = infer(Folding { keep_dims: false }, [&input, &axes]);
        assert_eq!(inferred.unwrap(), [Inferred::unknown(DataType::Float32)]);
    }
}
