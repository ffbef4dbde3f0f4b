//! Integer expressions: the value that an integer map computes from one element of each of its inputs.
//!
//! Arithmetic is 32-bit two's complement. Sums and products wrap. Fixed-point multiplication, by which
//! quantized elements are rescaled, is an operation of its own, since shaders have no 64-bit integers from
//! which to build it.

use std::fmt;

/// An integer expression of one element of each of a step's inputs.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IntExpression {
    /// The element of the input with this index.
    Input(usize),
    /// A constant.
    Constant(i32),
    /// The number of leading zero bits in the 32-bit representation of the operand.
    LeadingZeros(Box<IntExpression>),
    /// A function of two operands.
    Binary(IntBinaryOp, Box<IntExpression>, Box<IntExpression>),
    /// The second operand if the first is not 0, otherwise the third.
    Select(Box<[IntExpression; 3]>),
    /// The fixed-point product `x × mantissa × 2^(exponent − 31)` of the operands `[x, mantissa, exponent]`.
    /// The exponent is in `-31..=30`, and the mantissa is not −2³¹. The result wraps.
    Rescale(IntRounding, Box<[IntExpression; 3]>),
}

/// Functions of two integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum IntBinaryOp {
    Add,
    Subtract,
    Multiply,
    /// The quotient, rounded towards zero. The second operand is not 0.
    Divide,
    Minimum,
    Maximum,
    /// The first operand times two to the power of the second, which is in `0..=31`.
    ShiftLeft,
    /// The first operand divided by two to the power of the second, which is in `0..=31`, rounded down.
    ShiftRight,
    /// The bits that both operands have.
    And,
    /// The bits that one of the operands has.
    ExclusiveOr,
    /// The first operand to the power of the second, which is not negative. Wraps.
    Power,
    /// 1 if the first operand is less than the second, otherwise 0.
    Less,
}

/// How often and where the fixed-point product of [`IntExpression::Rescale`] is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntRounding {
    /// Rounded twice: after the multiplication, with ties rounded up, and after the division by the power of
    /// two, with ties rounded away from zero. A positive exponent shifts `x` before the multiplication.
    Twice,
    /// Rounded once, after multiplication and division, with ties rounded up.
    Once,
}

use IntExpression::{Constant, Input};

// The methods are named after arithmetic operations. The operator traits would hide that these methods build
// trees.
#[allow(clippy::should_implement_trait)]
impl IntExpression {
    /// Returns the expression `function(self, other)`.
    pub fn binary(self, function: IntBinaryOp, other: Self) -> Self {
        IntExpression::Binary(function, Box::new(self), Box::new(other))
    }

    /// Returns the expression `self + offset`.
    pub fn plus(self, offset: i32) -> Self {
        if offset == 0 { self } else { self.binary(IntBinaryOp::Add, Constant(offset)) }
    }

    /// Returns the expression `self × 2^bits`.
    pub fn shifted_left(self, bits: u32) -> Self {
        if bits == 0 { self } else { self.binary(IntBinaryOp::ShiftLeft, Constant(bits as i32)) }
    }

    /// Returns the expression `self / 2^bits`, rounded down.
    pub fn shifted_right(self, bits: u32) -> Self {
        if bits == 0 { self } else { self.binary(IntBinaryOp::ShiftRight, Constant(bits as i32)) }
    }

    /// Returns the expression that is 1 if `self` is less than `other`, otherwise 0.
    pub fn less(self, other: Self) -> Self {
        self.binary(IntBinaryOp::Less, other)
    }

    /// Returns the expression that is 1 if `self` and `other` are equal, otherwise 0.
    pub fn equal(self, other: Self) -> Self {
        // Of all numbers, 0 alone has 32 leading zeros.
        IntExpression::LeadingZeros(Box::new(self.binary(IntBinaryOp::ExclusiveOr, other))).shifted_right(5)
    }

    /// Returns the expression `self + other`.
    pub fn add(self, other: Self) -> Self {
        self.binary(IntBinaryOp::Add, other)
    }

    /// Returns the expression `self - other`.
    pub fn subtract(self, other: Self) -> Self {
        self.binary(IntBinaryOp::Subtract, other)
    }

    /// Returns the expression `self × other`.
    pub fn multiply(self, other: Self) -> Self {
        self.binary(IntBinaryOp::Multiply, other)
    }

