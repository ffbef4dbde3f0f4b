//! The command where the GPU fails or computes wrongly, by a fault that is planted in it. Any adapter will do.

#[allow(dead_code)] // of what is there, these tests use a part
#[path = "../support/mod.rs"]
mod support;

mod device;
mod diff;
