//! Tests the command with a GPU that fails or computes wrong results because of an injected fault. Runs on
//! any adapter.

#[allow(dead_code)] // These tests use only a part of it.
#[path = "../support/mod.rs"]
mod support;

mod device;
mod diff;
