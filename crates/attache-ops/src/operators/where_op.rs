//! WHERE: the coordinates of all nonzero elements, `[count, rank]`, in memory order.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::countable;
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::WHERE),
    versions: 1..=2,
    inputs: &[input("condition").of(&TYPES)],
    parse: |_| Ok(Box::new(Where)),
}];

/// Supported element types.
const TYPES: [DataType; 7] = [
    DataType::Bool,
    DataType::Float32,
    DataType::Int64,
    DataType::Int32,
    DataType::UInt32,
    DataType::UInt8,
    DataType::Int8,
];

#[derive(Debug)]
struct Where;

/// Returns an iterator over the linear indices of the nonzero elements, in ascending order.
fn places(data_type: DataType, bytes: &[u8]) -> impl Iterator<Item = usize> {
    let size = data_type.bits().map_or(1, |bits| bits / 8).max(1);
    // The sign bit is ignored, because -0 is zero as well.
    let sign = if data_type == DataType::Float32 { 0x80 } else { 0 };
    let is_zero = move |element: &[u8]| match element {
        [rest @ .., last] => rest.iter().all(|byte| *byte == 0) && last & !sign == 0,
        [] => true,
    };
    bytes.chunks_exact(size).enumerate().filter(move |(_, element)| !is_zero(element)).map(|(place, _)| place)
}

/// Writes the coordinates of the linear index `place` in a nonempty shape to `into`.
fn coordinates(shape: &Shape, place: usize, into: &mut [i64]) {
    let mut rest = place;
    for (coordinate, extent) in into.iter_mut().zip(shape.iter()).rev() {
        *coordinate = (rest % extent) as i64;
        rest /= extent;
    }
}

impl Operator for Where {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        if input.shape.as_ref().is_some_and(|shape| shape.rank() == 0) {
            return Err(OpError::invalid("a scalar has no coordinates"));
        }
        let (Some(shape), Some(value)) = (&input.shape, &input.constant) else {
            return Ok(vec![Inferred::unknown(DataType::Int64)]);
        };
        let bytes = input.byte_size().and_then(|size| value.bytes.get(..size));
        let bytes = bytes.ok_or_else(|| OpError::invalid("input 0 has too few bytes"))?;
        let count = places(input.data_type, bytes).count();
        Ok(vec![Inferred::new(DataType::Int64, countable([count, shape.rank()].into())?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let rows = eval.outputs[0].values::<i64>()?.chunks_exact_mut(input.shape.rank().max(1));
        for (row, place) in rows.zip(places(input.data_type, input.bytes)) {
            coordinates(input.shape, place, row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn the_value_tells_the_shape() {
        let shape = |fact: Fact| DEFINITIONS[0].infer(&Where, &[Some(&fact)]).map(|outputs| outputs[0].shape.clone());
        let value = Constant::from_values([2, 2], &[0.0f32, -0.0, f32::NAN, -1.0]);
        assert_eq!(shape(Fact::constant(value)).unwrap(), Some([2, 2].into()));
        assert_eq!(
            shape(Fact::constant(Constant::from_values([3], &[0i32, i32::MIN, 256]))).unwrap(),
            Some([2, 1].into())
        );
        assert_eq!(shape(Fact::new(DataType::Bool, [2, 2])).unwrap(), None);
        assert!(shape(Fact::new(DataType::Bool, [])).is_err());
        assert!(shape(Fact::new(DataType::Float64, [2])).is_err());
    }

    #[test]
    fn the_last_axis_runs_fastest() {
        let mut row = [0; 3];
        coordinates(&[2, 3, 4].into(), 23, &mut row);
        assert_eq!(row, [1, 2, 3]);
        coordinates(&[2, 3, 4].into(), 5, &mut row);
        assert_eq!(row, [0, 1, 1]);
    }
}
