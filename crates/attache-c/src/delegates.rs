#![allow(unsafe_code)]
//! Which delegate of Attaché a `TfLiteDelegate` of C code is.

use std::sync::Arc;

use attache::Delegate;
use attache_abi::TfLiteDelegate;
use attache_external::ExternalDelegate;

use crate::bound::Device;
use crate::cpu_delegate::is_cpu;
use crate::fault::Fault;
use crate::guard::exports;

/// A delegate that C code refers to.
pub(crate) enum Found {
    /// It stands for the CPU.
    Cpu,
    #[cfg_attr(not(feature = "gpu"), allow(dead_code))]
    Own(Arc<dyn Delegate>, Device),
    External(Arc<ExternalDelegate>),
}

/// Returns the delegate at a pointer of C code.
pub(crate) fn delegate_at(delegate: *mut TfLiteDelegate) -> Result<Found, Fault> {
    if delegate.is_null() {
        return Err(Fault::new("null where a delegate is expected; the CPU is used instead"));
    }
    if is_cpu(delegate) {
        return Ok(Found::Cpu);
    }
    if let Some(external) = crate::external_delegate::delegate_at(delegate) {
        return Ok(Found::External(external));
    }
    #[cfg(feature = "gpu")]
    if let Some(gpu) = crate::gpu_delegate::delegate_at(delegate) {
        let device = gpu.device().clone();
        return Ok(Found::Own(gpu, device));
    }
    // SAFETY: the program passes a valid delegate, which stays valid as long as interpreters that use it.
    let foreign = unsafe { ExternalDelegate::from_raw(delegate, "delegate") };
    foreign.map(|foreign| Found::External(Arc::new(foreign))).map_err(|error| Fault::new(error.to_string()))
}

/// Whether a delegate is one that this library made.
pub(crate) fn is_own(delegate: *mut TfLiteDelegate) -> bool {
    #[cfg(feature = "gpu")]
    if crate::gpu_delegate::delegate_at(delegate).is_some() {
        return true;
    }
    is_cpu(delegate) || crate::external_delegate::delegate_at(delegate).is_some()
}

exports! {
    /// Returns a delegate without functions and data, for programs that fill in their own.
    fn TfLiteDelegateCreate() -> TfLiteDelegate {
        TfLiteDelegate::empty()
    } else TfLiteDelegate::empty();
}
