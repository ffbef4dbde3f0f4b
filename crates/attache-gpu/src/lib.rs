//! Programs of primitives on a GPU: fused into kernels, written as WGSL, laid out in memory, recorded and run.
//!
//! Each stage is a value that can be printed: [`fuse`] gives kernels, [`write()`] shaders, [`Layout`] memory, [`Plan`] all of
//! them together. Knows nothing of operators and graphs: an engine speaks primitives.

mod device;
mod execute;
mod fuse;
mod kernel;
mod layout;
mod plan;
mod variants;
mod wgsl;

pub use device::{Adapter, Backend, Device, DeviceOptions, Fault, FaultMoment, Submission, adapters};
pub use execute::{
    Ceilings, Cost, Encoder, Recorder, Recording, Runs, Session, SessionReport, SharedValue, Span, Times,
};
pub use fuse::fuse;
pub use kernel::{
    Epilogue, GpuError, GpuErrorKind, Kernel, Limits, Matrices, Params, Precision, Storage, Storages, Variants, View,
};
pub use layout::{Excess, Layout, Place, Rules};
pub use plan::{
    BoundRange, Buffer, BufferRange, Dispatch, Plan, PlanReport, PlannedDispatch, Weight, WeightSource, Work,
};
pub use variants::{Needs, Written, variants, write};
pub use wgpu;
pub use wgsl::{Binding, Packed, Shader};
