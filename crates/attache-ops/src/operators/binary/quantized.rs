//! Elementwise functions of two quantized tensors, in the integer arithmetic of TensorFlow Lite's kernels:
//! computed on the CPU, and emitted as integer primitives for a device.

use attache_base::{Activation, DataType, Quantization, Shape};
use attache_gpu_ir::{IntBinaryOp, IntExpression, ValueId};
use attache_graph::{Eval, Fact, Lowering, OpError, TensorRef, Unsupported};
use attache_kernels::Engine;
use attache_kernels::elementwise::broadcast2;
use attache_kernels::quantized::elementwise::{
    Finish, IntegerFunction, OperandScaling, Product, ShiftedSum, SquaredDifference, Sum, binary,
};
use attache_kernels::quantized::{Multiplier, Rounding, Stored, functions};

use crate::shared::exact::{entries, finished, integers, rescaled};
use crate::shared::quantized::{
    QuantizationParameters, activation_range, power_of_two, range, require_symmetric, with_stored,
};
use crate::shared::support::refuse;
use crate::shared::xnn_pack;

/// The function that a binary operator computes on quantized elements. `l` and `r` are the real values of the
/// left and the right element.
#[derive(Clone, Copy, Debug)]
pub(super) enum QuantizedBinary {
    /// `l + r`, or `l − r` where `subtract` is set. Where `shifted` is set (option `pot_scale_int16`) and all
    /// scales are powers of two, 16-bit elements are rescaled by shifts alone.
    Sum { subtract: bool, shifted: bool },
    /// `l × r`.
    Product,
    /// `l / r`.
    Quotient,
    /// `(l − r)²`.
    SquaredDifference,
    /// The larger of the two stored integers. Scales are ignored; inputs and output are expected to share
    /// one.
    Maximum,
    /// The smaller of the two stored integers. Scales are ignored; inputs and output are expected to share
    /// one.
    Minimum,
}

/// Number of bits by which the operands of a sum are shifted left before they are rescaled, for 8-bit and for
/// 16-bit elements.
const SUM_DIGITS: [u32; 2] = [20, 15];
/// Number of bits by which the operands of a squared difference are shifted left before they are rescaled.
const SQUARE_DIGITS: u32 = 7;

