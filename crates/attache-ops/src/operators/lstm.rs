//! LSTM: one step of a long short-term memory, in TensorFlow Lite's full form ([`SequenceLstm`]) or in its basic form.
//!
//! The basic form: with `z = weights × [input, activation] + bias` split into the four parts `i`, `g`, `f`, `o`:
//! `state' = σ(f) × state + σ(i) × tanh(g)` and `activation' = σ(o) × tanh(state')`.
//!
//! Outputs: activation', state', `[input, activation]` and `z`. The last two are scratch tensors of the kernel; they
//! are written like the others.

use attache_base::{Activation, DataType, Shape};
use attache_gpu_ir::Expression::Input;
use attache_gpu_ir::{ConvolutionGeometry, Primitive, UnaryOp};
use attache_graph::{Eval, Inferred, Lowering, OpError, TensorRef, Unsupported, WorkingMemory};
use attache_kernels::Engine;
use attache_kernels::elementwise::{Unary, unary, unary_in_place};
use attache_kernels::gemm::{PackedMatrix, gemm};
use attache_kernels::movement::concatenate;
use attache_model::schema::{BuiltinOperator, LSTMKernelType};

use crate::definition::{activation, one_of};
use crate::shared::sequence_lstm::{INPUTS, Layout, SequenceLstm, clip_at};
use crate::shared::support::{countable, product, refuse};
use crate::shared::view::View;
use crate::shared::working::{converted, of_weights, packed};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::LSTM), versions: 1..=4, inputs: INPUTS, parse }];

/// Names of the inputs of the basic form. Those of the full form are declared.
const BASIC: [&str; 5] = ["input", "activation", "weights", "bias", "state"];

/// LSTM with the basic kernel. Inputs: input `[batch, depth]`, activation `[batch, units]`, weights
/// `[4 × units, depth + units]`, bias and state `[batch, units]`.
#[derive(Debug)]
struct Lstm;

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_lstmoptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    match options.kernel_type() {
        LSTMKernelType::BASIC => {}
        LSTMKernelType::FULL => {
            return Ok(Box::new(SequenceLstm {
                activation: activation(options.fused_activation_function())?,
                cell_clip: clip_at(options.cell_clip())?,
                projection_clip: clip_at(options.proj_clip())?,
                layout: Layout::OneStep,
                is_reversed: false,
                is_asymmetric: options.asymmetric_quantize_inputs(),
                intermediates: declaration.intermediates.clone(),
            }));
        }
        other => return Err(OpError::invalid(format!("kernel type {} is neither FULL (0) nor BASIC (1)", other.0))),
    }
    if activation(options.fused_activation_function())? != Activation::Tanh {
        return Err(OpError::unsupported("other activations than tanh are not implemented"));
    }
    if options.cell_clip() != 0.0 || options.proj_clip() != 0.0 {
        return Err(OpError::unsupported("clipping is not implemented"));
    }
    Ok(Box::new(Lstm))
}

/// Extents of the tensors of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extents {
    batches: usize,
    /// Number of features of the input.
    depth: usize,
    units: usize,
}

impl Extents {
    /// Derives the extents from the shapes of the five inputs; fails where the shapes do not fit each other.
    fn new(shapes: [&Shape; 5]) -> Result<Self, OpError> {
        let wrong = || OpError::invalid(format!("inputs of shapes {shapes:?} make no step"));
        let (&[batches, depth], &[_, units]) = (shapes[0].extents(), shapes[1].extents()) else { return Err(wrong()) };
        let (rows, columns) = (units.checked_mul(4).ok_or_else(wrong)?, depth.checked_add(units).ok_or_else(wrong)?);
        let expected = [&[batches, depth][..], &[batches, units], &[rows, columns], &[rows], &[batches, units]];
        if (0..5).any(|index| shapes[index].extents() != expected[index]) {
            return Err(wrong());
        }
        Ok(Self { batches, depth, units })
    }

    /// Returns the shapes of the four outputs.
    fn outputs(&self) -> [Shape; 4] {
        let Self { batches, depth, units } = *self;
        [units, units, depth + units, 4 * units].map(|columns| [batches, columns].into())
    }
}

