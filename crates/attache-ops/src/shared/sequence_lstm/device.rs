//! The memory as primitives of a device. Gates are computed from the sums of all gates, which are one matrix.
//!
//! Bytes and 16-bit integers are computed as floats unless they are to be exact ([`exact`]): the output of each step is
//! rounded to what its tensor can represent, and so is the output before a projection.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::Expression::{self, Constant as Number, Input};
use attache_gpu_ir::{BinaryOp, Primitive, ReduceOp, UnaryOp, ValueId};
use attache_graph::{AffineParameters, Fact, Lowering, Unsupported};

use super::{
    AUXILIARY, AUXILIARY_WEIGHTS, BIASES, CELL_STATE, Extents, GATES, INPUT_WEIGHTS, NORM_EPSILON, NORMS, OUTPUT_STATE,
    PEEPHOLES, PROJECTION, PROJECTION_BIAS, RECURRENT_WEIGHTS, SequenceLstm, exact, factors, integers,
};
use crate::shared::exact::{grid, is_exact};
use crate::shared::steps::{Matrix, Steps, biases, stacked, weights};
use crate::shared::support::refuse;
use crate::shared::view::View;

/// The scale of the biases of a gate that is normalized, relative to that of its coefficients.
const SCALE_OF_BIASES: f32 = 1.0 / 1024.0;

/// What a quantized memory rounds to.
struct Grids {
    /// The output before its projection.
    hidden: AffineParameters,
    output: AffineParameters,
    cell: AffineParameters,
}

/// The memory of one node, or of one direction of a node, while it is lowered.
struct Emitter<'e, 'l> {
    lstm: &'e SequenceLstm,
    lowering: &'e mut Lowering<'l>,
    /// For each input of the memory, the node's input; `None` where it is left out.
    inputs: &'e [Option<usize>],
    extents: Extents,
    grids: Option<Grids>,
}

/// Returns the expression `x`, clamped to magnitudes up to `limit`.
fn limited(x: Expression, limit: Expression) -> Expression {
    let above = x.binary(BinaryOp::Maximum, limit.clone().unary(UnaryOp::Negate));
    above.binary(BinaryOp::Minimum, limit)
}

impl SequenceLstm {
    /// Emits the memory and returns its output. `inputs` has the node's input for each input of the memory, `None` where it
    /// is left out.
    pub(crate) fn lower_with(
        &self,
        lowering: &mut Lowering<'_>,
        inputs: &[Option<usize>],
    ) -> Result<ValueId, Unsupported> {
        let shape = |index: &Option<usize>| index.map(|index| lowering.input_shape(index)).transpose();
        let shapes = inputs.iter().map(shape).collect::<Result<Vec<_>, _>>()?;
        let extents = Extents::new(&shapes, self.layout).map_err(refuse)?;
        let is_stored = |index: usize| is_exact(lowering, index);
        if inputs.first().copied().flatten().is_some_and(is_stored) {
            return exact::lower(self, lowering, inputs, extents);
        }
        let mut emitter = Emitter { lstm: self, lowering, inputs, extents, grids: None };
        emitter.grids = emitter.grids()?;
        emitter.run()
    }
}

impl Emitter<'_, '_> {
    fn index(&self, input: usize) -> Option<usize> {
        self.inputs.get(input).copied().flatten()
    }

    /// Returns the node's input that is one of the memory's; fails where it is left out.
    fn required(&self, input: usize) -> Result<usize, Unsupported> {
        self.index(input).ok_or_else(|| Unsupported::new(format!("input {input} is missing")))
    }

    fn stored(&self, input: usize) -> Result<&Fact, Unsupported> {
        self.lowering.stored_input(self.required(input)?)
    }

    /// Returns what the memory rounds to; `None` for floats.
    fn grids(&self) -> Result<Option<Grids>, Unsupported> {
        if self.stored(0)?.data_type == DataType::Float32 {
            return Ok(None);
        }
        let hidden = factors::hidden(self.lstm).map_err(refuse)?;
        // With a projection, the kernel subtracts the zero point where it would add it, and adds it where it would subtract it.
        let zero_point = if self.index(PROJECTION).is_some() { -hidden.zero_point } else { hidden.zero_point };
        let hidden = AffineParameters { scale: hidden.scale, zero_point: zero_point as f32, stored: (-128.0, 127.0) };
        Ok(Some(Grids { hidden, output: grid(self.stored(OUTPUT_STATE)?)?, cell: grid(self.stored(CELL_STATE)?)? }))
    }

