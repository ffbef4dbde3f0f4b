//! Quantized LSTM: 8-bit activations and weights, 16-bit gates and cells.
//!
//! Products with the input and with the previous output are rescaled one after the other to the gate's scale: 2⁻¹² or,
//! where the gate is normalized, that of its intermediate tensor. The scale of the cells is a power of two. The output
//! before a projection has the scale and the zero point of the fifth intermediate. Source: TensorFlow Lite's
//! `LstmStepInteger8x8_16`.

use attache_base::{DataType, Quantization};
use attache_graph::{Eval, OpError, TensorRef};
use attache_kernels::quantized::fixed_point::divide_by_power;
use attache_kernels::quantized::narrow::{logistic, normalize, tanh};
use attache_kernels::quantized::{Multiplier, Rounding, Stored};

use super::{
    BIASES, CELL_STATE, Extents, GATES, INPUT_WEIGHTS, Layout, NORMS, OUTPUT_STATE, PEEPHOLES, PROJECTION,
    PROJECTION_BIAS, RECURRENT_WEIGHTS, SequenceLstm,
};
use crate::shared::quantized::{QuantizationParameters, power_of_two};

/// The cell gate, whose activation is the hyperbolic tangent; that of the other gates is the logistic
/// function.
const CANDIDATE: usize = 2;
/// Index of the intermediate tensor with the scale and zero point of the output before its projection.
const HIDDEN: usize = 4;
/// The scale of the sums of a gate that is not normalized.
const GATE_SCALE: f32 = 1.0 / 4096.0;

/// A matrix to be multiplied by vectors of bytes, and the factor that rescales the sums.
struct QuantizedMatrix<'a> {
    weights: &'a [i8],
    depth: usize,
    /// For each row: the bias, plus the contribution of the vectors' zero point to the sum.
    biases: Vec<i32>,
    factor: Multiplier,
}

impl<'a> QuantizedMatrix<'a> {
    /// Prepares a matrix `[rows, depth]`. Products are those with vectors to whose elements `point` is added;
    /// `factor` rescales them.
    fn new(weights: &'a [i8], [rows, depth]: [usize; 2], point: i32, bias: Option<&[i32]>, factor: f32) -> Self {
        let rows = (0..rows).map(|row| &weights[row * depth..][..depth]);
        let sums = rows.map(|row| row.iter().fold(0i32, |sum, weight| sum.wrapping_add(i32::from(*weight))));
        let biases = sums.enumerate().map(|(row, sum)| {
            let bias = bias.map_or(0, |bias| bias[row]);
            bias.wrapping_add(sum.wrapping_mul(point))
        });
        Self { weights, depth, biases: biases.collect(), factor: Multiplier::new(factor.into()) }
    }

    /// Returns an iterator over the products of the rows with a vector, rescaled and rounded.
    fn of<'b>(&'b self, vector: &'b [i8]) -> impl Iterator<Item = i32> + 'b {
        self.biases.iter().enumerate().map(move |(row, bias)| {
            let products = self.weights[row * self.depth..][..self.depth]
                .iter()
                .zip(vector)
                .map(|(a, b)| i32::from(*a) * i32::from(*b));
            self.factor.apply(products.fold(*bias, i32::wrapping_add), Rounding::Twice)
        })
    }

    /// Adds the rescaled products of the rows with a vector to `sums`, saturated to 16 bits.
    fn add_to(&self, sums: &mut [i16], vector: &[i8]) {
        for (sum, product) in sums.iter_mut().zip(self.of(vector)) {
            *sum = i16::saturate(product.saturating_add((*sum).into()));
        }
    }
}

/// The parameters of a gate's layer normalization, as the kernel takes them.
struct Norm<'a> {
    coefficients: &'a [i16],
    biases: &'a [i32],
    factor: Multiplier,
    guard: i32,
}

/// The peephole of a gate: its sums include the products of `weights` and cells, elementwise, rescaled by
/// `factor`.
struct Peephole<'a> {
    weights: &'a [i16],
    factor: Multiplier,
    /// Number of sequences processed together, and number of outputs of each.
    extents: [usize; 2],
}

