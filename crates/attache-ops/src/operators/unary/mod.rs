//! ABS, EXP and the other elementwise operators of one input, one row of the table each. All accept float32;
//! the few that also accept integers or quantized elements define functions for them.

mod halves;
mod quantized;

use attache_base::{DataType, Element};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{BinaryOp, Expression, IntExpression, UnaryOp};
use attache_graph::{Eval, Inferred, Lowering, OpError, RowUse, Unsupported};
use attache_kernels::Engine;
use attache_kernels::elementwise::{self, Unary as Kernel};
use attache_model::schema::BuiltinOperator;
use half::f16;

use self::quantized::{BYTES, BYTES_AND_INT16, INT8, INT8_AND_INT16, Quantized, QuantizedFunction};
use crate::shared::exact::is_exact;
use crate::shared::integers::wrapped;
use crate::shared::support::{elements, elements_mut};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    row(Code::Builtin(BuiltinOperator::ABS), 5, |_| {
        let function = plain(Kernel::Abs, UnaryOp::Absolute);
        function.quantized(QuantizedFunction::Absolute, INT8_AND_INT16).with_integers(i64::wrapping_abs, |x| {
            let negative = x.clone().less(IntExpression::Constant(0));
            negative.select(IntExpression::Constant(0).subtract(x.clone()), x)
        })
    }),
    row(Code::Builtin(BuiltinOperator::CEIL), 1, |_| plain(Kernel::Ceil, UnaryOp::Ceiling).done()),
    Definition::up_to(2, Code::Builtin(BuiltinOperator::COS), NARROW_TOO, |_| {
        plain(Kernel::Cos, UnaryOp::Cosine).done()
    }),
    row(Code::Builtin(BuiltinOperator::ELU), 1, |_| {
        UnaryOperator::new(Kernel::Elu, elu()).quantized(QuantizedFunction::Reals(quantized::elu), INT8).done()
    }),
    row(Code::Builtin(BuiltinOperator::EXP), 2, |_| {
        plain(Kernel::Exp, UnaryOp::Exponential)
            .quantized(QuantizedFunction::Reals(quantized::exponential), INT8_AND_INT16)
            .done()
    }),
    Definition::up_to(1, Code::Builtin(BuiltinOperator::FLOOR), NARROW_TOO, |_| {
        plain(Kernel::Floor, UnaryOp::Floor).done()
    }),
    row(Code::Builtin(BuiltinOperator::GELU), 3, |declaration| {
        let options = declaration.options.builtin_options_as_gelu_options();
        let is_approximate = options.is_some_and(|options| options.approximate());
        let (function, form): (_, fn(f32) -> f32) = match is_approximate {
            true => (UnaryOperator::new(Kernel::GeluApproximate, gelu(tanh_of_gelu())), quantized::gelu_approximate),
            false => (UnaryOperator::new(Kernel::Gelu, gelu(error_function_of_gelu())), quantized::gelu),
        };
        let of_halves = if is_approximate { halves::gelu_approximate } else { halves::gelu };
        let function = function.quantized(QuantizedFunction::Reals(form), BYTES_AND_INT16);
        UnaryOperator { of_halves: (!cfg!(attache_small)).then_some(of_halves), ..function }.done()
    }),
    row(Code::Builtin(BuiltinOperator::HARD_SWISH), 1, |_| {
        let gate = Input(0).add(Constant(3.0)).clamp(0.0, 6.0).multiply(Constant(1.0 / 6.0));
        UnaryOperator::new(Kernel::HardSwish, Input(0).multiply(gate))
            .quantized(QuantizedFunction::HardSwish, BYTES)
            .done()
    }),
    row(Code::Builtin(BuiltinOperator::LEAKY_RELU), 2, |declaration| {
        let options = declaration.options.builtin_options_as_leaky_relu_options();
        let slope = options.map_or(0.0, |options| options.alpha());
        let expression = negative().select(Input(0).multiply(Constant(slope)), Input(0));
        UnaryOperator::new(Kernel::LeakyRelu(slope), expression)
            .quantized(QuantizedFunction::LeakyRelu(slope), BYTES_AND_INT16)
            .done()
    }),
    row(Code::Builtin(BuiltinOperator::LOG), 2, |_| {
        plain(Kernel::Log, UnaryOp::Logarithm).quantized(QuantizedFunction::Logarithm, INT8_AND_INT16).done()
    }),
    Definition::up_to(3, Code::Builtin(BuiltinOperator::LOGISTIC), NARROW_TOO, |_| {
        plain(Kernel::Logistic, UnaryOp::Logistic)
            .quantized(QuantizedFunction::Sigmoid { is_tanh: false }, BYTES_AND_INT16)
            .done()
    }),
    Definition::up_to(1, Code::Builtin(BuiltinOperator::NEG), NARROW_TOO, |_| {
        let function = plain(Kernel::Negate, UnaryOp::Negate);
        function
            .quantized(QuantizedFunction::Negative, INT8_AND_INT16)
            .with_integers(i64::wrapping_neg, |x| IntExpression::Constant(0).subtract(x))
    }),
    row(Code::Builtin(BuiltinOperator::RELU), 3, |_| clamp(0.0, f32::INFINITY, BYTES_AND_INT16).done()),
    row(Code::Builtin(BuiltinOperator::RELU6), 3, |_| clamp(0.0, 6.0, BYTES_AND_INT16).done()),
    row(Code::Builtin(BuiltinOperator::RELU_0_TO_1), 1, |_| clamp(0.0, 1.0, BYTES).done()),
    row(Code::Builtin(BuiltinOperator::RELU_N1_TO_1), 1, |_| clamp(-1.0, 1.0, BYTES).done()),
    Definition::up_to(1, Code::Builtin(BuiltinOperator::ROUND), NARROW_TOO, |_| {
        plain(Kernel::Round, UnaryOp::Round).done()
    }),
    row(Code::Builtin(BuiltinOperator::RSQRT), 3, |_| {
        plain(Kernel::Rsqrt, UnaryOp::InverseSquareRoot)
            .quantized(QuantizedFunction::InverseSquareRoot, INT8_AND_INT16)
            .done()
    }),
    row(Code::Builtin(BuiltinOperator::SIGN), 2, |_| {
        plain(Kernel::Sign, UnaryOp::Sign).with_integers(i64::signum, |x| {
            let zero = IntExpression::Constant(0);
            zero.clone().less(x.clone()).subtract(x.less(zero))
        })
    }),
    Definition::up_to(2, Code::Builtin(BuiltinOperator::SIN), NARROW_TOO, |_| plain(Kernel::Sin, UnaryOp::Sine).done()),
    row(Code::Builtin(BuiltinOperator::SQRT), 2, |_| {
        plain(Kernel::Sqrt, UnaryOp::SquareRoot).quantized(QuantizedFunction::SquareRoot, INT8_AND_INT16).done()
    }),
    row(Code::Builtin(BuiltinOperator::SQUARE), 1, |_| {
        UnaryOperator::new(Kernel::Square, Input(0).multiply(Input(0))).done()
    }),
    Definition::up_to(3, Code::Builtin(BuiltinOperator::TANH), NARROW_TOO, |_| {
        plain(Kernel::Tanh, UnaryOp::Tanh)
            .quantized(QuantizedFunction::Sigmoid { is_tanh: true }, BYTES_AND_INT16)
            .done()
    }),
];

