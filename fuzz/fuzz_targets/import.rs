//! Every operator of any model is parsed and its shapes are inferred, or it is an error.
#![no_main]

use attache::Model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes.to_vec()) else { return };
    for subgraph in 0..model.subgraphs().len() {
        let (graph, errors) = attache_ops::import(&model, subgraph, &[]);
        if errors.is_empty() {
            // An order that is wrong is an error too, but none that may panic.
            let _ = graph.validate();
        }
    }
});
