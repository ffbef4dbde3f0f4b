//! The factors, zero points and limits of a quantized LSTM, from the quantization of its tensors. The CPU and a device
//! compute with the same.

use attache_base::{DataType, Quantization};
use attache_graph::OpError;
use attache_kernels::quantized::Multiplier;

use super::{
    CELL_STATE, GATES, INPUT_WEIGHTS, NORMS, OUTPUT_STATE, PEEPHOLES, PROJECTION, RECURRENT_WEIGHTS, SequenceLstm,
};
use crate::shared::quantized::{QuantizationParameters, power_of_two};

/// Index of the intermediate tensor with the scale and zero point of the output before its projection.
const HIDDEN: usize = 4;
/// The scale of the sums of a gate that is not normalized.
const GATE_SCALE: f32 = 1.0 / 4096.0;

/// The factors of one gate.
#[derive(Clone, Copy)]
pub(super) struct GateFactors {
    /// Rescales the products with the input.
    pub(super) input: Multiplier,
    /// Rescales the products with the previous output.
    pub(super) recurrent: Multiplier,
    /// Rescales the products of the peephole weights and the cells; `None` where there are no weights.
    pub(super) peephole: Option<Multiplier>,
    /// Rescales normalized sums, with the variance that replaces one below 1; `None` where sums are not normalized.
    pub(super) norm: Option<(Multiplier, i32)>,
}

/// What all steps of the memory compute with.
pub(super) struct Factors {
    /// Of the gates in the order input, forget, cell, output; the input gate may be missing.
    pub(super) gates: Vec<GateFactors>,
    pub(super) input_point: i32,
    pub(super) output_point: i32,
    /// The exponent of the cells' scale, which is a power of two.
    pub(super) cell_exponent: i32,
    /// Rescales the product of the output gate and the activated cells to the output before its projection, with the number
    /// that is added to it.
    pub(super) hidden: (Multiplier, i32),
    /// Rescales the products of the projection, with the number that is added to the elements of its vectors; `None` where
    /// there is no projection.
    pub(super) projection: Option<(Multiplier, i32)>,
    /// Maximum magnitudes of cells and of projected outputs, as stored integers; 0 or less for no clipping.
    pub(super) clips: (i16, i8),
}

/// The scales shared by all gates.
struct Scales {
    input: f32,
    output: f32,
    cell_exponent: i32,
}

impl Factors {
    /// Derives the factors. `quantization` returns that of an input of the memory, `None` where the input is left out;
    /// `first_gate` is the first gate that is present, and `written` is the scale of the operator's output.
    pub(super) fn new(
        lstm: &SequenceLstm,
        first_gate: usize,
        written: f32,
        quantization: impl Fn(usize) -> Result<Option<QuantizationParameters>, OpError>,
    ) -> Result<Self, OpError> {
        let required =
            |index: usize| quantization(index)?.ok_or_else(|| OpError::invalid(format!("input {index} is missing")));
        let (input, output) = (required(0)?, required(OUTPUT_STATE)?);
        let cell_scale = required(CELL_STATE)?.scale;
        let cell_exponent = power_of_two(cell_scale).filter(|power| (-15..=-9).contains(power)).ok_or_else(|| {
            OpError::unsupported(format!("cells at the scale {cell_scale}, which is no power of two from 2⁻¹⁵ to 2⁻⁹"))
        })?;
        let scales = Scales { input: input.scale, output: output.scale, cell_exponent };
        let gate = |gate: usize| -> Result<GateFactors, OpError> {
            let weights = [required(INPUT_WEIGHTS + gate)?.scale, required(RECURRENT_WEIGHTS + gate)?.scale];
            let peephole = PEEPHOLES[gate].map(&quantization).transpose()?.flatten();
            let norm = quantization(NORMS + gate)?.map(|norm| norm.scale);
            let to = scale_of_sums(lstm, gate, norm.is_some())?;
            Ok(GateFactors::new(weights, peephole.map(|peephole| peephole.scale), norm, &scales, to))
        };
        let gates = (first_gate..GATES).map(gate).collect::<Result<_, _>>()?;
        let hidden = hidden(lstm)?;
        let factor = (2f64.powi(-15) / f64::from(hidden.scale) * 2f64.powi(-15)) as f32;
        let projection = quantization(PROJECTION)?.map(|weights| {
            let factor = weights.scale * hidden.scale / output.scale;
            (Multiplier::new(factor.into()), hidden.zero_point)
        });
        // Like in TensorFlow Lite, the zero point is subtracted rather than added before a projection, which
        // makes a difference where values saturate.
        let point = if projection.is_some() { -hidden.zero_point } else { hidden.zero_point };
        Ok(Self {
            gates,
            input_point: input.zero_point,
            output_point: output.zero_point,
            cell_exponent,
            hidden: (Multiplier::new(factor.into()), point),
            projection,
            // The conversions round towards zero and saturate.
            clips: ((lstm.cell_clip / cell_scale) as i16, (lstm.projection_clip / written) as i8),
        })
    }
}

impl GateFactors {
    /// Derives the factors of a gate from the scales of its weights for the input and for the previous output, of its
    /// peephole and of its coefficients, and from the scale `to` of its sums.
    fn new([input, recurrent]: [f32; 2], peephole: Option<f32>, norm: Option<f32>, scales: &Scales, to: f32) -> Self {
        let factor = |real: f32| Multiplier::new(real.into());
        let of_cells = 2f64.powi(scales.cell_exponent);
        Self {
            input: factor(input * scales.input / to),
            recurrent: factor(recurrent * scales.output / to),
            peephole: peephole.map(|scale| factor((of_cells * f64::from(scale) / f64::from(to)) as f32)),
            norm: norm.map(|scale| (factor(scale), ((10_000.0 * scale) as i32).max(1))),
        }
    }
}

/// Returns the scale and zero point of an intermediate tensor.
fn intermediate(
    intermediates: &[(DataType, Option<Quantization>)],
    index: usize,
) -> Result<QuantizationParameters, OpError> {
    let Some((data_type, quantization)) = intermediates.get(index) else {
        return Err(OpError::invalid(format!("the file has no intermediate {index}, with a scale of its own")));
    };
    QuantizationParameters::new(*data_type, quantization.as_ref())
}

/// Returns the scale and zero point of the output before its projection.
pub(super) fn hidden(lstm: &SequenceLstm) -> Result<QuantizationParameters, OpError> {
    intermediate(&lstm.intermediates, HIDDEN)
}

/// Returns the scale of the sums of a gate.
pub(super) fn scale_of_sums(lstm: &SequenceLstm, gate: usize, is_normalized: bool) -> Result<f32, OpError> {
    if is_normalized { Ok(intermediate(&lstm.intermediates, gate)?.scale) } else { Ok(GATE_SCALE) }
}
