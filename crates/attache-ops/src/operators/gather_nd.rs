//! GATHER_ND: slices selected by the rows of the indices. With `data = [N…, I…]` and `indices = [J…, n]`,
//! `out[j…, i…] = data[indices[j…, 0], …, indices[j…, n - 1], i…]`.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Gather, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, SignedIntegers, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{countable, refuse};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::GATHER_ND),
    versions: 1..=6,
    inputs: &[
        input("params").movable_or_strings(),
        input("indices").of(&[DataType::Int32, DataType::Int64, DataType::Int16]),
    ],
    parse: |_| Ok(Box::new(GatherNd)),
}];

#[derive(Debug)]
struct GatherNd;

/// Returns the number of leading axes of the data that a row of indices addresses.
fn named(data: &Shape, indices: &Shape) -> Result<usize, OpError> {
    let named = indices.last().copied().filter(|named| *named <= data.rank());
    named.ok_or_else(|| OpError::invalid(format!("rows of indices {indices} do not name axes of {data}")))
}

fn output(data: &Shape, indices: &Shape) -> Result<Shape, OpError> {
    let named = named(data, indices)?;
    countable([&indices[..indices.rank() - 1], &data[named..]].concat().into())
}

/// Returns the offset, in elements, of the slice that the row of `named` indices with this number selects; fails where an
/// index is out of range.
fn place(data: &Shape, named: usize, indices: SignedIntegers<'_>, row: usize) -> Result<usize, OpError> {
    let index = |axis: usize| indices.get(row * named + axis);
    let inside = |axis: usize| usize::try_from(index(axis)).ok().filter(|index| *index < data[axis]);
    let within = (0..named).try_fold(0usize, |place, axis| Some(place.saturating_mul(data[axis]) + inside(axis)?));
    let within = within.ok_or_else(|| {
        let row: Vec<i64> = (0..named).map(index).collect();
        OpError::invalid(format!("indices {row:?} do not lie in {data}"))
    })?;
    // Extents of data without elements may be of any size.
    Ok(data[named..].iter().fold(within, |place, extent| place.saturating_mul(*extent)))
}

impl Operator for GatherNd {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [data, indices] = inputs.required();
        let (Some(shape), Some(indices)) = (&data.shape, &indices.shape) else {
            return Ok(vec![Inferred::unknown(data.data_type)]);
        };
        Ok(vec![Inferred::new(data.data_type, output(shape, indices)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (data, indices) = (eval.input(0)?, eval.input(1)?);
        let named = named(data.shape, indices.shape)?;
        let (slice, output) = (data.shape[named..].iter().product::<usize>(), &mut eval.outputs[0]);
        let indices = indices.signed_integers()?;
        let size = data.data_type.bits().unwrap_or(8) / 8;
        let length = slice * size;
        // Indices are checked as they are used, since there may be far more of them than a list has room for.
        for (row, target) in output.bytes.chunks_exact_mut(length).enumerate() {
            let from = place(data.shape, named, indices, row)? * size;
            target.copy_from_slice(&data.bytes[from..][..length]);
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (data, indices) = (lowering.input_shape(0)?, lowering.input_shape(1)?);
        let named = named(data, indices).map_err(refuse)?;
        if let Ok(values) = lowering.integers(1) {
            // Constant indices out of range are refused: a device would clamp them, but the CPU reports the
            // error.
            let (rows, values) = (indices.elements() / named, SignedIntegers::from(&values[..]));
            (0..rows).try_for_each(|row| place(data, named, values, row).map(drop)).map_err(refuse)?;
        }
        let inputs = [lowering.input(0)?, lowering.input(1)?];
        let output = lowering.emit(Primitive::Gather(Gather { batch: 0, axis: 0 }), &inputs)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_leading_axes() {
        let data = Shape::from([2, 3, 4]);
        assert_eq!(output(&data, &[5, 2].into()).unwrap(), Shape::from([5, 4]));
        assert_eq!(output(&data, &[3].into()).unwrap(), Shape::default());
        assert_eq!(output(&data, &[5, 0].into()).unwrap(), Shape::from([5, 2, 3, 4]));
        assert!(output(&data, &[5, 4].into()).is_err());
        assert!(output(&data, &[].into()).is_err());
    }

    #[test]
    fn every_index_lies_inside() {
        let data = Shape::from([2, 3, 4]);
        let place = |row: &[i64]| place(&data, row.len(), SignedIntegers::from(row), 0);
        assert_eq!(place(&[1, 2]).unwrap(), 20);
        assert_eq!(place(&[]).unwrap(), 0);
        assert!(place(&[2, 0]).is_err() && place(&[0, -1]).is_err());
    }
}
