//! Prepares any model within small limits, and runs it twice on the CPU. Errors are allowed, panics are not.
#![no_main]

use attache::{Interpreter, Limits, Model};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(model) = Model::from_bytes(bytes.to_vec()) else { return };
    let limits = Limits::default()
        .tensor_bytes(1 << 22)
        .arena_bytes(1 << 24)
        .operators(64)
        .multiply_adds(1 << 24)
        .loop_steps(1_000);
    let Ok(mut interpreter) = Interpreter::builder(&model).threads(1).limits(limits).build() else { return };
    for fill in [0, 0x3f] {
        for input in 0..interpreter.inputs().len() {
            if let Ok(bytes) = interpreter.input_bytes_mut(input) {
                bytes.fill(fill);
            }
        }
        if interpreter.invoke().is_err() {
            return;
        }
    }
});
