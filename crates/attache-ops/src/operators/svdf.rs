//! SVDF: a filter over features and time, as a product of a matrix over the features and one over the last times.
//!
//! With the input `x`, the weights `A` of the features and `B` of the times, each filter `f` keeps the values `A[f] · x` of the
//! last times in a variable. The output of unit `u` is the activation of `bias[u] + Σ B[f] · kept[f]`, over the `rank` filters
//! of the unit. Source: Nakkiran et al., "Compressing Deep Neural Networks using a Rank-Constrained Topology".
//!
//! Weights may have 8 bits: multiplied by floats that are quantized to bytes, one scale for each row of the batch, or by
//! bytes, with weights over the times and kept values of 16 bits.

use attache_base::{Activation, DataType, Serial, Shape};
use attache_gpu_ir::Expression::{self, Input};
use attache_gpu_ir::{IntExpression, Primitive, ReduceOp, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorRef, Unsupported};
use attache_kernels::Engine;
use attache_kernels::gemm::multiply_row;
use attache_kernels::quantized::{Multiplier, Rounding, Stored};
use attache_model::schema::BuiltinOperator;

use crate::definition::{activation, one_of, positive};
use crate::shared::byte_products::{Bytes, Matrix, dequantized};
use crate::shared::exact::{affine, grid, is_exact, rescaled};
use crate::shared::quantized::QuantizationParameters;
use crate::shared::recurrent::input_shapes;
use crate::shared::steps;
use crate::shared::support::{countable, product, refuse};
use crate::shared::view::View;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SVDF),
    versions: 1..=4,
    inputs: &[
        input("input").of(&[DataType::Float32, DataType::Int8]),
        input("weights_feature").of(&[DataType::Float32, DataType::Int8, DataType::UInt8]),
        input("weights_time"),
        input("bias").optional(),
        input("state"),
    ],
    parse,
}];

/// Index, among the operator's inputs, of the variable with the values of the last times.
const STATE: usize = 4;

#[derive(Debug)]
struct Svdf {
    /// Number of filters of a unit.
    rank: usize,
    activation: Activation,
    /// Whether floats are quantized with a zero point, for products with 8-bit weights.
    is_asymmetric: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_svdfoptions().ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(Svdf {
        rank: positive("rank", options.rank())?,
        activation: activation(options.fused_activation_function())?,
        is_asymmetric: options.asymmetric_quantize_inputs(),
    }))
}

/// Extents of the tensors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extents {
    batches: usize,
    /// Number of features of the input.
    depth: usize,
    filters: usize,
    /// Number of times that a filter keeps.
    times: usize,
    units: usize,
}

/// The arithmetic, selected by the types of input and weights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arithmetic {
    Floats,
    Dynamic,
    Integers,
}

impl Svdf {
    /// Derives the extents from the shapes of the inputs; fails where they do not fit each other.
    fn extents(&self, shapes: [Option<&Shape>; 5]) -> Result<Extents, OpError> {
        let wrong = || OpError::invalid(format!("inputs of shapes {shapes:?} with a rank of {} do not fit", self.rank));
        let list = |index: usize| shapes[index].map(|shape| shape.extents());
        let (Some(&[batches, depth]), Some(&[filters, features]), Some(&[rows, times])) = (list(0), list(1), list(2))
        else {
            return Err(wrong());
        };
        let units = filters / self.rank;
        let kept = filters.checked_mul(times).ok_or_else(wrong)?;
        let fits = features == depth && rows == filters && units * self.rank == filters;
        let has_bias = list(3).is_none_or(|bias| bias == [units]);
        if !fits || !has_bias || list(STATE) != Some(&[batches, kept]) {
            return Err(wrong());
        }
        Ok(Extents { batches, depth, filters, times, units })
    }

    /// Returns the arithmetic; fails where an input does not have the type that the arithmetic requires.
    fn arithmetic(inputs: Facts<'_>) -> Result<Arithmetic, OpError> {
        use DataType::{Float32, Int8, Int16, Int32, UInt8};
        let types = [0, 1].map(|index| inputs.fact(index).data_type);
        let (arithmetic, others) = match types {
            [Float32, Float32] => (Arithmetic::Floats, [Float32, Float32, Float32]),
            [Float32, weights @ (Int8 | UInt8)] => (Arithmetic::Dynamic, [weights, Float32, Float32]),
            [Int8, Int8] => (Arithmetic::Integers, [Int16, Int32, Int16]),
            [input, weights] => {
                return Err(OpError::unsupported(format!("weights of type {weights} with an input of type {input}")));
            }
        };
        for (index, expected) in (2..).zip(others) {
            if let Some(input) = inputs.optional(index) {
                one_of(format_args!("input {index}"), input.data_type, &[expected])?;
            }
        }
        Ok(arithmetic)
    }

