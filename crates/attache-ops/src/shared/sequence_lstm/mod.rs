//! A long short-term memory over the time axis of its input, which three operators share: the one that runs over a sequence,
//! the one that runs over it in both directions, and the full form of a single step.
//!
//! At each step, with the input `x`, and the output `h` and the cell `c` of the previous step, each gate computes `z =
//! W × x + R × h + p × c`, normalized where there are coefficients for it, plus the bias. The peephole `p` is optional;
//! that of the output gate uses the new cell.
//!
//! - `c' = clip(σ(z_f) × c + i × a(z_g))`, with `i = σ(z_i)`, or `1 − σ(z_f)` where the input gate is missing;
//! - `h' = σ(z_o) × a(c')`, then `clip(P × h' + b)` where there is a projection.
//!
//! `a` is the activation in the options. `h` and `c` are variables: the next run continues from their values.
//!
//! Weights may have 8 bits: multiplied by floats that are quantized to bytes ([`dynamic`]), or by bytes ([`integers`]).

mod device;
mod dynamic;
mod exact;
mod factors;
mod integers;

use std::borrow::Cow;
use std::sync::Arc;

use attache_base::{Activation, DataType, Quantization, Serial, Shape};
use attache_graph::{Eval, Fact, Inferred, Lowering, OpError, Unsupported, WorkingMemory};
use attache_kernels::Engine;
use attache_kernels::elementwise::{self, Unary};
use attache_kernels::gemm::{PackedMatrix, gemm};

use crate::definition::one_of;
use crate::shared::byte_products::dequantized;
use crate::shared::sequence::SequenceWeights;
use crate::shared::support::{countable, product};
use crate::shared::working::{of_weights, packed};
use crate::{Facts, Input, Operator, input};
use dynamic::Dynamic;

/// Index, among the operator's inputs, of the input weights of the first gate; those of the other gates
/// follow in the order of [`GATES`].
const INPUT_WEIGHTS: usize = 1;
/// Index, among the operator's inputs, of the recurrent weights of the first gate; those of the other gates
/// follow in the order of [`GATES`].
const RECURRENT_WEIGHTS: usize = 5;
/// Index, among the operator's inputs, of the peephole weights of the first gate.
const PEEPHOLE: usize = 9;
/// Index, among the operator's inputs, of each gate's peephole weights; the cell gate has none.
const PEEPHOLES: [Option<usize>; GATES] = [Some(PEEPHOLE), Some(10), None, Some(11)];
/// Index, among the operator's inputs, of the biases of the first gate; those of the other gates follow in
/// the order of [`GATES`].
const BIASES: usize = 12;
/// Index, among the operator's inputs, of the projection's weights.
const PROJECTION: usize = 16;
/// Index, among the operator's inputs, of the projection's bias.
const PROJECTION_BIAS: usize = 17;
/// Index, among the operator's inputs, of the variable with the output of the previous step.
const OUTPUT_STATE: usize = 18;
/// Index, among the operator's inputs, of the variable with the cells of the previous step.
const CELL_STATE: usize = 19;
/// Index, among the operator's inputs, of the layer normalization coefficients of the first gate; those of
/// the other gates follow in the order of [`GATES`].
const NORMS: usize = 20;

/// Number of gates: input, forget, cell and output, in this order. Where the input gate is missing, its value
/// is one minus that of the forget gate.
const GATES: usize = 4;
/// Index of the input gate among the gates.
const INPUT_GATE: usize = 0;

/// Index of the second input, which only the form in both directions has. Its weights follow in the order of [`GATES`].
pub(crate) const AUXILIARY: usize = NORMS + GATES;
/// Index of the second input's weights of the first gate.
const AUXILIARY_WEIGHTS: usize = AUXILIARY + 1;
/// Number of inputs with those of the second input.
pub(crate) const WITH_AUXILIARY: usize = AUXILIARY_WEIGHTS + GATES;

