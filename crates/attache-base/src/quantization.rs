//! Affine quantization parameters: `real = scale × (quantized − zero_point)`.

use crate::Constant;

/// Quantization parameters of a tensor: one scale and zero point for the whole tensor, or one pair per index
/// along an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// Scales: one for the whole tensor, or one per index along `axis`.
    pub scale: Vec<f32>,
    /// Zero points, as many as scales.
    pub zero_point: Vec<i64>,
    /// The axis along which the parameters differ; has no meaning if there is only one scale.
    pub axis: usize,
}

impl Quantization {
    /// Dequantizes a constant: returns a `FLOAT32` constant of the same shape with the real values of its
    /// elements.
    ///
    /// `None` if [`Constant::integers`] cannot read the elements, if there is no scale, if the numbers of
    /// scales and zero points differ, or if there are several scales but not one per index along the axis.
    #[must_use]
    pub fn dequantized(&self, constant: &Constant) -> Option<Constant> {
        let mut reals = constant.integers_as_floats()?;
        let several = self.scale.len() > 1;
        let inner: usize =
            if several { constant.shape.get(self.axis.checked_add(1)?..)?.iter().product() } else { reals.len() };
        let fits = !several || constant.shape.get(self.axis) == Some(&self.scale.len());
        if self.scale.is_empty() || self.zero_point.len() != self.scale.len() || !fits {
            return None;
        }
        let pairs = self.scale.iter().zip(&self.zero_point).cycle();
        for (run, (scale, point)) in reals.chunks_mut(inner.max(1)).zip(pairs) {
            let point = *point as f32;
            run.iter_mut().for_each(|real| *real = scale * (*real - point));
        }
        Some(Constant::from_vec(constant.shape.clone(), reals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_along_the_axis_has_its_scale() {
        let constant = Constant::from_values([2, 3], &[1i8, 2, 3, -1, -2, -128]);
        let reals = |scale: &[f32], zero_point: &[i64], axis| {
            let quantization = Quantization { scale: scale.to_vec(), zero_point: zero_point.to_vec(), axis };
            quantization.dequantized(&constant).map(|reals| reals.values::<f32>().unwrap().to_vec())
        };
        assert_eq!(reals(&[0.5], &[1], 0).unwrap(), [0.0, 0.5, 1.0, -1.0, -1.5, -64.5]);
        assert_eq!(reals(&[1.0, 0.5], &[0, 2], 0).unwrap(), [1.0, 2.0, 3.0, -1.5, -2.0, -65.0]);
        assert_eq!(reals(&[1.0, 2.0, 4.0], &[0; 3], 1).unwrap(), [1.0, 4.0, 12.0, -1.0, -4.0, -512.0]);
        assert_eq!(reals(&[1.0, 2.0], &[0; 2], 1), None);
        assert_eq!(reals(&[1.0, 2.0], &[0; 2], 2), None);
        assert_eq!(reals(&[1.0, 2.0], &[0; 2], usize::MAX), None);
        assert_eq!(reals(&[1.0, 2.0], &[0], 0), None);
        assert_eq!(reals(&[1.0], &[], 0), None);
        assert_eq!(reals(&[], &[], 0), None);
    }
}
