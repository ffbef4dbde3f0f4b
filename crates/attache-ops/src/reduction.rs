//! What operators that fold axes share: which axes an input names, the shape that is left, and the GPU form. Knows no
//! operator.
//!
//! A sum takes signed bytes, its output's too, for unsigned ones, with the zero points that the file gives them: byte 0xff
//! counts 255, and a result of 255 is stored as −1. So do TensorFlow Lite's reference kernels (LiteRT 2.3.0), at every
//! scale and with the same bits at every run, and they are what stored numbers are held to. Its other kernels, which
//! LiteRT runs by default, sum signed bytes as what they are. Means, and sums of other types, are what one expects.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Expression, Primitive, Reduction, ValueId, Whole, WholeBinary};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Refusal};

use attache_kernels::quantized::{Multiplier, Rounding, Stored};
use attache_kernels::reduce;

use crate::Declaration;
use crate::exact::{affine, as_reals, as_stored, grid, rescaled};
use crate::quantized::{Affine, is_stored, range, require_symmetric, with_stored};
use crate::support::{arity, axis_of, countable, elements, elements_mut, known_integers, one_of, refuse, required};

/// How axes that an input names are folded. Inputs: elements and axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folding {
    /// Whether an axis stays, with extent 1.
    pub(crate) keep_dims: bool,
}

/// Which axes of the shape are folded; one that is named twice counts once.
fn folded(shape: &Shape, axes: &[i64]) -> Result<Vec<bool>, OpError> {
    let mut folded = vec![false; shape.rank()];
    for axis in axes {
        folded[axis_of(shape, *axis)?] = true;
    }
    Ok(folded)
}

/// What a fold takes stored numbers of a type for.
fn taken_for(data_type: DataType, is_mean: bool) -> DataType {
    if data_type == DataType::Int8 && !is_mean { DataType::UInt8 } else { data_type }
}

/// Sums stored numbers, or takes their mean, at the output's scale. Sums are of 32 bits and wrap.
pub(crate) fn rescaled_sum(eval: &mut Eval<'_>, folded: &[bool], is_mean: bool) -> Result<(), OpError> {
    let (input, output) = (eval.input(0)?, &mut eval.outputs[0]);
    let from = Affine::new(input.data_type, input.quantization)?;
    let to = Affine::new(output.data_type, output.quantization)?;
    let count = input.shape.elements() / output.shape.elements().max(1);
    let (factor, offset) = sum_factor(from, to, count, is_mean);
    let mut sums = vec![0i32; output.shape.elements()];
    with_stored!(taken_for(input.data_type, is_mean), T => {
        let step = |sum: i32, element: T| sum.wrapping_add(element.into());
        reduce::fold(elements::<T>(input.bytes)?, input.shape, folded, &mut sums, 0, step);
        for (value, sum) in elements_mut::<T>(output.bytes)?.iter_mut().zip(sums) {
            let sum = factor.apply(sum.wrapping_sub(offset), Rounding::Twice);
            *value = T::saturate(sum.saturating_add(to.zero_point));
        }
    });
    Ok(())
}

/// The factor of a sum of so many numbers, and what zero points make of it.
fn sum_factor(from: Affine, to: Affine, count: usize, is_mean: bool) -> (Multiplier, i32) {
    let factor = Multiplier::new(f64::from(from.scale) / f64::from(to.scale));
    let factor = if is_mean { divided(factor, count as i64) } else { factor };
    (factor, (count as i64).wrapping_mul(from.zero_point.into()) as i32)
}

/// A factor divided by a count: its mantissa gets the digits that the count takes, and loses what is left of it.
fn divided(factor: Multiplier, count: i64) -> Multiplier {
    if count <= 0 {
        return factor;
    }
    let digits = (63 - count.leading_zeros() as i32).min(32).min(31 + factor.exponent);
    let mantissa = ((i64::from(factor.mantissa) << digits) / count) as i32;
    Multiplier { mantissa, exponent: factor.exponent - digits }
}

impl Folding {
    /// The folding of a file's options.
    pub(crate) fn parse(declaration: &Declaration<'_>) -> Result<Self, OpError> {
        let options = declaration.options.builtin_options_as_reducer_options();
        let options = options.ok_or_else(|| declaration.no_options())?;
        Ok(Self { keep_dims: options.keep_dims() })
    }

    fn output(self, shape: &Shape, folded: &[bool]) -> Shape {
        let axes = shape.iter().zip(folded).filter(|(_, folded)| self.keep_dims || !**folded);
        axes.map(|(extent, folded)| if *folded { 1 } else { *extent }).collect()
    }

    /// The output, of the elements' type, which must be one of `types`.
    pub(crate) fn infer(self, inputs: &[Option<&Fact>], types: &[DataType]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (input, axes) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, input, types)?;
        if let Some(quantization) = input.quantization.as_ref().filter(|_| is_stored(input.data_type)) {
            require_symmetric(input.data_type, Affine::new(input.data_type, Some(quantization))?)?;
        }
        one_of(1, axes, &[DataType::Int32])?;
        let (Some(shape), Some(axes)) = (&input.shape, known_integers(1, axes)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        let output = countable(self.output(shape, &folded(shape, &axes)?))?;
        Ok(vec![Inferred::new(input.data_type, output)])
    }

