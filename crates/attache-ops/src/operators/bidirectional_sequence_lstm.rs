//! BIDIRECTIONAL_SEQUENCE_LSTM: a long short-term memory that runs over a sequence forward, and another one that runs
//! backward. The outputs of both are two tensors, or are joined along the last axis.

use attache_base::{DataType, Shape};
use attache_gpu_ir::Primitive;
use attache_graph::{Cache, Eval, Host, Inferred, Lowering, OpError, PassedTensor, TensorMut, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::definition::{activation, one_of};
use crate::shared::sequence_lstm::{AUXILIARY, Layout, SequenceLstm, WITH_AUXILIARY, clip_at};
use crate::shared::support::countable;
use crate::{Code, Declaration, Definition, Facts, Input, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BIDIRECTIONAL_SEQUENCE_LSTM),
    versions: 1..=3,
    inputs: &[input("input"), input("weights, biases and states").optional().repeated()],
    parse,
}];

/// Number of inputs.
const INPUTS: usize = 48;
/// Index of the first input of weights and biases of each direction, and their number: the gates' weights, recurrent weights,
/// peepholes and biases, and the projection.
const WEIGHTS: [usize; 2] = [1, 18];
const WEIGHTS_COUNT: usize = 17;
/// Index of the variables of each direction, with outputs and cells.
const STATES: [usize; 2] = [35, 37];
/// Index of the second input.
const SECOND: usize = 39;
/// Index of the second input's weights of the first gate, in each direction.
const SECOND_WEIGHTS: [usize; 2] = [40, 44];
const GATES: usize = 4;
/// Index of a state among the inputs of one direction.
const STATE_OF_ONE: usize = 18;

/// Declarations of the inputs of one direction, whose types are checked by the direction.
const OF_ONE: &[Input] = &[input("input of one direction").optional(); WITH_AUXILIARY];

#[derive(Debug)]
struct BidirectionalLstm {
    /// The memories that run forward and backward.
    directions: [SequenceLstm; 2],
    /// Whether the outputs of both directions are one tensor.
    is_merged: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_bidirectional_sequence_lstmoptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let forward = SequenceLstm {
        activation: activation(options.fused_activation_function())?,
        cell_clip: clip_at(options.cell_clip())?,
        projection_clip: clip_at(options.proj_clip())?,
        layout: Layout::of_sequence(options.time_major()),
        is_reversed: false,
        is_asymmetric: options.asymmetric_quantize_inputs(),
        intermediates: Vec::new(),
    };
    let backward = SequenceLstm { is_reversed: true, ..forward.clone() };
    Ok(Box::new(BidirectionalLstm { directions: [forward, backward], is_merged: options.merge_outputs() }))
}

/// Returns the inputs of one direction in the order of [`SequenceLstm`]. A second input without weights of its own is what
/// runs backward.
fn of_direction<T: Copy>(inputs: &[Option<T>], direction: usize) -> Vec<Option<T>> {
    let weights = &inputs[SECOND_WEIGHTS[direction]..][..GATES];
    let has_weights = weights.iter().any(Option::is_some);
    let own = if direction == 1 && !has_weights { inputs[SECOND].or(inputs[0]) } else { inputs[0] };
    let mut listed = vec![own];
    listed.extend(&inputs[WEIGHTS[direction]..][..WEIGHTS_COUNT]);
    listed.extend(&inputs[STATES[direction]..][..2]);
    listed.resize(AUXILIARY, None);
    listed.push(if has_weights { inputs[SECOND] } else { None });
    listed.extend(weights);
    listed
}

/// The host of one direction, whose states are inputs of the operator.
struct Direction<'a> {
    host: &'a mut dyn Host,
    index: usize,
}

impl Host for Direction<'_> {
    fn run_subgraph(&mut self, subgraph: usize, inputs: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
        self.host.run_subgraph(subgraph, inputs)
    }

    fn set_state(&mut self, input: usize, bytes: &[u8]) -> Result<(), OpError> {
        self.host.set_state(STATES[self.index] + input - STATE_OF_ONE, bytes)
    }
}