    fn activate(&self, x: f32) -> f32 {
        self.activation.bounds().map_or_else(|| x.tanh(), |(low, high)| x.max(low).min(high))
    }

    /// Runs a step in floats. `features` computes the products of the filters and a row of the batch.
    fn run(
        &self,
        eval: &mut Eval<'_>,
        extents: &Extents,
        weights: &[f32],
        features: impl Fn(usize, &mut [f32]),
    ) -> Result<(), OpError> {
        let Extents { filters, times, units, .. } = *extents;
        let mut kept = eval.input(STATE)?.values::<f32>()?.to_vec();
        let bias = eval.optional(3).map(|bias| bias.values::<f32>()).transpose()?;
        let output = eval.outputs[0].values::<f32>()?;
        let mut products = vec![0.0; filters];
        for (batch, (kept, output)) in
            kept.chunks_exact_mut(filters * times).zip(output.chunks_exact_mut(units)).enumerate()
        {
            features(batch, &mut products);
            shift(kept, times, &products);
            for (unit, output) in output.iter_mut().enumerate() {
                let filters = unit * self.rank..(unit + 1) * self.rank;
                let filter = |filter: usize| {
                    let [kept, weights] = [&*kept, weights].map(|values| &values[filter * times..][..times]);
                    kept.iter().zip(weights).map(|(kept, weight)| kept * weight).sum::<f32>()
                };
                let start = bias.map_or(0.0, |bias| bias[unit]);
                *output = self.activate(start + filters.map(filter).sum::<f32>());
            }
        }
        eval.host.set_state(STATE, bytemuck::cast_slice(&kept))
    }

    /// Runs a step in integers. Source: TensorFlow Lite's `EvalIntegerSVDF`.
    fn run_integers(&self, eval: &mut Eval<'_>, extents: &Extents) -> Result<(), OpError> {
        let Extents { depth, filters, times, units, .. } = *extents;
        let affine = |tensor: TensorRef<'_>| QuantizationParameters::new(tensor.data_type, tensor.quantization);
        let [input, weights, over_time, state] = [eval.input(0)?, eval.input(1)?, eval.input(2)?, eval.input(STATE)?];
        let scale = |tensor| Ok::<_, OpError>(affine(tensor)?.scale);
        let made = QuantizationParameters::new(eval.outputs[0].data_type, eval.outputs[0].quantization)?;
        let to_state = Multiplier::new(f64::from(scale(input)? * scale(weights)? / scale(state)?));
        let to_output = Multiplier::new(f64::from(scale(state)? * scale(over_time)? / made.scale));
        let point = affine(input)?.zero_point;
        let (weights, over_time) = (weights.values::<i8>()?, over_time.values::<i16>()?);
        let bias = eval.optional(3).map(|bias| bias.values::<i32>()).transpose()?;
        let mut kept = state.values::<i16>()?.to_vec();
        let rows = input.values::<i8>()?.chunks_exact(depth);
        let outputs = eval.outputs[0].values::<i8>()?.chunks_exact_mut(units);
        for ((kept, input), output) in kept.chunks_exact_mut(filters * times).zip(rows).zip(outputs) {
            let product = |filter: usize| {
                let products = weights[filter * depth..][..depth].iter().zip(input);
                let products = products.map(|(a, b)| i32::from(*a).wrapping_mul(i32::from(*b) - point));
                i16::saturate(to_state.apply(products.fold(0, i32::wrapping_add), Rounding::Twice))
            };
            let products: Vec<i16> = (0..filters).map(product).collect();
            shift(kept, times, &products);
            let per_unit = self.rank * times;
            for (unit, output) in output.iter_mut().enumerate() {
                let [kept, weights] = [&*kept, over_time].map(|values| &values[unit * per_unit..][..per_unit]);
                let products = kept.iter().zip(weights).map(|(a, b)| i32::from(*a) * i32::from(*b));
                let sum = products.fold(bias.map_or(0, |bias| bias[unit]), i32::wrapping_add);
                *output = i8::saturate(to_output.apply(sum, Rounding::Twice).saturating_add(made.zero_point));
            }
        }
        eval.host.set_state(STATE, bytemuck::cast_slice(&kept))
    }
}

