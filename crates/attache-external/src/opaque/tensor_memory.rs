#![allow(unsafe_code)]
//! The functions on `TfLiteTensor` that operators and delegates use: how the bytes of a tensor are allocated, made longer
//! and freed. They work on the struct alone.

use std::ffi::{c_char, c_void};

use attache_abi::{
    TfLiteAllocationType, TfLiteDimensionMetadata, TfLiteDimensionType, TfLiteIntArray, TfLiteQuantization,
    TfLiteQuantizationParams, TfLiteSparsity, TfLiteStatus, TfLiteTensor, TfLiteType,
};

/// By allocation type: what `TfLiteTensorGet…` return. The numbers are those of the enums `TfLiteAllocationStrategy`,
/// `TfLiteRunStability` and `TfLiteRunStep`; 0 is "unknown" in each.
static STRATEGIES: [i32; 9] = [1, 2, 3, 3, 4, 4, 0, 5, 0];
static ADDRESS_STABILITIES: [i32; 9] = [3, 3, 1, 1, 2, 2, 0, 3, 0];
static DATA_STABILITIES: [i32; 9] = [3, 3, 2, 3, 2, 2, 0, 2, 0];
static DATA_STEPS: [i32; 9] = [1, 1, 3, 3, 3, 2, 0, 3, 0];
static SHAPE_STEPS: [i32; 9] = [1, 1, 2, 2, 3, 2, 0, 3, 0];

fn row(table: &[i32; 9], tensor: *const TfLiteTensor) -> i32 {
    // SAFETY: the caller of the C function passes null or a valid tensor.
    let tensor = unsafe { tensor.as_ref() };
    tensor.and_then(|tensor| table.get(usize::try_from(tensor.allocation_type.0).ok()?).copied()).unwrap_or(0)
}

/// Whether the bytes of a tensor are allocated one by one, with `malloc`.
fn is_allocated_alone(tensor: &TfLiteTensor) -> bool {
    [TfLiteAllocationType::DYNAMIC, TfLiteAllocationType::PERSISTENT_RO].contains(&tensor.allocation_type)
}

/// Returns the tensor at a pointer of C code, to be changed.
fn tensor_mut<'a>(tensor: *mut TfLiteTensor) -> Option<&'a mut TfLiteTensor> {
    // SAFETY: the caller of the C function passes null or a valid tensor that it does not use meanwhile.
    unsafe { tensor.as_mut() }
}

fn free_data(tensor: &mut TfLiteTensor) {
    if is_allocated_alone(tensor) {
        // SAFETY: the bytes of such a tensor are of `malloc`, or null.
        unsafe { libc::free(tensor.data) };
        tensor.data = std::ptr::null_mut();
    }
}

/// Changes the number of bytes of a tensor that is allocated alone, with or without what is in them.
fn resize(tensor: &mut TfLiteTensor, size: usize, keeps: bool) -> TfLiteStatus {
    if !is_allocated_alone(tensor) || (tensor.bytes == size && !tensor.data.is_null()) {
        return TfLiteStatus::OK;
    }
    if size == 0 {
        free_data(tensor);
    } else {
        let before = if keeps { tensor.data } else { std::ptr::null_mut() };
        if !keeps {
            free_data(tensor);
        }
        // SAFETY: the bytes of such a tensor are of `malloc`, or null.
        let data = unsafe { libc::realloc(before, size) };
        if data.is_null() {
            return TfLiteStatus::ERROR;
        }
        tensor.data = data;
    }
    tensor.bytes = size;
    TfLiteStatus::OK
}

fn free_quantization(quantization: &mut TfLiteQuantization) {
    // SAFETY: parameters of every kind are of `malloc`, or null, and nothing uses them any more.
    unsafe { std::mem::replace(quantization, TfLiteQuantization::NONE).free() };
}

/// Frees what describes a sparse tensor.
///
/// # Safety
///
/// `sparsity` is null or a valid struct of `malloc`, as its parts are.
unsafe fn free_sparsity(sparsity: *mut TfLiteSparsity) {
    // SAFETY: the caller states that all parts are valid and of `malloc`, and that nobody uses them afterwards.
    unsafe {
        let Some(parts) = sparsity.as_ref() else { return };
        TfLiteIntArray::free(parts.traversal_order);
        TfLiteIntArray::free(parts.block_map);
        for index in 0..usize::try_from(parts.dim_metadata_size).unwrap_or(0) {
            let metadata: TfLiteDimensionMetadata = *parts.dim_metadata.add(index);
            // Those who fill in a dense dimension leave the arrays of sparse ones as they find them.
            if metadata.format != TfLiteDimensionType::DENSE {
                TfLiteIntArray::free(metadata.array_segments);
                TfLiteIntArray::free(metadata.array_indices);
            }
        }
        libc::free(parts.dim_metadata.cast());
        libc::free(sparsity.cast());
    }
}

/// Frees everything of a tensor but the bytes of those that are not allocated alone.
///
/// # Safety
///
/// The parts of the tensor are null or of `malloc`, and nobody uses them afterwards.
pub unsafe fn free_parts(tensor: &mut TfLiteTensor) {
    free_data(tensor);
    free_quantization(&mut tensor.quantization);
    // SAFETY: the caller states that the parts are null or of `malloc`.
    unsafe {
        TfLiteIntArray::free(tensor.dims);
        TfLiteIntArray::free(tensor.dims_signature.cast_mut());
        free_sparsity(tensor.sparsity);
    }
    (tensor.dims, tensor.dims_signature) = (std::ptr::null_mut(), std::ptr::null());
    tensor.sparsity = std::ptr::null_mut();
}

