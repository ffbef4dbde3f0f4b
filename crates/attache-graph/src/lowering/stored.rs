//! Lowering of operators that compute on the stored numbers of quantized tensors, whatever their scales are, where
//! other operators compute on floats ([`Quantized::View`](super::Quantized::View)).

use attache_gpu_ir::{Expression, Primitive, Scalar, ValueId};

use super::{AffineParameters, Lowering, known};
use crate::Unsupported;

impl Lowering<'_> {
    /// Makes the lowering compute on the elements that tensors store, as TensorFlow Lite's kernel of the operator does:
    /// from here on, facts are those that the graph states, values of quantized inputs are integers, and those given as
    /// quantized outputs have to be. Where tensors between nodes hold floats, inputs and outputs are converted.
    pub fn use_stored(&mut self) {
        self.inputs.clone_from(&self.stored.0);
        self.outputs.clone_from(&self.stored.1);
    }

    /// Whether the border of the node's program has floats for a tensor whose elements this lowering takes for integers.
    fn is_converted(&self, index: usize) -> bool {
        self.inputs[index].map(|fact| fact.data_type) != self.border.0[index].map(|fact| fact.data_type)
    }

    /// Adds a quantized input to the program, if it is to be read as the `scalar` of what is stored, and returns its
    /// value. `None` if there is nothing to convert.
    pub(super) fn stored_value(&mut self, index: usize, scalar: Scalar) -> Result<Option<ValueId>, Unsupported> {
        let fact = self.input_fact(index)?;
        let is_quantized = fact.constant.is_none() && fact.quantization.as_ref().is_some_and(|it| !it.scale.is_empty());
        let (read, expression) = match scalar {
            _ if self.is_converted(index) => match AffineParameters::of(fact)? {
                Some(parameters) => (Scalar::F32, parameters.quantize(Expression::Input(0))),
                None => return Ok(None),
            },
            // A partition hands what a quantized tensor stands for to whoever reads it as floats.
            Scalar::F32 if is_quantized => (Scalar::I32, Expression::Input(0)),
            _ => return Ok(None),
        };
        let shape = known(fact)?.clone();
        self.reads.push(index);
        let input = self.program.input(read, shape.clone());
        self.emit(Primitive::Map { expression, shape, scalar }, &[input]).map(Some)
    }

    /// Returns the value of an output as the border of the node's program has it.
    pub(super) fn at_border(&mut self, index: usize, id: ValueId) -> Result<ValueId, Unsupported> {
        let (fact, border) = (self.outputs[index], self.border.1[index]);
        if fact.data_type == border.data_type {
            return Ok(id);
        }
        let Some(parameters) = AffineParameters::of(fact)? else { return Ok(id) };
        let shape = self.program.shape(id).clone();
        self.map(parameters.dequantize(Expression::Input(0)), &shape, &[id])
    }
}