impl Operator for BidirectionalLstm {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        if inputs.count() != INPUTS {
            return Err(OpError::invalid(format!("{} inputs; it takes {INPUTS}", inputs.count())));
        }
        one_of("input 0 (input)", inputs.fact(0).data_type, &[DataType::Float32])?;
        let mut shapes = Vec::new();
        for (index, lstm) in self.directions.iter().enumerate() {
            let listed = of_direction(inputs.from(0), index);
            shapes.extend(lstm.infer(Facts::checked(OF_ONE, &listed)?)?.into_iter().map(|output| output.shape));
        }
        let inferred = |shape| Inferred { data_type: DataType::Float32, shape };
        let [forward, backward] = &shapes[..] else { return Err(OpError::invalid("it has two directions")) };
        let (Some(forward), Some(backward)) = (forward, backward) else {
            return Ok(vec![inferred(None); if self.is_merged { 1 } else { 2 }]);
        };
        if forward[..2] != backward[..2] {
            return Err(OpError::invalid(format!("outputs of shapes {forward} and {backward} in both directions")));
        }
        if !self.is_merged {
            return Ok(shapes.into_iter().map(inferred).collect());
        }
        let merged = Shape::from([forward[0], forward[1], forward[2].saturating_add(backward[2])]);
        Ok(vec![inferred(Some(countable(merged)?))])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let each = self
            .directions
            .iter()
            .enumerate()
            .map(|(index, lstm)| lstm.multiply_adds(&of_direction(inputs.get(..INPUTS)?, index), outputs));
        each.sum::<Option<u64>>()
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let mut made = Vec::new();
        for (index, lstm) in self.directions.iter().enumerate() {
            let inputs = of_direction(&eval.inputs, index);
            let facts: Vec<_> = inputs.iter().map(|input| input.map(|input| input.shape)).collect();
            let shape = lstm.output(&facts)?;
            let mut values = vec![0f32; shape.elements()];
            let bytes = bytemuck::cast_slice_mut(&mut values);
            let output = TensorMut { data_type: DataType::Float32, shape: &shape, bytes, quantization: None };
            let (mut cache, mut host) = (Cache::default(), Direction { host: &mut *eval.host, index });
            let (outputs, cache, host) = (vec![output], &mut cache, &mut host as &mut dyn Host);
            lstm.eval(&mut Eval { inputs, outputs, cache, parallel: eval.parallel, host })?;
            made.push((values, shape[2]));
        }
        if !self.is_merged {
            for (output, (values, _)) in eval.outputs.iter_mut().zip(made) {
                output.values::<f32>()?.copy_from_slice(&values);
            }
            return Ok(());
        }
        let [(forward, first), (backward, second)] = &made[..] else {
            return Err(OpError::invalid("it has two directions"));
        };
        let rows = eval.outputs[0].values::<f32>()?.chunks_exact_mut(first + second);
        for (row, (left, right)) in rows.zip(forward.chunks_exact(*first).zip(backward.chunks_exact(*second))) {
            row[..*first].copy_from_slice(left);
            row[*first..].copy_from_slice(right);
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let inputs: Vec<Option<usize>> = (0..INPUTS).map(|index| lowering.has_input(index).then_some(index)).collect();
        let mut outputs = Vec::with_capacity(2);
        for (index, lstm) in self.directions.iter().enumerate() {
            outputs.push(lstm.lower_with(lowering, &of_direction(&inputs, index))?);
        }
        if self.is_merged {
            outputs = vec![lowering.emit(Primitive::Concatenate { axis: 2 }, &outputs)?];
        }
        outputs.into_iter().enumerate().try_for_each(|(index, output)| lowering.output(index, output))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_has_its_inputs() {
        let mut inputs: Vec<Option<usize>> = (0..INPUTS).map(Some).collect();
        let backward = of_direction(&inputs, 1);
        assert_eq!(backward.len(), WITH_AUXILIARY);
        assert_eq!([backward[0], backward[1], backward[17], backward[18], backward[19]], [0, 18, 34, 37, 38].map(Some));
        assert_eq!((backward[20], backward[AUXILIARY], backward[AUXILIARY + 4]), (None, Some(39), Some(47)));
        inputs[40..].fill(None);
        assert_eq!((of_direction(&inputs, 0)[0], of_direction(&inputs, 1)[0]), (Some(0), Some(39)));
        assert_eq!(of_direction(&inputs, 1)[AUXILIARY], None);
    }
}
