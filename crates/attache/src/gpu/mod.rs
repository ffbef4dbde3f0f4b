//! The GPU delegate. It claims nodes by lowering them to primitives and runs partitions as programs of primitives.

mod bindings;
mod carried;
mod delegate;
mod exchange;
mod failure;
mod fault;
mod kernel;
mod opening;
mod options;
mod program;
mod stages;
mod stored;

#[cfg(unix)]
pub use attache_gpu::ExternalMemory;
pub use attache_gpu::{
    Adapter, AlignedBytes, Backend, BufferBinding, ChannelOrder, Device, DeviceId, DeviceMemory, DeviceOptions,
    DevicePeaks, DeviceSemaphore, Fault, FaultPoint, GpuError, GpuErrorKind, MemoryBinding, MemoryHandle, OpenTimes,
    Precision, Submission, TextureSource, TextureTarget, VariantChoice, VariantRequirement, Wait, adapters, variants,
    wgpu,
};
pub use attache_graph::Quantized;
pub use delegate::GpuDelegate;
pub use opening::GpuDelegateOpening;
pub use options::{GpuDelegateOptions, InferencePreference, InferencePriority};
pub use stages::{GpuStage, stage};
