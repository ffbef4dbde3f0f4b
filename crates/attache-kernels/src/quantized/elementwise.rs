//! Element-wise functions of two quantized operands with broadcasting.

use super::{Multiplier, Rounding, Stored};
use crate::Engine;
use crate::elementwise::broadcast::{Walk, check};
use crate::simd::{Multiversioned, Simd};

/// A function of two quantized elements. Its results must be in the range of the output type.
pub trait IntegerFunction: Copy + Sync {
    /// Returns the quantized result for two quantized elements.
    fn apply(self, left: i32, right: i32) -> i32;
}

/// Conversion of a function's intermediate result to a quantized element: `result × factor + zero point`,
/// clamped.
#[derive(Clone, Copy, Debug)]
pub struct Finish {
    /// The factor from the scale of the intermediate result to that of the output.
    pub factor: Multiplier,
    /// The output's zero point.
    pub zero_point: i32,
    /// The smallest and the largest permitted output element.
    pub bounds: (i32, i32),
}

impl Finish {
    /// Returns `result × factor + zero point`, clamped. The product is rounded with [`Rounding::Twice`].
    #[inline(always)]
    pub fn apply(self, result: i32) -> i32 {
        let stored = self.factor.apply(result, Rounding::Twice).wrapping_add(self.zero_point);
        stored.max(self.bounds.0).min(self.bounds.1)
    }
}

/// Conversion of an operand to a common scale with additional fraction bits: `((x − zero point) << shift) × factor`.
#[derive(Clone, Copy, Debug)]
pub struct OperandScaling {
    /// The operand's zero point.
    pub zero_point: i32,
    /// Number of additional fraction bits.
    pub shift: u32,
    /// The factor from the operand's scale to the common one.
    pub factor: Multiplier,
}

impl OperandScaling {
    /// Returns the operand at the common scale. The product is rounded with [`Rounding::Twice`].
    #[inline(always)]
    pub fn apply(self, x: i32) -> i32 {
        self.factor.apply((x - self.zero_point).wrapping_shl(self.shift), Rounding::Twice)
    }
}

/// The function `l + r`, or `l − r`, of quantized elements.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// Conversions of `l` and `r` to a common scale.
    pub operands: [OperandScaling; 2],
    /// Whether the right operand is subtracted.
    pub subtract: bool,
    /// Conversion of the sum to the output.
    pub finish: Finish,
}

impl IntegerFunction for Sum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let (left, right) = (self.operands[0].apply(left), self.operands[1].apply(right));
        self.finish.apply(if self.subtract { left.wrapping_sub(right) } else { left.wrapping_add(right) })
    }
}

/// The function `l + r` or `l − r` of 16-bit elements whose scales are powers of two. Operands are only
/// shifted, and the sum saturates.
#[derive(Clone, Copy, Debug)]
pub struct ShiftedSum {
    /// Number of bits by which each operand is shifted right, at most 31.
    pub shifts: [u32; 2],
    /// Whether the right operand is subtracted.
    pub subtract: bool,
    /// The smallest and the largest permitted sum.
    pub bounds: (i32, i32),
}

impl IntegerFunction for ShiftedSum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let left = super::fixed_point::divide_by_power(left, self.shifts[0]);
        let right = super::fixed_point::divide_by_power(right, self.shifts[1]);
        i32::from(i16::saturate(if self.subtract { left - right } else { left + right }))
            .max(self.bounds.0)
            .min(self.bounds.1)
    }
}

/// The function `l × r` of quantized elements.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// The operands' zero points.
    pub zero_points: [i32; 2],
    /// Conversion of the product to the output.
    pub finish: Finish,
}

impl IntegerFunction for Product {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        self.finish.apply((left - self.zero_points[0]).wrapping_mul(right - self.zero_points[1]))
    }
}

/// The function `(l − r)²` of quantized elements.
#[derive(Clone, Copy, Debug)]
pub struct SquaredDifference {
    /// Conversions of `l` and `r` to a common scale.
    pub operands: [OperandScaling; 2],
    /// Conversion of the square to the output.
    pub finish: Finish,
}

impl IntegerFunction for SquaredDifference {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let difference = self.operands[0].apply(left).wrapping_sub(self.operands[1].apply(right));
        self.finish.apply(difference.wrapping_mul(difference))
    }
}

/// The function PReLU of quantized elements: `x` if it is not negative, else `x × slope`.
#[derive(Clone, Copy, Debug)]
pub struct Prelu {
    /// The zero points of the input and the slopes.
    pub zero_points: [i32; 2],
    /// Conversion of non-negative inputs to the output.
    pub finish: Finish,
    /// Conversion of products with a slope to the output.
    pub finish_product: Finish,
}

impl IntegerFunction for Prelu {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        let (x, slope) = (left - self.zero_points[0], right - self.zero_points[1]);
        if x >= 0 { self.finish.apply(x) } else { self.finish_product.apply(x.wrapping_mul(slope)) }
    }
}

/// The larger of two elements with equal quantization parameters.
#[derive(Clone, Copy, Debug)]
pub struct Maximum;

impl IntegerFunction for Maximum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        left.max(right)
    }
}

/// The smaller of two elements with equal quantization parameters.
#[derive(Clone, Copy, Debug)]
pub struct Minimum;

impl IntegerFunction for Minimum {
    #[inline(always)]
    fn apply(self, left: i32, right: i32) -> i32 {
        left.min(right)
    }
}