impl Peephole<'_> {
    /// Returns the weight of a cell, which is indexed over the cells of all sequences processed together;
    /// `None` where the cell has none.
    fn weight(&self, cell: usize) -> Option<i16> {
        peephole_place(cell, self.extents, self.weights.len()).map(|place| self.weights[place])
    }
}

/// Returns the place, among `weights`, of the peephole weight of a cell, which is indexed over the cells of all sequences
/// processed together; `None` where the cell has none. There are `batches` sequences with `outputs` outputs each.
///
/// Where a projection leaves fewer outputs than cells, TensorFlow Lite's kernels use the number of
/// outputs instead of the number of cells: the weights repeat after that many cells, and the last cells
/// have none.
pub(super) fn peephole_place(cell: usize, [batches, outputs]: [usize; 2], weights: usize) -> Option<usize> {
    match outputs < weights {
        true => (cell < batches * outputs).then(|| cell % outputs),
        false => Some(cell % weights),
    }
}

/// Returns the number of sequences that are processed together. Batch-major sequences are processed one at a time.
pub(super) fn joint_sequences(lstm: &SequenceLstm, batches: usize) -> usize {
    if lstm.layout == Layout::BatchMajor { 1 } else { batches }
}

/// Returns the scale and zero point of the output before its projection.
pub(super) fn hidden(lstm: &SequenceLstm) -> Result<QuantizationParameters, OpError> {
    Intermediates(&lstm.intermediates).affine(HIDDEN)
}

/// Returns the scale of the sums of a gate.
pub(super) fn scale_of_sums(lstm: &SequenceLstm, gate: usize, is_normalized: bool) -> Result<f32, OpError> {
    if is_normalized { Ok(Intermediates(&lstm.intermediates).affine(gate)?.scale) } else { Ok(GATE_SCALE) }
}

/// The parameters of one gate.
struct Gate<'a> {
    input: QuantizedMatrix<'a>,
    recurrent: QuantizedMatrix<'a>,
    peephole: Option<Peephole<'a>>,
    norm: Option<Norm<'a>>,
    is_candidate: bool,
}

impl<'a> Gate<'a> {
    fn new(
        eval: &Eval<'a>,
        gate: usize,
        extents: &Extents,
        scales: &Scales,
        intermediates: &Intermediates<'_>,
    ) -> Result<Self, OpError> {
        let (weights, recurrent) = (eval.input(INPUT_WEIGHTS + gate)?, eval.input(RECURRENT_WEIGHTS + gate)?);
        let (biases, norm) = (eval.input(BIASES + gate)?.values()?, eval.optional(NORMS + gate));
        let to = if norm.is_some() { intermediates.affine(gate)?.scale } else { GATE_SCALE };
        let bias = norm.is_none().then_some(biases);
        let factor = scale_of(&weights)? * scales.input.scale / to;
        let input = QuantizedMatrix::new(
            weights.values()?,
            [extents.cells, extents.depth],
            -scales.input.zero_point,
            bias,
            factor,
        );
        let factor = scale_of(&recurrent)? * scales.output.scale / to;
        let recurrent = QuantizedMatrix::new(
            recurrent.values()?,
            [extents.cells, extents.outputs],
            -scales.output.zero_point,
            None,
            factor,
        );
        let peephole = PEEPHOLES[gate].and_then(|index| eval.optional(index)).map(|peephole| {
            let factor = 2f64.powi(scales.cell) * f64::from(scale_of(&peephole)?) / f64::from(to);
            let (weights, factor) = (peephole.values()?, Multiplier::new((factor as f32).into()));
            Ok::<_, OpError>(Peephole { weights, factor, extents: [scales.sequences, extents.outputs] })
        });
        let norm = norm.map(|norm| {
            let scale = scale_of(&norm)?;
            let (factor, guard) = (Multiplier::new(scale.into()), ((10_000.0 * scale) as i32).max(1));
            Ok::<_, OpError>(Norm { coefficients: norm.values()?, biases, factor, guard })
        });
        let is_candidate = gate == CANDIDATE;
        Ok(Self { input, recurrent, peephole: peephole.transpose()?, norm: norm.transpose()?, is_candidate })
    }

