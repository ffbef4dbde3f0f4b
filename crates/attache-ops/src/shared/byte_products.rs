//! Products of 8-bit weights and vectors of floats that are quantized to bytes at run time. Shared by operators that run over
//! time.

use attache_base::{DataType, Serial};
use attache_graph::{OpError, TensorRef};
use attache_kernels::Engine;
use attache_kernels::quantized::{quantize_asymmetrically, quantize_symmetrically};

use crate::shared::quantized::QuantizationParameters;

/// A matrix of 8-bit weights in row-major order, with one scale and the zero point 0.
pub(crate) struct Matrix<'a> {
    weights: &'a [i8],
    /// Number of elements of a row.
    depth: usize,
    scale: f32,
}

impl<'a> Matrix<'a> {
    pub(crate) fn new(weights: &TensorRef<'a>, depth: usize) -> Result<Self, OpError> {
        Ok(Self { weights: bytemuck::cast_slice(weights.bytes), depth, scale: scale_of(weights)? })
    }

    /// Adds the product of the matrix and a vector to `sums`, which has one element for each row.
    pub(crate) fn add_to(&self, sums: &mut [f32], vector: &Bytes) {
        let scale = vector.scale * self.scale;
        for (row, sum) in sums.iter_mut().enumerate() {
            let row = &self.weights[row * self.depth..][..self.depth];
            let products = row.iter().zip(&vector.bytes);
            let products = products.map(|(a, b)| i32::from(*a).wrapping_mul(i32::from(*b as i8) - vector.zero_point));
            *sum += products.fold(0, i32::wrapping_add) as f32 * scale;
        }
    }
}

/// Returns the scale of weights; fails unless their zero point is 0. That of weights that are declared as UINT8 does not
/// matter.
fn scale_of(weights: &TensorRef<'_>) -> Result<f32, OpError> {
    match QuantizationParameters::new(weights.data_type, weights.quantization)? {
        QuantizationParameters { scale, zero_point: 0 } => Ok(scale),
        QuantizationParameters { scale, .. } if weights.data_type == DataType::UInt8 => Ok(scale),
        QuantizationParameters { zero_point, .. } => {
            Err(OpError::unsupported(format!("weights with the zero point {zero_point}")))
        }
    }
}

/// Returns 8-bit weights as floats.
pub(crate) fn dequantized(weights: &TensorRef<'_>) -> Result<Vec<f32>, OpError> {
    let scale = scale_of(weights)?;
    Ok(weights.bytes.iter().map(|weight| scale * f32::from(*weight as i8)).collect())
}

/// A vector of floats, quantized to signed bytes with one scale and one zero point.
pub(crate) struct Bytes {
    bytes: Vec<u8>,
    scale: f32,
    zero_point: i32,
}

impl Bytes {
    pub(crate) fn new(values: &[f32], is_asymmetric: bool) -> Self {
        let (engine, mut bytes) = (Engine::new(&Serial), vec![0; values.len()]);
        let (scale, zero_point) = match is_asymmetric {
            true => quantize_asymmetrically(engine, values, &mut bytes),
            false => (quantize_symmetrically(engine, values, &mut bytes), 0),
        };
        Self { bytes, scale, zero_point }
    }
}