/// Writes `function(left, right)`. Both operands are broadcast to the output's shape.
///
/// # Panics
///
/// Panics if a slice does not match its shape, or if an operand does not broadcast to the output's shape.
pub fn binary<T: Stored>(
    engine: Engine,
    function: impl IntegerFunction,
    (left, left_shape): (&[T], &[usize]),
    (right, right_shape): (&[T], &[usize]),
    (output, shape): (&mut [T], &[usize]),
) {
    check(left, left_shape);
    check(right, right_shape);
    check(output, shape);
    if output.is_empty() {
        return;
    }
    let mut walk = Walk::new(shape, [left_shape, right_shape]);
    let repeats = walk.repeats(0, 1, 512);
    let repeated = if repeats > 1 { right.repeat(repeats) } else { Vec::new() };
    let right = if repeats > 1 { &repeated } else { right };
    walk.join(repeats);
    let (rows, length) = (walk.rows(), output.len());
    let parts = engine.tasks(length as f64, length);
    // Each task gets whole rows, or a part of the only row.
    let chunk = if rows > 1 { rows.div_ceil(parts) * walk.row } else { length.div_ceil(parts) };
    engine.for_each_chunk(output, chunk, |task, output| {
        engine.isa.dispatch(Chunk { left, right, walk: &walk, start: task * chunk, output, function });
    });
}

/// Part of the output: whole rows, or a part of the only row, starting at element `start`.
struct Chunk<'a, T, F> {
    left: &'a [T],
    right: &'a [T],
    walk: &'a Walk<2>,
    start: usize,
    output: &'a mut [T],
    function: F,
}

impl<T: Stored, F: IntegerFunction> Multiversioned for Chunk<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Chunk { left, right, walk, start, output, function } = self;
        let within = start % walk.row;
        let length = walk.row.min(output.len());
        let [l_step, r_step] = walk.steps;
        let mut rows = output.chunks_exact_mut(length);
        walk.for_each_row(start / walk.row, rows.len(), |[l, r]| {
            let (left, right) = (&left[l + within * l_step..], &right[r + within * r_step..]);
            let Some(output) = rows.next() else { return };
            let apply = |left: T, right: T| T::truncate(function.apply(left.into(), right.into()));
            match (l_step, r_step) {
                (0, 0) => output.fill(apply(left[0], right[0])),
                (0, _) => output.iter_mut().zip(right).for_each(|(value, right)| *value = apply(left[0], *right)),
                (_, 0) => output.iter_mut().zip(left).for_each(|(value, left)| *value = apply(*left, right[0])),
                (_, _) => {
                    let operands = left.iter().zip(right);
                    output.iter_mut().zip(operands).for_each(|(value, (left, right))| *value = apply(*left, *right));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;
    use crate::Isa;
    use crate::testing::Random;

    fn finish(factor: f64) -> Finish {
        Finish { factor: Multiplier::new(factor), zero_point: -3, bounds: (-100, 120) }
    }

    fn operand(factor: f64, zero_point: i32) -> OperandScaling {
        OperandScaling { zero_point, shift: 20, factor: Multiplier::new(factor) }
    }

    fn check_isas(function: impl IntegerFunction, shapes: [&[usize]; 3]) {
        let mut random = Random::new(3);
        let [left, right, output] = shapes.map(|shape| {
            let count = shape.iter().product::<usize>();
            (0..count).map(|_| random.below(256) as u8 as i8).collect::<Vec<_>>()
        });
        let mut expected = output.clone();
        let pair = |l: i8, r: i8| function.apply(l.into(), r.into()) as i8;
        crate::elementwise::broadcast2((&left, shapes[0]), (&right, shapes[1]), (&mut expected, shapes[2]), pair);
        for isa in Isa::available() {
            let mut made = output.clone();
            let engine = Engine { isa, parallel: &Serial };
            binary(engine, function, (&left, shapes[0]), (&right, shapes[1]), (&mut made, shapes[2]));
            assert_eq!(made, expected, "{} {shapes:?}", isa.name());
        }
    }

    #[test]
    fn every_isa_gives_the_same_bits() {
        for shapes in [
            [&[3, 50][..], &[3, 50], &[3, 50]],
            [&[7, 3, 5], &[5], &[7, 3, 5]],
            [&[4, 1], &[1, 37], &[4, 37]],
            [&[], &[2, 33], &[2, 33]],
        ] {
            let operands = [operand(0.5, 4), operand(0.31, -9)];
            check_isas(Sum { operands, subtract: true, finish: finish(2e-6) }, shapes);
            check_isas(Product { zero_points: [1, -7], finish: finish(0.01) }, shapes);
            let squares = operands.map(|operand| OperandScaling { shift: 7, ..operand });
            check_isas(SquaredDifference { operands: squares, finish: finish(1e-6) }, shapes);
            check_isas(Prelu { zero_points: [2, 3], finish: finish(0.7), finish_product: finish(0.01) }, shapes);
        }
    }

    #[test]
    fn sums_are_those_of_the_real_numbers() {
        // Scales 0.5 and 0.25 with an output scale of 0.5: 10 × 0.5 − (−6) × 0.25 = 13 × 0.5.
        let operands = [operand(0.5, 0), operand(0.25, 0)];
        let finish = Finish { factor: Multiplier::new(2.0 / f64::from(1 << 20)), zero_point: 0, bounds: (-128, 127) };
        assert_eq!(Sum { operands, subtract: true, finish }.apply(10, -6), 13);
        let shifted = ShiftedSum { shifts: [0, 2], subtract: false, bounds: (-32768, 32767) };
        assert_eq!([shifted.apply(32760, 400), shifted.apply(3, -6)], [32767, 1]);
    }
}
