#![allow(unsafe_code)]
//! Arrays of C that free themselves, and what else is allocated with `malloc` because C code may free or replace it.

use std::ffi::{c_int, c_void};

use attache::Quantization;
use attache_abi::{
    TfLiteAffineQuantization, TfLiteFloatArray, TfLiteIntArray, TfLiteQuantization, TfLiteQuantizationType,
};

/// A `TfLiteIntArray` that frees itself.
#[derive(Debug)]
pub(crate) struct Integers(*mut TfLiteIntArray);

impl Integers {
    /// Allocates an array with these elements.
    pub(crate) fn new(elements: &[c_int]) -> Self {
        Self(TfLiteIntArray::new(elements))
    }

    /// Allocates an array of indices. Graphs have fewer tensors and nodes than an `int` can count.
    pub(crate) fn of_indices(indices: impl IntoIterator<Item = usize>) -> Self {
        Self::new(&indices.into_iter().map(|index| c_int::try_from(index).unwrap_or(-1)).collect::<Vec<_>>())
    }

    /// Returns the array, which stays valid as long as this value.
    pub(crate) fn as_ptr(&self) -> *mut TfLiteIntArray {
        self.0
    }

    /// Returns the elements.
    pub(crate) fn elements(&self) -> &[c_int] {
        // SAFETY: the array was made by `new`, and C code that gets it only reads it.
        unsafe { TfLiteIntArray::elements(self.0) }
    }

    /// Gives the array away; whoever gets it frees it.
    pub(crate) fn into_raw(self) -> *mut TfLiteIntArray {
        let array = self.0;
        std::mem::forget(self);
        array
    }
}

impl Drop for Integers {
    fn drop(&mut self) {
        // SAFETY: the array was made by `new` and belongs to this value.
        unsafe { TfLiteIntArray::free(self.0) };
    }
}

/// Returns quantization parameters for C, allocated with `malloc`; those of kind `NONE` for a tensor without.
pub(crate) fn quantization(quantization: Option<&Quantization>) -> TfLiteQuantization {
    let none = TfLiteQuantization { kind: TfLiteQuantizationType::NONE, params: std::ptr::null_mut() };
    let Some(quantization) = quantization else { return none };
    // SAFETY: malloc has no preconditions.
    let params = unsafe { libc::malloc(size_of::<TfLiteAffineQuantization>()) };
    if params.is_null() {
        return none;
    }
    let zero_point: Vec<c_int> = quantization.zero_point.iter().map(|point| *point as c_int).collect();
    let affine = TfLiteAffineQuantization {
        scale: TfLiteFloatArray::new(&quantization.scale),
        zero_point: TfLiteIntArray::new(&zero_point),
        quantized_dimension: i32::try_from(quantization.axis).unwrap_or(0),
    };
    // SAFETY: the memory is as large as the struct, aligned for any type, and nobody else has it.
    unsafe { params.cast::<TfLiteAffineQuantization>().write(affine) };
    TfLiteQuantization { kind: TfLiteQuantizationType::AFFINE, params }
}

/// Frees the parameters of a tensor's quantization.
///
/// # Safety
///
/// The parameters are null or were allocated with `malloc`, as [`quantization`] and delegates do it, and are not used
/// afterwards.
pub(crate) unsafe fn free_quantization(quantization: TfLiteQuantization) {
    if quantization.params.is_null() {
        return;
    }
    if quantization.kind == TfLiteQuantizationType::AFFINE {
        let affine = quantization.params.cast::<TfLiteAffineQuantization>();
        // SAFETY: the kind says which struct the pointer leads to, and the caller gives it away.
        unsafe {
            TfLiteFloatArray::free((*affine).scale);
            TfLiteIntArray::free((*affine).zero_point);
        }
    }
    // SAFETY: the caller states that the memory is of `malloc`.
    unsafe { libc::free(quantization.params.cast::<c_void>()) };
}