impl Svdf {
    /// Emits the values that the filters keep after a step, `[batches, filters, times]`, as the new state. `products` are
    /// those of the filters and the input, `[batches, filters]`.
    fn keep(
        &self,
        lowering: &mut Lowering<'_>,
        extents: &Extents,
        state: ValueId,
        products: ValueId,
    ) -> Result<ValueId, Unsupported> {
        let Extents { batches, filters, times, .. } = *extents;
        let all = Shape::from([batches, filters, times]);
        let state = lowering.reshape(state, &all)?;
        let newest = lowering.reshape(products, &[batches, filters, 1].into())?;
        let kept = match times {
            1 => newest,
            _ => {
                let others = View::slices(&all, 2, 1, times - 1).lower(lowering, state)?;
                lowering.emit(Primitive::Concatenate { axis: 2 }, &[others, newest])?
            }
        };
        let state = lowering.reshape(kept, &[batches, filters * times].into())?;
        lowering.set_state(STATE, state)?;
        Ok(kept)
    }

    /// Emits the sums over the times and the filters of each unit of `weighted`, `[batches, filters, times]`.
    fn sum(&self, lowering: &mut Lowering<'_>, extents: &Extents, weighted: ValueId) -> Result<ValueId, Unsupported> {
        let Extents { batches, times, units, .. } = *extents;
        let rows = lowering.reshape(weighted, &[batches, units, self.rank * times].into())?;
        let sums = lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![2] }, &[rows])?;
        lowering.reshape(sums, &[batches, units].into())
    }

    /// Emits a step in floats. With integers, the products of the filters are rounded to what the state can represent.
    fn lower_floats(&self, lowering: &mut Lowering<'_>, extents: &Extents) -> Result<ValueId, Unsupported> {
        let Extents { batches, filters, times, units, .. } = *extents;
        let stored = lowering.stored_input(STATE)?;
        let grid = if stored.data_type == DataType::Float32 { None } else { Some(grid(stored)?) };
        let (input, matrix) = (lowering.float_input(0)?, steps::weights(lowering, 1)?);
        let mut products = steps::Matrix::new(lowering, matrix)?.times(lowering, input, None)?;
        if let Some(grid) = grid {
            let rounded = grid.dequantize(grid.quantize(Input(0)));
            products = lowering.map(rounded, &[batches, filters].into(), &[products])?;
        }
        let (state, over_time) = (lowering.float_input(STATE)?, steps::weights(lowering, 2)?);
        let kept = self.keep(lowering, extents, state, products)?;
        let all = Shape::from([batches, filters, times]);
        let weighted = lowering.map(Input(0).multiply(Input(1)), &all, &[kept, over_time])?;
        let mut operands = vec![self.sum(lowering, extents, weighted)?];
        let mut sum: Expression = Input(0);
        if lowering.has_input(3) {
            let unit = match grid {
                Some(grid) => grid.scale * affine(lowering.stored_input(2)?)?.scale,
                None => 1.0,
            };
            operands.push(steps::biases(lowering, 3, unit)?);
            sum = sum.add(Input(1));
        }
        // The kernel of integers applies no activation.
        let activation = if grid.is_some() { Activation::None } else { self.activation };
        let output = sum.activation(activation);
        let output = output.ok_or_else(|| Unsupported::new(format!("the fused activation {activation:?}")))?;
        lowering.map(output, &[batches, units].into(), &operands)
    }

    /// Emits a step in integers, which computes what the CPU does.
    fn lower_integers(&self, lowering: &mut Lowering<'_>, extents: &Extents) -> Result<ValueId, Unsupported> {
        let Extents { batches, filters, times, units, .. } = *extents;
        let scale = |index: usize| Ok::<_, Unsupported>(affine(lowering.input_fact(index)?)?.scale);
        let (input, output) = (affine(lowering.input_fact(0)?)?, affine(lowering.output_fact(0)?)?);
        let to_state = Multiplier::new(f64::from(input.scale * scale(1)? / scale(STATE)?));
        let to_output = Multiplier::new(f64::from(scale(STATE)? * scale(2)? / output.scale));
        let output_point = output.zero_point;
        let (data, matrix) = (lowering.input(0)?, lowering.input(1)?);
        let products = steps::Matrix::new(lowering, matrix)?.times_from(lowering, data, None, input.zero_point)?;
        let words = (i16::MIN.into(), i16::MAX.into());
        let rounded = rescaled(IntExpression::Input(0), to_state, Rounding::Twice).clamp(words);
        let products = lowering.int_map(rounded, &[batches, filters].into(), &[products])?;
        let (state, over_time) = (lowering.input(STATE)?, lowering.input(2)?);
        let kept = self.keep(lowering, extents, state, products)?;
        let all = Shape::from([batches, filters, times]);
        let weighted = IntExpression::Input(0).multiply(IntExpression::Input(1));
        let weighted = lowering.int_map(weighted, &all, &[kept, over_time])?;
        let mut operands = vec![self.sum(lowering, extents, weighted)?];
        let mut sum = IntExpression::Input(0);
        if lowering.has_input(3) {
            operands.push(lowering.input(3)?);
            sum = sum.add(IntExpression::Input(1));
        }
        // Clamped before the zero point is added, so that the addition cannot wrap.
        let bounds = (i32::from(i8::MIN) - output_point, i32::from(i8::MAX) - output_point);
        let output = rescaled(sum, to_output, Rounding::Twice).clamp(bounds).plus(output_point);
        lowering.int_map(output, &[batches, units].into(), &operands)
    }
}

