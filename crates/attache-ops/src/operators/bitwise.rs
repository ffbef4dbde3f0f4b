//! BITWISE_XOR and RIGHT_SHIFT of integers. The inputs broadcast by NumPy's rules. A shift fills with the sign; a count
//! outside of the type's width shifts by 0 or by the width minus 1.

use attache_base::{DataType, Element};
use attache_gpu_ir::IntBinaryOp;
use attache_gpu_ir::IntExpression::{self, Constant, Input};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::elementwise::broadcast2;
use attache_model::schema::BuiltinOperator;

use crate::shared::support::broadcast;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::BITWISE_XOR),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Bitwise { function: |a, b, _| a ^ b, on_device: exclusive_or_on_device })),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::RIGHT_SHIFT),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Bitwise { function: shift, on_device: shift_on_device })),
    },
];

const TYPES: [DataType; 6] =
    [DataType::Int8, DataType::UInt8, DataType::Int16, DataType::UInt16, DataType::Int32, DataType::UInt32];
const INPUTS: &[crate::Input] = &[input("x").of(&TYPES), input("y").like(0)];

/// Returns `x` shifted to the right by `count`, which is clamped to the bits of the type.
fn shift(x: i64, count: i64, bits: i64) -> i64 {
    x >> count.clamp(0, bits - 1)
}

fn exclusive_or_on_device(_: DataType) -> IntExpression {
    Input(0).binary(IntBinaryOp::ExclusiveOr, Input(1))
}

/// Returns the expression of [`shift`] for elements of this type.
fn shift_on_device(data_type: DataType) -> IntExpression {
    let bits = data_type.bits().unwrap_or(32) as i32;
    if data_type != DataType::UInt32 {
        return Input(0).binary(IntBinaryOp::ShiftRight, Input(1).clamp((0, bits - 1)));
    }
    // Counts with the highest bit are negative as integers. An element with it gets the zeros that its sign would fill.
    let count = Input(1).less(Constant(0)).select(Constant(31), Input(1).clamp((0, 31)));
    let shifted = Input(0).binary(IntBinaryOp::ShiftRight, count.clone());
    let ones = Constant(i32::MIN).binary(IntBinaryOp::ShiftRight, count).shifted_left(1);
    shifted.binary(IntBinaryOp::And, ones.binary(IntBinaryOp::ExclusiveOr, Constant(-1)))
}

#[derive(Debug)]
struct Bitwise {
    /// The function of two elements and the number of bits of their type.
    function: fn(i64, i64, i64) -> i64,
    /// The function of two elements of a type on a device.
    on_device: fn(DataType) -> IntExpression,
}

impl Bitwise {
    fn run<T: Element + Into<i64>>(&self, eval: &mut Eval<'_>, wrap: fn(i64) -> T) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        let output = &mut eval.outputs[0];
        let shape = output.shape;
        let function = |a: T, b: T| wrap((self.function)(a.into(), b.into(), 8 * size_of::<T>() as i64));
        broadcast2((left.values()?, left.shape), (right.values()?, right.shape), (output.values()?, shape), function);
        Ok(())
    }
}

impl Operator for Bitwise {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [left, right] = inputs.required();
        Ok(vec![Inferred { data_type: left.data_type, shape: broadcast(&[left, right])? }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Int8 => self.run(eval, |value| value as i8),
            DataType::UInt8 => self.run(eval, |value| value as u8),
            DataType::Int16 => self.run(eval, |value| value as i16),
            DataType::UInt16 => self.run(eval, |value| value as u16),
            DataType::UInt32 => self.run(eval, |value| value as u32),
            _ => self.run(eval, |value| value as i32),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let (operands, shape) = ([lowering.input(0)?, lowering.input(1)?], lowering.output_shape(0)?.clone());
        let expression = (self.on_device)(lowering.input_fact(0)?.data_type);
        let output = lowering.int_map(expression, &shape, &operands)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_clamped() {
        assert_eq!([-1, 0, 2, 99].map(|count| shift(-7, count, 8)), [-7, -7, -2, -1]);
    }

    #[test]
    fn devices_shift_as_the_cpu_does() {
        let shifted = |data_type, x: i32, count: i32| shift_on_device(data_type).evaluate(&[x, count]);
        for count in [-5, 0, 1, 7, 30, 31, 32, 1000] {
            assert_eq!(i64::from(shifted(DataType::Int32, -77, count)), shift(-77, count.into(), 32), "{count}");
            assert_eq!(i64::from(shifted(DataType::UInt8, 200, count)), shift(200, count.into(), 8), "{count}");
            let without_sign = shift(u32::MAX.into(), (count as u32).into(), 32);
            assert_eq!(i64::from(shifted(DataType::UInt32, -1, count) as u32), without_sign, "{count}");
        }
    }

    #[test]
    fn long_integers_are_refused() {
        let facts = [DataType::Int64; 2].map(|data_type| attache_graph::Fact::new(data_type, [2]));
        let bitwise = Bitwise { function: |a, b, _| a ^ b, on_device: exclusive_or_on_device };
        let refused = DEFINITIONS[0].infer(&bitwise, &[Some(&facts[0]), Some(&facts[1])]);
        assert!(matches!(refused, Err(OpError::Unsupported(_))));
    }
}
