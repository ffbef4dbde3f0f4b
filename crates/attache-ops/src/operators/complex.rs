//! COMPLEX_ABS, IMAG and REAL: the magnitudes and the parts of complex numbers.

use attache_base::{DataType, Element};
use attache_gpu_ir::Expression::{self, Constant as Number, Input};
use attache_gpu_ir::{BinaryOp, UnaryOp};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::elements;
use crate::shared::view::View;
use crate::{Code, Definition, Facts, Input as Declared, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::COMPLEX_ABS),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| Ok(Box::new(MAGNITUDE)),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::IMAG),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| {
            let (single, double) = (|_, imaginary| imaginary, |_, imaginary| imaginary);
            Ok(Box::new(Part { single, double, parts: &[1], device: || Input(0) }))
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::REAL),
        versions: 1..=1,
        inputs: INPUTS,
        parse: |_| {
            let (single, double) = (|real, _| real, |real, _| real);
            Ok(Box::new(Part { single, double, parts: &[0], device: || Input(0) }))
        },
    },
];

const INPUTS: &[Declared] = &[input("input").of(&[DataType::Complex64, DataType::Complex128])];

#[derive(Debug)]
struct Part {
    /// The function of the real and the imaginary part, in 32 bits.
    single: fn(f32, f32) -> f32,
    /// The same function in 64 bits.
    double: fn(f64, f64) -> f64,
    /// The parts that a device computes with: 0 for the real one and 1 for the imaginary one.
    parts: &'static [usize],
    /// The function of these parts.
    device: fn() -> Expression,
}

const MAGNITUDE: Part = Part { single: f32::hypot, double: f64::hypot, parts: &[0, 1], device: magnitude };

/// Returns the expression of the magnitude: `m √(1 + q²)` for the larger part `m` and the quotient `q` of both, so that no
/// square overflows.
fn magnitude() -> Expression {
    let size = |part: usize| Input(part).unary(UnaryOp::Absolute);
    let [larger, smaller] = [BinaryOp::Maximum, BinaryOp::Minimum].map(|function| size(0).binary(function, size(1)));
    let is_smaller = smaller.clone().binary(BinaryOp::Less, larger.clone());
    let quotient = is_smaller.select(smaller.divide(larger.clone()), Number(1.0));
    larger.multiply(Number(1.0).add(quotient.clone().multiply(quotient)).unary(UnaryOp::SquareRoot))
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

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (input, shape) = (lowering.complex_input(0)?, lowering.output_shape(0)?.clone());
        let pairs = lowering.shape(input).clone();
        let mut parts = Vec::with_capacity(2);
        for part in self.parts {
            let values = View::slices(&pairs, shape.rank(), *part, 1).lower(lowering, input)?;
            parts.push(lowering.reshape(values, &shape)?);
        }
        let output = lowering.map((self.device)(), &shape, &parts)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn magnitudes_do_not_overflow() {
        for [real, imaginary] in [[3e30, 4e30], [-3e-30, 4e-30], [0.0, -2.0], [-5.0, 5.0], [0.0, 0.0], [1e38, 1e38]] {
            let (made, expected) = (magnitude().evaluate(&[real, imaginary]), f32::hypot(real, imaginary));
            assert!((made - expected).abs() <= expected * 3e-7, "{real}, {imaginary}: {made}, {expected}");
        }
        assert_eq!(magnitude().evaluate(&[f32::NEG_INFINITY, f32::INFINITY]), f32::INFINITY);
        assert_eq!(magnitude().evaluate(&[1.0, f32::NEG_INFINITY]), f32::INFINITY);
    }

    #[test]
    fn parts_have_half_the_bits() {
        let infer = |data_type| DEFINITIONS[0].infer(&MAGNITUDE, &[Some(&Fact::new(data_type, [2]))]);
        assert_eq!(infer(DataType::Complex64).unwrap(), [Inferred::new(DataType::Float32, [2])]);
        assert_eq!(infer(DataType::Complex128).unwrap(), [Inferred::new(DataType::Float64, [2])]);
        assert!(matches!(infer(DataType::Float32), Err(OpError::Unsupported(_))));
    }
}
