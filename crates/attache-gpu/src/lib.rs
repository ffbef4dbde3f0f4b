//! Compiles programs of GPU primitives and runs them. A program is fused into kernels, translated to WGSL,
//! laid out in memory, recorded and run.
//!
//! The output of each stage can be inspected: [`fuse`] returns kernels, [`write()`] returns shaders,
//! [`Layout`] holds the location of each value in memory, and [`Plan`] holds everything that a run executes.
//! Operators and graphs are unknown to this crate; callers express them as primitives.

// To learn whether an open device may be shared by threads, the compiler follows the types of wgpu, which are nested
// deeper than the default.
#![recursion_limit = "256"]

mod bind;
mod device;
mod execute;
mod fuse;
mod kernel;
mod layout;
mod plan;
mod variants;
mod wgsl;

#[cfg(unix)]
pub use bind::ExternalMemory;
pub use bind::{
    AlignedBytes, BoundTensor, BufferBinding, ChannelOrder, DeviceMemory, DeviceSemaphore, InputBinding, MemoryBinding,
    OutputBinding, TextureSource, TextureTarget,
};
#[doc(hidden)]
pub use device::validated_adapter;
pub use device::{
    Adapter, Backend, Device, DeviceCode, DeviceId, DeviceOptions, Fault, FaultPoint, Fence, MemoryHandle, OpenTimes,
    ShaderCode, Submission, adapters,
};
pub use execute::{
    DevicePeaks, Executable, Interface, LoadCost, LoadedPlan, Recording, Runs, Session, SessionReport, SharedValue,
    Span, StoredExecutable, Times, Wait, interface,
};
pub use fuse::fuse;
pub use kernel::{
    DeviceLimits, Epilogue, GpuError, GpuErrorKind, Kernel, Matrices, Params, Precision, StorageFormat, StorageFormats,
    VariantChoice, View,
};
pub use layout::{ArenaOverhead, Layout, LayoutConstraints, Location};
pub use plan::{
    BoundRange, BufferRange, Dispatch, DispatchCost, DispatchSummary, InPlace, Plan, PlanBuffer, PlanReport,
    PlanSummary, PlannedDispatch, PlannedInPlace, ValueFormat, Weight, WeightSource,
};
pub use variants::{GeneratedKernel, VariantRequirement, variants, write};
pub use wgpu;
pub use wgsl::{Binding, Packed, Shader};
