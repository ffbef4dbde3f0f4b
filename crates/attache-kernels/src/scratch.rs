//! Memory that a task needs while it runs, kept by its thread from one task to the next.

use std::cell::RefCell;

use bytemuck::Pod;

use crate::AlignedFloats;

thread_local! {
    /// The buffers that nobody uses now. Calls nest, so that each gets the one that it had the last time.
    static BUFFERS: RefCell<Vec<AlignedFloats>> = const { RefCell::new(Vec::new()) };
}

/// Gives `work` a slice of `length` elements that hold anything at all.
pub(crate) fn with<T: Pod, R>(length: usize, work: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    let floats = (length * size_of::<T>()).div_ceil(size_of::<f32>());
    if buffer.len() < floats {
        buffer = AlignedFloats::zeros(floats);
    }
    let result = work(&mut bytemuck::cast_slice_mut(&mut buffer)[..length]);
    BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
    result
}
