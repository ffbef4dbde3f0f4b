//! RESHAPE: the same elements in another shape.

use std::sync::Arc;

use attache_base::Shape;
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_model::schema::BuiltinOperator;

use crate::support::{arity, countable, known_integers, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::RESHAPE), versions: 1..=1, parse }];

#[derive(Debug)]
struct Reshape {
    /// The shape of the options, used where no second input gives one.
    new_shape: Option<Vec<i64>>,
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_reshape_options();
    let new_shape = options.and_then(|options| options.new_shape());
    Ok(Arc::new(Reshape { new_shape: new_shape.map(|shape| shape.iter().map(i64::from).collect()) }))
}

/// The shape that `wanted` stands for: one extent of -1 takes what is left of `elements`.
fn resolve(wanted: &[i64], elements: usize) -> Result<Shape, OpError> {
    let wrong = || OpError::invalid(format!("{elements} elements cannot take the shape {wanted:?}"));
    if wanted.iter().any(|extent| *extent < -1) || wanted.iter().filter(|extent| **extent == -1).count() > 1 {
        return Err(wrong());
    }
    let known: Shape = wanted.iter().filter(|extent| **extent >= 0).map(|extent| *extent as usize).collect();
    let known = known.checked_elements().ok_or_else(wrong)?;
    let rest = if known == 0 { 0 } else { elements / known };
    let shape: Shape = wanted.iter().map(|extent| if *extent == -1 { rest } else { *extent as usize }).collect();
    if shape.checked_elements() == Some(elements) { countable(shape) } else { Err(wrong()) }
}

impl Op for Reshape {
    fn name(&self) -> &str {
        "RESHAPE"
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 1..=2)?;
        let input = required(inputs, 0)?;
        let wanted = match inputs.get(1).copied().flatten() {
            Some(shape) => known_integers(1, shape)?,
            None => Some(self.new_shape.clone().ok_or_else(|| OpError::invalid("the file gives no new shape"))?),
        };
        let (Some(wanted), Some(shape)) = (wanted, &input.shape) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, resolve(&wanted, shape.elements())?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        eval.outputs[0].bytes.copy_from_slice(input.bytes);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let input = lowering.input(0)?;
        let shape = lowering.output_shape(0)?.clone();
        let output = lowering.reshape(input, &shape)?;
        lowering.output(0, output)
    }

    fn is_reshape(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_extent_takes_what_is_left() {
        assert_eq!(resolve(&[2, -1, 3], 24).unwrap(), Shape::from([2, 4, 3]));
        assert_eq!(resolve(&[], 1).unwrap(), Shape::from([]));
        assert!(resolve(&[-1, 5], 24).is_err());
        assert!(resolve(&[-1, -1], 24).is_err());
        assert!(resolve(&[i64::MAX, 4], 24).is_err());
    }
}
