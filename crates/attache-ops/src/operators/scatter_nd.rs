//! SCATTER_ND: slices added to a tensor of zeros at the places that rows of indices name. With `indices = [J…, n]` and
//! `updates = [J…, I…]`, `out[indices[j…, 0], …, indices[j…, n - 1], i…] += updates[j…, i…]`. Integer sums wrap; of truth
//! values, one that is true suffices.

use attache_base::{Constant, DataType, Element, Shape, strides};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::scatter::{Places, computed_places, listed, scatter as emit_scatter};
use crate::shared::support::{countable, elements, elements_mut, refuse};
use crate::{Code, Combination, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::SCATTER_ND),
    versions: 1..=1,
    inputs: &[
        input("indices").of(&[DataType::Int32]),
        input("updates").of(&TYPES),
        input("shape").of(&[DataType::Int32]),
    ],
    parse: |_| Ok(Box::new(ScatterNd)),
}];

/// Supported element types.
const TYPES: [DataType; 6] =
    [DataType::Float32, DataType::Int32, DataType::Int64, DataType::Int8, DataType::UInt8, DataType::Bool];

#[derive(Debug)]
struct ScatterNd;

/// Checks that the updates are slices of the output, one for each row of the indices. Returns the number of leading axes
/// that a row names.
fn check(indices: &Shape, updates: &Shape, output: &Shape) -> Result<usize, OpError> {
    let wrong = || OpError::invalid(format!("updates {updates} at indices {indices} of a tensor of shape {output}"));
    let (named, rows) = indices.split_last().ok_or_else(wrong)?;
    let (outer, inner) = updates.split_at_checked(rows.len()).ok_or_else(wrong)?;
    if *named > output.rank() || outer != rows || inner != &output[*named..] {
        return Err(wrong());
    }
    Ok(*named)
}

/// Returns the offset, in slices, that a row of indices names; fails where an index is out of range.
fn place(row: &[i32], extents: &[usize]) -> Result<usize, OpError> {
    let inside = |(index, extent): (&i32, &usize)| usize::try_from(*index).ok().filter(|index| index < extent);
    let positions = row.iter().zip(extents).map(inside).collect::<Option<Vec<_>>>();
    let outside = || OpError::invalid(format!("indices {row:?} do not lie in {extents:?}"));
    Ok(positions.ok_or_else(outside)?.iter().zip(strides(extents)).map(|(position, step)| position * step).sum())
}

/// Adds the slices `updates` to `output` at `places`, in order.
fn scatter<T: Copy>(places: &[usize], length: usize, updates: &[T], output: &mut [T], add: impl Fn(T, T) -> T) {
    for (place, update) in places.iter().zip(updates.chunks_exact(length)) {
        let slice = &mut output[place * length..][..length];
        slice.iter_mut().zip(update).for_each(|(sum, value)| *sum = add(*sum, *value));
    }
}

fn run<T: Element>(
    eval: &mut Eval<'_>,
    places: &[usize],
    length: usize,
    add: impl Fn(T, T) -> T,
) -> Result<(), OpError> {
    let updates = eval.input(1)?.values::<T>()?;
    scatter(places, length, updates, eval.outputs[0].values::<T>()?, add);
    Ok(())
}

