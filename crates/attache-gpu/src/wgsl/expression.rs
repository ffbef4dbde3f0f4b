//! Generates WGSL of float expressions and of index maps.

use attache_gpu_ir::{BinaryOp, Expression, Index, UnaryOp};

/// Returns the WGSL type of `vector_width` adjacent elements of type `element`.
pub(crate) fn vector(element: &str, vector_width: usize) -> String {
    if vector_width == 1 { element.to_owned() } else { format!("vec{vector_width}<{element}>") }
}

/// Returns WGSL of exactly this float: a literal, or a call of `float_of`. If [`calls_float_of`] is true of
/// it, the shader must define [`FLOAT_OF`].
///
/// WGSL has no literals for infinities and NaN, and drivers may read denormal literals, or the sign of a zero, as 0.
pub(crate) fn literal(value: f32) -> String {
    if value.is_normal() || value.to_bits() == 0 { format!("{value:?}f") } else { float_of(value) }
}

/// Returns WGSL of a float that compilers do not treat as a constant, so that they neither reject it nor fold
/// it.
fn float_of(value: f32) -> String {
    format!("float_of({}u)", value.to_bits())
}

/// Whether the WGSL `text` calls [`FLOAT_OF`], which the shader must then define.
pub(crate) fn calls_float_of(text: &str) -> bool {
    text.contains("float_of(")
}

/// WGSL of the function `float_of`, which reinterprets bits as a float. It is a function because WGSL rejects
/// constant expressions that are not finite, `bitcast` included, and a function's parameter is not a constant
/// expression.
pub(crate) const FLOAT_OF: &str = "fn float_of(bits: u32) -> f32 {
    return bitcast<f32>(bits);
}
";

/// Returns the WGSL of an expression over variables named `x0`, `x1`, …, all of `vector_width` elements.
pub(crate) fn expression(expression: &Expression, vector_width: usize) -> String {
    // Compilers would fold an expression without variables, and reject the shader if the result is not finite.
    let is_constant = expression.arity() == 0;
    let float = vector("f32", vector_width);
    let of = |part: &Expression| match part {
        Expression::Constant(value) if is_constant => format!("{float}({})", float_of(*value)),
        part => self::expression(part, vector_width),
    };
    match expression {
        Expression::Input(index) => format!("x{index}"),
        Expression::Constant(value) => format!("{float}({})", literal(*value)),
        Expression::Unary(function, a) => {
            let a = of(a);
            match function {
                UnaryOp::Negate => format!("(-{a})"),
                UnaryOp::Absolute => format!("abs({a})"),
                UnaryOp::Exponential => format!("exp({a})"),
                UnaryOp::Logarithm => format!("log({a})"),
                UnaryOp::SquareRoot => format!("sqrt({a})"),
                UnaryOp::InverseSquareRoot => format!("inverseSqrt({a})"),
                // Beyond ±10 the result rounds to ±1, but some drivers overflow in intermediate results.
                UnaryOp::Tanh => format!("tanh(clamp({a}, {float}(-10.0), {float}(10.0)))"),
                UnaryOp::Logistic => format!("(1.0 / (1.0 + exp(-{a})))"),
                UnaryOp::Sine => format!("sin({a})"),
                UnaryOp::Cosine => format!("cos({a})"),
                UnaryOp::Floor => format!("floor({a})"),
                UnaryOp::Ceiling => format!("ceil({a})"),
                UnaryOp::Round => format!("round({a})"),
                UnaryOp::Truncate => format!("trunc({a})"),
                UnaryOp::Sign => format!("sign({a})"),
                UnaryOp::ErrorFunction => format!("error_function{vector_width}({a})"),
            }
        }
        Expression::Binary(function, a, b) => {
            let (a, b) = (of(a), of(b));
            match function {
                BinaryOp::Add => format!("({a} + {b})"),
                BinaryOp::Subtract => format!("({a} - {b})"),
                BinaryOp::Multiply => format!("({a} * {b})"),
                BinaryOp::Divide => format!("({a} / {b})"),
                BinaryOp::Minimum => format!("min({a}, {b})"),
                BinaryOp::Maximum => format!("max({a}, {b})"),
                BinaryOp::Less => format!("select({float}(0.0), {float}(1.0), {a} < {b})"),
                BinaryOp::Equal => format!("select({float}(0.0), {float}(1.0), {a} == {b})"),
                BinaryOp::Power => format!("power{vector_width}({a}, {b})"),
                BinaryOp::FloorDivide => format!("floor_divide{vector_width}({a}, {b})"),
                BinaryOp::FloorModulo => format!("floor_modulo{vector_width}({a}, {b})"),
                BinaryOp::Angle => format!("angle{vector_width}({a}, {b})"),
            }
        }
        Expression::Select(parts) => {
            let [condition, then, otherwise] = parts.each_ref().map(of);
            format!("select({otherwise}, {then}, {condition} != {float}(0.0))")
        }
    }
}

