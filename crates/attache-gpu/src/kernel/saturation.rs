//! Which values saturate where they are stored in 16 bits: finite elements beyond the range of f16 become the nearest
//! finite f16, and not infinite.
//!
//! Masks of attention are the reason: they add a constant such as -1e9 to the scores that do not count. With infinities, a
//! row of nothing else has no softmax. Values that no such constant contributes to are stored as the device converts them,
//! which takes no further operations.

use attache_gpu_ir::{Primitive, Program, Scalar, ValueId};
use half::f16;

/// The largest finite f16.
const LARGEST: f32 = 65504.0;

/// Returns the nearest f16 of a float, the largest finite one for finite floats beyond the range.
pub(crate) fn to_half(float: f32) -> f16 {
    if is_beyond(float) { f16::MAX.copysign(f16::from_f32(float)) } else { f16::from_f32(float) }
}

/// Whether a float is finite and beyond the range of f16.
pub(crate) fn is_beyond(float: f32) -> bool {
    float.is_finite() && float.abs() > LARGEST
}

/// Returns for each value of a program whether it saturates: whether a map computes it with a constant beyond the range of
/// f16, or a step from values that saturate. Products of matrices, convolutions and computations of rows, such as a softmax,
/// end the chain.
pub(super) fn saturating(program: &Program) -> Vec<bool> {
    let mut saturates = vec![false; program.values.len()];
    for step in &program.steps {
        let reads = || step.inputs.iter().any(|id| saturates[id.index()]);
        let does = match &step.primitive {
            Primitive::Map { expression, .. } => {
                expression.has_constant(&is_beyond)
                    || reads()
                    || step.inputs.iter().any(|id| is_constant_beyond(program, *id))
            }
            Primitive::IndexMap(map) => map.fill.is_some_and(is_beyond) || reads(),
            Primitive::Reshape(_)
            | Primitive::Concatenate { .. }
            | Primitive::Reduce { .. }
            | Primitive::Window(_)
            | Primitive::Resample(_)
            | Primitive::Unpool { .. }
            | Primitive::Gather(_)
            | Primitive::Scatter { .. }
            | Primitive::Update
            | Primitive::Scan { .. }
            | Primitive::TopK { .. } => reads(),
            Primitive::IntMap { .. }
            | Primitive::Rows(_)
            | Primitive::Convolution(_)
            | Primitive::MatMul { .. }
            | Primitive::ArgReduce { .. }
            | Primitive::Suppress(_) => false,
        };
        step.outputs.iter().for_each(|id| saturates[id.index()] = does);
    }
    saturates
}

/// Whether a value is a constant of floats, one of which is beyond the range of f16.
fn is_constant_beyond(program: &Program, id: ValueId) -> bool {
    let value = program.value(id);
    value.scalar == Scalar::F32 && value.floats().is_some_and(|floats| floats.iter().any(|x| is_beyond(*x)))
}

#[cfg(test)]
mod tests {
    use attache_base::Constant;
    use attache_gpu_ir::Expression;

    use super::*;

    #[test]
    fn only_finite_floats_become_the_largest_half() {
        let floats = [1.5, -1e9, f32::MAX, 65504.0, 65519.0, 65520.0, f32::NEG_INFINITY];
        let halves = [1.5, -65504.0, 65504.0, 65504.0, 65504.0, 65504.0, f32::NEG_INFINITY];
        assert_eq!(floats.map(|float| to_half(float).to_f32()), halves);
        assert!(to_half(f32::NAN).is_nan() && LARGEST == f16::MAX.to_f32());
    }

    #[test]
    fn what_a_large_constant_contributes_to_saturates() {
        let mut program = Program::default();
        let [scores, mask] = [[2, 4], [1, 4]].map(|shape| program.input(Scalar::F32, shape.into()));
        let large = program.constant(Scalar::F32, Constant::from_values([4], &[0.0, 0.0, -1e9, f32::NEG_INFINITY]));
        let infinite = program.constant(Scalar::F32, Constant::from_values([1], &[f32::NEG_INFINITY]));
        let [x, y] = [0, 1].map(Expression::Input);
        let map =
            |expression, shape: [usize; 2]| Primitive::Map { expression, shape: shape.into(), scalar: Scalar::F32 };
        let mut add = |primitive, inputs: &[ValueId]| program.step(primitive, inputs, 0).unwrap()[0];
        let scaled = add(map(x.clone().multiply(Expression::Constant(-1e9)), [1, 4]), &[mask]);
        let flat = add(Primitive::Reshape([4].into()), &[scaled]);
        let masked = add(map(x.clone().add(y.clone()), [2, 4]), &[scores, flat]);
        let product = add(Primitive::MatMul { transposed: [false, true], order: Vec::new() }, &[masked, masked]);
        let added = add(map(x.clone().add(y.clone()), [2, 4]), &[scores, large]);
        let least = add(map(x.clone().add(y), [2, 4]), &[scores, infinite]);
        let small = add(map(x.multiply(Expression::Constant(f32::INFINITY)), [2, 4]), &[scores]);
        let saturates = saturating(&program);
        let of = |ids: &[ValueId]| ids.iter().map(|id| saturates[id.index()]).collect::<Vec<_>>();
        assert_eq!(of(&[scaled, flat, masked, added]), [true; 4]);
        assert_eq!(of(&[scores, product, least, small]), [false; 4]);
    }
}
