//! Memory that a task needs while it runs, kept by its thread from one task to the next.

use std::cell::RefCell;

thread_local! {
    static BUFFER: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

/// Gives `work` a slice of `length` elements that hold anything at all.
pub(crate) fn with<R>(length: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    let mut buffer = BUFFER.take(); // a nested call gets a buffer of its own
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    let result = work(&mut buffer[..length]);
    BUFFER.set(buffer);
    result
}
