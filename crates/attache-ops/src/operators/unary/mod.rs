//! Elementwise operators of one input; one table row each. All accept float32; the few that also accept integers or
//! quantized elements define functions for them.

mod quantized;

use std::sync::Arc;

use attache_base::{DataType, Element};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{Binary, Expression, Unary};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::Engine;
use attache_kernels::elementwise::{self, Unary as Kernel};
use attache_model::schema::BuiltinOperator;

use self::quantized::{BYTES, BYTES_AND_INT16, Form, INT8, INT8_AND_INT16, Quantized};
use crate::shared::exact::is_exact;
use crate::shared::support::{arity, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] = &[
    row(Code::Builtin(BuiltinOperator::ABS), 5, |declaration| {
        let function = plain(declaration, Kernel::Abs, Unary::Absolute);
        function.quantized(Form::Absolute, INT8_AND_INT16).with_integers(i64::wrapping_abs)
    }),
    row(Code::Builtin(BuiltinOperator::CEIL), 1, |declaration| plain(declaration, Kernel::Ceil, Unary::Ceiling).done()),
    row(Code::Builtin(BuiltinOperator::COS), 2, |declaration| plain(declaration, Kernel::Cos, Unary::Cosine).done()),
    row(Code::Builtin(BuiltinOperator::ELU), 1, |declaration| {
        Function::new(declaration, Kernel::Elu, elu()).quantized(Form::Reals(quantized::elu), INT8).done()
    }),
    row(Code::Builtin(BuiltinOperator::EXP), 2, |declaration| {
        plain(declaration, Kernel::Exp, Unary::Exponential)
            .quantized(Form::Reals(quantized::exponential), INT8_AND_INT16)
            .done()
    }),
    row(Code::Builtin(BuiltinOperator::FLOOR), 1, |declaration| plain(declaration, Kernel::Floor, Unary::Floor).done()),
    row(Code::Builtin(BuiltinOperator::GELU), 3, |declaration| {
        let options = declaration.options.builtin_options_as_gelu_options();
        let (function, form): (_, fn(f32) -> f32) = match options.is_some_and(|options| options.approximate()) {
            true => {
                (Function::new(declaration, Kernel::GeluApproximate, gelu(tanh_of_gelu())), quantized::gelu_approximate)
            }
            false => (Function::new(declaration, Kernel::Gelu, gelu(error_function_of_gelu())), quantized::gelu),
        };
        function.quantized(Form::Reals(form), BYTES_AND_INT16).done()
    }),
    row(Code::Builtin(BuiltinOperator::HARD_SWISH), 1, |declaration| {
        let gate = Input(0).add(Constant(3.0)).clamp(0.0, 6.0).multiply(Constant(1.0 / 6.0));
        Function::new(declaration, Kernel::HardSwish, Input(0).multiply(gate)).quantized(Form::HardSwish, BYTES).done()
    }),
    row(Code::Builtin(BuiltinOperator::LEAKY_RELU), 2, |declaration| {
        let options = declaration.options.builtin_options_as_leaky_relu_options();
        let slope = options.map_or(0.0, |options| options.alpha());
        let expression = negative().select(Input(0).multiply(Constant(slope)), Input(0));
        Function::new(declaration, Kernel::LeakyRelu(slope), expression)
            .quantized(Form::LeakyRelu(slope), BYTES_AND_INT16)
            .done()
    }),
    row(Code::Builtin(BuiltinOperator::LOG), 2, |declaration| {
        plain(declaration, Kernel::Log, Unary::Logarithm).quantized(Form::Logarithm, INT8_AND_INT16).done()
    }),
    row(Code::Builtin(BuiltinOperator::LOGISTIC), 3, |declaration| {
        plain(declaration, Kernel::Logistic, Unary::Logistic)
            .quantized(Form::Sigmoid { is_tanh: false }, BYTES_AND_INT16)
            .done()
    }),
    row(Code::Builtin(BuiltinOperator::NEG), 1, |declaration| {
        let function = plain(declaration, Kernel::Negate, Unary::Negate);
        function.quantized(Form::Negative, INT8_AND_INT16).with_integers(i64::wrapping_neg)
    }),
    row(Code::Builtin(BuiltinOperator::RELU), 3, |declaration| {
        clamp(declaration.builtin_name(), 0.0, f32::INFINITY, BYTES_AND_INT16).done()
    }),
    row(Code::Builtin(BuiltinOperator::RELU6), 3, |declaration| {
        clamp(declaration.builtin_name(), 0.0, 6.0, BYTES_AND_INT16).done()
    }),
    row(Code::Builtin(BuiltinOperator::RELU_0_TO_1), 1, |declaration| {
        clamp(declaration.builtin_name(), 0.0, 1.0, BYTES).done()
    }),
    row(Code::Builtin(BuiltinOperator::RELU_N1_TO_1), 1, |declaration| {
        clamp(declaration.builtin_name(), -1.0, 1.0, BYTES).done()
    }),
    row(Code::Builtin(BuiltinOperator::ROUND), 1, |declaration| plain(declaration, Kernel::Round, Unary::Round).done()),
    row(Code::Builtin(BuiltinOperator::RSQRT), 3, |declaration| {
        plain(declaration, Kernel::Rsqrt, Unary::InverseSquareRoot)
            .quantized(Form::InverseSquareRoot, INT8_AND_INT16)
            .done()
    }),
    row(Code::Builtin(BuiltinOperator::SIGN), 2, |declaration| {
        plain(declaration, Kernel::Sign, Unary::Sign).with_integers(i64::signum)
    }),
    row(Code::Builtin(BuiltinOperator::SIN), 2, |declaration| plain(declaration, Kernel::Sin, Unary::Sine).done()),
    row(Code::Builtin(BuiltinOperator::SQRT), 2, |declaration| {
        plain(declaration, Kernel::Sqrt, Unary::SquareRoot).done()
    }),
    row(Code::Builtin(BuiltinOperator::SQUARE), 1, |declaration| {
        Function::new(declaration, Kernel::Square, Input(0).multiply(Input(0))).done()
    }),
    row(Code::Builtin(BuiltinOperator::TANH), 3, |declaration| {
        plain(declaration, Kernel::Tanh, Unary::Tanh).quantized(Form::Sigmoid { is_tanh: true }, BYTES_AND_INT16).done()
    }),
];