impl QuantizedBinary {
    /// Returns the quantized types for which TensorFlow Lite implements the function.
    fn types(self) -> &'static [DataType] {
        match self {
            QuantizedBinary::SquaredDifference => &[DataType::Int8],
            _ => &[DataType::Int8, DataType::UInt8, DataType::Int16],
        }
    }

    /// Whether the function depends on the scales of its tensors; else it compares the stored integers.
    fn rescales(self) -> bool {
        !matches!(self, QuantizedBinary::Maximum | QuantizedBinary::Minimum)
    }

    /// Whether `input`, which has 16-bit elements, is computed as plain integers: where it has no
    /// quantization parameters and the function is a sum or a product.
    pub(super) fn takes_plain(self, input: &Fact) -> bool {
        input.quantization.is_none()
            && matches!(self, QuantizedBinary::Sum { subtract: false, .. } | QuantizedBinary::Product)
    }

    /// Checks that the function is implemented for quantized inputs with these types and scales.
    pub(super) fn check(self, inputs: [&Fact; 2]) -> Result<(), OpError> {
        let data_type = inputs[0].data_type;
        if !self.types().contains(&data_type) {
            return Err(OpError::unsupported(format!("numbers of type {data_type} are not implemented")));
        }
        for input in inputs.iter().filter(|_| self.rescales()) {
            require_symmetric(data_type, QuantizationParameters::of_input(data_type, input.quantization.as_ref())?)?;
        }
        Ok(())
    }

    /// Computes the output on the CPU; inputs and output have the same quantized type.
    pub(super) fn eval(self, eval: &mut Eval<'_>, activation: Activation) -> Result<(), OpError> {
        // What is kept was checked when it was made.
        if !cfg!(attache_small)
            && !matches!(self, QuantizedBinary::Quotient)
            && let Some(function) = eval.cache.get_for::<IntegerFunction>(Vec::new).copied()
        {
            return run(eval, function);
        }
        if let Some(function) = self.rounded_once(eval, activation)? {
            return run_and_keep(eval, function);
        }
        let affine = |tensor: TensorRef<'_>| self.affine(tensor.data_type, tensor.quantization, true);
        let (inputs, output) = ([affine(eval.input(0)?)?, affine(eval.input(1)?)?], &eval.outputs[0]);
        let (data_type, output) = (output.data_type, self.affine(output.data_type, output.quantization, false)?);
        match self.arithmetic(data_type, inputs, output, activation)? {
            Arithmetic::Maximum => run_and_keep(eval, IntegerFunction::Maximum),
            Arithmetic::Minimum => run_and_keep(eval, IntegerFunction::Minimum),
            Arithmetic::Sum(sum) => run_and_keep(eval, IntegerFunction::Sum(sum)),
            Arithmetic::ShiftedSum(sum) => run_and_keep(eval, IntegerFunction::ShiftedSum(sum)),
            Arithmetic::SquaredDifference(square) => run_and_keep(eval, IntegerFunction::SquaredDifference(square)),
            Arithmetic::Product(product) => run_and_keep(eval, IntegerFunction::Product(product)),
            Arithmetic::Quotient(quotient) => divide(eval, quotient.zero_points[1], |l, r| quotient.of(l, r)),
        }
    }

    /// Returns the function as XNNPACK computes it; `None` unless its rounding is asked for and it takes the node.
    fn rounded_once(self, eval: &Eval<'_>, activation: Activation) -> Result<Option<IntegerFunction>, OpError> {
        let function = match self {
            QuantizedBinary::Sum { subtract: false, .. } => xnn_pack::sum,
            QuantizedBinary::Product => xnn_pack::product,
            _ => return Ok(None),
        };
        if !xnn_pack::is_asked(eval) {
            return Ok(None);
        }
        Ok(function([&eval.input(0)?, &eval.input(1)?], &eval.outputs[0], activation))
    }

    /// Emits the function on quantized elements as integer primitives.
    pub(super) fn lower(self, lowering: &mut Lowering<'_>, activation: Activation) -> Result<(), Unsupported> {
        let affine = |fact: &Fact, is_input: bool| {
            self.affine(fact.data_type, fact.quantization.as_ref(), is_input).map_err(refuse)
        };
        let inputs = [affine(lowering.input_fact(0)?, true)?, affine(lowering.input_fact(1)?, true)?];
        let output = lowering.output_fact(0)?;
        let scaled = affine(output, false)?;
        let arithmetic = self.arithmetic(output.data_type, inputs, scaled, activation).map_err(refuse)?;
        let operands = [lowering.input(0)?, lowering.input(1)?];
        let shape = lowering.output_shape(0)?.clone();
        let output = match arithmetic.expression() {
            Ok(expression) => lowering.int_map(expression, &shape, &operands)?,
            Err(quotient) => quotient.lower(lowering, output.data_type, &shape, operands)?,
        };
        lowering.output(0, output)
    }

    /// Returns a tensor's scale and zero point, or 1 and 0 where the function does not depend on them.
    fn affine(
        self,
        data_type: DataType,
        quantization: Option<&Quantization>,
        is_input: bool,
    ) -> Result<QuantizationParameters, OpError> {
        // A quotient is divided by the scale of its second input.
        let is_divisor = !is_input || matches!(self, QuantizedBinary::Quotient);
        match self.rescales() {
            true if is_divisor => QuantizationParameters::new(data_type, quantization),
            true => QuantizationParameters::of_input(data_type, quantization),
            false => Ok(QuantizationParameters { scale: 1.0, zero_point: 0 }),
        }
    }

    /// Prepares the arithmetic for tensors with these scales and zero points.
    fn arithmetic(
        self,
        data_type: DataType,
        inputs: [QuantizationParameters; 2],
        output: QuantizationParameters,
        activation: Activation,
    ) -> Result<Arithmetic, OpError> {
        require_symmetric(data_type, output)?;
        let bounds = activation_range(activation, data_type, output)?;
        let finish = |factor: f64| Finish { factor: Multiplier::new(factor), zero_point: output.zero_point, bounds };
        let scales = inputs.map(|input| f64::from(input.scale));
        let common = 2.0 * scales[0].max(scales[1]);
        let operands = |shift: u32| {
            [0, 1].map(|index| OperandScaling {
                zero_point: inputs[index].zero_point,
                shift,
                // Where both scales are 0, so are their parts of the sum.
                factor: Multiplier::new(if common > 0.0 { scales[index] / common } else { 0.0 }),
            })
        };
        Ok(match self {
            QuantizedBinary::Maximum => Arithmetic::Maximum,
            QuantizedBinary::Minimum => Arithmetic::Minimum,
            QuantizedBinary::Sum { subtract, shifted } => {
                if shifted && let Some(shifts) = shifts(data_type, inputs, output)? {
                    return Ok(Arithmetic::ShiftedSum(ShiftedSum { shifts, subtract, bounds }));
                }
                let shift = SUM_DIGITS[usize::from(data_type == DataType::Int16)];
                let factor = common / (f64::from(1 << shift) * f64::from(output.scale));
                Arithmetic::Sum(Sum { operands: operands(shift), subtract, finish: finish(factor) })
            }
            QuantizedBinary::SquaredDifference => {
                let factor = common * common / (f64::from(1 << (2 * SQUARE_DIGITS)) * f64::from(output.scale));
                let (operands, finish) = (operands(SQUARE_DIGITS), finish(factor));
                Arithmetic::SquaredDifference(SquaredDifference { operands, finish })
            }
            // The factor is computed in float32, like in TensorFlow Lite.
            QuantizedBinary::Product => {
                let factor = inputs[0].scale * inputs[1].scale / output.scale;
                let zero_points = inputs.map(|input| input.zero_point);
                Arithmetic::Product(Product { zero_points, finish: finish(factor.into()) })
            }
            QuantizedBinary::Quotient => {
                let factor = Multiplier::new((inputs[0].scale / (inputs[1].scale * output.scale)).into());
                let zero_points = [inputs[0].zero_point, inputs[1].zero_point, output.zero_point];
                Arithmetic::Quotient(Quotient { zero_points, factor, bounds })
            }
        })
    }
}

