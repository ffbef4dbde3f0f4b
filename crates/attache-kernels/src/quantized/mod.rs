//! Kernels over 8- and 16-bit numbers that stand for real ones, in integer arithmetic: the same bits as TensorFlow Lite's
//! reference kernels on every machine and at every instruction set.
//!
//! A stored number stands for `scale × (stored − zero point)`. Scales are positive and finite, zero points and bounds
//! are of the stored type: that is the caller's promise.
#![allow(unreachable_pub)] // The vectors that a public trait speaks of are nobody else's business.

mod convolution;
mod depthwise;
mod dynamic;
pub mod elementwise;
pub mod fixed_point;
pub mod functions;
mod gemm;
pub mod lookup;
pub mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod pooling;
pub mod rescale;
pub mod resize;
mod simd;
pub mod softmax;
mod stage;
mod wide;

use attache_base::Element;

pub use convolution::{PackedIntegerFilter, PackedIntegerTransposeFilter, convolve, transpose_convolve};
pub use depthwise::{PackedIntegerDepthwise, depthwise};
pub use dynamic::{quantize_asymmetrically, quantize_symmetrically};
pub use fixed_point::{Multiplier, Rounding};
pub use gemm::{Operand, PackedIntegers, Zero, gemm};
pub use stage::{Requantize, Rescale, Stage};
pub use wide::{WideMatrix, WideRounding, WideStage, wide_convolve, wide_gemm, wide_groups, wide_transpose_convolve};

/// A type of stored numbers, of at most 16 bits.
pub trait Stored: Element + Into<i32> + Ord {
    /// The least number of the type.
    const LEAST: i32;
    /// The largest number of the type.
    const MOST: i32;

    /// The number of this value, of which the lowest bits are taken where the type doesn't hold it.
    fn truncate(value: i32) -> Self;

    /// The number of the type that is nearest to this value.
    #[inline(always)]
    fn saturate(value: i32) -> Self {
        Self::truncate(value.clamp(Self::LEAST, Self::MOST))
    }
}

macro_rules! stored {
    ($($type:ty),*) => {$(
        impl Stored for $type {
            const LEAST: i32 = <$type>::MIN as i32;
            const MOST: i32 = <$type>::MAX as i32;

            #[inline(always)]
            fn truncate(value: i32) -> Self {
                value as $type
            }
        }
    )*};
}

stored!(i8, u8, i16);

/// How a tensor's stored numbers stand for real ones: scale and zero point.
pub type ScaleAndZero = (f32, i32);
