//! RFFT2D: the discrete Fourier transform of real images, along the two last axes. Images are cut or extended by zeros to
//! the lengths in the second input, which are powers of two; of the last axis, only the `length / 2 + 1` frequencies that
//! are not redundant are kept.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::ValueId;
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported, WorkingMemory};
use attache_model::schema::BuiltinOperator;

use crate::shared::fourier::{Transform, root};
use crate::shared::steps::Matrix;
use crate::shared::support::{countable, elements_mut, product, refuse};
use crate::shared::view::{Along, View};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RFFT2D),
    versions: 1..=1,
    inputs: &[input("input").of(&[DataType::Float32]), input("fft_length").of(&[DataType::Int32])],
    parse: |_| Ok(Box::new(Rfft2d)),
}];

#[derive(Debug)]
struct Rfft2d;

/// Maximum number of elements of a matrix by which a device multiplies: that of about 2,048 columns, or of 1,024 rows.
const MOST_ELEMENTS: usize = 9 << 19;

/// Returns the lengths along both axes; fails unless both are powers of two.
fn lengths(values: &[i64]) -> Result<[usize; 2], OpError> {
    let length = |value: i64| usize::try_from(value).ok().filter(|length| length.is_power_of_two());
    match values {
        [rows, columns] => length(*rows).zip(length(*columns)).map(|(rows, columns)| [rows, columns]),
        _ => None,
    }
    .ok_or_else(|| OpError::invalid(format!("lengths {values:?}; they must be two powers of two")))
}

fn output(shape: &Shape, [rows, columns]: [usize; 2]) -> Result<Shape, OpError> {
    let (outer, _) = shape.split_last_chunk::<2>().ok_or_else(|| OpError::invalid(format!("{shape} is no image")))?;
    countable([outer, &[rows, columns / 2 + 1]].concat().into())
}

/// Transforms an image with `from` rows and columns to `lengths`.
fn transform(image: &[f32], from: [usize; 2], lengths: [&Transform; 2], output: &mut [[f32; 2]]) {
    let [rows, columns] = lengths.map(|transform| transform.length());
    let kept = columns / 2 + 1;
    let mut frequencies = vec![[0.0; 2]; rows * kept];
    let mut line = vec![[0.0; 2]; columns];
    for (row, frequencies) in frequencies.chunks_exact_mut(kept).enumerate().take(from[0]) {
        line.fill([0.0; 2]);
        let values = image[row * from[1]..][..from[1]].iter();
        line.iter_mut().zip(values).for_each(|(to, value)| *to = [f64::from(*value), 0.0]);
        lengths[1].run(&mut line);
        frequencies.copy_from_slice(&line[..kept]);
    }
    let mut line = vec![[0.0; 2]; rows];
    for column in 0..kept {
        line.iter_mut().enumerate().for_each(|(row, to)| *to = frequencies[row * kept + column]);
        lengths[0].run(&mut line);
        let places = output[column..].iter_mut().step_by(kept);
        places.zip(&line).for_each(|(to, value)| *to = value.map(|part| part as f32));
    }
}

/// Returns the matrix that transforms `from` of `length` real numbers, the others being 0, to `length / 2 + 1` frequencies:
/// a row for the real and one for the imaginary part of each.
fn matrix_of_reals(length: usize, from: usize) -> Constant {
    let roots: Vec<_> = (0..length).map(|index| root(index, length)).collect();
    let rows = (0..=length / 2).flat_map(|frequency| [(frequency, 0), (frequency, 1)]);
    let row = |(frequency, part): (usize, usize)| {
        let roots = &roots;
        (0..from).map(move |place| roots[frequency * place % length][part] as f32)
    };
    Constant::from_vec([2 * (length / 2 + 1), from], rows.flat_map(row).collect())
}

/// Returns the matrix that transforms `from` of `length` complex numbers, the others being 0. Its rows are the parts of the
/// frequencies, its columns those of the numbers.
fn matrix_of_pairs(length: usize, from: usize) -> Constant {
    let roots: Vec<_> = (0..length).map(|index| root(index, length)).collect();
    let rows = (0..length).flat_map(|frequency| [(frequency, true), (frequency, false)]);
    let row = |(frequency, is_real): (usize, bool)| {
        let roots = &roots;
        (0..from).flat_map(move |place| {
            let [real, imaginary] = roots[frequency * place % length].map(|part| part as f32);
            if is_real { [real, -imaginary] } else { [imaginary, real] }
        })
    };
    Constant::from_vec([2 * length, 2 * from], rows.flat_map(row).collect())
}

/// Emits the product of rows and a constant matrix.
fn times(lowering: &mut Lowering<'_>, rows: ValueId, matrix: Constant) -> Result<ValueId, Unsupported> {
    let matrix = lowering.precise_constant(matrix)?;
    Matrix::new(lowering, matrix)?.times(lowering, rows, None)
}

/// Emits a value of four axes with the two in the middle exchanged.
fn exchanged(lowering: &mut Lowering<'_>, value: ValueId, shape: [usize; 4]) -> Result<ValueId, Unsupported> {
    let value = lowering.reshape(value, &shape.into())?;
    let output = [shape[0], shape[2], shape[1], shape[3]].into();
    View { output, coordinates: [0, 2, 1, 3].map(Along::whole).to_vec() }.lower(lowering, value)
}

