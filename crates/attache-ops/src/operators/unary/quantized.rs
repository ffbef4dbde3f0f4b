//! Elementwise functions of one quantized tensor: the function is evaluated once for all 8-bit or 16-bit
//! stored integers, and elements are looked up in the resulting table.

use attache_base::{DataType, Quantization};
use attache_graph::{Eval, Fact, Lowering, OpError, TensorMut, TensorRef, Unsupported};
use attache_kernels::Engine;
use attache_kernels::quantized::functions::{HardSwish, Sigmoid, inverse_square_root_of_stored};
use attache_kernels::quantized::lookup::{Interpolation, Table, of_reals};
use attache_kernels::quantized::rescale::requantized;
use attache_kernels::quantized::{Multiplier, Rounding, Stored};

use crate::shared::exact::look_up;
use crate::shared::quantized::{QuantizationParameters, range, require_symmetric};
use crate::shared::support::refuse;

/// The function that a unary operator computes on quantized elements. `x` is the real value of an element.
#[derive(Clone, Copy, Debug)]
pub(super) enum QuantizedFunction {
    /// The given function of floats: elements are dequantized before it, and its results are quantized.
    Reals(fn(f32) -> f32),
    /// `|x|`, rescaled to the output.
    Absolute,
    /// `x`, rescaled to the output and clamped to these float bounds.
    Clamp(f32, f32),
    /// `x × min(max(x + 3, 0), 6) / 6`, in 16-bit fixed-point arithmetic.
    HardSwish,
    /// `1 / √x`: in integer arithmetic for 8-bit elements, as a function of floats for 16-bit elements.
    InverseSquareRoot,
    /// `x`, or `x × slope` where `x` is negative, rescaled to the output.
    LeakyRelu(f32),
    /// `ln x`, or the output's least value where `x` is not positive.
    Logarithm,
    /// `−x` of the stored integers, whatever their scales; the least integer of the type is unchanged.
    Negative,
    /// The hyperbolic tangent where `is_tanh` is set, else the logistic function: as a function of floats for
    /// 8-bit elements, in TensorFlow Lite's fixed-point arithmetic for 16-bit elements.
    Sigmoid { is_tanh: bool },
    /// `√x` as a function of floats, rounded towards zero.
    SquareRoot,
}

/// A function, and the quantized types for which TensorFlow Lite implements it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantized {
    pub(super) form: QuantizedFunction,
    pub(super) types: &'static [DataType],
}

pub(super) const INT8: &[DataType] = &[DataType::Int8];
pub(super) const BYTES: &[DataType] = &[DataType::Int8, DataType::UInt8];
pub(super) const INT8_AND_INT16: &[DataType] = &[DataType::Int8, DataType::Int16];
pub(super) const BYTES_AND_INT16: &[DataType] = &[DataType::Int8, DataType::UInt8, DataType::Int16];

/// A function of a stored integer, whose result is not saturated yet; returns `None` where it is undefined.
type UnaryOperator = Box<dyn Fn(i32) -> Option<i32> + Send + Sync>;

/// Returns a closure that computes a function such as `e^x` in float64, so that the results are the same on
/// all platforms.
fn in_double(function: fn(f64) -> f64) -> impl Fn(f32) -> f32 {
    move |x| function(x.into()) as f32
}

/// Returns `eˣ`.
pub(super) fn exponential(x: f32) -> f32 {
    in_double(f64::exp)(x)
}

/// Returns `x` where it isn't negative, else `eˣ − 1`.
pub(super) fn elu(x: f32) -> f32 {
    if x < 0.0 { in_double(f64::exp_m1)(x) } else { x }
}

/// Returns `x Φ(x)`, with the approximation of Φ by the hyperbolic tangent.
pub(super) fn gelu_approximate(x: f32) -> f32 {
    let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + in_double(f64::tanh)(inner))
}

/// Returns `x Φ(x)`, computed from the complementary error function, which keeps its precision where Φ is
/// small.
pub(super) fn gelu(x: f32) -> f32 {
    let z = x * -std::f32::consts::FRAC_1_SQRT_2;
    0.5 * x * complementary_error_function(z.into()) as f32
}