    fn scale(&self, input: usize) -> Result<f32, Unsupported> {
        Ok(grid(self.stored(input)?)?.scale)
    }

    /// Returns biases as floats. Those of integers are in units of `unit`.
    fn biases(&mut self, input: usize, unit: f32) -> Result<ValueId, Unsupported> {
        let index = self.required(input)?;
        biases(self.lowering, index, unit)
    }

    /// Returns the largest magnitude of a gate's sums, which have 16 bits; `None` for floats.
    fn limit(&self, gate: usize) -> Result<Option<f32>, Unsupported> {
        if self.grids.is_none() {
            return Ok(None);
        }
        let scale = factors::scale_of_sums(self.lstm, gate, self.is_normalized(gate)).map_err(refuse)?;
        Ok(Some(scale * f32::from(i16::MAX)))
    }

    /// Returns the limits of the sums of all gates, `[gates × cells]`; `None` for floats.
    fn limits(&mut self) -> Result<Option<ValueId>, Unsupported> {
        let mut limits = Vec::with_capacity(self.extents.gates() * self.extents.cells);
        for gate in self.extents.first_gate..GATES {
            let Some(limit) = self.limit(gate)? else { return Ok(None) };
            limits.resize(limits.len() + self.extents.cells, limit);
        }
        self.lowering.precise_constant(Constant::from_values([limits.len()], &limits)).map(Some)
    }

    fn is_normalized(&self, gate: usize) -> bool {
        self.index(NORMS + gate).is_some()
    }

    /// Returns the biases of all gates that are part of their sums: those of a gate that is normalized are 0 here.
    fn joined_biases(&mut self) -> Result<ValueId, Unsupported> {
        let mut parts = Vec::with_capacity(GATES);
        for gate in self.extents.first_gate..GATES {
            parts.push(if self.is_normalized(gate) {
                self.lowering.constant(Constant::from_values([self.extents.cells], &vec![0f32; self.extents.cells]))?
            } else {
                let unit = match self.grids {
                    Some(_) => self.scale(0)? * self.scale(INPUT_WEIGHTS + gate)?,
                    None => 1.0,
                };
                self.biases(BIASES + gate, unit)?
            });
        }
        stacked(self.lowering, &parts)
    }

    /// Returns the matrices of all gates, one below the other; `first` is the one of the first gate.
    fn joined_weights(&mut self, first: usize) -> Result<ValueId, Unsupported> {
        let mut parts = Vec::with_capacity(GATES);
        for gate in self.extents.first_gate..GATES {
            let index = self.required(first + gate)?;
            parts.push(weights(self.lowering, index)?);
        }
        stacked(self.lowering, &parts)
    }

    /// Emits the products of the inputs of all times and the weights of all gates, `[times × batches, gates × cells]`.
    fn sums_of_inputs(&mut self) -> Result<ValueId, Unsupported> {
        let (biases, matrix) = (self.joined_biases()?, self.joined_weights(INPUT_WEIGHTS)?);
        let input = self.lowering.float_input(self.required(0)?)?;
        let sums = Matrix::new(self.lowering, matrix)?.times(self.lowering, input, Some(biases))?;
        let Some(other) = self.index(AUXILIARY) else { return Ok(sums) };
        let (other, matrix) = (self.lowering.float_input(other)?, self.joined_weights(AUXILIARY_WEIGHTS)?);
        let others = Matrix::new(self.lowering, matrix)?.times(self.lowering, other, None)?;
        let shape = self.lowering.shape(sums).clone();
        self.lowering.map(Input(0).add(Input(1)), &shape, &[others, sums])
    }

