//! Time and memory of a run.

pub(crate) mod memory;
pub(crate) mod timing;
