//! Measures the duration of runs and the memory use of the process.

pub(crate) mod caller;
pub(crate) mod machine;
pub(crate) mod memory;
pub(crate) mod timing;
