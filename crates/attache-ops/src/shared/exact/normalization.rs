//! Layer normalization of 16-bit numbers for a device, bit-exact with `attache_kernels::quantized::narrow::normalize`.
//!
//! The sums of squares take more than 32 bits, which a device has no integers for: squares are divided into digits of ten
//! bits, which are summed one by one. `high × 2²⁰ + low` are the two parts of a number of 64 bits.

use attache_gpu_ir::{IntBinaryOp, IntExpression, IntRounding, Primitive, ReduceOp, ValueId};
use attache_graph::{Lowering, Unsupported};
use attache_kernels::quantized::{Multiplier, Rounding};

use super::functions::{divided_by_power, inverse_square_root};
use super::rescaled;
use IntExpression::{Constant, Input};

/// Maximum number of values that are normalized together, so that their sum fits into 32 bits.
const MOST_VALUES: usize = u16::MAX as usize;

/// Number of bits of a digit.
const DIGIT: u32 = 10;

/// The range of a 16-bit number.
const WORDS: (i32, i32) = (i16::MIN as i32, i16::MAX as i32);

/// Returns the expression of the lowest bits of `x`.
fn lowest(x: IntExpression, bits: u32) -> IntExpression {
    x.binary(IntBinaryOp::And, Constant((1 << bits) - 1))
}

/// Returns the expressions of the digits of the square of a 16-bit number, the highest first. That one has 11 bits.
fn digits() -> [IntExpression; 3] {
    let square = || Input(0).multiply(Input(0));
    [square().shifted_right(2 * DIGIT), lowest(square().shifted_right(DIGIT), DIGIT), lowest(square(), DIGIT)]
}

/// Returns the expressions of the two parts of `(a × 2²⁰ + b × 2¹⁰ + c)`, whose operands are not negative.
fn parts([a, b, c]: [IntExpression; 3]) -> [IntExpression; 2] {
    let low = lowest(b.clone(), DIGIT).shifted_left(DIGIT).add(c);
    [a.add(b.shifted_right(DIGIT)).add(low.clone().shifted_right(2 * DIGIT)), lowest(low, 2 * DIGIT)]
}

/// Returns the expression of the mean of `count` numbers times 1024, from their sum.
fn mean(count: i32) -> IntExpression {
    let quotient = || Input(0).binary(IntBinaryOp::Divide, Constant(count));
    let rest = Input(0).subtract(quotient().multiply(Constant(count)));
    let fraction = rest.multiply(Constant(1024)).binary(IntBinaryOp::Divide, Constant(count));
    quotient().multiply(Constant(1024)).add(fraction)
}

/// Returns the expressions of the two parts of the mean square of `count` numbers times 2²⁰, from the sums of the digits of
/// their squares.
fn mean_square(count: i32) -> [IntExpression; 2] {
    parts([0, 1, 2].map(|digit| Input(digit).multiply(Constant((1 << (2 * DIGIT)) / count))))
}

/// Returns the expression of the variance, from the two parts of the mean square times 2²⁰ and the mean times 1024. `guard`
/// replaces a variance below 1.
fn variance(guard: i32) -> IntExpression {
    let mean = || Input(2).binary(IntBinaryOp::Maximum, Constant(0).subtract(Input(2)));
    let (high, low) = (|| mean().shifted_right(DIGIT), || lowest(mean(), DIGIT));
    let twice = high().multiply(low()).shifted_left(1);
    let [high, low] = parts([high().multiply(high()), twice, low().multiply(low())]);
    let variance = || Input(0).subtract(high.clone()).subtract(Input(1).less(low.clone()));
    variance().less(Constant(1)).select(Constant(guard), variance())
}

