//! PADV2: padding with a given value along every axis.

use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::{Engine, movement};
use attache_model::schema::BuiltinOperator;

use crate::shared::padding::{self, known_paddings, padded, paddings, split};
use crate::shared::quantized::require_one_stored_scale;
use crate::shared::support::{elements, elements_mut, only, with_element};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::PADV2),
    versions: 1..=6,
    inputs: &[input("input").movable(), input("paddings").of(&padding::TYPES), input("constant_values")],
    parse: |_| Ok(Box::new(PadV2)),
}];

#[derive(Debug)]
struct PadV2;

impl Operator for PadV2 {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let paddings = known_paddings(inputs)?;
        let (input, value) = (inputs.fact(0), inputs.fact(2));
        if value.data_type != input.data_type || value.shape.as_ref().is_some_and(|shape| shape.elements() != 1) {
            return Err(OpError::invalid(format!("input 2 is not one value of type {}", input.data_type)));
        }
        let (Some(paddings), Some(shape)) = (paddings, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, padded(shape, &paddings)?)])
    }

    fn check_scales(&self, inputs: &[Option<&Fact>], outputs: &[&Fact]) -> Result<(), OpError> {
        require_one_stored_scale(inputs, 2..3, outputs)
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, value) = (eval.input(0)?, eval.input(2)?);
        let (before, after) = split(&paddings(input.shape, &eval.input(1)?.integers()?)?);
        let output = &mut *eval.outputs[0].bytes;
        let engine = Engine::new(eval.parallel);
        with_element!(input.data_type, T => {
            let value = only::<T>(value)?;
            movement::pad(engine, elements(input.bytes)?, input.shape, &before, &after, value, elements_mut(output)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let value = lowering.input_fact(2)?.constant.as_ref();
        let value = value.ok_or_else(|| Unsupported::new("the value to pad with is not constant"))?;
        let fill = match (value.floats(), value.integers()) {
            (Some(floats), _) => floats.first().copied(),
            // The fill value of the primitive is an f32.
            (None, Some(integers)) => integers.first().map(|value| *value as f32),
            (None, None) => None,
        };
        let is_exact =
            value.integers().is_none_or(|integers| integers.iter().all(|value| value.unsigned_abs() <= 1 << 24));
        let fill = fill.filter(|_| is_exact).ok_or_else(|| Unsupported::new("a device cannot pad with this value"))?;
        padding::lower(lowering, fill)
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Constant, DataType, Shape};

    use super::*;

    #[test]
    fn the_value_is_one_of_the_inputs_type() {
        let paddings = Fact::constant(Constant::from_values([1, 2], &[1, 2]));
        let infer = |value: Fact| {
            let input = Fact::new(DataType::Float32, [3]);
            Ok::<_, OpError>(
                DEFINITIONS[0].infer(&PadV2, &[Some(&input), Some(&paddings), Some(&value)])?.remove(0).shape,
            )
        };
        assert_eq!(infer(Fact::new(DataType::Float32, [])).unwrap(), Some(Shape::from([6])));
        assert!(infer(Fact::new(DataType::Int32, [])).is_err());
        assert!(infer(Fact::new(DataType::Float32, [2])).is_err());
    }
}
