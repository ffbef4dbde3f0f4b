//! PAD: padding with zeros, or with the zero point of quantized elements, along every axis.

use std::sync::Arc;

use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::movement;
use attache_model::schema::BuiltinOperator;

use crate::shared::exact::affine;
use crate::shared::padding::{self, known_paddings, padded, paddings, split};
use crate::shared::quantized::{is_stored, zero};
use crate::shared::support::{arity, elements, elements_mut, narrow, required, with_element};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::PAD), versions: 1..=6, parse }];

#[derive(Debug)]
struct Pad;

fn parse(_: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(Pad))
}

impl Op for Pad {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let paddings = known_paddings(inputs)?;
        let input = required(inputs, 0)?;
        let (Some(paddings), Some(shape)) = (paddings, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, padded(shape, &paddings)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (before, after) = split(&paddings(input.shape, &eval.input(1)?.integers()?)?);
        let (zero, output) = (zero(&eval.outputs[0])?, &mut *eval.outputs[0].bytes);
        with_element!(input.data_type, T => {
            let zero = narrow::<T>(zero);
            movement::pad(elements(input.bytes)?, input.shape, &before, &after, zero, elements_mut(output)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let input = lowering.input_fact(0)?;
        if is_stored(input.data_type) && input.quantization.is_some() {
            return padding::lower(lowering, affine(lowering.output_fact(0)?)?.zero_point as f32);
        }
        padding::lower(lowering, 0.0)
    }
}
