//! Matrix products of float activations and 8-bit weights: at each step, inputs, outputs and the projection's
//! input are quantized to bytes, with one scale for each sequence. Source: TensorFlow Lite's
//! `LstmStepHybrid`.

use attache_base::Serial;
use attache_graph::{Eval, OpError, TensorRef};
use attache_kernels::Engine;
use attache_kernels::quantized::{quantize_asymmetrically, quantize_symmetrically};

use super::{
    BIASES, Extents, GATES, INPUT_WEIGHTS, NORMS, PROJECTION, PROJECTION_BIAS, Products, RECURRENT_WEIGHTS, optional,
};
use crate::shared::quantized::QuantizationParameters;

/// A matrix of 8-bit weights in row-major order, with one scale and the zero point 0.
struct Matrix<'a> {
    weights: &'a [i8],
    /// Number of elements of a row.
    depth: usize,
    scale: f32,
}

impl<'a> Matrix<'a> {
    fn new(weights: &TensorRef<'a>, depth: usize) -> Result<Self, OpError> {
        Ok(Self { weights: weights.values()?, depth, scale: scale_of(weights)? })
    }

    /// Adds the product of the matrix and a vector to `sums`, which has one element for each row.
    fn add_to(&self, sums: &mut [f32], vector: &Bytes) {
        let scale = vector.scale * self.scale;
        for (row, sum) in sums.iter_mut().enumerate() {
            let row = &self.weights[row * self.depth..][..self.depth];
            let products = row.iter().zip(&vector.bytes);
            let products = products.map(|(a, b)| i32::from(*a).wrapping_mul(i32::from(*b as i8) - vector.zero_point));
            *sum += products.fold(0, i32::wrapping_add) as f32 * scale;
        }
    }
}

/// Returns the scale of weights; fails unless their zero point is 0.
fn scale_of(weights: &TensorRef<'_>) -> Result<f32, OpError> {
    match QuantizationParameters::new(weights.data_type, weights.quantization)? {
        QuantizationParameters { scale, zero_point: 0 } => Ok(scale),
        QuantizationParameters { zero_point, .. } => {
            Err(OpError::unsupported(format!("weights with the zero point {zero_point}")))
        }
    }
}

/// Returns 8-bit peephole weights as floats.
pub(super) fn dequantized(weights: &TensorRef<'_>) -> Result<Vec<f32>, OpError> {
    let scale = scale_of(weights)?;
    Ok(weights.values::<i8>()?.iter().map(|weight| scale * f32::from(*weight)).collect())
}

/// A vector of floats, quantized to signed bytes with one scale and one zero point.
struct Bytes {
    bytes: Vec<u8>,
    scale: f32,
    zero_point: i32,
}

impl Bytes {
    fn new(values: &[f32], is_asymmetric: bool) -> Self {
        let (engine, mut bytes) = (Engine::new(&Serial), vec![0; values.len()]);
        let (scale, zero_point) = match is_asymmetric {
            true => quantize_asymmetrically(engine, values, &mut bytes),
            false => (quantize_symmetrically(engine, values, &mut bytes), 0),
        };
        Self { bytes, scale, zero_point }
    }
}

/// The weight matrices of one gate, for the input and for the previous output.
struct Gate<'a> {
    input: Matrix<'a>,
    recurrent: Matrix<'a>,
    /// The biases, with which the gate's sums start; `None` where the gate is normalized and the biases are
    /// added later.
    biases: Option<&'a [f32]>,
}

/// The weight matrices of all products of a step.
pub(super) struct Dynamic<'a> {
    gates: Vec<Gate<'a>>,
    projection: Option<(Matrix<'a>, Option<&'a [f32]>)>,
    extents: Extents,
    is_asymmetric: bool,
}

impl<'a> Dynamic<'a> {
    pub(super) fn new(eval: &Eval<'a>, extents: &Extents, is_asymmetric: bool) -> Result<Self, OpError> {
        let gate = |gate| {
            let is_normalized = eval.optional(NORMS + gate).is_some();
            Ok::<_, OpError>(Gate {
                input: Matrix::new(&eval.input(INPUT_WEIGHTS + gate)?, extents.depth)?,
                recurrent: Matrix::new(&eval.input(RECURRENT_WEIGHTS + gate)?, extents.outputs)?,
                biases: if is_normalized { None } else { Some(eval.input(BIASES + gate)?.values()?) },
            })
        };
        let projection = eval
            .optional(PROJECTION)
            .map(|weights| Ok::<_, OpError>((Matrix::new(&weights, extents.cells)?, optional(eval, PROJECTION_BIAS)?)));
        let gates = (extents.first_gate..GATES).map(gate).collect::<Result<_, _>>()?;
        Ok(Self { gates, projection: projection.transpose()?, extents: *extents, is_asymmetric })
    }
}

/// Sets `sums` to the biases, or to 0 where there are none.
fn start(sums: &mut [f32], biases: Option<&[f32]>) {
    match biases {
        Some(biases) => sums.copy_from_slice(biases),
        None => sums.fill(0.0),
    }
}

impl Products for Dynamic<'_> {
    const HAVE_BIASES: bool = true;

    fn sum(&self, input: &[f32], output: &[f32], sums: &mut [f32]) {
        let Extents { batches, depth, cells, outputs, .. } = self.extents;
        for (batch, sums) in sums.chunks_exact_mut(self.gates.len() * cells).enumerate().take(batches) {
            let input = Bytes::new(&input[batch * depth..][..depth], self.is_asymmetric);
            let output = Bytes::new(&output[batch * outputs..][..outputs], self.is_asymmetric);
            for (gate, sums) in self.gates.iter().zip(sums.chunks_exact_mut(cells)) {
                start(sums, gate.biases);
                gate.input.add_to(sums, &input);
                gate.recurrent.add_to(sums, &output);
            }
        }
    }

    fn project(&self, made: &[f32], output: &mut [f32]) -> bool {
        let Some((matrix, biases)) = &self.projection else { return false };
        let sequences = made.chunks_exact(self.extents.cells).zip(output.chunks_exact_mut(self.extents.outputs));
        for (made, output) in sequences {
            start(output, *biases);
            matrix.add_to(output, &Bytes::new(made, self.is_asymmetric));
        }
        true
    }
}
