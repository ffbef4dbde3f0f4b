//! Shared by the quantized operators: checked quantization parameters, the ranges of element types and fused
//! activations.

use std::ops::Range;

use attache_base::{Activation, DataType, Quantization, Shape, small_integers};
use attache_graph::{Fact, OpError, TensorMut};

/// Quantization parameters of a tensor with one scale: `real = scale × (stored − zero_point)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QuantizationParameters {
    /// Real value of one quantization step; positive and finite.
    pub(crate) scale: f32,
    /// Quantized element of the real value 0, within the range of the tensor's type.
    pub(crate) zero_point: i32,
}

impl QuantizationParameters {
    /// Returns the quantization parameters of a tensor that must have one scale and one zero point. An error
    /// where it has none, several or invalid ones.
    pub(crate) fn new(data_type: DataType, quantization: Option<&Quantization>) -> Result<Self, OpError> {
        Self::of_input(data_type, quantization)?.divisible()
    }

    /// Does what [`Self::new`] does for a tensor by whose scale nothing is divided: that may be 0, so that all its elements
    /// stand for 0. Converters give such a scale to an initial state of zeros.
    pub(crate) fn of_input(data_type: DataType, quantization: Option<&Quantization>) -> Result<Self, OpError> {
        let Some(Quantization { scale, zero_point, .. }) = quantization else {
            return Err(OpError::invalid(format!("a tensor of type {data_type} without a scale")));
        };
        let ([scale], [zero_point]) = (scale.as_slice(), zero_point.as_slice()) else {
            return Err(OpError::unsupported("several scales in a tensor that must have one"));
        };
        Self::checked(data_type, *scale, *zero_point)
    }

    /// Returns a scale, which may be 0, and a zero point if elements of the type can have them.
    fn checked(data_type: DataType, scale: f32, zero_point: i64) -> Result<Self, OpError> {
        let (least, most) = range(data_type)?;
        if !scale.is_finite() || scale < 0.0 {
            return Err(OpError::invalid(format!("a scale of {scale}")));
        }
        match i32::try_from(zero_point).ok().filter(|point| (least..=most).contains(point)) {
            Some(zero_point) => Ok(Self { scale, zero_point }),
            None => Err(OpError::invalid(format!("a zero point of {zero_point}, which is no {data_type}"))),
        }
    }

    /// Returns the quantization parameters if values can be divided by their scale.
    fn divisible(self) -> Result<Self, OpError> {
        if self.scale > 0.0 { Ok(self) } else { Err(OpError::invalid("a scale of 0")) }
    }

    /// Returns scale and zero point as a pair, as CPU kernels take them.
    pub(crate) fn pair(self) -> (f32, i32) {
        (self.scale, self.zero_point)
    }

    /// Returns the quantized element nearest to a float, with ties away from zero, not clamped to the range
    /// of any type.
    pub(crate) fn stored(&self, real: f32) -> i32 {
        self.zero_point.saturating_add((real / self.scale).round() as i32)
    }
}

/// The quantization parameters of a tensor: one pair of scale and zero point, or one for each index of an
/// axis.
#[derive(Debug)]
pub(crate) struct Channels {
    affines: Vec<QuantizationParameters>,
    /// Number of consecutive elements that share a scale.
    run: usize,
}

impl Channels {
    /// Returns the quantization parameters of a tensor of this shape. An error where there are none, where
    /// their number is neither 1 nor the axis' extent, or where one is invalid.
    pub(crate) fn new(
        data_type: DataType,
        quantization: Option<&Quantization>,
        shape: &Shape,
    ) -> Result<Self, OpError> {
        let Some(Quantization { scale, zero_point, axis }) = quantization.filter(|one| one.scale.len() > 1) else {
            return Ok(Self {
                affines: vec![QuantizationParameters::new(data_type, quantization)?],
                run: shape.elements().max(1),
            });
        };
        let affine = |(scale, zero_point): (&f32, &i64)| {
            QuantizationParameters::checked(data_type, *scale, *zero_point)?.divisible()
        };
        if shape.get(*axis) != Some(&scale.len()) || zero_point.len() != scale.len() {
            let reason = format!("{} scales along axis {axis} of a tensor of shape {shape}", scale.len());
            return Err(OpError::invalid(reason));
        }
        let affines = scale.iter().zip(zero_point).map(affine).collect::<Result<_, _>>()?;
        Ok(Self { affines, run: shape[axis + 1..].iter().product::<usize>().max(1) })
    }

