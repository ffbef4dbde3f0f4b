//! SPARSE_TO_DENSE: a tensor of one default value, in which the elements at given indices have other values. Of indices
//! that occur twice, the last one counts.

use attache_base::{DataType, Shape, strides};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::scatter::{Places, computed_places, listed, repeated, scatter};
use crate::shared::support::{countable, elements, elements_mut, only, refuse, with_element};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SPARSE_TO_DENSE),
    versions: 1..=3,
    inputs: &[
        input("sparse_indices").integral(),
        input("output_shape").integral(),
        input("sparse_values").of(&TYPES),
        input("default_value").like(2),
    ],
    parse: |_| Ok(Box::new(SparseToDense)),
}];

/// Supported element types.
const TYPES: [DataType; 5] = [DataType::Float32, DataType::Int32, DataType::Int64, DataType::Int8, DataType::UInt8];

#[derive(Debug)]
struct SparseToDense;

/// Returns the number of indices, and how many numbers one of them consists of. Indices are a number, a list of numbers,
/// or a list of rows as long as the output's rank.
fn rows(indices: &Shape) -> Result<[usize; 2], OpError> {
    match indices.extents() {
        [] => Ok([1, 1]),
        [count] => Ok([*count, 1]),
        [count, numbers] => Ok([*count, *numbers]),
        _ => Err(OpError::invalid(format!("indices of shape {indices}; their rank is at most 2"))),
    }
}

/// Checks that the indices name elements of an output with `rank` axes, and that there is one value for all or one for
/// each.
fn check(indices: &Shape, rank: usize, values: &Shape) -> Result<(), OpError> {
    let [count, numbers] = rows(indices)?;
    if numbers != rank {
        return Err(OpError::invalid(format!("indices of {numbers} numbers into a tensor of rank {rank}")));
    }
    if values.rank() > 1 || values.rank() == 1 && values[0] != count {
        return Err(OpError::invalid(format!("values of shape {values} for {count} indices")));
    }
    Ok(())
}

/// Returns the offset, in elements, of an index; fails where it is out of range.
fn place(index: &[i64], shape: &Shape) -> Result<usize, OpError> {
    let inside = |(number, extent): (&i64, &usize)| usize::try_from(*number).ok().filter(|number| number < extent);
    let numbers = index.iter().zip(shape.iter()).map(inside).collect::<Option<Vec<_>>>();
    let outside = || OpError::invalid(format!("index {index:?} does not lie in {shape}"));
    Ok(numbers.ok_or_else(outside)?.iter().zip(strides(shape)).map(|(number, step)| number * step).sum())
}

impl Operator for SparseToDense {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [indices, extents, values, default] = inputs.required();
        if extents.shape.as_ref().is_some_and(|shape| shape.rank() != 1) {
            return Err(OpError::invalid("input 1 (output_shape) is not a list"));
        }
        if default.shape.as_ref().is_some_and(|shape| shape.checked_elements() != Some(1)) {
            return Err(OpError::invalid("input 3 (default_value) is not one value"));
        }
        let rank = extents.shape.as_ref().map(|shape| shape[0]);
        if let (Some(indices), Some(rank), Some(values)) = (&indices.shape, rank, &values.shape) {
            check(indices, rank, values)?;
        }
        let Some(extents) = inputs.integers(1)? else { return Ok(vec![Inferred::unknown(values.data_type)]) };
        let wrong = || OpError::invalid(format!("{extents:?} is no shape"));
        let shape = countable(Shape::from_signed(&extents).ok_or_else(wrong)?)?;
        Ok(vec![Inferred::new(values.data_type, shape)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (indices, values, default) = (eval.input(0)?, eval.input(2)?, eval.input(3)?);
        let output = &mut eval.outputs[0];
        check(indices.shape, output.shape.rank(), values.shape)?;
        let [count, numbers] = rows(indices.shape)?;
        let numbers_of = indices.integers()?;
        let places = (0..count).map(|row| place(&numbers_of[row * numbers..][..numbers], output.shape));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        with_element!(values.data_type, T => {
            let (given, made) = (elements::<T>(values.bytes)?, elements_mut::<T>(output.bytes)?);
            made.fill(only(default)?);
            for (row, place) in places.iter().enumerate() {
                made[*place] = given[if values.shape.rank() == 0 { 0 } else { row }];
            }
        });
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (indices, output) = (lowering.input_shape(0)?, lowering.output_shape(0)?.clone());
        let data_type = lowering.input_fact(2)?.data_type;
        check(indices, output.rank(), lowering.input_shape(2)?).map_err(refuse)?;
        let [count, numbers] = rows(indices).map_err(refuse)?;
        let places = match lowering.integers(0) {
            // A file has no elements for indices of a single value, whatever their number is.
            _ if numbers == 0 => Places::Known(vec![0; listed(&[count].into())?]),
            // Constant indices out of range are refused: a device would leave the values out, but the CPU reports the error.
            Ok(values) => {
                let place = |row: usize| place(&values[row * numbers..][..numbers], &output).map(|place| place as i32);
                Places::Known((0..count).map(place).collect::<Result<_, _>>().map_err(refuse)?)
            }
            Err(_) => {
                let indices = lowering.input(0)?;
                let indices = lowering.reshape(indices, &[count, numbers].into())?;
                computed_places(lowering, indices, &output)?
            }
        };
        let (values, default) = (lowering.input(2)?, lowering.input(3)?);
        let column = [count, 1].into();
        let values = match lowering.shape(values).elements() == count {
            true => lowering.reshape(values, &column)?,
            false => repeated(lowering, data_type, values, &column)?,
        };
        let default = lowering.reshape(default, &Shape::default())?;
        let made = scatter(lowering, (None, data_type), [default, values], (places, output.elements()))?;
        let made = lowering.reshape(made, &output)?;
        lowering.output(0, made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_name_elements() {
        let check = |indices: &[usize], rank, values: &[usize]| check(&indices.into(), rank, &values.into());
        assert!(check(&[], 1, &[]).is_ok() && check(&[], 1, &[1]).is_ok());
        assert!(check(&[3], 1, &[3]).is_ok() && check(&[3], 1, &[]).is_ok());
        assert!(check(&[3, 2], 2, &[3]).is_ok());
        assert!(check(&[3, 2], 3, &[3]).is_err());
        assert!(check(&[3, 2], 2, &[2]).is_err());
        assert!(check(&[3, 2, 1], 1, &[3]).is_err());
        assert_eq!(place(&[1, 2], &[2, 3].into()).unwrap(), 5);
        assert!(place(&[1, 3], &[2, 3].into()).is_err() && place(&[-1, 0], &[2, 3].into()).is_err());
    }
}
