//! The runtime of one interpreter: prepares the subgraph that it runs and runs it on the CPU and on
//! delegates.
//!
//! [`prepare()`] imports the graph, runs the graph passes, assigns nodes to delegates and plans memory. The
//! [`Executor`](executor::Executor) runs the resulting steps in one arena. The [`Environment`] contains the
//! other subgraphs, which operators call, and the resource variables. This module does not depend on the
//! public interpreter.

mod environment;
pub(crate) mod executor;
mod host;
mod memory;
mod node;
mod options;
pub(crate) mod plan;
mod poison;
pub(crate) mod prepare;
mod run_queue;
mod saved_state;

pub(crate) use environment::Environment;
pub(crate) use options::Options;
pub(crate) use prepare::{PrepareMode, Prepared, import, prepare};
pub use run_queue::Run;
pub(crate) use saved_state::State;
