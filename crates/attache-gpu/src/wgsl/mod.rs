//! WGSL generation, used by the variants to write their shaders.
//!
//! [`Writer`] builds a shader: bindings, parameters and functions. The other modules generate the parts that
//! variants share: expressions, array accesses, epilogues and cooperative matrices. The variants, not this
//! module, choose how a kernel is computed.

pub(crate) mod accessor;
pub(crate) mod computed;
mod context;
pub(crate) mod cooperative_matrix;
pub(crate) mod epilogue;
pub(crate) mod expression;
pub(crate) mod integer_expression;
#[cfg(all(feature = "vulkan", any(target_os = "linux", target_os = "android", target_os = "freebsd", windows)))]
pub(crate) mod traceable;
mod writer;

pub(crate) use context::Context;
pub use writer::{Binding, Packed, Shader};
pub(crate) use writer::{GROUP, Writer, coordinates, keeps_vectors};
