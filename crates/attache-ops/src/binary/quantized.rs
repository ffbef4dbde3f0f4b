//! Functions of two stored numbers.

use attache_base::{Activation, DataType};
use attache_graph::{Eval, Fact, OpError, TensorRef};
use attache_kernels::Engine;
use attache_kernels::elementwise::broadcast2;
use attache_kernels::quantized::elementwise::{
    Finish, Function, Maximum, Minimum, Operand, Product, ShiftedSum, SquaredDifference, Sum, binary,
};
use attache_kernels::quantized::{Multiplier, Stored, functions};

use crate::quantized::{Affine, activation_range, power_of_two, require_symmetric, with_stored};

/// What a function is of stored numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// `l + r`, or `l − r`; whether 16-bit numbers whose scales are powers of two are only shifted.
    Sum { subtract: bool, shifted: bool },
    /// `l × r`.
    Product,
    /// `l / r`.
    Quotient,
    /// `(l − r)²`.
    SquaredDifference,
    /// The larger one, of one scale.
    Maximum,
    /// The smaller one, of one scale.
    Minimum,
}

/// Digits that the operands of a sum get, for 8-bit and for 16-bit numbers, and those of a difference that is squared.
const SUM_DIGITS: [u32; 2] = [20, 15];
const SQUARE_DIGITS: u32 = 7;

impl Form {
    /// The types of stored numbers that TensorFlow Lite has the function of.
    fn types(self) -> &'static [DataType] {
        match self {
            Form::SquaredDifference => &[DataType::Int8],
            _ => &[DataType::Int8, DataType::UInt8, DataType::Int16],
        }
    }

    /// Whether the scale of numbers counts; else they are compared as they are.
    fn rescales(self) -> bool {
        !matches!(self, Form::Maximum | Form::Minimum)
    }

    /// Whether integers of 16 bits that have no scale are numbers by themselves.
    pub(super) fn takes_plain(self, input: &Fact) -> bool {
        input.quantization.is_none() && matches!(self, Form::Sum { subtract: false, .. } | Form::Product)
    }

    /// An error where the function is not one of stored numbers of these types or scales.
    pub(super) fn check(self, inputs: [&Fact; 2]) -> Result<(), OpError> {
        let data_type = inputs[0].data_type;
        if !self.types().contains(&data_type) {
            return Err(OpError::unsupported(format!("numbers of type {data_type} are not implemented")));
        }
        for input in inputs.iter().filter(|_| self.rescales()) {
            require_symmetric(data_type, Affine::new(data_type, input.quantization.as_ref())?)?;
        }
        Ok(())
    }

    /// Computes the output, of the inputs' type.
    pub(super) fn eval(self, eval: &mut Eval<'_>, activation: Activation) -> Result<(), OpError> {
        match self {
            Form::Maximum => return run(eval, Maximum),
            Form::Minimum => return run(eval, Minimum),
            _ => {}
        }
        let data_type = eval.outputs[0].data_type;
        let affine = |tensor: TensorRef<'_>| Affine::new(data_type, tensor.quantization);
        let inputs = [affine(eval.input(0)?)?, affine(eval.input(1)?)?];
        let output = Affine::new(data_type, eval.outputs[0].quantization)?;
        require_symmetric(data_type, output)?;
        let bounds = activation_range(activation, data_type, output)?;
        let finish = |factor: f64| Finish { factor: Multiplier::new(factor), zero_point: output.zero_point, bounds };
        let scales = inputs.map(|input| f64::from(input.scale));
        let common = 2.0 * scales[0].max(scales[1]);
        let operands = |shift: u32| {
            [0, 1].map(|index| Operand {
                zero_point: inputs[index].zero_point,
                shift,
                factor: Multiplier::new(scales[index] / common),
            })
        };
        match self {
            Form::Sum { subtract, shifted } => {
                if shifted && let Some(shifts) = shifts(data_type, inputs, output)? {
                    return run(eval, ShiftedSum { shifts, subtract, bounds });
                }
                let shift = SUM_DIGITS[usize::from(data_type == DataType::Int16)];
                let factor = common / (f64::from(1 << shift) * f64::from(output.scale));
                run(eval, Sum { operands: operands(shift), subtract, finish: finish(factor) })
            }
            Form::SquaredDifference => {
                let factor = common * common / (f64::from(1 << (2 * SQUARE_DIGITS)) * f64::from(output.scale));
                run(eval, SquaredDifference { operands: operands(SQUARE_DIGITS), finish: finish(factor) })
            }
            // In float32, as TensorFlow Lite has it.
            Form::Product => {
                let factor = inputs[0].scale * inputs[1].scale / output.scale;
                let zero_points = inputs.map(|input| input.zero_point);
                run(eval, Product { zero_points, finish: finish(factor.into()) })
            }
            Form::Quotient => {
                let factor = Multiplier::new((inputs[0].scale / (inputs[1].scale * output.scale)).into());
                let quotient = |l: i32, r: i32| {
                    let quotient = functions::quotient(l - inputs[0].zero_point, r - inputs[1].zero_point, factor);
                    quotient.saturating_add(output.zero_point).max(bounds.0).min(bounds.1)
                };
                divide(eval, inputs[1].zero_point, quotient)
            }
            Form::Maximum | Form::Minimum => Ok(()),
        }
    }
}

/// By how many digits operands of 16 bits are shifted, where every scale is a power of two.
fn shifts(data_type: DataType, inputs: [Affine; 2], output: Affine) -> Result<Option<[u32; 2]>, OpError> {
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

fn run(eval: &mut Eval<'_>, function: impl Function) -> Result<(), OpError> {
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
        let affine = |scale: f32| Affine { scale, zero_point: 0 };
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
        let check = |form: Form, fact: Fact| form.check([&fact, &fact]);
        assert!(check(Form::Product, fact(DataType::Int8, &[0.5])).is_ok());
        assert!(matches!(check(Form::Product, fact(DataType::Int8, &[f32::NAN])), Err(OpError::Invalid(_))));
        assert!(matches!(check(Form::Product, fact(DataType::Int8, &[0.5, 0.5])), Err(OpError::Unsupported(_))));
        assert!(check(Form::SquaredDifference, fact(DataType::UInt8, &[0.5])).is_err());
        assert!(check(Form::Maximum, Fact::new(DataType::Int16, [2])).is_ok());
    }
}
