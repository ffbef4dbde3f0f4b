//! TRANSPOSE: axis `a` of the output is axis `permutation[a]` of the input.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{axis_of, refuse};
use crate::shared::view::{Along, View, copy_kept};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::TRANSPOSE),
    versions: 1..=9,
    inputs: &[input("input").movable(), input("permutation").integral()],
    parse: |_| Ok(Box::new(Transpose)),
}];

#[derive(Debug)]
struct Transpose;

/// Returns the view of the input with permuted axes; fails where `permutation` does not name each axis once.
fn view(shape: &Shape, permutation: &[i64]) -> Result<View, OpError> {
    let wrong = || OpError::invalid(format!("{permutation:?} does not permute the axes of {shape}"));
    let mut coordinates = vec![None; shape.rank()];
    let mut output = Vec::with_capacity(shape.rank());
    if permutation.len() != shape.rank() {
        return Err(wrong());
    }
    for (axis, from) in permutation.iter().enumerate() {
        let from = axis_of(shape, *from)?;
        coordinates[from] = Some(Along::whole(axis));
        output.push(shape[from]);
    }
    let coordinates = coordinates.into_iter().collect::<Option<_>>().ok_or_else(wrong)?;
    Ok(View { output: output.into(), coordinates })
}

impl Operator for Transpose {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let (Some(shape), Some(permutation)) = (&input.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, view(shape, &permutation)?.output)])
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
    fn every_axis_is_named_once() {
        let shape = Shape::from([2, 3, 4]);
        assert_eq!(view(&shape, &[2, 0, 1]).unwrap().output, Shape::from([4, 2, 3]));
        assert_eq!(view(&shape, &[-1, 0, 1]).unwrap().output, Shape::from([4, 2, 3]));
        assert!(view(&shape, &[0, 0, 1]).is_err());
        assert!(view(&shape, &[0, 1]).is_err());
        assert!(view(&shape, &[0, 1, i64::MIN]).is_err());
        assert_eq!(view(&Shape::default(), &[]).unwrap().output, Shape::default());
    }
}
