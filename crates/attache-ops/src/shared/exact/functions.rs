//! Fixed-point functions for a device (reciprocal, inverse square root, logarithm), bit-exact with those of
//! `attache_kernels::quantized::functions`.
//!
//! Each function is a list of short steps, because a device's shader evaluates one expression at a time and
//! can read only a few values. Independent of the operators that use the functions.

use attache_gpu_ir::{IntBinaryOp, IntExpression, IntRounding, ValueId};
use attache_graph::{Lowering, Unsupported};
use attache_kernels::quantized::functions::{
    LogarithmDigits, RECIPROCAL_SLOPE, RECIPROCAL_START, RECIPROCAL_STEPS, ROOT_STEPS, RootDigits,
};
use attache_kernels::quantized::softmax::SUM_BITS;

use IntExpression::{Constant, Input};

/// A function of one integer with one or several integer results, as a list of steps.
pub(crate) struct IntFunction {
    /// The expression of each step, and the indices of the values that are its inputs. Value 0 is the
    /// argument; step `k`, counted from 1, computes value `k`.
    steps: Vec<(IntExpression, Vec<usize>)>,
    /// The indices of the values that are the function's results.
    results: Vec<usize>,
}

impl IntFunction {
    fn new() -> Self {
        Self { steps: Vec::new(), results: Vec::new() }
    }

    /// Adds a step that evaluates `expression` on the values with indices `inputs`, and returns the index of
    /// its value.
    fn step(&mut self, expression: IntExpression, inputs: &[usize]) -> usize {
        self.steps.push((expression, inputs.to_vec()));
        self.steps.len()
    }

    /// Emits the function, applied to each element of `argument`, and returns its results.
    pub(crate) fn emit(&self, lowering: &mut Lowering<'_>, argument: ValueId) -> Result<Vec<ValueId>, Unsupported> {
        let shape = lowering.shape(argument).clone();
        let mut values = vec![argument];
        for (expression, inputs) in &self.steps {
            let inputs: Vec<ValueId> = inputs.iter().map(|index| values[*index]).collect();
            values.push(lowering.int_map(expression.clone(), &shape, &inputs)?);
        }
        Ok(self.results.iter().map(|index| values[*index]).collect())
    }
}

/// Returns the expression of the upper 32 bits of `2ab`, rounded.
fn product(a: IntExpression, b: IntExpression) -> IntExpression {
    a.rescale(IntRounding::Twice, b, Constant(0))
}

/// Returns the expression of the number of leading zero bits of `x`.
fn zeros(x: IntExpression) -> IntExpression {
    IntExpression::LeadingZeros(Box::new(x))
}

/// Returns the expression that is 1 where `a` is less than `b`, else 0.
fn is_less(a: IntExpression, b: IntExpression) -> IntExpression {
    a.binary(IntBinaryOp::Less, b)
}

/// Returns the expression `x × 2^bits` for nonnegative `x`, saturated to the largest integer.
fn saturated_shift(x: IntExpression, bits: IntExpression) -> IntExpression {
    let fits = is_less(bits.clone(), zeros(x.clone()));
    fits.select(x.binary(IntBinaryOp::ShiftLeft, bits), Constant(i32::MAX))
}

/// Returns the expression `x / 2^bits`, rounded, with ties away from zero; `bits` is 1 to 30.
pub(crate) fn divided_by_power(x: IntExpression, bits: u32) -> IntExpression {
    let quotient = || x.clone().binary(IntBinaryOp::Divide, Constant(1 << bits));
    let rest = || x.clone().subtract(quotient().shifted_left(bits));
    let half = 1 << (bits - 1);
    let (up, down) = (is_less(Constant(half - 1), rest()), is_less(rest(), Constant(1 - half)));
    quotient().add(up).subtract(down)
}