    /// Returns the quantization parameters of all elements; `None` where there are several.
    pub(crate) fn only(&self) -> Option<QuantizationParameters> {
        if let [affine] = self.affines[..] { Some(affine) } else { None }
    }

    /// Returns the quantization parameters of each index of the axis, or the only ones.
    pub(crate) fn each(&self) -> &[QuantizationParameters] {
        &self.affines
    }

    /// Returns the ranges of consecutive elements that share quantization parameters, in order, each with
    /// those parameters. `count` is the number of elements of the tensor.
    pub(crate) fn runs(&self, count: usize) -> impl Iterator<Item = (Range<usize>, QuantizationParameters)> {
        let starts = (0..count).step_by(self.run).zip(self.affines.iter().cycle());
        starts.map(move |(start, affine)| (start..(start + self.run).min(count), *affine))
    }
}

/// Whether this is a type of quantized elements: 8-bit integers, or signed 16-bit integers.
pub(crate) fn is_stored(data_type: DataType) -> bool {
    matches!(data_type, DataType::Int8 | DataType::UInt8 | DataType::Int16)
}

/// Returns the quantized element of 0: the zero point, or 0 where the tensor is not quantized. An error where
/// its quantization parameters are invalid.
pub(crate) fn zero(tensor: &TensorMut<'_>) -> Result<i32, OpError> {
    match tensor.quantization.filter(|_| is_stored(tensor.data_type)) {
        Some(quantization) => Ok(QuantizationParameters::new(tensor.data_type, Some(quantization))?.zero_point),
        None => Ok(0),
    }
}

/// Checks that 16-bit elements have the zero point 0; TensorFlow Lite implements no other. Accepts all other
/// types.
pub(crate) fn require_symmetric(data_type: DataType, affine: QuantizationParameters) -> Result<(), OpError> {
    if data_type != DataType::Int16 || affine.zero_point == 0 {
        return Ok(());
    }
    Err(OpError::unsupported(format!("numbers of type {data_type} with the zero point {}", affine.zero_point)))
}

/// Returns scale and zero point as TensorFlow Lite's kernels compare them: 0 and 0 for a tensor that has
/// none, or several.
fn compared(fact: &Fact) -> (f32, i64) {
    match &fact.quantization {
        Some(Quantization { scale, zero_point, .. }) if scale.len() == 1 && zero_point.len() == 1 => {
            (scale[0], zero_point[0])
        }
        _ => (0.0, 0),
    }
}

/// Checks that the inputs at `places` have the same scale and zero point as every output. For operators that
/// copy quantized elements unchanged; TensorFlow Lite's kernels reject other scales too. Missing inputs and
/// float inputs are not checked.
pub(crate) fn require_one_scale(
    inputs: &[Option<&Fact>],
    mut places: Range<usize>,
    outputs: &[&Fact],
) -> Result<(), OpError> {
    places.try_for_each(|place| match inputs.get(place) {
        Some(Some(input)) if !is_float(input.data_type) => same_scale(place, input, outputs),
        _ => Ok(()),
    })
}

/// Checks that an input has the same scale and zero point as every output. `place` is its index, for the
/// error.
fn same_scale(place: usize, input: &Fact, outputs: &[&Fact]) -> Result<(), OpError> {
    let read = compared(input);
    let Some((index, made)) = outputs.iter().map(|output| compared(output)).enumerate().find(|(_, made)| *made != read)
    else {
        return Ok(());
    };
    Err(OpError::unsupported(format!(
        "input {place} of type {} has the scale {} and the zero point {}, output {index} {} and {}: numbers of different \
        scales are not implemented",
        input.data_type, read.0, read.1, made.0, made.1
    )))
}

