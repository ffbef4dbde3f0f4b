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
    /// Fails for what no tensor can be: only dynamic ones and those that the runtime allocates can be added, and only
    /// dynamic ones have data, always.
    pub(crate) fn check(&self) -> Result<(), String> {
        let has_data = !self.0.data.is_null();
        match self.0.allocation_type {
            TfLiteAllocationType::DYNAMIC if !has_data => Err("AddTensor: a dynamic tensor needs data".into()),
            TfLiteAllocationType::DYNAMIC => Ok(()),
            TfLiteAllocationType::ARENA_RW | TfLiteAllocationType::ARENA_RW_PERSISTENT if has_data => {
                Err("AddTensor: a tensor that the runtime allocates cannot have data".into())
            }
            TfLiteAllocationType::ARENA_RW | TfLiteAllocationType::ARENA_RW_PERSISTENT => Ok(()),
            other => Err(format!("AddTensor: tensors of allocation type {} cannot be added", other.0)),
        }
    }

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
