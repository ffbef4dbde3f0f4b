//! Versions of the generic kernels for every type and epilogue that they are used with. The compiler translates a generic
//! function in the crate that calls it, with the options of that crate. The methods of these traits are not generic, so
//! that kernels are translated here: a program can optimize all crates but this one for size, and its kernels stay fast.

use super::convolution::{self, PackedIntegerFilter, PackedIntegerTransposeFilter};
use super::depthwise::{self, PackedIntegerDepthwise};
use super::elementwise::{self, IntegerFunction};
use super::epilogue::{Requantize, Rescale};
use super::gemm::{self, Operand, PackedIntegers};
use super::{ScaleAndZero, pooling, rescale, resize, sums};
use crate::Engine;
use crate::convolution::Convolution;
use crate::pooling::Pooling;
use crate::resize::Resize;

/// An operand of an element-wise function, or its output, and the shape.
type Shaped<'a, T> = (&'a [T], &'a [usize]);

/// Kernels of one type of quantized elements.
pub trait StoredKernels: Sized {
    #[doc(hidden)]
    fn average_pool(engine: Engine, pooling: &Pooling, input: &[Self], output: &mut [Self], bounds: (i32, i32));
    #[doc(hidden)]
    fn max_pool(engine: Engine, pooling: &Pooling, input: &[Self], output: &mut [Self], bounds: (i32, i32));
    /// Sums `input` over the axes of `shape` for which `reduced` is true. `sums` has the remaining axes in order, and no sum
    /// may need more than 32 bits.
    fn sums(engine: Engine, input: &[Self], shape: &[usize], reduced: &[bool], sums: &mut [i32]);
    #[doc(hidden)]
    fn bilinear(engine: Engine, resize: &Resize, input: &[Self], output: &mut [Self]);
    #[doc(hidden)]
    fn bilinear_in_floats(engine: Engine, resize: &Resize, input: &[Self], output: &mut [Self]);
    #[doc(hidden)]
    fn quantize(engine: Engine, input: &[f32], output: &mut [Self], to: ScaleAndZero);
    #[doc(hidden)]
    fn dequantize(engine: Engine, input: &[Self], output: &mut [f32], from: ScaleAndZero);
    #[doc(hidden)]
    fn binary(
        engine: Engine,
        function: IntegerFunction,
        operands: [Shaped<'_, Self>; 2],
        output: (&mut [Self], &[usize]),
    );
}

macro_rules! stored_kernels {
    ($($type:ty),*) => {$(
        impl StoredKernels for $type {
            fn average_pool(engine: Engine, pooling: &Pooling, input: &[Self], output: &mut [Self], bounds: (i32, i32)) {
                pooling::average_pool_of(engine, pooling, input, output, bounds);
            }
            fn max_pool(engine: Engine, pooling: &Pooling, input: &[Self], output: &mut [Self], bounds: (i32, i32)) {
                pooling::max_pool_of(engine, pooling, input, output, bounds);
            }
            fn sums(engine: Engine, input: &[Self], shape: &[usize], reduced: &[bool], sums: &mut [i32]) {
                sums::sums_of(engine, input, shape, reduced, sums);
            }
            fn bilinear(engine: Engine, resize: &Resize, input: &[Self], output: &mut [Self]) {
                resize::bilinear_of(engine, resize, input, output);
            }
            fn bilinear_in_floats(engine: Engine, resize: &Resize, input: &[Self], output: &mut [Self]) {
                resize::bilinear_in_floats_of(engine, resize, input, output);
            }
            fn quantize(engine: Engine, input: &[f32], output: &mut [Self], to: ScaleAndZero) {
                rescale::quantize_to(engine, input, output, to);
            }
            fn dequantize(engine: Engine, input: &[Self], output: &mut [f32], from: ScaleAndZero) {
                rescale::dequantize_from(engine, input, output, from);
            }
            fn binary(
                engine: Engine,
                function: IntegerFunction,
                operands: [Shaped<'_, Self>; 2],
                output: (&mut [Self], &[usize]),
            ) {
                elementwise::binary_of(engine, function, operands, output);
            }
        }
    )*};
}

stored_kernels!(i8, u8, i16);

/// Products with one epilogue.
pub trait EpilogueKernels: Sized {
    /// The type of an output element.
    type Output: Copy + Send;

    #[doc(hidden)]
    fn gemm(
        &self,
        engine: Engine,
        a: (&[u8], bool),
        zero_points: &[i32],
        matrix: &PackedIntegers,
        c: &mut [Self::Output],
    );
    #[doc(hidden)]
    fn convolve(
        &self,
        engine: Engine,
        convolution: &Convolution,
        input: Operand,
        filter: &PackedIntegerFilter,
        output: &mut [Self::Output],
    );
    #[doc(hidden)]
    fn transpose_convolve(
        &self,
        engine: Engine,
        convolution: &Convolution,
        input: Operand,
        filter: &PackedIntegerTransposeFilter,
        output: &mut [Self::Output],
    );
    #[doc(hidden)]
    fn depthwise(
        &self,
        engine: Engine,
        convolution: &Convolution,
        input: Operand,
        filter: &PackedIntegerDepthwise,
        output: &mut [Self::Output],
    );
}

macro_rules! epilogue_kernels {
    ($($type:ty: $output:ty),*) => {$(
        impl EpilogueKernels for $type {
            type Output = $output;

            fn gemm(
                &self,
                engine: Engine,
                a: (&[u8], bool),
                zero_points: &[i32],
                matrix: &PackedIntegers,
                c: &mut [$output],
            ) {
                gemm::gemm_with(engine, a, zero_points, matrix, self, c);
            }
            fn convolve(
                &self,
                engine: Engine,
                convolution: &Convolution,
                input: Operand,
                filter: &PackedIntegerFilter,
                output: &mut [$output],
            ) {
                convolution::convolve_with(engine, convolution, input, filter, self, output);
            }
            fn transpose_convolve(
                &self,
                engine: Engine,
                convolution: &Convolution,
                input: Operand,
                filter: &PackedIntegerTransposeFilter,
                output: &mut [$output],
            ) {
                convolution::transpose_convolve_with(engine, convolution, input, filter, self, output);
            }
            fn depthwise(
                &self,
                engine: Engine,
                convolution: &Convolution,
                input: Operand,
                filter: &PackedIntegerDepthwise,
                output: &mut [$output],
            ) {
                depthwise::depthwise_with(engine, convolution, input, filter, self, output);
            }
        }
    )*};
}

epilogue_kernels!(Requantize: u8, Rescale<'_>: f32);
