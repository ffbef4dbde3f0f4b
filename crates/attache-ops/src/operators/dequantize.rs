//! DEQUANTIZE: quantized elements to float32: `scale × (stored − zero point)`, with one scale or one for each index of
//! an axis. F16 has no scale: float32 represents each of its values exactly.

use attache_base::{Constant as Values, DataType, Shape};
use attache_gpu_ir::Expression::{self, Constant, Input};
use attache_gpu_ir::IntExpression;
use attache_graph::{Conversion, Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::quantized::Stored;
use attache_kernels::quantized::rescale::dequantize;
use attache_kernels::{Engine, convert};
use attache_model::schema::BuiltinOperator;

use crate::shared::quantized::{Channels, unpack_nibbles};
use crate::shared::support::refuse;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::DEQUANTIZE),
    versions: 1..=9,
    inputs: &[input("input").of(&TYPES)],
    parse: |_| Ok(Box::new(Dequantize)),
}];

/// Supported input types.
const TYPES: [DataType; 5] = [DataType::Float16, DataType::Int8, DataType::UInt8, DataType::Int16, DataType::Int4];

#[derive(Debug)]
struct Dequantize;

fn write<T: Stored>(eval: &mut Eval<'_>, stored: &[T]) -> Result<(), OpError> {
    let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
    let channels = Channels::new(input.data_type, input.quantization, input.shape)?;
    let reals = eval.outputs[0].values::<f32>()?;
    for (range, affine) in channels.runs(stored.len()) {
        dequantize(engine, &stored[range.clone()], &mut reals[range], affine.pair());
    }
    Ok(())
}

/// Emits `scale × (stored − zero point)`. The difference is computed on integers, so that only the product
/// rounds and no device can fuse the two operations.
fn lower_stored(lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
    let (fact, shape) = (lowering.input_fact(0)?, lowering.output_shape(0)?.clone());
    let channels = Channels::new(fact.data_type, fact.quantization.as_ref(), &shape).map_err(refuse)?;
    let input = lowering.input(0)?;
    let output = if let Some(affine) = channels.only() {
        let difference =
            lowering.int_map(IntExpression::Input(0).plus(affine.zero_point.wrapping_neg()), &shape, &[input])?;
        lowering.map(Input(0).multiply(Constant(affine.scale)), &shape, &[difference])?
    } else {
        // Scales and zero points become vectors along their axis, with extent 1 for the axes after it, so
        // that they broadcast.
        let affines = channels.each();
        let behind = fact.quantization.as_ref().map_or(0, |quantization| shape.rank() - 1 - quantization.axis);
        let along: Shape = [affines.len()].into_iter().chain(std::iter::repeat_n(1, behind)).collect();
        let scales: Vec<f32> = affines.iter().map(|affine| affine.scale).collect();
        let points: Vec<i32> = affines.iter().map(|affine| affine.zero_point).collect();
        let scales = lowering.precise_constant(Values::from_values(along.clone(), &scales))?;
        let points = lowering.constant(Values::from_values(along, &points))?;
        let difference =
            lowering.int_map(IntExpression::Input(0).subtract(IntExpression::Input(1)), &shape, &[input, points])?;
        lowering.map(Input(0).multiply(Input(1)), &shape, &[difference, scales])?
    };
    lowering.output(0, output)
}

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
            DataType::Int4 => write(eval, &unpack_nibbles(input.bytes, input.shape.elements())),
            _ => {
                convert::f16_to_f32(input.values()?, eval.outputs[0].values()?);
                Ok(())
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
            _ => return lower_stored(lowering),
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