const fn row(code: Code, newest: i32, parse: fn(&Declaration<'_>) -> Parsed) -> Definition {
    Definition::up_to(newest, code, const { &[input("x")] }, parse)
}

/// The input of functions that TensorFlow Lite also computes on floats of 16 bits.
const NARROW_TOO: &[crate::Input] = &[input("x").narrow_too()];

/// Returns an expression that is 1 where the input is negative, else 0.
fn negative() -> Expression {
    Input(0).binary(BinaryOp::Less, Constant(0.0))
}

/// Returns the expression for ELU: `x` where it isn't negative, else `eˣ − 1`.
fn elu() -> Expression {
    negative().select(Input(0).unary(UnaryOp::Exponential).subtract(Constant(1.0)), Input(0))
}

/// Returns the expression for GELU: `x Φ(x)`, where the normal distribution function is
/// `Φ(x) = (1 + odd) / 2`.
fn gelu(odd: Expression) -> Expression {
    Input(0).multiply(Constant(0.5)).multiply(odd.add(Constant(1.0)))
}

/// Returns the expression `erf(x / √2)`, the exact `odd` of [`gelu`].
fn error_function_of_gelu() -> Expression {
    Input(0).multiply(Constant(std::f32::consts::FRAC_1_SQRT_2)).unary(UnaryOp::ErrorFunction)
}

/// Returns the expression `tanh(√(2/π) (x + 0.044715 x³))`, the approximate `odd` of [`gelu`]. Source:
/// Hendrycks and Gimpel, "Gaussian Error Linear Units".
fn tanh_of_gelu() -> Expression {
    let cube = Input(0).multiply(Input(0)).multiply(Input(0));
    let sum = Input(0).add(cube.multiply(Constant(0.044_715)));
    sum.multiply(Constant(0.797_884_6)).unary(UnaryOp::Tanh)
}

/// A function of an integer in 64 bits, and the same in 32 bits for a device.
type IntegerFunction = (fn(i64) -> i64, fn(IntExpression) -> IntExpression);

#[derive(Debug)]
struct UnaryOperator {
    /// The CPU kernel for float32.
    function: Kernel,
    /// The function for integer types, whose results wrap to the type; `None` where integers are not supported.
    integer: Option<IntegerFunction>,
    /// The function for quantized types; `None` where they are not supported.
    quantized: Option<Quantized>,
    /// The function for elements of F16, whose results are rounded to F16; `None` where it has no form of its own.
    of_halves: Option<fn(f32) -> f32>,
    /// The GPU expression of the input.
    expression: Expression,
}

/// Returns an operator whose GPU expression is a single unary operation.
fn plain(function: Kernel, unary: UnaryOp) -> UnaryOperator {
    UnaryOperator::new(function, Input(0).unary(unary))
}

fn clamp(low: f32, high: f32, types: &'static [DataType]) -> UnaryOperator {
    let (function, expression) = (Kernel::Clamp(low, high), Input(0).clamp(low, high));
    UnaryOperator::new(function, expression).quantized(QuantizedFunction::Clamp(low, high), types)
}

impl UnaryOperator {
    fn new(function: Kernel, expression: Expression) -> Self {
        Self { function, integer: None, quantized: None, of_halves: None, expression }
    }

    fn done(self) -> Parsed {
        Ok(Box::new(self))
    }

    fn quantized(self, form: QuantizedFunction, types: &'static [DataType]) -> Self {
        Self { quantized: Some(Quantized { form, types }), ..self }
    }

    fn with_integers(self, integer: fn(i64) -> i64, on_device: fn(IntExpression) -> IntExpression) -> Parsed {
        Self { integer: Some((integer, on_device)), ..self }.done()
    }

    fn integers<T: Element + Into<i64>>(&self, eval: &mut Eval<'_>, wrap: fn(i64) -> T) -> Result<(), OpError> {
        let missing = || OpError::unsupported("integers are not implemented");
        let ((function, _), input) = (self.integer.ok_or_else(missing)?, eval.input(0)?.values::<T>()?);
        for (output, value) in eval.outputs[0].values()?.iter_mut().zip(input) {
            *output = wrap(function((*value).into()));
        }
        Ok(())
    }

    /// Whether elements of INT16 are computed as plain integers: by ABS, where they have no scale.
    fn takes_plain(&self, is_quantized: bool) -> bool {
        self.function == Kernel::Abs && !is_quantized
    }

    fn halves(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let function = self.of_halves.ok_or_else(|| OpError::unsupported("halves are not implemented"))?;
        let input = eval.input(0)?.values::<f16>()?;
        for (output, value) in eval.outputs[0].values::<f16>()?.iter_mut().zip(input) {
            *output = f16::from_f32(function(value.to_f32()));
        }
        Ok(())
    }
}

/// Writes the signs of elements of F64; that of NaN is 0.
fn signs(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let input = elements::<f64>(eval.input(0)?.bytes)?;
    let sign = |value: f64| f64::from(i8::from(value > 0.0) - i8::from(value < 0.0));
    elements_mut(eval.outputs[0].bytes)?.iter_mut().zip(input).for_each(|(output, value)| *output = sign(*value));
    Ok(())
}

impl Operator for UnaryOperator {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let is_stored = |quantized: &&Quantized| quantized.types.contains(&input.data_type);
        match (input.data_type, self.quantized.as_ref().filter(is_stored)) {
            (DataType::Float32, _) => {}
            (DataType::Int32 | DataType::Int64, _) if self.integer.is_some() => {}
            (DataType::Int16, Some(_)) if self.takes_plain(input.quantization.is_some()) => {}
            (DataType::Float16, _) if self.of_halves.is_some() => {}
            (DataType::Float64, _) if self.function == Kernel::Sign && !cfg!(attache_small) => {}
            (_, Some(quantized)) => quantized.check(input)?,
            (other, None) => return Err(OpError::unsupported(format!("elements of type {other} are not implemented"))),
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    /// True, because `eval` also checks the output's scale.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Int32 => return self.integers(eval, |value| value as i32),
            DataType::Int64 => return self.integers(eval, |value| value),
            DataType::Int16 if self.takes_plain(eval.input(0)?.quantization.is_some()) => {
                return self.integers(eval, |value| value as i16);
            }
            DataType::Float16 if !cfg!(attache_small) => return self.halves(eval),
            DataType::Float64 if !cfg!(attache_small) => return signs(eval),
            DataType::Float32 => {}
            _ => return self.quantized.as_ref().ok_or_else(|| OpError::unsupported("stored numbers"))?.eval(eval),
        }
        let (engine, input) = (Engine::new(eval.parallel), eval.input(0)?.values()?);
        elementwise::unary(engine, self.function, input, eval.outputs[0].values()?);
        Ok(())
    }

    #[cfg(not(attache_small))]
    fn is_logistic(&self) -> bool {
        self.function == Kernel::Logistic
    }

    fn row_uses(&self, _: Facts<'_>, _: [usize; 4]) -> Option<Vec<RowUse>> {
        Some(vec![RowUse::Pixels])
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let ignores_scales = self.quantized.is_some_and(|quantized| quantized.form.ignores_scales());
        if ignores_scales {
            lowering.use_stored();
        }
        let fact = lowering.input_fact(0)?;
        let (data_type, is_plain) = (fact.data_type, self.takes_plain(fact.quantization.is_some()));
        let is_integer = match data_type {
            DataType::Int32 => true,
            DataType::Int16 if is_plain => true,
            _ => ignores_scales && is_exact(lowering, 0),
        };
        if let Some(quantized) = self.quantized.as_ref().filter(|_| is_exact(lowering, 0) && !is_integer) {
            return quantized.lower(lowering);
        }
        if let Some((_, on_device)) = self.integer.filter(|_| is_integer) {
            let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?.clone());
            let value = wrapped(on_device(IntExpression::Input(0)), data_type);
            let output = lowering.int_map(value, &shape, &[input])?;
            return lowering.output(0, output);
        }
        let (input, shape) = (lowering.float_input(0)?, lowering.output_shape(0)?.clone());
        let output = lowering.map(self.expression.clone(), &shape, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;
    use attache_graph::Fact;

    use super::*;

    /// Returns the largest difference between a function's CPU form and its GPU expression, over inputs from
    /// -9 to 9.
    fn difference(function: Kernel, expression: &Expression) -> f32 {
        let inputs: Vec<f32> = (-900..900).map(|index| index as f32 * 0.01).collect();
        let mut outputs = vec![0.0; inputs.len()];
        elementwise::unary(Engine::new(&Serial), function, &inputs, &mut outputs);
        let pairs = inputs.iter().zip(&outputs);
        pairs.map(|(x, y)| (expression.evaluate(&[*x]) - y).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn both_forms_of_a_function_are_one() {
        let clamp = clamp(0.0, 6.0, BYTES);
        assert_eq!(difference(clamp.function, &clamp.expression), 0.0);
        assert!(difference(Kernel::Elu, &elu()) < 1e-6);
        assert!(difference(Kernel::Gelu, &gelu(error_function_of_gelu())) < 2e-6);
        assert!(difference(Kernel::GeluApproximate, &gelu(tanh_of_gelu())) < 2e-6);
    }

    #[test]
    fn integers_are_for_those_that_take_them() {
        let input = Fact::new(DataType::Int32, [2]);
        let error = DEFINITIONS[0].infer(&clamp(0.0, 6.0, BYTES), &[Some(&input)]).unwrap_err();
        assert!(matches!(error, OpError::Unsupported(_)));
        let sign = UnaryOperator { integer: Some((i64::signum, |x| x)), ..clamp(0.0, 6.0, BYTES) };
        assert_eq!(DEFINITIONS[0].infer(&sign, &[Some(&input)]).unwrap(), [Inferred::new(DataType::Int32, [2])]);
    }
}
