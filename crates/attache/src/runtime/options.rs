//! Options of an interpreter, as the preparation of its subgraphs uses them.

use attache_ops::OpResolver;

use crate::Limits;
use crate::delegate::guard::Delegates;

/// Options of an interpreter: threads of the CPU kernels, delegates in the order in which they claim nodes,
/// whether delegation is required, whether the CPU takes over after a device failure, and limits.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) threads: usize,
    pub(crate) delegates: Delegates,
    pub(crate) required: bool,
    pub(crate) cpu_fallback: bool,
    /// Whether runs record the time of each node on the CPU.
    pub(crate) profile: bool,
    pub(crate) limits: Limits,
    /// The operators that the program registered.
    pub(crate) resolver: OpResolver,
}

impl Options {
    /// Creates options for `threads` threads and these limits, without delegates and without the CPU
    /// fallback.
    pub(crate) fn new(threads: usize, limits: &Limits) -> Self {
        let (delegates, resolver) = Default::default();
        let (required, cpu_fallback, profile) = (false, false, false);
        Self { threads, delegates, required, cpu_fallback, profile, limits: limits.clone(), resolver }
    }
}
