//! TILE: the input repeated along each axis.

use std::sync::Arc;

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::movement;
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{
    arity, countable, elements, elements_mut, integral, is_empty, known_integers, movable, required, with_element,
};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::TILE), versions: 1..=3, parse }];

/// Inputs: elements, and the number of repetitions along each axis.
#[derive(Debug)]
struct Tile;

fn parse(_: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    Ok(Arc::new(Tile))
}

/// The number of repetitions along each axis.
fn multiples(shape: &Shape, values: &[i64]) -> Result<Vec<usize>, OpError> {
    let multiples = Shape::from_signed(values).filter(|multiples| multiples.rank() == shape.rank());
    let wrong = || OpError::invalid(format!("multiples {values:?} for an input of shape {shape}"));
    Ok(multiples.ok_or_else(wrong)?.to_vec())
}

fn output(shape: &Shape, multiples: &[usize]) -> Result<Shape, OpError> {
    let extents = shape.iter().zip(multiples).map(|(extent, multiple)| extent.checked_mul(*multiple));
    let shape = extents.collect::<Option<Shape>>();
    countable(shape.ok_or_else(|| OpError::invalid(format!("multiples {multiples:?} are too large")))?)
}

impl Op for Tile {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (input, values) = (required(inputs, 0)?, required(inputs, 1)?);
        movable(0, input)?;
        integral(1, values)?;
        let (Some(shape), Some(values)) = (&input.shape, known_integers(1, values)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, output(shape, &multiples(shape, &values)?)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if is_empty(eval) {
            return Ok(());
        }
        let input = eval.input(0)?;
        let (multiples, output) = (multiples(input.shape, &eval.input(1)?.integers()?)?, &mut *eval.outputs[0].bytes);
        with_element!(input.data_type, T => {
            movement::tile::<T>(elements(input.bytes)?, input.shape, &multiples, elements_mut(output)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let (input, shape) = (lowering.input(0)?, lowering.output_shape(0)?);
        let extents = lowering.shape(input).iter().zip(shape.iter()).enumerate();
        let coordinate = |(axis, (from, to)): (usize, (&usize, &usize))| match from == to {
            true => Index::Axis(axis),
            false => Index::Axis(axis).modulo(*from as i64),
        };
        let coordinates = extents.map(coordinate).collect();
        let map = IndexMap { output: shape.to_vec(), coordinates, fill: None };
        let output = lowering.emit(Primitive::IndexMap(map), &[input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_multiple_for_each_axis() {
        let shape = Shape::from([2, 3]);
        assert_eq!(output(&shape, &multiples(&shape, &[3, 0]).unwrap()).unwrap(), Shape::from([6, 0]));
        assert!(multiples(&shape, &[3]).is_err());
        assert!(multiples(&shape, &[3, -1]).is_err());
        assert!(output(&shape, &[usize::MAX, 1]).is_err());
        assert!(output(&shape, &[1 << 31, 1 << 31]).is_err());
    }
}
