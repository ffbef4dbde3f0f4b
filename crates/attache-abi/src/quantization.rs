#![allow(unsafe_code)]
//! Quantization of tensors as structs of C, which are allocated with `malloc` because C code on the other side frees them.

use std::ffi::{c_int, c_void};

use attache::Quantization;
use attache::model::QuantizationDetails;

use crate::{
    OPTIONAL_TENSOR, TfLiteAffineQuantization, TfLiteBlockwiseQuantization, TfLiteFloatArray, TfLiteIntArray,
    TfLiteQuantization, TfLiteQuantizationType,
};

impl TfLiteQuantization {
    /// That of a tensor without quantization.
    pub const NONE: Self = Self { kind: TfLiteQuantizationType::NONE, params: std::ptr::null_mut() };

    /// Allocates the parameters of a tensor: those of its blocks, or else its scales and zero points. There are none where
    /// the tensor has none or quantization of another kind, or where there is no memory. Tensors that hold scales and zero
    /// points of blocks have the indices that the file states.
    #[must_use]
    pub fn new(affine: Option<&Quantization>, details: &QuantizationDetails) -> Self {
        match (details, affine) {
            (QuantizationDetails::Blockwise { scales, zero_points, block_size, axis }, _) => {
                let number = |index: usize| c_int::try_from(index).unwrap_or(c_int::MAX);
                let blocks = TfLiteBlockwiseQuantization {
                    scale: number(*scales),
                    zero_point: zero_points.map_or(OPTIONAL_TENSOR, number),
                    blocksize: number(*block_size),
                    quantized_dimension: number(*axis),
                };
                Self::allocated(TfLiteQuantizationType::BLOCKWISE, blocks)
            }
            (_, Some(affine)) => {
                let saturated = |point: &i64| (*point).clamp(c_int::MIN.into(), c_int::MAX.into()) as c_int;
                let zero_points: Vec<c_int> = affine.zero_point.iter().map(saturated).collect();
                let affine = TfLiteAffineQuantization {
                    scale: TfLiteFloatArray::new(&affine.scale),
                    zero_point: TfLiteIntArray::new(&zero_points),
                    quantized_dimension: i32::try_from(affine.axis).unwrap_or(0),
                };
                Self::allocated(TfLiteQuantizationType::AFFINE, affine)
            }
            (_, None) => Self::NONE,
        }
    }

    /// Allocates parameters of this kind, whose struct is `T`.
    fn allocated<T>(kind: TfLiteQuantizationType, parameters: T) -> Self {
        // SAFETY: malloc has no preconditions.
        let params = unsafe { libc::malloc(size_of::<T>()) };
        if params.is_null() {
            return Self::NONE;
        }
        // SAFETY: the memory is as large as the struct, aligned for any type, and nobody else has it.
        unsafe { params.cast::<T>().write(parameters) };
        Self { kind, params }
    }

    /// Frees the parameters.
    ///
    /// # Safety
    ///
    /// The parameters are null, or the struct that the kind names in memory of `malloc`, as [`TfLiteQuantization::new`] and
    /// delegates allocate it. They are not used afterwards.
    pub unsafe fn free(self) {
        if self.params.is_null() {
            return;
        }
        if self.kind == TfLiteQuantizationType::AFFINE {
            let affine = self.params.cast::<TfLiteAffineQuantization>();
            // SAFETY: the kind says which struct the pointer leads to, and the caller gives it away.
            unsafe {
                TfLiteFloatArray::free((*affine).scale);
                TfLiteIntArray::free((*affine).zero_point);
            }
        }
        // SAFETY: the caller states that the memory is of `malloc`.
        unsafe { libc::free(self.params.cast::<c_void>()) };
    }

    /// Returns the parameters of blocks; `None` if the quantization is of another kind.
    ///
    /// # Safety
    ///
    /// The parameters are null, or the struct that the kind names.
    #[must_use]
    pub unsafe fn blocks(&self) -> Option<TfLiteBlockwiseQuantization> {
        let is_blockwise = self.kind == TfLiteQuantizationType::BLOCKWISE;
        // SAFETY: the kind says which struct the pointer leads to, and the caller states that it is null or valid.
        is_blockwise.then(|| unsafe { self.params.cast::<TfLiteBlockwiseQuantization>().as_ref().copied() })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_before_scales() {
        let affine = Quantization { scale: vec![0.5, 2.0], zero_point: vec![0, i64::MAX], axis: 1 };
        let details = QuantizationDetails::Blockwise { scales: 7, zero_points: None, block_size: 32, axis: 1 };
        let quantization = TfLiteQuantization::new(Some(&affine), &details);
        // SAFETY: the quantization was just made, and is freed once.
        unsafe {
            let blocks = quantization.blocks().unwrap();
            let fields = [blocks.scale, blocks.zero_point, blocks.blocksize, blocks.quantized_dimension];
            assert_eq!(fields, [7, OPTIONAL_TENSOR, 32, 1]);
            quantization.free();
        }
        let quantization = TfLiteQuantization::new(Some(&affine), &QuantizationDetails::None);
        // SAFETY: as above; the parameters are of the kind that the quantization has.
        unsafe {
            assert!(quantization.blocks().is_none());
            let parameters = *quantization.params.cast::<TfLiteAffineQuantization>();
            assert_eq!(TfLiteFloatArray::elements(parameters.scale), [0.5, 2.0]);
            assert_eq!(TfLiteIntArray::elements(parameters.zero_point), [0, c_int::MAX]);
            quantization.free();
        }
        assert!(TfLiteQuantization::new(None, &QuantizationDetails::Custom).params.is_null());
    }
}
