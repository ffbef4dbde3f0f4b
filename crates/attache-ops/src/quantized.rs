//! What quantized tensors share: their scale and zero point, checked, and the range that a fused activation leaves.

use attache_base::{Activation, DataType, Quantization};
use attache_graph::OpError;

/// How the stored numbers of a tensor with one scale stand for real ones: `real = scale × (stored − zero_point)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Affine {
    /// Positive and finite.
    pub(crate) scale: f32,
    /// Within the range of the tensor's type.
    pub(crate) zero_point: i32,
}

impl Affine {
    /// The scale and zero point of a tensor that has one of each; an error where it has none, several, or nonsense.
    pub(crate) fn new(data_type: DataType, quantization: Option<&Quantization>) -> Result<Self, OpError> {
        let Some(Quantization { scale, zero_point, .. }) = quantization else {
            return Err(OpError::invalid(format!("a tensor of type {data_type} without a scale")));
        };
        let ([scale], [zero_point]) = (scale.as_slice(), zero_point.as_slice()) else {
            return Err(OpError::unsupported("several scales in a tensor that must have one"));
        };
        let (least, most) = range(data_type)?;
        let zero_point = i32::try_from(*zero_point).ok().filter(|point| (least..=most).contains(point));
        match zero_point {
            Some(zero_point) if scale.is_finite() && *scale > 0.0 => Ok(Self { scale: *scale, zero_point }),
            _ => Err(OpError::invalid(format!("a scale of {scale} with a zero point outside {data_type}, or none"))),
        }
    }

    /// The stored number of a real one, not clamped to any type: ties go away from zero.
    pub(crate) fn stored(&self, real: f32) -> i32 {
        self.zero_point.saturating_add((real / self.scale).round() as i32)
    }
}

/// The least and the largest number of an integer type of at most 32 bits.
pub(crate) fn range(data_type: DataType) -> Result<(i32, i32), OpError> {
    Ok(match data_type {
        DataType::Int4 => (-8, 7),
        DataType::Int8 => (i32::from(i8::MIN), i32::from(i8::MAX)),
        DataType::UInt8 => (0, i32::from(u8::MAX)),
        DataType::Int16 => (i32::from(i16::MIN), i32::from(i16::MAX)),
        DataType::Int32 => (i32::MIN, i32::MAX),
        _ => return Err(OpError::unsupported(format!("quantized numbers of type {data_type}"))),
    })
}

/// The least and the largest stored number that a fused activation lets through.
pub(crate) fn activation_range(
    activation: Activation,
    data_type: DataType,
    output: Affine,
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
        let affine =
            |scale: &[f32], zero_point: &[i64]| Affine::new(DataType::Int8, Some(&quantization(scale, zero_point)));
        assert_eq!(affine(&[0.5], &[-3]).unwrap(), Affine { scale: 0.5, zero_point: -3 });
        for (scale, zero_point) in [(0.0, 0), (-1.0, 0), (f32::NAN, 0), (f32::INFINITY, 0), (1.0, 128), (1.0, i64::MIN)]
        {
            assert!(matches!(affine(&[scale], &[zero_point]), Err(OpError::Invalid(_))), "{scale} {zero_point}");
        }
        assert!(affine(&[1.0, 1.0], &[0, 0]).is_err());
        assert!(Affine::new(DataType::Int8, None).is_err());
    }

    #[test]
    fn activations_clamp_stored_numbers() {
        let output = Affine { scale: 0.1, zero_point: -100 };
        let range = |activation| activation_range(activation, DataType::Int8, output).unwrap();
        assert_eq!(range(Activation::None), (-128, 127));
        assert_eq!(range(Activation::Relu), (-100, 127));
        assert_eq!(range(Activation::Relu6), (-100, -40));
        assert_eq!(range(Activation::ReluN1To1), (-110, -90));
    }
}
