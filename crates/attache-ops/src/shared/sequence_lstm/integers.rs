//! Quantized LSTM: 8-bit activations and weights, 16-bit gates and cells.
//!
//! Products with the input and with the previous output are rescaled one after the other to the gate's scale: 2⁻¹² or,
//! where the gate is normalized, that of its intermediate tensor. The scale of the cells is a power of two. The output
//! before a projection has the scale and the zero point of the fifth intermediate. Source: TensorFlow Lite's
//! `LstmStepInteger8x8_16`.

use attache_graph::{Eval, OpError};
use attache_kernels::quantized::fixed_point::divide_by_power;
use attache_kernels::quantized::narrow::{logistic, normalize, tanh};
use attache_kernels::quantized::{Multiplier, Rounding, Stored};

use super::factors::{Factors, GateFactors};
use super::{
    BIASES, CELL_STATE, Extents, GATES, INPUT_WEIGHTS, Layout, NORMS, OUTPUT_STATE, PEEPHOLES, PROJECTION,
    PROJECTION_BIAS, RECURRENT_WEIGHTS, SequenceLstm,
};
use crate::shared::quantized::QuantizationParameters;

/// The cell gate, whose activation is the hyperbolic tangent; that of the other gates is the logistic
/// function.
pub(super) const CANDIDATE: usize = 2;

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
    fn new(weights: &'a [i8], [rows, depth]: [usize; 2], point: i32, bias: Option<&[i32]>, factor: Multiplier) -> Self {
        let rows = (0..rows).map(|row| &weights[row * depth..][..depth]);
        let sums = rows.map(|row| row.iter().fold(0i32, |sum, weight| sum.wrapping_add(i32::from(*weight))));
        let biases = sums.enumerate().map(|(row, sum)| {
            let bias = bias.map_or(0, |bias| bias[row]);
            bias.wrapping_add(sum.wrapping_mul(point))
        });
        Self { weights, depth, biases: biases.collect(), factor }
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

/// The parameters of one gate.
struct Gate<'a> {
    input: QuantizedMatrix<'a>,
    recurrent: QuantizedMatrix<'a>,
    peephole: Option<Peephole<'a>>,
    norm: Option<Norm<'a>>,
    is_candidate: bool,
}

impl<'a> Gate<'a> {
    /// Prepares a gate, which computes with `factors`. `sequences` is the number of sequences processed together.
    fn new(
        eval: &Eval<'a>,
        gate: usize,
        extents: &Extents,
        sequences: usize,
        (all, factors): (&Factors, &GateFactors),
    ) -> Result<Self, OpError> {
        let biases = eval.input(BIASES + gate)?.values()?;
        let bias = factors.norm.is_none().then_some(biases);
        let matrix = |index: usize, depth: usize, point: i32, bias, factor| {
            let weights = eval.input(index)?.values()?;
            Ok::<_, OpError>(QuantizedMatrix::new(weights, [extents.cells, depth], point, bias, factor))
        };
        let input = matrix(INPUT_WEIGHTS + gate, extents.depth, -all.input_point, bias, factors.input)?;
        let recurrent = matrix(RECURRENT_WEIGHTS + gate, extents.outputs, -all.output_point, None, factors.recurrent)?;
        let peephole = match (PEEPHOLES[gate], factors.peephole) {
            (Some(index), Some(factor)) => {
                let weights = eval.input(index)?.values()?;
                Some(Peephole { weights, factor, extents: [sequences, extents.outputs] })
            }
            _ => None,
        };
        let norm = match factors.norm {
            Some((factor, guard)) => {
                Some(Norm { coefficients: eval.input(NORMS + gate)?.values()?, biases, factor, guard })
            }
            None => None,
        };
        Ok(Self { input, recurrent, peephole, norm, is_candidate: gate == CANDIDATE })
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

/// The parameters of the LSTM that all steps share.
struct Memory<'a> {
    /// The gates in the order input, forget, cell, output; the input gate may be missing.
    gates: Vec<Gate<'a>>,
    projection: Option<QuantizedMatrix<'a>>,
    factors: Factors,
}

impl<'a> Memory<'a> {
    fn new(lstm: &SequenceLstm, eval: &Eval<'a>, extents: &Extents) -> Result<Self, OpError> {
        let quantization = |index: usize| {
            let input = eval.optional(index);
            input.map(|input| QuantizationParameters::new(input.data_type, input.quantization)).transpose()
        };
        let written = QuantizationParameters::new(eval.outputs[0].data_type, eval.outputs[0].quantization)?;
        let factors = Factors::new(lstm, extents.first_gate, written.scale, quantization)?;
        let sequences = joint_sequences(lstm, extents.batches);
        let gates = (extents.first_gate..GATES).zip(&factors.gates);
        let gates = gates.map(|(gate, own)| Gate::new(eval, gate, extents, sequences, (&factors, own)));
        let gates = gates.collect::<Result<_, _>>()?;
        let projection = factors.projection.map(|(factor, point)| {
            let bias = eval.optional(PROJECTION_BIAS).map(|bias| bias.values()).transpose()?;
            let weights = eval.input(PROJECTION)?.values()?;
            Ok::<_, OpError>(QuantizedMatrix::new(weights, [extents.outputs, extents.cells], point, bias, factor))
        });
        Ok(Self { gates, projection: projection.transpose()?, factors })
    }

    /// Computes one step of one sequence: updates its cells and its output. `batch` is the sequence's index
    /// among those processed together.
    fn step(&self, batch: usize, input: &[i8], output: &mut [i8], cells: &mut [i16]) {
        let [before @ .., last] = &self.gates[..] else { return };
        let before: Vec<_> = before.iter().map(|gate| gate.of(batch, input, output, cells)).collect();
        let [inputs @ .., forgets, candidates] = &before[..] else { return };
        let Factors { cell_exponent, hidden: (factor, point), clips, output_point, .. } = self.factors;
        for (place, cell) in cells.iter_mut().enumerate() {
            let kept = forgets[place];
            let taken = inputs.first().map_or(i16::MAX - kept, |inputs| inputs[place]);
            let old = rounded_product(kept, *cell, 15);
            let new = rounded_product(taken, candidates[place], (30 + cell_exponent) as u32);
            let (sum, limit) = (old.saturating_add(new), clips.0);
            *cell = if limit > 0 { sum.clamp(-limit, limit) } else { sum };
        }
        let gate = last.of(batch, input, output, cells);
        let bits = (15 + cell_exponent) as u32;
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
                    let value = i8::saturate(product.saturating_add(output_point));
                    let limit = clips.1;
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
