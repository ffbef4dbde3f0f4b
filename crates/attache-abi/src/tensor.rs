//! `TfLiteTensor`, quantization and sparsity.

use std::ffi::{c_char, c_int, c_void};

use crate::{
    TfLiteAllocationType, TfLiteBufferHandle, TfLiteDelegate, TfLiteDimensionType, TfLiteFloatArray, TfLiteIntArray,
    TfLiteQuantizationType, TfLiteType,
};

/// One scale and zero point for all elements: `real = scale * (integer - zero_point)`. A scale of 0 stands for none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct TfLiteQuantizationParams {
    pub scale: f32,
    pub zero_point: i32,
}

/// Quantization of any kind: `params` points to the struct that `kind` names, or is null.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteQuantization {
    /// `type` in C.
    pub kind: TfLiteQuantizationType,
    pub params: *mut c_void,
}

/// A scale and a zero point for each element of one dimension, or one of each for all.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteAffineQuantization {
    pub scale: *mut TfLiteFloatArray,
    pub zero_point: *mut TfLiteIntArray,
    pub quantized_dimension: i32,
}

/// A scale for each block of elements; `scale` and `zero_point` are indices of tensors, or negative for none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteBlockwiseQuantization {
    pub scale: i32,
    pub zero_point: i32,
    pub blocksize: i32,
    pub quantized_dimension: i32,
}

/// Scales along several dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteMultiAxisQuantization {
    pub scales: *mut TfLiteFloatArray,
    pub zero_points: *mut TfLiteIntArray,
    pub blocksize: i32,
    pub quantized_dimensions: *mut TfLiteIntArray,
}

/// How one dimension of a sparse tensor is stored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteDimensionMetadata {
    pub format: TfLiteDimensionType,
    pub dense_size: c_int,
    pub array_segments: *mut TfLiteIntArray,
    pub array_indices: *mut TfLiteIntArray,
}

/// How a sparse tensor is stored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteSparsity {
    pub traversal_order: *mut TfLiteIntArray,
    pub block_map: *mut TfLiteIntArray,
    pub dim_metadata: *mut TfLiteDimensionMetadata,
    pub dim_metadata_size: c_int,
}

/// A tensor of a runtime. Programs that use the C API see only pointers to it; delegates and operators read its fields.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct TfLiteTensor {
    /// `type` in C.
    pub kind: TfLiteType,
    /// A union of pointers in C.
    pub data: *mut c_void,
    pub dims: *mut TfLiteIntArray,
    pub params: TfLiteQuantizationParams,
    pub allocation_type: TfLiteAllocationType,
    pub bytes: usize,
    pub allocation: *const c_void,
    pub name: *const c_char,
    pub delegate: *mut TfLiteDelegate,
    pub buffer_handle: TfLiteBufferHandle,
    pub data_is_stale: bool,
    pub is_variable: bool,
    pub quantization: TfLiteQuantization,
    pub sparsity: *mut TfLiteSparsity,
    pub dims_signature: *const TfLiteIntArray,
}

impl TfLiteTensor {
    /// Returns a tensor without type, shape and bytes.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            kind: TfLiteType::NO_TYPE,
            data: std::ptr::null_mut(),
            dims: std::ptr::null_mut(),
            params: TfLiteQuantizationParams { scale: 0.0, zero_point: 0 },
            allocation_type: TfLiteAllocationType::MEM_NONE,
            bytes: 0,
            allocation: std::ptr::null(),
            name: std::ptr::null(),
            delegate: std::ptr::null_mut(),
            buffer_handle: crate::NULL_BUFFER_HANDLE,
            data_is_stale: false,
            is_variable: false,
            quantization: TfLiteQuantization::NONE,
            sparsity: std::ptr::null_mut(),
            dims_signature: std::ptr::null(),
        }
    }
}
