//! SOFTMAX: `exp(β × x) / Σ exp(β × x)` over the last axis.

use attache_base::{DataType, Quantization, Shape};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{IntBinaryOp, IntExpression, IntRounding, Primitive, ReduceOp, UnaryOp};
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorMut, TensorRef, Unsupported};
use attache_kernels::quantized::softmax as stored;
use attache_kernels::quantized::{Rounding, Stored};
use attache_kernels::{Engine, softmax};
use attache_model::schema::BuiltinOperator;
use half::f16;

use crate::shared::exact::{
    affine, below_largest, entries, functions, integers, is_exact, look_up, rescaled, sum_of_exponentials,
};
use crate::shared::quantized::{QuantizationParameters, is_stored, range, require_symmetric};
use crate::shared::support::refuse;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SOFTMAX),
    versions: 1..=4,
    inputs: &[input("logits").of(TYPES)],
    parse,
}];

/// Supported element types; the smallest libraries do without the last one.
const TYPES: &[DataType] = {
    const ALL: &[DataType] = &[DataType::Float32, DataType::Int8, DataType::UInt8, DataType::Int16, DataType::Float16];
    if cfg!(attache_small) { ALL.split_at(4).0 } else { ALL }
};

#[derive(Debug)]
struct Softmax {
    beta: f32,
    /// The type of the output: that of the input, or int16 for an input of 8 bits.
    to: DataType,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_softmax_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let output = declaration.outputs.first().ok_or_else(|| OpError::invalid("it has no output"))?;
    Ok(Box::new(Softmax { beta: options.beta(), to: output.data_type }))
}

/// Returns the last axis and its extent; fails for a scalar.
fn last(shape: &Shape) -> Result<(usize, usize), OpError> {
    let extent = shape.last().ok_or_else(|| OpError::invalid("a scalar has no axis to normalise"))?;
    Ok((shape.rank() - 1, *extent))
}

impl Softmax {
    fn eval_stored(&self, eval: &mut Eval<'_>, depth: usize) -> Result<(), OpError> {
        let (input, engine, output) = (eval.input(0)?, Engine::new(eval.parallel), &mut eval.outputs[0]);
        let from = QuantizationParameters::new(input.data_type, input.quantization)?;
        check_scale([input.data_type, output.data_type], output.quantization)?;
        if input.data_type != DataType::Int16 {
            let scale = f64::from(from.scale) * f64::from(self.beta);
            let exponentials = eval.cache.get_or_make(|| stored::exponentials(scale));
            return match (input.data_type, output.data_type) {
                (DataType::Int8, DataType::Int8) => softmax_of::<i8, i8>(engine, &input, output, depth, exponentials),
                (DataType::UInt8, DataType::UInt8) => softmax_of::<u8, u8>(engine, &input, output, depth, exponentials),
                (DataType::Int8, _) => softmax_of::<i8, i16>(engine, &input, output, depth, exponentials),
                _ => softmax_of::<u8, i16>(engine, &input, output, depth, exponentials),
            };
        }
        // This product is computed in float32, like in TensorFlow Lite.
        let scale = f64::from(from.scale * self.beta);
        let softmax = eval.cache.get_or_make(|| stored::Int16Softmax::new(scale));
        softmax.apply(engine, input.values()?, output.values()?, depth);
        Ok(())
    }
}

fn softmax_of<T: Stored, O: Stored>(
    engine: Engine,
    input: &TensorRef<'_>,
    output: &mut TensorMut<'_>,
    depth: usize,
    exponentials: &[i32],
) -> Result<(), OpError> {
    stored::softmax::<T, O>(engine, input.values()?, output.values()?, depth, exponentials);
    Ok(())
}

/// Computes rows of F16 in float32, like TensorFlow Lite: the powers are rounded before they are divided by their sum, but not
/// before they are added to it.
fn softmax_of_halves(input: &[f16], output: &mut [f16], depth: usize, beta: f32) {
    for (input, output) in input.chunks_exact(depth).zip(output.chunks_exact_mut(depth)) {
        let largest = input.iter().fold(f32::MIN, |largest, x| largest.max(x.to_f32()));
        let mut sum = 0.0;
        for (power, x) in output.iter_mut().zip(input) {
            let exact = ((x.to_f32() - largest) * beta).exp();
            sum += exact;
            *power = f16::from_f32(exact);
        }
        output.iter_mut().for_each(|power| *power = f16::from_f32(power.to_f32() / sum));
    }
}