/// Computes the new activations and the new states of one row of the batch, from the four parts of `z` and the previous
/// states.
fn step(engine: Engine<'_>, z: &[f32], before: &[f32], [activation, state]: [&mut [f32]; 2]) {
    let units = before.len();
    let mut gates = z.to_vec();
    let (first, last) = gates.split_at_mut(2 * units);
    let (input, candidate) = first.split_at_mut(units);
    unary_in_place(engine, Unary::Logistic, input);
    unary_in_place(engine, Unary::Tanh, candidate);
    unary_in_place(engine, Unary::Logistic, last);
    let (forget, output) = last.split_at(units);
    for (unit, state) in state.iter_mut().enumerate() {
        *state = input[unit] * candidate[unit] + forget[unit] * before[unit];
    }
    unary(engine, Unary::Tanh, state, activation);
    activation.iter_mut().zip(output).for_each(|(activation, gate)| *activation *= gate);
}

impl Operator for Lstm {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        if inputs.count() != BASIC.len() {
            return Err(OpError::invalid(format!("{} inputs; it takes {}", inputs.count(), BASIC.len())));
        }
        for (index, name) in BASIC.into_iter().enumerate() {
            let input = inputs.optional(index);
            let input = input.ok_or_else(|| OpError::invalid(format!("input {index} ({name}) is missing")))?;
            one_of(format_args!("input {index} ({name})"), input.data_type, &[DataType::Float32])?;
        }
        let shapes: Vec<_> = inputs.required::<5>().into_iter().filter_map(|input| input.shape.as_ref()).collect();
        let Ok(shapes) = <[&Shape; 5]>::try_from(shapes) else {
            return Ok(vec![Inferred::unknown(DataType::Float32); 4]);
        };
        let outputs = Extents::new(shapes)?.outputs().map(countable);
        outputs.into_iter().map(|shape| Ok(Inferred::new(DataType::Float32, shape?))).collect()
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        // Each row of the batch is multiplied by all weights.
        let (rows, weights) = ((*inputs.first()?)?.first()?, (*inputs.get(2)?)?);
        Some(product(weights).saturating_mul(*rows as u64))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let (input, weights) = (inputs.fact(0), inputs.optional(2)?);
        let shape = weights.shape.as_ref()?;
        let [rows, columns] = [0, 1].map(|axis| shape.get(axis).copied().unwrap_or(0));
        let memory = of_weights(weights, packed(weights.data_type, 1, [rows, columns], columns));
        let input = input.shape.as_ref().map_or(0, converted);
        Some(WorkingMemory { scratch: memory.scratch.saturating_add(input), ..memory })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let inputs = (0..5).map(|index| eval.input(index)).collect::<Result<Vec<_>, _>>()?;
        let shapes = [0, 1, 2, 3, 4].map(|index| inputs[index].shape);
        let Extents { batches, depth, units } = Extents::new(shapes)?;
        let values = |index: usize| inputs[index].values::<f32>();
        let (engine, columns) = (Engine::new(eval.parallel), depth + units);
        let [activation, state, joined, sums] = &mut eval.outputs[..] else {
            return Err(OpError::invalid("it has four outputs"));
        };
        let (joined, sums) = (joined.values::<f32>()?, sums.values::<f32>()?);
        concatenate(engine, &[inputs[0].bytes, inputs[1].bytes], batches, bytemuck::cast_slice_mut(joined));
        let (weights, bias): (&[f32], &[f32]) = (values(2)?, values(3)?);
        let pack = || PackedMatrix::pack(engine.isa, 4 * units, columns, weights, Some(bias));
        let fresh;
        let is_constant = |tensor: &TensorRef<'_>| tensor.is_constant;
        let matrix = match inputs[2..4].iter().all(is_constant) {
            true => eval.cache.get_or_make_for(|| PackedMatrix::parameters(4 * units, columns), pack),
            false => {
                fresh = pack();
                &fresh
            }
        };
        gemm(engine, batches, joined, columns, matrix, sums, 4 * units, (f32::NEG_INFINITY, f32::INFINITY));
        let (activation, state, before) = (activation.values::<f32>()?, state.values::<f32>()?, values(4)?);
        for batch in 0..batches {
            let (row, z) = (batch * units..(batch + 1) * units, batch * 4 * units..(batch + 1) * 4 * units);
            step(engine, &sums[z], &before[row.clone()], [&mut activation[row.clone()], &mut state[row]]);
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let mut shapes = Vec::with_capacity(5);
        for index in 0..5 {
            shapes.push(lowering.input_shape(index)?);
        }
        let shapes = <[&Shape; 5]>::try_from(shapes).map_err(|_| Unsupported::new("it has five inputs"))?;
        let extents = Extents::new(shapes).map_err(refuse)?;
        let Extents { batches, depth, units } = extents;
        let [unit_shape, _, _, sum_shape] = extents.outputs();
        let mut inputs = Vec::with_capacity(5);
        for index in 0..5 {
            inputs.push(lowering.float_input(index)?);
        }
        let joined = lowering.emit(Primitive::Concatenate { axis: 1 }, &inputs[..2])?;
        // The matrix product is emitted as a convolution of 1 × 1 images.
        let image = lowering.reshape(joined, &[batches, 1, 1, depth + units].into())?;
        let filter = lowering.reshape(inputs[2], &[4 * units, 1, 1, depth + units].into())?;
        let whole = [1, 1];
        let product = ConvolutionGeometry {
            strides: whole,
            dilations: whole,
            before: [0, 0],
            output: whole,
            groups: 1,
            transposed: false,
            zero_points: [0, 0],
        };
        let sums = lowering.emit(Primitive::Convolution(product), &[image, filter, inputs[3]])?;
        let sums = lowering.reshape(sums, &sum_shape)?;
        let mut parts = Vec::with_capacity(4);
        for part in 0..4 {
            parts.push(View::slices(&sum_shape, 1, part * units, units).lower(lowering, sums)?);
        }
        let gated = |gate: usize, value| Input(gate).unary(UnaryOp::Logistic).multiply(value);
        let state = gated(0, Input(1).unary(UnaryOp::Tanh)).add(gated(2, Input(3)));
        let state = lowering.map(state, &unit_shape, &[parts[0], parts[1], parts[2], inputs[4]])?;
        let activation = lowering.map(gated(0, Input(1).unary(UnaryOp::Tanh)), &unit_shape, &[parts[3], state])?;
        for (index, value) in [activation, state, joined, sums].into_iter().enumerate() {
            lowering.output(index, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    #[test]
    fn shapes_belong_together() {
        let shapes = [[2, 3].into(), [2, 5].into(), [20, 8].into(), [20].into(), [2, 5].into()];
        let of = |shapes: &[Shape; 5]| Extents::new(shapes.each_ref());
        let extents = of(&shapes).unwrap();
        assert_eq!(extents, Extents { batches: 2, depth: 3, units: 5 });
        assert_eq!(extents.outputs()[3], Shape::from([2, 20]));
        for index in 0..5 {
            let mut wrong = shapes.clone();
            wrong[index] = [7, 7].into();
            assert!(of(&wrong).is_err(), "{index}");
        }
        assert!(of(&[[1, 1].into(), [1, usize::MAX].into(), [1].into(), [1].into(), [1].into()]).is_err());
    }

    #[test]
    fn a_step_by_hand() {
        let (least, most) = (f32::NEG_INFINITY, f32::INFINITY);
        let (mut activation, mut state) = ([9.0; 2], [9.0; 2]);
        let z = [least, most, 3.0, most, most, least, most, 0.0];
        step(Engine::new(&Serial), &z, &[0.5, 0.5], [&mut activation, &mut state]);
        assert_eq!(state, [0.5, 1.0]);
        let expected = [0.5f32.tanh(), 0.5 * 1f32.tanh()];
        assert!(
            activation.iter().zip(expected).all(|(value, expected)| (value - expected).abs() < 1e-6),
            "{activation:?}"
        );
    }
}