impl Operator for Rfft2d {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [input, given] = inputs.required();
        if let Some(shape) = given.shape.as_ref().filter(|shape| shape.extents() != [2]) {
            return Err(OpError::invalid(format!("lengths of shape {shape}; they must be a list of two")));
        }
        if let Some(shape) = input.shape.as_ref() {
            output(shape, [1, 1])?;
        }
        let lengths = inputs.integers(1)?.map(|values| lengths(&values)).transpose()?;
        let shape = input.shape.as_ref().zip(lengths).map(|(shape, lengths)| output(shape, lengths)).transpose()?;
        Ok(vec![Inferred { data_type: DataType::Complex64, shape }])
    }

    fn working_memory(&self, _: Facts<'_>, outputs: &[&Shape]) -> Option<WorkingMemory> {
        // One image in 64 bits, two lines of it, and the roots.
        let [rows, columns] = *outputs.first()?.last_chunk::<2>()?;
        let image = product(&[rows, columns]).saturating_add(4 * columns as u64).saturating_add(2 * rows as u64);
        Some(WorkingMemory { kept: 0, scratch: image.saturating_mul(16) })
    }

    fn multiply_adds(&self, _: &[Option<&Shape>], outputs: &[&Shape]) -> Option<u64> {
        let [rows, columns] = *outputs.first()?.last_chunk::<2>()?;
        let depth = u64::from(rows.max(1).ilog2() + columns.max(1).ilog2() + 2);
        Some(product(outputs.first()?).saturating_mul(4 * depth))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let input = eval.input(0)?;
        let [rows, columns] = lengths(&eval.input(1)?.integers()?)?;
        let wrong = || OpError::invalid(format!("{} is no image", input.shape));
        let (_, from) = input.shape.split_last_chunk::<2>().ok_or_else(wrong)?;
        let transforms = [Transform::new(rows), Transform::new(columns)];
        let output = elements_mut::<[f32; 2]>(eval.outputs[0].bytes)?;
        let images = output.chunks_exact_mut(rows * (columns / 2 + 1));
        if from.contains(&0) {
            output.fill([0.0; 2]);
            return Ok(());
        }
        for (output, image) in images.zip(input.values::<f32>()?.chunks_exact(from[0] * from[1])) {
            transform(image, *from, transforms.each_ref(), output);
        }
        Ok(())
    }

    /// Emits the transform as products with matrices of cosines and sines: one along the columns, and if there are several
    /// rows, another one along these.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let [rows, columns] = lengths(&lowering.integers(1)?).map_err(refuse)?;
        let shape = lowering.input_shape(0)?.clone();
        let made: Shape = lowering.output_shape(0)?.iter().copied().chain([2]).collect();
        let (outer, from) =
            shape.split_last_chunk::<2>().ok_or_else(|| Unsupported::new(format!("{shape} is no image")))?;
        let (images, kept, used) = (outer.iter().product(), columns / 2 + 1, [from[0].min(rows), from[1].min(columns)]);
        let matrices = [kept.saturating_mul(2 * used[1]), rows.saturating_mul(4 * used[0])];
        if matrices.iter().any(|elements| *elements > MOST_ELEMENTS) {
            return Err(Unsupported::new(format!(
                "transforms of {rows} × {columns} numbers, which take large matrices"
            )));
        }
        let input = lowering.float_input(0)?;
        let all = Shape::from([images, from[0], from[1]]);
        let input = lowering.reshape(input, &all)?;
        let part =
            View { output: [images, used[0], used[1]].into(), coordinates: [0, 1, 2].map(Along::whole).to_vec() };
        let input = part.lower(lowering, input)?;
        let mut spectrum = times(lowering, input, matrix_of_reals(columns, used[1]))?;
        if rows > 1 {
            let lines = exchanged(lowering, spectrum, [images, used[0], kept, 2])?;
            let lines = lowering.reshape(lines, &[images * kept, 2 * used[0]].into())?;
            let transformed = times(lowering, lines, matrix_of_pairs(rows, used[0]))?;
            spectrum = exchanged(lowering, transformed, [images, kept, rows, 2])?;
        }
        let output = lowering.reshape(spectrum, &made)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_transform_what_is_extended_by_zeros() {
        for (length, from) in [(1, 1), (2, 1), (8, 8), (16, 5)] {
            let values: Vec<[f64; 2]> = (0..from).map(|n| [(n * n % 7) as f64, (n % 3) as f64 - 1.0]).collect();
            let (parts, reals) = (values.concat(), values.iter().map(|value| value[0]).collect::<Vec<_>>());
            let transformed = |is_real: bool| {
                let mut line = vec![[0.0; 2]; length];
                let given = values.iter().map(|[real, imaginary]| [*real, if is_real { 0.0 } else { *imaginary }]);
                line.iter_mut().zip(given).for_each(|(to, value)| *to = value);
                Transform::new(length).run(&mut line);
                line.concat()
            };
            let check = |matrix: Constant, values: &[f64], expected: &[f64]| {
                let rows = matrix.values::<f32>().unwrap();
                assert_eq!(rows.len(), expected.len() * values.len());
                for (row, expected) in rows.chunks_exact(values.len()).zip(expected) {
                    let made: f64 = row.iter().zip(values).map(|(a, b)| f64::from(*a) * b).sum();
                    assert!((made - expected).abs() < 1e-5, "{from} of {length}: {made}, {expected}");
                }
            };
            check(matrix_of_pairs(length, from), &parts, &transformed(false));
            check(matrix_of_reals(length, from), &reals, &transformed(true)[..2 * (length / 2 + 1)]);
        }
    }

    #[test]
    fn lengths_are_powers_of_two() {
        assert_eq!(lengths(&[1, 512]).unwrap(), [1, 512]);
        for wrong in [&[3, 4][..], &[4, 0], &[-4, 4], &[4], &[2, 2, 2]] {
            assert!(lengths(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(output(&[3, 5, 7].into(), [4, 8]).unwrap(), Shape::from([3, 4, 5]));
        assert!(output(&[3].into(), [4, 8]).is_err());
        assert!(output(&[1 << 40, 5, 7].into(), [1 << 30, 1 << 30]).is_err());
    }
}