/// Checks that a quantized output has TensorFlow Lite's fixed scale and zero point for probabilities. `types` are those of
/// the input and of the output.
fn check_scale(types: [DataType; 2], quantization: Option<&Quantization>) -> Result<(), OpError> {
    let QuantizationParameters { scale, zero_point } = QuantizationParameters::new(types[1], quantization)?;
    let (expected, zero) = match types {
        [DataType::Int16, _] => (1.0 / 32768.0, 0),
        [_, DataType::Int16] => (1.0 / 65536.0, i16::MIN.into()),
        [_, other] => (1.0 / 256.0, range(other)?.0),
    };
    if (scale - expected).abs() <= expected * 1e-3 && zero_point == zero {
        return Ok(());
    }
    Err(OpError::unsupported(format!("an output of the scale {scale} and zero point {zero_point}")))
}

impl Softmax {
    /// Emits the quantized form: exponentials from a table are summed as integers, then multiplied by the sum's
    /// reciprocal.
    fn lower_stored(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (from, to, shape) = (lowering.input_fact(0)?, lowering.output_fact(0)?, lowering.input_shape(0)?.clone());
        let axis = last(&shape).map_err(refuse)?.0;
        check_scale([from.data_type, to.data_type], to.quantization.as_ref()).map_err(refuse)?;
        if from.data_type == DataType::Int16 {
            return self.lower_int16(lowering, affine(from)?, axis);
        }
        let bounds = range(to.data_type).map_err(refuse)?;
        let bits = 8 * to.data_type.byte_size(1).unwrap_or(1) as i32;
        let mut exponentials = stored::exponentials(f64::from(affine(from)?.scale) * f64::from(self.beta));
        let input = lowering.input(0)?;
        let [below, sums] = sum_of_exponentials(lowering, input, axis, &exponentials)?;
        exponentials.resize(256, 0);
        let exponentials = integers(lowering, [256], &exponentials)?;
        let (powers, sum_shape) = (entries(lowering, exponentials, below)?, lowering.shape(sums).clone());
        let reciprocal = functions::reciprocal().emit(lowering, sums)?;
        let (inverse, zeros) = (reciprocal[0], reciprocal[1]);
        let digits =
            IntExpression::Constant(stored::SUM_BITS + 31 - bits).subtract(IntExpression::Input(0)).clamp((0, 31));
        let digits = lowering.int_map(digits, &sum_shape, &[zeros])?;
        let digits_to_the_left = IntExpression::Constant(0).subtract(IntExpression::Input(2));
        let share = IntExpression::Input(1).rescale(IntRounding::Twice, IntExpression::Input(0), digits_to_the_left);
        let output = lowering.int_map(share.plus(bounds.0).clamp(bounds), &shape, &[powers, inverse, digits])?;
        lowering.output(0, output)
    }
}

