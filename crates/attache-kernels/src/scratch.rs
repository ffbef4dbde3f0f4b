//! Memory that a task needs while it runs, kept by its thread from one task to the next.

use std::cell::RefCell;

use crate::AlignedFloats;

thread_local! {
    static BUFFER: RefCell<AlignedFloats> = RefCell::new(AlignedFloats::default());
}

/// Gives `work` a slice of `length` elements that hold anything at all.
pub(crate) fn with<R>(length: usize, work: impl FnOnce(&mut [f32]) -> R) -> R {
    let mut buffer = BUFFER.take(); // a nested call gets a buffer of its own
    if buffer.len() < length {
        buffer = AlignedFloats::zeros(length);
    }
    let result = work(&mut buffer[..length]);
    BUFFER.set(buffer);
    result
}
