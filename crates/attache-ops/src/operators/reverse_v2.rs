//! REVERSE_V2: the input reversed along some axes.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{axis_of, refuse};
use crate::shared::view::{Along, View, copy_kept};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::REVERSE_V2),
    versions: 1..=4,
    inputs: &[input("input").movable(), input("axes").integral()],
    parse: |_| Ok(Box::new(ReverseV2)),
}];

#[derive(Debug)]
struct ReverseV2;

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

impl Operator for ReverseV2 {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if let (Some(shape), Some(axes)) = (&input.shape, inputs.integers(1)?) {
            view(shape, &axes)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    /// True, because `eval` checks axes that are known only at run time, even if the output is empty.
    fn runs_when_empty(&self) -> bool {
        true
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        copy_kept(eval, &|eval| {
            let shape = eval.input(0)?.shape;
            Ok(view(shape, &eval.input(1)?.integers()?)?.of(shape))
        })
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
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
