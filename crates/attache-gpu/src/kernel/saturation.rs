//! Which values saturate where they are stored in 16 bits: finite elements beyond the range of f16 become the nearest
//! finite f16, and not infinite.
//!
//! Masks of attention are the reason: they add a constant such as -1e9 to the scores that do not count. With infinities, a
//! row of nothing else has no softmax. Values that no such constant contributes to are stored as the device converts them,
//! which takes no further operations.

use attache_gpu_ir::{IntExpression, Primitive, Program, Scalar, Source, ValueId};
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

/// Returns for each value of a program whether it saturates: whether it is a constant, or a map computes it with a constant,
/// beyond the range of f16, or a step computes it from values that saturate. Products of matrices, convolutions and
/// computations of rows, such as a softmax, end the chain.
pub(super) fn saturating(program: &Program) -> Vec<bool> {
    let mut saturates = vec![false; program.values.len()];
    let mut is_known = saturates.clone();
    for step in program.steps.iter().filter(|step| !ends(&step.primitive)) {
        for id in &step.inputs {
            if !std::mem::replace(&mut is_known[id.index()], true) {
                saturates[id.index()] |= is_constant_beyond(program, *id);
            }
        }
        let has_constant = match &step.primitive {
            Primitive::Map { expression, .. } => expression.has_constant(&is_beyond),
            Primitive::IntMap { expression, .. } => has_constant(expression),
            Primitive::IndexMap(map) => map.fill.is_some_and(is_beyond),
            _ => false,
        };
        let does = has_constant || step.inputs.iter().any(|id| saturates[id.index()]);
        step.outputs.iter().for_each(|id| saturates[id.index()] = does);
    }
    saturates
}

/// Whether large elements that a primitive reads don't make its results large, or make them so only by sums of products.
fn ends(primitive: &Primitive) -> bool {
    match primitive {
        Primitive::Rows(_)
        | Primitive::Convolution(_)
        | Primitive::MatMul { .. }
        | Primitive::ArgReduce { .. }
        | Primitive::Suppress(_) => true,
        Primitive::Map { .. }
        | Primitive::IntMap { .. }
        | Primitive::IndexMap(_)
        | Primitive::Reshape(_)
        | Primitive::Concatenate { .. }
        | Primitive::Reduce { .. }
        | Primitive::Window(_)
        | Primitive::Resample(_)
        | Primitive::Unpool { .. }
        | Primitive::Gather(_)
        | Primitive::Scatter { .. }
        | Primitive::Update
        | Primitive::Scan { .. }
        | Primitive::TopK { .. } => false,
    }
}

/// Whether an integer expression has a constant beyond the range of f16, the factors of fixed-point products apart.
fn has_constant(expression: &IntExpression) -> bool {
    match expression {
        IntExpression::Input(_) | IntExpression::LeadingZeros(_) => false,
        IntExpression::Constant(value) => is_beyond(*value as f32),
        IntExpression::Binary(_, a, b) => has_constant(a) || has_constant(b),
        IntExpression::Select(parts) => parts.iter().any(has_constant),
        IntExpression::Rescale(_, parts) => has_constant(&parts[0]),
    }
}

/// Whether a value is a constant, one of whose elements is beyond the range of f16.
fn is_constant_beyond(program: &Program, id: ValueId) -> bool {
    let value = program.value(id);
    let Source::Constant(constant) = &value.source else { return false };
    match value.scalar {
        Scalar::F32 => value.floats().is_some_and(|floats| floats.iter().any(|x| is_beyond(*x))),
        Scalar::I32 => constant.integers().is_some_and(|integers| integers.iter().any(|x| is_beyond(*x as f32))),
    }
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
        let bits = program.input(Scalar::I32, [4].into());
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
        // A constant that other steps move, and an integer mask.
        let rows = add(Primitive::Reshape([1, 4].into()), &[large]);
        let moved = add(map(Expression::Input(0).add(Expression::Input(1)), [2, 4]), &[scores, rows]);
        let expression = IntExpression::Input(0).multiply(IntExpression::Constant(-1_000_000_000));
        let integers = add(Primitive::IntMap { expression, shape: [4].into() }, &[bits]);
        let cast = add(
            Primitive::Map { expression: Expression::Input(0), shape: [4].into(), scalar: Scalar::F32 },
            &[integers],
        );
        let saturates = saturating(&program);
        let of = |ids: &[ValueId]| ids.iter().map(|id| saturates[id.index()]).collect::<Vec<_>>();
        assert_eq!(of(&[scaled, flat, masked, added, moved, integers, cast]), [true; 7]);
        assert_eq!(of(&[scores, product, least, small]), [false; 4]);
    }
}
