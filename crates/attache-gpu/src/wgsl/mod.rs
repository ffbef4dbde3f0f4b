//! WGSL: the text of shaders, and nothing else.
//!
//! [`Writer`] builds a shader: bindings, parameters and functions. The other modules write the parts that variants share:
//! expressions, accesses to arrays, epilogues, cooperative matrices. Nothing here chooses how a kernel is computed; that is
//! for the variants.

pub(crate) mod accessor;
mod context;
pub(crate) mod cooperative_matrix;
pub(crate) mod epilogue;
pub(crate) mod expression;
pub(crate) mod integer_expression;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd", windows))]
pub(crate) mod traceable;
mod writer;

pub(crate) use context::Context;
pub use writer::{Binding, Packed, Shader};
pub(crate) use writer::{GROUP, Writer, coordinates, keeps_vectors};
