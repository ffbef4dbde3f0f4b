//! Scratch memory for tasks, kept per thread and reused by later tasks.

use std::cell::RefCell;

use bytemuck::Pod;

use crate::AlignedFloats;

thread_local! {
    /// Buffers of this thread that no call of [`with`] currently uses. Calls nest; because the buffers form a
    /// stack, each nesting level gets the buffer that it used last time.
    static BUFFERS: RefCell<Vec<AlignedFloats>> = const { RefCell::new(Vec::new()) };
}

/// Calls `body` with a slice of `length` elements with unspecified contents, taken from the thread's buffers,
/// and returns what `body` returns.
pub fn with<T: Pod, R>(length: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
    let mut buffer = BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
    let floats = (length * size_of::<T>()).div_ceil(size_of::<f32>());
    if buffer.len() < floats {
        buffer = AlignedFloats::zeros(floats);
    }
    let result = body(&mut bytemuck::cast_slice_mut(&mut buffer[..floats])[..length]);
    BUFFERS.with_borrow_mut(|buffers| buffers.push(buffer));
    result
}
