//! Attaché's GPU delegate as a plug-in for TensorFlow Lite and LiteRT: a library that exports
//! `tflite_plugin_create_delegate` and `tflite_plugin_destroy_delegate`, and the functions of TensorFlow Lite's GPU
//! delegate.
//!
//! The runtime shows its graph through C structs. `graph.rs` and `tensor.rs` copy them, apart from weights, and make models
//! of nodes, which are imported as any other model. A model of the whole execution plan tells which nodes the delegate claims
//! (`claims.rs`); a model of each partition is compiled and runs (`delegate.rs`, `kernel.rs`).

mod calls;
mod claims;
mod delegate;
mod entry;
mod graph;
mod kernel;
mod log;
mod options;
mod sparse;
mod tensor;