/// Emits the normalization of each row of `values`, `[rows, count]`: subtracts the mean, divides by the standard deviation,
/// multiplies by a coefficient and adds a bias, of which there are `[count]`. `factor` and `guard` are those of the kernel.
pub(crate) fn normalize(
    lowering: &mut Lowering<'_>,
    values: ValueId,
    [coefficients, biases]: [ValueId; 2],
    (factor, guard): (Multiplier, i32),
) -> Result<ValueId, Unsupported> {
    let shape = lowering.shape(values).clone();
    let &[rows, count] = shape.extents() else { return Err(Unsupported::new("it normalizes what has no rows")) };
    let exponent = factor.exponent + 12;
    if count > MOST_VALUES || exponent > 30 {
        let factor = 2f64.powi(factor.exponent);
        return Err(Unsupported::new(format!("a normalization of {count} values times {factor}, which takes 64 bits")));
    }
    let (count, one_each) = (count as i32, [rows, 1].into());
    let mut sums = Vec::with_capacity(4);
    for number in [vec![Input(0)], digits().to_vec()].concat() {
        let numbers = lowering.int_map(number, &shape, &[values])?;
        sums.push(lowering.emit(Primitive::Reduce { reduction: ReduceOp::Sum, axes: vec![1] }, &[numbers])?);
    }
    let mean = lowering.int_map(mean(count), &one_each, &sums[..1])?;
    let mut operands = Vec::with_capacity(3);
    for part in mean_square(count) {
        operands.push(lowering.int_map(part, &one_each, &sums[1..])?);
    }
    operands.push(mean);
    let variance = lowering.int_map(variance(guard), &one_each, &operands)?;
    let inverse = inverse_square_root().emit(lowering, variance)?;
    let apart = Input(0).shifted_left(DIGIT).subtract(Input(1));
    let apart = lowering.int_map(apart, &shape, &[values, mean])?;
    let scaled = Input(0).rescale(IntRounding::Twice, Input(1), Input(2));
    let scaled = lowering.int_map(scaled, &shape, &[apart, inverse[0], inverse[1]])?;
    let sum = divided_by_power(Input(0).multiply(Input(1)).add(Input(2)), DIGIT);
    let result = rescaled(sum, Multiplier { exponent, ..factor }, Rounding::Twice).clamp(WORDS);
    lowering.int_map(result, &shape, &[scaled, coefficients, biases])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the mean and the variance of numbers against those that 64 bits give.
    fn check(values: &[i16]) {
        let count = values.len() as i64;
        let sum: i64 = values.iter().map(|value| i64::from(*value)).sum();
        let squares: i64 = values.iter().map(|value| i64::from(*value).pow(2)).sum();
        let expected_mean = sum * 1024 / count;
        let expected = (squares * ((1 << 20) / count) - expected_mean * expected_mean) / (1 << 20);
        let sums = digits().map(|digit| values.iter().map(|value| digit.evaluate(&[(*value).into()])).sum::<i32>());
        let mean = mean(count as i32).evaluate(&[sum as i32]);
        assert_eq!(i64::from(mean), expected_mean, "{count} values");
        let [high, low] = mean_square(count as i32).map(|part| part.evaluate(&sums));
        let variance = variance(-7).evaluate(&[high, low, mean]);
        assert_eq!(i64::from(variance), if expected < 1 { -7 } else { expected }, "{count} values");
    }

    #[test]
    fn variances_are_those_of_64_bits() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 48) as i16
        };
        for count in (1..100).chain([1023, 1024, 1025, MOST_VALUES]) {
            for shift in 0..16 {
                let values: Vec<i16> = (0..count).map(|_| random() >> shift).collect();
                check(&values);
                let offset = random();
                check(&values.iter().map(|value| (value >> 1).saturating_add(offset)).collect::<Vec<_>>());
            }
            for extreme in [i16::MIN, i16::MAX, 0, -1, 1] {
                check(&vec![extreme; count]);
                let alternating = (0..count).map(|place| if place % 2 == 0 { extreme } else { i16::MAX });
                check(&alternating.collect::<Vec<_>>());
            }
        }
    }
}