/// Declarations of the inputs of an operator that runs in one direction. What is required is checked later, since the other
/// form of a single step has other inputs.
pub(crate) const INPUTS: &[Input] = &[
    input("input"),
    input("input_to_input_weights").optional(),
    input("input_to_forget_weights").optional(),
    input("input_to_cell_weights").optional(),
    input("input_to_output_weights").optional(),
    input("recurrent_to_input_weights").optional(),
    input("recurrent_to_forget_weights").optional(),
    input("recurrent_to_cell_weights").optional(),
    input("recurrent_to_output_weights").optional(),
    input("cell_to_input_weights").optional(),
    input("cell_to_forget_weights").optional(),
    input("cell_to_output_weights").optional(),
    input("input_gate_bias").optional(),
    input("forget_gate_bias").optional(),
    input("cell_gate_bias").optional(),
    input("output_gate_bias").optional(),
    input("projection_weights").optional(),
    input("projection_bias").optional(),
    input("output_state").optional(),
    input("cell_state").optional(),
    input("input_layer_norm_coefficients").optional(),
    input("forget_layer_norm_coefficients").optional(),
    input("cell_layer_norm_coefficients").optional(),
    input("output_layer_norm_coefficients").optional(),
];

/// Added to the variance in layer normalization, like in TensorFlow Lite.
const NORM_EPSILON: f32 = 1e-8;

/// The axes of the input and of the output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Layout {
    /// `[batch, time, features]`.
    BatchMajor,
    /// `[time, batch, features]`.
    TimeMajor,
    /// `[batch, features]`, at a single time.
    OneStep,
}

impl Layout {
    /// Returns the layout of a sequence.
    pub(crate) fn of_sequence(time_major: bool) -> Self {
        if time_major { Self::TimeMajor } else { Self::BatchMajor }
    }
}

/// Returns the limit of a clamp as the options state it; an error where it is no magnitude.
pub(crate) fn clip_at(limit: f32) -> Result<f32, OpError> {
    if limit >= 0.0 { Ok(limit) } else { Err(OpError::invalid(format!("it clips at {limit}"))) }
}

#[derive(Clone, Debug)]
pub(crate) struct SequenceLstm {
    pub(crate) activation: Activation,
    /// Maximum magnitude of cells; 0 for no clipping.
    pub(crate) cell_clip: f32,
    /// Maximum magnitude of projected outputs; 0 for no clipping.
    pub(crate) projection_clip: f32,
    pub(crate) layout: Layout,
    /// Whether time runs from the last step to the first.
    pub(crate) is_reversed: bool,
    /// Whether floats are quantized with a zero point, rather than symmetrically, for products with 8-bit
    /// weights.
    pub(crate) is_asymmetric: bool,
    /// Types and quantization parameters of the intermediate results: the four gates, where they are
    /// normalized, and the output before its projection. Used by the quantized LSTM.
    pub(crate) intermediates: Vec<(DataType, Option<Quantization>)>,
}

/// The arithmetic, selected by the types of activations and weights.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Arithmetic {
    /// Float32 activations and weights.
    Floats,
    /// Float32 activations, 8-bit weights of this type. Old files declare them as UINT8, though they are signed.
    Dynamic(DataType),
    /// 8-bit activations and weights.
    Integers,
}

impl Arithmetic {
    fn of(input: DataType, weights: DataType) -> Result<Self, OpError> {
        match (input, weights) {
            (DataType::Float32, DataType::Float32) => Ok(Self::Floats),
            (DataType::Float32, DataType::Int8 | DataType::UInt8) => Ok(Self::Dynamic(weights)),
            (DataType::Int8, DataType::Int8) => Ok(Self::Integers),
            _ => Err(OpError::unsupported(format!("weights of type {weights} with an input of type {input}"))),
        }
    }

    /// Returns the element type that input `index` must have.
    fn data_type(self, index: usize) -> DataType {
        match (self, index) {
            (Self::Dynamic(weights), INPUT_WEIGHTS..BIASES | PROJECTION | AUXILIARY_WEIGHTS..) => weights,
            (Self::Integers, INPUT_WEIGHTS..PEEPHOLE | PROJECTION | 0 | OUTPUT_STATE) => DataType::Int8,
            (Self::Integers, PEEPHOLE..BIASES | CELL_STATE | NORMS..) => DataType::Int16,
            (Self::Integers, BIASES..PROJECTION | PROJECTION_BIAS) => DataType::Int32,
            (Self::Floats | Self::Dynamic(_), _) => DataType::Float32,
        }
    }
}

