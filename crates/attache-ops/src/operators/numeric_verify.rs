//! NumericVerify: the custom operator that subtracts the floats of a reference from quantized elements, or elements of 16-bit
//! floats. Tools put it into models to see what quantization costs.
//!
//! With the options `log_if_failed` and a `tolerance` of at least 0.1, a difference of more than `tolerance` quantization
//! steps is an error.

use attache_base::DataType;
use attache_gpu_ir::Expression::Input;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::convert;
use attache_model::{FlexMap, FlexScalar};

use crate::shared::dequantized::{lower_stored, write};
use crate::shared::quantized::{Channels, with_stored};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Custom("NumericVerify"),
    versions: 1..=1,
    inputs: &[
        input("input").of(&[DataType::UInt8, DataType::Int8, DataType::Int16, DataType::Float16]),
        input("reference").float(),
    ],
    parse,
}];

/// The least tolerance that is an error to exceed.
const LEAST_TOLERANCE: f32 = 0.1;

#[derive(Debug)]
struct NumericVerify {
    /// The largest difference in quantization steps, where more is an error.
    tolerance: Option<f32>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let bytes = declaration.operator.custom_options.as_deref().ok_or_else(|| declaration.no_options())?;
    let map = FlexMap::read(bytes).ok_or_else(|| OpError::invalid("its options are no map in a FlexBuffer"))?;
    let tolerance = match map.get("tolerance") {
        Some(FlexScalar::Float(value)) => value as f32,
        Some(FlexScalar::Int(value)) => value as f32,
        _ => 0.0,
    };
    let is_failing = match map.get("log_if_failed") {
        Some(FlexScalar::Bool(value)) => value,
        Some(FlexScalar::Int(value)) => value != 0,
        _ => false,
    };
    Ok(Box::new(NumericVerify { tolerance: Some(tolerance).filter(|least| is_failing && *least >= LEAST_TOLERANCE) }))
}

impl Operator for NumericVerify {
    // TensorFlow's QuantizationDebugger states the type of the quantized input.
    fn sets_types(&self) -> bool {
        true
    }

    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, reference] = inputs.required();
        let (Some(shape), Some(other)) = (&input.shape, &reference.shape) else {
            return Ok(vec![Inferred { data_type: DataType::Float32, shape: input.shape.clone() }]);
        };
        if shape.elements() != other.elements() {
            return Err(OpError::invalid(format!("an input of shape {shape} and a reference of shape {other}")));
        }
        if input.data_type != DataType::Float16 {
            Channels::new(input.data_type, input.quantization.as_ref(), shape)?;
        }
        Ok(vec![Inferred::new(DataType::Float32, shape.clone())])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, reference) = (eval.input(0)?, eval.input(1)?.values::<f32>()?);
        match input.data_type {
            DataType::Float16 => convert::f16_to_f32(input.values()?, eval.outputs[0].values()?),
            stored => with_stored!(stored, T => write::<T>(eval, input.values()?)?),
        }
        // Of several scales, TensorFlow Lite compares with the first; 16-bit floats have none.
        let scale = input.quantization.and_then(|quantization| quantization.scale.first().copied()).unwrap_or(0.0);
        let most = self.tolerance.map(|tolerance| tolerance * scale);
        for (index, (real, reference)) in eval.outputs[0].values::<f32>()?.iter_mut().zip(reference).enumerate() {
            let difference = *real - reference;
            if let Some(most) = most.filter(|most| difference.abs() > *most) {
                let reason = format!("element {index} is {real}, the reference {reference}, more than {most} apart");
                return Err(OpError::invalid(reason));
            }
            *real = difference;
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if self.tolerance.is_some() {
            return Err(Unsupported::new("differences that are an error, of which a device cannot tell"));
        }
        let shape = lowering.output_shape(0)?.clone();
        let input = match lowering.input_fact(0)?.data_type {
            DataType::Float16 | DataType::Float32 => lowering.input(0)?,
            _ => lower_stored(lowering)?,
        };
        let reference = lowering.float_input(1)?;
        let reference = lowering.reshape(reference, &shape)?;
        let output = lowering.map(Input(0).subtract(Input(1)), &shape, &[input, reference])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Quantization;
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn the_reference_has_as_many_elements() {
        let quantization = Some(Quantization { scale: vec![0.5], zero_point: vec![0], axis: 0 });
        let input = Fact { quantization, ..Fact::new(DataType::Int8, [2, 3]) };
        let infer = |reference: &[usize]| {
            let reference = Fact::new(DataType::Float32, reference);
            DEFINITIONS[0].infer(&NumericVerify { tolerance: None }, &[Some(&input), Some(&reference)])
        };
        assert_eq!(infer(&[6]).unwrap(), [Inferred::new(DataType::Float32, [2, 3])]);
        assert!(matches!(infer(&[5]), Err(OpError::Invalid(_))));
    }
}
