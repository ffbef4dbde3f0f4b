//! PRELU: `x` where it isn't negative, else `x` times a learned slope that broadcasts to the input's shape.

use std::sync::Arc;

use attache_base::{Activation, DataType, Shape};
use attache_gpu_ir::{Binary, Expression, Whole, WholeBinary};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::quantized::elementwise::{self as stored, Finish};
use attache_kernels::quantized::{Multiplier, Stored};
use attache_kernels::{Engine, elementwise};
use attache_model::schema::BuiltinOperator;

use crate::shared::exact::{affine, finished, is_exact};
use crate::shared::quantized::{Affine, is_stored, range};
use crate::shared::support::{arity, one_of, refuse, required, same_type};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::PRELU), versions: 1..=1, parse }];

#[derive(Debug)]
struct Prelu;

fn parse(_: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(Prelu))
}

/// The GPU expression of the input and the slope; NaN counts as not negative.
fn expression() -> Expression {
    let (x, slope) = (Expression::Input(0), Expression::Input(1));
    x.clone().binary(Binary::Less, Expression::Constant(0.0)).select(x.clone().multiply(slope), x)
}

fn broadcasts_to(slope: &Shape, input: &Shape) -> Result<(), OpError> {
    if slope.broadcast(input).as_ref() == Some(input) {
        return Ok(());
    }
    Err(OpError::invalid(format!("slopes of shape {slope} do not broadcast to the input's {input}")))
}

/// The quantized function for these scales.
fn arithmetic([from, slopes]: [Affine; 2], to: Affine, bounds: (i32, i32)) -> stored::Prelu {
    let finish = |factor: f32| Finish { factor: Multiplier::new(factor.into()), zero_point: to.zero_point, bounds };
    stored::Prelu {
        zero_points: [from.zero_point, slopes.zero_point],
        finish: finish(from.scale / to.scale),
        finish_product: finish(from.scale * slopes.scale / to.scale),
    }
}

/// Emits the quantized function.
fn lower_stored(lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
    let scales = [affine(lowering.input_fact(0)?)?, affine(lowering.input_fact(1)?)?];
    let to = lowering.output_fact(0)?;
    let function = arithmetic(scales, affine(to)?, range(to.data_type).map_err(refuse)?);
    let [x, slope] = [0, 1].map(|index| Whole::Input(index).plus(-function.zero_points[index]));
    let is_negative = x.clone().binary(WholeBinary::Less, Whole::Constant(0));
    let product = finished(x.clone().multiply(slope), function.finish_product);
    let operands = [lowering.input(0)?, lowering.input(1)?];
    let shape = lowering.output_shape(0)?.clone();
    let output = lowering.whole_map(is_negative.select(product, finished(x, function.finish)), &shape, &operands)?;
    lowering.output(0, output)
}

fn eval_stored<T: Stored>(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (input, slope, engine) = (eval.input(0)?, eval.input(1)?, Engine::new(eval.parallel));
    let output = &mut eval.outputs[0];
    let from = Affine::new(input.data_type, input.quantization)?;
    let slopes = Affine::new(slope.data_type, slope.quantization)?;
    let to = Affine::new(output.data_type, output.quantization)?;
    let function = arithmetic([from, slopes], to, (T::LEAST, T::MOST));
    let shape = output.shape;
    let (left, right) = ((input.values::<T>()?, &input.shape[..]), (slope.values::<T>()?, &slope.shape[..]));
    stored::binary(engine, function, left, right, (output.values::<T>()?, shape));
    Ok(())
}

impl Op for Prelu {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (input, slope) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, input, &[DataType::Float32, DataType::Int8, DataType::UInt8])?;
        same_type(input, slope)?;
        for fact in [input, slope].into_iter().filter(|fact| is_stored(fact.data_type)) {
            Affine::new(fact.data_type, fact.quantization.as_ref())?;
        }
        if let (Some(slope), Some(input)) = (&slope.shape, &input.shape) {
            broadcasts_to(slope, input)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, slope) = (eval.input(0)?, eval.input(1)?);
        match input.data_type {
            DataType::Int8 => return eval_stored::<i8>(eval),
            DataType::UInt8 => return eval_stored::<u8>(eval),
            _ => {}
        }
        let (engine, output) = (Engine::new(eval.parallel), eval.outputs[0].values()?);
        let (left, right) = ((input.values()?, &input.shape[..]), (slope.values()?, &slope.shape[..]));
        elementwise::binary(engine, elementwise::Binary::Prelu, left, right, (output, input.shape), Activation::None);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
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