/// Extents of the tensors, for all steps of all sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Extents {
    times: usize,
    batches: usize,
    /// Number of features of the input at each step.
    depth: usize,
    /// Number of features of the second input at each step; 0 where there is none.
    auxiliary: usize,
    cells: usize,
    outputs: usize,
    /// The first gate that is present: [`INPUT_GATE`], or the next one.
    first_gate: usize,
}

impl Extents {
    /// Derives the extents from the shapes of all inputs; fails where the shapes do not fit each other.
    fn new(shapes: &[Option<&Shape>], layout: Layout) -> Result<Self, OpError> {
        let shape = |index: usize| shapes.get(index).copied().flatten();
        let list = |index: usize| shape(index).map(|shape| shape.extents());
        let wrong = |index: usize| {
            OpError::invalid(match shape(index) {
                Some(shape) => format!("input {index} of shape {shape} does not fit the others"),
                None => format!("input {index} is missing"),
            })
        };
        let (times, batches, depth) = match (layout, list(0)) {
            (Layout::BatchMajor, Some(&[batches, times, depth])) => (times, batches, depth),
            (Layout::TimeMajor, Some(&[times, batches, depth])) => (times, batches, depth),
            (Layout::OneStep, Some(&[batches, depth])) => (1, batches, depth),
            _ => return Err(wrong(0)),
        };
        // The output gate is always present.
        let [cells, outputs] = match list(RECURRENT_WEIGHTS + GATES - 1) {
            Some(&[cells, outputs]) if cells > 0 && outputs > 0 => [cells, outputs],
            _ => return Err(wrong(RECURRENT_WEIGHTS + GATES - 1)),
        };
        let first_gate = usize::from(shape(INPUT_WEIGHTS + INPUT_GATE).is_none());
        let auxiliary = match (shape(AUXILIARY), list(0)) {
            (Some(shape), Some(input)) => match shape.split_last() {
                Some((features, outer)) if outer == &input[..input.len() - 1] => *features,
                _ => return Err(wrong(AUXILIARY)),
            },
            _ => 0,
        };
        let extents = Self { times, batches, depth, auxiliary, cells, outputs, first_gate };
        let is =
            |index: usize, expected: &[usize]| if list(index) == Some(expected) { Ok(()) } else { Err(wrong(index)) };
        let is_if_there =
            |index: usize, expected: &[usize]| if list(index).is_none() { Ok(()) } else { is(index, expected) };
        for (gate, peephole) in PEEPHOLES.into_iter().enumerate().skip(first_gate) {
            is(INPUT_WEIGHTS + gate, &[cells, depth])?;
            is(RECURRENT_WEIGHTS + gate, &[cells, outputs])?;
            is(BIASES + gate, &[cells])?;
            peephole.map_or(Ok(()), |peephole| is_if_there(peephole, &[cells]))?;
            is_if_there(NORMS + gate, &[cells])?;
            if shape(AUXILIARY).is_some() {
                is(AUXILIARY_WEIGHTS + gate, &[cells, auxiliary])?;
            }
        }
        is_if_there(PROJECTION, &[outputs, cells])?;
        is_if_there(PROJECTION_BIAS, &[outputs])?;
        let is_projected = shape(PROJECTION).is_some();
        if !is_projected && (shape(PROJECTION_BIAS).is_some() || outputs != cells) {
            return Err(wrong(PROJECTION));
        }
        is(OUTPUT_STATE, &[batches, outputs])?;
        is(CELL_STATE, &[batches, cells])?;
        Ok(extents)
    }

    /// Returns the number of features of both inputs at each step.
    fn features(&self) -> usize {
        self.depth + self.auxiliary
    }

    /// Returns the number of gates that are present.
    fn gates(&self) -> usize {
        GATES - self.first_gate
    }