    /// Which axes of the elements are folded.
    pub(crate) fn axes(self, eval: &Eval<'_>) -> Result<Vec<bool>, OpError> {
        folded(eval.input(0)?.shape, &eval.input(1)?.integers()?)
    }

    /// Emits a sum of stored numbers, or their mean, at the output's scale.
    pub(crate) fn lower_sum(self, lowering: &mut Lowering<'_>, is_mean: bool) -> Result<(), Refusal> {
        let (from, to) = (lowering.input_fact(0)?, lowering.output_fact(0)?);
        let input = lowering.input(0)?;
        let output = self.sum(lowering, input, [from, to], is_mean)?;
        lowering.output(0, output)
    }

    /// Emits a sum of signed bytes that are seen as reals. It is computed as what is stored: near the ends of the type,
    /// where one number is taken for another, the least error would be one of all numbers that there are.
    pub(crate) fn lower_seen_sum(self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let facts = [lowering.stored_input(0)?, lowering.stored_output(0)?];
        let [from, to] = [grid(facts[0])?, grid(facts[1])?];
        let (reals, shape) = (lowering.float_input(0)?, lowering.input_shape(0)?.clone());
        let stored = lowering.integer_map(from.quantize(Expression::Input(0)), &shape, &[reals])?;
        let sum = self.sum(lowering, stored, facts, false)?;
        let shape = lowering.shape(sum).clone();
        let output = lowering.map(to.dequantize(Expression::Input(0)), &shape, &[sum])?;
        lowering.output(0, output)
    }

    /// Emits the sum, or the mean, of stored numbers of `facts`' first scale at that of their second.
    fn sum(
        self,
        lowering: &mut Lowering<'_>,
        stored: ValueId,
        facts: [&Fact; 2],
        is_mean: bool,
    ) -> Result<ValueId, Refusal> {
        let [from, to] = [affine(facts[0])?, affine(facts[1])?];
        let data_type = facts[1].data_type;
        let (least, most) = range(taken_for(data_type, is_mean)).map_err(refuse)?;
        let is_taken = least != range(data_type).map_err(refuse)?.0;
        let (input, shape) = (Whole::Input(0), lowering.shape(stored).clone());
        let taken = if is_taken {
            let is_negative = input.clone().binary(WholeBinary::Less, Whole::Constant(0));
            lowering.whole_map(input.clone().add(is_negative.shifted_left(8)), &shape, &[stored])?
        } else {
            stored
        };
        let sums = self.fold(lowering, Reduction::Sum, taken)?;
        let shape = lowering.output_shape(0)?.clone();
        let count = lowering.input_shape(0)?.elements() / shape.elements().max(1);
        let (factor, offset) = sum_factor(from, to, count, is_mean);
        // Bounds before the zero point is added: that cannot wrap.
        let bounds = (least - to.zero_point, most - to.zero_point);
        let sum = rescaled(input.clone().plus(offset.wrapping_neg()), factor, Rounding::Twice).clamp(bounds);
        let sum = lowering.whole_map(sum.plus(to.zero_point), &shape, &[sums])?;
        if !is_taken {
            return Ok(sum);
        }
        let is_negative = Whole::Constant(127).binary(WholeBinary::Less, input.clone());
        lowering.whole_map(input.subtract(is_negative.shifted_left(8)), &shape, &[sum])
    }

    /// Emits the folding of stored numbers whose scale stays, by which one is the largest or the smallest.
    pub(crate) fn lower_extremum(self, lowering: &mut Lowering<'_>, reduction: Reduction) -> Result<(), Refusal> {
        let input = lowering.input(0)?;
        let reals = as_reals(lowering, input)?;
        let folded = self.fold(lowering, reduction, reals)?;
        let output = as_stored(lowering, folded)?;
        lowering.output(0, output)
    }

    /// Emits the folding of `input`, which holds the elements, as the only output.
    pub(crate) fn lower(
        self,
        lowering: &mut Lowering<'_>,
        reduction: Reduction,
        input: ValueId,
    ) -> Result<(), Refusal> {
        let output = self.fold(lowering, reduction, input)?;
        lowering.output(0, output)
    }

    /// Emits the folding of `input` in the output's shape.
    fn fold(self, lowering: &mut Lowering<'_>, reduction: Reduction, input: ValueId) -> Result<ValueId, Refusal> {
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

    use super::*;

    fn output(keep_dims: bool, axes: &[i32]) -> Result<Shape, OpError> {
        let axes = Fact::constant(Constant::from_values([axes.len()], axes));
        let input = Fact::new(DataType::Float32, [2, 3, 4]);
        let inferred = Folding { keep_dims }.infer(&[Some(&input), Some(&axes)], &[DataType::Float32]);
        Ok(inferred?.remove(0).shape.unwrap())
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
    fn factors_are_divided() {
        let factor = divided(Multiplier::new(0.75), 49);
        assert_eq!((factor.apply(4900, Rounding::Twice), factor.apply(-98_000, Rounding::Twice)), (75, -1500));
    }

    #[test]
    fn axes_that_a_run_tells_leave_the_shape_open() {
        let (input, axes) = (Fact::new(DataType::Float32, [2, 3]), Fact::new(DataType::Int32, [1]));
        let inferred = Folding { keep_dims: false }.infer(&[Some(&input), Some(&axes)], &[DataType::Float32]);
        assert_eq!(inferred.unwrap(), [Inferred::unknown(DataType::Float32)]);
    }
}
