//! Figures about a prepared interpreter.

use std::collections::BTreeSet;

/// What preparing an interpreter came to. Figures of delegates are sums over their partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Operators of the file.
    pub nodes: usize,
    /// Operators of the file that delegates took, with those that needed no work of their own any more.
    pub nodes_delegated: usize,
    /// Islands that run on delegates.
    pub partitions: usize,
    /// Dispatches of one run on delegates.
    pub dispatches: usize,
    /// The forms in which dispatches were written, where a delegate names such.
    pub variants: BTreeSet<&'static str>,
    /// Forms in which some of them could have been written as well.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of device memory for intermediate tensors.
    pub arena_bytes: usize,
    /// The least that any plan could need for them.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of device memory for constants.
    pub weights_bytes: usize,
    /// Milliseconds spent on making pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, but for those in which pipelines were made meanwhile.
    pub upload_ms: f64,
    /// Bytes of the CPU's arena: inputs, outputs, what runs on the CPU, and what crosses to delegates.
    pub cpu_arena_bytes: usize,
    /// The least that any plan could need for them.
    pub cpu_arena_lower_bound_bytes: usize,
    /// Why the CPU took over from a delegate that failed; `None` where none did.
    pub fallback: Option<String>,
    /// What delegates said that panicked, which is a bug in them. The CPU runs what they had claimed, or the run failed.
    pub panics: Vec<String>,
    /// Milliseconds from the model to an interpreter that is ready to run.
    pub prepare_ms: f64,
}