    /// Returns the shape of the output.
    fn output(&self, layout: Layout) -> Shape {
        let Self { times, batches, outputs, .. } = *self;
        match layout {
            Layout::BatchMajor => [batches, times, outputs].into(),
            Layout::TimeMajor => [times, batches, outputs].into(),
            Layout::OneStep => [batches, outputs].into(),
        }
    }

    /// Returns the row of the input and of the output that belongs to the `step`-th step of sequence `batch`.
    fn row(&self, step: usize, batch: usize, lstm: &SequenceLstm) -> usize {
        let time = if lstm.is_reversed { self.times - 1 - step } else { step };
        match lstm.layout {
            Layout::BatchMajor => batch * self.times + time,
            Layout::TimeMajor | Layout::OneStep => time * self.batches + batch,
        }
    }
}

/// Whether all weights are constant, so that their packed form can be cached.
fn are_constant(eval: &Eval<'_>) -> bool {
    let inputs = (INPUT_WEIGHTS..RECURRENT_WEIGHTS + GATES).chain([PROJECTION, PROJECTION_BIAS]);
    let mut inputs = inputs.chain(AUXILIARY_WEIGHTS..WITH_AUXILIARY);
    inputs.all(|index| eval.optional(index).is_none_or(|input| input.is_constant))
}

/// Packs the float weight matrices for the CPU.
fn pack(eval: &Eval<'_>, extents: &Extents) -> Result<SequenceWeights, OpError> {
    let engine = Engine::new(eval.parallel);
    let Extents { depth, auxiliary, cells, outputs, .. } = *extents;
    let columns = extents.features() + outputs;
    let mut joined = Vec::with_capacity(extents.gates() * cells * columns);
    for gate in extents.first_gate..GATES {
        let input = eval.input(INPUT_WEIGHTS + gate)?.values::<f32>()?;
        let recurrent = eval.input(RECURRENT_WEIGHTS + gate)?.values::<f32>()?;
        let other = optional(eval, AUXILIARY_WEIGHTS + gate)?.unwrap_or_default();
        for cell in 0..cells {
            joined.extend(&input[cell * depth..][..depth]);
            joined.extend(&other[cell * auxiliary..][..auxiliary]);
            joined.extend(&recurrent[cell * outputs..][..outputs]);
        }
    }
    let gates = PackedMatrix::pack(engine.isa, extents.gates() * cells, columns, &joined, None);
    let projection = optional(eval, PROJECTION)?;
    let bias = optional(eval, PROJECTION_BIAS)?;
    let pack = |weights| PackedMatrix::pack(engine.isa, outputs, cells, weights, bias);
    Ok(SequenceWeights { gates, projection: projection.map(pack) })
}

fn optional<'a>(eval: &Eval<'a>, index: usize) -> Result<Option<&'a [f32]>, OpError> {
    eval.optional(index).map(|input| input.values()).transpose()
}

/// The parameters of one gate other than its weight matrices.
struct Gate<'a> {
    peephole: Option<Cow<'a, [f32]>>,
    norm: Option<&'a [f32]>,
    /// The biases; empty where they are already in the sums.
    bias: &'a [f32],
}

impl<'a> Gate<'a> {
    fn new(eval: &Eval<'a>, gate: usize, sums_have_biases: bool) -> Result<Self, OpError> {
        let peephole = PEEPHOLES[gate].and_then(|index| eval.optional(index)).map(|weights| match weights.data_type {
            DataType::Int8 | DataType::UInt8 => dequantized(&weights).map(Cow::Owned),
            _ => weights.values().map(Cow::Borrowed),
        });
        let norm = optional(eval, NORMS + gate)?;
        let bias = if sums_have_biases && norm.is_none() { &[] } else { eval.input(BIASES + gate)?.values()? };
        Ok(Self { peephole: peephole.transpose()?, norm, bias })
    }