/// Adds steps that compute `1 / (1 + x)` by Newton's method for the value with index `x`, which is in [0, 1),
/// and returns the index of the result. Argument and result are fixed-point without integer bits.
fn reciprocal_of_one_plus(function: &mut IntFunction, x: usize) -> usize {
    // (1 + x) / 2, which is at most (2³⁰ − 1) + 2³⁰ and cannot reach the sign bit.
    let half =
        Input(0).binary(IntBinaryOp::Maximum, Constant(0)).binary(IntBinaryOp::Divide, Constant(2)).plus(1 << 30);
    let half = function.step(half, &[x]);
    let start = product(Input(0), Constant(RECIPROCAL_SLOPE)).plus(RECIPROCAL_START);
    let mut y = function.step(start, &[half]);
    for _ in 0..RECIPROCAL_STEPS {
        let rest = Constant(1 << 29).subtract(product(Input(1), Input(0)));
        y = function.step(Input(0).add(product(Input(0), rest).shifted_left(2)), &[y, half]);
    }
    function.step(saturated_shift(Input(0), Constant(1)), &[y])
}

/// Returns the function that computes two results for a positive integer `x` with `z` leading zeros:
/// `1 / (x × 2^(z − 31))` as a fixed-point number without integer bits, and `z`.
pub(crate) fn reciprocal() -> IntFunction {
    let mut function = IntFunction::new();
    let rest = Input(0).binary(IntBinaryOp::ShiftLeft, zeros(Input(0))).subtract(Constant(i32::MIN));
    let rest = function.step(rest, &[0]);
    let inverse = reciprocal_of_one_plus(&mut function, rest);
    let zeros = function.step(zeros(Input(0)), &[0]);
    function.results = vec![inverse, zeros];
    function
}

/// Returns the function that computes `1 / √x` of a nonnegative integer as mantissa and exponent of a factor
/// `mantissa × 2^(exponent − 31)`; 0 is treated as 1.
pub(crate) fn inverse_square_root() -> IntFunction {
    let mut function = IntFunction::new();
    // Divided by 4 where there is no room for three integer bits.
    let large = || is_less(Constant((1 << 29) - 1), Input(0));
    let some = function.step(Input(0).binary(IntBinaryOp::Maximum, Constant(2)), &[0]);
    let quarter = large().select(Input(0).binary(IntBinaryOp::Divide, Constant(4)), Input(0));
    let small = function.step(quarter, &[some]);
    let pairs = zeros(Input(0)).plus(-1).binary(IntBinaryOp::Divide, Constant(2)).plus(-1);
    let pairs = function.step(pairs, &[small]);
    let shift = function.step(large().plus(RootDigits::SHIFT).subtract(Input(1)), &[some, pairs]);
    let half = Input(0).binary(IntBinaryOp::ShiftLeft, Input(1).shifted_left(1));
    let half = half.binary(IntBinaryOp::Divide, Constant(2)).plus(1).binary(IntBinaryOp::Divide, Constant(2));
    let half = function.step(half, &[small, pairs]);
    let mut y = function.step(Constant(1 << 28), &[half]);
    for _ in 0..ROOT_STEPS {
        let cube = product(product(Input(0), Input(0)), Input(0));
        let cube = function.step(saturated_shift(cube, Constant(6)), &[y]);
        let next = product(Constant(RootDigits::THREE_HALVES), Input(0)).subtract(product(Input(1), Input(2)));
        y = function.step(saturated_shift(next, Constant(3)), &[y, half, cube]);
    }
    let up = Constant(0).subtract(Input(1)).binary(IntBinaryOp::Maximum, Constant(0));
    let mantissa = product(Input(0), Constant(RootDigits::HALF_ROOT_OF_TWO)).binary(IntBinaryOp::ShiftLeft, up);
    let is_small = || is_less(Input(2), Constant(2));
    let mantissa = function.step(is_small().select(Constant(i32::MAX), mantissa), &[y, shift, 0]);
    let exponent = Constant(0).subtract(Input(0).binary(IntBinaryOp::Maximum, Constant(0)));
    let is_small = is_less(Input(1), Constant(2));
    let exponent = function.step(is_small.select(Constant(0), exponent), &[shift, 0]);
    function.results = vec![mantissa, exponent];
    function
}