    fn run(mut self) -> Result<ValueId, Unsupported> {
        let Extents { times, batches, .. } = self.extents;
        let SequenceLstm { layout, is_reversed, .. } = *self.lstm;
        let steps = Steps { layout, times, batches, is_reversed };
        steps.check()?;
        let (sums, recurrent) = (self.sums_of_inputs()?, self.joined_weights(RECURRENT_WEIGHTS)?);
        let recurrent = Matrix::new(self.lowering, recurrent)?;
        steps.check_weights(self.lowering, &recurrent)?;
        let [output_state, cell_state] = [self.required(OUTPUT_STATE)?, self.required(CELL_STATE)?];
        let mut output = self.lowering.float_input(output_state)?;
        let mut cells = self.lowering.float_input(cell_state)?;
        let mut outputs = Vec::with_capacity(times);
        let limits = self.limits()?;
        for time in steps.order() {
            let of_input = steps.at(self.lowering, sums, time)?;
            let of_output = recurrent.times(self.lowering, output, None)?;
            let shape = self.lowering.shape(of_output).clone();
            let mut operands = vec![of_output, of_input];
            let sum = match limits {
                Some(limits) => {
                    operands.push(limits);
                    limited(Input(0).add(limited(Input(1), Input(2))), Input(2))
                }
                None => Input(0).add(Input(1)),
            };
            let all = self.lowering.map(sum, &shape, &operands)?;
            (output, cells) = self.step(all, cells)?;
            outputs.push(output);
        }
        self.lowering.set_state(output_state, output)?;
        self.lowering.set_state(cell_state, cells)?;
        steps.joined(self.lowering, outputs, &self.extents.output(layout))
    }

    /// Emits one step, from the sums of all gates and the cells of the previous step. Returns its output and its cells.
    fn step(&mut self, sums: ValueId, cells: ValueId) -> Result<(ValueId, ValueId), Unsupported> {
        let shape = self.lowering.shape(cells).clone();
        let logistic = |input: usize| Input(input).unary(UnaryOp::Logistic);
        let [forget, candidate] = [self.gate(1, sums, cells)?, self.gate(2, sums, cells)?];
        let (taken, mut operands) = match self.extents.first_gate {
            0 => (logistic(3), vec![forget, candidate, cells, self.gate(0, sums, cells)?]),
            _ => (Number(1.0).subtract(logistic(0)), vec![forget, candidate, cells]),
        };
        let kept = logistic(0).multiply(Input(2));
        let updated = kept.add(taken.multiply(self.activated(Input(1))?));
        let cells = self.lowering.map(self.limited_cells(updated), &shape, &operands)?;
        operands = vec![self.gate(3, sums, cells)?, cells];
        let hidden = logistic(0).multiply(self.activated(Input(1))?);
        let hidden = match &self.grids {
            Some(grids) => grids.hidden.dequantize(grids.hidden.quantize(hidden)),
            None => hidden,
        };
        let hidden = self.lowering.map(hidden, &shape, &operands)?;
        Ok((self.projected(hidden)?, cells))
    }

    /// Returns the expression of cells within their limit, and within what their tensor can represent.
    fn limited_cells(&self, cells: Expression) -> Expression {
        let limit = self.lstm.cell_clip;
        let clipped = if limit > 0.0 { cells.clamp(-limit, limit) } else { cells };
        match &self.grids {
            Some(Grids { cell: AffineParameters { scale, stored: (least, most), .. }, .. }) => {
                clipped.clamp(scale * least, scale * most)
            }
            None => clipped,
        }
    }

    fn activated(&self, x: Expression) -> Result<Expression, Unsupported> {
        // Integers have no other activation than the hyperbolic tangent.
        if self.grids.is_some() {
            return Ok(x.unary(UnaryOp::Tanh));
        }
        let activation = self.lstm.activation;
        x.activation(activation).ok_or_else(|| Unsupported::new(format!("the fused activation {activation:?}")))
    }