    /// Returns the expression that clamps `self` to `[low, high]`. If `low` is greater than `high`, its value
    /// is `high`.
    pub fn clamp(self, (low, high): (i32, i32)) -> Self {
        self.binary(IntBinaryOp::Maximum, Constant(low)).binary(IntBinaryOp::Minimum, Constant(high))
    }

    /// Returns the expression whose value is `then` if `self` is not 0, otherwise `otherwise`.
    pub fn select(self, then: Self, otherwise: Self) -> Self {
        IntExpression::Select(Box::new([self, then, otherwise]))
    }

    /// Returns the expression `self × mantissa × 2^(exponent − 31)`, see [`IntExpression::Rescale`].
    pub fn rescale(self, rounding: IntRounding, mantissa: Self, exponent: Self) -> Self {
        IntExpression::Rescale(rounding, Box::new([self, mantissa, exponent]))
    }

    /// Returns the highest input index that the expression uses, plus one; 0 if it uses no input.
    pub fn arity(&self) -> usize {
        match self {
            Input(index) => index + 1,
            Constant(_) => 0,
            IntExpression::LeadingZeros(a) => a.arity(),
            IntExpression::Binary(_, a, b) => a.arity().max(b.arity()),
            IntExpression::Select(parts) | IntExpression::Rescale(_, parts) => {
                parts.iter().map(IntExpression::arity).max().unwrap_or(0)
            }
        }
    }

    /// Whether the expression is `Input(0)`, so that it changes nothing.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        *self == Input(0)
    }

    /// Returns the expression with each `Input(k)` replaced by the expression `input(k)`.
    pub fn substitute(&self, input: &dyn Fn(usize) -> IntExpression) -> Self {
        let all = |parts: &[IntExpression; 3]| Box::new(parts.each_ref().map(|part| part.substitute(input)));
        match self {
            Input(index) => input(*index),
            Constant(value) => Constant(*value),
            IntExpression::LeadingZeros(a) => IntExpression::LeadingZeros(Box::new(a.substitute(input))),
            IntExpression::Binary(function, a, b) => a.substitute(input).binary(*function, b.substitute(input)),
            IntExpression::Select(parts) => IntExpression::Select(all(parts)),
            IntExpression::Rescale(rounding, parts) => IntExpression::Rescale(*rounding, all(parts)),
        }
    }

    /// Returns the number of nodes in the expression tree.
    pub fn size(&self) -> usize {
        match self {
            Input(_) | Constant(_) => 1,
            IntExpression::LeadingZeros(a) => 1 + a.size(),
            IntExpression::Binary(_, a, b) => 1 + a.size() + b.size(),
            IntExpression::Select(parts) | IntExpression::Rescale(_, parts) => {
                1 + parts.iter().map(IntExpression::size).sum::<usize>()
            }
        }
    }

    /// Returns the number of operations in the expression tree, without inputs and constants: a measure of
    /// the cost of evaluation.
    pub fn functions(&self) -> usize {
        match self {
            Input(_) | Constant(_) => 0,
            IntExpression::LeadingZeros(a) => 1 + a.functions(),
            IntExpression::Binary(_, a, b) => 1 + a.functions() + b.functions(),
            IntExpression::Select(parts) | IntExpression::Rescale(_, parts) => {
                1 + parts.iter().map(IntExpression::functions).sum::<usize>()
            }
        }
    }

    /// Returns the value of the expression for these elements of the inputs.
    ///
    /// # Panics
    ///
    /// If the expression uses an input that is not in `inputs`.
    #[must_use]
    pub fn evaluate(&self, inputs: &[i32]) -> i32 {
        match self {
            Input(index) => inputs[*index],
            Constant(value) => *value,
            IntExpression::LeadingZeros(a) => a.evaluate(inputs).leading_zeros() as i32,
            IntExpression::Binary(function, a, b) => function.evaluate(a.evaluate(inputs), b.evaluate(inputs)),
            IntExpression::Select(parts) => {
                let chosen = if parts[0].evaluate(inputs) != 0 { &parts[1] } else { &parts[2] };
                chosen.evaluate(inputs)
            }
            IntExpression::Rescale(rounding, parts) => {
                let [x, mantissa, exponent] = parts.each_ref().map(|part| part.evaluate(inputs));
                rounding.rescale(x, mantissa, exponent)
            }
        }
    }
}

