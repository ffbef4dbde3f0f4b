//! LOG_SOFTMAX: `x - max x - ln Σ exp(x - max x)` over the last axis.

use attache_base::{DataType, Shape};
use attache_gpu_ir::Expression::Input;
use attache_gpu_ir::{IntBinaryOp, IntExpression, Primitive, ReduceOp, UnaryOp};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::Engine;
use attache_kernels::quantized::softmax as stored;
use attache_kernels::quantized::{Rounding, Stored};
use attache_kernels::softmax::log_softmax;
use attache_model::schema::BuiltinOperator;

use crate::shared::exact::{affine, entries, functions, integers, is_exact, rescaled, sum_of_exponentials};
use crate::shared::quantized::{QuantizationParameters, is_stored, range};
use crate::shared::support::refuse;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::LOG_SOFTMAX),
    versions: 1..=2,
    inputs: &[input("logits").of(&[DataType::Float32, DataType::Int8, DataType::UInt8])],
    parse: |_| Ok(Box::new(LogSoftmax)),
}];

#[derive(Debug)]
struct LogSoftmax;

/// Returns the extent of the last axis; fails for a scalar.
fn depth(shape: &Shape) -> Result<usize, OpError> {
    shape.last().copied().ok_or_else(|| OpError::invalid("a scalar has no axis to normalise"))
}

/// Checks that a quantized output has TensorFlow Lite's fixed parameters for logarithms of probabilities: the
/// scale 1/16, and the largest element as the zero point.
fn check_scale(data_type: DataType, output: QuantizationParameters) -> Result<(), OpError> {
    let QuantizationParameters { scale, zero_point } = output;
    if scale == 1.0 / 16.0 && zero_point == range(data_type)?.1 {
        return Ok(());
    }
    Err(OpError::unsupported(format!("an output of the scale {scale} and zero point {zero_point}")))
}

fn eval_stored<T: Stored>(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (input, engine, output) = (eval.input(0)?, Engine::new(eval.parallel), &mut eval.outputs[0]);
    let from = QuantizationParameters::new(input.data_type, input.quantization)?;
    check_scale(output.data_type, QuantizationParameters::new(output.data_type, output.quantization)?)?;
    let function = stored::LogSoftmax::new(from.scale.into());
    function.apply::<T>(engine, input.values()?, output.values()?, depth(input.shape)?);
    Ok(())
}

/// Emits the quantized form: exponentials from a table are summed as integers, and the sum's logarithm is subtracted
/// from rescaled differences of another table.
fn lower_stored(lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
    let (from, to, shape) = (lowering.input_fact(0)?, lowering.output_fact(0)?, lowering.input_shape(0)?.clone());
    check_scale(to.data_type, affine(to)?).map_err(refuse)?;
    let (least, most) = range(to.data_type).map_err(refuse)?;
    let function = stored::LogSoftmax::new(affine(from)?.scale.into());
    let input = lowering.input(0)?;
    let [below, sums] = sum_of_exponentials(lowering, input, shape.rank() - 1, &function.exponentials)?;
    let logarithm = functions::logarithm().emit(lowering, sums)?[0];
    let row_shape = lowering.shape(sums).clone();
    let (factor, bound) = function.least();
    let limit = rescaled(IntExpression::Input(0).plus(i32::MIN), factor, Rounding::Twice);
    let limit = limit.binary(IntBinaryOp::Maximum, IntExpression::Constant(bound));
    let limit = lowering.int_map(limit, &row_shape, &[logarithm])?;
    let mut differences = function.differences().to_vec();
    differences.resize(256, 0);
    let table = integers(lowering, [256], &differences)?;
    let scaled = entries(lowering, table, below)?;
    let digits = IntExpression::Input(0).subtract(IntExpression::Input(1));
    let value = functions::divided_by_power(digits, stored::LogSoftmax::DIGITS).plus(most).clamp((least, most));
    let value = lowering.int_map(value, &shape, &[scaled, logarithm])?;
    let is_above =
        IntExpression::Input(1).binary(IntBinaryOp::Less, IntExpression::Constant(0).subtract(IntExpression::Input(0)));
    let output = is_above.select(IntExpression::Input(2), IntExpression::Constant(least));
    let output = lowering.int_map(output, &shape, &[below, limit, value])?;
    lowering.output(0, output)
}

impl Operator for LogSoftmax {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if is_stored(input.data_type) {
            QuantizationParameters::new(input.data_type, input.quantization.as_ref())?;
        }
        input.shape.as_ref().map(depth).transpose()?;
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
        match input.data_type {
            DataType::Int8 => return eval_stored::<i8>(eval),
            DataType::UInt8 => return eval_stored::<u8>(eval),
            _ => {}
        }
        log_softmax(engine, input.values()?, eval.outputs[0].values()?, depth(input.shape)?);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.input_shape(0)?.clone();
        depth(&shape).map_err(refuse)?;
        if is_exact(lowering, 0) {
            return lower_stored(lowering);
        }
        let (input, axes) = (lowering.float_input(0)?, vec![shape.rank() - 1]);
        let fold = |reduction| Primitive::Reduce { reduction, axes: axes.clone() };
        let largest = lowering.emit(fold(ReduceOp::Maximum), &[input])?;
        let difference = lowering.map(Input(0).subtract(Input(1)), &shape, &[input, largest])?;
        let powers = lowering.map(Input(0).unary(UnaryOp::Exponential), &shape, &[difference])?;
        let sum = lowering.emit(fold(ReduceOp::Sum), &[powers])?;
        let logarithm = Input(1).unary(UnaryOp::Logarithm);
        let output = lowering.map(Input(0).subtract(logarithm), &shape, &[difference, sum])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn a_scalar_has_no_axis() {
        assert!(DEFINITIONS[0].infer(&LogSoftmax, &[Some(&Fact::new(DataType::Float32, []))]).is_err());
        let inferred = DEFINITIONS[0].infer(&LogSoftmax, &[Some(&Fact::new(DataType::Float32, [2, 3]))]).unwrap();
        assert_eq!(inferred, [Inferred::new(DataType::Float32, [2, 3])]);
    }
}
