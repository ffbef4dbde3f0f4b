//! A draft as a float model, and arrays as files.

use attache::{ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::draft::{Draft, Elements, Id, Kind, Value};

/// A model and the elements of its inputs: numpy's name for their type, the shape, the bytes.
pub(crate) struct Written {
    pub(crate) model: Vec<u8>,
    pub(crate) inputs: Vec<(&'static str, Vec<usize>, Vec<u8>)>,
}

/// A model of the draft that gives these outputs. Tensors have the values' numbers.
pub(crate) fn model(draft: &Draft, outputs: &[Id]) -> Vec<u8> {
    let mut model = ModelBuilder::new("random graph");
    model.subgraph("main");
    for (id, value) in draft.values.iter().enumerate() {
        model.tensor(0, tensor(&name(value, id), value));
    }
    for node in &draft.nodes {
        let (code, version) = node.operator;
        let operator = OperatorBuilder::new(code, node.inputs.iter().copied(), node.outputs.iter().copied());
        model.operator(0, operator.options(node.options.clone()).version(version));
    }
    model.inputs(0, &inputs(draft)).outputs(0, outputs);
    model.finish()
}

/// The inputs, in order.
pub(crate) fn inputs(draft: &Draft) -> Vec<Id> {
    (0..draft.values.len()).filter(|id| draft.values[*id].kind == Kind::Input).collect()
}

pub(crate) fn name(value: &Value, id: Id) -> String {
    let stem = match value.kind {
        Kind::Input => "input",
        Kind::Constant => "constant",
        Kind::Result => "value",
        Kind::Setting => "setting",
    };
    format!("{stem}{id}")
}

/// The value as the float model has it.
pub(crate) fn tensor(name: &str, value: &Value) -> TensorBuilder {
    match (&value.elements, value.kind) {
        (Some(elements), Kind::Constant | Kind::Setting) => elements.tensor(name, &value.shape),
        _ => TensorBuilder::new(name, value.of_type.data_type(), value.shape.clone()),
    }
}

/// An array as numpy's files of version 1 have it. `kind` is numpy's name for the elements' type.
pub(crate) fn npy(kind: &str, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({extents}), }}");
    // The preamble has 10 bytes, the line its end; together they fill blocks of 64.
    header.push_str(&" ".repeat((header.len() + 11).next_multiple_of(64) - header.len() - 11));
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

impl Elements {
    /// Little-endian, after numpy's name for their type.
    pub(crate) fn bytes(&self) -> (&'static str, Vec<u8>) {
        match self {
            Elements::Floats(floats) => ("<f4", floats.iter().flat_map(|float| float.to_le_bytes()).collect()),
            Elements::Integers(integers) => ("<i4", integers.iter().flat_map(|int| int.to_le_bytes()).collect()),
            Elements::Booleans(booleans) => ("|b1", booleans.iter().map(|boolean| u8::from(*boolean)).collect()),
        }
    }
}