/// Returns the function that computes `ln x` as a fixed-point number with five integer bits, for `x ≥ 1` with
/// [`SUM_BITS`] integer bits, as sums of exponentials have.
pub(crate) fn logarithm() -> IntFunction {
    type Digits = LogarithmDigits;
    let mut function = IntFunction::new();
    let by_root = |x: IntExpression| product(x, Constant(Digits::ROOT_OF_HALF));
    let power = |zeros: IntExpression| Constant(SUM_BITS).subtract(zeros).shifted_left(31 - Digits::BITS);
    // Computed twice: for x between two powers of two, and for x times √½. The smaller remainder and the
    // larger power are used.
    let first_zeros = function.step(zeros(Input(0)), &[0]);
    let second_zeros = function.step(zeros(by_root(Input(0))).plus(-1), &[0]);
    let first = Input(0).binary(IntBinaryOp::ShiftLeft, Input(1).plus(-1));
    let first = function.step(saturated_shift(by_root(first), Constant(1)), &[0, first_zeros]);
    let second = saturated_shift(Input(0), Input(1)).binary(IntBinaryOp::Minimum, Input(2));
    let rest = function.step(second, &[0, second_zeros, first]);
    let powers = power(Input(0)).plus(Digits::QUARTER);
    let power = powers.binary(IntBinaryOp::Maximum, power(Input(1)).plus(-Digits::QUARTER));
    let power = function.step(power, &[first_zeros, second_zeros]);
    let q = || Input(0).plus(-Digits::FOURTH_ROOT_OF_HALF).shifted_left(1);
    let square = function.step(product(q(), q()), &[rest]);
    let above = product(q(), Input(0)).add(product(product(q(), Input(1)), Constant(Digits::NUMERATOR)));
    let above = function.step(divided_by_power(above, Digits::BITS), &[rest, square]);
    let p = Input(0).binary(IntBinaryOp::Divide, Constant(2)).plus((Digits::FOURTH_ROOT_OF_HALF + 1) / 2);
    let below = Constant(Digits::CONSTANT).add(q()).add(product(Constant(Digits::SQUARE), Input(1)));
    let below = product(p, below).add(product(Constant(Digits::LINEAR), q()));
    let below = function.step(below, &[rest, square]);
    let inverse = reciprocal_of_one_plus(&mut function, below);
    let sum = product(Input(0), Constant(Digits::LN_2)).add(product(Input(1), Input(2)));
    let result = function.step(sum.shifted_left(1), &[power, above, inverse]);
    function.results = vec![result];
    function
}

#[cfg(test)]
mod tests {
    use attache_kernels::quantized::fixed_point::divide_by_power;
    use attache_kernels::quantized::functions as kernels;

    use super::*;

    impl IntFunction {
        fn evaluate(&self, argument: i32) -> Vec<i32> {
            let mut values = vec![argument];
            for (expression, inputs) in &self.steps {
                assert!(inputs.len() <= 3, "every device reads three values");
                let inputs: Vec<i32> = inputs.iter().map(|index| values[*index]).collect();
                values.push(expression.evaluate(&inputs));
            }
            self.results.iter().map(|index| values[*index]).collect()
        }
    }

    /// Returns all small positive integers, integers near powers of two, and integers of every magnitude.
    fn numbers() -> impl Iterator<Item = i32> {
        let around = (1..31).flat_map(|power| (-40..40).map(move |offset| (1i32 << power).saturating_add(offset)));
        let spread = (1..200_000i32).map(|step| step.wrapping_mul(1_073_676_287) & i32::MAX);
        let every = spread.enumerate().map(|(index, x)| x >> (index % 31));
        (1..5000).chain(around).chain([i32::MAX]).chain(every).filter(|x| *x >= 1)
    }

    #[test]
    fn devices_compute_functions_as_the_cpu_does() {
        let (reciprocal, root, logarithm) = (reciprocal(), inverse_square_root(), logarithm());
        for x in numbers() {
            let (inverse, shift) = kernels::reciprocal(x, SUM_BITS);
            assert_eq!(reciprocal.evaluate(x), [inverse, SUM_BITS - shift], "1 / {x}");
            let expected = kernels::inverse_square_root(x);
            assert_eq!(root.evaluate(x), [expected.mantissa, expected.exponent], "1 / √{x}");
            assert_eq!(logarithm.evaluate(x), [kernels::logarithm(x, SUM_BITS)], "ln {x}");
            for x in [x, -x] {
                let divided = divided_by_power(Input(0), 22).evaluate(&[x]);
                assert_eq!(divided, divide_by_power(x, 22), "{x}");
            }
        }
        assert_eq!(root.evaluate(0), [i32::MAX, 0]);
    }
}
