//! COMPLEX_ABS, IMAG and REAL: the magnitudes and the parts of complex numbers.

use attache_base::{DataType, Element};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::elements;
use crate::{Code, Definition, Facts, Input, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::COMPLEX_ABS),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Part { single: f32::hypot, double: f64::hypot })),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::IMAG),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Part { single: |_, imaginary| imaginary, double: |_, imaginary| imaginary })),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::REAL),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(Part { single: |real, _| real, double: |real, _| real })),
    },
];

const INPUTS: &[Input] = &[input("input").of(&[DataType::Complex64, DataType::Complex128])];

#[derive(Debug)]
struct Part {
    /// The function of the real and the imaginary part, in 32 bits.
    single: fn(f32, f32) -> f32,
    /// The same function in 64 bits.
    double: fn(f64, f64) -> f64,
}

fn run<T: Element>(eval: &mut Eval<'_>, function: fn(T, T) -> T) -> Result<(), OpError> {
    let parts = elements::<T>(eval.input(0)?.bytes)?.chunks_exact(2);
    let outputs = eval.outputs[0].values::<T>()?.iter_mut();
    outputs.zip(parts).for_each(|(output, parts)| *output = function(parts[0], parts[1]));
    Ok(())
}

impl Operator for Part {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let is_double = input.data_type == DataType::Complex128;
        let data_type = if is_double { DataType::Float64 } else { DataType::Float32 };
        Ok(vec![Inferred { data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Complex128 => run(eval, self.double),
            _ => run(eval, self.single),
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn parts_have_half_the_bits() {
        let part = Part { single: f32::hypot, double: f64::hypot };
        let infer = |data_type| DEFINITIONS[0].infer(&part, &[Some(&Fact::new(data_type, [2]))]);
        assert_eq!(infer(DataType::Complex64).unwrap(), [Inferred::new(DataType::Float32, [2])]);
        assert_eq!(infer(DataType::Complex128).unwrap(), [Inferred::new(DataType::Float64, [2])]);
        assert!(matches!(infer(DataType::Float32), Err(OpError::Unsupported(_))));
    }
}
