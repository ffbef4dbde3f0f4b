//! Runs what others built for TensorFlow Lite: delegates, whether classic, opaque or stable ([`ExternalDelegate`]), and
//! operators in C ([`add_registration`], [`add_operator`]).
//!
//! A delegate sees a `TfLiteContext` whose nodes and tensors have the numbers of the model file. Nodes that the graph
//! passes removed are not in its execution plan, and what they computed is a constant. Nodes are left out of the plan as
//! well if an earlier delegate runs them, if their shapes are known only at run time, if a tensor of theirs is sparse or
//! has no fixed size, and, for classic delegates, if the struct of their options is not documented
//! ([`attache_abi::params_of`]). Variable tensors are inputs of a partition whose kernels write them in place; their
//! values stay with the interpreter, which resets them.
//!
//! The functions of TensorFlow Lite's opaque API (`TfLiteOpaque…`, `TfLiteOperator…`) and those on arrays and tensors
//! (`TfLiteIntArray…`, `TfLiteTensor…`), which opaque delegates and operators call, are in [`opaque`]. A program or library that loads such delegates has to export them.
//!
//! # Threads
//!
//! All calls into one delegate happen one at a time, whichever threads its interpreters run on, and even if a program
//! passes its address several times. Interpreters that are to run at the same time need a delegate each. Kernels
//! may be run by another thread than the one that made them.

mod calls;
mod delegate;
mod file_nodes;
mod guard;
mod handles;
mod kernel;
mod library;
mod memory;
pub mod opaque;
mod operator;
mod registered;
mod session;
mod source;

pub use delegate::ExternalDelegate;
pub use file_nodes::FileNodes;
pub use handles::{copy_from_handle, free_handle};
pub use registered::{add_operator, add_registration};