/// Returns the definitions of the WGSL functions that [`expression`] calls for this expression and vector
/// width.
pub(crate) fn functions(root: &Expression, vector_width: usize) -> Vec<String> {
    let calls = expression(root, vector_width);
    // In dependency order: a function comes after those that it calls.
    let functions = [
        ("error_function", ERROR_FUNCTION),
        ("power", POWER),
        ("floor_modulo", FLOOR_MODULO),
        ("floor_divide", FLOOR_DIVIDE),
        ("angle", ANGLE),
    ];
    let has_special = calls_float_of(&calls);
    let calls = |name: &str| calls.contains(&format!("{name}{vector_width}("));
    let has_special = has_special || calls("power");
    let used = functions.iter().filter(|(name, _)| calls(name) || (*name == "floor_modulo" && calls("floor_divide")));
    let float_of = has_special.then(|| FLOAT_OF.to_owned());
    float_of.into_iter().chain(used.map(|(_, text)| for_width(text, vector_width))).collect()
}

/// WGSL of the error function: a Taylor series to x¹⁵ below 0.75. Above, Abramowitz and Stegun, "Handbook of
/// Mathematical Functions", 7.1.26: its absolute error of 1.5e-7 would be a large relative error of small
/// results.
const ERROR_FUNCTION: &str = "fn error_functionWIDTH(x: FLOAT) -> FLOAT {
    let s = x * x;
    var q = (1.0 / 9360.0 - s / 75600.0) * s - 1.0 / 1320.0;
    q = (((q * s + 1.0 / 216.0) * s - 1.0 / 42.0) * s + 0.1) * s - 1.0 / 3.0;
    let near = x * ((q * s + 1.0) * 1.1283791670955126);
    let a = abs(x);
    let t = 1.0 / (1.0 + 0.3275911 * a);
    let p = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
    let far = sign(x) * (1.0 - p * exp(-a * a));
    return select(far, near, a < FLOAT(0.75));
}
";

/// WGSL of a power. Devices may treat a power of a negative base as undefined, and take 0 for a negative power of 0. Here an
/// integer exponent determines the sign of the power of a negative base, which for other exponents is NaN (bits 0x7fc00000)
/// if the base is finite. The other constant is infinity.
const POWER: &str = "fn powerWIDTH(a: FLOAT, b: FLOAT) -> FLOAT {
    var size = select(pow(abs(a), b), FLOAT(float_of(2139095040u)), (a == FLOAT(0.0)) & (b < FLOAT(0.0)));
    size = select(size, FLOAT(1.0), b == FLOAT(0.0));
    let odd = abs(b - 2.0 * floor(b * 0.5)) == FLOAT(1.0);
    let signed = select(size, -size, (a < FLOAT(0.0)) & odd);
    let is_finite = abs(a) < FLOAT(float_of(2139095040u));
    return select(signed, FLOAT(float_of(2143289344u)), (a < FLOAT(0.0)) & is_finite & (b != floor(b)));
}
";

