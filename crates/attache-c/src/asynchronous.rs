//! `TfLiteBackendBuffer` and `TfLiteSynchronization`, which hold a pointer of the program's for asynchronous kernels.
//! Attaché has no asynchronous kernels; these exist so that programs link.

use std::ffi::c_void;

use crate::fault::Reporter;
use crate::guard::exports;
use crate::live::{self, Kind, Object};

/// A pointer to a buffer of hardware.
#[derive(Debug)]
pub(crate) struct TfLiteBackendBuffer(*mut c_void);

/// A pointer to an object that signals.
#[derive(Debug)]
pub(crate) struct TfLiteSynchronization(*mut c_void);

impl Object for TfLiteBackendBuffer {
    const KIND: Kind = Kind::BackendBuffer;
    const NAME: &'static str = "TfLiteBackendBuffer";
}

impl Object for TfLiteSynchronization {
    const KIND: Kind = Kind::Synchronization;
    const NAME: &'static str = "TfLiteSynchronization";
}

exports! {
    /// Makes a buffer without a pointer.
    fn TfLiteBackendBufferCreate() -> *mut TfLiteBackendBuffer {
        live::give(Box::new(TfLiteBackendBuffer(std::ptr::null_mut())))
    } else std::ptr::null_mut();

    /// Deletes a buffer, but not what it points to. Does nothing for null.
    fn TfLiteBackendBufferDelete(buffer: *mut TfLiteBackendBuffer) {
        Reporter::default().settle(live::take(buffer).map(drop), ());
    } else ();

    /// Sets the pointer.
    fn TfLiteBackendBufferSetPtr(buffer: *mut TfLiteBackendBuffer, pointer: *mut c_void) {
        Reporter::default().settle(live::get_mut(buffer).map(|buffer| buffer.0 = pointer), ());
    } else ();

    /// Returns the pointer.
    fn TfLiteBackendBufferGetPtr(buffer: *const TfLiteBackendBuffer) -> *mut c_void {
        Reporter::default().settle(live::get(buffer).map(|buffer| buffer.0), std::ptr::null_mut())
    } else std::ptr::null_mut();

    /// Makes an object without a pointer.
    fn TfLiteSynchronizationCreate() -> *mut TfLiteSynchronization {
        live::give(Box::new(TfLiteSynchronization(std::ptr::null_mut())))
    } else std::ptr::null_mut();

    /// Deletes an object, but not what it points to. Does nothing for null.
    fn TfLiteSynchronizationDelete(object: *mut TfLiteSynchronization) {
        Reporter::default().settle(live::take(object).map(drop), ());
    } else ();

    /// Sets the pointer.
    fn TfLiteSynchronizationSetPtr(object: *mut TfLiteSynchronization, pointer: *mut c_void) {
        Reporter::default().settle(live::get_mut(object).map(|object| object.0 = pointer), ());
    } else ();

    /// Returns the pointer.
    fn TfLiteSynchronizationGetPtr(object: *const TfLiteSynchronization) -> *mut c_void {
        Reporter::default().settle(live::get(object).map(|object| object.0), std::ptr::null_mut())
    } else std::ptr::null_mut();
}
