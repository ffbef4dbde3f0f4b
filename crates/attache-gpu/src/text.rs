//! Expressions and index maps as WGSL text.

use attache_gpu_ir::{Binary, Expression, Index, Unary};

/// WGSL's type of `lanes` neighbouring elements of type `element`.
pub(crate) fn vector(element: &str, lanes: usize) -> String {
    if lanes == 1 { element.to_owned() } else { format!("vec{lanes}<{element}>") }
}

/// A number as a WGSL literal. Infinities become the largest finite number of their sign, since WGSL has no others.
pub(crate) fn literal(value: f32) -> String {
    let finite = if value.is_nan() { 0.0 } else { value.clamp(f32::MIN, f32::MAX) };
    format!("{finite:?}f")
}

/// The expression over variables named `x0`, `x1`, …, all of `lanes` elements.
pub(crate) fn expression(expression: &Expression, lanes: usize) -> String {
    let of = |part: &Expression| self::expression(part, lanes);
    let real = vector("f32", lanes);
    match expression {
        Expression::Input(index) => format!("x{index}"),
        Expression::Constant(value) => format!("{real}({})", literal(*value)),
        Expression::Unary(function, a) => {
            let a = of(a);
            match function {
                Unary::Negate => format!("(-{a})"),
                Unary::Absolute => format!("abs({a})"),
                Unary::Exponential => format!("exp({a})"),
                Unary::Logarithm => format!("log({a})"),
                Unary::SquareRoot => format!("sqrt({a})"),
                Unary::InverseSquareRoot => format!("inverseSqrt({a})"),
                // Beyond ±10 the result rounds to ±1, but some drivers overflow on the way there.
                Unary::Tanh => format!("tanh(clamp({a}, {real}(-10.0), {real}(10.0)))"),
                Unary::Logistic => format!("(1.0 / (1.0 + exp(-{a})))"),
                Unary::Sine => format!("sin({a})"),
                Unary::Cosine => format!("cos({a})"),
                Unary::Floor => format!("floor({a})"),
                Unary::Ceiling => format!("ceil({a})"),
                Unary::Round => format!("round({a})"),
                Unary::Truncate => format!("trunc({a})"),
                Unary::Sign => format!("sign({a})"),
                Unary::ErrorFunction => format!("error_function{lanes}({a})"),
            }
        }
        Expression::Binary(function, a, b) => {
            let (a, b) = (of(a), of(b));
            match function {
                Binary::Add => format!("({a} + {b})"),
                Binary::Subtract => format!("({a} - {b})"),
                Binary::Multiply => format!("({a} * {b})"),
                Binary::Divide => format!("({a} / {b})"),
                Binary::Minimum => format!("min({a}, {b})"),
                Binary::Maximum => format!("max({a}, {b})"),
                Binary::Less => format!("select({real}(0.0), {real}(1.0), {a} < {b})"),
                Binary::Equal => format!("select({real}(0.0), {real}(1.0), {a} == {b})"),
                Binary::Power => format!("power{lanes}({a}, {b})"),
                Binary::FloorDivide => format!("floor_divide{lanes}({a}, {b})"),
                Binary::FloorModulo => format!("floor_modulo{lanes}({a}, {b})"),
            }
        }
        Expression::Select(parts) => {
            let [condition, then, otherwise] = parts.each_ref().map(of);
            format!("select({otherwise}, {then}, {condition} != {real}(0.0))")
        }
    }
}

/// The functions that [`expression`] calls, for `lanes` elements, but for those that the expression has no use for.
pub(crate) fn functions(whole: &Expression, lanes: usize) -> String {
    let calls = expression(whole, lanes);
    let real = vector("f32", lanes);
    // In the order in which one builds on another.
    let functions = [
        ("error_function", ERROR_FUNCTION),
        ("power", POWER),
        ("floor_divide", FLOOR_DIVIDE),
        ("floor_modulo", FLOOR_MODULO),
    ];
    let used = functions.iter().filter(|(name, _)| calls.contains(&format!("{name}{lanes}(")));
    used.map(|(_, text)| text.replace("LANES", &lanes.to_string()).replace("REAL", &real)).collect()
}

/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: an absolute error of 1.5e-7.
const ERROR_FUNCTION: &str = "fn error_functionLANES(x: REAL) -> REAL {
    let a = abs(x);
    let t = 1.0 / (1.0 + 0.3275911 * a);
    let p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    return sign(x) * (1.0 - p * exp(-a * a));
}
";

/// Devices may take the power of a negative number for undefined: here an integer exponent decides the sign.
const POWER: &str = "fn powerLANES(a: REAL, b: REAL) -> REAL {
    let size = select(pow(abs(a), b), REAL(1.0), b == REAL(0.0));
    let odd = abs(b - 2.0 * floor(b * 0.5)) == REAL(1.0);
    return select(size, -size, (a < REAL(0.0)) & odd);
}
";

/// A device's quotient may be off in its last bit: what it leaves decides whether it was rounded over an integer.
const FLOOR_DIVIDE: &str = "fn floor_divideLANES(a: REAL, b: REAL) -> REAL {
    let quotient = floor(a / b);
    let rest = fma(-quotient, b, a);
    let over = (rest * sign(b)) < REAL(0.0);
    let under = (rest * sign(b)) >= abs(b);
    return select(select(quotient, quotient + 1.0, under), quotient - 1.0, over);
}
";

const FLOOR_MODULO: &str = "fn floor_moduloLANES(a: REAL, b: REAL) -> REAL {
    let quotient = floor(a / b);
    let rest = fma(-quotient, b, a);
    let over = (rest * sign(b)) < REAL(0.0);
    let under = (rest * sign(b)) >= abs(b);
    return select(select(rest, rest - b, under), rest + b, over);
}
";

/// The index over output coordinates named `o0`, `o1`, …, of type `i32`; numbers pass through `number`.
pub(crate) fn index(index: &Index, number: &mut dyn FnMut(i64) -> String) -> String {
    match index {
        Index::Axis(axis) => format!("o{axis}"),
        Index::Constant(value) => number(*value),
        Index::Add(a, b) => format!("({} + {})", self::index(a, number), self::index(b, number)),
        Index::Multiply(a, factor) => format!("({} * {})", self::index(a, number), number(*factor)),
        Index::Divide(a, divisor) => format!("({} / {})", self::index(a, number), number(*divisor)),
        Index::Modulo(a, divisor) => format!("({} % {})", self::index(a, number), number(*divisor)),
        Index::Mirror { of, extent, edge } => {
            let of = self::index(of, number);
            let shift = i64::from(!edge);
            format!("mirror({of}, {}, {})", number(*extent), number(shift))
        }
    }
}

/// The function that [`index`] calls for mirrored coordinates.
pub(crate) const MIRROR: &str = "fn mirror(at: i32, extent: i32, shift: i32) -> i32 {
    if (at < 0) { return -at - 1 + shift; }
    if (at >= extent) { return 2 * extent - 1 - shift - at; }
    return at;
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_wgsl() {
        assert_eq!(literal(1.0), "1.0f");
        assert_eq!(literal(1e-7), "1e-7f");
        assert_eq!(literal(f32::NEG_INFINITY), "-3.4028235e38f");
    }

    #[test]
    fn a_clamp_reads_as_written() {
        let relu6 = Expression::Input(0).clamp(0.0, 6.0);
        assert_eq!(expression(&relu6, 1), "min(max(x0, f32(0.0f)), f32(6.0f))");
    }
}
