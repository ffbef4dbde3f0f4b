//! Programs of primitives on a GPU: fused into kernels, written as WGSL, laid out in memory, recorded and run.
//!
//! Each stage is a value that can be printed: [`fuse`] gives kernels, [`write()`] shaders, [`Layout`] memory, [`Plan`] all of
//! them together. Knows nothing of operators and graphs: an engine speaks primitives.

mod access;
mod array;
mod context;
mod device;
mod error;
mod fetch;
mod fuse;
mod layout;
mod limits;
mod matrices;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod memory;
mod pipelines;
mod plan;
mod precision;
mod recording;
mod roofline;
mod session;
mod shader;
mod storage;
mod text;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod traceable;
mod usable;
mod validate;
mod variants;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
mod vulkan;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
#[path = "no_vulkan.rs"]
mod vulkan;
mod whole;
mod work;

pub use device::{Adapter, Backend, Device, DeviceOptions, adapters};
pub use error::{GpuError, GpuErrorKind};
pub use fuse::{Epilogue, Kernel, View, fuse};
pub use layout::{Excess, Layout, Place, Rules};
pub use limits::{Limits, Params};
pub use matrices::Matrices;
pub use plan::{Dispatch, Plan};
pub use precision::Precision;
pub use recording::{Cost, Encoder, Fault, FaultMoment, Recorder, Recording, SharedValue, Span, Submission, Times};
pub use roofline::Ceilings;
pub use session::{Session, SessionReport};
pub use shader::{Binding, Packed, Shader};
pub use storage::{Storage, Storages};
pub use variants::{Needs, Variants, Written, variants, write};
pub use wgpu;
pub use work::Work;
