//! MATRIX_DIAG: square matrices of zeros with the last axis of the input as their diagonals. MATRIX_SET_DIAG: matrices whose
//! diagonals are replaced by the last axis of the second input.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{Index, IndexMap, Primitive};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::schema::BuiltinOperator;

use crate::shared::integers::choose;
use crate::shared::support::{countable, refuse};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[
    Definition {
        code: Code::Builtin(BuiltinOperator::MATRIX_DIAG),
        versions: 1..=1,
        inputs: &[input("diagonal").of(&TYPES)],
        parse: |_| Ok(Box::new(MatrixDiag)),
    },
    Definition {
        code: Code::Builtin(BuiltinOperator::MATRIX_SET_DIAG),
        versions: 1..=1,
        inputs: &[input("input").of(&TYPES), input("diagonal").like(0)],
        parse: |_| Ok(Box::new(MatrixSetDiag)),
    },
];

/// Supported element types.
const TYPES: [DataType; 8] = [
    DataType::Float32,
    DataType::Int8,
    DataType::UInt8,
    DataType::Bool,
    DataType::Int16,
    DataType::Int32,
    DataType::UInt32,
    DataType::Int64,
];

#[derive(Debug)]
struct MatrixDiag;

#[derive(Debug)]
struct MatrixSetDiag;

/// Copies diagonals of `length` elements of `size` bytes into matrices with so many columns and rows.
fn write(diagonals: &[u8], length: usize, size: usize, matrices: &mut [u8], [rows, columns]: [usize; 2]) {
    let matrices = matrices.chunks_exact_mut(rows * columns * size);
    for (matrix, diagonal) in matrices.zip(diagonals.chunks_exact(length * size)) {
        for (place, element) in diagonal.chunks_exact(size).enumerate() {
            matrix[place * (columns + 1) * size..][..size].copy_from_slice(element);
        }
    }
}

fn size_of(data_type: DataType) -> usize {
    data_type.bits().unwrap_or(8) / 8
}

/// Returns the index map that takes diagonals to matrices of this shape, which are 0 elsewhere.
fn on_diagonals(shape: &Shape) -> Result<Primitive, Unsupported> {
    let (row, column) = (shape.rank() - 2, shape.rank() - 1);
    let mut coordinates: Vec<_> = (0..column).map(Index::Axis).collect();
    // Where row and column differ, the coordinate lies outside of the diagonal.
    let apart = Index::Axis(row).sum(Index::Axis(column).times(-1));
    let most = shape[row].max(shape[column]);
    // A device computes coordinates in 32 bits.
    if most > 32_768 {
        return Err(Unsupported::new(format!("matrices of {most} rows or columns; a device takes up to 32768")));
    }
    coordinates[row] = Index::Axis(column).sum(apart.times(most as i64));
    Ok(Primitive::IndexMap(IndexMap { output: shape.to_vec(), coordinates, fill: Some(0.0) }))
}

impl Operator for MatrixDiag {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let input = inputs.fact(0);
        let Some(shape) = &input.shape else { return Ok(vec![Inferred::unknown(input.data_type)]) };
        let last = shape.last().ok_or_else(|| OpError::invalid("a scalar is no diagonal"))?;
        Ok(vec![Inferred::new(input.data_type, countable([&shape[..], &[*last]].concat().into())?)])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let (length, output) = (input.shape[input.shape.rank() - 1], &mut *eval.outputs[0].bytes);
        output.fill(0);
        write(input.bytes, length, size_of(input.data_type), output, [length; 2]);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored(); // its zeros are stored zeros
        let shape = lowering.output_shape(0)?.clone();
        let input = lowering.input(0)?;
        let output = lowering.emit(on_diagonals(&shape)?, &[input])?;
        lowering.output(0, output)
    }
}

/// Returns the rows and columns of the matrices; fails where there is not one diagonal for each matrix.
fn matrices(shape: &Shape, diagonal: &Shape) -> Result<[usize; 2], OpError> {
    let wrong = || OpError::invalid(format!("diagonals of shape {diagonal} for matrices of shape {shape}"));
    let (outer, [rows, columns]) = shape.split_last_chunk::<2>().ok_or_else(wrong)?;
    match diagonal.split_last() {
        Some((last, rest)) if rest == outer && last == rows.min(columns) => Ok([*rows, *columns]),
        _ => Err(wrong()),
    }
}

impl Operator for MatrixSetDiag {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, diagonal] = inputs.required();
        if let (Some(shape), Some(diagonal)) = (&input.shape, &diagonal.shape) {
            matrices(shape, diagonal)?;
        }
        Ok(vec![Inferred { data_type: input.data_type, shape: input.shape.clone() }])
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, diagonal) = (eval.input(0)?, eval.input(1)?);
        let extents = matrices(input.shape, diagonal.shape)?;
        let output = &mut *eval.outputs[0].bytes;
        output.copy_from_slice(input.bytes);
        write(diagonal.bytes, extents[0].min(extents[1]), size_of(input.data_type), output, extents);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        lowering.use_stored();
        let shape = lowering.output_shape(0)?.clone();
        let extents = matrices(&shape, lowering.input_shape(1)?).map_err(refuse)?;
        let ones = vec![1; extents[0].min(extents[1])];
        let ones = lowering.constant(Constant::from_values([ones.len()], &ones))?;
        let is_diagonal = lowering.emit(on_diagonals(&extents.into())?, &[ones])?;
        let (input, diagonal) = (lowering.input(0)?, lowering.input(1)?);
        let diagonal = lowering.emit(on_diagonals(&shape)?, &[diagonal])?;
        let output = choose(lowering, lowering.input_fact(0)?.data_type, &[is_diagonal, diagonal, input])?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diagonals_lie_in_their_matrices() {
        let mut matrix = [9; 12];
        write(&[1, 2, 3, 4], 2, 1, &mut matrix, [2, 3]);
        assert_eq!(matrix, [1, 9, 9, 9, 2, 9, 3, 9, 9, 9, 4, 9]);
        let shape = Shape::from([2, 3, 2]);
        assert_eq!(matrices(&shape, &[2, 2].into()).unwrap(), [3, 2]);
        for wrong in [&[2, 3][..], &[2], &[1, 2], &[]] {
            assert!(matrices(&shape, &wrong.into()).is_err(), "{wrong:?}");
        }
    }
}
