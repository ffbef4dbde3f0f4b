//! RFFT2D: the discrete Fourier transform of real images, along the two last axes. Images are cut or extended by zeros to
//! the lengths in the second input, which are powers of two; of the last axis, only the `length / 2 + 1` frequencies that
//! are not redundant are kept.

use std::f64::consts::TAU;

use attache_base::{DataType, Shape};
use attache_graph::{Eval, Inferred, OpError, WorkingMemory};
use attache_model::schema::BuiltinOperator;

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

/// A complex number: its real and its imaginary part.
type Complex = [f64; 2];

fn times([a, b]: Complex, [c, d]: Complex) -> Complex {
    [a * c - b * d, a * d + b * c]
}

/// A transform of a power of two of complex numbers.
struct Transform {
    /// The powers of the root of unity, `exp(−2πi k / length)`, for the first half of the circle.
    roots: Vec<Complex>,
    length: usize,
}

impl Transform {
    fn new(length: usize) -> Self {
        let root = |index: usize| {
            let angle = -TAU * index as f64 / length as f64;
            [angle.cos(), angle.sin()]
        };
        Self { roots: (0..length / 2).map(root).collect(), length }
    }

    /// Replaces the numbers by their transform: `X[k] = Σ x[n] exp(−2πi k n / length)`. Source: Cooley and Tukey.
    fn run(&self, values: &mut [Complex]) {
        let bits = self.length.trailing_zeros();
        for index in 0..self.length {
            let reversed = index.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0);
            if index < reversed {
                values.swap(index, reversed);
            }
        }
        let mut half = 1;
        while half < self.length {
            let step = self.length / (2 * half);
            for block in values.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for (place, (low, high)) in low.iter_mut().zip(high).enumerate() {
                    let [real, imaginary] = times(*high, self.roots[place * step]);
                    *high = [low[0] - real, low[1] - imaginary];
                    *low = [low[0] + real, low[1] + imaginary];
                }
            }
            half *= 2;
        }
    }
}

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
    let [rows, columns] = lengths.map(|transform| transform.length);
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
    fn transforms_are_sums() {
        for length in [1, 2, 8, 16] {
            let values: Vec<Complex> = (0..length).map(|n| [(n * n % 7) as f64, (n % 3) as f64]).collect();
            let mut made = values.clone();
            Transform::new(length).run(&mut made);
            for (k, made) in made.iter().enumerate() {
                let term = |(n, value): (usize, &Complex)| {
                    let angle = -TAU * (n * k) as f64 / length as f64;
                    times(*value, [angle.cos(), angle.sin()])
                };
                let terms = values.iter().enumerate().map(term);
                let sum = terms.fold([0.0; 2], |sum, term| [sum[0] + term[0], sum[1] + term[1]]);
                assert!((sum[0] - made[0]).hypot(sum[1] - made[1]) < 1e-9, "{length} {k}");
            }
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
