//! aeq.hadamard_rotation: the custom operator that multiplies each group of `hadamard_size` elements along the last axis by
//! the normalized Hadamard matrix of that size. Quantizers rotate activations so, that no element stands out.
//!
//! The size is a power of two, and the element at (i, j) of the matrix is 1 / √size, negative where i and j have an odd
//! number of bits in common. The option `random_binary_vector` has no effect, as in TensorFlow Lite.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{Primitive, ValueId};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported};
use attache_model::{FlexMap, FlexScalar};

use crate::shared::support::product;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Custom("aeq.hadamard_rotation"),
    versions: 1..=1,
    inputs: &[input("input").float()],
    parse,
}];

#[derive(Debug)]
struct HadamardRotation {
    /// The number of elements of a group; a power of two.
    size: usize,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let bytes = declaration.operator.custom_options.as_deref().ok_or_else(|| declaration.no_options())?;
    let map = FlexMap::read(bytes).ok_or_else(|| OpError::invalid("its options are no map in a FlexBuffer"))?;
    match map.get("hadamard_size") {
        Some(FlexScalar::Int(size @ 1..=0x4000_0000)) if size & (size - 1) == 0 => {
            Ok(Box::new(HadamardRotation { size: size as usize }))
        }
        other => Err(OpError::invalid(format!("hadamard_size is {other:?}; it must be a power of two"))),
    }
}

/// Multiplies the elements of a group by the matrix without its factor, by sums and differences of pairs.
fn rotate(group: &mut [f32]) {
    let mut half = 1;
    while half < group.len() {
        for pair in group.chunks_exact_mut(2 * half) {
            let (left, right) = pair.split_at_mut(half);
            for (x, y) in left.iter_mut().zip(right) {
                (*x, *y) = (*x + *y, *x - *y);
            }
        }
        half *= 2;
    }
}

/// Largest matrix by which a device multiplies. Larger sizes are products of such matrices along several axes.
const LARGEST_FACTOR: usize = 64;

/// Emits the product of the axis of extent `factor` of a tensor `[outer, factor, inner]` with the Hadamard matrix of that
/// size, multiplied by `scale`.
fn lower_factor(
    lowering: &mut Lowering<'_>,
    input: ValueId,
    [outer, factor, inner]: [usize; 3],
    scale: f32,
) -> Result<ValueId, Unsupported> {
    let is_even = |place: usize| ((place / factor) & (place % factor)).count_ones().is_multiple_of(2);
    let sign = |place: usize| if is_even(place) { scale } else { -scale };
    let signs: Vec<f32> = (0..factor * factor).map(sign).collect();
    let matrix = lowering.precise_constant(Constant::from_values([factor, factor], &signs))?;
    let multiply = Primitive::MatMul { transposed: [false, false], order: Vec::new() };
    // The matrix is symmetric.
    if inner == 1 {
        let rows = lowering.reshape(input, &[outer, factor].into())?;
        return lowering.emit(multiply, &[rows, matrix]);
    }
    let columns = lowering.reshape(input, &[outer, factor, inner].into())?;
    lowering.emit(multiply, &[matrix, columns])
}

impl Operator for HadamardRotation {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let Some(shape) = &inputs.fact(0).shape else { return Ok(vec![Inferred::unknown(DataType::Float32)]) };
        if !matches!(shape.rank(), 2 | 3) {
            return Err(OpError::unsupported(format!("an input of shape {shape}; only ranks 2 and 3 are implemented")));
        }
        match shape.last() {
            Some(last) if last.is_multiple_of(self.size) => Ok(vec![Inferred::new(DataType::Float32, shape.clone())]),
            _ => Err(OpError::invalid(format!("the last axis of {shape} has no groups of {} elements", self.size))),
        }
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        Some(product(inputs.first().copied()??).saturating_mul(self.size.ilog2().into()))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, output) = (eval.input(0)?.values::<f32>()?, eval.outputs[0].values::<f32>()?);
        let factor = (1.0 / (self.size as f64).sqrt()) as f32;
        output.copy_from_slice(input);
        for group in output.chunks_exact_mut(self.size) {
            rotate(group);
            group.iter_mut().for_each(|element| *element *= factor);
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (shape, elements) = (lowering.output_shape(0)?.clone(), lowering.output_shape(0)?.elements());
        let (mut value, mut inner) = (lowering.float_input(0)?, 1);
        let mut scale = (1.0 / (self.size as f64).sqrt()) as f32;
        loop {
            let factor = (self.size / inner).min(LARGEST_FACTOR);
            value = lower_factor(lowering, value, [elements / (factor * inner), factor, inner], scale)?;
            (inner, scale) = (inner * factor, 1.0);
            if inner >= self.size {
                break;
            }
        }
        let output = lowering.reshape(value, &shape)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    #[test]
    fn a_rotation_is_its_own_inverse() {
        let mut group = [1.0, 2.0, -3.0, 0.5];
        rotate(&mut group);
        assert_eq!(group, [0.5, -4.5, 5.5, 2.5]);
        rotate(&mut group);
        assert_eq!(group, [4.0, 8.0, -12.0, 2.0]);
    }

    #[test]
    fn groups_must_fit_the_last_axis() {
        let infer = |shape: &[usize]| {
            DEFINITIONS[0].infer(&HadamardRotation { size: 4 }, &[Some(&Fact::new(DataType::Float32, shape))])
        };
        assert_eq!(infer(&[3, 8]).unwrap(), [Inferred::new(DataType::Float32, [3, 8])]);
        assert!(matches!(infer(&[3, 6]), Err(OpError::Invalid(_))));
        assert!(matches!(infer(&[8]), Err(OpError::Unsupported(_))));
    }
}
