//! Statistics about a prepared interpreter.

use std::collections::BTreeSet;

/// Statistics about a prepared interpreter, for the subgraph that it runs. Figures about delegates are sums
/// over their partitions.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Number of operators that the subgraph has in the file.
    pub nodes: usize,
    /// Number of operators of the subgraph that delegates run, including operators that the graph passes
    /// removed.
    pub nodes_delegated: usize,
    /// Number of partitions that run on delegates.
    pub partitions: usize,
    /// Number of dispatches that delegates submit in one run.
    pub dispatches: usize,
    /// Names of the kernel variants that the dispatches use; empty if the delegates do not report them.
    pub variants: BTreeSet<&'static str>,
    /// Names of further kernel variants that apply to some of the kernels and were not chosen for them.
    pub alternatives: BTreeSet<&'static str>,
    /// Bytes of device memory for intermediate tensors.
    pub arena_bytes: usize,
    /// Lower bound in bytes on `arena_bytes` for any memory plan.
    pub arena_lower_bound_bytes: usize,
    /// Bytes of device memory for constants.
    pub weights_bytes: usize,
    /// Bytes of inputs and outputs of partitions that were copied between memory of the host and of devices so far; `None`
    /// if a delegate does not count them. What the host writes where a device reads it, or a device where the host reads
    /// it, counts if it crosses a bus.
    pub io_bytes: Option<u64>,
    /// Bytes of tensors that were copied so far to pass them to and from subgraphs and resource variables, and from run
    /// to run ([`Interpreter::carry`](crate::Interpreter::carry)), or because an operator changed a part of one whose old
    /// value was still needed. Large tensors are passed by reference and not counted.
    pub copied_bytes: u64,
    /// Number of partitions that were restored from what an earlier preparation stored.
    pub restored_partitions: usize,
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
    /// Choices that delegates made, each once, such as how quantized tensors are computed.
    pub notes: BTreeSet<String>,
    /// Error message of the delegate that failed and that the CPU replaced; `None` if there was no fallback.
    pub fallback: Option<String>,
    /// Messages of delegates that panicked, which is a bug in the delegate. Either the CPU ran the operators that the
    /// delegate had claimed, or the run failed.
    pub panics: Vec<String>,
    /// Milliseconds that the last preparation took: graph import, graph passes, delegates and memory plan,
    /// without loading the model.
    pub prepare_ms: f64,
}
