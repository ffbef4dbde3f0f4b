//! Exports an operator of a trace as a separate model with its inputs and outputs, for use as a golden test
//! case.

use std::collections::HashMap;

use attache_base::{DataType, Shape};
use attache_graph::TensorId;
use attache_model::{ModelBuilder, OperatorBuilder, TensorBuilder};

use super::Trace;
use super::trace::origin;
use crate::{Error, ErrorKind};

/// A dense tensor with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Data type of the elements.
    pub data_type: DataType,
    /// Extents, outermost first.
    pub shape: Shape,
    /// The elements, little-endian.
    pub bytes: Vec<u8>,
}

/// An operator as a separate model, with the inputs and outputs of its run on the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Index of the operator in its subgraph of the original file.
    pub operator: usize,
    /// TensorFlow Lite's name of the operator.
    pub name: String,
    /// The bytes of the `.tflite` file.
    pub model: Vec<u8>,
    /// The values of the model's inputs in the run, in the model's order.
    pub inputs: Vec<Array>,
    /// The values that the CPU computed for the model's outputs, in the model's order.
    pub outputs: Vec<Array>,
}

impl Trace {
    /// Exports the operator of a node as a separate model. The model contains the operator's options as the
    /// file has them, the constants that the operator reads, and inputs and outputs with the shapes and
    /// values of the run.
    ///
    /// # Errors
    ///
    /// If the node does not exist, if its operator has side effects or runs other subgraphs, or if one of its
    /// tensors has no value or has an extent that a file cannot represent.
    pub fn case(&self, node: usize) -> Result<Case, Error> {
        let node = self.node(node)?;
        let (operator, place) = (origin(node), node.place(self.subgraph).unwrap_or_default());
        if node.op.has_side_effects() {
            let text = format!("operator {operator} ({}) runs other subgraphs: it is no case by itself", node.label());
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let mut builder = ModelBuilder::new(node.op.name());
        builder.subgraph("main");
        let mut tensors: HashMap<TensorId, usize> = HashMap::new();
        for id in node.inputs.iter().flatten().chain(&node.outputs) {
            if !tensors.contains_key(id) {
                tensors.insert(*id, builder.tensor(0, self.tensor(*id)?));
            }
        }
        let (fed, made) = (self.fed(node), &node.outputs);
        let indices = |ids: &[TensorId]| ids.iter().map(|id| tensors[id]).collect::<Vec<_>>();
        let inputs = node.inputs.iter().map(|id| id.map(|id| tensors[&id]));
        let description = self.describe(place, inputs.collect(), indices(made), &mut builder);
        builder.operator(0, description);
        builder.inputs(0, &indices(&fed)).outputs(0, &indices(made));
        let arrays = |ids: &[TensorId]| ids.iter().map(|id| self.array(*id)).collect::<Result<Vec<_>, _>>();
        let (inputs, outputs) = (arrays(&fed)?, arrays(made)?);
        Ok(Case { operator, name: node.label(), model: builder.finish(), inputs, outputs })
    }

    fn array(&self, id: TensorId) -> Result<Array, Error> {
        let (shape, bytes) = self.value(id).ok_or_else(|| self.unfit(id))?;
        Ok(Array { data_type: self.graph.fact(id).data_type, shape: shape.clone(), bytes: bytes.to_vec() })
    }

    fn unfit(&self, id: TensorId) -> Error {
        let text = format!("tensor {} (\"{}\") can't be part of a case", id.index(), self.graph.tensor(id).name);
        Error::new(ErrorKind::Unsupported, text)
    }

    fn tensor(&self, id: TensorId) -> Result<TensorBuilder, Error> {
        let (name, fact) = (&self.graph.tensor(id).name, self.graph.fact(id));
        let shape = match self.value(id) {
            Some((shape, _)) => shape,
            None => fact.shape.as_ref().ok_or_else(|| self.unfit(id))?,
        };
        if shape.iter().any(|extent| i32::try_from(*extent).is_err()) {
            return Err(self.unfit(id));
        }
        let mut tensor = match &fact.constant {
            Some(constant) => TensorBuilder::constant(name, constant),
            None => TensorBuilder::new(name, fact.data_type, shape.clone()),
        };
        if let Some(quantization) = &fact.quantization {
            tensor = tensor.quantization(quantization);
        }
        Ok(if fact.is_variable { tensor.variable() } else { tensor })
    }

    /// Returns the operator with this index in this subgraph as the file describes it, but with the tensors `inputs` and
    /// `outputs` of the new model. Adds its intermediate tensors to `builder`.
    fn describe(
        &self,
        (subgraph, operator): (usize, usize),
        inputs: Vec<Option<usize>>,
        outputs: Vec<usize>,
        builder: &mut ModelBuilder,
    ) -> OperatorBuilder {
        let source = &self.model.subgraphs()[subgraph];
        let stated = &source.operators[operator];
        let table = self.model.operator_view(subgraph, operator).unpack();
        let options = stated.custom_options.as_ref().map(|bytes| bytes.to_vec());
        let description = match &stated.code.custom {
            Some(name) => OperatorBuilder::custom(name, options.unwrap_or_default(), inputs, outputs),
            None => OperatorBuilder::new(stated.code.builtin, inputs, outputs),
        };
        let intermediate = |index: &usize| {
            let tensor = &source.tensors[*index];
            let plain = TensorBuilder::new(&tensor.name, tensor.data_type, tensor.shape.clone());
            let quantized = tensor.quantization.as_ref().map(|quantization| plain.clone().quantization(quantization));
            builder.tensor(0, quantized.unwrap_or(plain))
        };
        let intermediates: Vec<_> = stated.intermediates.iter().map(intermediate).collect();
        let described = description.version(stated.code.version).with(|written| {
            written.builtin_options = table.builtin_options;
            written.builtin_options_2 = table.builtin_options_2;
            written.mutating_variable_inputs = table.mutating_variable_inputs;
        });
        if intermediates.is_empty() { described } else { described.intermediates(&intermediates) }
    }
}
