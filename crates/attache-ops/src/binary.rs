//! Operators that are a function of two elements, their inputs broadcast by numpy's rule: a row each.

use std::sync::Arc;

use attache_base::{Activation, DataType, Element, Shape};
use attache_gpu_ir::{Binary, Expression};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::Engine;
use attache_kernels::elementwise::{self, broadcast2};
use attache_model::schema::{ActivationFunctionType, BuiltinOperator};

use crate::definition::activation;
use crate::support::{arity, countable, one_of, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::ADD),
        versions: 1..=6,
        parse: |declaration| {
            let options = declaration.options.builtin_options_as_add_options();
            let fused = options.map(|options| options.fused_activation_function());
            row(declaration, fused, elementwise::Binary::Add, i64::wrapping_add, Expression::add)
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::MINIMUM),
        versions: 1..=4,
        parse: |declaration| {
            let minimum: Formula = |a, b| a.binary(Binary::Minimum, b);
            row(declaration, None, elementwise::Binary::Minimum, i64::min, minimum)
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::MUL),
        versions: 1..=8,
        parse: |declaration| {
            let options = declaration.options.builtin_options_as_mul_options();
            let fused = options.map(|options| options.fused_activation_function());
            row(declaration, fused, elementwise::Binary::Multiply, i64::wrapping_mul, Expression::multiply)
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::SQUARED_DIFFERENCE),
        versions: 1..=2,
        parse: |declaration| {
            let square = |a: i64, b: i64| a.wrapping_sub(b).wrapping_mul(a.wrapping_sub(b));
            let expression: Formula = |a, b| a.clone().subtract(b.clone()).multiply(a.subtract(b));
            row(declaration, None, elementwise::Binary::SquaredDifference, square, expression)
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::SUB),
        versions: 1..=5,
        parse: |declaration| {
            let options = declaration.options.builtin_options_as_sub_options();
            let fused = options.map(|options| options.fused_activation_function());
            row(declaration, fused, elementwise::Binary::Subtract, i64::wrapping_sub, Expression::subtract)
        },
    },
];

type Formula = fn(Expression, Expression) -> Expression;

#[derive(Debug)]
struct Function {
    name: &'static str,
    /// The function of floats on the CPU.
    function: elementwise::Binary,
    /// The function of integers, computed in 64 bits; narrower ones wrap.
    integer: fn(i64, i64) -> i64,
    /// The function of the two inputs with the activation.
    expression: Expression,
    activation: Activation,
}

fn row(
    declaration: &Declaration<'_>,
    fused: Option<ActivationFunctionType>,
    function: elementwise::Binary,
    integer: fn(i64, i64) -> i64,
    expression: Formula,
) -> Result<Arc<dyn Op>, OpError> {
    let activation = fused.map_or(Ok(Activation::None), activation)?;
    let expression = expression(Expression::Input(0), Expression::Input(1)).activation(activation);
    let missing = || OpError::unsupported(format!("the fused activation {activation:?} is not implemented"));
    let (name, expression) = (declaration.builtin_name(), expression.ok_or_else(missing)?);
    Ok(Arc::new(Function { name, function, integer, expression, activation }))
}

/// The shape that the two inputs broadcast to.
fn broadcast(left: &Shape, right: &Shape) -> Result<Shape, OpError> {
    let reason = || format!("the shapes {left} and {right} do not broadcast");
    countable(left.broadcast(right).ok_or_else(|| OpError::invalid(reason()))?)
}

impl Function {
    /// Integers: the function, wrapped to the type, within the activation's bounds.
    fn integers<T: Element + Into<i64>>(&self, eval: &mut Eval<'_>, wrap: fn(i64) -> T) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        let (low, high) = self.activation.bounds().unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        // The bounds are whole numbers; infinite ones become the ends of the range.
        let (low, high) = (low as i64, high as i64);
        let function = |l: T, r: T| {
            let value: i64 = wrap((self.integer)(l.into(), r.into())).into();
            wrap(value.clamp(low, high))
        };
        let output = &mut eval.outputs[0];
        let shape = output.shape;
        broadcast2((left.values()?, left.shape), (right.values()?, right.shape), (output.values()?, shape), function);
        Ok(())
    }
}

impl Op for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (left, right) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, left, &[DataType::Float32, DataType::Int32, DataType::Int64])?;
        if left.data_type != right.data_type {
            return Err(OpError::invalid(format!(
                "its inputs are of types {} and {}",
                left.data_type, right.data_type
            )));
        }
        if left.data_type != DataType::Float32 && self.activation.bounds().is_none() {
            let reason = format!("the fused activation {:?} of integers is not implemented", self.activation);
            return Err(OpError::unsupported(reason));
        }
        let (Some(left_shape), Some(right_shape)) = (&left.shape, &right.shape) else {
            return Ok(vec![Inferred::unknown(left.data_type)]);
        };
        Ok(vec![Inferred::new(left.data_type, broadcast(left_shape, right_shape)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        match left.data_type {
            DataType::Int32 => return self.integers(eval, |value| value as i32),
            DataType::Int64 => return self.integers(eval, |value| value),
            _ => {}
        }
        let (engine, output) = (Engine::new(eval.parallel), &mut eval.outputs[0]);
        let (left, right) = ((left.values()?, &left.shape[..]), (right.values()?, &right.shape[..]));
        let shape = output.shape;
        elementwise::binary(engine, self.function, left, right, (output.values()?, shape), self.activation);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
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
        let expression = Expression::Input(0).add(Expression::Input(1)).activation(activation).unwrap();
        let function = elementwise::Binary::Add;
        Function { name: "", function, integer: i64::wrapping_add, expression, activation }
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
}
