//! SOFTMAX: `exp(β × x) / Σ exp(β × x)` over the last axis.

use std::sync::Arc;

use attache_base::{DataType, Quantization, Shape};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{Primitive, Reduction, Unary, ValueId, Whole, WholeBinary, WholeRounding};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::quantized::fixed_point::divide_by_power;
use attache_kernels::quantized::functions::{RECIPROCAL_SLOPE, RECIPROCAL_START, RECIPROCAL_STEPS};
use attache_kernels::quantized::softmax::{self as stored, WideSoftmax};
use attache_kernels::{Engine, softmax};
use attache_model::schema::BuiltinOperator;

use crate::exact::{affine, as_reals, as_stored, entries, integers, is_exact};
use crate::quantized::{Affine, is_stored, not_on_devices, range, require_symmetric};
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
        check_scale(output.data_type, output.quantization)?;
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
fn check_scale(data_type: DataType, quantization: Option<&Quantization>) -> Result<(), OpError> {
    let Affine { scale, zero_point } = Affine::new(data_type, quantization)?;
    let (expected, zero) = match data_type {
        DataType::Int16 => (1.0 / 32768.0, 0),
        other => (1.0 / 256.0, range(other)?.0),
    };
    if (scale - expected).abs() <= expected * 1e-3 && zero_point == zero {
        return Ok(());
    }
    Err(OpError::unsupported(format!("an output of the scale {scale} and zero point {zero_point}")))
}

/// Emits the reciprocals of positive sums as the CPU's fixed point has them, and by how many digits a product with them
/// goes to the right for a result of eight.
fn reciprocals(lowering: &mut Lowering<'_>, sums: ValueId) -> Result<[ValueId; 2], Refusal> {
    let shape = lowering.shape(sums).clone();
    let x = || Whole::Input(0);
    let zeros = || Whole::LeadingZeros(Box::new(x()));
    let product = |a: Whole, b: Whole| a.rescale(WholeRounding::Twice, b, Whole::Constant(0));
    // Half of what follows the leading one, and a half: 1 + the rest, over 2.
    let rest = x().binary(WholeBinary::ShiftLeft, zeros()).subtract(Whole::Constant(i32::MIN));
    let half = rest.binary(WholeBinary::Divide, Whole::Constant(2)).plus(1 << 30);
    let half = lowering.whole_map(half, &shape, &[sums])?;
    let start = product(x(), Whole::Constant(RECIPROCAL_SLOPE)).plus(RECIPROCAL_START);
    let mut y = lowering.whole_map(start, &shape, &[half])?;
    for _ in 0..RECIPROCAL_STEPS {
        let rest = Whole::Constant(1 << 29).subtract(product(Whole::Input(1), x()));
        let step = x().add(product(x(), rest).shifted_left(2));
        y = lowering.whole_map(step, &shape, &[y, half])?;
    }
    let fits = x().binary(WholeBinary::Less, Whole::Constant(1 << 30));
    let inverse = lowering.whole_map(fits.select(x().shifted_left(1), Whole::Constant(i32::MAX)), &shape, &[y])?;
    let digits = Whole::Constant(stored::SUM_BITS + 31 - 8).subtract(zeros()).clamp((0, 31));
    Ok([inverse, lowering.whole_map(digits, &shape, &[sums])?])
}

impl Softmax {
    /// Exponentials from a table, summed as integers, and divided by a product with the sum's reciprocal.
    fn lower_stored(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let (from, to, shape) = (lowering.input_fact(0)?, lowering.output_fact(0)?, lowering.input_shape(0)?.clone());
        if from.data_type == DataType::Int16 {
            return Err(not_on_devices());
        }
        let axes = vec![last(&shape).map_err(refuse)?.0];
        check_scale(to.data_type, to.quantization.as_ref()).map_err(refuse)?;
        let bounds = range(to.data_type).map_err(refuse)?;
        let mut exponentials = stored::exponentials(f64::from(affine(from)?.scale) * f64::from(self.beta));
        exponentials.resize(256, 0);
        let parts: Vec<i32> = exponentials.iter().map(|x| divide_by_power(*x, stored::SUM_BITS as u32)).collect();
        let input = lowering.input(0)?;
        let reals = as_reals(lowering, input)?;
        let fold = |reduction| Primitive::Reduce { reduction, axes: axes.clone() };
        let largest = lowering.emit(fold(Reduction::Maximum), &[reals])?;
        let largest = as_stored(lowering, largest)?;
        let below = lowering.whole_map(Whole::Input(1).subtract(Whole::Input(0)), &shape, &[input, largest])?;
        let [exponentials, parts] = [integers(lowering, [256], &exponentials)?, integers(lowering, [256], &parts)?];
        let [powers, parts] = [entries(lowering, exponentials, below)?, entries(lowering, parts, below)?];
        let sums = lowering.emit(fold(Reduction::Sum), &[parts])?;
        let at_least_one = Whole::Input(0).binary(WholeBinary::Maximum, Whole::Constant(1));
        let sum_shape = lowering.shape(sums).clone();
        let sums = lowering.whole_map(at_least_one, &sum_shape, &[sums])?;
        let [inverse, digits] = reciprocals(lowering, sums)?;
        let digits_to_the_left = Whole::Constant(0).subtract(Whole::Input(2));
        let share = Whole::Input(1).rescale(WholeRounding::Twice, Whole::Input(0), digits_to_the_left);
        let output = lowering.whole_map(share.plus(bounds.0).clamp(bounds), &shape, &[powers, inverse, digits])?;
        lowering.output(0, output)
    }
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
        if is_exact(lowering, 0) {
            return self.lower_stored(lowering);
        }
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
