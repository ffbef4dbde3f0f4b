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
            }
        }
        Expression::Select(parts) => {
            let [condition, then, otherwise] = parts.each_ref().map(of);
            format!("select({otherwise}, {then}, {condition} != {real}(0.0))")
        }
    }
}

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