type Parsed = Result<Arc<dyn Op>, OpError>;

const fn row(code: Code, newest: i32, parse: fn(&Declaration<'_>) -> Parsed) -> Definition {
    Definition { code, versions: 1..=newest, parse }
}

/// 1 where the input is negative, else 0.
fn negative() -> Expression {
    Input(0).binary(Binary::Less, Constant(0.0))
}

/// `x` where it isn't negative, else `eˣ − 1`.
fn elu() -> Expression {
    negative().select(Input(0).unary(Unary::Exponential).subtract(Constant(1.0)), Input(0))
}

/// `x Φ(x)`, where `Φ(x) = (1 + odd) / 2`.
fn gelu(odd: Expression) -> Expression {
    Input(0).multiply(Constant(0.5)).multiply(odd.add(Constant(1.0)))
}

/// `erf(x / √2)`.
fn error_function_of_gelu() -> Expression {
    Input(0).multiply(Constant(std::f32::consts::FRAC_1_SQRT_2)).unary(Unary::ErrorFunction)
}

/// `tanh(√(2/π) (x + 0.044715 x³))`. Source: Hendrycks and Gimpel, "Gaussian Error Linear Units".
fn tanh_of_gelu() -> Expression {
    let cube = Input(0).multiply(Input(0)).multiply(Input(0));
    let sum = Input(0).add(cube.multiply(Constant(0.044_715)));
    sum.multiply(Constant(0.797_884_6)).unary(Unary::Tanh)
}

#[derive(Debug)]
struct Function {
    name: &'static str,
    /// The CPU kernel for floats.
    function: Kernel,
    /// The function of integers, computed in 64 bits and wrapped; `None` where only floats are supported.
    integer: Option<fn(i64) -> i64>,
    /// The function of quantized elements, where it is supported.
    quantized: Option<Quantized>,
    /// The GPU expression of the input.
    expression: Expression,
}

/// A function that is a single GPU primitive.
fn plain(declaration: &Declaration<'_>, function: Kernel, unary: Unary) -> Function {
    Function::new(declaration, function, Input(0).unary(unary))
}

fn clamp(name: &'static str, low: f32, high: f32, types: &'static [DataType]) -> Function {
    let (function, expression) = (Kernel::Clamp(low, high), Input(0).clamp(low, high));
    Function { name, function, integer: None, quantized: None, expression }.quantized(Form::Clamp(low, high), types)
}

impl Function {
    fn new(declaration: &Declaration<'_>, function: Kernel, expression: Expression) -> Self {
        Self { name: declaration.builtin_name(), function, integer: None, quantized: None, expression }
    }

    fn done(self) -> Parsed {
        Ok(Arc::new(self))
    }

    fn quantized(self, form: Form, types: &'static [DataType]) -> Self {
        Self { quantized: Some(Quantized { form, types }), ..self }
    }

    fn with_integers(self, integer: fn(i64) -> i64) -> Parsed {
        Self { integer: Some(integer), ..self }.done()
    }

    fn integers<T: Element + Into<i64>>(&self, eval: &mut Eval<'_>, wrap: fn(i64) -> T) -> Result<(), OpError> {
        let missing = || OpError::unsupported("integers are not implemented");
        let (function, input) = (self.integer.ok_or_else(missing)?, eval.input(0)?.values::<T>()?);
        for (output, value) in eval.outputs[0].values()?.iter_mut().zip(input) {
            *output = wrap(function((*value).into()));
        }
        Ok(())
    }
}

impl Op for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 1..=1)?;
        let input = required(inputs, 0)?;
        let is_stored = |quantized: &&Quantized| quantized.types.contains(&input.data_type);
        match (input.data_type, self.quantized.as_ref().filter(is_stored)) {
            (DataType::Float32, _) => {}
            (DataType::Int32 | DataType::Int64, _) if self.integer.is_some() => {}
            (_, Some(quantized)) => quantized.check(input)?,
            (other, None) => return Err(OpError::unsupported(format!("elements of type {other} are not implemented"))),
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Int32 => return self.integers(eval, |value| value as i32),
            DataType::Int64 => return self.integers(eval, |value| value),
            DataType::Float32 => {}
            _ => return self.quantized.as_ref().ok_or_else(|| OpError::unsupported("stored numbers"))?.eval(eval),
        }
        let (engine, input) = (Engine::new(eval.parallel), eval.input(0)?.values()?);
        elementwise::unary(engine, self.function, input, eval.outputs[0].values()?);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        if let Some(quantized) = self.quantized.as_ref().filter(|_| is_exact(lowering, 0)) {
            return quantized.lower(lowering);
        }
        let (input, shape) = (lowering.float_input(0)?, lowering.output_shape(0)?.clone());
        let output = lowering.map(self.expression.clone(), &shape, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    /// The largest difference between a function's CPU form and its GPU expression, over inputs from -9 to 9.
    fn difference(function: Kernel, expression: &Expression) -> f32 {
        let inputs: Vec<f32> = (-900..900).map(|index| index as f32 * 0.01).collect();
        let mut outputs = vec![0.0; inputs.len()];
        elementwise::unary(Engine::new(&Serial), function, &inputs, &mut outputs);
        let pairs = inputs.iter().zip(&outputs);
        pairs.map(|(x, y)| (expression.evaluate(&[*x]) - y).abs()).fold(0.0, f32::max)
    }

    #[test]
    fn both_forms_of_a_function_are_one() {
        let clamp = clamp("", 0.0, 6.0, BYTES);
        assert_eq!(difference(clamp.function, &clamp.expression), 0.0);
        assert!(difference(Kernel::Elu, &elu()) < 1e-6);
        assert!(difference(Kernel::Gelu, &gelu(error_function_of_gelu())) < 2e-6);
        assert!(difference(Kernel::GeluApproximate, &gelu(tanh_of_gelu())) < 2e-6);
    }

    #[test]
    fn integers_are_for_those_that_take_them() {
        let input = Fact::new(DataType::Int32, [2]);
        let error = clamp("", 0.0, 6.0, BYTES).infer(&[Some(&input)]).unwrap_err();
        assert!(matches!(error, OpError::Unsupported(_)));
        let sign = Function { integer: Some(i64::signum), ..clamp("", 0.0, 6.0, BYTES) };
        assert_eq!(sign.infer(&[Some(&input)]).unwrap(), [Inferred::new(DataType::Int32, [2])]);
    }
}
