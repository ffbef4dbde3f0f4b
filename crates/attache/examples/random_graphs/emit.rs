//! Serialization of a draft as a float model, and of arrays as `.npy` files.

use attache::{ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::draft::{Draft, Elements, Id, Kind, Value};

/// A model and its inputs: for each input NumPy's type code, the shape and the bytes.
pub(crate) struct Written {
    pub(crate) model: Vec<u8>,
    pub(crate) inputs: Vec<(&'static str, Vec<usize>, Vec<u8>)>,
}

/// The float model of the draft with these outputs. The index of a tensor is the index of its value.
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

/// The inputs of the draft, in order.
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

/// The tensor of a value in the float model.
pub(crate) fn tensor(name: &str, value: &Value) -> TensorBuilder {
    match (&value.elements, value.kind) {
        (Some(elements), Kind::Constant | Kind::Setting) => elements.tensor(name, &value.shape),
        _ => TensorBuilder::new(name, value.of_type.data_type(), value.shape.clone()),
    }
}

/// Encodes an array as a `.npy` file of version 1.0. `kind` is NumPy's code for the element type.
pub(crate) fn npy(kind: &str, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let extents: String = shape.iter().map(|extent| format!("{extent},")).collect();
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({extents}), }}");
    // The preamble has 10 bytes, and the header ends with a newline. Their total length is a multiple of 64.
    header.push_str(&" ".repeat((header.len() + 11).next_multiple_of(64) - header.len() - 11));
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

impl Elements {
    /// NumPy's code for the element type, and the elements as little-endian bytes.
    pub(crate) fn bytes(&self) -> (&'static str, Vec<u8>) {
        match self {
            Elements::Floats(floats) => ("<f4", floats.iter().flat_map(|float| float.to_le_bytes()).collect()),
            Elements::Integers(integers) => ("<i4", integers.iter().flat_map(|int| int.to_le_bytes()).collect()),
            Elements::Booleans(booleans) => ("|b1", booleans.iter().map(|boolean| u8::from(*boolean)).collect()),
        }
    }
}
