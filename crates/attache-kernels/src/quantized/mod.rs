//! Kernels over 8- and 16-bit numbers that stand for real ones, in integer arithmetic: the same bits as TensorFlow Lite's
//! reference kernels on every machine and at every instruction set.
#![allow(unreachable_pub)] // The vectors that a public trait speaks of are nobody else's business.

mod convolution;
mod depthwise;
mod dynamic;
pub mod fixed_point;
mod gemm;
mod simd;
mod stage;
mod wide;

pub use convolution::{PackedIntegerFilter, PackedIntegerTransposeFilter, convolve, transpose_convolve};
pub use depthwise::{PackedIntegerDepthwise, depthwise};
pub use dynamic::{quantize_asymmetrically, quantize_symmetrically};
pub use fixed_point::{Multiplier, Rounding};
pub use gemm::{Operand, PackedIntegers, Zero, gemm};
pub use stage::{Requantize, Rescale, Stage};
pub use wide::{WideMatrix, WideRounding, WideStage, wide_convolve, wide_gemm, wide_groups, wide_transpose_convolve};