/// A function with the integer factors and zero points that result from the scales of its tensors. Both the
/// CPU and the GPU form are derived from it.
enum Arithmetic {
    Maximum,
    Minimum,
    Sum(Sum),
    ShiftedSum(ShiftedSum),
    SquaredDifference(SquaredDifference),
    Product(Product),
    Quotient(Quotient),
}

/// The quotient `l / r` of quantized elements with known scales.
struct Quotient {
    /// The zero points of the left input, the right input and the output.
    zero_points: [i32; 3],
    factor: Multiplier,
    bounds: (i32, i32),
}

impl Quotient {
    /// Returns the quantized quotient of two stored integers. `r` must not be the zero point of its tensor.
    fn of(&self, l: i32, r: i32) -> i32 {
        let quotient = functions::quotient(l - self.zero_points[0], r - self.zero_points[1], self.factor);
        quotient.saturating_add(self.zero_points[2]).max(self.bounds.0).min(self.bounds.1)
    }

    /// Emits the quotients of 8-bit elements as a lookup in a table of all pairs. A device cannot report a
    /// division by 0: there, positive and negative dividends give the output's upper and lower bound, and 0
    /// gives 0.
    fn lower(
        &self,
        lowering: &mut Lowering<'_>,
        data_type: DataType,
        shape: &Shape,
        operands: [ValueId; 2],
    ) -> Result<ValueId, Unsupported> {
        if data_type == DataType::Int16 {
            return Err(Unsupported::new("quotients of 16-bit numbers are too many for a table"));
        }
        let (least, most) = range(data_type).map_err(refuse)?;
        let value = |l: i32, r: i32| match (l - self.zero_points[0]).signum() {
            _ if r != self.zero_points[1] => self.of(l, r),
            -1 => self.bounds.0,
            0 => self.zero_points[2].clamp(self.bounds.0, self.bounds.1),
            _ => self.bounds.1,
        };
        let values: Vec<i32> =
            (least..=most).flat_map(|l| (least..=most).map(move |r| (l, r))).map(|(l, r)| value(l, r)).collect();
        let table = integers(lowering, [values.len()], &values)?;
        let place = IntExpression::Input(0).plus(-least).shifted_left(8).add(IntExpression::Input(1).plus(-least));
        let places = lowering.int_map(place, shape, &operands)?;
        entries(lowering, table, places)
    }
}

