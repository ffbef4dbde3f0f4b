//! Unary element-wise functions of f32 operands.

use crate::simd::{Multiversioned, Simd, run_portable};
use crate::{Engine, Isa, math};

/// A function of one operand `x`. The result for NaN is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `|x|`.
    Abs,
    /// `⌈x⌉`.
    Ceil,
    /// `x` clamped to the lower and the upper bound: RELU, RELU6, RELU_N1_TO_1, RELU_0_TO_1.
    Clamp(f32, f32),
    /// `cos x`.
    Cos,
    /// `x` if it is not negative, else `eˣ − 1`.
    Elu,
    /// `eˣ`.
    Exp,
    /// `⌊x⌋`.
    Floor,
    /// `x Φ(x)`, with Φ the cumulative distribution function of the normal distribution.
    Gelu,
    /// `x Φ(x)`, with Φ approximated by tanh.
    GeluApproximate,
    /// `x min(max(x + 3, 0), 6) / 6`.
    HardSwish,
    /// `x` if it is not negative, else `x` times the slope.
    LeakyRelu(f32),
    /// `ln x`.
    Log,
    /// `1 / (1 + e⁻ˣ)`.
    Logistic,
    /// `−x`.
    Negate,
    /// `x` rounded to the nearest integer, ties to even.
    Round,
    /// `1 / √x`.
    Rsqrt,
    /// The sign of `x`: −1, 0 or 1.
    Sign,
    /// `sin x`.
    Sin,
    /// `√x`.
    Sqrt,
    /// `x²`.
    Square,
    /// `x / (1 + e⁻ˣ)`. Not in the smallest programs.
    #[cfg(not(attache_small))]
    Swish,
    /// `tanh x`.
    Tanh,
}

/// Writes `function(x)` of every element `x` of `input` to `output`.
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn unary(engine: Engine, function: Unary, input: &[f32], output: &mut [f32]) {
    assert_eq!(input.len(), output.len(), "input and output have one shape");
    let chunk = chunk(&engine, function, output.len());
    engine.for_each_chunk(output, chunk, |task, output| {
        for (output, input) in output.chunks_mut(BLOCK).zip(input[task * chunk..].chunks(BLOCK)) {
            output.copy_from_slice(&input[..output.len()]);
            dispatch(engine.isa, function, output);
        }
    });
}

/// Replaces every element `x` by `function(x)`.
pub fn unary_in_place(engine: Engine, function: Unary, values: &mut [f32]) {
    let chunk = chunk(&engine, function, values.len());
    engine.for_each_chunk(values, chunk, |_, values| dispatch(engine.isa, function, values));
}

/// Returns the number of elements per task, based on the cost of `function`.
fn chunk(engine: &Engine, function: Unary, length: usize) -> usize {
    use Unary::*;
    let nanoseconds = match function {
        Abs | Ceil | Clamp(..) | Floor | HardSwish | LeakyRelu(_) | Negate | Round | Sign | Square => 0.15,
        Elu | Exp | Gelu | GeluApproximate | Log | Logistic | Rsqrt | Sqrt | Tanh => 0.6,
        #[cfg(not(attache_small))]
        Swish => 0.6,
        Cos | Sin => 5.0,
    };
    length.div_ceil(engine.tasks(length as f64 * nanoseconds, length)).max(1)
}

/// Elements that are copied before a function is applied to them in place: so few that they stay in the first-level
/// cache.
const BLOCK: usize = 1024;

fn dispatch(isa: Isa, function: Unary, values: &mut [f32]) {
    macro_rules! dispatch {
        ($($name:ident)*) => {
            match function {
                $(Unary::$name => isa.dispatch(Apply { values, function: $name }),)*
                Unary::Clamp(lower, upper) => isa.dispatch(Apply { values, function: Clamp(lower, upper) }),
                Unary::Cos => run_portable(Apply { values, function: Cos }),
                Unary::LeakyRelu(slope) => isa.dispatch(Apply { values, function: LeakyRelu(slope) }),
                Unary::Sin => run_portable(Apply { values, function: Sin }),
                #[cfg(not(attache_small))]
                Unary::Swish => isa.dispatch(Apply { values, function: Swish }),
            }
        };
    }
    dispatch!(Abs Ceil Elu Exp Floor Gelu GeluApproximate HardSwish Log Logistic Negate Round Rsqrt Sign Sqrt Square
        Tanh)
}

trait UnaryFunction: Copy {
    fn apply<S: Simd>(self, x: f32) -> f32;
}

struct Apply<'a, F> {
    values: &'a mut [f32],
    function: F,
}

impl<F: UnaryFunction> Multiversioned for Apply<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for value in self.values {
            *value = self.function.apply::<S>(*value);
        }
    }
}

macro_rules! functions {
    ($($name:ident $(($($parameter:ident),*))?, $x:ident => $body:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name $(($(functions!(@type $parameter)),*))?;
        impl UnaryFunction for $name {
            #[inline(always)]
            fn apply<S: Simd>(self, $x: f32) -> f32 {
                $(let Self($($parameter),*) = self;)?
                $body
            }
        }
    )*};
    (@type $parameter:ident) => { f32 };
}