    /// Computes a gate for an input, the previous output and the cells of sequence `batch`. Returns one
    /// 16-bit element for each cell, with 15 fraction bits.
    fn of(&self, batch: usize, input: &[i8], output: &[i8], cells: &[i16]) -> Vec<i16> {
        let mut sums = vec![0; cells.len()];
        self.input.add_to(&mut sums, input);
        self.recurrent.add_to(&mut sums, output);
        if let Some(peephole) = &self.peephole {
            for (place, (sum, cell)) in sums.iter_mut().zip(cells).enumerate() {
                let weight = peephole.weight(batch * cells.len() + place).unwrap_or(0);
                let product = peephole.factor.apply(i32::from(weight) * i32::from(*cell), Rounding::Twice);
                *sum = i16::saturate(product.saturating_add((*sum).into()));
            }
        }
        if let Some(norm) = &self.norm {
            normalize(&mut sums, norm.coefficients, norm.biases, norm.factor, norm.guard);
        }
        sums.iter_mut().for_each(|sum| *sum = if self.is_candidate { tanh(*sum, 3) } else { logistic(*sum) });
        sums
    }
}

fn scale_of(tensor: &TensorRef<'_>) -> Result<f32, OpError> {
    Ok(QuantizationParameters::new(tensor.data_type, tensor.quantization)?.scale)
}

/// The scales shared by all gates.
struct Scales {
    input: QuantizationParameters,
    output: QuantizationParameters,
    /// The exponent of the cells' scale, which is a power of two.
    cell: i32,
    /// Number of sequences processed together: the batch in time-major layout, else 1.
    sequences: usize,
}

/// Types and quantization parameters of the operator's intermediate tensors.
struct Intermediates<'a>(&'a [(DataType, Option<Quantization>)]);

impl Intermediates<'_> {
    fn affine(&self, index: usize) -> Result<QuantizationParameters, OpError> {
        let Some((data_type, quantization)) = self.0.get(index) else {
            return Err(OpError::invalid(format!("the file has no intermediate {index}, with a scale of its own")));
        };
        QuantizationParameters::new(*data_type, quantization.as_ref())
    }
}

/// The parameters of the LSTM that all steps share.
struct Memory<'a> {
    /// The gates in the order input, forget, cell, output; the input gate may be missing.
    gates: Vec<Gate<'a>>,
    cell_exponent: i32,
    /// Factor that rescales the product of the output gate and the activated cells to the output before its
    /// projection, and the zero point that is added to it.
    hidden: (Multiplier, i32),
    projection: Option<QuantizedMatrix<'a>>,
    output_point: i32,
    /// Maximum magnitudes of cells and of projected outputs, as stored integers; 0 for no clipping.
    clips: (i16, i8),
}

impl<'a> Memory<'a> {
    fn new(lstm: &SequenceLstm, eval: &Eval<'a>, extents: &Extents) -> Result<Self, OpError> {
        let affine = |input: TensorRef<'_>| QuantizationParameters::new(input.data_type, input.quantization);
        let (input, output) = (affine(eval.input(0)?)?, affine(eval.input(OUTPUT_STATE)?)?);
        let written = QuantizationParameters::new(eval.outputs[0].data_type, eval.outputs[0].quantization)?;
        let cell_scale = scale_of(&eval.input(CELL_STATE)?)?;
        let cell = power_of_two(cell_scale).filter(|power| (-15..=-9).contains(power)).ok_or_else(|| {
            OpError::unsupported(format!("cells at the scale {cell_scale}, which is no power of two from 2⁻¹⁵ to 2⁻⁹"))
        })?;
        let sequences = joint_sequences(lstm, extents.batches);
        let (scales, intermediates) = (Scales { input, output, cell, sequences }, Intermediates(&lstm.intermediates));
        let gate = |gate| Gate::new(eval, gate, extents, &scales, &intermediates);
        let gates = (extents.first_gate..GATES).map(gate).collect::<Result<_, _>>()?;
        let hidden = intermediates.affine(HIDDEN)?;
        let factor = (2f64.powi(-15) / f64::from(hidden.scale) * 2f64.powi(-15)) as f32;
        let projection = eval.optional(PROJECTION).map(|weights| {
            let bias = eval.optional(PROJECTION_BIAS).map(|bias| bias.values()).transpose()?;
            let factor = scale_of(&weights)? * hidden.scale / output.scale;
            Ok::<_, OpError>(QuantizedMatrix::new(
                weights.values()?,
                [extents.outputs, extents.cells],
                hidden.zero_point,
                bias,
                factor,
            ))
        });
        // Like in TensorFlow Lite, the zero point is subtracted rather than added before a projection, which
        // makes a difference where values saturate.
        let point = if projection.is_some() { -hidden.zero_point } else { hidden.zero_point };
        Ok(Self {
            gates,
            cell_exponent: cell,
            hidden: (Multiplier::new(factor.into()), point),
            projection: projection.transpose()?,
            output_point: output.zero_point,
            // The conversions round towards zero and saturate.
            clips: ((lstm.cell_clip / cell_scale) as i16, (lstm.projection_clip / written.scale) as i8),
        })
    }

