//! GATHER: slices of an axis selected by indices, for each index of the shared leading axes.
//!
//! With `data = [B…, O…, N, I…]` and `indices = [B…, J…]`, `out[b…, o…, j…, i…] = data[b…, o…, indices[b…, j…], i…]`.

use attache_base::{DataType, Shape};
use attache_gpu_ir::{Gather as Named, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, SignedIntegers, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::support::{axis_of, countable, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::GATHER),
    versions: 1..=8,
    inputs: &[
        input("params").movable_or_strings(),
        input("indices").of(&[DataType::Int32, DataType::Int64, DataType::Int16]),
    ],
    parse,
}];

#[derive(Debug)]
struct Gather {
    /// The axis that is indexed; negative axes count from the end.
    axis: i64,
    /// Number of leading axes that data and indices share; a negative number is relative to the rank of the indices.
    batch_dims: i64,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_gather_options();
    let (axis, batch_dims) = options.map_or((0, 0), |options| (options.axis(), options.batch_dims()));
    Ok(Box::new(Gather { axis: i64::from(axis), batch_dims: i64::from(batch_dims) }))
}

/// Products of extents: of the shared leading axes (`batch`), of the data's axes between them and the indexed
/// one (`outer`), of the indexed axis (`named`), and of the axes after it (`inner`).
struct Extents {
    batch: usize,
    outer: usize,
    named: usize,
    inner: usize,
    /// Number of indices for each index of the shared leading axes.
    indices: usize,
}

impl Gather {
    /// Returns the number of shared leading axes, and the indexed axis. Fails where the shapes do not fit.
    fn axes(&self, data: &Shape, indices: &Shape) -> Result<(usize, usize), OpError> {
        let axis = axis_of(data, self.axis)?;
        let batch = if self.batch_dims < 0 { self.batch_dims + indices.rank() as i64 } else { self.batch_dims };
        let batch = usize::try_from(batch).ok().filter(|batch| *batch <= axis && *batch <= indices.rank());
        match batch {
            Some(batch) if data[..batch] == indices[..batch] => Ok((batch, axis)),
            _ => {
                let batch_dims = self.batch_dims;
                Err(OpError::invalid(format!(
                    "{data} and indices {indices} do not share {batch_dims} axes before {axis}"
                )))
            }
        }
    }

    fn output(&self, data: &Shape, indices: &Shape) -> Result<Shape, OpError> {
        let (batch, axis) = self.axes(data, indices)?;
        countable([&data[..axis], &indices[batch..], &data[axis + 1..]].concat().into())
    }

    fn extents(&self, data: &Shape, indices: &Shape) -> Result<Extents, OpError> {
        let (batch, axis) = self.axes(data, indices)?;
        Ok(Extents {
            batch: data[..batch].iter().product(),
            outer: data[batch..axis].iter().product(),
            named: data[axis],
            inner: data[axis + 1..].iter().product(),
            indices: indices[batch..].iter().product(),
        })
    }
}

impl Extents {
    /// Returns an index as a position on the indexed axis; fails where it is out of range.
    fn position(&self, index: i64) -> Result<usize, OpError> {
        let inside = usize::try_from(index).ok().filter(|index| *index < self.named);
        inside.ok_or_else(|| OpError::invalid(format!("index {index} on an axis of {}", self.named)))
    }

    /// Copies the selected slices of the data, whose elements have `size` bytes. Indices are read and checked as they are
    /// used, since there may be far more of them than a list has room for.
    fn gather(&self, data: &[u8], indices: SignedIntegers<'_>, output: &mut [u8], size: usize) -> Result<(), OpError> {
        let length = self.inner * size;
        let mut targets = output.chunks_exact_mut(length);
        for outer in 0..self.batch * self.outer {
            let first = outer / self.outer * self.indices;
            for (index, target) in (first..first + self.indices).zip(&mut targets) {
                let from = outer * self.named + self.position(indices.get(index))?;
                target.copy_from_slice(&data[from * length..][..length]);
            }
        }
        Ok(())
    }
}

impl Operator for Gather {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [data, indices] = inputs.required();
        let (Some(shape), Some(indices)) = (&data.shape, &indices.shape) else {
            return Ok(vec![Inferred::unknown(data.data_type)]);
        };
        Ok(vec![Inferred::new(data.data_type, self.output(shape, indices)?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (data, indices) = (eval.input(0)?, eval.input(1)?);
        let extents = self.extents(data.shape, indices.shape)?;
        let size = data.data_type.bits().unwrap_or(8) / 8;
        extents.gather(data.bytes, indices.signed_integers()?, &mut *eval.outputs[0].bytes, size)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (data, indices) = (lowering.input_shape(0)?, lowering.input_shape(1)?);
        let (batch, axis) = self.axes(data, indices).map_err(refuse)?;
        if let Ok(indices) = lowering.integers(1) {
            // Constant indices out of range are refused: a device would clamp them, but the CPU reports the
            // error.
            let extents = self.extents(data, lowering.input_shape(1)?).map_err(refuse)?;
            indices.iter().try_for_each(|index| extents.position(*index).map(drop)).map_err(refuse)?;
        }
        let named = [indices.extents(), &[1]].concat().into();
        // Of a constant table of integers, those are gathered, and then scaled.
        let quantized = lowering.quantized_constant(0, data);
        let data = quantized.map_or_else(|| lowering.input(0), Ok)?;
        let indices = lowering.input(1)?;
        let indices = lowering.reshape(indices, &named)?;
        let output = lowering.emit(Primitive::Gather(Named { batch, axis }), &[data, indices])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(axis: i64, batch_dims: i64, data: &[usize], indices: &[usize]) -> Result<Shape, OpError> {
        Gather { axis, batch_dims }.output(&data.into(), &indices.into())
    }

    #[test]
    fn indices_stand_for_the_axis() {
        assert_eq!(output(1, 0, &[2, 3, 4], &[5, 6]).unwrap(), Shape::from([2, 5, 6, 4]));
        assert_eq!(output(-1, 0, &[2, 3], &[]).unwrap(), Shape::from([2]));
        assert_eq!(output(2, 1, &[2, 3, 4, 5], &[2, 7]).unwrap(), Shape::from([2, 3, 7, 5]));
        assert_eq!(output(1, -1, &[2, 3, 4], &[2, 7]).unwrap(), Shape::from([2, 7, 4]));
        assert!(output(3, 0, &[2, 3, 4], &[1]).is_err());
        assert!(output(0, 1, &[2, 3], &[2, 1]).is_err(), "the axis lies before the shared ones' end");
        assert!(output(1, 1, &[2, 3], &[3, 1]).is_err(), "axes of different extents are shared");
        assert!(output(1, i64::from(i32::MIN), &[2, 3], &[2]).is_err());
    }

    #[test]
    fn every_index_lies_inside() {
        let extents = Extents { batch: 1, outer: 2, named: 3, inner: 2, indices: 2 };
        assert!(extents.position(3).is_err() && extents.position(-1).is_err());
        let (data, indices, mut output) = ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], [2, 0], [0; 8]);
        extents.gather(&data, SignedIntegers::from(&indices[..]), &mut output, 1).unwrap();
        assert_eq!(output, [4, 5, 0, 1, 10, 11, 6, 7]);
    }
}
