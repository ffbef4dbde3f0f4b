//! Parses every operator of any model and infers shapes. Errors are allowed, panics are not.
#![no_main]

use attache::Model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes.to_vec()) else { return };
    let resolver = attache_ops::OpResolver::new();
    for subgraph in 0..model.subgraphs().len() {
        let (graph, errors) = attache_ops::import(&model, subgraph, &[], &resolver);
        if errors.is_empty() {
            // Validation may return an error, e.g. for a wrong order of the operators, but must not panic.
            let _ = graph.validate();
        }
    }
});
