//! Functions of the program's that runs ask whether they are to end.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A function that returns true where a run is to end.
type Function = Arc<dyn Fn() -> bool + Send + Sync>;

/// The function that runs of an interpreter ask, if there is one.
#[derive(Default)]
pub(super) struct Asking(Mutex<Asked>);

/// The function that a run asks, if there is one.
#[derive(Clone, Default)]
pub(super) struct Asked(Option<Function>);

impl Asking {
    pub(super) fn set(&self, function: Option<Function>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Asked(function);
    }

    /// Returns what a run that starts now asks.
    pub(super) fn now(&self) -> Asked {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Asked {
    /// Whether there is a function.
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the function says that the run is to end.
    pub(super) fn ends(&self) -> bool {
        self.0.as_ref().is_some_and(|function| function())
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asked").field(&self.is_some()).finish()
    }
}