impl Arithmetic {
    /// Returns the function as an integer expression of the two inputs. A quotient has no such expression and
    /// is returned as the error.
    fn expression(self) -> Result<IntExpression, Quotient> {
        let [left, right] = [0, 1].map(IntExpression::Input);
        let total = |left: IntExpression, right: IntExpression, subtract: bool| match subtract {
            true => left.subtract(right),
            false => left.add(right),
        };
        let operand = |input: IntExpression, operand: OperandScaling| {
            let digits = input.plus(-operand.zero_point).shifted_left(operand.shift);
            rescaled(digits, operand.factor, Rounding::Twice)
        };
        Ok(match self {
            Arithmetic::Maximum => left.binary(IntBinaryOp::Maximum, right),
            Arithmetic::Minimum => left.binary(IntBinaryOp::Minimum, right),
            Arithmetic::Sum(Sum { operands, subtract, finish }) => {
                let (left, right) = (operand(left, operands[0]), operand(right, operands[1]));
                finished(total(left, right, subtract), finish)
            }
            Arithmetic::ShiftedSum(ShiftedSum { shifts, subtract, bounds }) => {
                let [left, right] = [(left, shifts[0]), (right, shifts[1])].map(|(x, shift)| divided(x, shift));
                total(left, right, subtract).clamp((i16::MIN.into(), i16::MAX.into())).clamp(bounds)
            }
            Arithmetic::SquaredDifference(SquaredDifference { operands, finish }) => {
                let difference = operand(left, operands[0]).subtract(operand(right, operands[1]));
                finished(difference.clone().multiply(difference), finish)
            }
            Arithmetic::Product(Product { zero_points, finish }) => {
                finished(left.plus(-zero_points[0]).multiply(right.plus(-zero_points[1])), finish)
            }
            Arithmetic::Quotient(quotient) => return Err(quotient),
        })
    }
}

/// Returns the expression for a 16-bit element divided by `2^shift`, with ties rounded away from zero: the
/// element is shifted left by one bit, which is exact, and rescaled by `2^(−shift − 1)`.
fn divided(x: IntExpression, shift: u32) -> IntExpression {
    rescaled(x.shifted_left(1), Multiplier { mantissa: 1 << 30, exponent: -(shift as i32) }, Rounding::Twice)
}