/// WGSL of the floor modulo, exact for quotients below 2³³. Each partial quotient has 12 bits and the divisor
/// is split into two halves of 12 bits, so every product is exact, whether or not the device fuses it with
/// the addition. After three partial quotients the remainder is smaller than the divisor, with either sign.
/// `apart` is the same quotient in a form that OpenGL drivers do not recognise: they would factor the
/// quotient out of both products, and round.
const FLOOR_MODULO: &str = "fn floor_moduloWIDTH(a: FLOAT, b: FLOAT) -> FLOAT {
    let high = bitcast<FLOAT>(bitcast<INT>(b) & INT(-4096));
    var rest = a;
    for (var size = 4194304.0; size >= 1.0; size /= 2048.0) {
        let quotient = trunc(rest / (b * size)) * size;
        let apart = select(quotient, FLOAT(0.0), high == FLOAT(0.0));
        rest = fma(-quotient, b - high, fma(-apart, high, rest));
    }
    rest = select(rest, rest + b, rest * sign(b) < FLOAT(0.0));
    return select(rest, rest - b, rest * sign(b) >= abs(b));
}
";

/// WGSL of the floor division. A device's quotient may be off in its last bit, and `floor` would then return
/// the wrong integer. With the remainder subtracted first, the exact quotient is an integer, so rounding
/// removes the error.
const FLOOR_DIVIDE: &str = "fn floor_divideWIDTH(a: FLOAT, b: FLOAT) -> FLOAT {
    let exact = round((a - floor_moduloWIDTH(a, b)) / b);
    return select(exact, floor(a / b), abs(a) > abs(b) * 4194304.0);
}
";

/// WGSL of the angle of a point. A device's own `atan2` may be off by 4096 units in the last place, and not know infinities
/// and signs of zeros. The polynomial is that of Cephes, for tangents up to that of π / 8; larger ones are turned by π / 4.
/// Large coordinates are scaled, since devices may divide by the reciprocal, which would be a denormal number.
const ANGLE: &str = "fn angleWIDTH(y: FLOAT, x: FLOAT) -> FLOAT {
    let small = min(abs(x), abs(y));
    let large = max(abs(x), abs(y));
    let scale = select(FLOAT(1.0), FLOAT(0.0009765625), large > FLOAT(1e37));
    var slope = select((small * scale) / (large * scale), FLOAT(1.0), small == large);
    slope = select(slope, FLOAT(0.0), large == FLOAT(0.0));
    let is_steep = slope > FLOAT(0.41421357);
    let t = select(slope, (slope - 1.0) / (slope + 1.0), is_steep);
    let s = t * t;
    let p = ((0.0805374449538 * s - 0.138776856032) * s + 0.199777106478) * s - 0.333329491539;
    var turn = p * s * t + t;
    turn = select(turn, 0.7853981633974483 + turn, is_steep);
    turn = select(turn, 1.5707963267948966 - turn, abs(y) > abs(x));
    turn = select(turn, 3.141592653589793 - turn, bitcast<INT>(x) < INT(0));
    turn = select(turn, -turn, bitcast<INT>(y) < INT(0));
    let is_nan = max(bitcast<INT>(x) & INT(0x7fffffff), bitcast<INT>(y) & INT(0x7fffffff)) > INT(0x7f800000);
    return select(turn, x + y, is_nan);
}
";

/// Returns the definition of the WGSL function `integer1` or `integer4`, which converts floats to integers,
/// rounded towards zero and clamped to the range of 32 bits. A device's own conversion clamps to the largest
/// *float* below 2³¹.
pub(crate) fn integer(vector_width: usize) -> String {
    for_width(INTEGER, vector_width)
}

const INTEGER: &str = "fn integerWIDTH(x: FLOAT) -> INT {
    return select(INT(x), INT(2147483647), x >= FLOAT(2147483648.0));
}
";

/// Returns the definition of the WGSL function `saturated1` or `saturated4`, which makes finite floats beyond the range of
/// f16 the largest f16. It reads the bits, since compilers may assume that floats are finite.
pub(crate) fn saturated(vector_width: usize) -> String {
    for_width(SATURATED, vector_width)
}