    /// Turns the gate's sums of products into `z`: adds the products of the peephole and `cells`, then
    /// normalizes and adds the biases.
    fn complete(&self, sums: &mut [f32], cells: &[f32]) {
        if let Some(peephole) = &self.peephole {
            sums.iter_mut().zip(peephole.iter().zip(cells)).for_each(|(sum, (weight, cell))| *sum += weight * cell);
        }
        if let Some(norm) = self.norm {
            normalize(sums);
            sums.iter_mut().zip(norm).for_each(|(sum, coefficient)| *sum *= coefficient);
        }
        sums.iter_mut().zip(self.bias).for_each(|(sum, bias)| *sum += bias);
    }
}

/// The matrix products of one step of all sequences.
trait Products {
    /// Whether the sums of gates that are not normalized already include the biases.
    const HAVE_BIASES: bool;

    /// Computes the sums of all gates from the input and the previous output of all sequences. `sums` has one
    /// row for each sequence, with one gate after the other.
    fn sum(&self, input: &[f32], output: &[f32], sums: &mut [f32]);

    /// Projects `made`, the outputs of all sequences, and writes the results to `output`. Returns false, and
    /// writes nothing, where there is no projection.
    fn project(&self, made: &[f32], output: &mut [f32]) -> bool;
}

/// Matrix products of floats, with packed weights.
struct Floats<'a> {
    engine: Engine<'a>,
    weights: &'a SequenceWeights,
    extents: &'a Extents,
}

/// Bounds of a clamp that has no effect.
const ALL: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

impl Products for Floats<'_> {
    const HAVE_BIASES: bool = false;

    fn sum(&self, input: &[f32], output: &[f32], sums: &mut [f32]) {
        let Extents { batches, outputs, cells, .. } = *self.extents;
        let depth = self.extents.features();
        let (columns, rows) = (depth + outputs, self.extents.gates() * cells);
        let mut joined = vec![0.0; batches * columns];
        for (batch, joined) in joined.chunks_exact_mut(columns).enumerate() {
            joined[..depth].copy_from_slice(&input[batch * depth..][..depth]);
            joined[depth..].copy_from_slice(&output[batch * outputs..][..outputs]);
        }
        gemm(self.engine, batches, &joined, columns, &self.weights.gates, sums, rows, ALL);
    }

    fn project(&self, made: &[f32], output: &mut [f32]) -> bool {
        let Extents { batches, cells, outputs, .. } = *self.extents;
        let Some(matrix) = &self.weights.projection else { return false };
        gemm(self.engine, batches, made, cells, matrix, output, outputs, ALL);
        true
    }
}

/// Subtracts the mean of all values and divides them by their standard deviation.
fn normalize(values: &mut [f32]) {
    let count = values.len() as f32;
    let mean = values.iter().sum::<f32>() / count;
    values.iter_mut().for_each(|value| *value -= mean);
    let variance = values.iter().map(|value| value * value).sum::<f32>() / count;
    let scale = 1.0 / (variance + NORM_EPSILON).sqrt();
    values.iter_mut().for_each(|value| *value *= scale);
}

/// Clamps the magnitude of a value to `limit`; 0 means no limit.
fn clip(value: f32, limit: f32) -> f32 {
    if limit > 0.0 { value.clamp(-limit, limit) } else { value }
}

impl SequenceLstm {
    /// Returns the output's shape for inputs of these shapes.
    pub(crate) fn output(&self, shapes: &[Option<&Shape>]) -> Result<Shape, OpError> {
        Ok(Extents::new(shapes, self.layout)?.output(self.layout))
    }

    fn activate(&self, engine: Engine, values: &mut [f32]) {
        match self.activation.bounds() {
            Some((low, high)) => values.iter_mut().for_each(|x| *x = x.max(low).min(high)),
            None => elementwise::unary_in_place(engine, Unary::Tanh, values),
        }
    }

