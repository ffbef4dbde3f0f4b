//! Elementwise operators of two inputs, which broadcast by NumPy's rules; one table row each.

mod quantized;

use std::cell::Cell;
use std::sync::Arc;

use attache_base::{Activation, DataType, Element};
use attache_gpu_ir::Expression::Input;
use attache_gpu_ir::{Binary, Expression};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::Engine;
use attache_kernels::elementwise::{self, Binary as Kernel, broadcast2};
use attache_model::schema::{ActivationFunctionType, BuiltinOperator};

use self::quantized::Form;
use crate::definition::activation;
use crate::shared::exact::is_exact;
use crate::shared::support::{arity, broadcast, required, same_type};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] = &[
    row(Code::Builtin(BuiltinOperator::ADD), 6, |declaration| {
        let options = declaration.options.builtin_options_as_add_options();
        let fused = options.map(|options| options.fused_activation_function());
        let form = Form::Sum { subtract: false, shifted: options.is_some_and(|options| options.pot_scale_int16()) };
        function(declaration, Kernel::Add, |a, b| Some(a.wrapping_add(b)), Expression::add).quantized(form).fused(fused)
    }),
    row(Code::Builtin(BuiltinOperator::DIV), 2, |declaration| {
        let options = declaration.options.builtin_options_as_div_options();
        let fused = options.map(|options| options.fused_activation_function());
        function(declaration, Kernel::Divide, quotient, Expression::divide).quantized(Form::Quotient).fused(fused)
    }),
    row(Code::Builtin(BuiltinOperator::FLOOR_DIV), 3, |declaration| {
        function(declaration, Kernel::FloorDivide, floor_quotient, |a, b| a.binary(Binary::FloorDivide, b)).fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::FLOOR_MOD), 2, |declaration| {
        function(declaration, Kernel::FloorModulo, floor_rest, |a, b| a.binary(Binary::FloorModulo, b)).fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::MAXIMUM), 4, |declaration| {
        function(declaration, Kernel::Maximum, |a, b| Some(a.max(b)), |a, b| a.binary(Binary::Maximum, b))
            .quantized(Form::Maximum)
            .fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::MINIMUM), 4, |declaration| {
        function(declaration, Kernel::Minimum, |a, b| Some(a.min(b)), |a, b| a.binary(Binary::Minimum, b))
            .quantized(Form::Minimum)
            .fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::MUL), 8, |declaration| {
        let options = declaration.options.builtin_options_as_mul_options();
        let fused = options.map(|options| options.fused_activation_function());
        function(declaration, Kernel::Multiply, |a, b| Some(a.wrapping_mul(b)), Expression::multiply)
            .quantized(Form::Product)
            .fused(fused)
    }),
    row(Code::Builtin(BuiltinOperator::POW), 1, |declaration| {
        function(declaration, Kernel::Power, power, |a, b| a.binary(Binary::Power, b)).fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::SQUARED_DIFFERENCE), 2, |declaration| {
        let integer: Integer = |a, b| Some(a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b)));
        let formula: Formula = |a, b| a.clone().subtract(b.clone()).multiply(a.subtract(b));
        let form = Form::SquaredDifference;
        function(declaration, Kernel::SquaredDifference, integer, formula).quantized(form).fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::SUB), 5, |declaration| {
        let options = declaration.options.builtin_options_as_sub_options();
        let fused = options.map(|options| options.fused_activation_function());
        let form = Form::Sum { subtract: true, shifted: options.is_some_and(|options| options.pot_scale_int16()) };
        function(declaration, Kernel::Subtract, |a, b| Some(a.wrapping_sub(b)), Expression::subtract)
            .quantized(form)
            .fused(fused)
    }),
];

type Parsed = Result<Arc<dyn Op>, OpError>;
type Formula = fn(Expression, Expression) -> Expression;
/// A function of integers, computed in 64 bits; `None` where it is undefined.
type Integer = fn(i64, i64) -> Option<i64>;

