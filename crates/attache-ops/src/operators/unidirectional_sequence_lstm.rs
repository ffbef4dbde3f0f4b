//! UNIDIRECTIONAL_SEQUENCE_LSTM: a long short-term memory over the time axis of its input.

use attache_graph::OpError;
use attache_model::schema::BuiltinOperator;

use crate::definition::activation;
use crate::shared::sequence_lstm::{INPUTS, Layout, SequenceLstm, clip_at};
use crate::{Code, Declaration, Definition, Parsed};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_LSTM),
    versions: 1..=4,
    inputs: INPUTS,
    parse,
}];

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_unidirectional_sequence_lstmoptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    if options.diagonal_recurrent_tensors() {
        return Err(OpError::unsupported("diagonal recurrent weights are not implemented"));
    }
    Ok(Box::new(SequenceLstm {
        activation: activation(options.fused_activation_function())?,
        cell_clip: clip_at(options.cell_clip())?,
        projection_clip: clip_at(options.proj_clip())?,
        layout: Layout::of_sequence(options.time_major()),
        is_reversed: false,
        is_asymmetric: options.asymmetric_quantize_inputs(),
        intermediates: declaration.intermediates.clone(),
    }))
}
