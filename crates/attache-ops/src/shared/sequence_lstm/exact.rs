//! The memory as integer primitives of a device, which give the bits of the CPU ([`super::integers`]).
//!
//! The activations of 16-bit numbers are looked up in tables, which the CPU's functions fill.

use attache_base::{Constant, DataType};
use attache_gpu_ir::IntExpression::{self, Constant as Number, Input};
use attache_gpu_ir::ValueId;
use attache_graph::{Lowering, Unsupported};
use attache_kernels::quantized::narrow::{logistic, tanh};
use attache_kernels::quantized::{Multiplier, Rounding};

use super::factors::{Factors, GateFactors};
use super::integers::{CANDIDATE, joint_sequences, peephole_place};
use super::{
    AUXILIARY, BIASES, CELL_STATE, Extents, GATES, INPUT_WEIGHTS, NORMS, OUTPUT_STATE, PEEPHOLES, PROJECTION,
    PROJECTION_BIAS, RECURRENT_WEIGHTS, SequenceLstm,
};
use crate::shared::exact::functions::divided_by_power;
use crate::shared::exact::normalization::normalize;
use crate::shared::exact::{affine, entries, integers, known_integers, rescaled};
use crate::shared::steps::{Matrix, Steps, stacked};
use crate::shared::support::refuse;
use crate::shared::view::View;

/// The range of a 16-bit number.
const WORDS: (i32, i32) = (i16::MIN as i32, i16::MAX as i32);

/// Tables of activations, with an entry for each 16-bit number.
struct Tables {
    logistic: ValueId,
    /// The hyperbolic tangent of the sums of the cell gate.
    candidate: ValueId,
    /// The hyperbolic tangent of cells.
    cell: ValueId,
}

/// The memory of one node while it is lowered.
struct Emitter<'e, 'l> {
    lstm: &'e SequenceLstm,
    lowering: &'e mut Lowering<'l>,
    /// For each input of the memory, the node's input; `None` where it is left out.
    inputs: &'e [Option<usize>],
    extents: Extents,
    factors: Factors,
    tables: Tables,
    projection: Option<Matrix>,
}

/// The sums of all gates at one time, `[batches, gates × cells]`: those with the input and those with the previous output.
#[derive(Clone, Copy)]
struct Sums {
    of_input: ValueId,
    of_output: ValueId,
}

/// Returns the rescaled `x` for a sum with a 16-bit number that is then limited to 16 bits. It is limited too, so that the
/// sum does not wrap, to a magnitude that exceeds 16 bits whatever the other number is.
fn addend(x: IntExpression, factor: Multiplier) -> IntExpression {
    rescaled(x, factor, Rounding::Twice).clamp((-1 << 17, 1 << 17))
}

/// Emits the memory and returns its output, from inputs as [`SequenceLstm::lower_with`] takes them.
pub(super) fn lower(
    lstm: &SequenceLstm,
    lowering: &mut Lowering<'_>,
    inputs: &[Option<usize>],
    extents: Extents,
) -> Result<ValueId, Unsupported> {
    let index = |input: usize| inputs.get(input).copied().flatten();
    if index(AUXILIARY).is_some() {
        return Err(Unsupported::new("it has no form of integers"));
    }
    let quantization = |input: usize| {
        let fact = index(input).map(|index| lowering.input_fact(index).and_then(affine));
        fact.transpose().map_err(|unsupported| attache_graph::OpError::unsupported(unsupported.0))
    };
    let written = affine(lowering.output_fact(0)?)?.scale;
    let factors = Factors::new(lstm, extents.first_gate, written, quantization).map_err(refuse)?;
    let bits = (15 + factors.cell_exponent) as u32;
    let tables = Tables {
        logistic: table(lowering, logistic)?,
        candidate: table(lowering, |sum| tanh(sum, 3))?,
        cell: table(lowering, |cell| tanh(cell, bits))?,
    };
    let projection = match index(PROJECTION) {
        Some(index) => {
            let weights = lowering.input(index)?;
            Some(Matrix::new(lowering, weights)?)
        }
        None => None,
    };
    Emitter { lstm, lowering, inputs, extents, factors, tables, projection }.run()
}

