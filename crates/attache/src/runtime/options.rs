//! Options of an interpreter, as the preparation of its subgraphs uses them.

use std::path::PathBuf;
use std::sync::Arc;

use attache_base::{Idle, IntegerRounding};
use attache_graph::{Graph, TensorId};
use attache_model::Model;
use attache_ops::OpResolver;

use crate::Limits;
use crate::cache::{OpenPacked, PackedWeights};
use crate::delegate::guard::Delegates;

/// Maximum number of threads that an interpreter has by default.
const DEFAULT_THREADS: usize = 4;

/// Returns the number of threads that an interpreter has by default.
pub(crate) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get()).min(DEFAULT_THREADS)
}

/// Options of an interpreter: threads of the CPU kernels, delegates in the order in which they claim nodes,
/// whether delegation is required, whether the CPU takes over after a device failure, and limits.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) threads: usize,
    /// What the threads do when they have no work.
    pub(crate) idle: Idle,
    /// How the CPU rounds results of quantized operators.
    pub(crate) rounding: IntegerRounding,
    pub(crate) delegates: Delegates,
    pub(crate) required: bool,
    pub(crate) cpu_fallback: bool,
    /// Whether inputs and outputs have memory at addresses that stay.
    pub(crate) fixed_addresses: bool,
    /// Whether runs record the time of each node on the CPU.
    pub(crate) profile: bool,
    pub(crate) limits: Limits,
    /// The tensors that are kept for the caller, in addition to outputs.
    pub(crate) kept: KeptTensors,
    /// The operators that the program registered.
    pub(crate) resolver: OpResolver,
    /// The folder where packed weights are stored, and what opens it.
    pub(crate) cache: Option<(PathBuf, OpenPacked)>,
    /// The caller's name for the content of the model.
    pub(crate) model_token: Option<String>,
}

impl Options {
    /// Creates options for `threads` threads and these limits, without delegates and without the CPU
    /// fallback.
    pub(crate) fn new(threads: usize, limits: &Limits) -> Self {
        let (idle, rounding, delegates, kept, resolver, cache, model_token) = Default::default();
        let (required, cpu_fallback, fixed_addresses, profile) = Default::default();
        let limits = limits.clone();
        Self {
            threads,
            idle,
            rounding,
            delegates,
            required,
            cpu_fallback,
            fixed_addresses,
            profile,
            limits,
            kept,
            resolver,
            cache,
            model_token,
        }
    }

    /// Opens the stored packed weights of a model; `None` if there is no folder for them.
    pub(crate) fn packed_weights(&self, model: &Model) -> Option<Arc<dyn PackedWeights>> {
        let (folder, open) = self.cache.as_ref()?;
        open(folder, model, self.model_token.as_deref(), (&self.resolver, self.rounding))
    }
}

/// Which tensors that are no outputs keep their values until the next run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum KeptTensors {
    #[default]
    None,
    /// These tensors, each by its subgraph and its index in the file.
    Some(Vec<(usize, usize)>),
    /// All tensors that are computed in the subgraphs that the interpreter itself runs.
    All,
}

impl KeptTensors {
    /// Adds the kept tensors of a subgraph to the outputs of its graph, so that passes, delegates and the memory plan
    /// treat them like outputs.
    pub(crate) fn add_to(&self, graph: &mut Graph, subgraph: usize) {
        let made = || graph.nodes.iter().flat_map(|node| node.outputs.iter().copied());
        let mut kept: Vec<TensorId> = match self {
            Self::None => Vec::new(),
            Self::Some(tensors) => {
                let own = tensors.iter().filter(|(other, _)| *other == subgraph);
                own.map(|(_, tensor)| TensorId(*tensor as u32)).collect()
            }
            Self::All => made().collect(),
        };
        kept.retain(|id| !graph.outputs.contains(id));
        kept.sort_unstable();
        kept.dedup();
        graph.outputs.extend(kept);
    }
}
