//! Options of an interpreter.

use crate::Limits;
use crate::delegate::guard::Delegates;

/// Options of an interpreter.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) threads: usize,
    pub(crate) delegates: Delegates,
    pub(crate) required: bool,
    pub(crate) cpu_fallback: bool,
    pub(crate) limits: Limits,
}

impl Options {
    /// Options without delegates.
    pub(crate) fn new(threads: usize, limits: &Limits) -> Self {
        Self { threads, delegates: Delegates::default(), required: false, cpu_fallback: false, limits: limits.clone() }
    }
}