/// Emits a table of a function of 16-bit numbers.
fn table(lowering: &mut Lowering<'_>, function: impl Fn(i16) -> i16) -> Result<ValueId, Unsupported> {
    let values: Vec<i16> = (i16::MIN..=i16::MAX).map(function).collect();
    lowering.constant(Constant::from_values([values.len()], &values))
}

impl Emitter<'_, '_> {
    fn index(&self, input: usize) -> Option<usize> {
        self.inputs.get(input).copied().flatten()
    }

    /// Returns the value of an input of the memory; fails where it is left out.
    fn input(&mut self, input: usize) -> Result<ValueId, Unsupported> {
        let index = self.index(input).ok_or_else(|| Unsupported::new(format!("input {input} is missing")))?;
        self.lowering.input(index)
    }

    /// Returns the matrices of all gates, one below the other; `first` is the one of the first gate.
    fn joined_weights(&mut self, first: usize) -> Result<Matrix, Unsupported> {
        let gates = self.extents.first_gate..GATES;
        let parts = gates.map(|gate| self.input(first + gate)).collect::<Result<Vec<_>, _>>()?;
        let weights = stacked(self.lowering, &parts)?;
        Matrix::new(self.lowering, weights)
    }

    /// Returns the biases of all gates that are part of their sums: those of a gate that is normalized are 0 here.
    fn joined_biases(&mut self) -> Result<ValueId, Unsupported> {
        let mut parts = Vec::with_capacity(GATES);
        for gate in self.extents.first_gate..GATES {
            parts.push(match self.index(NORMS + gate) {
                Some(_) => integers(self.lowering, [self.extents.cells], &vec![0; self.extents.cells])?,
                None => self.input(BIASES + gate)?,
            });
        }
        stacked(self.lowering, &parts)
    }

    fn run(mut self) -> Result<ValueId, Unsupported> {
        let Extents { times, batches, .. } = self.extents;
        let SequenceLstm { layout, is_reversed, .. } = *self.lstm;
        let steps = Steps { layout, times, batches, is_reversed };
        steps.check()?;
        let (biases, weights) = (self.joined_biases()?, self.joined_weights(INPUT_WEIGHTS)?);
        let input = self.input(0)?;
        let of_inputs = weights.times_from(self.lowering, input, Some(biases), self.factors.input_point)?;
        let recurrent = self.joined_weights(RECURRENT_WEIGHTS)?;
        steps.check_weights(self.lowering, &recurrent)?;
        let [mut output, mut cells] = [self.input(OUTPUT_STATE)?, self.input(CELL_STATE)?];
        let mut outputs = Vec::with_capacity(times);
        for time in steps.order() {
            let of_input = steps.at(self.lowering, of_inputs, time)?;
            let of_output = recurrent.times_from(self.lowering, output, None, self.factors.output_point)?;
            (output, cells) = self.step(Sums { of_input, of_output }, cells)?;
            outputs.push(output);
        }
        for (state, value) in [(OUTPUT_STATE, output), (CELL_STATE, cells)] {
            let index = self.index(state).ok_or_else(|| Unsupported::new("a state is missing"))?;
            self.lowering.set_state(index, value)?;
        }
        steps.joined(self.lowering, outputs, &self.extents.output(layout))
    }

    /// Emits one step, from the sums of all gates and the cells of the previous step. Returns its output and its cells.
    fn step(&mut self, sums: Sums, cells: ValueId) -> Result<(ValueId, ValueId), Unsupported> {
        let shape = self.lowering.shape(cells).clone();
        let Factors { cell_exponent, hidden: (factor, point), clips: (limit, _), .. } = self.factors;
        let [forget, candidate] = [self.gate(1, sums, cells)?, self.gate(CANDIDATE, sums, cells)?];
        let (taken, gate) = match self.extents.first_gate {
            0 => (Input(1), self.gate(0, sums, cells)?),
            _ => (Number(i16::MAX.into()).subtract(Input(1)), forget),
        };
        let new = divided_by_power(Input(0).multiply(taken), (30 + cell_exponent) as u32);
        let new = self.lowering.int_map(new, &shape, &[candidate, gate])?;
        let updated = divided_by_power(Input(0).multiply(Input(1)), 15).add(Input(2)).clamp(WORDS);
        let limit = i32::from(limit);
        let updated = if limit > 0 { updated.clamp((-limit, limit)) } else { updated };
        let cells = self.lowering.int_map(updated, &shape, &[forget, cells, new])?;
        let gate = self.gate(3, sums, cells)?;
        let activated = self.look_up(self.tables.cell, cells)?;
        let bounds = (i32::from(i8::MIN) - point, i32::from(i8::MAX) - point);
        let hidden = rescaled(Input(0).multiply(Input(1)), factor, Rounding::Twice).clamp(bounds).plus(point);
        let hidden = self.lowering.int_map(hidden, &shape, &[gate, activated])?;
        self.lowering.store_as(hidden, DataType::Int8);
        Ok((self.projected(hidden)?, cells))
    }

