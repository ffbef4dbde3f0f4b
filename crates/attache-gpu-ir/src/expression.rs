//! Float expressions: the value that a map computes from one element of each of its inputs.

use std::fmt;

use attache_base::Activation;

/// A float expression of one element of each of a step's inputs. Arithmetic is f32.
#[must_use]
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// The element of the input with this index.
    Input(usize),
    /// A constant.
    Constant(f32),
    /// A function of one operand.
    Unary(UnaryOp, Box<Expression>),
    /// A function of two operands.
    Binary(BinaryOp, Box<Expression>, Box<Expression>),
    /// The second operand if the first is not 0, otherwise the third.
    Select(Box<[Expression; 3]>),
}

/// Functions of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Negate,
    Absolute,
    Exponential,
    Logarithm,
    SquareRoot,
    InverseSquareRoot,
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Logistic,
    Sine,
    Cosine,
    Floor,
    Ceiling,
    /// Rounds to the nearest integer, ties to even.
    Round,
    /// Rounds towards zero.
    Truncate,
    /// -1, 0 or 1, the sign of the operand.
    Sign,
    /// The error function, `2/√π ∫₀ˣ exp(-t²) dt`.
    ErrorFunction,
}

/// Functions of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Minimum,
    Maximum,
    /// 1 if the first operand is less than the second, otherwise 0.
    Less,
    /// 1 if the operands are equal, otherwise 0.
    Equal,
    /// The first operand raised to the power of the second.
    Power,
    /// The quotient, rounded down.
    FloorDivide,
    /// The remainder of the division whose quotient is rounded down. It has the sign of the divisor.
    FloorModulo,
    /// The angle, between −π and π, of the point whose coordinates are the second operand along the axis at which angles
    /// start, and the first one across.
    Angle,
}

use Expression::{Constant, Input};

// The methods are named after arithmetic operations. The operator traits would hide that these methods build
// trees.
#[allow(clippy::should_implement_trait)]
impl Expression {
    /// Returns the expression `function(self)`.
    pub fn unary(self, function: UnaryOp) -> Self {
        Expression::Unary(function, Box::new(self))
    }

    /// Returns the expression `function(self, other)`.
    pub fn binary(self, function: BinaryOp, other: Self) -> Self {
        Expression::Binary(function, Box::new(self), Box::new(other))
    }

    /// Returns the expression `self + other`.
    pub fn add(self, other: Self) -> Self {
        self.binary(BinaryOp::Add, other)
    }

    /// Returns the expression `self - other`.
    pub fn subtract(self, other: Self) -> Self {
        self.binary(BinaryOp::Subtract, other)
    }

    /// Returns the expression `self × other`.
    pub fn multiply(self, other: Self) -> Self {
        self.binary(BinaryOp::Multiply, other)
    }

    /// Returns the expression `self / other`.
    pub fn divide(self, other: Self) -> Self {
        self.binary(BinaryOp::Divide, other)
    }

    /// Returns the expression that clamps `self` to `[low, high]`. An infinite bound adds no operation.
    pub fn clamp(self, low: f32, high: f32) -> Self {
        let above = if low == f32::NEG_INFINITY { self } else { self.binary(BinaryOp::Maximum, Constant(low)) };
        if high == f32::INFINITY { above } else { above.binary(BinaryOp::Minimum, Constant(high)) }
    }

    /// Returns the expression whose value is `then` if `self` is not 0, otherwise `otherwise`.
    pub fn select(self, then: Self, otherwise: Self) -> Self {
        Expression::Select(Box::new([self, then, otherwise]))
    }

    /// Returns the expression that applies an operator's fused activation function to `self`; `None` if the
    /// activation has no float implementation.
    #[must_use]
    pub fn activation(self, activation: Activation) -> Option<Self> {
        match (activation, activation.bounds()) {
            (Activation::Tanh, _) => Some(self.unary(UnaryOp::Tanh)),
            (_, Some((low, high))) => Some(self.clamp(low, high)),
            (_, None) => None,
        }
    }

