//! BITWISE_XOR and RIGHT_SHIFT of integers. The inputs broadcast by NumPy's rules. A shift fills with the sign; a count
//! outside of the type's width shifts by 0 or by the width minus 1.

use attache_base::{DataType, Element};
use attache_graph::{Eval, Inferred, OpError};
use attache_kernels::elementwise::broadcast2;
use attache_model::schema::BuiltinOperator;

use crate::shared::support::broadcast;
use crate::{Code, Definition, Facts, Input, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::BITWISE_XOR),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Bitwise { function: |a, b, _| a ^ b })),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::RIGHT_SHIFT),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Bitwise { function: shift })),
    },
];

const TYPES: [DataType; 6] =
    [DataType::Int8, DataType::UInt8, DataType::Int16, DataType::UInt16, DataType::Int32, DataType::UInt32];
const INPUTS: &[Input] = &[input("x").of(&TYPES), input("y").like(0)];

/// Returns `x` shifted to the right by `count`, which is clamped to the bits of the type.
fn shift(x: i64, count: i64, bits: i64) -> i64 {
    x >> count.clamp(0, bits - 1)
}

#[derive(Debug)]
struct Bitwise {
    /// The function of two elements and the number of bits of their type.
    function: fn(i64, i64, i64) -> i64,
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_clamped() {
        assert_eq!([-1, 0, 2, 99].map(|count| shift(-7, count, 8)), [-7, -7, -2, -1]);
    }

    #[test]
    fn long_integers_are_refused() {
        let facts = [DataType::Int64; 2].map(|data_type| attache_graph::Fact::new(data_type, [2]));
        let bitwise = Bitwise { function: |a, b, _| a ^ b };
        let refused = DEFINITIONS[0].infer(&bitwise, &[Some(&facts[0]), Some(&facts[1])]);
        assert!(matches!(refused, Err(OpError::Unsupported(_))));
    }
}