/// Like [`require_one_scale`], but checks nothing unless all outputs are of a quantized 8-bit or 16-bit type,
/// as some of TensorFlow Lite's kernels do.
pub(crate) fn require_one_stored_scale(
    inputs: &[Option<&Fact>],
    places: Range<usize>,
    outputs: &[&Fact],
) -> Result<(), OpError> {
    match outputs.iter().all(|output| is_stored(output.data_type)) {
        true => require_one_scale(inputs, places, outputs),
        false => Ok(()),
    }
}

fn is_float(data_type: DataType) -> bool {
    use DataType::{BFloat16, Float8E4M3Fn, Float8E5M2, Float16, Float32, Float64};
    matches!(data_type, BFloat16 | Float8E4M3Fn | Float8E5M2 | Float16 | Float32 | Float64)
}

/// Returns the exponent of a scale that is a power of two, or within a thousandth of one in the exponent;
/// `None` for other scales.
pub(crate) fn power_of_two(scale: f32) -> Option<i32> {
    let power = scale.log2();
    (power.is_finite() && (power - power.round()).abs() < 1e-3).then(|| power.round() as i32)
}

/// Reason why a device does not compute sums that need 64 bits.
pub(crate) const SUMS_OF_64_BITS: &str = "sums of 64 bits, which a device has no integers for";

/// Evaluates an expression with `$element` bound to the Rust type of the quantized type `$data_type`. Returns
/// an error from the enclosing function for other types.
macro_rules! with_stored {
    ($data_type:expr, $element:ident => $body:expr) => {{
        macro_rules! with {
            ($stored:ty) => {{
                type $element = $stored;
                $body
            }};
        }
        match $data_type {
            attache_base::DataType::Int8 => with!(i8),
            attache_base::DataType::UInt8 => with!(u8),
            attache_base::DataType::Int16 => with!(i16),
            other => return Err(OpError::unsupported(format!("stored numbers of type {other} are not implemented"))),
        }
    }};
}
pub(crate) use with_stored;

/// Returns the smallest and the largest value of an integer type of at most 32 bits. An error for other
/// types.
pub(crate) fn range(data_type: DataType) -> Result<(i32, i32), OpError> {
    Ok(match data_type {
        DataType::Int8 => (i32::from(i8::MIN), i32::from(i8::MAX)),
        DataType::UInt8 => (0, i32::from(u8::MAX)),
        DataType::Int16 => (i32::from(i16::MIN), i32::from(i16::MAX)),
        DataType::Int32 => (i32::MIN, i32::MAX),
        small => match small_integers::range(small) {
            Some((least, most)) => (least.into(), most.into()),
            None => return Err(OpError::unsupported(format!("quantized numbers of type {small}"))),
        },
    })
}