const SATURATED: &str = "fn saturatedWIDTH(x: FLOAT) -> FLOAT {
    let is_finite = (bitcast<INT>(x) & INT(0x7fffffff)) < INT(0x7f800000);
    return select(x, clamp(x, FLOAT(-65504.0), FLOAT(65504.0)), is_finite);
}
";

/// Returns the definition of a WGSL function for vectors of `vector_width` elements, from a template that
/// contains `WIDTH`, `FLOAT` and `INT`.
fn for_width(text: &str, vector_width: usize) -> String {
    let (float, int) = (vector("f32", vector_width), vector("i32", vector_width));
    text.replace("WIDTH", &vector_width.to_string()).replace("FLOAT", &float).replace("INT", &int)
}

/// Returns the WGSL of an index over output coordinates named `o0`, `o1`, … of type `i32`. `number` returns
/// the WGSL of each constant.
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

/// WGSL of the function `mirror`, which [`index`] calls for mirrored coordinates.
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
        assert_eq!(literal(0.0), "0.0f");
        assert_eq!(literal(f32::MAX), "3.4028235e38f");
        assert_eq!(literal(-0.0), "float_of(2147483648u)");
        assert_eq!(literal(f32::from_bits(1)), "float_of(1u)");
        assert_eq!(literal(f32::NEG_INFINITY), "float_of(4286578688u)");
        assert_eq!(literal(f32::NAN), "float_of(2143289344u)");
    }

    #[test]
    fn decimal_digits_are_exact() {
        let mut bits = 1u32;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = f32::from_bits(bits);
            let text = literal(value);
            let digits = text.strip_suffix('f').filter(|_| value.is_normal());
            let read = digits.map_or(value, |digits| digits.parse().unwrap());
            assert!(read.to_bits() == bits, "{text} is not {bits:#x}");
        }
    }

    #[test]
    fn constant_expressions_are_left_to_the_device() {
        use Expression::Constant;
        let infinite = Constant(1.0).divide(Constant(0.0));
        let text = expression(&Expression::Input(0).add(infinite.clone()), 4);
        assert_eq!(text, "(x0 + (vec4<f32>(float_of(1065353216u)) / vec4<f32>(float_of(0u))))");
        assert_eq!(functions(&infinite, 1), [FLOAT_OF]);
        assert!(functions(&Expression::Input(0).add(Constant(1.0)), 1).is_empty());
    }

    /// Checks that naga's backends accept the literals and do not fold them.
    #[test]
    fn vulkan_and_opengl_take_all_floats() {
        use wgpu::naga::back::{glsl, spv};
        use wgpu::naga::{ShaderStage, front, proc::BoundsCheckPolicies, valid};

        let values = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(1), f32::MAX, f32::MIN];
        let lines = values.map(literal).iter().map(|text| format!("    b[0] = {text};\n")).collect::<String>();
        let source = format!(
            "@group(0) @binding(0) var<storage, read_write> b: array<f32>;\n{FLOAT_OF}@compute @workgroup_size(1)\n\
             fn main() {{\n{lines}}}\n"
        );
        let module = front::wgsl::parse_str(&source).unwrap();
        let mut validator = valid::Validator::new(valid::ValidationFlags::all(), valid::Capabilities::empty());
        let info = validator.validate(&module).unwrap();
        spv::write_vec(&module, &info, &spv::Options::default(), None).unwrap();
        let mut embedded = String::new();
        let options = glsl::Options { version: glsl::Version::new_gles(310), ..Default::default() };
        let stage = glsl::PipelineOptions {
            shader_stage: ShaderStage::Compute,
            entry_point: "main".to_owned(),
            multiview: None,
        };
        let policies = BoundsCheckPolicies::default();
        glsl::Writer::new(&mut embedded, &module, &info, &options, &stage, policies).unwrap().write().unwrap();
        assert!(embedded.contains("float_of(2139095040u)") && embedded.contains("float_of(2143289344u)"), "{embedded}");
    }

    #[test]
    fn a_clamp_reads_as_written() {
        let relu6 = Expression::Input(0).clamp(0.0, 6.0);
        assert_eq!(expression(&relu6, 1), "min(max(x0, f32(0.0f)), f32(6.0f))");
    }
}
