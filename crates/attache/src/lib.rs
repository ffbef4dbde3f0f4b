//! Runs TensorFlow Lite models. This crate is the public API.
//!
//! A [`Model`] is a loaded `.tflite` file. A [`CompiledModel`] is a model that is ready to run on the CPU and on
//! [`Delegate`]s such as `GpuDelegate`. An
//! [`Interpreter`] runs it; each thread has one of its own, and all of them share one copy of the weights.
//!
//! ```no_run
//! # fn main() -> Result<(), attache::Error> {
//! let model = attache::Model::from_path("model.tflite")?;
//! let compiled = attache::Interpreter::builder(&model).threads(2).compile()?;
//! let mut interpreter = compiled.interpreter()?;
//! let elements = interpreter.input(0)?.elements();
//! interpreter.input(0)?.quantize_from(&vec![0.5; elements])?; // floats, whatever the type of the input
//! interpreter.invoke()?;
//! println!("{:?}", interpreter.output(0)?.dequantize()?);
//! # Ok(())
//! # }
//! ```
//!
//! Where to begin:
//!
//! | For | See |
//! |---|---|
//! | options and delegates | [`InterpreterBuilder`] |
//! | inputs and outputs | [`InputTensor`], [`OutputTensor`] |
//! | several subgraphs that share variables | [`SignatureRunner`] |
//! | inputs and outputs that stay on the GPU | [`Interpreter::bind_input`], [`gpu::BufferBinding`], [`gpu::MemoryBinding`] |
//! | runs that are awaited, have a deadline or are cancelled | [`Run`], [`Cancellation`] |
//! | operators of your own | [`OpResolver`], [`graph::Op`] |
//! | accelerators of your own | [`Delegate`] |
//! | where each operator runs, and why | [`Placement`] |
//!
//! # Features
//!
//! | Feature | What it adds | Default |
//! |---|---|---|
//! | `gpu` | [`GpuDelegate`], through every graphics API that the platform has | yes |
//! | `vulkan`, `gles`, `metal`, `dx12` | [`GpuDelegate`], through this graphics API; several may be named | with `gpu` |
//! | `diff` | [`diff`], the comparison of delegates with the CPU | yes |
//! | `zoo` | [`zoo`], models that are built in | yes |
//! | `lowering` | the GPU forms of operators, for delegates that lower nodes (`graph::Lowering`); the GPU delegate has it | yes |
//! | `ndarray` | inputs and outputs as arrays of the crate `ndarray` | no |
//!
//! Without any of them, models run on the CPU and nothing of wgpu is built.

mod cache;
mod cost;
mod delegate;
#[cfg(feature = "diff")]
pub mod diff;
mod error;
#[cfg(feature = "_gpu")]
pub mod gpu;
mod interpreter;
mod limits;
mod partition;
mod profile;
mod report;
mod runtime;
pub mod stages;
#[cfg(feature = "zoo")]
pub mod zoo;

pub use attache_base::{Bytes, Constant, DataType, Element, IntegerRounding, Quantization, Shape, Strings, strings};
pub use attache_model::{
    Metadata, Model, ModelBuilder, ModelError, ModelErrorKind, ModelLocation, OperatorBuilder, Problem, Signature,
    TensorBuilder,
};
pub use attache_ops::{Declaration, OpResolver};
pub use cache::{CacheEntry, CacheError, CacheFolder};
pub use cost::Cost;
pub use delegate::{
    Claim, Clustering, Commands, Completion, Delegate, DelegateBindings, DelegateCache, DelegateError,
    DelegateErrorKind, DelegateKernel, DelegateQueue, GraphClaims, GraphContext, InputMemory, KernelReport,
    NodeContext, OutputMemory, Partition, Partitioning, PreparedPartition,
};
pub use error::{Error, ErrorKind};
#[cfg(feature = "_gpu")]
pub use gpu::{GpuDelegate, GpuDelegateOpening, GpuDelegateOptions};
pub use interpreter::{
    CompiledModel, InputTensor, Interpreter, InterpreterBuilder, OutputTensor, Run, SignatureRunner, TensorInfo,
    TensorKey,
};
pub use limits::Limits;
pub use partition::placement::{NodePlacement, Outcome, Placement};
pub use profile::{DispatchProfile, KernelProfile, Profile, ProfiledDispatch, ProfiledOperator};
pub use report::Report;
pub use runtime::Cancellation;
#[cfg(not(attache_small))]
pub use runtime::{Observer, RunEvent};

/// Arrays, as views of inputs and outputs ([`InputTensor::as_array_mut`], [`OutputTensor::as_array`]).
#[cfg(feature = "ndarray")]
pub use ndarray;

/// Half-precision floats, as elements of tensors of type FLOAT16.
pub use half;

/// The primitives that run on devices, for operators that a program registers with a form for the GPU
/// ([`Op::lower`](graph::Op::lower)).
pub mod ir {
    pub use attache_gpu_ir::*;
}

/// The graph representation: a model is imported into a graph, and delegates receive the graph.
pub mod graph {
    pub use attache_graph::*;
}

/// All items for reading and writing model files, including those that the crate root does not re-export.
pub mod model {
    pub use attache_model::*;
}
