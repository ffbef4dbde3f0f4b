//! Runs of a subgraph on the CPU and on delegates: from a model to planned work, and from there to outputs.
//!
//! [`prepare`] imports, simplifies, assigns and plans; the [`Executor`] runs what came of it, in one arena; the
//! [`Environment`] has the subgraphs and variables that operators of it use. Knows nothing of who asks for runs.

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
