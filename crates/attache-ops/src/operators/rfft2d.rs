//! RFFT2D: the discrete Fourier transform of real images, along the two last axes. Images are cut or extended by zeros to
//! the lengths in the second input, which are powers of two; of the last axis, only the `length / 2 + 1` frequencies that
//! are not redundant are kept.

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError, WorkingMemory};
use attache_model::schema::BuiltinOperator;

use crate::shared::fourier::Transform;
use crate::shared::support::{countable, elements_mut, product};
use crate::{Code, Definition, Facts, Operator, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RFFT2D),
    versions: 1..=1,
    inputs: &[input("input").of(&[DataType::Float32]), input("fft_length").of(&[DataType::Int32])],
    parse: |_| Ok(Box::new(Rfft2d)),
}];

#[derive(Debug)]
struct Rfft2d;

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
}

#[cfg(test)]
mod tests {
    use super::*;

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
