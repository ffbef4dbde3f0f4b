//! The graph of a model ([`Graph`]), the facts known about its tensors ([`Fact`]), and the trait that every
//! operator implements ([`Op`]), with the interfaces through which an operator runs on the CPU ([`Eval`]) and
//! is lowered to GPU primitives ([`Lowering`]).
//!
//! The crate depends on neither model files, nor kernels, nor devices.

mod error;
mod eval;
mod fact;
mod graph;
mod hash_table;
mod lowering;
mod op;
mod patch;
mod rows;

pub use error::{OpError, Unsupported};
pub use eval::{
    Cache, CachedValue, Eval, Handle, Host, PassedTensor, SharedCache, SignedIntegers, StoredValues, TensorMut,
    TensorRef,
};
pub use fact::{Fact, Inferred};
pub use graph::{Body, Graph, Inlined, InlinedCall, InvalidGraph, Loop, Node, NodeId, Tensor, TensorId};
pub use hash_table::HashTable;
pub use lowering::{AffineParameters, Lowered, Lowering, Quantized};
pub use op::{Conversion, Op, UnresolvedOperator, VariableUse, WorkingMemory};
pub use patch::Patch;
pub use rows::{Band, RowUse};
