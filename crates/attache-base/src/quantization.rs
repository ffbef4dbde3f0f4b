//! Affine quantization: `real = scale × (stored − zero_point)`.

/// Scale and zero point of a tensor, one for all of it or one per index along an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantization {
    /// One scale, or one per index along `axis`.
    pub scale: Vec<f32>,
    /// As many zero points as scales.
    pub zero_point: Vec<i64>,
    /// The axis along which several scales are counted.
    pub axis: usize,
}
