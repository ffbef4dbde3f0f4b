//! ADD, MUL and the other elementwise operators of two inputs, one row of the table each. The inputs
//! broadcast by NumPy's rules.

mod quantized;

use std::cell::Cell;

use attache_base::{Activation, DataType};
use attache_gpu_ir::Expression::Input;
use attache_gpu_ir::{BinaryOp, Expression, IntBinaryOp, IntExpression};
use attache_graph::{Eval, Inferred, Lowering, OpError, RowUse, Unsupported};
use attache_kernels::Engine;
use attache_kernels::elementwise::{self, Binary as Kernel, broadcast2};
use attache_model::schema::{ActivationFunctionType, BuiltinOperator};
use bytemuck::Pod;

use self::quantized::QuantizedBinary;
use crate::definition::activation;
use crate::shared::exact::is_exact;
use crate::shared::integers::wrapped;
use crate::shared::support::{broadcast, elements, elements_mut, same_type};
use crate::{Code, Combination, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition::up_to(6, Code::Builtin(BuiltinOperator::ADD), NARROW_TOO, |declaration| {
        let options = declaration.options.builtin_options_as_add_options();
        let fused = options.map(|options| options.fused_activation_function());
        let form =
            QuantizedBinary::Sum { subtract: false, shifted: options.is_some_and(|options| options.pot_scale_int16()) };
        let integer: Integer = |a, b| Some(a.wrapping_add(b));
        function(Kernel::Add, integer, Expression::add, IntExpression::add).quantized(form).fused(fused)
    }),
    row(Code::Builtin(BuiltinOperator::DIV), 2, |declaration| {
        let options = declaration.options.builtin_options_as_div_options();
        let fused = options.map(|options| options.fused_activation_function());
        function(Kernel::Divide, quotient, Expression::divide, |a, b| a.binary(IntBinaryOp::Divide, b))
            .quantized(QuantizedBinary::Quotient)
            .fused(fused)
    }),
    row(Code::Builtin(BuiltinOperator::FLOOR_DIV), 3, |_| {
        let formula: Formula = |a, b| a.binary(BinaryOp::FloorDivide, b);
        function(Kernel::FloorDivide, floor_quotient, formula, floor_quotient_on_device).fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::FLOOR_MOD), 2, |_| {
        let formula: Formula = |a, b| a.binary(BinaryOp::FloorModulo, b);
        function(Kernel::FloorModulo, floor_rest, formula, floor_rest_on_device).fused(None)
    }),
    Definition::up_to(4, Code::Builtin(BuiltinOperator::MAXIMUM), NARROW_TOO, |_| {
        let formula: Formula = |a, b| a.binary(BinaryOp::Maximum, b);
        function(Kernel::Maximum, |a, b| Some(a.max(b)), formula, |a, b| a.binary(IntBinaryOp::Maximum, b))
            .quantized(QuantizedBinary::Maximum)
            .fused(None)
    }),
    Definition::up_to(4, Code::Builtin(BuiltinOperator::MINIMUM), NARROW_TOO, |_| {
        let formula: Formula = |a, b| a.binary(BinaryOp::Minimum, b);
        function(Kernel::Minimum, |a, b| Some(a.min(b)), formula, |a, b| a.binary(IntBinaryOp::Minimum, b))
            .quantized(QuantizedBinary::Minimum)
            .fused(None)
    }),
    Definition::up_to(8, Code::Builtin(BuiltinOperator::MUL), NARROW_TOO, |declaration| {
        let options = declaration.options.builtin_options_as_mul_options();
        let fused = options.map(|options| options.fused_activation_function());
        function(Kernel::Multiply, |a, b| Some(a.wrapping_mul(b)), Expression::multiply, IntExpression::multiply)
            .quantized(QuantizedBinary::Product)
            .fused(fused)
    }),
    row(Code::Builtin(BuiltinOperator::POW), 1, |_| {
        let formula: Formula = |a, b| a.binary(BinaryOp::Power, b);
        function(Kernel::Power, power, formula, |a, b| a.binary(IntBinaryOp::Power, b)).fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::SQUARED_DIFFERENCE), 2, |_| {
        let integer: Integer = |a, b| Some(a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b)));
        let formula: Formula = |a, b| a.clone().subtract(b.clone()).multiply(a.subtract(b));
        let on_device: OnDevice = |a, b| a.clone().subtract(b.clone()).multiply(a.subtract(b));
        let form = QuantizedBinary::SquaredDifference;
        function(Kernel::SquaredDifference, integer, formula, on_device).quantized(form).fused(None)
    }),
    row(Code::Builtin(BuiltinOperator::SUB), 5, |declaration| {
        let options = declaration.options.builtin_options_as_sub_options();
        let fused = options.map(|options| options.fused_activation_function());
        let form =
            QuantizedBinary::Sum { subtract: true, shifted: options.is_some_and(|options| options.pot_scale_int16()) };
        let integer: Integer = |a, b| Some(a.wrapping_sub(b));
        function(Kernel::Subtract, integer, Expression::subtract, IntExpression::subtract).quantized(form).fused(fused)
    }),
];

