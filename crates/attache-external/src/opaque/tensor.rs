#![allow(unsafe_code)]
//! `TfLiteOpaqueTensor…`, apart from strings (`text.rs`).

use std::ffi::{c_char, c_int, c_void};

use attache_abi::{
    TfLiteAllocationType, TfLiteIntArray, TfLiteQuantization, TfLiteQuantizationParams, TfLiteStatus, TfLiteTensor,
    TfLiteType,
};

use super::tensor_memory::{
    TfLiteTensorGetAllocationStrategy, TfLiteTensorGetBufferAddressStability, TfLiteTensorGetDataKnownStep,
    TfLiteTensorGetDataStability, TfLiteTensorGetShapeKnownStep,
};
use crate::guard::guard;

/// Returns an extent of a list; -1 if there is none.
///
/// # Safety
///
/// The list is null or valid.
unsafe fn extent(list: *const TfLiteIntArray, place: c_int) -> c_int {
    // SAFETY: the caller states it.
    let list = unsafe { TfLiteIntArray::elements(list) };
    usize::try_from(place).ok().and_then(|place| list.get(place).copied()).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorType(tensor: *const TfLiteTensor) -> TfLiteType {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteType::NO_TYPE, || unsafe { tensor.as_ref().map_or(TfLiteType::NO_TYPE, |tensor| tensor.kind) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorNumDims(tensor: *const TfLiteTensor) -> i32 {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(-1, || unsafe { tensor.as_ref().map_or(-1, |tensor| TfLiteIntArray::elements(tensor.dims).len() as i32) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorDim(tensor: *const TfLiteTensor, place: i32) -> i32 {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(-1, || unsafe { tensor.as_ref().map_or(-1, |tensor| extent(tensor.dims, place)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetNumDimsSignature(
    tensor: *const TfLiteTensor,
    count: *mut i32,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        match tensor.as_ref() {
            Some(tensor) if !count.is_null() => {
                // As in TensorFlow Lite, constants have no signature, and others none of any extents if the file has none.
                let signature = tensor.dims_signature;
                let extents = TfLiteIntArray::elements(signature).len() as i32;
                count.write(if signature.is_null() { -1 } else { extents });
                TfLiteStatus::OK
            }
            _ => TfLiteStatus::ERROR,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetDimSignature(
    tensor: *const TfLiteTensor,
    place: i32,
    length: *mut i32,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        match tensor.as_ref() {
            Some(tensor) if !length.is_null() => {
                let list = TfLiteIntArray::elements(tensor.dims_signature);
                let found = usize::try_from(place).ok().and_then(|place| list.get(place).copied());
                if found.is_none() && !list.is_empty() {
                    return TfLiteStatus::ERROR;
                }
                length.write(found.unwrap_or(-1));
                TfLiteStatus::OK
            }
            _ => TfLiteStatus::ERROR,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorIsVariable(tensor: *const TfLiteTensor) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(0, || unsafe { tensor.as_ref().map_or(0, |tensor| c_int::from(tensor.is_variable)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorByteSize(tensor: *const TfLiteTensor) -> usize {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(0, || unsafe { tensor.as_ref().map_or(0, |tensor| tensor.bytes) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorData(tensor: *const TfLiteTensor) -> *mut c_void {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null_mut(), || unsafe { tensor.as_ref().map_or(std::ptr::null_mut(), |tensor| tensor.data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetAllocationType(tensor: *const TfLiteTensor) -> TfLiteAllocationType {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteAllocationType::MEM_NONE, || unsafe {
        tensor.as_ref().map_or(TfLiteAllocationType::MEM_NONE, |tensor| tensor.allocation_type)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetAllocationStrategy(tensor: *const TfLiteTensor) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    unsafe { TfLiteTensorGetAllocationStrategy(tensor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetBufferAddressStability(tensor: *const TfLiteTensor) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    unsafe { TfLiteTensorGetBufferAddressStability(tensor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetDataStability(tensor: *const TfLiteTensor) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    unsafe { TfLiteTensorGetDataStability(tensor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetDataKnownStep(tensor: *const TfLiteTensor) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    unsafe { TfLiteTensorGetDataKnownStep(tensor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetShapeKnownStep(tensor: *const TfLiteTensor) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    unsafe { TfLiteTensorGetShapeKnownStep(tensor) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorName(tensor: *const TfLiteTensor) -> *const c_char {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null(), || unsafe { tensor.as_ref().map_or(std::ptr::null(), |tensor| tensor.name) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetQuantization(tensor: *const TfLiteTensor) -> TfLiteQuantization {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteQuantization::NONE, || unsafe {
        tensor.as_ref().map_or(TfLiteQuantization::NONE, |tensor| tensor.quantization)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorGetQuantizationParams(
    tensor: *const TfLiteTensor,
) -> TfLiteQuantizationParams {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteQuantizationParams::default(), || unsafe {
        tensor.as_ref().map_or(TfLiteQuantizationParams::default(), |tensor| tensor.params)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorCopyFromBuffer(
    tensor: *mut TfLiteTensor,
    buffer: *const c_void,
    size: usize,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        match tensor.as_ref() {
            Some(tensor) if tensor.bytes == size && (size == 0 || !tensor.data.is_null() && !buffer.is_null()) => {
                if size > 0 {
                    std::ptr::copy(buffer.cast::<u8>(), tensor.data.cast(), size);
                }
                TfLiteStatus::OK
            }
            _ => TfLiteStatus::ERROR,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorCopyToBuffer(
    tensor: *const TfLiteTensor,
    buffer: *mut c_void,
    size: usize,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        match tensor.as_ref() {
            Some(tensor) if tensor.bytes == size && (size == 0 || !tensor.data.is_null() && !buffer.is_null()) => {
                if size > 0 {
                    std::ptr::copy(tensor.data.cast::<u8>(), buffer.cast(), size);
                }
                TfLiteStatus::OK
            }
            _ => TfLiteStatus::ERROR,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorSetAllocationTypeToDynamic(tensor: *mut TfLiteTensor) {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard((), || unsafe {
        if let Some(tensor) = tensor.as_mut()
            && tensor.allocation_type != TfLiteAllocationType::DYNAMIC
        {
            (tensor.allocation_type, tensor.data) = (TfLiteAllocationType::DYNAMIC, std::ptr::null_mut());
        }
    })
}

/// Says that the bytes of a tensor are not in memory of the host's. The status is for callers that expect one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueTensorSetNonCpuAllocation(tensor: *mut TfLiteTensor) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it; the bytes of a dynamic tensor are of `malloc`.
    guard(TfLiteStatus::ERROR, || unsafe {
        let Some(tensor) = tensor.as_mut() else { return TfLiteStatus::ERROR };
        if tensor.allocation_type == TfLiteAllocationType::DYNAMIC {
            libc::free(tensor.data);
        }
        (tensor.allocation_type, tensor.data) = (TfLiteAllocationType::NON_CPU, std::ptr::null_mut());
        TfLiteStatus::OK
    })
}

pub(super) static TABLE: super::Table = super::Table(&[
    TfLiteOpaqueTensorType as *const (),
    TfLiteOpaqueTensorNumDims as *const (),
    TfLiteOpaqueTensorDim as *const (),
    TfLiteOpaqueTensorGetNumDimsSignature as *const (),
    TfLiteOpaqueTensorGetDimSignature as *const (),
    TfLiteOpaqueTensorIsVariable as *const (),
    TfLiteOpaqueTensorByteSize as *const (),
    TfLiteOpaqueTensorData as *const (),
    TfLiteOpaqueTensorGetAllocationType as *const (),
    TfLiteOpaqueTensorGetAllocationStrategy as *const (),
    TfLiteOpaqueTensorGetBufferAddressStability as *const (),
    TfLiteOpaqueTensorGetDataStability as *const (),
    TfLiteOpaqueTensorGetDataKnownStep as *const (),
    TfLiteOpaqueTensorGetShapeKnownStep as *const (),
    TfLiteOpaqueTensorName as *const (),
    TfLiteOpaqueTensorGetQuantization as *const (),
    TfLiteOpaqueTensorGetQuantizationParams as *const (),
    TfLiteOpaqueTensorCopyFromBuffer as *const (),
    TfLiteOpaqueTensorCopyToBuffer as *const (),
    TfLiteOpaqueTensorSetAllocationTypeToDynamic as *const (),
    TfLiteOpaqueTensorSetNonCpuAllocation as *const (),
]);
