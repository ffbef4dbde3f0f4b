//! L2_NORMALIZATION: `x / max(√Σ x², ε)` over the last axis, with TensorFlow Lite's `ε` of 10⁻⁶.

use attache_base::{Activation, DataType, Shape};
use attache_gpu_ir::Expression::{Constant, Input};
use attache_gpu_ir::{BinaryOp, IntExpression, IntRounding, Primitive, ReduceOp, UnaryOp};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::quantized::functions::inverse_square_root;
use attache_kernels::quantized::{Multiplier, Rounding, Stored};
use attache_kernels::{Engine, elementwise};
use attache_model::schema::BuiltinOperator;

use crate::definition::activation;
use crate::shared::exact::{affine, functions, is_exact};
use crate::shared::fused;
use crate::shared::quantized::{QuantizationParameters, is_stored, range};
use crate::shared::support::refuse;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::L2_NORMALIZATION),
    versions: 1..=2,
    inputs: &[input("input").of(&[DataType::Float32, DataType::Int8, DataType::UInt8])],
    parse,
}];

/// Minimum of the norm by which a row is divided.
const EPSILON: f32 = 1e-6;

#[derive(Debug)]
struct L2Normalization {
    activation: Activation,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_l2_norm_options();
    let fused = options.map(|options| activation(options.fused_activation_function())).transpose()?;
    Ok(Box::new(L2Normalization { activation: fused.unwrap_or(Activation::None) }))
}

/// Returns the extent of the last axis; fails for a scalar.
fn depth(shape: &Shape) -> Result<usize, OpError> {
    shape.last().copied().ok_or_else(|| OpError::invalid("a scalar has no axis to normalise"))
}

fn normalize(input: &[f32], output: &mut [f32], depth: usize) {
    for (row, output) in input.chunks_exact(depth).zip(output.chunks_exact_mut(depth)) {
        let squares: f32 = row.iter().map(|x| x * x).sum();
        let root = squares.sqrt();
        // Unlike `f32::max`, this comparison keeps NaN.
        let norm = if root < EPSILON { EPSILON } else { root };
        output.iter_mut().zip(row).for_each(|(y, x)| *y = x / norm);
    }
}

/// Returns the middle of the type's range, 0 for INT8 and 128 for UINT8. Fails unless it is the zero point of
/// the quantized output and the output's scale is 1/128.
fn middle(data_type: DataType, output: QuantizationParameters) -> Result<i32, OpError> {
    let (least, most) = range(data_type)?;
    let middle = (least + most + 1) / 2;
    if output == (QuantizationParameters { scale: 1.0 / 128.0, zero_point: middle }) {
        return Ok(middle);
    }
    Err(OpError::unsupported("an output whose scale is not 1/128 around the middle of the type"))
}

fn eval_stored<T: Stored>(eval: &mut Eval<'_>) -> Result<(), OpError> {
    let (input, output) = (eval.input(0)?, &mut eval.outputs[0]);
    let zero_point = QuantizationParameters::new(input.data_type, input.quantization)?.zero_point;
    let middle = middle(output.data_type, QuantizationParameters::new(output.data_type, output.quantization)?)?;
    let depth = depth(input.shape)?;
    let rows = input.values::<T>()?.chunks_exact(depth).zip(output.values::<T>()?.chunks_exact_mut(depth));
    for (row, output) in rows {
        let difference = |x: &T| (*x).into() - zero_point;
        let squares = row.iter().fold(0i32, |sum, x| sum.wrapping_add(difference(x) * difference(x)));
        let inverse = inverse_square_root(squares);
        for (value, x) in output.iter_mut().zip(row) {
            // TensorFlow Lite's kernels for UINT8 and INT8 apply the output's scale at different places, and
            // so round at different places.
            let scaled = match T::LEAST {
                0 => inverse.apply(128 * difference(x), Rounding::Twice),
                _ => Multiplier { exponent: inverse.exponent + 7, ..inverse }.apply(difference(x), Rounding::Twice),
            };
            *value = T::saturate(middle + scaled);
        }
    }
    Ok(())
}

/// Emits the normalization of quantized elements: the sum of squares and its inverse square root are integers.
fn lower_stored(lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
    let (fact, to) = (lowering.input_fact(0)?, lowering.output_fact(0)?);
    let (middle, bounds) = (middle(to.data_type, affine(to)?).map_err(refuse)?, range(to.data_type).map_err(refuse)?);
    let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?.clone());
    let axes = vec![shape.rank().saturating_sub(1)];
    let (x, zero_point) = (|| IntExpression::Input(0), affine(fact)?.zero_point);
    let differences = lowering.int_map(x().plus(-zero_point), &shape, &[input])?;
    let squares = lowering.int_map(x().multiply(x()), &shape, &[differences])?;
    let sums = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes }, &[squares])?;
    let inverse = functions::inverse_square_root().emit(lowering, sums)?;
    let scaled = match fact.data_type {
        DataType::UInt8 => {
            x().shifted_left(7).rescale(IntRounding::Twice, IntExpression::Input(1), IntExpression::Input(2))
        }
        _ => x().rescale(IntRounding::Twice, IntExpression::Input(1), IntExpression::Input(2).plus(7)),
    };
    let output = lowering.int_map(scaled.plus(middle).clamp(bounds), &shape, &[differences, inverse[0], inverse[1]])?;
    lowering.output(0, output)
}

impl Operator for L2Normalization {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if is_stored(input.data_type) {
            QuantizationParameters::new(input.data_type, input.quantization.as_ref())?;
        }
        input.shape.as_ref().map(depth).transpose()?;
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (engine, input) = (Engine::new(eval.parallel), eval.input(0)?);
        match input.data_type {
            DataType::Int8 => return eval_stored::<i8>(eval),
            DataType::UInt8 => return eval_stored::<u8>(eval),
            _ => {}
        }
        let output = eval.outputs[0].values()?;
        normalize(input.values()?, output, depth(input.shape)?);
        let (low, high) = fused::clamp(self.activation);
        elementwise::unary_in_place(engine, elementwise::Unary::Clamp(low, high), output);
        fused::finish(engine, self.activation, output);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if is_exact(lowering, 0) {
            return lower_stored(lowering);
        }
        let (input, shape) = (lowering.float_input(0)?, lowering.output_shape(0)?.clone());
        let squares = lowering.map(Input(0).multiply(Input(0)), &shape, &[input])?;
        let axes = vec![shape.rank().saturating_sub(1)];
        let sum = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes }, &[squares])?;
        let norm = Input(1).unary(UnaryOp::SquareRoot).binary(BinaryOp::Maximum, Constant(EPSILON));
        let result = lowering.map(Input(0).divide(norm), &shape, &[input, sum])?;
        let output = fused::lower(lowering, self.activation, result)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_get_length_one() {
        let mut output = [0.0; 6];
        normalize(&[3.0, 4.0, 0.0, 0.0, 1e-8, 0.0], &mut output, 2);
        assert_eq!(output, [0.6, 0.8, 0.0, 0.0, 0.01, 0.0]);
        assert!(depth(&Shape::default()).is_err());
        let mut output = [0.0; 2];
        normalize(&[f32::NAN, 1.0], &mut output, 2);
        assert!(output.iter().all(|value| value.is_nan()));
    }
}
