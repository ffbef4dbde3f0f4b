//! TensorFlow Lite's C API and its GPU delegate, on Attaché. The headers are in `include`; programs link `libattache_c`,
//! or take it in place of `libtensorflowlite_c`.
//!
//! Contract, which the guide states for users (`docs/guide/src/c.md`):
//!
//! - An object is used by one thread at a time, apart from cancellation. Models and options that nobody changes may be
//!   shared. A second thread that uses an interpreter waits.
//! - Null pointers, and pointers to objects that were deleted, are errors (`live.rs` knows which objects there are).
//! - No panic leaves the library (`guard.rs`); it becomes an error and a message.
//!
//! Everything is exported under C names; there is no interface for Rust. This crate uses the public interface of
//! `attache`, the structs of `attache-abi`, and `attache-external`, which runs delegates and operators of others.

mod access;
mod asynchronous;
mod bound;
mod cpu_delegate;
mod delegates;
mod external_delegate;
mod fault;
#[cfg(feature = "gpu")]
mod gpu_delegate;
mod graph;
mod guard;
mod interpreter;
mod live;
mod model;
mod operators;
mod options;
mod own;
mod plan;
#[cfg_attr(attache_small, path = "not_profiled.rs")]
mod profiler;
#[cfg(not(attache_small))]
mod running;
mod sharing;
mod signature;
mod state;
mod staying;
mod storage;
mod strings;
mod telemetry;
mod tensor;
mod tensors;
mod version;