/// Returns `erfc x = 1 − erf x`: from the series of erf near 0, from a continued fraction elsewhere.
pub(super) fn complementary_error_function(x: f64) -> f64 {
    use std::f64::consts::PI;
    if x.abs() < 2.5 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 1.0 - 2.0 / PI.sqrt() * sum;
    }
    let magnitude = x.abs();
    let fraction = (1..120).rev().fold(magnitude, |rest, n| magnitude + f64::from(n) * 0.5 / rest);
    let tail = (-magnitude * magnitude).exp() / (fraction * PI.sqrt());
    if x > 0.0 { tail } else { 2.0 - tail }
}

fn logistic(x: f32) -> f32 {
    1.0 / (1.0 + in_double(f64::exp)(-x))
}

impl QuantizedFunction {
    /// Whether it is a function of the stored integers, whatever reals they stand for.
    pub(super) fn ignores_scales(self) -> bool {
        matches!(self, QuantizedFunction::Negative)
    }

    /// Returns the function as a closure over stored integers, for an input and an output of type `data_type`
    /// with these scales and zero points.
    fn function(
        self,
        data_type: DataType,
        input: QuantizationParameters,
        output: QuantizationParameters,
    ) -> Result<UnaryOperator, OpError> {
        let factor = input.scale / output.scale;
        let rescale =
            move |x: i32, real: f64| requantized(x, (input.zero_point, Multiplier::new(real), output.zero_point));
        let is_wide = data_type == DataType::Int16;
        Ok(match self {
            QuantizedFunction::Reals(function) => table(is_wide, input, output, function),
            QuantizedFunction::Absolute => Box::new(move |x| {
                let magnitude = (x - input.zero_point).abs();
                let same = input.scale == output.scale;
                let value =
                    if same { magnitude } else { Multiplier::new(factor.into()).apply(magnitude, Rounding::Twice) };
                Some(value.wrapping_add(output.zero_point))
            }),
            QuantizedFunction::Clamp(low, high) => {
                let (least, most) = range(data_type)?;
                let low = least.max(output.stored(low));
                let high = if high == f32::INFINITY { most } else { most.min(output.stored(high)) };
                Box::new(move |x| Some(rescale(x, factor.into()).max(low).min(high)))
            }
            QuantizedFunction::HardSwish => {
                let swish = HardSwish::new(input.pair(), output.pair());
                let swish = swish.ok_or_else(|| OpError::unsupported("the output's scale is too fine"))?;
                Box::new(move |x| Some(swish.apply(x)))
            }
            QuantizedFunction::InverseSquareRoot if is_wide => {
                let largest = f32::from(i16::MAX) * output.scale;
                table(is_wide, input, output, move |x| if x <= 0.0 { largest } else { 1.0 / x.sqrt() })
            }
            QuantizedFunction::InverseSquareRoot => {
                let factor = Multiplier::new(1.0 / f64::from(input.scale.sqrt() * output.scale));
                Box::new(move |x| {
                    let root = inverse_square_root_of_stored(x, input.zero_point, factor)?;
                    Some(root.saturating_add(if root == i32::MAX { 0 } else { output.zero_point }))
                })
            }
            QuantizedFunction::LeakyRelu(slope) => {
                let negative = f64::from(input.scale * slope / output.scale);
                Box::new(move |x| Some(rescale(x, if x >= input.zero_point { factor.into() } else { negative })))
            }
            QuantizedFunction::Logarithm => {
                let least = (range(data_type)?.0 - output.zero_point) as f32 * output.scale;
                table(is_wide, input, output, move |x| if x <= 0.0 { least } else { in_double(f64::ln)(x) })
            }
            QuantizedFunction::Negative => {
                let (least, _) = range(data_type)?;
                Box::new(move |x| Some(if x == least { x } else { -x }))
            }
            QuantizedFunction::Sigmoid { is_tanh } if is_wide => {
                if output.scale != 1.0 / 32768.0 {
                    return Err(OpError::unsupported("an output of 16 bits whose scale is not 1/32768"));
                }
                let sigmoid = Sigmoid::new(input.scale, is_tanh);
                Box::new(move |x| Some(sigmoid.apply(x)))
            }
            QuantizedFunction::SquareRoot => Box::new(move |x| {
                let root = (x.wrapping_sub(input.zero_point) as f32 * input.scale).sqrt();
                // The root of a negative number is no number, and its quotient neither.
                (!root.is_nan()).then(|| ((root / output.scale) as i32).saturating_add(output.zero_point))
            }),
            QuantizedFunction::Sigmoid { is_tanh: true } => table(is_wide, input, output, in_double(f64::tanh)),
            QuantizedFunction::Sigmoid { is_tanh: false } => table(is_wide, input, output, logistic),
        })
    }
}

