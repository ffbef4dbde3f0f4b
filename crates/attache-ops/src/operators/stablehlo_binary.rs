//! STABLEHLO_ADD, STABLEHLO_AND, STABLEHLO_MAXIMUM, STABLEHLO_MINIMUM, STABLEHLO_MULTIPLY and STABLEHLO_SHIFT_LEFT: elementwise
//! operators of two tensors of one shape. Integers wrap.

use attache_base::DataType;
use attache_gpu_ir::{IntBinaryOp, IntExpression};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::definition::one_of;
use crate::shared::combine::{COMBINABLE, Combinable, combined_floats, combined_integers, with_combinable};
use crate::shared::integers::{moves_as_integer, wrapped};
use crate::shared::support::{elements, elements_mut, with_element};
use crate::{Code, Combination, Declaration, Definition, Facts, Input, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    row(Code::Builtin(BuiltinOperator::STABLEHLO_ADD), |_| operator(Function::Combine(Combination::Sum))),
    row(Code::Builtin(BuiltinOperator::STABLEHLO_AND), |_| operator(Function::And)),
    row(Code::Builtin(BuiltinOperator::STABLEHLO_MAXIMUM), |_| operator(Function::Combine(Combination::Maximum))),
    row(Code::Builtin(BuiltinOperator::STABLEHLO_MINIMUM), |_| operator(Function::Combine(Combination::Minimum))),
    row(Code::Builtin(BuiltinOperator::STABLEHLO_MULTIPLY), |_| operator(Function::Combine(Combination::Product))),
    row(Code::Builtin(BuiltinOperator::STABLEHLO_SHIFT_LEFT), |_| operator(Function::ShiftLeft)),
];

const INPUTS: &[Input] = &[input("lhs"), input("rhs").like(0)];

const fn row(code: Code, parse: fn(&Declaration<'_>) -> Parsed) -> Definition {
    Definition { code, versions: 1..=1, inputs: INPUTS, parse }
}

fn operator(function: Function) -> Parsed {
    Ok(Box::new(Binary { function }))
}

#[derive(Clone, Copy, Debug)]
enum Function {
    Combine(Combination),
    /// The bits that both elements have.
    And,
    /// The first element shifted by the second one. Counts are taken modulo 32, as processors do.
    ShiftLeft,
}

#[derive(Debug)]
struct Binary {
    function: Function,
}

fn combine<T: Combinable>(combination: Combination, eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (left, right) = (elements::<T>(eval.input(0)?.bytes)?, elements::<T>(eval.input(1)?.bytes)?);
    let output = elements_mut::<T>(eval.outputs[0].bytes)?.iter_mut();
    output.zip(left.iter().zip(right)).for_each(|(output, (a, b))| *output = T::combine(combination, *a, *b));
    Ok(())
}

fn shift<T: bytemuck::Pod + Into<i32>>(eval: &mut Eval<'_>, wrap: fn(i32) -> T) -> Result<(), OpError> {
    let (left, right) = (elements::<T>(eval.input(0)?.bytes)?, elements::<T>(eval.input(1)?.bytes)?);
    let output = elements_mut::<T>(eval.outputs[0].bytes)?.iter_mut();
    let shifted = |a: T, count: T| wrap(a.into().wrapping_shl(count.into() as u32));
    output.zip(left.iter().zip(right)).for_each(|(output, (a, b))| *output = shifted(*a, *b));
    Ok(())
}

impl Function {
    fn types(self) -> &'static [DataType] {
        use DataType::{Bool, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        match self {
            Self::Combine(_) => &COMBINABLE,
            Self::And => &[Bool, Int8, UInt8, Int16, UInt16, Int32, UInt32, Int64, UInt64],
            Self::ShiftLeft => &[Int8, Int16, Int32],
        }
    }

    /// Returns the function of two elements of this type for a device.
    fn of_integers(self, data_type: DataType) -> IntExpression {
        let [left, right] = [0, 1].map(IntExpression::Input);
        match self {
            Self::Combine(combination) => combined_integers(combination, data_type),
            Self::And => left.binary(IntBinaryOp::And, right),
            Self::ShiftLeft => {
                let count = right.binary(IntBinaryOp::And, IntExpression::Constant(31));
                wrapped(left.binary(IntBinaryOp::ShiftLeft, count), data_type)
            }
        }
    }
}

impl Operator for Binary {
    fn combination(&self) -> Option<Combination> {
        match self.function {
            Function::Combine(combination) => Some(combination),
            Function::And => Some(Combination::All),
            Function::ShiftLeft => None,
        }
    }

    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [left, right] = inputs.required();
        one_of("input 0 (lhs)", left.data_type, self.function.types())?;
        if let (Some(left), Some(right)) = (&left.shape, &right.shape)
            && left != right
        {
            return Err(OpError::invalid(format!("its inputs have the shapes {left} and {right}; they must have one")));
        }
        let shape = left.shape.clone().filter(|_| right.shape.is_some());
        Ok(vec![Inferred { data_type: left.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let data_type = eval.input(0)?.data_type;
        match self.function {
            Function::Combine(combination) => with_combinable!(data_type, T => combine::<T>(combination, eval)),
            Function::And => with_element!(data_type, T => {
                let both = elements::<T>(eval.input(0)?.bytes)?.iter().zip(elements::<T>(eval.input(1)?.bytes)?);
                let output = elements_mut::<T>(eval.outputs[0].bytes)?.iter_mut();
                output.zip(both).for_each(|(output, (a, b))| {
                    let bytes = bytemuck::bytes_of(a).iter().zip(bytemuck::bytes_of(b));
                    bytemuck::bytes_of_mut(output).iter_mut().zip(bytes).for_each(|(to, (a, b))| *to = a & b);
                });
                Ok(())
            }),
            Function::ShiftLeft => match data_type {
                DataType::Int8 => shift(eval, |value| value as i8),
                DataType::Int16 => shift(eval, |value| value as i16),
                _ => shift(eval, |value: i32| value),
            },
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let (shape, data_type) = (lowering.output_shape(0)?.clone(), lowering.input_fact(0)?.data_type);
        let inputs = [lowering.input(0)?, lowering.input(1)?];
        let output = match (data_type, self.function) {
            (DataType::Float32, Function::Combine(combination)) => {
                lowering.map(combined_floats(combination)?, &shape, &inputs)?
            }
            (other, _) if !moves_as_integer(other) => {
                return Err(Unsupported::new(format!("a device does not compute with elements of type {other}")));
            }
            _ => lowering.int_map(self.function.of_integers(data_type), &shape, &inputs)?,
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn both_have_one_shape() {
        let infer = |function, data_type, left: &[usize], right: &[usize]| {
            let [left, right] = [left, right].map(|shape| Fact::new(data_type, shape));
            DEFINITIONS[0].infer(&Binary { function }, &[Some(&left), Some(&right)])
        };
        let sum = Function::Combine(Combination::Sum);
        assert_eq!(
            infer(sum, DataType::Float16, &[2, 3], &[2, 3]).unwrap(),
            [Inferred::new(DataType::Float16, [2, 3])]
        );
        assert!(infer(sum, DataType::Float32, &[2, 3], &[1, 3]).is_err());
        assert!(infer(Function::And, DataType::Float32, &[2], &[2]).is_err());
        assert!(infer(Function::ShiftLeft, DataType::Int64, &[2], &[2]).is_err());
    }
}