type Formula = fn(Expression, Expression) -> Expression;
/// A function of two integers, computed in 64 bits; returns `None` where it is undefined, as for a division
/// by 0.
type Integer = fn(i64, i64) -> Option<i64>;
/// The same function on a device, in 32 bits. Where it is undefined, which is an error on the CPU, the result is any
/// integer.
type OnDevice = fn(IntExpression, IntExpression) -> IntExpression;

const fn row(code: Code, newest: i32, parse: fn(&Declaration<'_>) -> Parsed) -> Definition {
    Definition::up_to(newest, code, const { &[input("x"), input("y")] }, parse)
}

/// The inputs of functions that TensorFlow Lite also computes on floats of 16 bits.
const NARROW_TOO: &[crate::Input] = &[input("x").narrow_too(), input("y").narrow_too()];

/// Returns the quotient rounded towards zero; `None` for a division by 0.
fn quotient(a: i64, b: i64) -> Option<i64> {
    (b != 0).then(|| a.wrapping_div(b))
}

/// Returns the quotient rounded down; `None` for a division by 0.
fn floor_quotient(a: i64, b: i64) -> Option<i64> {
    let is_above = floor_rest(a, b)? != a.wrapping_rem(b);
    Some(a.wrapping_div(b).wrapping_sub(i64::from(is_above)))
}

/// Returns `a − b × floor(a / b)`, which is 0 or has the divisor's sign; `None` for a division by 0.
fn floor_rest(a: i64, b: i64) -> Option<i64> {
    let rest = if b == 0 { return None } else { a.wrapping_rem(b) };
    Some(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

/// Returns the expression of [`floor_rest`] for 32 bits.
fn floor_rest_on_device(a: IntExpression, b: IntExpression) -> IntExpression {
    let rest = rest_on_device(a, b.clone());
    is_above_on_device(rest.clone(), b.clone()).select(rest.clone().add(b), rest)
}

/// Returns the expression of [`floor_quotient`] for 32 bits.
fn floor_quotient_on_device(a: IntExpression, b: IntExpression) -> IntExpression {
    let rest = rest_on_device(a.clone(), b.clone());
    a.binary(IntBinaryOp::Divide, b.clone()).subtract(is_above_on_device(rest, b))
}

/// Returns the expression of the rest of a division whose quotient is rounded towards zero.
fn rest_on_device(a: IntExpression, b: IntExpression) -> IntExpression {
    a.clone().subtract(a.binary(IntBinaryOp::Divide, b.clone()).multiply(b))
}

/// Returns an expression that is 1 where the quotient rounded towards zero is above the one that is rounded down: where
/// the rest is not 0 and has another sign than the divisor.
fn is_above_on_device(rest: IntExpression, divisor: IntExpression) -> IntExpression {
    let signs_differ = rest.clone().binary(IntBinaryOp::ExclusiveOr, divisor).less(IntExpression::Constant(0));
    rest.select(signs_differ, IntExpression::Constant(0))
}

/// Returns `a` to the power of `b`, wrapped to 64 bits; `None` for exponents that are negative or exceed 32
/// bits.
fn power(a: i64, b: i64) -> Option<i64> {
    Some(a.wrapping_pow(u32::try_from(b).ok()?))
}

#[derive(Debug)]
struct BinaryOperator {
    /// The CPU kernel for float32.
    function: Kernel,
    /// The function for integer types, computed in 64 bits; results wrap to the type.
    integer: Integer,
    /// The function for quantized types; `None` where only floats and integers are supported.
    quantized: Option<QuantizedBinary>,
    /// The GPU expression of two inputs of floats, including the fused activation.
    expression: Expression,
    /// The GPU expression of two inputs of integers, without the fused activation.
    on_device: OnDevice,
    activation: Activation,
}

fn function(function: Kernel, integer: Integer, formula: Formula, on_device: OnDevice) -> BinaryOperator {
    let expression = formula(Input(0), Input(1));
    BinaryOperator { function, integer, quantized: None, expression, on_device, activation: Activation::None }
}

impl BinaryOperator {
    fn quantized(self, form: QuantizedBinary) -> Self {
        Self { quantized: Some(form), ..self }
    }

    /// Adds the fused activation of the options, if any, and returns the finished operator.
    fn fused(self, fused: Option<ActivationFunctionType>) -> Parsed {
        let activation = fused.map_or(Ok(Activation::None), activation)?;
        let missing = || OpError::unsupported(format!("the fused activation {activation:?} is not implemented"));
        let expression = self.expression.activation(activation).ok_or_else(missing)?;
        Ok(Box::new(Self { expression, activation, ..self }))
    }

    /// Computes the output for an integer type: applies the integer function elementwise, wraps each result
    /// to the type with `wrap`, and clamps it to the activation's bounds.
    fn integers<T: Pod + Into<i64>>(&self, eval: &mut Eval<'_>, wrap: fn(i64) -> T) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        let (low, high) = self.activation.bounds().unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        // The bounds of an activation are integers or infinite; infinite ones saturate to those of 64-bit
        // integers.
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
        let (left, right) = ((elements(left.bytes)?, &left.shape[..]), (elements(right.bytes)?, &right.shape[..]));
        broadcast2(left, right, (elements_mut(output.bytes)?, shape), function);
        match is_undefined.get() {
            true => Err(OpError::invalid("a division by zero, or an integer to a negative power")),
            false => Ok(()),
        }
    }
}

/// Multiplies unsigned integers of 32 bits and bounds the products, by the upper bound where they exceed both.
fn unsigned_products(eval: &mut Eval<'_>, (low, high): (u32, u32)) -> Result<(), OpError> {
    let (left, right, output) = (eval.input(0)?, eval.input(1)?, &mut eval.outputs[0]);
    let product = |left: u32, right: u32| left.wrapping_mul(right).max(low).min(high);
    let (left, right) = ((elements(left.bytes)?, &left.shape[..]), (elements(right.bytes)?, &right.shape[..]));
    broadcast2(left, right, (elements_mut(output.bytes)?, output.shape), product);
    Ok(())
}

/// Multiplies complex numbers.
fn complex_products(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (left, right, output) = (eval.input(0)?, eval.input(1)?, &mut eval.outputs[0]);
    let product = |[a, b]: [f32; 2], [c, d]: [f32; 2]| [a * c - b * d, a * d + b * c];
    let (left, right) = ((elements(left.bytes)?, &left.shape[..]), (elements(right.bytes)?, &right.shape[..]));
    broadcast2(left, right, (elements_mut(output.bytes)?, output.shape), product);
    Ok(())
}

impl BinaryOperator {
    /// Whether the quotient is rounded down. Stored integers are divided whatever their scales.
    fn is_floor(&self) -> bool {
        matches!(self.function, Kernel::FloorDivide | Kernel::FloorModulo)
    }

    /// Whether unsigned integers of 32 bits and complex numbers are taken, these without an activation: by MUL. Programs that
    /// need small libraries lack them.
    fn takes_more(&self, data_type: DataType) -> bool {
        let is_taken = data_type == DataType::UInt32 || self.activation == Activation::None;
        self.function == Kernel::Multiply && is_taken && !cfg!(attache_small)
    }

    /// Returns the least and the largest result of an activation of unsigned integers of 32 bits. TensorFlow Lite wraps the
    /// lower bound to the type.
    fn unsigned_bounds(&self) -> (u32, u32) {
        let (low, high) = self.activation.bounds().unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        (if low.is_finite() { low as i32 as u32 } else { 0 }, high as u32)
    }

    /// Emits the operator for integers without a scale.
    fn lower_integers(&self, lowering: &mut Lowering<'_>, data_type: DataType) -> Result<(), Unsupported> {
        let (operands, shape) = ([lowering.input(0)?, lowering.input(1)?], lowering.output_shape(0)?.clone());
        let value = (self.on_device)(IntExpression::Input(0), IntExpression::Input(1));
        let value = match self.activation.bounds().filter(|_| self.activation != Activation::None) {
            Some((low, high)) => value.clamp((low as i32, high as i32)),
            None => value,
        };
        let output = lowering.int_map(wrapped(value, data_type), &shape, &operands)?;
        lowering.output(0, output)
    }
}

impl Operator for BinaryOperator {
    fn combination(&self) -> Option<Combination> {
        match self.function {
            _ if self.activation != Activation::None => None,
            Kernel::Add => Some(Combination::Sum),
            Kernel::Multiply => Some(Combination::Product),
            Kernel::Maximum => Some(Combination::Maximum),
            Kernel::Minimum => Some(Combination::Minimum),
            _ => None,
        }
    }

    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [left, right] = inputs.required();
        same_type(left, right)?;
        match (left.data_type, self.quantized) {
            (DataType::Float32 | DataType::Int32 | DataType::Int64, _) => {}
            (DataType::Int16, Some(form)) if form.takes_plain(left) => {}
            (DataType::Int8 | DataType::Int16, None) if self.is_floor() => {}
            (other @ (DataType::UInt32 | DataType::Complex64), _) if self.takes_more(other) => {}
            (_, Some(form)) => form.check([left, right])?,
            (other, None) => return Err(OpError::unsupported(format!("numbers of type {other} are not implemented"))),
        }
        if left.data_type != DataType::Float32 && self.activation.bounds().is_none() {
            let reason = format!("the fused activation {:?} of integers is not implemented", self.activation);
            return Err(OpError::unsupported(reason));
        }
        Ok(vec![Inferred { data_type: left.data_type, shape: broadcast(&[left, right])? }])
    }

    /// True, because `eval` also checks the output's scale.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        match left.data_type {
            DataType::UInt32 if self.activation != Activation::None && !cfg!(attache_small) => {
                return unsigned_products(eval, self.unsigned_bounds());
            }
            // The lower 32 bits of products do not depend on the sign.
            DataType::Int32 | DataType::UInt32 => return self.integers(eval, |value| value as i32),
            DataType::Int64 => return self.integers(eval, |value| value),
            DataType::Int16 if left.quantization.is_none() || self.is_floor() => {
                return self.integers(eval, |value| value as i16);
            }
            DataType::Int8 if self.is_floor() => return self.integers(eval, |value| value as i8),
            DataType::Complex64 => return complex_products(eval),
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

    #[cfg(not(attache_small))]
    fn is_product(&self) -> bool {
        self.function == Kernel::Multiply && self.activation == Activation::None
    }

    #[cfg(not(attache_small))]
    fn eval_times_logistic(&self, eval: &mut Eval<'_>, input: usize) -> Result<(), OpError> {
        let (engine, values) = (Engine::new(eval.parallel), eval.input(input)?.values()?);
        let output = eval.outputs[0].values()?;
        if !self.is_product() || values.len() != output.len() {
            return Err(OpError::invalid("no product of an input and its logistic function"));
        }
        elementwise::unary(engine, elementwise::Unary::Swish, values, output);
        Ok(())
    }

    fn row_uses(&self, inputs: Facts<'_>, output: [usize; 4]) -> Option<Vec<RowUse>> {
        RowUse::of_broadcast(&inputs.required::<2>(), &output)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if let Some(form) = self.quantized.filter(|_| is_exact(lowering, 0)) {
            return form.lower(lowering, self.activation);
        }
        if self.is_floor() {
            lowering.use_stored();
        }
        match lowering.input_fact(0)?.data_type {
            DataType::UInt32 if self.activation != Activation::None && !cfg!(attache_small) => {
                return Err(Unsupported::new("the activation of unsigned integers"));
            }
            is @ (DataType::Int32 | DataType::UInt32) => return self.lower_integers(lowering, is),
            is @ (DataType::Int8 | DataType::Int16) if self.is_floor() => return self.lower_integers(lowering, is),
            _ => {}
        }
        let (left, right) = (lowering.float_input(0)?, lowering.float_input(1)?);
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.map(self.expression.clone(), &shape, &[left, right])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    fn add(activation: Activation) -> BinaryOperator {
        let (function, integer): (_, Integer) = (Kernel::Add, |a, b| Some(a.wrapping_add(b)));
        let expression = Input(0).add(Input(1)).activation(activation).unwrap();
        BinaryOperator { function, integer, quantized: None, expression, on_device: IntExpression::add, activation }
    }

    #[test]
    fn shapes_broadcast() {
        let infer =
            |left: Fact, right: Fact| DEFINITIONS[0].infer(&add(Activation::None), &[Some(&left), Some(&right)]);
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
    fn unsigned_integers_have_the_bounds_of_their_type() {
        for (activation, bounds) in
            [(Activation::Relu, (0, u32::MAX)), (Activation::Relu6, (0, 6)), (Activation::ReluN1To1, (u32::MAX, 1))]
        {
            assert_eq!(add(activation).unsigned_bounds(), bounds);
        }
        let input = Fact::new(DataType::UInt32, [2]);
        assert!(DEFINITIONS[0].infer(&add(Activation::Relu), &[Some(&input), Some(&input)]).is_err());
    }

    #[test]
    fn integers_have_no_tanh() {
        let input = Fact::new(DataType::Int32, [2]);
        assert!(DEFINITIONS[0].infer(&add(Activation::Relu), &[Some(&input), Some(&input)]).is_ok());
        assert!(DEFINITIONS[0].infer(&add(Activation::Tanh), &[Some(&input), Some(&input)]).is_err());
    }

    #[test]
    fn integers_are_divided_in_two_ways() {
        for (a, b, expected) in [(7, 2, (3, 3, 1)), (-7, 2, (-3, -4, 1)), (7, -2, (-3, -4, -1)), (-6, 2, (-3, -3, 0))] {
            let (down, rest) = (floor_quotient(a, b).unwrap(), floor_rest(a, b).unwrap());
            let on_device = [floor_quotient_on_device, floor_rest_on_device].map(|function: OnDevice| {
                i64::from(function(IntExpression::Input(0), IntExpression::Input(1)).evaluate(&[a as i32, b as i32]))
            });
            assert_eq!(on_device, [down, rest], "{a} by {b} on a device");
            assert_eq!((quotient(a, b).unwrap(), down, rest), expected, "{a} by {b}");
        }
        assert_eq!((quotient(1, 0), floor_quotient(1, 0), floor_rest(1, 0), power(2, -1)), (None, None, None, None));
        assert_eq!((floor_quotient(i64::MIN, -1), floor_rest(i64::MIN, -1)), (Some(i64::MIN), Some(0)));
        assert_eq!(power(-2, 3), Some(-8));
    }
}
