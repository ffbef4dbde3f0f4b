//! RNN and UNIDIRECTIONAL_SEQUENCE_RNN: one step of recurrent units, and all steps of a sequence.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::definition::activation;
use crate::shared::recurrent::{Places, Recurrent, input_shapes};
use crate::shared::sequence_lstm::Layout;
use crate::shared::support::{countable, product, refuse};
use crate::{Code, Declaration, Definition, Facts, Input, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::RNN),
        versions: 1..=3,
        inputs: INPUTS,
        parse: |declaration| {
            let options = declaration.options.builtin_options_as_rnnoptions();
            let options = options.ok_or_else(|| declaration.no_options())?;
            operator(options.fused_activation_function(), Layout::OneStep, options.asymmetric_quantize_inputs())
        },
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::UNIDIRECTIONAL_SEQUENCE_RNN),
        versions: 1..=3,
        inputs: INPUTS,
        parse: parse_sequence,
    },
];

const INPUTS: &[Input] =
    &[input("input"), input("weights"), input("recurrent_weights"), input("bias"), input("hidden_state")];

const PLACES: Places =
    Places { input: 0, weights: 1, recurrent: 2, bias: 3, state: 4, auxiliary: None, is_reversed: false };

#[derive(Debug)]
struct Rnn(Recurrent);

fn operator(fused: attache_model::schema::ActivationFunctionType, layout: Layout, is_asymmetric: bool) -> Parsed {
    Ok(Box::new(Rnn(Recurrent { activation: activation(fused)?, layout, is_asymmetric })))
}

fn parse_sequence(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_sequence_rnnoptions();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let layout = Layout::of_sequence(options.time_major());
    operator(options.fused_activation_function(), layout, options.asymmetric_quantize_inputs())
}

impl Operator for Rnn {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        PLACES.check(inputs)?;
        let shapes: Vec<_> = inputs.from(0).iter().map(|input| input.and_then(|input| input.shape.as_ref())).collect();
        if shapes.iter().any(Option::is_none) {
            return Ok(vec![Inferred::unknown(DataType::Float32)]);
        }
        let extents = PLACES.extents(self.0.layout, &shapes)?;
        let shape = countable(extents.output(self.0.layout, extents.units))?;
        Ok(vec![Inferred::new(DataType::Float32, shape)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let (_, rows) = (*inputs.first()?)?.split_last()?;
        let weights = product((*inputs.get(1)?)?).saturating_add(product((*inputs.get(2)?)?));
        Some(product(rows).saturating_mul(weights))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let shapes: Vec<_> = eval.inputs.iter().map(|input| input.map(|input| input.shape)).collect();
        let extents = PLACES.extents(self.0.layout, &shapes)?;
        let mut made = vec![0.0; eval.outputs[0].shape.elements()];
        let units = extents.units;
        self.0.run(eval, &PLACES, &extents, |row, values| made[row * units..][..units].copy_from_slice(values))?;
        eval.outputs[0].values::<f32>()?.copy_from_slice(&made);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let extents = PLACES.extents(self.0.layout, &input_shapes(lowering)?).map_err(refuse)?;
        let output = self.0.lower(lowering, &PLACES, &extents)?;
        lowering.output(0, output)
    }
}
