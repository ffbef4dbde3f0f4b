//! CPU maths on slices for the operators of TensorFlow Lite: float32 kernels over channels-last tensors, and the
//! instruction sets they are built for.
//!
//! Shapes are the caller's promise: every function asserts the lengths of its slices and computes what it is asked.
//! Knows nothing of graphs, operators' options or files. AVX-512, AVX2 and NEON's dot product are chosen at run
//! time ([`Level`]); a portable path is always there.

mod aligned;
pub mod convert;
pub mod convolution;
pub mod depthwise;
pub mod elementwise;
mod engine;
pub mod gemm;
mod math;
pub mod movement;
pub mod pooling;
pub mod quantized;
pub mod reduce;
pub mod resize;
mod scratch;
mod simd;
pub mod softmax;
#[cfg(test)]
mod testing;
pub mod transpose_convolution;

pub use aligned::AlignedFloats;
pub use engine::Engine;
pub use simd::Level;
