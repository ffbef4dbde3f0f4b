#![allow(unsafe_code)]
//! Keeps panics inside: they would end the program where they reach C.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::fault::{Fault, Reporter};

/// Declares functions of the C interface, exported under their names. A panic makes a function report an error and
/// return what follows `else`.
macro_rules! exports {
    ($(
        $(#[$about:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block else $failed:expr;
    )*) => {$(
        $(#[$about])*
        #[allow(non_snake_case, unsafe_code)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            crate::guard::guard($failed, move || $body)
        }
    )*};
}

pub(crate) use exports;

/// Returns what `call` returns, or `failed` if it panics.
pub(crate) fn guard<T>(failed: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        Reporter::default().report(&message(&*panic));
        failed
    })
}

/// Returns what `call` returns; a panic is an error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(Fault::new(message(&*panic))))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    format!("Attaché failed within itself: {text}. Please report it.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_value_and_an_error() {
        assert_eq!(guard(3, || panic!("planted")), 3);
        let fault = guarded::<()>(|| panic!("planted {}", 1)).unwrap_err();
        assert!(fault.text.contains("planted 1"), "{}", fault.text);
    }
}