    /// Emits the activation of a gate.
    fn gate(&mut self, gate: usize, sums: Sums, cells: ValueId) -> Result<ValueId, Unsupported> {
        let (shape, all) = (self.lowering.shape(cells).clone(), self.lowering.shape(sums.of_output).clone());
        let place = gate - self.extents.first_gate;
        let view = View::slices(&all, 1, place * self.extents.cells, self.extents.cells);
        let (of_input, of_output) =
            (view.clone().lower(self.lowering, sums.of_input)?, view.lower(self.lowering, sums.of_output)?);
        let GateFactors { input, recurrent, peephole, norm } = self.factors.gates[place];
        let sum = addend(Input(0), input).clamp(WORDS).add(addend(Input(1), recurrent)).clamp(WORDS);
        let mut value = self.lowering.int_map(sum, &shape, &[of_input, of_output])?;
        if let (Some(index), Some(factor)) = (PEEPHOLES[gate], peephole) {
            let weights = self.peephole(index)?;
            let sum = Input(0).add(addend(Input(1).multiply(Input(2)), factor)).clamp(WORDS);
            value = self.lowering.int_map(sum, &shape, &[value, cells, weights])?;
        }
        if let Some(norm) = norm {
            let operands = [self.input(NORMS + gate)?, self.input(BIASES + gate)?];
            value = normalize(self.lowering, value, operands, norm)?;
        }
        self.look_up(if gate == CANDIDATE { self.tables.candidate } else { self.tables.logistic }, value)
    }

    /// Emits the entries of a table for 16-bit numbers.
    fn look_up(&mut self, table: ValueId, numbers: ValueId) -> Result<ValueId, Unsupported> {
        let shape = self.lowering.shape(numbers).clone();
        let places = self.lowering.int_map(Input(0).plus(-WORDS.0), &shape, &[numbers])?;
        entries(self.lowering, table, places)
    }

    /// Returns the peephole weights, `[cells]` or `[batches, cells]`.
    fn peephole(&mut self, input: usize) -> Result<ValueId, Unsupported> {
        let Extents { batches, cells, outputs, .. } = self.extents;
        if outputs >= cells {
            return self.input(input);
        }
        let fact = self.index(input).map(|index| self.lowering.input_fact(index)).transpose()?;
        let known = fact.and_then(known_integers);
        let known = known.ok_or_else(|| Unsupported::new(format!("input {input} is not constant")))?;
        let joint = joint_sequences(self.lstm, batches);
        let weight = |cell: usize| peephole_place(cell % (joint * cells), [joint, outputs], cells);
        let values: Vec<i32> = (0..batches * cells).map(|cell| weight(cell).map_or(0, |place| known[place])).collect();
        integers(self.lowering, [batches, cells], &values)
    }

    /// Emits the output of a step from the output before its projection.
    fn projected(&mut self, hidden: ValueId) -> Result<ValueId, Unsupported> {
        let (Some(matrix), Some((factor, added))) = (self.projection, self.factors.projection) else {
            return Ok(hidden);
        };
        let bias = match self.index(PROJECTION_BIAS) {
            Some(index) => Some(self.lowering.input(index)?),
            None => None,
        };
        let sums = matrix.times_from(self.lowering, hidden, bias, -added)?;
        let (point, limit) = (self.factors.output_point, i32::from(self.factors.clips.1));
        let bounds = (i32::from(i8::MIN) - point, i32::from(i8::MAX) - point);
        let output = rescaled(Input(0), factor, Rounding::Twice).clamp(bounds).plus(point);
        let output = if limit > 0 { output.clamp((-limit, limit)) } else { output };
        let shape = self.lowering.shape(sums).clone();
        let output = self.lowering.int_map(output, &shape, &[sums])?;
        self.lowering.store_as(output, DataType::Int8);
        Ok(output)
    }
}
