//! BIDIRECTIONAL_SEQUENCE_RNN: recurrent units that run over a sequence forward, and others that run backward. The outputs of
//! both are two tensors, or are joined along the last axis.

use attache_base::{DataType, Shape};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::definition::activation;
use crate::shared::recurrent::{Extents, Places, Recurrent, input_shapes};
use crate::shared::sequence_lstm::Layout;
use crate::shared::support::{countable, product, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BIDIRECTIONAL_SEQUENCE_RNN),
    versions: 1..=3,
    inputs: &[
        input("input"),
        input("fw_weights"),
        input("fw_recurrent_weights"),
        input("fw_bias"),
        input("fw_hidden_state"),
        input("bw_weights"),
        input("bw_recurrent_weights"),
        input("bw_bias"),
        input("bw_hidden_state"),
        input("aux_input").optional(),
        input("fw_aux_weights").optional(),
        input("bw_aux_weights").optional(),
    ],
    parse,
}];

/// Index of the second input, and of its weights in both directions.
const AUXILIARY: usize = 9;

#[derive(Debug)]
struct BidirectionalRnn {
    recurrent: Recurrent,
    /// Whether the outputs of both directions are one tensor.
    is_merged: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_bidirectional_sequence_rnnoptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(BidirectionalRnn {
        recurrent: Recurrent {
            activation: activation(options.fused_activation_function())?,
            layout: Layout::of_sequence(options.time_major()),
            is_asymmetric: options.asymmetric_quantize_inputs(),
        },
        is_merged: options.merge_outputs(),
    }))
}

impl BidirectionalRnn {
    /// Returns the inputs of both directions. What runs backward is a second input without weights of its own if the first
    /// axis is time; otherwise, TensorFlow Lite's kernels leave that input out.
    fn places(&self, is_there: impl Fn(usize) -> bool) -> Result<[Places; 2], OpError> {
        let weights = [1, 2].map(|direction| is_there(AUXILIARY + direction));
        if weights[0] != weights[1] || weights[0] && !is_there(AUXILIARY) {
            return Err(OpError::invalid("it has a part of a second input and its weights for both directions"));
        }
        let is_apart = is_there(AUXILIARY) && !weights[0] && self.recurrent.layout == Layout::TimeMajor;
        let auxiliary = |direction: usize| weights[0].then_some([AUXILIARY, AUXILIARY + direction]);
        let forward = Places {
            input: 0,
            weights: 1,
            recurrent: 2,
            bias: 3,
            state: 4,
            auxiliary: auxiliary(1),
            is_reversed: false,
        };
        let backward = Places {
            input: if is_apart { AUXILIARY } else { 0 },
            weights: 5,
            recurrent: 6,
            bias: 7,
            state: 8,
            auxiliary: auxiliary(2),
            is_reversed: true,
        };
        Ok([forward, backward])
    }

    /// Returns the extents of both directions, which run over the same rows.
    fn extents(&self, places: &[Places; 2], shapes: &[Option<&Shape>]) -> Result<[Extents; 2], OpError> {
        let [forward, backward] = [&places[0], &places[1]].map(|places| places.extents(self.recurrent.layout, shapes));
        let (forward, backward) = (forward?, backward?);
        if [forward.times, forward.batches] != [backward.times, backward.batches] {
            return Err(OpError::invalid("its inputs are sequences of different lengths"));
        }
        Ok([forward, backward])
    }
}

impl Operator for BidirectionalRnn {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let places = self.places(|index| inputs.optional(index).is_some())?;
        places.iter().try_for_each(|places| places.check(inputs))?;
        let outputs = if self.is_merged { 1 } else { 2 };
        if inputs.from(0).iter().flatten().any(|input| input.shape.is_none()) {
            return Ok(vec![Inferred::unknown(DataType::Float32); outputs]);
        }
        let shapes: Vec<_> = inputs.from(0).iter().map(|input| input.and_then(|input| input.shape.as_ref())).collect();
        let [forward, backward] = self.extents(&places, &shapes)?;
        let features = match self.is_merged {
            true => vec![forward.units.saturating_add(backward.units)],
            false => vec![forward.units, backward.units],
        };
        let output = |features| countable(forward.output(self.recurrent.layout, features));
        features.into_iter().map(|features| Ok(Inferred::new(DataType::Float32, output(features)?))).collect()
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let (_, rows) = (*inputs.first()?)?.split_last()?;
        let weights = [1, 2, 5, 6, 10, 11].into_iter().filter_map(|index| inputs.get(index).copied().flatten());
        let weights = weights.map(|shape| product(shape)).fold(0, u64::saturating_add);
        Some(product(rows).saturating_mul(weights))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let places = self.places(|index| eval.optional(index).is_some())?;
        let shapes: Vec<_> = eval.inputs.iter().map(|input| input.map(|input| input.shape)).collect();
        let extents = self.extents(&places, &shapes)?;
        let mut outputs: Vec<Vec<f32>> = eval.outputs.iter().map(|output| vec![0.0; output.shape.elements()]).collect();
        let width = if self.is_merged { extents[0].units + extents[1].units } else { 0 };
        for (direction, (places, extents)) in places.iter().zip(&extents).enumerate() {
            let units = extents.units;
            let (output, width, first) = match self.is_merged {
                true => (&mut outputs[0], width, if direction == 0 { 0 } else { width - units }),
                false => (&mut outputs[direction], units, 0),
            };
            self.recurrent.run(eval, places, extents, |row, values| {
                output[row * width + first..][..units].copy_from_slice(values);
            })?;
        }
        for (output, made) in eval.outputs.iter_mut().zip(outputs) {
            output.values::<f32>()?.copy_from_slice(&made);
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let places = self.places(|index| lowering.has_input(index)).map_err(refuse)?;
        let extents = self.extents(&places, &input_shapes(lowering)?).map_err(refuse)?;
        let mut outputs = Vec::with_capacity(2);
        for (places, extents) in places.iter().zip(&extents) {
            outputs.push(self.recurrent.lower(lowering, places, extents)?);
        }
        if self.is_merged {
            outputs = vec![lowering.emit(Primitive::Concatenate { axis: 2 }, &outputs)?];
        }
        outputs.into_iter().enumerate().try_for_each(|(index, output)| lowering.output(index, output))
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Activation;

    use super::*;

    #[test]
    fn a_second_input_has_weights_in_both_directions() {
        let rnn = |layout| BidirectionalRnn {
            recurrent: Recurrent { activation: Activation::Relu, layout, is_asymmetric: false },
            is_merged: false,
        };
        let of = |layout, there: &[usize]| rnn(layout).places(|index| index < AUXILIARY || there.contains(&index));
        assert!(of(Layout::BatchMajor, &[]).unwrap()[0].auxiliary.is_none());
        assert_eq!(of(Layout::BatchMajor, &[9, 10, 11]).unwrap()[1].auxiliary, Some([9, 11]));
        assert_eq!(of(Layout::TimeMajor, &[9]).unwrap()[1].input, 9);
        assert_eq!(of(Layout::BatchMajor, &[9]).unwrap()[1].input, 0);
        for wrong in [&[9, 10][..], &[10, 11]] {
            assert!(of(Layout::BatchMajor, wrong).is_err(), "{wrong:?}");
        }
    }
}