    /// Whether the expression is `Input(0)`, so that it changes nothing.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        *self == Input(0)
    }

    /// Returns the highest input index that the expression uses, plus one; 0 if it uses no input.
    pub fn arity(&self) -> usize {
        match self {
            Input(index) => index + 1,
            Constant(_) => 0,
            Expression::Unary(_, a) => a.arity(),
            Expression::Binary(_, a, b) => a.arity().max(b.arity()),
            Expression::Select(parts) => parts.iter().map(Expression::arity).max().unwrap_or(0),
        }
    }

    /// Whether the expression uses the input with this index.
    #[must_use]
    pub fn reads(&self, input: usize) -> bool {
        match self {
            Input(index) => *index == input,
            Constant(_) => false,
            Expression::Unary(_, a) => a.reads(input),
            Expression::Binary(_, a, b) => a.reads(input) || b.reads(input),
            Expression::Select(parts) => parts.iter().any(|part| part.reads(input)),
        }
    }

    /// Whether the expression has a constant of which `is` is true.
    #[must_use]
    pub fn has_constant(&self, is: &dyn Fn(f32) -> bool) -> bool {
        match self {
            Input(_) => false,
            Constant(value) => is(*value),
            Expression::Unary(_, a) => a.has_constant(is),
            Expression::Binary(_, a, b) => a.has_constant(is) || b.has_constant(is),
            Expression::Select(parts) => parts.iter().any(|part| part.has_constant(is)),
        }
    }

    /// Whether the expression's value is known never to be negative. Sums of such values do not suffer from
    /// cancellation in any order of summation.
    #[must_use]
    pub fn is_never_negative(&self) -> bool {
        let both = |a: &Self, b: &Self| a.is_never_negative() && b.is_never_negative();
        match self {
            Input(_) => false,
            Constant(value) => *value >= 0.0,
            Expression::Unary(function, a) => match function {
                UnaryOp::Exponential | UnaryOp::Absolute | UnaryOp::Logistic => true,
                UnaryOp::SquareRoot | UnaryOp::InverseSquareRoot | UnaryOp::Floor | UnaryOp::Round => {
                    a.is_never_negative()
                }
                _ => false,
            },
            Expression::Binary(function, a, b) => match function {
                BinaryOp::Multiply => a == b || both(a, b),
                BinaryOp::Add | BinaryOp::Divide | BinaryOp::Minimum => both(a, b),
                BinaryOp::Maximum => a.is_never_negative() || b.is_never_negative(),
                BinaryOp::Less | BinaryOp::Equal => true,
                _ => false,
            },
            Expression::Select(parts) => both(&parts[1], &parts[2]),
        }
    }

    /// Whether the expression's value is 0 or 1, whatever its inputs are.
    #[must_use]
    pub fn is_truth(&self) -> bool {
        match self {
            Constant(value) => *value == 0.0 || *value == 1.0,
            Expression::Binary(function, ..) => matches!(function, BinaryOp::Less | BinaryOp::Equal),
            Expression::Select(parts) => parts[1].is_truth() && parts[2].is_truth(),
            Input(_) | Expression::Unary(..) => false,
        }
    }

    /// Returns the expression with each `Input(k)` replaced by the expression `input(k)`.
    pub fn substitute(&self, input: &dyn Fn(usize) -> Expression) -> Self {
        match self {
            Input(index) => input(*index),
            Constant(value) => Constant(*value),
            Expression::Unary(function, a) => a.substitute(input).unary(*function),
            Expression::Binary(function, a, b) => a.substitute(input).binary(*function, b.substitute(input)),
            Expression::Select(parts) => {
                Expression::Select(Box::new(parts.each_ref().map(|part| part.substitute(input))))
            }
        }
    }

    /// Returns the number of nodes in the expression tree.
    pub fn size(&self) -> usize {
        match self {
            Input(_) | Constant(_) => 1,
            Expression::Unary(_, a) => 1 + a.size(),
            Expression::Binary(_, a, b) => 1 + a.size() + b.size(),
            Expression::Select(parts) => 1 + parts.iter().map(Expression::size).sum::<usize>(),
        }
    }

    /// Returns the number of operations in the expression tree, without inputs and constants: a measure of
    /// the cost of evaluation.
    pub fn functions(&self) -> usize {
        match self {
            Input(_) | Constant(_) => 0,
            Expression::Unary(_, a) => 1 + a.functions(),
            Expression::Binary(_, a, b) => 1 + a.functions() + b.functions(),
            Expression::Select(parts) => 1 + parts.iter().map(Expression::functions).sum::<usize>(),
        }
    }

    /// Returns the value of the expression for these elements of the inputs.
    ///
    /// # Panics
    ///
    /// If the expression uses an input that is not in `inputs`.
    #[must_use]
    pub fn evaluate(&self, inputs: &[f32]) -> f32 {
        match self {
            Input(index) => inputs[*index],
            Constant(value) => *value,
            Expression::Unary(function, a) => function.evaluate(a.evaluate(inputs)),
            Expression::Binary(function, a, b) => function.evaluate(a.evaluate(inputs), b.evaluate(inputs)),
            Expression::Select(parts) => {
                let chosen = if parts[0].evaluate(inputs) != 0.0 { &parts[1] } else { &parts[2] };
                chosen.evaluate(inputs)
            }
        }
    }
}