/// Returns a function of floats as a closure over stored integers: evaluated at each one for 8 bits, linearly
/// interpolated between sampled points for 16 bits.
fn table(
    is_wide: bool,
    input: QuantizationParameters,
    output: QuantizationParameters,
    function: impl Fn(f32) -> f32 + Send + Sync + 'static,
) -> UnaryOperator {
    if is_wide {
        let lines = Interpolation::of_singles(input.pair(), output.pair(), function);
        return Box::new(move |x| Some(lines.at(x as i16).into()));
    }
    let function = of_reals(input.pair(), output.pair(), function);
    Box::new(move |x| Some(function(x)))
}

/// A function, prepared for the elements of a tensor.
enum Prepared<T> {
    /// To be computed for each element. Not in the smallest libraries, where tables are smaller than this.
    #[cfg(not(attache_small))]
    Function(UnaryOperator),
    /// Its table, and where it may be undefined, for each stored integer from the least on whether it is.
    Table(Table<T>, Vec<bool>),
}

/// From so many elements on, 16-bit elements are looked up in tables, which take 128 kB each.
const MANY: usize = 4096;

impl Quantized {
    /// Returns a tensor's scale and zero point, or 1 and 0 where the function does not depend on them.
    fn affine(
        &self,
        data_type: DataType,
        quantization: Option<&Quantization>,
    ) -> Result<QuantizationParameters, OpError> {
        match self.form {
            form if form.ignores_scales() => Ok(QuantizationParameters { scale: 1.0, zero_point: 0 }),
            _ => QuantizationParameters::new(data_type, quantization),
        }
    }

    /// Checks that the input's scale and zero point are valid.
    pub(super) fn check(&self, input: &Fact) -> Result<(), OpError> {
        require_symmetric(input.data_type, self.affine(input.data_type, input.quantization.as_ref())?)
    }

