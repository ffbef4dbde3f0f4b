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
pub(crate) fn functions(whole: &Expression, lanes: usize) -> Vec<String> {
    let calls = expression(whole, lanes);
    // In the order in which one builds on another.
    let functions = [
        ("error_function", ERROR_FUNCTION),
        ("power", POWER),
        ("floor_modulo", FLOOR_MODULO),
        ("floor_divide", FLOOR_DIVIDE),
    ];
    let calls = |name: &str| calls.contains(&format!("{name}{lanes}("));
    let used = functions.iter().filter(|(name, _)| calls(name) || (*name == "floor_modulo" && calls("floor_divide")));
    used.map(|(_, text)| for_lanes(text, lanes)).collect()
}

/// Near zero Taylor's series to x¹⁵. Beyond, Abramowitz and Stegun, "Handbook of Mathematical Functions", 7.1.26: its
/// absolute error of 1.5e-7 would be any multiple of a small result.
const ERROR_FUNCTION: &str = "fn error_functionLANES(x: REAL) -> REAL {
    let s = x * x;
    var q = (1.0 / 9360.0 - s / 75600.0) * s - 1.0 / 1320.0;
    q = (((q * s + 1.0 / 216.0) * s - 1.0 / 42.0) * s + 0.1) * s - 1.0 / 3.0;
    let near = x * ((q * s + 1.0) * 1.1283791670955126);
    let a = abs(x);
    let t = 1.0 / (1.0 + 0.3275911 * a);
    let p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    let far = sign(x) * (1.0 - p * exp(-a * a));
    return select(far, near, a < REAL(0.75));
}
";

/// Devices may take the power of a negative number for undefined: here an integer exponent decides the sign.
const POWER: &str = "fn powerLANES(a: REAL, b: REAL) -> REAL {
    let size = select(pow(abs(a), b), REAL(1.0), b == REAL(0.0));
    let odd = abs(b - 2.0 * floor(b * 0.5)) == REAL(1.0);
    return select(size, -size, (a < REAL(0.0)) & odd);
}
";

/// Exact for quotients below 2³³: of a quotient of 12 bits and a divisor split into halves of 12, every product is exact,
/// whether the device fuses it with the addition or not. Three such quotients leave less than the divisor on either side
/// of 0. Drivers of OpenGL would take out the factor that both products share, and round: hence the one that is `apart`.
const FLOOR_MODULO: &str = "fn floor_moduloLANES(a: REAL, b: REAL) -> REAL {
    let high = bitcast<REAL>(bitcast<WHOLE>(b) & WHOLE(-4096));
    var rest = a;
    for (var size = 4194304.0; size >= 1.0; size /= 2048.0) {
        let quotient = trunc(rest / (b * size)) * size;
        let apart = select(quotient, REAL(0.0), high == REAL(0.0));
        rest = fma(-quotient, b - high, fma(-apart, high, rest));
    }
    rest = select(rest, rest + b, rest * sign(b) < REAL(0.0));
    return select(rest, rest - b, rest * sign(b) >= abs(b));
}
";

/// A device's quotient may be off in its last bit, and so rounded over an integer; without what it leaves it is one.
const FLOOR_DIVIDE: &str = "fn floor_divideLANES(a: REAL, b: REAL) -> REAL {
    let exact = round((a - floor_moduloLANES(a, b)) / b);
    return select(exact, floor(a / b), abs(a) > abs(b) * 4194304.0);
}
";

/// The function `integerLANES`: a real rounded towards zero, held to the range of 32 bits. By itself a device takes the
/// largest *real* below 2³¹ for what is larger.
pub(crate) fn integer(lanes: usize) -> String {
    for_lanes(INTEGER, lanes)
}

const INTEGER: &str = "fn integerLANES(x: REAL) -> WHOLE {
    return select(WHOLE(x), WHOLE(2147483647), x >= REAL(2147483648.0));
}
";

/// A function's text for so many elements.
fn for_lanes(text: &str, lanes: usize) -> String {
    let (real, whole) = (vector("f32", lanes), vector("i32", lanes));
    text.replace("LANES", &lanes.to_string()).replace("REAL", &real).replace("WHOLE", &whole)
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