impl IntBinaryOp {
    fn evaluate(self, a: i32, b: i32) -> i32 {
        match self {
            IntBinaryOp::Add => a.wrapping_add(b),
            IntBinaryOp::Subtract => a.wrapping_sub(b),
            IntBinaryOp::Multiply => a.wrapping_mul(b),
            IntBinaryOp::Divide => a.checked_div(b).unwrap_or(a),
            IntBinaryOp::Minimum => a.min(b),
            IntBinaryOp::Maximum => a.max(b),
            IntBinaryOp::ShiftLeft => a.wrapping_shl(b as u32),
            IntBinaryOp::ShiftRight => a.wrapping_shr(b as u32),
            IntBinaryOp::And => a & b,
            IntBinaryOp::ExclusiveOr => a ^ b,
            IntBinaryOp::Power => a.wrapping_pow(b as u32),
            IntBinaryOp::Less => i32::from(a < b),
        }
    }
}

impl IntRounding {
    fn rescale(self, x: i32, mantissa: i32, exponent: i32) -> i32 {
        match self {
            IntRounding::Twice => {
                let shifted = x.wrapping_shl(exponent.max(0) as u32);
                let product = (i64::from(shifted) * i64::from(mantissa) + (1 << 30)) >> 31;
                let divisor = 1i64 << (-exponent).max(0);
                let away = divisor / 2 * product.signum();
                ((product + away) / divisor) as i32
            }
            IntRounding::Once => {
                let shift = 31 - exponent;
                ((i64::from(x) * i64::from(mantissa) + (1 << (shift - 1))) >> shift) as i32
            }
        }
    }
}

impl fmt::Display for IntExpression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input(index) => write!(f, "in{index}"),
            Constant(value) => write!(f, "{value}"),
            IntExpression::LeadingZeros(a) => write!(f, "LeadingZeros({a})"),
            IntExpression::Binary(function, a, b) => write!(f, "{function:?}({a}, {b})"),
            IntExpression::Select(parts) => write!(f, "Select({}, {}, {})", parts[0], parts[1], parts[2]),
            IntExpression::Rescale(rounding, parts) => {
                write!(f, "Rescale{rounding:?}({}, {}, {})", parts[0], parts[1], parts[2])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_rounded_once_or_twice() {
        let of = |rounding: IntRounding, x, mantissa, exponent| rounding.rescale(x, mantissa, exponent);
        // The products with one half are rounded once. Those with a quarter are rounded twice.
        assert_eq!([5, -5, 7].map(|x| of(IntRounding::Once, x, 1 << 30, 0)), [3, -2, 4]);
        assert_eq!([5, -5, 6].map(|x| of(IntRounding::Twice, x, 1 << 30, -1)), [2, -1, 2]);
        assert_eq!(of(IntRounding::Twice, 3, 1 << 30, 3), 12);
        assert_eq!(of(IntRounding::Twice, i32::MIN, i32::MAX, -31), -1);
        assert_eq!(of(IntRounding::Once, i32::MIN, i32::MAX, -31), -1);
    }

    #[test]
    fn trees_are_evaluated() {
        let x = Input(0).plus(-3).multiply(Input(1));
        let tree = x.clone().binary(IntBinaryOp::Less, Constant(0)).select(Constant(0), x).clamp((-5, 5));
        assert_eq!((tree.arity(), tree.functions()), (2, 8));
        assert_eq!([[1, 9], [4, 2], [9, 9]].map(|inputs| tree.evaluate(&inputs)), [0, 2, 5]);
    }

    #[test]
    fn numbers_are_equal_to_themselves_alone() {
        let equal = Input(0).equal(Input(1));
        let pairs = [[0, 0], [i32::MIN, i32::MIN], [0, i32::MIN], [-1, 1], [16_777_216, 16_777_217]];
        assert_eq!(pairs.map(|pair| equal.evaluate(&pair)), [1, 1, 0, 0, 0]);
    }

    #[test]
    fn powers_wrap() {
        let power = Input(0).binary(IntBinaryOp::Power, Input(1));
        assert_eq!([[-3, 3], [3, 21], [7, 0], [2, 32]].map(|pair| power.evaluate(&pair)), [-27, 1_870_418_611, 1, 0]);
    }
}
