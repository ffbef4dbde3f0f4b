#![allow(unsafe_code)]
//! `TfLiteOpaqueTensorBuilder…`: describes a tensor for `TfLiteOpaqueContextAddTensor`.

use std::ffi::c_void;

use attache_abi::{TfLiteAllocationType, TfLiteQuantization, TfLiteQuantizationParams, TfLiteTensor, TfLiteType};

use crate::guard::guard;
use crate::memory::Integers;

/// A description of a tensor.
#[derive(Debug)]
pub struct TfLiteOpaqueTensorBuilder(TfLiteTensor);

impl TfLiteOpaqueTensorBuilder {
    /// Makes a tensor that was just added what this describes. Its shape is that of a scalar.
    pub(crate) fn fill(&self, tensor: &mut TfLiteTensor) {
        let TfLiteTensor { kind, data, allocation_type, params, quantization, .. } = self.0;
        let dims = Integers::new(&[]).into_raw();
        *tensor = TfLiteTensor { kind, data, allocation_type, params, quantization, dims, ..TfLiteTensor::empty() };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorBuilderCreate() -> *mut TfLiteOpaqueTensorBuilder {
    guard(std::ptr::null_mut(), || Box::into_raw(Box::new(TfLiteOpaqueTensorBuilder(TfLiteTensor::empty()))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorBuilderDelete(builder: *mut TfLiteOpaqueTensorBuilder) {
    // SAFETY: C code passes null, or what `TfLiteOpaqueTensorBuilderCreate` made.
    guard((), || unsafe {
        if !builder.is_null() {
            drop(Box::from_raw(builder));
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorBuilderSetType(
    builder: *mut TfLiteOpaqueTensorBuilder,
    kind: TfLiteType,
) -> *mut TfLiteOpaqueTensorBuilder {
    // SAFETY: C code passes null, or what `TfLiteOpaqueTensorBuilderCreate` made.
    guard(builder, || unsafe {
        if let Some(builder) = builder.as_mut() {
            builder.0.kind = kind;
        }
        builder
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorBuilderSetData(
    builder: *mut TfLiteOpaqueTensorBuilder,
    data: *mut c_void,
) -> *mut TfLiteOpaqueTensorBuilder {
    // SAFETY: C code passes null, or what `TfLiteOpaqueTensorBuilderCreate` made.
    guard(builder, || unsafe {
        if let Some(builder) = builder.as_mut() {
            builder.0.data = data;
        }
        builder
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorBuilderSetAllocationType(
    builder: *mut TfLiteOpaqueTensorBuilder,
    allocation_type: TfLiteAllocationType,
) -> *mut TfLiteOpaqueTensorBuilder {
    // SAFETY: C code passes null, or what `TfLiteOpaqueTensorBuilderCreate` made.
    guard(builder, || unsafe {
        if let Some(builder) = builder.as_mut() {
            builder.0.allocation_type = allocation_type;
        }
        builder
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorBuilderSetQuantizationParams(
    builder: *mut TfLiteOpaqueTensorBuilder,
    params: TfLiteQuantizationParams,
) -> *mut TfLiteOpaqueTensorBuilder {
    // SAFETY: C code passes null, or what `TfLiteOpaqueTensorBuilderCreate` made.
    guard(builder, || unsafe {
        if let Some(builder) = builder.as_mut() {
            builder.0.params = params;
        }
        builder
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorBuilderSetQuantization(
    builder: *mut TfLiteOpaqueTensorBuilder,
    quantization: TfLiteQuantization,
) -> *mut TfLiteOpaqueTensorBuilder {
    // SAFETY: C code passes null, or what `TfLiteOpaqueTensorBuilderCreate` made.
    guard(builder, || unsafe {
        if let Some(builder) = builder.as_mut() {
            builder.0.quantization = quantization;
        }
        builder
    })
}

pub(super) static TABLE: super::Table = super::Table(&[
    TfLiteOpaqueTensorBuilderCreate as *const (),
    TfLiteOpaqueTensorBuilderDelete as *const (),
    TfLiteOpaqueTensorBuilderSetType as *const (),
    TfLiteOpaqueTensorBuilderSetData as *const (),
    TfLiteOpaqueTensorBuilderSetAllocationType as *const (),
    TfLiteOpaqueTensorBuilderSetQuantizationParams as *const (),
    TfLiteOpaqueTensorBuilderSetQuantization as *const (),
]);
