//! DEQUANTIZE: quantized elements to float32: `scale × (stored − zero point)`, with one scale or one for each index of
//! an axis. F16 has no scale: float32 represents each of its values exactly.

use attache_base::{DataType, small_integers};
use attache_gpu_ir::Expression;
use attache_graph::{Conversion, Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::convert;
use attache_model::schema::BuiltinOperator;

use crate::shared::dequantized::{lower_stored, write};
use crate::shared::quantized::Channels;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::DEQUANTIZE),
    versions: 1..=9,
    inputs: &[input("input").of(&TYPES)],
    parse: |_| Ok(Box::new(Dequantize)),
}];

/// Supported input types.
const TYPES: [DataType; 7] = [
    DataType::Float16,
    DataType::Int8,
    DataType::UInt8,
    DataType::Int16,
    DataType::Int4,
    DataType::UInt4,
    DataType::Int2,
];

#[derive(Debug)]
struct Dequantize;

impl Operator for Dequantize {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if let (Some(shape), true) = (&input.shape, input.data_type != DataType::Float16) {
            Channels::new(input.data_type, input.quantization.as_ref(), shape)?;
        }
        Ok(vec![Inferred { data_type: DataType::Float32, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        match input.data_type {
            DataType::Int8 => write::<i8>(eval, input.values()?),
            DataType::UInt8 => write::<u8>(eval, input.values()?),
            DataType::Int16 => write::<i16>(eval, input.values()?),
            DataType::Float16 => {
                convert::f16_to_f32(input.values()?, eval.outputs[0].values()?);
                Ok(())
            }
            small => {
                let stored = small_integers::unpack(small, input.bytes, input.shape.elements());
                write(eval, &stored.ok_or_else(|| OpError::unsupported(format!("numbers of type {small}")))?)
            }
        }
    }

    fn conversion(&self) -> Option<Conversion> {
        Some(Conversion::ToReal)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let fact = lowering.input_fact(0)?;
        let unequal = || Unsupported::new("a constant whose scales do not fit its shape");
        let input = match (&fact.constant, &fact.quantization) {
            (Some(stored), Some(quantization)) => {
                lowering.constant(quantization.dequantized(stored).ok_or_else(unequal)?)?
            }
            _ if matches!(fact.data_type, DataType::Float16 | DataType::Float32) => lowering.input(0)?,
            _ => {
                let output = lower_stored(lowering)?;
                return lowering.output(0, output);
            }
        };
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.map(Expression::Input(0), &shape, &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Quantization;
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn stored_numbers_and_binary16_become_float32() {
        let infer = |data_type, scale: &[f32]| {
            let quantization = Quantization { scale: scale.to_vec(), zero_point: vec![0; scale.len()], axis: 1 };
            let input = Fact { quantization: Some(quantization), ..Fact::new(data_type, [2, 3]) };
            DEFINITIONS[0].infer(&Dequantize, &[Some(&input)])
        };
        let expected = [Inferred::new(DataType::Float32, [2, 3])];
        assert_eq!(infer(DataType::Float16, &[]).unwrap(), expected);
        assert_eq!(infer(DataType::Int8, &[0.5]).unwrap(), expected);
        assert_eq!(infer(DataType::Int4, &[0.5, 1.0, 2.0]).unwrap(), expected);
        assert!(matches!(infer(DataType::Int8, &[0.5, 1.0]), Err(OpError::Invalid(_))));
        assert!(matches!(infer(DataType::Int8, &[0.5, f32::NAN, 1.0]), Err(OpError::Invalid(_))));
        assert!(matches!(infer(DataType::Int64, &[0.5]), Err(OpError::Unsupported(_))));
        assert!(DEFINITIONS[0].infer(&Dequantize, &[Some(&Fact::new(DataType::Int8, [2]))]).is_err());
    }
}