    /// Computes one step of one sequence: updates its cells and its output. `batch` is the sequence's index
    /// among those processed together.
    fn step(&self, batch: usize, input: &[i8], output: &mut [i8], cells: &mut [i16]) {
        let [before @ .., last] = &self.gates[..] else { return };
        let before: Vec<_> = before.iter().map(|gate| gate.of(batch, input, output, cells)).collect();
        let [inputs @ .., forgets, candidates] = &before[..] else { return };
        for (place, cell) in cells.iter_mut().enumerate() {
            let kept = forgets[place];
            let taken = inputs.first().map_or(i16::MAX - kept, |inputs| inputs[place]);
            let old = rounded_product(kept, *cell, 15);
            let new = rounded_product(taken, candidates[place], (30 + self.cell_exponent) as u32);
            let (sum, limit) = (old.saturating_add(new), self.clips.0);
            *cell = if limit > 0 { sum.clamp(-limit, limit) } else { sum };
        }
        let gate = last.of(batch, input, output, cells);
        let bits = (15 + self.cell_exponent) as u32;
        let (factor, point) = self.hidden;
        let hidden: Vec<i8> = gate
            .iter()
            .zip(&*cells)
            .map(|(gate, cell)| {
                let product = factor.apply(i32::from(*gate) * i32::from(tanh(*cell, bits)), Rounding::Twice);
                i8::saturate(product.saturating_add(point))
            })
            .collect();
        match &self.projection {
            None => output.copy_from_slice(&hidden),
            Some(projection) => {
                for (output, product) in output.iter_mut().zip(projection.of(&hidden)) {
                    let value = i8::saturate(product.saturating_add(self.output_point));
                    let limit = self.clips.1;
                    *output = if limit > 0 { value.clamp(-limit, limit) } else { value };
                }
            }
        }
    }
}

/// Returns `a × b / 2^bits`, rounded, with ties away from zero.
fn rounded_product(a: i16, b: i16, bits: u32) -> i16 {
    divide_by_power(i32::from(a) * i32::from(b), bits) as i16
}

/// Runs all steps, starting from the values of the state variables, which it updates.
pub(super) fn run(lstm: &SequenceLstm, eval: &mut Eval<'_>, extents: &Extents) -> Result<(), OpError> {
    let Extents { times, depth, cells, outputs, .. } = *extents;
    let memory = Memory::new(lstm, eval, extents)?;
    let input = eval.input(0)?.values::<i8>()?;
    let mut state = eval.input(OUTPUT_STATE)?.values::<i8>()?.to_vec();
    let mut cell_state = eval.input(CELL_STATE)?.values::<i16>()?.to_vec();
    let written = eval.outputs[0].values::<i8>()?;
    for time in 0..times {
        let states = state.chunks_exact_mut(outputs).zip(cell_state.chunks_exact_mut(cells));
        for (batch, (state, cells)) in states.enumerate() {
            let row = extents.row(time, batch, lstm);
            memory.step(
                if lstm.layout == Layout::BatchMajor { 0 } else { batch },
                &input[row * depth..][..depth],
                state,
                cells,
            );
            written[row * outputs..][..outputs].copy_from_slice(state);
        }
    }
    eval.host.set_state(OUTPUT_STATE, bytemuck::cast_slice(&state))?;
    eval.host.set_state(CELL_STATE, bytemuck::cast_slice(&cell_state))
}
