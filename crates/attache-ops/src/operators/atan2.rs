//! ATAN2: the angle of the point `(x, y)` to the positive x-axis, in radians between −π and π. The inputs `y` and `x` have one
//! shape.

use attache_base::{DataType, Element};
use attache_gpu_ir::{BinaryOp, Expression};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::ATAN2),
    versions: 1..=1,
    inputs: &[input("y").of(&[DataType::Float32, DataType::Float64]).narrow_too(), input("x").like(0).narrow_too()],
    parse: |_| Ok(Box::new(Atan2)),
}];

#[derive(Debug)]
struct Atan2;

fn angles<T: Element>(eval: &mut Eval<'_>, angle: impl Fn(T, T) -> T) -> Result<(), OpError> {
    let (y, x) = (eval.input(0)?.values::<T>()?, eval.input(1)?.values::<T>()?);
    let outputs = eval.outputs[0].values::<T>()?.iter_mut();
    outputs.zip(y.iter().zip(x)).for_each(|(output, (y, x))| *output = angle(*y, *x));
    Ok(())
}

impl Operator for Atan2 {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [y, x] = inputs.required();
        if let (Some(y), Some(x)) = (&y.shape, &x.shape)
            && y != x
        {
            return Err(OpError::invalid(format!("its inputs have the shapes {y} and {x}; they must have one")));
        }
        let shape = y.shape.clone().filter(|_| x.shape.is_some());
        Ok(vec![Inferred { data_type: y.data_type, shape }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Float64 => angles(eval, f64::atan2),
            _ => angles(eval, f32::atan2),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (inputs, shape) = ([lowering.input(0)?, lowering.input(1)?], lowering.output_shape(0)?.clone());
        let angle = Expression::Input(0).binary(BinaryOp::Angle, Expression::Input(1));
        let output = lowering.map(angle, &shape, &inputs)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn both_have_one_shape() {
        let infer = |y: &[usize], x: &[usize]| {
            let [y, x] = [y, x].map(|shape| Fact::new(DataType::Float64, shape));
            DEFINITIONS[0].infer(&Atan2, &[Some(&y), Some(&x)])
        };
        assert_eq!(infer(&[2, 3], &[2, 3]).unwrap(), [Inferred::new(DataType::Float64, [2, 3])]);
        assert!(infer(&[2, 3], &[3]).is_err());
    }
}
