//! REVERSE_V2: the input reversed along some axes.

use std::sync::Arc;

use attache_base::Shape;
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{arity, axis_of, integral, known_integers, movable, refuse, required};
use crate::shared::view::{Along, View};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::REVERSE_V2), versions: 1..=4, parse }];

/// Inputs: elements and the axes.
#[derive(Debug)]
struct ReverseV2;

fn parse(_: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(ReverseV2))
}

fn view(shape: &Shape, axes: &[i64]) -> Result<View, OpError> {
    let mut coordinates: Vec<_> = (0..shape.rank()).map(Along::whole).collect();
    for axis in axes {
        let axis = axis_of(shape, *axis)?;
        if coordinates[axis].stride < 0 {
            return Err(OpError::invalid(format!("axis {axis} is named twice")));
        }
        coordinates[axis] = Along { axis, begin: shape[axis] as i64 - 1, stride: -1 };
    }
    Ok(View { output: shape.clone(), coordinates })
}

impl Op for ReverseV2 {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (input, axes) = (required(inputs, 0)?, required(inputs, 1)?);
        movable(0, input)?;
        integral(1, axes)?;
        if let (Some(shape), Some(axes)) = (&input.shape, known_integers(1, axes)?) {
            view(shape, &axes)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        view(input.shape, &eval.input(1)?.integers()?)?.copy(input, eval.outputs[0].bytes)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let view = view(lowering.input_shape(0)?, &lowering.integers(1)?).map_err(refuse)?;
        let input = lowering.input(0)?;
        let output = view.lower(lowering, input)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_named_once() {
        let shape = Shape::from([2, 3]);
        let reversed = view(&shape, &[-1]).unwrap();
        assert_eq!(reversed.coordinates, [Along::whole(0), Along { axis: 1, begin: 2, stride: -1 }]);
        assert!(view(&shape, &[2]).is_err());
        assert!(view(&shape, &[1, -1]).is_err());
    }
}
