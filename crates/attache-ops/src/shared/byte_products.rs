//! Products of 8-bit weights and vectors of floats that are quantized to bytes at run time. Shared by operators that run over
//! time.

use attache_base::{DataType, Serial};
use attache_graph::{OpError, TensorRef};
use attache_kernels::Engine;
use attache_kernels::quantized::{add_row_products, quantize};

use crate::shared::quantized::QuantizationParameters;

/// A matrix of 8-bit weights in row-major order, with one scale and the zero point 0.
pub(crate) struct Matrix<'a> {
    weights: &'a [i8],
    scale: f32,
}

impl<'a> Matrix<'a> {
    pub(crate) fn new(weights: &TensorRef<'a>) -> Result<Self, OpError> {
        Ok(Self { weights: bytemuck::cast_slice(weights.bytes), scale: scale_of(weights)? })
    }

    /// Adds the product of the matrix and a vector, of as many elements as a row has, to `sums`, which has one element for each
    /// row.
    pub(crate) fn add_to(&self, sums: &mut [f32], vector: &Bytes) {
        let engine = Engine::new(&Serial);
        add_row_products(engine, self.weights, &vector.elements, vector.scale * self.scale, sums);
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
    /// The bytes, less their zero point.
    elements: Vec<i16>,
    scale: f32,
}

impl Bytes {
    pub(crate) fn new(values: &[f32], is_asymmetric: bool) -> Self {
        let (engine, mut bytes) = (Engine::new(&Serial), vec![0; values.len()]);
        let (scale, zero_point) = quantize(engine, values, !is_asymmetric, &mut bytes);
        let elements = bytes.iter().map(|byte| i16::from(*byte as i8) - zero_point as i16).collect();
        Self { elements, scale }
    }
}
