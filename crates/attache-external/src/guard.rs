//! Keeps panics on this side of the boundary to C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls `call`, and returns `otherwise` if it panics. The panic's message is logged.
pub(crate) fn guard<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        // Dropping the payload may panic as well.
        std::mem::forget(payload);
        tracing::error!("a function that C code called panicked, which is a bug in Attaché: {text}");
        otherwise
    })
}