impl UnaryOp {
    fn evaluate(self, x: f32) -> f32 {
        match self {
            UnaryOp::Negate => -x,
            UnaryOp::Absolute => x.abs(),
            UnaryOp::Exponential => x.exp(),
            UnaryOp::Logarithm => x.ln(),
            UnaryOp::SquareRoot => x.sqrt(),
            UnaryOp::InverseSquareRoot => 1.0 / x.sqrt(),
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Logistic => 1.0 / (1.0 + (-x).exp()),
            UnaryOp::Sine => x.sin(),
            UnaryOp::Cosine => x.cos(),
            UnaryOp::Floor => x.floor(),
            UnaryOp::Ceiling => x.ceil(),
            UnaryOp::Round => x.round_ties_even(),
            UnaryOp::Truncate => x.trunc(),
            UnaryOp::Sign => f32::from(x > 0.0) - f32::from(x < 0.0),
            UnaryOp::ErrorFunction => error_function(x),
        }
    }
}

impl BinaryOp {
    fn evaluate(self, a: f32, b: f32) -> f32 {
        match self {
            BinaryOp::Add => a + b,
            BinaryOp::Subtract => a - b,
            BinaryOp::Multiply => a * b,
            BinaryOp::Divide => a / b,
            BinaryOp::Minimum => a.min(b),
            BinaryOp::Maximum => a.max(b),
            BinaryOp::Less => f32::from(a < b),
            BinaryOp::Equal => f32::from(a == b),
            BinaryOp::Power => a.powf(b),
            BinaryOp::FloorDivide => (f64::from(a) / f64::from(b)).floor() as f32,
            BinaryOp::Angle => a.atan2(b),
            BinaryOp::FloorModulo => {
                let rest = a % b;
                if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
            }
        }
    }
}

/// Computes the error function of `x` to seven digits, in f64. Source: Abramowitz and Stegun, "Handbook of
/// Mathematical Functions", 7.1.5 and 7.1.14.
fn error_function(x: f32) -> f32 {
    let (x, sign) = (f64::from(x.abs()), f64::from(x.signum()));
    if x > 6.0 {
        return sign as f32;
    }
    let value = if x < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..60 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * std::f64::consts::FRAC_2_SQRT_PI
    } else {
        let fraction = (1..60).rev().fold(0.0, |below, n| f64::from(n) / 2.0 / (x + below));
        1.0 - (-x * x).exp() / ((x + fraction) * std::f64::consts::PI.sqrt())
    };
    (sign * value) as f32
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input(index) => write!(f, "in{index}"),
            Constant(value) => write!(f, "{value}"),
            Expression::Unary(function, a) => write!(f, "{function:?}({a})"),
            Expression::Binary(function, a, b) => write!(f, "{function:?}({a}, {b})"),
            Expression::Select(parts) => write!(f, "Select({}, {}, {})", parts[0], parts[1], parts[2]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activations_are_expressions() {
        let relu6 = Input(0).activation(Activation::Relu6).unwrap();
        assert_eq!([-1.0, 3.0, 7.0].map(|x| relu6.evaluate(&[x])), [0.0, 3.0, 6.0]);
        assert!(Input(0).activation(Activation::None).unwrap().is_identity());
        assert_eq!(Input(0).activation(Activation::SignBit), None);
    }

    #[test]
    fn the_error_function_has_its_known_values() {
        let known =
            [(0.0, 0.0), (0.5, 0.520_499_9), (-1.0, -0.842_700_8), (2.5, 0.999_593), (3.0, 0.999_977_9), (7.0, 1.0)];
        known.iter().for_each(|(x, y)| assert!((error_function(*x) - y).abs() < 1e-7, "{x}: {}", error_function(*x)));
    }

    #[test]
    fn remainders_have_the_sign_of_the_divisor() {
        let of = |function: BinaryOp, a, b| function.evaluate(a, b);
        assert_eq!((of(BinaryOp::FloorDivide, -7.0, 2.0), of(BinaryOp::FloorModulo, -7.0, 2.0)), (-4.0, 1.0));
        assert_eq!((of(BinaryOp::FloorDivide, 7.0, -2.0), of(BinaryOp::FloorModulo, 7.0, -2.0)), (-4.0, -1.0));
    }

    #[test]
    fn squares_are_never_negative() {
        let difference = Input(0).subtract(Input(1));
        assert!(!difference.is_never_negative());
        assert!(difference.clone().multiply(difference.clone()).is_never_negative());
        assert!(difference.clone().unary(UnaryOp::Exponential).add(Constant(1.0)).is_never_negative());
        assert!(!difference.clone().multiply(Input(0)).is_never_negative());
        assert_eq!([0, 1, 2].map(|input| difference.reads(input)), [true, true, false]);
    }

    #[test]
    fn substitution_composes() {
        let square = Input(0).multiply(Input(0));
        let of_sum = square.substitute(&|_| Input(0).add(Input(1)));
        assert_eq!((of_sum.evaluate(&[2.0, 3.0]), of_sum.arity(), of_sum.size()), (25.0, 2, 7));
        assert_eq!((of_sum.functions(), Input(0).functions()), (3, 0));
    }
}