    /// Computes one step of one sequence from its gates' sums of products: updates the cells, and replaces
    /// the output gate's sums by the output before its projection.
    fn step(&self, engine: Engine, gates: &[Gate<'_>], sums: &mut [f32], cells: &mut [f32]) {
        let mut parts: Vec<_> = sums.chunks_exact_mut(cells.len()).collect();
        let [inputs @ .., forgets, candidates, outputs] = &mut parts[..] else { return };
        let [before @ .., output] = gates else { return };
        if let ([gate, ..], [input]) = (before, &mut *inputs) {
            gate.complete(input, cells);
        }
        let [.., forget, candidate] = before else { return };
        forget.complete(forgets, cells);
        candidate.complete(candidates, cells);
        inputs.iter_mut().for_each(|input| elementwise::unary_in_place(engine, Unary::Logistic, input));
        elementwise::unary_in_place(engine, Unary::Logistic, forgets);
        self.activate(engine, candidates);
        for (place, cell) in cells.iter_mut().enumerate() {
            let kept = forgets[place];
            let taken = inputs.first().map_or(1.0 - kept, |input| input[place]);
            *cell = clip(kept * *cell + taken * candidates[place], self.cell_clip);
        }
        output.complete(outputs, cells);
        elementwise::unary_in_place(engine, Unary::Logistic, outputs);
        let activated = candidates;
        activated.copy_from_slice(cells);
        self.activate(engine, activated);
        outputs.iter_mut().zip(&**activated).for_each(|(output, cell)| *output *= cell);
    }

    /// Runs all steps, starting from the values of the state variables, which it updates.
    fn run<P: Products>(&self, eval: &mut Eval<'_>, extents: &Extents, products: &P) -> Result<(), OpError> {
        let Extents { times, batches, depth, auxiliary, cells, outputs, .. } = *extents;
        let input = eval.input(0)?.values::<f32>()?;
        let other = optional(eval, AUXILIARY)?.unwrap_or_default();
        let gate = |gate| Gate::new(eval, gate, P::HAVE_BIASES);
        let gates = (extents.first_gate..GATES).map(gate).collect::<Result<Vec<_>, _>>()?;
        let mut state = eval.input(OUTPUT_STATE)?.values::<f32>()?.to_vec();
        let mut cell_state = eval.input(CELL_STATE)?.values::<f32>()?.to_vec();
        let written = eval.outputs[0].values::<f32>()?;
        let (rows, features) = (extents.gates() * cells, extents.features());
        let (mut inputs, mut sums, mut made) =
            (vec![0.0; batches * features], vec![0.0; batches * rows], vec![0.0; batches * cells]);
        let engine = Engine::new(&Serial);
        for time in 0..times {
            for batch in 0..batches {
                let row = extents.row(time, batch, self);
                let inputs = &mut inputs[batch * features..][..features];
                inputs[..depth].copy_from_slice(&input[row * depth..][..depth]);
                inputs[depth..].copy_from_slice(&other[row * auxiliary..][..auxiliary]);
            }
            products.sum(&inputs, &state, &mut sums);
            let sequences = sums.chunks_exact_mut(rows).zip(cell_state.chunks_exact_mut(cells));
            for ((sums, cell), made) in sequences.zip(made.chunks_exact_mut(cells)) {
                self.step(engine, &gates, sums, cell);
                // The output is at the end of the gates' row.
                made.copy_from_slice(&sums[rows - cells..]);
            }
            match products.project(&made, &mut state) {
                true => state.iter_mut().for_each(|value| *value = clip(*value, self.projection_clip)),
                false => state.copy_from_slice(&made),
            }
            for (batch, state) in state.chunks_exact(outputs).enumerate() {
                let row = extents.row(time, batch, self);
                written[row * outputs..][..outputs].copy_from_slice(state);
            }
        }
        eval.host.set_state(OUTPUT_STATE, bytemuck::cast_slice(&state))?;
        eval.host.set_state(CELL_STATE, bytemuck::cast_slice(&cell_state))
    }

    fn run_floats(&self, eval: &mut Eval<'_>, extents: &Extents) -> Result<(), OpError> {
        let (is_constant, Extents { cells, outputs, .. }) = (are_constant(eval), *extents);
        let projection = eval.optional(PROJECTION).map(|_| [outputs, cells]);
        let parameters =
            || SequenceWeights::parameters([extents.gates() * cells, extents.features() + outputs], projection);
        let known = is_constant.then(|| eval.cache.get_for::<Arc<SequenceWeights>>(parameters).cloned()).flatten();
        let weights = match known {
            Some(weights) => weights,
            None => {
                let packed = Arc::new(pack(eval, extents)?);
                if is_constant { eval.cache.get_or_make_for(parameters, || packed).clone() } else { packed }
            }
        };
        self.run(eval, extents, &Floats { engine: Engine::new(eval.parallel), weights: &weights, extents })
    }

    /// Returns the arithmetic selected by the types of input and weights; fails where an input does not have
    /// the type that the arithmetic requires.
    fn arithmetic(inputs: Facts<'_>) -> Result<Arithmetic, OpError> {
        let (input, weights) = (inputs.fact(0), inputs.fact(INPUT_WEIGHTS + GATES - 1));
        let arithmetic = Arithmetic::of(input.data_type, weights.data_type)?;
        for (index, input) in inputs.from(0).iter().enumerate() {
            let Some(input) = input else { continue };
            one_of(format_args!("input {index}"), input.data_type, &[arithmetic.data_type(index)])?;
        }
        Ok(arithmetic)
    }
}

impl Operator for SequenceLstm {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        if ![NORMS, NORMS + GATES, WITH_AUXILIARY].contains(&inputs.count()) {
            return Err(OpError::invalid(format!("{} inputs; it takes {}", inputs.count(), NORMS + GATES)));
        }
        for index in [INPUT_WEIGHTS + GATES - 1, OUTPUT_STATE, CELL_STATE] {
            inputs.optional(index).ok_or_else(|| OpError::invalid(format!("input {index} is missing")))?;
        }
        let data_type = match Self::arithmetic(inputs)? {
            Arithmetic::Integers => DataType::Int8,
            Arithmetic::Floats | Arithmetic::Dynamic(_) => DataType::Float32,
        };
        for index in [OUTPUT_STATE, CELL_STATE] {
            if !inputs.fact(index).is_variable {
                return Err(OpError::invalid(format!("input {index} is no variable")));
            }
        }
        let inputs = inputs.from(0);
        if inputs.iter().flatten().any(|input| input.shape.is_none()) {
            return Ok(vec![Inferred::unknown(data_type)]);
        }
        let shapes: Vec<_> = inputs.iter().map(|input| input.and_then(|input| input.shape.as_ref())).collect();
        let extents = Extents::new(&shapes, self.layout)?;
        Ok(vec![Inferred::new(data_type, countable(extents.output(self.layout))?)])
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        // Each matrix is copied into a joint one, which is then packed.
        let matrix = |fact: &&Fact| {
            let &[rows, columns] = fact.shape.as_ref()?.extents() else { return None };
            Some(of_weights(fact, packed(DataType::Float32, 1, [rows, columns], columns).saturating_mul(2)))
        };
        let weights =
            (INPUT_WEIGHTS..RECURRENT_WEIGHTS + GATES).chain([PROJECTION]).chain(AUXILIARY_WEIGHTS..WITH_AUXILIARY);
        let weights = weights.filter_map(|index| inputs.optional(index));
        Some(weights.filter_map(|fact| matrix(&fact)).fold(WorkingMemory::default(), |sum, one| WorkingMemory {
            kept: sum.kept.saturating_add(one.kept),
            scratch: sum.scratch.saturating_add(one.scratch),
        }))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let shapes: Vec<_> = eval.inputs.iter().map(|input| input.map(|input| input.shape)).collect();
        let extents = Extents::new(&shapes, self.layout)?;
        let (input, weights) = (eval.input(0)?, eval.input(INPUT_WEIGHTS + GATES - 1)?);
        match Arithmetic::of(input.data_type, weights.data_type)? {
            Arithmetic::Floats => self.run_floats(eval, &extents),
            Arithmetic::Dynamic(_) => {
                let products = Dynamic::new(eval, &extents, self.is_asymmetric)?;
                self.run(eval, &extents, &products)
            }
            Arithmetic::Integers => integers::run(self, eval, &extents),
        }
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let inputs: Vec<_> = (0..WITH_AUXILIARY).map(|index| lowering.has_input(index).then_some(index)).collect();
        let output = self.lower_with(lowering, &inputs)?;
        lowering.output(0, output)
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        // Each step multiplies each sequence by all weights.
        let (_, steps) = (*inputs.first()?)?.split_last()?;
        let weights =
            (INPUT_WEIGHTS..RECURRENT_WEIGHTS + GATES).chain([PROJECTION]).chain(AUXILIARY_WEIGHTS..WITH_AUXILIARY);
        let weights = weights.filter_map(|index| inputs.get(index).copied().flatten());
        let weights = weights.map(|shape| product(shape)).fold(0, u64::saturating_add);
        Some(product(steps).saturating_mul(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shapes of 24 inputs for 3 times, 2 sequences, 4 features, 5 cells and 6 outputs.
    fn shapes() -> Vec<Option<Shape>> {
        let mut shapes = vec![None; NORMS + GATES];
        shapes[0] = Some([2, 3, 4].into());
        for gate in 0..GATES {
            shapes[INPUT_WEIGHTS + gate] = Some([5, 4].into());
            shapes[RECURRENT_WEIGHTS + gate] = Some([5, 6].into());
            shapes[BIASES + gate] = Some([5].into());
        }
        shapes[PROJECTION] = Some([6, 5].into());
        shapes[OUTPUT_STATE] = Some([2, 6].into());
        shapes[CELL_STATE] = Some([2, 5].into());
        shapes
    }

    fn extents(shapes: &[Option<Shape>]) -> Result<Extents, OpError> {
        Extents::new(&shapes.iter().map(Option::as_ref).collect::<Vec<_>>(), Layout::BatchMajor)
    }

    #[test]
    fn shapes_belong_together() {
        let expected = Extents { times: 3, batches: 2, depth: 4, auxiliary: 0, cells: 5, outputs: 6, first_gate: 0 };
        assert_eq!(extents(&shapes()).unwrap(), expected);
        for index in (0..NORMS).filter(|index| shapes()[*index].is_some()) {
            let mut wrong = shapes();
            wrong[index] = Some([7].into());
            assert!(extents(&wrong).is_err(), "{index}");
            wrong[index] = None;
            assert_eq!(extents(&wrong).is_ok(), index == INPUT_WEIGHTS, "{index}");
        }
    }

    #[test]
    fn a_gate_may_be_left_out() {
        let mut shapes = shapes();
        shapes[INPUT_WEIGHTS] = None;
        assert_eq!(extents(&shapes).unwrap().gates(), 3);
    }

    #[test]
    fn states_are_variables() {
        let op = SequenceLstm {
            activation: Activation::Tanh,
            cell_clip: 0.0,
            projection_clip: 0.0,
            layout: Layout::BatchMajor,
            is_reversed: false,
            is_asymmetric: false,
            intermediates: Vec::new(),
        };
        let fact = |(index, shape): (usize, Option<Shape>)| {
            let is_variable = index == OUTPUT_STATE || index == CELL_STATE;
            Some(Fact { is_variable, ..Fact::new(DataType::Float32, shape?) })
        };
        let mut facts: Vec<_> = shapes().into_iter().enumerate().map(fact).collect();
        let infer = |facts: &[Option<Fact>]| {
            op.infer(Facts::checked(INPUTS, &facts.iter().map(Option::as_ref).collect::<Vec<_>>())?)
        };
        assert_eq!(infer(&facts).unwrap(), [Inferred::new(DataType::Float32, [2, 3, 6])]);
        facts[CELL_STATE].as_mut().unwrap().is_variable = false;
        assert!(infer(&facts).is_err());
    }

    #[test]
    fn what_is_normalized_has_no_mean() {
        let mut values = [1.0, 3.0];
        normalize(&mut values);
        assert_eq!(values, [-1.0, 1.0]);
        let mut same = [2.0, 2.0];
        normalize(&mut same);
        assert_eq!(same, [0.0, 0.0]);
        assert_eq!((clip(-3.0, 2.0), clip(-3.0, 0.0)), (-2.0, -3.0));
    }
}