impl Softmax {
    /// Emits the 16-bit form: exponentials and the reciprocals of their sums are looked up in tables.
    fn lower_int16(
        &self,
        lowering: &mut Lowering<'_>,
        from: QuantizationParameters,
        axis: usize,
    ) -> Result<(), Unsupported> {
        let function = stored::Int16Softmax::new((from.scale * self.beta).into());
        let (input, shape, types) = (lowering.input(0)?, lowering.input_shape(0)?.clone(), [DataType::Int16; 2]);
        let below = below_largest(lowering, input, axis)?;
        let most = i32::from(i16::MAX);
        let difference =
            rescaled(IntExpression::Constant(0).subtract(IntExpression::Input(0)), function.factor(), Rounding::Twice);
        let place = difference.clamp((-2 * most - 1, 0)).plus(most);
        let place = lowering.int_map(place, &shape, &[below])?;
        let powers = look_up(lowering, place, types, |place| function.exponential(place as i16).into())?;
        let sums = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![axis] }, &[powers])?;
        let row_shape = lowering.shape(sums).clone();
        let at_least_one = IntExpression::Input(0).binary(IntBinaryOp::Maximum, IntExpression::Constant(1));
        let sums = lowering.int_map(at_least_one, &row_shape, &[sums])?;
        let zeros =
            lowering.int_map(IntExpression::LeadingZeros(Box::new(IntExpression::Input(0))), &row_shape, &[sums])?;
        // The 16 bits after the leading one of each sum, rounded, less 2¹⁵: the index into the table of
        // reciprocals.
        let digits = IntExpression::Input(0).binary(IntBinaryOp::ShiftLeft, IntExpression::Input(1).plus(-1));
        let digits = digits.binary(IntBinaryOp::Divide, IntExpression::Constant(1 << 13)).plus(1);
        let place = digits.binary(IntBinaryOp::Divide, IntExpression::Constant(2)).plus(-(1 << 15) - (1 << 16));
        let place = lowering.int_map(place.clamp((-most - 1, most)), &row_shape, &[sums, zeros])?;
        let inverse = look_up(lowering, place, types, |place| function.inverse(place as i16).into())?;
        // A mantissa of 2³⁰ and an exponent of 1 are a factor of 1, so this factor is 2^(leading zeros − 31).
        let product = IntExpression::Input(0).multiply(IntExpression::Input(1));
        let share =
            product.rescale(IntRounding::Once, IntExpression::Constant(1 << 30), IntExpression::Input(2).plus(-30));
        let output = lowering.int_map(share.clamp((0, most)), &shape, &[powers, inverse, zeros])?;
        lowering.output(0, output)
    }
}

impl Operator for Softmax {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if is_stored(input.data_type) {
            require_symmetric(
                input.data_type,
                QuantizationParameters::new(input.data_type, input.quantization.as_ref())?,
            )?;
        }
        if let Some(shape) = &input.shape {
            last(shape)?;
        }
        let is_wider = self.to == DataType::Int16 && matches!(input.data_type, DataType::Int8 | DataType::UInt8);
        let data_type = if is_wider { self.to } else { input.data_type };
        Ok(vec![Inferred { data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
        let (_, depth) = last(input.shape)?;
        if is_stored(input.data_type) {
            return self.eval_stored(eval, depth);
        }
        if input.data_type == DataType::Float16 && !cfg!(attache_small) {
            softmax_of_halves(input.values()?, eval.outputs[0].values()?, depth, self.beta);
            return Ok(());
        }
        softmax::softmax(engine, input.values()?, eval.outputs[0].values()?, depth, self.beta);
        Ok(())
    }

    /// Emits `exp(β × (x − max x))`, which cannot overflow, divided by its sum over the axis.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shape = lowering.input_shape(0)?.clone();
        let (axis, _) = last(&shape).map_err(refuse)?;
        if is_exact(lowering, 0) {
            return self.lower_stored(lowering);
        }
        let input = lowering.float_input(0)?;
        let fold = |reduction| Primitive::Reduce { reduction, axes: vec![axis] };
        let largest = lowering.emit(fold(ReduceOp::Maximum), &[input])?;
        let power = Input(0).subtract(Input(1)).multiply(Constant(self.beta)).unary(UnaryOp::Exponential);
        let powers = lowering.map(power, &shape, &[input, largest])?;
        let sum = lowering.emit(fold(ReduceOp::Sum), &[powers])?;
        let output = lowering.map(Input(0).divide(Input(1)), &shape, &[powers, sum])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn a_scalar_has_no_axis() {
        let infer = |shape: &[usize]| {
            DEFINITIONS[0]
                .infer(&Softmax { beta: 1.0, to: DataType::Float32 }, &[Some(&Fact::new(DataType::Float32, shape))])
        };
        assert!(matches!(infer(&[]), Err(OpError::Invalid(_))));
        assert_eq!(infer(&[2, 3]).unwrap()[0].shape, Some(Shape::from([2, 3])));
    }
}
