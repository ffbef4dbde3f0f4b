//! Tests the command with real models and images. They are in the folders `models` and `images` of
//! `$ATTACHE_SHARED`, by default `../shared` beside the workspace.

#[allow(dead_code)] // These tests use only a part of it.
#[path = "../support/mod.rs"]
mod support;

mod pictures;
mod runs;
