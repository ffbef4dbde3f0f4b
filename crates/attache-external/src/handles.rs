#![allow(unsafe_code)]
//! Handles of buffers that a program sets for tensors of an interpreter, outside of any partition.

use std::ffi::c_char;
use std::ptr::NonNull;

use attache_abi::report::{ContextHead, context_report, text_from_c};
use attache_abi::{NULL_BUFFER_HANDLE, TfLiteContext, TfLiteStatus, TfLiteTensor};

use crate::guard::guard;
use crate::source::Source;

unsafe extern "C" fn log(_context: *mut TfLiteContext, text: *const c_char) {
    guard((), || {
        // SAFETY: the text ends with a zero byte.
        let text = unsafe { text_from_c(text) }.unwrap_or_default();
        tracing::error!("a delegate reports: {text}");
    });
}

/// Calls `call` with the delegate of a tensor, and with a context that shows nothing and logs errors. Returns `None` if the
/// tensor has no delegate or no handle.
///
/// # Safety
///
/// The tensor is valid, and so is its delegate, if it has one.
unsafe fn with<T>(
    tensor: *mut TfLiteTensor,
    call: impl FnOnce(&Source, *mut TfLiteContext, *mut TfLiteTensor) -> T,
) -> Option<T> {
    // SAFETY: the caller states that the tensor is valid.
    let (delegate, handle) = unsafe { ((*tensor).delegate, (*tensor).buffer_handle) };
    let delegate = NonNull::new(delegate).filter(|_| handle != NULL_BUFFER_HANDLE)?;
    // SAFETY: the caller states that the delegate is valid; its functions have the types of the interface.
    let source = unsafe { Source::new(delegate, None) };
    let mut head = ContextHead { report: Some(log) };
    let mut context =
        TfLiteContext { impl_: (&raw mut head).cast(), ReportError: Some(context_report), ..TfLiteContext::empty() };
    let _lock = source.lock();
    Some(call(&source, &raw mut context, tensor))
}

/// Has the delegate of a tensor copy the buffer of the tensor's handle to its memory. An error if it has none.
///
/// # Safety
///
/// The tensor is valid, nothing else uses it, and its delegate is valid, if it has one.
pub unsafe fn copy_from_handle(tensor: *mut TfLiteTensor) -> TfLiteStatus {
    // SAFETY: the caller states it; the context lives as long as the call, and the lock is held.
    let status = unsafe { with(tensor, |source, context, tensor| source.read(context, tensor)) };
    status.unwrap_or(TfLiteStatus::ERROR)
}

/// Has the delegate of a tensor free the buffer of the tensor's handle, if there is one. The tensor has none then.
///
/// # Safety
///
/// As [`copy_from_handle`].
pub unsafe fn free_handle(tensor: *mut TfLiteTensor) {
    // SAFETY: as above.
    unsafe { with(tensor, |source, context, tensor| source.free_handle(context, tensor)) };
}
