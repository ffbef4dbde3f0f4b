//! GELU of binary16. TensorFlow Lite rounds the result of each step, also the constants, so that the steps are repeated
//! here.

use half::f16;

use super::quantized::complementary_error_function;

fn round(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}

/// Returns `x Φ(x)`, computed from the complementary error function.
pub(super) fn gelu(x: f32) -> f32 {
    let z = round(x * round(-std::f32::consts::FRAC_1_SQRT_2));
    round(0.5 * x) * round(complementary_error_function(z.into()) as f32)
}

/// Returns `x Φ(x)`, with the approximation of Φ by the hyperbolic tangent.
pub(super) fn gelu_approximate(x: f32) -> f32 {
    let cube = round(round(x * x) * x);
    let inner = round(round(0.797_884_6) * round(x + round(round(0.044_715) * cube)));
    round(0.5 * x) * round(1.0 + round(f64::from(inner).tanh() as f32))
}
