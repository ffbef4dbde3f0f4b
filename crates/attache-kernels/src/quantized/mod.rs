//! Kernels for 8-bit and 16-bit quantized elements in integer arithmetic. Results are bit-identical to TensorFlow
//! Lite's reference kernels on every machine and with every instruction set. Those that scale in floats, and
//! [`WeightedSum`](elementwise::WeightedSum), have the bits of XNNPACK's kernels instead, also everywhere.
//!
//! A quantized element represents `scale × (quantized − zero point)`. The caller guarantees that scales are positive
//! and finite, and that zero points and bounds are in the range of the quantized type.
#![allow(unreachable_pub)] // A public trait names vector types that are private to this module.

mod blockwise;
mod bytes;
mod convolution;
mod depthwise;
mod dynamic;
pub mod elementwise;
mod epilogue;
pub mod fixed_point;
mod float_factors;
mod float_sums;
pub mod functions;
mod gemm;
mod instances;
mod int16x8;
mod interleaved;
pub mod lookup;
pub mod narrow;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod pooling;
mod quads;
#[cfg(target_arch = "x86_64")]
mod requantize;
pub mod rescale;
pub mod resize;
mod simd;
pub mod softmax;
mod sums;
#[cfg_attr(any(not(all(target_arch = "x86_64", target_os = "linux")), attache_small), path = "no_tiles.rs")]
mod tiles;
#[cfg(target_arch = "x86_64")]
mod x86;

use attache_base::Element;

pub use blockwise::{BlockwiseMatrix, ByteRows, blockwise_gemm};
pub use convolution::{PackedIntegerFilter, PackedIntegerTransposeFilter, convolve, transpose_convolve};
pub use depthwise::{PackedIntegerDepthwise, depthwise};
pub use dynamic::{QuantizedRows, add_row_products, quantize, quantize_rows};
pub use epilogue::{ColumnScales, GemmEpilogue, Requantize, Rescale};
pub use fixed_point::{Multiplier, Rounding};
pub use gemm::{Operand, PackedIntegers, Zero, dynamic_gemm, gemm};
pub use instances::{EpilogueKernels, StoredKernels};
#[cfg(not(attache_small))]
pub use int16x8::{Int16x8Depthwise, int16x8_depthwise};
pub use int16x8::{
    Int16x8Epilogue, Int16x8Matrix, Int16x8Rounding, int16x8_convolve, int16x8_gemm, int16x8_groups,
    int16x8_transpose_convolve,
};

/// A type of quantized elements, of at most 16 bits.
pub trait Stored: StoredKernels + Element + Into<i32> + Ord {
    /// The smallest value of the type.
    const LEAST: i32;
    /// The largest value of the type.
    const MOST: i32;

    /// Converts a value by taking its lowest bits if it is out of range.
    fn truncate(value: i32) -> Self;

    /// Converts a value by clamping it to the range of the type.
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

/// Whether products of bytes can use tile registers (AMX).
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_tiles() -> bool {
    tiles::are_available()
}

/// Returns the name of the integer instruction set that an [`Isa`](crate::Isa) uses.
pub(crate) fn integers_of(isa: crate::Isa) -> &'static str {
    simd::IntegerIsa::of(isa).name()
}

/// Quantization parameters of a tensor: scale and zero point.
pub type ScaleAndZero = (f32, i32);
