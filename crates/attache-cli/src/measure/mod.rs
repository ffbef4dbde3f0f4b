//! What a run takes: time and memory.

pub(crate) mod memory;
pub(crate) mod timing;