/// Copies type, shape and bytes of a tensor to one of the same size.
fn copy(from: &TfLiteTensor, to: &mut TfLiteTensor) -> TfLiteStatus {
    if from.bytes != to.bytes || (from.bytes > 0 && (from.data.is_null() || to.data.is_null())) {
        return TfLiteStatus::ERROR;
    }
    to.kind = from.kind;
    // SAFETY: `dims` of valid tensors are null or valid arrays, and both tensors have `bytes` bytes at `data`.
    unsafe {
        TfLiteIntArray::free(to.dims);
        to.dims = TfLiteIntArray::copy(from.dims);
        if from.bytes > 0 {
            std::ptr::copy(from.data.cast::<u8>(), to.data.cast::<u8>(), from.bytes);
        }
    }
    (to.buffer_handle, to.data_is_stale, to.delegate) = (from.buffer_handle, from.data_is_stale, from.delegate);
    TfLiteStatus::OK
}

exports! {
    /// Returns how a tensor's bytes are allocated, a `TfLiteAllocationStrategy`.
    fn TfLiteTensorGetAllocationStrategy(tensor: *const TfLiteTensor) -> i32 {
        row(&STRATEGIES, tensor)
    } else 0;

    /// Returns how long the address of a tensor's bytes stays the same, a `TfLiteRunStability`.
    fn TfLiteTensorGetBufferAddressStability(tensor: *const TfLiteTensor) -> i32 {
        row(&ADDRESS_STABILITIES, tensor)
    } else 0;

    /// Returns how long a tensor's bytes stay the same, a `TfLiteRunStability`.
    fn TfLiteTensorGetDataStability(tensor: *const TfLiteTensor) -> i32 {
        row(&DATA_STABILITIES, tensor)
    } else 0;

    /// Returns when a tensor's bytes are known, a `TfLiteRunStep`.
    fn TfLiteTensorGetDataKnownStep(tensor: *const TfLiteTensor) -> i32 {
        row(&DATA_STEPS, tensor)
    } else 0;

    /// Returns when a tensor's shape is known, a `TfLiteRunStep`.
    fn TfLiteTensorGetShapeKnownStep(tensor: *const TfLiteTensor) -> i32 {
        row(&SHAPE_STEPS, tensor)
    } else 0;

    /// Frees the bytes of a tensor that is allocated alone.
    fn TfLiteTensorDataFree(tensor: *mut TfLiteTensor) {
        tensor_mut(tensor).into_iter().for_each(free_data);
    } else ();

    /// Frees what a tensor refers to, but not the struct.
    fn TfLiteTensorFree(tensor: *mut TfLiteTensor) {
        // SAFETY: the caller of the C function passes a tensor whose parts are of `malloc`.
        tensor_mut(tensor).into_iter().for_each(|tensor| unsafe { free_parts(tensor) });
    } else ();

    /// Frees what a tensor refers to, and sets its fields. The tensor stays that of its delegate.
    fn TfLiteTensorReset(
        kind: TfLiteType,
        name: *const c_char,
        dims: *mut TfLiteIntArray,
        params: TfLiteQuantizationParams,
        buffer: *mut c_char,
        size: usize,
        allocation_type: TfLiteAllocationType,
        allocation: *const c_void,
        is_variable: bool,
        tensor: *mut TfLiteTensor,
    ) {
        if let Some(tensor) = tensor_mut(tensor) {
            // SAFETY: as in `TfLiteTensorFree`.
            unsafe { free_parts(tensor) };
            *tensor = TfLiteTensor {
                kind,
                data: buffer.cast(),
                dims,
                params,
                allocation_type,
                bytes: size,
                allocation,
                name,
                is_variable,
                delegate: tensor.delegate,
                buffer_handle: tensor.buffer_handle,
                data_is_stale: tensor.data_is_stale,
                ..TfLiteTensor::empty()
            };
        }
    } else ();

    /// Copies type, shape and bytes of a tensor to one of the same size. Does nothing for null.
    fn TfLiteTensorCopy(from: *const TfLiteTensor, to: *mut TfLiteTensor) -> TfLiteStatus {
        if from.is_null() || to.is_null() || std::ptr::eq(from, to) {
            return TfLiteStatus::OK;
        }
        // SAFETY: the caller of the C function passes valid tensors, which are not the same.
        unsafe { copy(&*from, &mut *to) }
    } else TfLiteStatus::ERROR;

    /// Changes the number of bytes of a tensor that is allocated alone, and keeps what is in them if `keeps`.
    fn TfLiteTensorResizeMaybeCopy(size: usize, tensor: *mut TfLiteTensor, keeps: bool) -> TfLiteStatus {
        tensor_mut(tensor).map_or(TfLiteStatus::ERROR, |tensor| resize(tensor, size, keeps))
    } else TfLiteStatus::ERROR;

    /// Changes the number of bytes of a tensor that is allocated alone, and keeps what is in them.
    fn TfLiteTensorRealloc(size: usize, tensor: *mut TfLiteTensor) -> TfLiteStatus {
        tensor_mut(tensor).map_or(TfLiteStatus::ERROR, |tensor| resize(tensor, size, true))
    } else TfLiteStatus::ERROR;

    /// Frees the parameters of a quantization.
    fn TfLiteQuantizationFree(quantization: *mut TfLiteQuantization) {
        // SAFETY: the caller of the C function passes null or a valid struct.
        unsafe { quantization.as_mut() }.into_iter().for_each(free_quantization);
    } else ();

    /// Frees what describes a sparse tensor. Does nothing for null.
    fn TfLiteSparsityFree(sparsity: *mut TfLiteSparsity) {
        // SAFETY: the caller of the C function passes null or a struct of `malloc`, as its parts are.
        unsafe { free_sparsity(sparsity) };
    } else ();
}
