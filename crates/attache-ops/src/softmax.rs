//! SOFTMAX: `exp(β × x) / Σ exp(β × x)` over the last axis.

use std::sync::Arc;

use attache_base::{DataType, Shape};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{Primitive, Reduction, Unary};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal, TensorMut};
use attache_kernels::quantized::softmax::{self as stored, WideSoftmax};
use attache_kernels::{Engine, softmax};
use attache_model::schema::BuiltinOperator;

use crate::quantized::{Affine, is_stored, range, require_symmetric};
use crate::support::{arity, is_empty, one_of, refuse, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::SOFTMAX), versions: 1..=4, parse }];

#[derive(Debug)]
struct Softmax {
    beta: f32,
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_softmax_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Arc::new(Softmax { beta: options.beta() }))
}

/// The last axis and its extent.
fn last(shape: &Shape) -> Result<(usize, usize), OpError> {
    let extent = shape.last().ok_or_else(|| OpError::invalid("a scalar has no axis to normalise"))?;
    Ok((shape.rank() - 1, *extent))
}

impl Softmax {
    fn eval_stored(&self, eval: &mut Eval<'_>, depth: usize) -> Result<(), OpError> {
        let (input, engine, output) = (eval.input(0)?, Engine::new(eval.parallel), &mut eval.outputs[0]);
        let from = Affine::new(input.data_type, input.quantization)?;
        check_scale(output)?;
        let scale = f64::from(from.scale) * f64::from(self.beta);
        match input.data_type {
            DataType::Int8 => stored::softmax::<i8>(engine, input.values()?, output.values()?, depth, scale),
            DataType::UInt8 => stored::softmax::<u8>(engine, input.values()?, output.values()?, depth, scale),
            _ => {
                // In float32, as TensorFlow Lite has it.
                let scale = f64::from(from.scale * self.beta);
                let softmax = eval.cache.get_or_make(|| WideSoftmax::new(scale));
                softmax.apply(engine, input.values()?, output.values()?, depth);
            }
        }
        Ok(())
    }
}

/// An error unless the output's scale is the one that probabilities have.
fn check_scale(output: &TensorMut<'_>) -> Result<(), OpError> {
    let Affine { scale, zero_point } = Affine::new(output.data_type, output.quantization)?;
    let (expected, zero) = match output.data_type {
        DataType::Int16 => (1.0 / 32768.0, 0),
        other => (1.0 / 256.0, range(other)?.0),
    };
    if (scale - expected).abs() <= expected * 1e-3 && zero_point == zero {
        return Ok(());
    }
    Err(OpError::unsupported(format!("an output of the scale {scale} and zero point {zero_point}")))
}

impl Op for Softmax {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 1..=1)?;
        let input = required(inputs, 0)?;
        one_of(0, input, &[DataType::Float32, DataType::Int8, DataType::UInt8, DataType::Int16])?;
        if is_stored(input.data_type) {
            require_symmetric(input.data_type, Affine::new(input.data_type, input.quantization.as_ref())?)?;
        }
        if let Some(shape) = &input.shape {
            last(shape)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if is_empty(eval) {
            return Ok(());
        }
        let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
        let (_, depth) = last(input.shape)?;
        if is_stored(input.data_type) {
            return self.eval_stored(eval, depth);
        }
        softmax::softmax(engine, input.values()?, eval.outputs[0].values()?, depth, self.beta);
        Ok(())
    }

    /// `exp(β × (x − max x))`, which can't overflow, over its sum.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let shape = lowering.input_shape(0)?.clone();
        let (axis, _) = last(&shape).map_err(refuse)?;
        let input = lowering.float_input(0)?;
        let fold = |reduction| Primitive::Reduce { reduction, axes: vec![axis] };
        let largest = lowering.emit(fold(Reduction::Maximum), &[input])?;
        let power = Input(0).subtract(Input(1)).multiply(Constant(self.beta)).unary(Unary::Exponential);
        let powers = lowering.map(power, &shape, &[input, largest])?;
        let sum = lowering.emit(fold(Reduction::Sum), &[powers])?;
        let output = lowering.map(Input(0).divide(Input(1)), &shape, &[powers, sum])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scalar_has_no_axis() {
        let infer = |shape: &[usize]| Softmax { beta: 1.0 }.infer(&[Some(&Fact::new(DataType::Float32, shape))]);
        assert!(matches!(infer(&[]), Err(OpError::Invalid(_))));
        assert_eq!(infer(&[2, 3]).unwrap()[0].shape, Some(Shape::from([2, 3])));
    }
}
