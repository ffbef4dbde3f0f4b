//! DEQUANTIZE: stored numbers as float32. Implemented for binary16, whose every value float32 holds exactly.

use std::sync::Arc;

use attache_base::DataType;
use attache_gpu_ir::Expression;
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::convert;
use attache_model::schema::BuiltinOperator;

use crate::support::{arity, one_of, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::DEQUANTIZE), versions: 1..=9, parse }];

#[derive(Debug)]
struct Dequantize;

fn parse(_: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(Dequantize))
}

impl Op for Dequantize {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 1..=1)?;
        let input = required(inputs, 0)?;
        one_of(0, input, &[DataType::Float16])?;
        Ok(vec![Inferred { data_type: DataType::Float32, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        convert::f16_to_f32(eval.input(0)?.values()?, eval.outputs[0].values()?);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?.clone());
        let output = lowering.map(Expression::Input(0), &shape, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary16_becomes_float32() {
        let infer = |data_type| Dequantize.infer(&[Some(&Fact::new(data_type, [2, 3]))]);
        assert_eq!(infer(DataType::Float16).unwrap(), [Inferred::new(DataType::Float32, [2, 3])]);
        assert!(matches!(infer(DataType::Int8), Err(OpError::Unsupported(_))));
    }
}
