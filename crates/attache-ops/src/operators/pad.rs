//! PAD: padding with zeros, or with the zero point of quantized elements, along every axis.

use attache_graph::{Eval, Inferred, Lowering, OpError, RowUse, Unsupported};
use attache_kernels::{Engine, movement};
use attache_model::schema::BuiltinOperator;

use crate::shared::exact::affine;
use crate::shared::padding::{self, known_paddings, padded, paddings, split};
use crate::shared::quantized::{is_stored, zero};
use crate::shared::support::{elements, elements_mut, narrow, with_element};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::PAD),
    versions: 1..=6,
    inputs: &[input("input").movable(), input("paddings").of(&padding::TYPES)],
    parse: |_| Ok(Box::new(Pad)),
}];

#[derive(Debug)]
struct Pad;

impl Operator for Pad {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let paddings = known_paddings(inputs)?;
        let input = inputs.fact(0);
        let (Some(paddings), Some(shape)) = (paddings, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, padded(shape, &paddings)?)])
    }

    /// True, because `eval` also checks the output's scale.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (before, after) = split(&paddings(input.shape, &eval.input(1)?.integers()?)?);
        let (zero, output) = (zero(&eval.outputs[0])?, &mut *eval.outputs[0].bytes);
        let engine = Engine::new(eval.parallel);
        with_element!(input.data_type, T => {
            let zero = narrow::<T>(zero);
            movement::pad(engine, elements(input.bytes)?, input.shape, &before, &after, zero, elements_mut(output)?);
        });
        Ok(())
    }

    fn row_uses(&self, inputs: Facts<'_>, _: [usize; 4]) -> Option<Vec<RowUse>> {
        let paddings = known_paddings(inputs).ok()??;
        paddings.iter().take(2).all(|pair| *pair == [0, 0]).then(|| vec![RowUse::Same, RowUse::Whole])
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let input = lowering.input_fact(0)?;
        if is_stored(input.data_type) && input.quantization.is_some() {
            return padding::lower(lowering, affine(lowering.output_fact(0)?)?.zero_point as f32);
        }
        padding::lower(lowering, 0.0)
    }
}