impl Operator for ScatterNd {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [indices, updates, extents] = inputs.required();
        if extents.shape.as_ref().is_some_and(|shape| shape.rank() != 1) {
            return Err(OpError::invalid("input 2 (shape) is not a list"));
        }
        let Some(extents) = inputs.integers(2)? else { return Ok(vec![Inferred::unknown(updates.data_type)]) };
        let wrong = || OpError::invalid(format!("{extents:?} is no shape"));
        let output = countable(Shape::from_signed(&extents).ok_or_else(wrong)?)?;
        if let (Some(indices), Some(updates)) = (&indices.shape, &updates.shape) {
            check(indices, updates, &output)?;
        }
        Ok(vec![Inferred::new(updates.data_type, output)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (indices, updates) = (eval.input(0)?, eval.input(1)?);
        let output = &mut eval.outputs[0];
        let named = check(indices.shape, updates.shape, output.shape)?;
        let (extents, inner) = output.shape.split_at(named);
        let length = inner.iter().product::<usize>();
        let rows = indices.shape[..indices.shape.rank() - 1].iter().product::<usize>();
        let values = indices.values::<i32>()?;
        let places = (0..rows).map(|row| place(&values[row * named..][..named], extents));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        output.bytes.fill(0);
        match updates.data_type {
            DataType::Int32 => run(eval, &places, length, i32::wrapping_add),
            DataType::Int64 => run(eval, &places, length, i64::wrapping_add),
            DataType::Int8 => run(eval, &places, length, i8::wrapping_add),
            DataType::UInt8 => run(eval, &places, length, u8::wrapping_add),
            DataType::Bool => {
                let (updates, output) = (elements::<u8>(updates.bytes)?, elements_mut(eval.outputs[0].bytes)?);
                scatter(&places, length, updates, output, |a, b| u8::from(a | b != 0));
                Ok(())
            }
            _ => run(eval, &places, length, |a: f32, b| a + b),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let indices = lowering.input_fact(0)?.shape.clone();
        let indices = indices.ok_or_else(|| Unsupported::new("indices of unknown shape"))?;
        let (data_type, output) = (lowering.input_fact(1)?.data_type, lowering.output_shape(0)?.clone());
        let named = check(&indices, lowering.input_shape(1)?, &output).map_err(refuse)?;
        let (extents, inner) = output.split_at(named);
        let (rows, length) = (indices[..indices.rank() - 1].iter().product::<usize>(), inner.iter().product::<usize>());
        let places = match lowering.integers(0) {
            // All updates are for the only row. A file has no elements for their indices, whatever their number is.
            _ if named == 0 => Places::Known(vec![0; listed(&[rows].into())?]),
            // Constant indices out of range are refused: a device would leave the updates out, but the CPU reports the error.
            Ok(values) => {
                let values: Vec<i32> = values.iter().map(|value| *value as i32).collect();
                let place = |row: usize| place(&values[row * named..][..named], extents).map(|place| place as i32);
                Places::Known((0..rows).map(place).collect::<Result<_, _>>().map_err(refuse)?)
            }
            Err(_) => {
                let indices = lowering.input(0)?;
                let indices = lowering.reshape(indices, &[rows, named].into())?;
                computed_places(lowering, indices, extents)?
            }
        };
        let updates = lowering.input(1)?;
        let updates = lowering.reshape(updates, &[rows, length].into())?;
        let zero = match data_type {
            DataType::Float32 => lowering.constant(Constant::from_values([], &[0.0f32]))?,
            _ => lowering.constant(Constant::from_values([], &[0i32]))?,
        };
        let all = (places, extents.iter().product());
        let made = emit_scatter(lowering, (Some(Combination::Sum), data_type), [zero, updates], all)?;
        let made = lowering.reshape(made, &output)?;
        lowering.output(0, made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_are_slices() {
        let check = |indices: &[usize], updates: &[usize], output: &[usize]| {
            check(&indices.into(), &updates.into(), &output.into())
        };
        assert_eq!(check(&[5, 2], &[5, 4], &[2, 3, 4]).unwrap(), 2);
        assert_eq!(check(&[1], &[3], &[2, 3]).unwrap(), 1);
        assert_eq!(check(&[5, 0], &[5, 3], &[3]).unwrap(), 0);
        assert!(check(&[5, 2], &[5, 3], &[2, 3, 4]).is_err());
        assert!(check(&[5, 3], &[5], &[2, 3]).is_err());
        assert!(check(&[], &[], &[2]).is_err());
        assert!(check(&[5, 1], &[4], &[2]).is_err());
    }

    #[test]
    fn what_is_named_twice_is_added() {
        let mut output = [0; 6];
        scatter(&[2, 0, 2], 2, &[1, 2, 3, 4, 5, i32::MAX], &mut output, i32::wrapping_add);
        assert_eq!(output, [3, 4, 0, 0, 6, i32::MIN + 1]);
        assert!(place(&[1, -1], &[2, 3]).is_err() && place(&[2, 0], &[2, 3]).is_err());
        assert_eq!(place(&[1, 2], &[2, 3]).unwrap(), 5);
    }
}