/// Returns the numbers of bits by which two 16-bit operands are shifted right to the output's scale; `None`
/// for other types, or where a scale is not a power of two. Fails where the output's scale is not the larger
/// one of the inputs'.
fn shifts(
    data_type: DataType,
    inputs: [QuantizationParameters; 2],
    output: QuantizationParameters,
) -> Result<Option<[u32; 2]>, OpError> {
    let powers = [inputs[0], inputs[1], output].map(|affine| power_of_two(affine.scale));
    let [Some(left), Some(right), Some(to)] = powers else { return Ok(None) };
    if data_type != DataType::Int16 {
        return Ok(None);
    }
    let shifts = [to - left, to - right];
    if shifts.iter().any(|shift| !(0..=31).contains(shift)) || !shifts.contains(&0) {
        return Err(OpError::unsupported("an output whose scale is not the larger one of the inputs'"));
    }
    Ok(Some(shifts.map(i32::unsigned_abs)))
}

/// Runs the function, and keeps it for the next runs: it follows from the tensors' scales.
fn run_and_keep(eval: &mut Eval<'_>, function: IntegerFunction) -> Result<(), OpError> {
    run(eval, function)?;
    if !cfg!(attache_small) {
        eval.cache.get_or_make(|| function);
    }
    Ok(())
}

fn run(eval: &mut Eval<'_>, function: IntegerFunction) -> Result<(), OpError> {
    let (left, right, engine) = (eval.input(0)?, eval.input(1)?, Engine::new(eval.parallel));
    let output = &mut eval.outputs[0];
    let shape = output.shape;
    with_stored!(output.data_type, T => {
        let (left, right) = ((left.values::<T>()?, &left.shape[..]), (right.values::<T>()?, &right.shape[..]));
        binary(engine, function, left, right, (output.values::<T>()?, shape));
    });
    Ok(())
}

fn divide(eval: &mut Eval<'_>, zero: i32, quotient: impl Fn(i32, i32) -> i32) -> Result<(), OpError> {
    let (left, right, output) = (eval.input(0)?, eval.input(1)?, &mut eval.outputs[0]);
    let shape = output.shape;
    with_stored!(output.data_type, T => {
        let (dividends, divisors) = (left.values::<T>()?, right.values::<T>()?);
        if divisors.iter().any(|divisor| i32::from(*divisor) == zero) {
            return Err(OpError::invalid("a division by zero"));
        }
        let function = |l: T, r: T| T::saturate(quotient(l.into(), r.into()));
        broadcast2((dividends, left.shape), (divisors, right.shape), (output.values()?, shape), function);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use attache_base::Quantization;

    use super::*;

    #[test]
    fn powers_of_two_are_shifted() {
        let affine = |scale: f32| QuantizationParameters { scale, zero_point: 0 };
        let shifts =
            |left, right, output| super::shifts(DataType::Int16, [affine(left), affine(right)], affine(output));
        assert_eq!(shifts(0.5, 0.125, 0.5).unwrap(), Some([0, 2]));
        assert_eq!(shifts(0.5, 0.3, 0.5).unwrap(), None);
        assert!(shifts(0.5, 0.25, 0.25).is_err());
        assert!(shifts(0.25, 0.25, 0.5).is_err());
    }

    #[test]
    fn stored_numbers_need_a_scale() {
        let fact = |data_type, scale: &[f32]| {
            let quantization = Quantization { scale: scale.to_vec(), zero_point: vec![0; scale.len()], axis: 0 };
            Fact { quantization: Some(quantization), ..Fact::new(data_type, [2]) }
        };
        let check = |form: QuantizedBinary, fact: Fact| form.check([&fact, &fact]);
        assert!(check(QuantizedBinary::Product, fact(DataType::Int8, &[0.5])).is_ok());
        assert!(matches!(check(QuantizedBinary::Product, fact(DataType::Int8, &[f32::NAN])), Err(OpError::Invalid(_))));
        assert!(matches!(
            check(QuantizedBinary::Product, fact(DataType::Int8, &[0.5, 0.5])),
            Err(OpError::Unsupported(_))
        ));
        assert!(check(QuantizedBinary::SquaredDifference, fact(DataType::UInt8, &[0.5])).is_err());
        assert!(check(QuantizedBinary::Maximum, Fact::new(DataType::Int16, [2])).is_ok());
    }
}