    /// Emits the value of a gate before its activation, from the sums of all gates.
    fn gate(&mut self, gate: usize, sums: ValueId, cells: ValueId) -> Result<ValueId, Unsupported> {
        let (shape, all) = (self.lowering.shape(cells).clone(), self.lowering.shape(sums).clone());
        let width = self.extents.cells;
        let view = View::slices(&all, 1, (gate - self.extents.first_gate) * width, width);
        let mut value = view.lower(self.lowering, sums)?;
        if let Some(peephole) = PEEPHOLES[gate].filter(|index| self.index(*index).is_some()) {
            let peephole = self.peephole(peephole)?;
            let sum = Input(0).add(Input(1).multiply(Input(2)));
            let sum = match self.limit(gate)? {
                Some(limit) => sum.clamp(-limit, limit),
                None => sum,
            };
            value = self.lowering.map(sum, &shape, &[value, cells, peephole])?;
        }
        if self.is_normalized(gate) { self.normalized(gate, value, &shape) } else { Ok(value) }
    }

    /// Returns the peephole weights, `[cells]` or `[batches, cells]`.
    fn peephole(&mut self, input: usize) -> Result<ValueId, Unsupported> {
        let Extents { batches, cells, outputs, .. } = self.extents;
        let index = self.required(input)?;
        let peephole = weights(self.lowering, index)?;
        if self.grids.is_none() || outputs >= cells {
            return Ok(peephole);
        }
        let known = self.lowering.constant_of(peephole).and_then(|constant| Some(constant.floats()?.into_owned()));
        let known = known.ok_or_else(|| Unsupported::new(format!("input {index} is not constant")))?;
        let joint = integers::joint_sequences(self.lstm, batches);
        let cell = |cell: usize| integers::peephole_place(cell % (joint * cells), [joint, outputs], cells);
        let values: Vec<f32> = (0..batches * cells).map(|place| cell(place).map_or(0.0, |cell| known[cell])).collect();
        self.lowering.constant(Constant::from_values([batches, cells], &values))
    }

    /// Emits a gate's sums without their mean, divided by their deviation, times the coefficients, plus the biases.
    fn normalized(&mut self, gate: usize, sums: ValueId, shape: &Shape) -> Result<ValueId, Unsupported> {
        let unit = if self.grids.is_some() { self.scale(NORMS + gate)? * SCALE_OF_BIASES } else { 1.0 };
        let biases = self.biases(BIASES + gate, unit)?;
        let coefficients = self.lowering.float_input(self.required(NORMS + gate)?)?;
        let mean = Primitive::Reduce { reduction: ReduceOp::Mean, axes: vec![1] };
        let average = self.lowering.emit(mean.clone(), &[sums])?;
        let apart = self.lowering.map(Input(0).subtract(Input(1)), shape, &[sums, average])?;
        let squares = self.lowering.map(Input(0).multiply(Input(0)), shape, &[apart])?;
        let variance = self.lowering.emit(mean, &[squares])?;
        let scale = Input(1).add(Number(NORM_EPSILON)).unary(UnaryOp::InverseSquareRoot);
        let normalized = Input(0).multiply(scale).multiply(Input(2)).add(Input(3));
        self.lowering.map(normalized, shape, &[apart, variance, coefficients, biases])
    }

    /// Emits the output of a step from the output before its projection.
    fn projected(&mut self, hidden: ValueId) -> Result<ValueId, Unsupported> {
        let Some(matrix) = self.index(PROJECTION) else { return Ok(hidden) };
        let matrix = weights(self.lowering, matrix)?;
        let bias = match (self.index(PROJECTION_BIAS), &self.grids) {
            (None, _) => None,
            (Some(_), None) => Some(self.biases(PROJECTION_BIAS, 1.0)?),
            (Some(_), Some(grids)) => {
                let unit = grids.hidden.scale * self.scale(PROJECTION)?;
                Some(self.biases(PROJECTION_BIAS, unit)?)
            }
        };
        let output = Matrix::new(self.lowering, matrix)?.times(self.lowering, hidden, bias)?;
        let (shape, limit) = (self.lowering.shape(output).clone(), self.lstm.projection_clip);
        let clipped = |x: Expression, limit: f32| if limit > 0.0 { x.clamp(-limit, limit) } else { x };
        let value = match &self.grids {
            // Stored numbers are clipped, whatever their zero point. The limit is rounded towards zero and saturates.
            Some(grids) => {
                let most = f32::from((limit / grids.output.scale) as i8);
                grids.output.dequantize(clipped(grids.output.quantize(Input(0)), most))
            }
            None => clipped(Input(0), limit),
        };
        self.lowering.map(value, &shape, &[output])
    }
}
