//! Reads any bytes as a model, and visits the descriptors of the model. Errors are allowed, panics are not.
#![no_main]

use attache::Model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes.to_vec()) else { return };
    for subgraph in model.subgraphs() {
        let (tensors, operators) = (&subgraph.tensors, &subgraph.operators);
        assert!(subgraph.inputs.iter().chain(&subgraph.outputs).all(|index| *index < tensors.len()));
        for operator in operators {
            assert!(operator.inputs.iter().flatten().chain(&operator.outputs).all(|index| *index < tensors.len()));
        }
        assert!(tensors.iter().all(|tensor| tensor.shape.checked_elements().is_some()));
    }
});
