//! BROADCAST_TO: the input broadcast to a given shape by NumPy's rules.

use attache_base::Shape;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{countable, refuse};
use crate::shared::view::{Along, View, copy_kept};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BROADCAST_TO),
    versions: 1..=4,
    inputs: &[input("input").movable(), input("shape").integral()],
    parse: |_| Ok(Box::new(BroadcastTo)),
}];

#[derive(Debug)]
struct BroadcastTo;

fn view(shape: &Shape, wanted: &[i64]) -> Result<View, OpError> {
    let wrong = || OpError::invalid(format!("{shape} cannot be broadcast to {wanted:?}"));
    let output = countable(Shape::from_signed(wanted).ok_or_else(wrong)?)?;
    if shape.broadcast(&output).as_ref() != Some(&output) {
        return Err(wrong());
    }
    let lead = output.rank() - shape.rank();
    let coordinate = |axis: usize| match shape[axis] == output[lead + axis] {
        true => Along::whole(lead + axis),
        false => Along { axis: 0, begin: 0, stride: 0 },
    };
    let coordinates = (0..shape.rank()).map(coordinate).collect();
    Ok(View { output, coordinates })
}

impl Operator for BroadcastTo {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let (Some(shape), Some(wanted)) = (&input.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, view(shape, &wanted)?.output)])
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
    fn the_input_never_shrinks() {
        let shape = Shape::from([3, 1]);
        assert_eq!(view(&shape, &[2, 3, 4]).unwrap().output, Shape::from([2, 3, 4]));
        assert_eq!(view(&Shape::default(), &[2]).unwrap().output, Shape::from([2]));
        for wrong in [&[4][..], &[1, 4], &[3, -1], &[1 << 40, 3, 1 << 40]] {
            assert!(view(&shape, wrong).is_err(), "{wrong:?}");
        }
    }
}
