#![allow(unsafe_code)]
//! Which delegate of Attaché a `TfLiteDelegate` of C code is.

use std::sync::Arc;

use attache::Delegate;
use attache_abi::TfLiteDelegate;
use attache_external::ExternalDelegate;

use crate::cpu_delegate::is_cpu;
use crate::fault::Fault;
use crate::guard::exports;

/// Returns the delegate at a pointer of C code; `None` if it stands for the CPU.
pub(crate) fn delegate_at(delegate: *mut TfLiteDelegate) -> Result<Option<Arc<dyn Delegate>>, Fault> {
    if delegate.is_null() {
        return Err(Fault::new("null where a delegate is expected; the CPU is used instead"));
    }
    if is_cpu(delegate) {
        return Ok(None);
    }
    #[cfg(feature = "gpu")]
    if let Some(gpu) = crate::gpu_delegate::delegate_at(delegate) {
        return Ok(Some(gpu));
    }
    // SAFETY: the program passes a valid delegate, which stays valid as long as interpreters that use it.
    let foreign = unsafe { ExternalDelegate::from_raw(delegate, "delegate") };
    foreign.map(|foreign| Some(Arc::new(foreign) as Arc<dyn Delegate>)).map_err(|error| Fault::new(error.to_string()))
}

exports! {
    /// Returns a delegate without functions and data, for programs that fill in their own.
    fn TfLiteDelegateCreate() -> TfLiteDelegate {
        TfLiteDelegate::empty()
    } else TfLiteDelegate::empty();
}
