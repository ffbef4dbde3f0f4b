//! Binary element-wise functions of f32 operands with broadcasting and TensorFlow Lite's fused activations.

use attache_base::{Activation, Serial};

use super::broadcast::{Walk, check};
use super::unary::{Unary, unary_in_place};
use crate::simd::{Multiversioned, Simd, run_portable};
use crate::{Engine, Isa, math};

/// A function of two operands, `l` and `r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// `l + r`.
    Add,
    /// The angle of the point `(r, l)`, i.e. with `l` as y and `r` as x.
    Atan2,
    /// `l / r`.
    Divide,
    /// `⌊l / r⌋`.
    FloorDivide,
    /// `l − r ⌊l / r⌋` without rounding error, with the sign of `r`.
    FloorModulo,
    /// `l` if `l > r`, else `r`.
    Maximum,
    /// `l` if `l < r`, else `r`.
    Minimum,
    /// `l × r`.
    Multiply,
    /// `l` to the power `r`.
    Power,
    /// `l` if it is not negative, else `l × r`.
    Prelu,
    /// `(l − r)²`.
    SquaredDifference,
    /// `l − r`.
    Subtract,
}

/// Writes `activation(function(left, right))`. Both operands are broadcast to the output's shape.
///
/// # Panics
///
/// Panics if a slice does not match its shape, or if an operand does not broadcast to the output's shape.
pub fn binary(
    engine: Engine,
    function: Binary,
    (left, left_shape): (&[f32], &[usize]),
    (right, right_shape): (&[f32], &[usize]),
    (output, shape): (&mut [f32], &[usize]),
    activation: Activation,
) {
    check(left, left_shape);
    check(right, right_shape);
    check(output, shape);
    if output.is_empty() {
        return;
    }
    let mut walk = Walk::new(shape, [left_shape, right_shape]);
    // A short per-channel vector is repeated, so that rows are long enough to be efficient.
    let repeats = walk.repeats(0, 1, 512);
    let repeated = if repeats > 1 { right.repeat(repeats) } else { Vec::new() };
    let right = if repeats > 1 { &repeated } else { right };
    walk.join(repeats);
    let costs = if matches!(function, Binary::Power | Binary::Atan2 | Binary::FloorModulo) { 10.0 } else { 0.2 };
    let nanoseconds = output.len() as f64 * costs;
    let (rows, length) = (walk.rows(), output.len());
    let parts = engine.tasks(nanoseconds, length);
    // Each task gets whole rows, or a part of the only row.
    let chunk = if rows > 1 { rows.div_ceil(parts) * walk.row } else { length.div_ceil(parts) };
    let bounds = activation.bounds().unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
    engine.for_each_chunk(output, chunk, |task, output| {
        Chunk { left, right, walk: &walk, start: task * chunk, output, bounds }.compute(engine.isa, function);
        match activation {
            Activation::Tanh => unary_in_place(Engine { parallel: &Serial, ..engine }, Unary::Tanh, output),
            Activation::SignBit => {
                output.iter_mut().for_each(|value| *value = f32::from(u8::from(value.is_sign_negative())));
            }
            Activation::None | Activation::Relu | Activation::ReluN1To1 | Activation::Relu6 => {}
        }
    });
}

/// Elements of a row that are computed at a time if an operand is repeated: so few that they stay in the first-level
/// cache.
const BLOCK: usize = 256;

/// Part of the output: whole rows, or a part of the only row, starting at element `start`.
struct Chunk<'a> {
    left: &'a [f32],
    right: &'a [f32],
    walk: &'a Walk<2>,
    start: usize,
    output: &'a mut [f32],
    bounds: (f32, f32),
}

impl Chunk<'_> {
    fn compute(self, isa: Isa, function: Binary) {
        let Chunk { left, right, walk, start, output, bounds } = self;
        let within = start % walk.row;
        let length = walk.row.min(output.len());
        let [l_step, r_step] = walk.steps;
        let mut rows = output.chunks_exact_mut(length);
        if !cfg!(attache_small) {
            return walk.for_each_row(start / walk.row, rows.len(), &mut |[l, r]| {
                let row = rows.next().unwrap_or_default();
                let left = if l_step == 0 { &left[l..=l] } else { &left[l + within..][..row.len()] };
                let right = if r_step == 0 { &right[r..=r] } else { &right[r + within..][..row.len()] };
                function.apply(isa, left, right, row, bounds);
            });
        }
        // In small libraries one loop computes every form: an operand that is a single element is repeated first.
        let block = length.min(BLOCK);
        let (mut l_repeated, mut r_repeated) = ([0.0; BLOCK], [0.0; BLOCK]);
        walk.for_each_row(start / walk.row, rows.len(), &mut |[l, r]| {
            let (left, right) = (&left[l + within * l_step..], &right[r + within * r_step..]);
            if l_step == 0 {
                l_repeated[..block].fill(left[0]);
            }
            if r_step == 0 {
                r_repeated[..block].fill(right[0]);
            }
            for (index, output) in rows.next().into_iter().flat_map(|row| row.chunks_mut(block)).enumerate() {
                let left = if l_step == 0 { &l_repeated[..] } else { &left[index * block..] };
                let right = if r_step == 0 { &r_repeated[..] } else { &right[index * block..] };
                function.apply(isa, left, right, output, bounds);
            }
        });
    }
}

impl Binary {
    /// Writes the function of the first elements of `left` and `right`, clamped to `bounds`. Except in small libraries, an operand
    /// may be a single element for all.
    fn apply(self, isa: Isa, left: &[f32], right: &[f32], output: &mut [f32], bounds: (f32, f32)) {
        macro_rules! dispatch {
            ($($name:ident)*; $($slow:ident)*) => {
                match self {
                    $(Binary::$name => isa.dispatch(Apply { left, right, output, bounds, function: $name }),)*
                    $(Binary::$slow => run_portable(Apply { left, right, output, bounds, function: $slow }),)*
                }
            };
        }
        dispatch!(Add Divide FloorDivide Maximum Minimum Multiply Prelu SquaredDifference Subtract;
            Atan2 FloorModulo Power)
    }
}

