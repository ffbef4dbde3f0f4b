//! Matrix products of float activations and 8-bit weights: at each step, inputs, outputs and the projection's
//! input are quantized to bytes, with one scale for each sequence. Source: TensorFlow Lite's
//! `LstmStepHybrid`.

use attache_graph::{Eval, OpError};

use super::{
    AUXILIARY_WEIGHTS, BIASES, Extents, GATES, INPUT_WEIGHTS, NORMS, PROJECTION, PROJECTION_BIAS, Products,
    RECURRENT_WEIGHTS, optional,
};
use crate::shared::byte_products::{Bytes, Matrix};

/// The weight matrices of one gate, for the input and for the previous output.
struct Gate<'a> {
    input: Matrix<'a>,
    /// The weights of the second input, where there is one.
    auxiliary: Option<Matrix<'a>>,
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
            let auxiliary = eval.optional(AUXILIARY_WEIGHTS + gate);
            Ok::<_, OpError>(Gate {
                input: Matrix::new(&eval.input(INPUT_WEIGHTS + gate)?)?,
                auxiliary: auxiliary.map(|weights| Matrix::new(&weights)).transpose()?,
                recurrent: Matrix::new(&eval.input(RECURRENT_WEIGHTS + gate)?)?,
                biases: if is_normalized { None } else { Some(eval.input(BIASES + gate)?.values()?) },
            })
        };
        let projection = eval
            .optional(PROJECTION)
            .map(|weights| Ok::<_, OpError>((Matrix::new(&weights)?, optional(eval, PROJECTION_BIAS)?)));
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
        let features = self.extents.features();
        for (batch, sums) in sums.chunks_exact_mut(self.gates.len() * cells).enumerate().take(batches) {
            let (input, other) = input[batch * features..][..features].split_at(depth);
            let [input, other] = [input, other].map(|values| Bytes::new(values, self.is_asymmetric));
            let output = Bytes::new(&output[batch * outputs..][..outputs], self.is_asymmetric);
            for (gate, sums) in self.gates.iter().zip(sums.chunks_exact_mut(cells)) {
                start(sums, gate.biases);
                gate.input.add_to(sums, &input);
                if let Some(auxiliary) = &gate.auxiliary {
                    auxiliary.add_to(sums, &other);
                }
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
