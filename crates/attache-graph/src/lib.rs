//! The graph of a model, the facts about its tensors, and the trait that every operator implements.
//!
//! Independent of files, kernels and devices: an operator's CPU form gets slices and threads, its GPU form emits
//! primitives.

mod error;
mod eval;
mod fact;
mod graph;
mod lowering;
mod op;
mod patch;

pub use error::{OpError, Unsupported};
pub use eval::{Cache, Eval, Handle, Host, TensorMut, TensorRef};
pub use fact::{Fact, Inferred};
pub use graph::{Graph, InvalidGraph, Node, NodeId, Tensor, TensorId};
pub use lowering::{AffineParameters, Lowered, Lowering, Quantized};
pub use op::{Conversion, Op, UnresolvedOperator, VariableUse, WorkingMemory};
pub use patch::Patch;