trait BinaryFunction {
    fn apply(l: f32, r: f32) -> f32;
}

macro_rules! functions {
    ($($name:ident($l:ident, $r:ident) $body:expr;)*) => {$(
        struct $name;
        impl BinaryFunction for $name {
            #[inline(always)]
            fn apply($l: f32, $r: f32) -> f32 {
                $body
            }
        }
    )*};
}

functions! {
    Add(l, r) l + r;
    Atan2(l, r) l.atan2(r);
    Divide(l, r) l / r;
    FloorDivide(l, r) (l / r).floor();
    FloorModulo(l, r) {
        let rest = l % r;
        if rest != 0.0 && (r < 0.0) != (rest < 0.0) { rest + r } else { rest }
    };
    Maximum(l, r) if l > r { l } else { r };
    Minimum(l, r) if l < r { l } else { r };
    Multiply(l, r) l * r;
    Power(l, r) l.powf(r);
    Prelu(l, r) if l >= 0.0 { l } else { l * r };
    SquaredDifference(l, r) (l - r) * (l - r);
    Subtract(l, r) l - r;
}

struct Apply<'a, F> {
    left: &'a [f32],
    right: &'a [f32],
    output: &'a mut [f32],
    bounds: (f32, f32),
    #[allow(dead_code)] // names the function's type
    function: F,
}

impl<F: BinaryFunction> Multiversioned for Apply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { left, right, output, bounds: (lower, upper), .. } = self;
        match (left, right) {
            ([left], _) if !cfg!(attache_small) => {
                for (value, right) in output.iter_mut().zip(right) {
                    *value = math::clamp(F::apply(*left, *right), lower, upper);
                }
            }
            (_, [right]) if !cfg!(attache_small) => {
                for (value, left) in output.iter_mut().zip(left) {
                    *value = math::clamp(F::apply(*left, *right), lower, upper);
                }
            }
            _ => {
                for ((value, left), right) in output.iter_mut().zip(left).zip(right) {
                    *value = math::clamp(F::apply(*left, *right), lower, upper);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use attache_base::{Serial, Shape};

    use super::*;
    use crate::testing::Random;

    fn check_shapes(engine: Engine, left: &[usize], right: &[usize], random: &mut Random) {
        let shape = Shape::from(left).broadcast(&Shape::from(right)).unwrap();
        let l = random.floats(left.iter().product());
        let r = random.floats(right.iter().product());
        let mut output = vec![0.0; shape.elements()];
        binary(engine, Binary::Subtract, (&l, left), (&r, right), (&mut output, &shape), Activation::ReluN1To1);
        let strides = [left, right].map(|operand| attache_base::broadcast_strides(operand, &shape));
        for (index, value) in output.iter().enumerate() {
            let mut offsets = [0, 0];
            let mut rest = index;
            for axis in (0..shape.rank()).rev() {
                for (offset, strides) in offsets.iter_mut().zip(&strides) {
                    *offset += rest % shape[axis] * strides[axis];
                }
                rest /= shape[axis];
            }
            assert_eq!(*value, (l[offsets[0]] - r[offsets[1]]).clamp(-1.0, 1.0), "{left:?} {right:?}");
        }
    }

    #[test]
    fn every_pattern_broadcasts() {
        let mut random = Random::new(11);
        let pool = attache_base::Pool::new(2);
        for round in 0..300 {
            let rank = 1 + random.below(5);
            let full: Vec<usize> = (0..rank).map(|_| 1 + random.below(6)).collect();
            let mut operand = || -> Vec<usize> {
                let first = if random.below(3) == 0 { random.below(rank + 1) } else { 0 };
                full[first..].iter().map(|extent| if random.below(3) == 0 { 1 } else { *extent }).collect()
            };
            let (left, right) = (operand(), operand());
            let isa = Isa::available()[round % Isa::available().len()];
            check_shapes(Engine { isa, parallel: &Serial }, &left, &right, &mut random);
        }
        for (left, right) in [(&[1, 90, 70, 40][..], &[1, 90, 70, 40][..]), (&[90, 70, 40], &[40]), (&[300_000], &[])] {
            check_shapes(Engine::new(&pool), left, right, &mut random);
        }
    }

    #[test]
    fn functions_are_what_they_say() {
        let cases = [
            (Binary::FloorModulo, -7.0, 3.0, 2.0),
            (Binary::FloorModulo, 7.0, -3.0, -2.0),
            (Binary::FloorDivide, -7.0, 2.0, -4.0),
            (Binary::Power, 2.0, 10.0, 1024.0),
            (Binary::Prelu, -2.0, 0.25, -0.5),
            (Binary::SquaredDifference, 1.0, 4.0, 9.0),
            (Binary::Maximum, 1.0, 4.0, 4.0),
            (Binary::Minimum, 1.0, 4.0, 1.0),
            (Binary::Divide, 1.0, 4.0, 0.25),
            (Binary::Multiply, 3.0, 4.0, 12.0),
            (Binary::Add, 3.0, 4.0, 7.0),
            (Binary::Atan2, 0.0, 4.0, 0.0),
        ];
        for (function, l, r, expected) in cases {
            let mut output = [0.0];
            let engine = Engine::new(&Serial);
            binary(engine, function, (&[l], &[1]), (&[r], &[]), (&mut output, &[1]), Activation::None);
            assert_eq!(output[0], expected, "{function:?}");
        }
    }
}