/// Returns the smallest and the largest quantized element that a fused activation lets through, for an output
/// with these quantization parameters. An error where the activation is not implemented for quantized
/// elements.
pub(crate) fn activation_range(
    activation: Activation,
    data_type: DataType,
    output: QuantizationParameters,
) -> Result<(i32, i32), OpError> {
    let (least, most) = range(data_type)?;
    Ok(match activation {
        Activation::None => (least, most),
        Activation::Relu => (least.max(output.stored(0.0)), most),
        Activation::Relu6 => (least.max(output.stored(0.0)), most.min(output.stored(6.0))),
        Activation::ReluN1To1 => (least.max(output.stored(-1.0)), most.min(output.stored(1.0))),
        Activation::Tanh | Activation::SignBit => {
            return Err(OpError::unsupported(format!("a fused {activation:?} of quantized numbers")));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantization(scale: &[f32], zero_point: &[i64]) -> Quantization {
        Quantization { scale: scale.to_vec(), zero_point: zero_point.to_vec(), axis: 0 }
    }

    #[test]
    fn one_scale_that_makes_sense() {
        let affine = |scale: &[f32], zero_point: &[i64]| {
            QuantizationParameters::new(DataType::Int8, Some(&quantization(scale, zero_point)))
        };
        assert_eq!(affine(&[0.5], &[-3]).unwrap(), QuantizationParameters { scale: 0.5, zero_point: -3 });
        for (scale, zero_point) in [(0.0, 0), (-1.0, 0), (f32::NAN, 0), (f32::INFINITY, 0), (1.0, 128), (1.0, i64::MIN)]
        {
            assert!(matches!(affine(&[scale], &[zero_point]), Err(OpError::Invalid(_))), "{scale} {zero_point}");
            let input = quantization(&[scale], &[zero_point]);
            let of_input = QuantizationParameters::of_input(DataType::Int8, Some(&input));
            assert_eq!(of_input.is_ok(), scale == 0.0, "{scale} {zero_point}");
        }
        assert!(affine(&[1.0, 1.0], &[0, 0]).is_err());
        assert!(QuantizationParameters::new(DataType::Int8, None).is_err());
    }

    #[test]
    fn channels_are_runs_of_elements() {
        let channels = |scale: &[f32], axis| {
            let quantization = Quantization { axis, ..quantization(scale, &vec![0; scale.len()]) };
            Channels::new(DataType::Int8, Some(&quantization), &[2, 2, 3].into())
        };
        let scales: Vec<_> =
            channels(&[0.5, 2.0], 1).unwrap().runs(12).map(|(range, affine)| (range.start, affine.scale)).collect();
        assert_eq!(scales, [(0, 0.5), (3, 2.0), (6, 0.5), (9, 2.0)]);
        assert_eq!(channels(&[0.5], 7).unwrap().runs(12).next().unwrap().0, 0..12);
        assert!(channels(&[0.5, 2.0], 2).is_err());
        assert!(channels(&[0.5, 2.0], 3).is_err());
        assert!(channels(&[0.5, 0.0], 1).is_err());
    }

    #[test]
    fn activations_clamp_stored_numbers() {
        let output = QuantizationParameters { scale: 0.1, zero_point: -100 };
        let range = |activation| activation_range(activation, DataType::Int8, output).unwrap();
        assert_eq!(range(Activation::None), (-128, 127));
        assert_eq!(range(Activation::Relu), (-100, 127));
        assert_eq!(range(Activation::Relu6), (-100, -40));
        assert_eq!(range(Activation::ReluN1To1), (-110, -90));
    }

    #[test]
    fn one_scale_is_the_inputs_and_the_outputs() {
        let fact = |data_type, scale: f32, zero_point| Fact {
            quantization: Some(quantization(&[scale], &[zero_point])),
            ..Fact::new(data_type, [2])
        };
        let check = |input: &Fact, output: &Fact| require_one_scale(&[None, Some(input)], 0..2, &[output]);
        let (bytes, plain) = (fact(DataType::Int8, 0.5, 3), Fact::new(DataType::Int8, [2]));
        assert!(check(&bytes, &bytes).is_ok() && check(&plain, &plain).is_ok());
        for other in [fact(DataType::Int8, 0.25, 3), fact(DataType::Int8, 0.5, 4), plain] {
            let error = check(&bytes, &other).unwrap_err().to_string();
            assert!(error.contains("input 1 of type INT8 has the scale 0.5 and the zero point 3"), "{error}");
        }
        assert!(check(&fact(DataType::Float32, 0.5, 0), &fact(DataType::Float32, 0.25, 0)).is_ok());
        let several = Fact { quantization: Some(quantization(&[0.5, 0.25], &[0, 0])), ..bytes.clone() };
        assert!(check(&several, &bytes).is_err() && check(&several, &several).is_ok());
    }
}
