//! TILE: the input repeated along each axis.

use attache_base::Shape;
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_kernels::{Engine, movement};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{countable, elements, elements_mut, with_element};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::TILE),
    versions: 1..=3,
    inputs: &[input("input").movable_or_strings(), input("multiples").integral()],
    parse: |_| Ok(Box::new(Tile)),
}];

#[derive(Debug)]
struct Tile;

/// Returns the number of repetitions along each axis, from the elements of the second input.
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

impl Operator for Tile {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let (Some(shape), Some(values)) = (&input.shape, inputs.integers(1)?) else {
            return Ok(vec![Inferred::unknown(input.data_type)]);
        };
        Ok(vec![Inferred::new(input.data_type, output(shape, &multiples(shape, &values)?)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (multiples, output) = (multiples(input.shape, &eval.input(1)?.integers()?)?, &mut *eval.outputs[0].bytes);
        let engine = Engine::new(eval.parallel);
        with_element!(input.data_type, T => {
            movement::tile::<T>(engine, elements(input.bytes)?, input.shape, &multiples, elements_mut(output)?);
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
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