const fn row(code: Code, newest: i32, parse: fn(&Declaration<'_>) -> Parsed) -> Definition {
    Definition { code, versions: 1..=newest, parse }
}

/// The quotient rounded towards zero.
fn quotient(a: i64, b: i64) -> Option<i64> {
    (b != 0).then(|| a.wrapping_div(b))
}

/// The quotient rounded down.
fn floor_quotient(a: i64, b: i64) -> Option<i64> {
    let is_above = floor_rest(a, b)? != a.wrapping_rem(b);
    Some(a.wrapping_div(b).wrapping_sub(i64::from(is_above)))
}

/// The remainder of the quotient rounded down: 0, or with the divisor's sign.
fn floor_rest(a: i64, b: i64) -> Option<i64> {
    let rest = if b == 0 { return None } else { a.wrapping_rem(b) };
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// A power; undefined for negative exponents.
fn power(a: i64, b: i64) -> Option<i64> {
    Some(a.wrapping_pow(u32::try_from(b).ok()?))
}

#[derive(Debug)]
struct Function {
    name: &'static str,
    /// The CPU kernel for floats.
    function: Kernel,
    /// The function of integers; narrower types wrap.
    integer: Integer,
    /// The function of quantized elements, where it is defined.
    quantized: Option<Form>,
    /// The GPU expression of the two inputs, with the activation.
    expression: Expression,
    activation: Activation,
}

fn function(declaration: &Declaration<'_>, function: Kernel, integer: Integer, formula: Formula) -> Function {
    let (name, expression) = (declaration.builtin_name(), formula(Input(0), Input(1)));
    Function { name, function, integer, quantized: None, expression, activation: Activation::None }
}

impl Function {
    fn quantized(self, form: Form) -> Self {
        Self { quantized: Some(form), ..self }
    }

    /// Adds the activation of a file's options.
    fn fused(self, fused: Option<ActivationFunctionType>) -> Parsed {
        let activation = fused.map_or(Ok(Activation::None), activation)?;
        let missing = || OpError::unsupported(format!("the fused activation {activation:?} is not implemented"));
        let expression = self.expression.activation(activation).ok_or_else(missing)?;
        Ok(Arc::new(Self { expression, activation, ..self }))
    }

    /// Computes the function of integers, wrapped to the type and clamped to the activation's bounds.
    fn integers<T: Element + Into<i64>>(&self, eval: &mut Eval<'_>, wrap: fn(i64) -> T) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        let (low, high) = self.activation.bounds().unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        // The bounds are integers; infinite ones saturate to the ends of the range.
        let (low, high) = (low as i64, high as i64);
        let is_undefined = Cell::new(false);
        let function = |l: T, r: T| {
            let value = (self.integer)(l.into(), r.into());
            is_undefined.set(is_undefined.get() | value.is_none());
            let value: i64 = wrap(value.unwrap_or_default()).into();
            wrap(value.clamp(low, high))
        };
        let output = &mut eval.outputs[0];
        let shape = output.shape;
        broadcast2((left.values()?, left.shape), (right.values()?, right.shape), (output.values()?, shape), function);
        match is_undefined.get() {
            true => Err(OpError::invalid("a division by zero, or an integer to a negative power")),
            false => Ok(()),
        }
    }
}

impl Op for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (left, right) = (required(inputs, 0)?, required(inputs, 1)?);
        same_type(left, right)?;
        match (left.data_type, self.quantized) {
            (DataType::Float32 | DataType::Int32 | DataType::Int64, _) => {}
            (DataType::Int16, Some(form)) if form.takes_plain(left) => {}
            (_, Some(form)) => form.check([left, right])?,
            (other, None) => return Err(OpError::unsupported(format!("numbers of type {other} are not implemented"))),
        }
        if left.data_type != DataType::Float32 && self.activation.bounds().is_none() {
            let reason = format!("the fused activation {:?} of integers is not implemented", self.activation);
            return Err(OpError::unsupported(reason));
        }
        Ok(vec![Inferred { data_type: left.data_type, shape: broadcast(&[left, right])? }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        match left.data_type {
            DataType::Int32 => return self.integers(eval, |value| value as i32),
            DataType::Int64 => return self.integers(eval, |value| value),
            DataType::Int16 if left.quantization.is_none() => return self.integers(eval, |value| value as i16),
            DataType::Float32 => {}
            _ => {
                let form = self.quantized.ok_or_else(|| OpError::unsupported("stored numbers are not implemented"))?;
                return form.eval(eval, self.activation);
            }
        }
        let (engine, output) = (Engine::new(eval.parallel), &mut eval.outputs[0]);
        let (left, right) = ((left.values()?, &left.shape[..]), (right.values()?, &right.shape[..]));
        let shape = output.shape;
        elementwise::binary(engine, self.function, left, right, (output.values()?, shape), self.activation);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        if let Some(form) = self.quantized.filter(|_| is_exact(lowering, 0)) {
            return form.lower(lowering, self.activation);
        }
        let (left, right) = (lowering.float_input(0)?, lowering.float_input(1)?);
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.map(self.expression.clone(), &shape, &[left, right])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(activation: Activation) -> Function {
        let (function, integer): (_, Integer) = (Kernel::Add, |a, b| Some(a.wrapping_add(b)));
        let expression = Input(0).add(Input(1)).activation(activation).unwrap();
        Function { name: "", function, integer, quantized: None, expression, activation }
    }

    #[test]
    fn shapes_broadcast() {
        let infer = |left: Fact, right: Fact| add(Activation::None).infer(&[Some(&left), Some(&right)]);
        let float = |shape: &[usize]| Fact::new(DataType::Float32, shape);
        let made = infer(float(&[2, 1, 3]), float(&[4, 1])).unwrap();
        assert_eq!(made, [Inferred::new(DataType::Float32, [2, 4, 3])]);
        assert!(infer(float(&[2]), float(&[3])).is_err());
        assert!(infer(float(&[2]), Fact::new(DataType::Int32, [2])).is_err());
        assert!(infer(float(&[usize::MAX, 1]), float(&[1, 2])).is_err());
        let quantized = Fact::new(DataType::Int8, [2]);
        assert!(matches!(infer(quantized.clone(), quantized), Err(OpError::Unsupported(_))));
    }

    #[test]
    fn integers_have_no_tanh() {
        let input = Fact::new(DataType::Int32, [2]);
        assert!(add(Activation::Relu).infer(&[Some(&input), Some(&input)]).is_ok());
        assert!(add(Activation::Tanh).infer(&[Some(&input), Some(&input)]).is_err());
    }

    #[test]
    fn integers_are_divided_in_two_ways() {
        for (a, b, expected) in [(7, 2, (3, 3, 1)), (-7, 2, (-3, -4, 1)), (7, -2, (-3, -4, -1)), (-6, 2, (-3, -3, 0))] {
            let (down, rest) = (floor_quotient(a, b).unwrap(), floor_rest(a, b).unwrap());
            assert_eq!((quotient(a, b).unwrap(), down, rest), expected, "{a} by {b}");
        }
        assert_eq!((quotient(1, 0), floor_quotient(1, 0), floor_rest(1, 0), power(2, -1)), (None, None, None, None));
        assert_eq!((floor_quotient(i64::MIN, -1), floor_rest(i64::MIN, -1)), (Some(i64::MIN), Some(0)));
        assert_eq!(power(-2, 3), Some(-8));
    }
}
