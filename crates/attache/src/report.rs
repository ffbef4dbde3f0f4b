//! Statistics about a prepared interpreter.

use std::collections::BTreeSet;

/// Statistics about a prepared interpreter. Figures of delegates are sums over their partitions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Number of operators in the file.
    pub nodes: usize,
    /// Number of operators in the file that delegates run, including operators that were folded away.
    pub nodes_delegated: usize,
    /// Number of partitions that run on delegates.
    pub partitions: usize,
    /// Dispatches of one run on delegates.
    pub dispatches: usize,
    /// The kernel variants in use, if the delegate names them.
    pub variants: BTreeSet<&'static str>,
    /// Kernel variants that could have been used for some of the dispatches.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of device memory for intermediate tensors.
    pub arena_bytes: usize,
    /// Lower bound in bytes on `arena_bytes` for any memory plan.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of device memory for constants.
    pub weights_bytes: usize,
    /// Milliseconds spent on compiling pipelines.
    pub compile_ms: f64,
    /// Milliseconds spent on packing and uploading constants, excluding the time that overlapped with pipeline
    /// compilation.
    pub upload_ms: f64,
    /// Bytes of the CPU's arena: inputs, outputs, tensors of operators on the CPU, and tensors exchanged with
    /// delegates.
    pub cpu_arena_bytes: usize,
    /// Lower bound in bytes on `cpu_arena_bytes` for any memory plan.
    pub cpu_arena_lower_bound_bytes: usize,
    /// Why the CPU took over from a delegate that failed; `None` if that did not happen.
    pub fallback: Option<String>,
    /// Messages of delegates that panicked, which is a bug in the delegate. Either the CPU ran the operators that the
    /// delegate had claimed, or the run failed.
    pub panics: Vec<String>,
    /// Milliseconds from the loaded model to an interpreter that is ready to run.
    pub prepare_ms: f64,
}
