//! ZEROS_LIKE: zeros, as many as the input has elements.

use attache_base::{Constant, DataType};
use attache_gpu_ir::{Expression, IntExpression};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::ZEROS_LIKE),
    versions: 1..=1,
    inputs: &[input("input").of(&[DataType::Float32, DataType::Int32, DataType::Int64])],
    parse: |_| Ok(Box::new(ZerosLike)),
}];

#[derive(Debug)]
struct ZerosLike;

impl Operator for ZerosLike {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        eval.outputs[0].bytes.fill(0);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.output_shape(0)?.clone();
        let output = match lowering.output_fact(0)?.data_type {
            DataType::Float32 => {
                let zero = lowering.constant(Constant::from_values([], &[0.0f32]))?;
                lowering.map(Expression::Input(0), &shape, &[zero])?
            }
            _ => {
                let zero = lowering.constant(Constant::from_values([], &[0i32]))?;
                lowering.int_map(IntExpression::Input(0), &shape, &[zero])?
            }
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn only_three_types_have_zeros() {
        let infer = |data_type| DEFINITIONS[0].infer(&ZerosLike, &[Some(&Fact::new(data_type, [2, 0]))]);
        assert_eq!(infer(DataType::Int64).unwrap(), [Inferred::new(DataType::Int64, [2, 0])]);
        assert!(matches!(infer(DataType::Int8), Err(OpError::Unsupported(_))));
    }
}
