//! Generates WGSL of integer expressions.
//!
//! WGSL has no 64-bit integers. Fixed-point products are assembled from 16-bit halves, and rounded in 32-bit words.

use attache_gpu_ir::{IntBinaryOp, IntExpression, IntRounding};

/// Returns the WGSL of an expression over variables named `x0`, `x1`, …, each an `i32`. `number` returns the
/// WGSL of each constant.
pub(crate) fn int_expression(expression: &IntExpression, number: &mut dyn FnMut(i32) -> String) -> String {
    match expression {
        IntExpression::Input(index) => format!("x{index}"),
        IntExpression::Constant(value) => number(*value),
        IntExpression::LeadingZeros(a) => format!("countLeadingZeros({})", int_expression(a, number)),
        IntExpression::Binary(function, a, b) => {
            let (a, b) = (int_expression(a, number), int_expression(b, number));
            match function {
                IntBinaryOp::Add => format!("({a} + {b})"),
                IntBinaryOp::Subtract => format!("({a} - {b})"),
                IntBinaryOp::Multiply => format!("({a} * {b})"),
                IntBinaryOp::Divide => format!("({a} / {b})"),
                IntBinaryOp::Minimum => format!("min({a}, {b})"),
                IntBinaryOp::Maximum => format!("max({a}, {b})"),
                IntBinaryOp::ShiftLeft => format!("shift_left({a}, {b})"),
                IntBinaryOp::ShiftRight => format!("shift_right({a}, {b})"),
                IntBinaryOp::And => format!("({a} & {b})"),
                IntBinaryOp::ExclusiveOr => format!("({a} ^ {b})"),
                IntBinaryOp::Power => format!("int_power({a}, {b})"),
                IntBinaryOp::Less => format!("select(0, 1, {a} < {b})"),
            }
        }
        IntExpression::Select(parts) => {
            let [condition, then, otherwise] = parts.each_ref().map(|part| int_expression(part, number));
            format!("select({otherwise}, {then}, {condition} != 0)")
        }
        IntExpression::Rescale(rounding, parts) => {
            let [x, mantissa, exponent] = parts.each_ref().map(|part| int_expression(part, number));
            let name = match rounding {
                IntRounding::Twice => "rescale_twice",
                IntRounding::Once => "rescale_once",
            };
            format!("{name}({x}, {mantissa}, {exponent})")
        }
    }
}

/// Returns the definition of the WGSL function `name(x0, x1, …)` that evaluates the expression of `variables`
/// variables. `number` returns the WGSL of each constant.
pub(crate) fn int_value(
    name: &str,
    expression: &IntExpression,
    variables: usize,
    number: &mut dyn FnMut(i32) -> String,
) -> String {
    let variables: Vec<String> = (0..variables).map(|index| format!("x{index}: i32")).collect();
    let value = int_expression(expression, number);
    format!("fn {name}({}) -> i32 {{\n    return {value};\n}}\n", variables.join(", "))
}

/// Returns the definitions of the WGSL functions that [`int_expression`] calls for this expression, in
/// dependency order.
pub(crate) fn functions(expression: &IntExpression) -> Vec<&'static str> {
    let calls = int_expression(expression, &mut |_| String::new());
    let uses = |name: &str| calls.contains(&format!("{name}("));
    let (twice, once) = (uses("rescale_twice"), uses("rescale_once"));
    let used = [
        (uses("shift_left"), SHIFT_LEFT),
        (uses("shift_right"), SHIFT_RIGHT),
        (uses("int_power"), POWER),
        (twice || once, PRODUCT),
        (twice, RESCALE_TWICE),
        (once, RESCALE_ONCE),
    ];
    used.iter().filter(|(is_used, _)| *is_used).map(|(_, text)| *text).collect()
}

/// WGSL that shifts `x` left by `bits`. It is a function, so that compilers do not fold a shift of constants
/// that they regard as an overflow.
const SHIFT_LEFT: &str = "fn shift_left(x: i32, bits: i32) -> i32 {
    return x << u32(bits);
}
";

/// WGSL that shifts `x` right by `bits` and fills with the sign.
const SHIFT_RIGHT: &str = "fn shift_right(x: i32, bits: i32) -> i32 {
    return x >> u32(bits);
}
";

/// WGSL of an integer power, by repeated squares.
const POWER: &str = "fn int_power(a: i32, exponent: i32) -> i32 {
    var square = a;
    var left = u32(exponent);
    var result = 1;
    while (left != 0u) {
        if ((left & 1u) == 1u) { result = result * square; }
        square = square * square;
        left = left >> 1u;
    }
    return result;
}
";

/// WGSL of the 64-bit product of two integers: its lower word, then its upper word. The bits of a negative
/// factor, read as unsigned, are 2³² too large, so the other factor is subtracted from the upper word.
const PRODUCT: &str = "fn product(a: i32, b: i32) -> vec2<u32> {
    let x = vec2<u32>(u32(a) & 65535u, u32(a) >> 16u);
    let y = vec2<u32>(u32(b) & 65535u, u32(b) >> 16u);
    let low = x.x * y.x;
    let middle = x.y * y.x + (low >> 16u);
    let cross = x.x * y.y + (middle & 65535u);
    let high = x.y * y.y + (middle >> 16u) + (cross >> 16u);
    let signs = select(0u, u32(b), a < 0) + select(0u, u32(a), b < 0);
    return vec2<u32>((cross << 16u) | (low & 65535u), high - signs);
}
";

/// WGSL of [`IntRounding::Twice`]: the upper 32 bits of twice the product, ties rounded up; then a division
/// by a power of two, ties rounded away from zero.
const RESCALE_TWICE: &str = "fn rescale_twice(x: i32, mantissa: i32, exponent: i32) -> i32 {
    let words = product(x << u32(max(exponent, 0)), mantissa);
    let low = words.x + 0x40000000u;
    let high = words.y + select(0u, 1u, low < 0x40000000u);
    let doubled = i32((high << 1u) | (low >> 31u));
    let bits = u32(max(-exponent, 0));
    let mask = i32((1u << bits) - 1u);
    let threshold = (mask >> 1u) + select(0, 1, doubled < 0);
    return (doubled >> bits) + select(0, 1, (doubled & mask) > threshold);
}
";

/// WGSL of [`IntRounding::Once`]: adds half of the divisor to the product and shifts the two-word sum right.
const RESCALE_ONCE: &str = "fn rescale_once(x: i32, mantissa: i32, exponent: i32) -> i32 {
    let words = product(x, mantissa);
    let bits = u32(31 - exponent);
    let half = 1u << ((bits - 1u) & 31u);
    let is_low = bits <= 32u;
    let low = words.x + select(0u, half, is_low);
    let carry = select(0u, 1u, low < words.x);
    let high = words.y + carry + select(half, 0u, is_low);
    if (bits < 32u) { return i32((high << (32u - bits)) | (low >> bits)); }
    return i32(high) >> (bits - 32u);
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_come_where_they_are_called() {
        let rescaled = IntExpression::Input(0).rescale(
            IntRounding::Once,
            IntExpression::Constant(1 << 30),
            IntExpression::Input(1),
        );
        let text = int_expression(&rescaled, &mut |number| format!("i32({number})"));
        assert_eq!(text, "rescale_once(x0, i32(1073741824), x1)");
        assert_eq!(functions(&rescaled), [PRODUCT, RESCALE_ONCE]);
        assert!(functions(&IntExpression::Input(0).plus(3)).is_empty());
    }
}
