#![allow(unsafe_code)]
//! Delegates in C, which Python loaded.

use attache_abi::TfLiteDelegate;
use attache_external::ExternalDelegate;

use crate::fault::Fault;

/// Takes a delegate by the address of its `TfLiteDelegate`. The object of Python that gave the address is kept as long as the
/// interpreter.
pub(crate) fn delegate_at(address: usize, name: &str) -> Result<ExternalDelegate, Fault> {
    let delegate = std::ptr::with_exposed_provenance_mut::<TfLiteDelegate>(address);
    // SAFETY: a library made the delegate for the program, whose object destroys it at its end. Interpreters keep the object,
    // and call the delegate from one thread at a time.
    let delegate = unsafe { ExternalDelegate::from_raw(delegate, name) };
    delegate.map_err(|error| Fault::new(error.to_string()))
}