/// Drops the oldest of the `times` values that each filter keeps, and appends a new one.
fn shift<T: Copy>(kept: &mut [T], times: usize, products: &[T]) {
    for (kept, product) in kept.chunks_exact_mut(times).zip(products) {
        kept.copy_within(1.., 0);
        kept[times - 1] = *product;
    }
}

impl Operator for Svdf {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let arithmetic = Self::arithmetic(inputs)?;
        if !inputs.fact(STATE).is_variable {
            return Err(OpError::invalid(format!("input {STATE} is no variable")));
        }
        if arithmetic == Arithmetic::Integers && self.activation != Activation::Relu {
            return Err(OpError::unsupported(format!("the fused activation {:?} of bytes; Relu is", self.activation)));
        }
        let data_type = inputs.fact(0).data_type;
        let shapes: [_; 5] = std::array::from_fn(|index| inputs.optional(index).and_then(|input| input.shape.as_ref()));
        if (0..5).any(|index| inputs.optional(index).is_some_and(|input| input.shape.is_none())) {
            return Ok(vec![Inferred::unknown(data_type)]);
        }
        let Extents { batches, units, .. } = self.extents(shapes)?;
        Ok(vec![Inferred::new(data_type, countable([batches, units].into())?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let batches = *(*inputs.first()?)?.first()? as u64;
        let weights = product((*inputs.get(1)?)?).saturating_add(product((*inputs.get(2)?)?));
        Some(batches.saturating_mul(weights))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let shapes = std::array::from_fn(|index| eval.optional(index).map(|input| input.shape));
        let extents = self.extents(shapes)?;
        let Extents { depth, times, .. } = extents;
        if times == 0 {
            return Err(OpError::invalid("it keeps no times"));
        }
        let (input, weights, over_time) = (eval.input(0)?, eval.input(1)?, eval.input(2)?);
        match (input.data_type, weights.data_type) {
            (DataType::Int8, _) => self.run_integers(eval, &extents),
            (_, DataType::Float32) => {
                let (input, weights) = (input.values::<f32>()?, weights.values::<f32>()?);
                self.run(eval, &extents, over_time.values()?, |batch, products| {
                    multiply_row(Engine::new(&Serial), &input[batch * depth..][..depth], weights, products);
                })
            }
            _ => {
                let (matrix, input) = (Matrix::new(&weights)?, input.values::<f32>()?);
                self.run(eval, &extents, &dequantized(&over_time)?, |batch, products| {
                    products.fill(0.0);
                    matrix.add_to(products, &Bytes::new(&input[batch * depth..][..depth], self.is_asymmetric));
                })
            }
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let shapes = input_shapes(lowering)?;
        let shapes = std::array::from_fn(|index| shapes.get(index).copied().flatten());
        let extents = self.extents(shapes).map_err(refuse)?;
        if extents.times == 0 {
            return Err(Unsupported::new("it keeps no times"));
        }
        let output = match is_exact(lowering, 0) {
            true => self.lower_integers(lowering, &extents)?,
            false => self.lower_floats(lowering, &extents)?,
        };
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svdf(rank: usize) -> Svdf {
        Svdf { rank, activation: Activation::Relu, is_asymmetric: false }
    }

    #[test]
    fn shapes_belong_together() {
        let shapes: [Shape; 5] = [[2, 3].into(), [6, 3].into(), [6, 5].into(), [3].into(), [2, 30].into()];
        let of = |rank, shapes: &[Shape; 5]| svdf(rank).extents(shapes.each_ref().map(Some));
        let expected = Extents { batches: 2, depth: 3, filters: 6, times: 5, units: 3 };
        assert_eq!(of(2, &shapes).unwrap(), expected);
        assert!(of(4, &shapes).is_err());
        for index in 0..5 {
            let mut wrong = shapes.clone();
            wrong[index] = [7, 7].into();
            assert!(of(2, &wrong).is_err(), "{index}");
        }
    }

    #[test]
    fn the_oldest_value_is_dropped() {
        let mut kept = [1, 2, 3, 4, 5, 6];
        shift(&mut kept, 3, &[7, 8]);
        assert_eq!(kept, [2, 3, 7, 5, 6, 8]);
    }
}
