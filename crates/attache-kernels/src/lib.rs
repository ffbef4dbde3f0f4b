//! CPU kernels on slices for TensorFlow Lite's operators: f32 and quantized kernels over channels-last tensors, each
//! compiled for several instruction sets.
//!
//! Callers are responsible for consistent shapes. Functions with a `# Panics` section assert that the lengths
//! of their slices match the shapes they are given. This crate does not depend on graphs, operator options or
//! files. AVX-512, AVX2 and NEON's dot product are selected at run time ([`Isa`]); there is always a portable
//! implementation.

// The crate is used inside the library alone: nothing prints its packed weights, and every result is used.
#![allow(missing_debug_implementations, clippy::must_use_candidate)]

mod aligned;
pub mod convert;
pub mod convolution;
pub mod depthwise;
pub mod elementwise;
mod engine;
pub mod gemm;
mod math;
pub mod movement;
mod packed;
pub mod places;
pub mod pooling;
pub mod quantized;
pub mod reduce;
pub mod resize;
pub mod scratch;
mod simd;
pub mod softmax;
#[cfg(test)]
mod testing;
pub mod transpose_convolution;
pub mod unpooling;

pub use aligned::AlignedFloats;
pub use engine::Engine;
pub use simd::Isa;