functions! {
    Abs, x => x.abs();
    Ceil, x => x.ceil();
    Clamp(lower, upper), x => math::clamp(x, lower, upper);
    Cos, x => x.cos();
    Elu, x => if x < 0.0 { math::exp_minus_one::<S>(x) } else { x };
    Exp, x => math::exp::<S>(x);
    Floor, x => x.floor();
    Gelu, x => 0.5 * x * (1.0 + math::erf::<S>(x * std::f32::consts::FRAC_1_SQRT_2));
    GeluApproximate, x => 0.5 * x * (1.0 + math::tanh::<S>(0.797_884_6 * (x + 0.044_715 * x * x * x)));
    HardSwish, x => x * (math::clamp(x + 3.0, 0.0, 6.0) * (1.0 / 6.0));
    LeakyRelu(slope), x => if x < 0.0 { x * slope } else { x };
    Log, x => math::ln::<S>(x);
    Logistic, x => math::logistic::<S>(x);
    Negate, x => -x;
    Round, x => x.round_ties_even();
    Rsqrt, x => 1.0 / x.sqrt();
    Sign, x => if x > 0.0 { 1.0 } else if x < 0.0 { -1.0 } else { x };
    Sin, x => x.sin();
    Sqrt, x => x.sqrt();
    Square, x => x * x;
    Tanh, x => math::tanh::<S>(x);
}

#[cfg(not(attache_small))]
functions! {
    Swish, x => x * math::logistic::<S>(x);
}

#[cfg(test)]
mod tests {
    use attache_base::Serial;

    use super::*;

    /// A function, its f64 counterpart and the permitted error, which is relative with a floor of `least`.
    type Case = (Unary, fn(f64) -> f64, f64, f64);

    const CASES: [Case; 22] = [
        (Unary::Abs, f64::abs, 0.0, 0.0),
        (Unary::Ceil, f64::ceil, 0.0, 0.0),
        (Unary::Clamp(-1.0, 6.0), |x| x.clamp(-1.0, 6.0), 0.0, 0.0),
        (Unary::Cos, f64::cos, 1e-6, 1e-1),
        (Unary::Elu, |x| if x < 0.0 { x.exp_m1() } else { x }, 1e-6, 0.0),
        (Unary::Exp, f64::exp, 5e-7, 1e-44),
        (Unary::Floor, f64::floor, 0.0, 0.0),
        (Unary::Gelu, |x| x * 0.5 * (1.0 + reference_erf(x / 2f64.sqrt())), 1e-6, 1e0),
        (Unary::GeluApproximate, |x| 0.5 * x * (1.0 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh()), 1e-6, 1e0),
        (Unary::HardSwish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0, 1e-6, 1e0),
        (Unary::LeakyRelu(0.25), |x| if x < 0.0 { x * 0.25 } else { x }, 0.0, 0.0),
        (Unary::Log, f64::ln, 5e-7, 1e-1),
        (Unary::Logistic, |x| 1.0 / (1.0 + (-x).exp()), 1e-6, 1e-30),
        (Unary::Negate, |x| -x, 0.0, 0.0),
        (Unary::Round, f64::round_ties_even, 0.0, 0.0),
        (Unary::Rsqrt, |x| 1.0 / x.sqrt(), 5e-7, 0.0),
        (Unary::Sign, |x| if x == 0.0 { 0.0 } else { x.signum() }, 0.0, 0.0),
        (Unary::Sin, f64::sin, 1e-6, 1e-1),
        (Unary::Sqrt, f64::sqrt, 5e-7, 0.0),
        (Unary::Square, |x| x * x, 1e-6, 0.0),
        (Unary::Swish, |x| x / (1.0 + (-x).exp()), 1e-6, 1e-29),
        (Unary::Tanh, f64::tanh, 1e-6, 0.0),
    ];

    /// Returns the error function of `x` by its series, and ±1 where it has converged to that.
    fn reference_erf(x: f64) -> f64 {
        if x.abs() > 5.0 {
            return x.signum();
        }
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    fn check(isa: Isa, (function, reference, tolerance, least): Case) {
        let mut inputs: Vec<f32> = (-40_000..40_000).map(|i| i as f32 * 0.0025).collect();
        inputs.extend((-1000..1000).map(|i| i as f32 * 1e-5));
        inputs.extend([0.5, 1.5, 2.5, -0.5, 1e-30, -1e-30, 3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        let mut output = vec![0.0; inputs.len()];
        let engine = Engine { isa, parallel: &Serial };
        unary(engine, function, &inputs, &mut output);
        let mut in_place = inputs.clone();
        unary_in_place(engine, function, &mut in_place);
        for ((x, y), z) in inputs.iter().zip(&output).zip(&in_place) {
            assert!(y.to_bits() == z.to_bits() || y.is_nan() && z.is_nan(), "in place or not: {function:?}({x})");
            let expected = reference(f64::from(*x));
            if x.is_finite()
                || !matches!(function, Unary::Gelu | Unary::GeluApproximate | Unary::HardSwish | Unary::Swish)
            {
                let allowed = tolerance * expected.abs().max(least);
                let equal = f64::from(*y) == f64::from(expected as f32) || y.is_nan() && expected.is_nan();
                let error = (f64::from(*y) - expected).abs();
                assert!(
                    equal || error <= allowed.max(1.5e-45),
                    "{}: {function:?}({x}) = {y}, not {expected}",
                    isa.name()
                );
            }
        }
    }

    #[test]
    fn every_isa_matches_float64() {
        for isa in Isa::available() {
            for case in CASES {
                check(isa, case);
            }
        }
    }
}
