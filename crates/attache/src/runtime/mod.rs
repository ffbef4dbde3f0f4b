//! The runtime of one interpreter: prepares the subgraph that it runs and runs it on the CPU and on
//! delegates.
//!
//! [`prepare()`] imports the graph, runs the graph passes, assigns nodes to delegates and plans memory. The
//! [`Executor`](executor::Executor) runs the resulting steps in one arena. The [`Plans`] keep what was prepared for all
//! interpreters of a model. The [`Environment`] contains the
//! other subgraphs, which operators call, and the resource variables. This module does not depend on the
//! public interpreter.

#[cfg_attr(attache_small, path = "not_asked.rs")]
mod asked;
#[cfg_attr(attache_small, path = "no_bands.rs")]
mod bands;
mod cancellation;
mod environment;
pub(crate) mod executor;
#[cfg(not(attache_small))]
mod few_threads;
mod host;
#[cfg_attr(attache_small, path = "not_inferred.rs")]
mod inferred;
mod memory;
mod node;
#[cfg_attr(attache_small, path = "not_observed.rs")]
mod observer;
mod options;
pub(crate) mod passing;
pub(crate) mod plan;
mod plans;
mod poison;
pub(crate) mod prepare;
mod run_queue;
mod saved_state;
pub(crate) mod shared_weights;

pub use cancellation::Cancellation;
pub(crate) use cancellation::StartedRun;
pub(crate) use environment::Environment;
pub(crate) use host::Subgraphs;
#[cfg(not(attache_small))]
pub use observer::{Observer, RunEvent};
pub(crate) use options::{KeptTensors, Options, default_threads};
pub(crate) use plans::{Key, Plans};
pub(crate) use prepare::{MOST_PANICS, PrepareMode, Prepared, import};
pub(crate) use run_queue::RunId;
pub(crate) use saved_state::State;