    /// Computes the output on the CPU; input and output have the same quantized type.
    pub(super) fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        match eval.input(0)?.data_type {
            DataType::Int8 => self.look_up::<i8>(eval),
            DataType::UInt8 => self.look_up::<u8>(eval),
            _ => self.look_up::<i16>(eval),
        }
    }

    /// Emits the function as a lookup table. Unlike the CPU, a device cannot report that a square root is
    /// undefined: there the result is the largest element, as for 0.
    pub(super) fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let (input, output) = (lowering.input_fact(0)?, lowering.output_fact(0)?);
        let affine = |fact: &Fact| self.affine(fact.data_type, fact.quantization.as_ref()).map_err(refuse);
        let (from, to, types) = (affine(input)?, affine(output)?, [input.data_type, output.data_type]);
        require_symmetric(output.data_type, to).map_err(refuse)?;
        let function = self.form.function(input.data_type, from, to).map_err(refuse)?;
        let input = lowering.input(0)?;
        let output = look_up(lowering, input, types, |x| function(x).unwrap_or(i32::MAX))?;
        lowering.output(0, output)
    }

    fn look_up<T: Stored>(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, engine) = (eval.input(0)?, Engine::new(eval.parallel));
        let parameters = || vec![usize::from(input.shape.elements() >= MANY)];
        let made = match eval.cache.get_for::<Prepared<T>>(parameters) {
            // What is kept was checked when it was made.
            Some(_) => None,
            None => Some(self.prepare::<T>(&input, &eval.outputs[0])?),
        };
        let prepared = eval.cache.get_or_make_for(parameters, || made.expect("made unless one is kept"));
        let (values, output) = (input.values::<T>()?, eval.outputs[0].values::<T>()?);
        let is_undefined = || OpError::invalid("a negative number has no square root");
        match prepared {
            Prepared::Table(table, missing) => {
                if !missing.is_empty() && values.iter().any(|x| missing[((*x).into() - T::LEAST) as usize]) {
                    return Err(is_undefined());
                }
                table.apply(engine, values, output);
            }
            #[cfg(not(attache_small))]
            Prepared::Function(function) => {
                for (x, output) in values.iter().zip(output) {
                    *output = T::saturate(function((*x).into()).ok_or_else(is_undefined)?);
                }
            }
        }
        Ok(())
    }

    fn prepare<T: Stored>(&self, input: &TensorRef<'_>, output: &TensorMut<'_>) -> Result<Prepared<T>, OpError> {
        let function = self.function_of(input, output)?;
        #[cfg(not(attache_small))]
        if input.data_type == DataType::Int16 && input.shape.elements() < MANY {
            return Ok(Prepared::Function(function));
        }
        let has_root = matches!(self.form, QuantizedFunction::InverseSquareRoot | QuantizedFunction::SquareRoot);
        let missing = if has_root { (T::LEAST..=T::MOST).map(|x| function(x).is_none()).collect() } else { Vec::new() };
        Ok(Prepared::Table(Table::new::<T>(|x| function(x).unwrap_or_default()), missing))
    }

    /// Returns the function of these tensors' elements. Not generic, so that it is compiled once.
    fn function_of(&self, input: &TensorRef<'_>, output: &TensorMut<'_>) -> Result<UnaryOperator, OpError> {
        let from = self.affine(input.data_type, input.quantization)?;
        let to = self.affine(output.data_type, output.quantization)?;
        require_symmetric(output.data_type, to)?;
        self.form.function(input.data_type, from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (QuantizedFunction, fn(f64) -> f64);

    #[test]
    fn forms_approximate_functions_of_reals() {
        let (input, output) = (
            QuantizationParameters { scale: 0.05, zero_point: 2 },
            QuantizationParameters { scale: 0.04, zero_point: -20 },
        );
        let forms: [Case; 6] = [
            (QuantizedFunction::Absolute, f64::abs),
            (QuantizedFunction::Clamp(0.0, f32::INFINITY), |x| x.max(0.0)),
            (QuantizedFunction::Clamp(-1.0, 1.0), |x| x.clamp(-1.0, 1.0)),
            (QuantizedFunction::LeakyRelu(0.25), |x| if x < 0.0 { x * 0.25 } else { x }),
            (QuantizedFunction::HardSwish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
            (QuantizedFunction::Reals(elu), |x| if x < 0.0 { x.exp_m1() } else { x }),
        ];
        for (form, real) in forms {
            let function = form.function(DataType::Int8, input, output).unwrap();
            for x in -128..128 {
                let expected = (real(f64::from(x - 2) * 0.05) / 0.04 - 20.0).min(127.0);
                let made = f64::from(function(x).unwrap()).min(127.0);
                assert!((made - expected).abs() < 1.0, "{form:?}({x}) = {made}, not {expected}");
            }
        }
    }

    #[test]
    fn gelu_keeps_its_digits() {
        // Φ(−4) = 3.167124183311986e-5.
        assert!((gelu(-4.0) / (-4.0 * 3.167_124_2e-5) - 1.0).abs() < 1e-6);
        assert!((complementary_error_function(2.4) - 6.885_138_966_450_786e-4).abs() < 1e-15);
        assert!((complementary_error_function(-3.0) - 1.999_977_909_503_001_4).abs() < 1e-15);
    }

    #[test]
    fn roots_of_negative_numbers_are_missing() {
        let affine = QuantizationParameters { scale: 0.05, zero_point: 0 };
        let function = QuantizedFunction::InverseSquareRoot.function(DataType::Int8, affine, affine).unwrap();
        assert_eq!((function(-1), function(0), function(20)), (None, Some(i32::MAX), Some(20)));
    }
}
