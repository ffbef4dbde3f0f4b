//! PRELU: `x` where it isn't negative, else `x` times a learned slope that broadcasts to the input's shape.

use attache_base::{Activation, DataType, Shape};
use attache_gpu_ir::{BinaryOp, Expression, IntBinaryOp, IntExpression};
use attache_graph::{Eval, Inferred, Lowering, OpError, RowUse, Unsupported};
use attache_kernels::quantized::elementwise::{self as stored, Finish};
use attache_kernels::quantized::{Multiplier, Stored};
use attache_kernels::{Engine, elementwise};
use attache_model::schema::BuiltinOperator;

use crate::definition::one_of;
use crate::shared::exact::{affine, finished, is_exact};
use crate::shared::quantized::{QuantizationParameters, is_stored, range};
use crate::shared::support::{refuse, same_type};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::PRELU),
    versions: 1..=1,
    inputs: &[
        input("input").of(&[DataType::Float32, DataType::Int8, DataType::UInt8, DataType::Int16]),
        input("alpha"),
    ],
    parse: |_| Ok(Box::new(Prelu)),
}];

#[derive(Debug)]
struct Prelu;

/// Returns the GPU expression of the input and the slope; NaN counts as not negative.
fn expression() -> Expression {
    let (x, slope) = (Expression::Input(0), Expression::Input(1));
    x.clone().binary(BinaryOp::Less, Expression::Constant(0.0)).select(x.clone().multiply(slope), x)
}

fn broadcasts_to(slope: &Shape, input: &Shape) -> Result<(), OpError> {
    if slope.broadcast(input).as_ref() == Some(input) {
        return Ok(());
    }
    Err(OpError::invalid(format!("slopes of shape {slope} do not broadcast to the input's {input}")))
}

/// Prepares the quantized function for the scales and zero points of the input (`from`), the slopes and the
/// output (`to`), whose elements are clamped to `bounds`.
fn arithmetic(
    [from, slopes]: [QuantizationParameters; 2],
    to: QuantizationParameters,
    bounds: (i32, i32),
) -> stored::Prelu {
    let finish = |factor: f32| Finish { factor: Multiplier::new(factor.into()), zero_point: to.zero_point, bounds };
    stored::Prelu {
        zero_points: [from.zero_point, slopes.zero_point],
        finish: finish(from.scale / to.scale),
        finish_product: finish(from.scale * slopes.scale / to.scale),
    }
}

/// Emits the function on quantized elements as integer primitives.
fn lower_stored(lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
    let scales = [affine(lowering.input_fact(0)?)?, affine(lowering.input_fact(1)?)?];
    let to = lowering.output_fact(0)?;
    let function = arithmetic(scales, affine(to)?, range(to.data_type).map_err(refuse)?);
    let [x, slope] = [0, 1].map(|index| IntExpression::Input(index).plus(-function.zero_points[index]));
    let is_negative = x.clone().binary(IntBinaryOp::Less, IntExpression::Constant(0));
    let product = finished(x.clone().multiply(slope), function.finish_product);
    let operands = [lowering.input(0)?, lowering.input(1)?];
    let shape = lowering.output_shape(0)?.clone();
    let output = lowering.int_map(is_negative.select(product, finished(x, function.finish)), &shape, &operands)?;
    lowering.output(0, output)
}

fn eval_stored<T: Stored>(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let slopes = eval.input(1)?.values::<T>()?;
    eval_with(eval, slopes)
}

/// Evaluates the function on 16-bit elements, whose slopes have 8 bits.
fn eval_words(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let slopes: Vec<i16> = eval.input(1)?.values::<i8>()?.iter().map(|slope| i16::from(*slope)).collect();
    eval_with(eval, &slopes)
}

fn eval_with<T: Stored>(eval: &mut Eval<'_>, slope_values: &[T]) -> Result<(), OpError> {
    let (input, slope, engine) = (eval.input(0)?, eval.input(1)?, Engine::new(eval.parallel));
    let output = &mut eval.outputs[0];
    let from = QuantizationParameters::new(input.data_type, input.quantization)?;
    let slopes = QuantizationParameters::new(slope.data_type, slope.quantization)?;
    let to = QuantizationParameters::new(output.data_type, output.quantization)?;
    let function = stored::IntegerFunction::Prelu(arithmetic([from, slopes], to, (T::LEAST, T::MOST)));
    let shape = output.shape;
    let (left, right) = ((input.values::<T>()?, &input.shape[..]), (slope_values, &slope.shape[..]));
    stored::binary(engine, function, left, right, (output.values::<T>()?, shape));
    Ok(())
}

impl Operator for Prelu {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, slope] = inputs.required();
        match input.data_type {
            DataType::Int16 if cfg!(attache_small) => {
                return Err(OpError::unsupported("the smallest libraries do without INT16"));
            }
            DataType::Int16 => one_of("input 1 (alpha)", slope.data_type, &[DataType::Int8])?,
            _ => same_type(input, slope)?,
        }
        for fact in [input, slope].into_iter().filter(|fact| is_stored(fact.data_type)) {
            QuantizationParameters::new(fact.data_type, fact.quantization.as_ref())?;
        }
        if let (Some(slope), Some(input)) = (&slope.shape, &input.shape) {
            broadcasts_to(slope, input)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    /// True, because `eval` also checks the output's scale.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, slope) = (eval.input(0)?, eval.input(1)?);
        match input.data_type {
            DataType::Int8 => return eval_stored::<i8>(eval),
            DataType::UInt8 => return eval_stored::<u8>(eval),
            DataType::Int16 if !cfg!(attache_small) => return eval_words(eval),
            _ => {}
        }
        let (engine, output) = (Engine::new(eval.parallel), eval.outputs[0].values()?);
        let (left, right) = ((input.values()?, &input.shape[..]), (slope.values()?, &slope.shape[..]));
        elementwise::binary(engine, elementwise::Binary::Prelu, left, right, (output, input.shape), Activation::None);
        Ok(())
    }

    fn row_uses(&self, inputs: Facts<'_>, output: [usize; 4]) -> Option<Vec<RowUse>> {
        RowUse::of_broadcast(&inputs.required::<2>(), &output)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if is_exact(lowering, 0) {
            return lower_stored(lowering);
        }
        let (input, slope) = (lowering.float_input(0)?, lowering.float_input(1)?);
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.map(expression(), &shape, &[input, slope])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_broadcast_to_the_input() {
        let input = Shape::from([2, 3, 4]);
        assert!(broadcasts_to(&[].into(), &input).is_ok());
        assert!(broadcasts_to(&[3, 1].into(), &input).is_ok());
        assert!(broadcasts_to(&[3].into(), &input).is_err());
        assert!(broadcasts_to(&[5, 2, 3, 4].into(), &input).is_err(), "the input does not grow");
    }

    #[test]
    fn only_negative_values_are_scaled() {
        let value = |x| expression().evaluate(&[x, 0.5]);
        assert_eq!([-2.0, 0.0, 2.0].map(value), [-1.0, 0.0, 2.0]);
        assert!(value(f32::NAN).is_nan());
    }
}
