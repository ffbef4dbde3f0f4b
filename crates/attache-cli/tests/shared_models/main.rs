//! Real models and pictures through the command. They are in the folders `models` and `images` of `$ATTACHE_SHARED`, by
//! default of `../shared` beside the workspace.

#[allow(dead_code)] // of what is there, these tests use a part
#[path = "../support/mod.rs"]
mod support;

mod pictures;
mod runs;
