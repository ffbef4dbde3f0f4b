//! Runs a subgraph on the CPU and on delegates.
//!
//! [`prepare`] imports the graph, runs the passes, assigns nodes and plans memory. The [`Executor`] runs the resulting
//! steps in one arena. The [`Environment`] contains the subgraphs and variables that operators use. This module does
//! not depend on the public interpreter.

mod environment;
mod executor;
mod fallback;
mod flight;
mod host;
mod memory;
mod node;
mod options;
mod plan;
mod poison;
mod prepare;

pub(crate) use environment::Environment;
pub(crate) use executor::Executor;
pub(crate) use fallback::State;
pub use flight::Run;
pub(crate) use options::Options;
pub(crate) use plan::plan;
pub(crate) use prepare::{Moment, Prepared, check_implemented, import, prepare};
