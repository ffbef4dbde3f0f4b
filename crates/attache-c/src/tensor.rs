#![allow(unsafe_code)]
//! The functions of `TfLiteTensor` that the C API has for programs. Tensors of interpreters are served by their
//! interpreter; others, such as those that operators get, by what is in the struct.

use std::ffi::{c_char, c_void};
use std::slice;

use attache_abi::{TfLiteIntArray, TfLiteQuantizationParams, TfLiteStatus, TfLiteTensor, TfLiteType};

use crate::fault::{Fault, Reporter};
use crate::guard::exports;
use crate::interpreter::{self, TfLiteInterpreter};
use crate::live::{self, Owner};

/// Returns the tensor at a pointer of C code.
fn tensor<'a>(tensor: *const TfLiteTensor) -> Result<&'a TfLiteTensor, Fault> {
    // SAFETY: the caller of the C function passes null or a valid tensor.
    unsafe { tensor.as_ref() }.ok_or_else(|| Fault::new("null where a TfLiteTensor is expected"))
}

fn read<T>(pointer: *const TfLiteTensor, failed: T, read: impl FnOnce(&TfLiteTensor) -> T) -> T {
    Reporter::default().settle(tensor(pointer).map(read), failed)
}

fn interpreter_of(owner: Owner) -> *const TfLiteInterpreter {
    std::ptr::with_exposed_provenance(owner.interpreter)
}

/// Returns the bytes of a tensor that is of no interpreter.
fn bytes_of<'a>(pointer: *const TfLiteTensor, size: usize) -> Result<&'a mut [u8], Fault> {
    let tensor = tensor(pointer)?;
    if tensor.bytes != size {
        return Err(Fault::new(format!("the tensor has {} bytes, not {size}", tensor.bytes)));
    }
    if tensor.data.is_null() {
        return Err(Fault::new("the tensor has no memory"));
    }
    // SAFETY: a valid tensor has as many bytes at `data`.
    Ok(unsafe { slice::from_raw_parts_mut(tensor.data.cast(), size) })
}

fn not_null(buffer: *const c_void, size: usize) -> Result<(), Fault> {
    if buffer.is_null() && size > 0 { Err(Fault::new("null where a buffer is expected")) } else { Ok(()) }
}

fn copy_from(pointer: *mut TfLiteTensor, buffer: *const c_void, size: usize) -> TfLiteStatus {
    let checked = not_null(buffer, size).and_then(|()| tensor(pointer).map(drop));
    if let Err(fault) = checked {
        return Reporter::default().status(Err(fault));
    }
    let start = if size == 0 { std::ptr::dangling() } else { buffer.cast::<u8>() };
    // SAFETY: the caller of the C function passes a buffer of `size` bytes.
    let bytes = unsafe { slice::from_raw_parts(start, size) };
    match live::owner_of(pointer) {
        Some((owner, index)) => {
            interpreter::status(interpreter_of(owner), |state| state.copy_from(owner.subgraph, index, bytes))
        }
        None => Reporter::default().status(bytes_of(pointer, size).map(|into| into.copy_from_slice(bytes))),
    }
}

fn copy_to(pointer: *const TfLiteTensor, buffer: *mut c_void, size: usize) -> TfLiteStatus {
    let checked = not_null(buffer, size).and_then(|()| tensor(pointer).map(drop));
    if let Err(fault) = checked {
        return Reporter::default().status(Err(fault));
    }
    let start = if size == 0 { std::ptr::dangling_mut() } else { buffer.cast::<u8>() };
    // SAFETY: the caller of the C function passes a buffer of `size` bytes, which it does not use meanwhile.
    let bytes = unsafe { slice::from_raw_parts_mut(start, size) };
    match live::owner_of(pointer) {
        Some((owner, index)) => {
            interpreter::status(interpreter_of(owner), |state| state.copy_to(owner.subgraph, index, bytes))
        }
        None => Reporter::default().status(bytes_of(pointer, size).map(|from| bytes.copy_from_slice(from))),
    }
}

exports! {
    /// Returns the type of a tensor's elements.
    fn TfLiteTensorType(tensor: *const TfLiteTensor) -> TfLiteType {
        read(tensor, TfLiteType::NO_TYPE, |tensor| tensor.kind)
    } else TfLiteType::NO_TYPE;

    /// Returns the number of extents; -1 if the shape is not known.
    fn TfLiteTensorNumDims(tensor: *const TfLiteTensor) -> i32 {
        // SAFETY: `dims` of a valid tensor is null or a valid array.
        read(tensor, -1, |tensor| unsafe { tensor.dims.as_ref() }.map_or(-1, |dims| dims.size))
    } else -1;

    /// Returns an extent; 0 if there is no such extent.
    fn TfLiteTensorDim(tensor: *const TfLiteTensor, axis: i32) -> i32 {
        read(tensor, 0, |tensor| {
            // SAFETY: `dims` of a valid tensor is null or a valid array.
            let dims = unsafe { TfLiteIntArray::elements(tensor.dims) };
            usize::try_from(axis).ok().and_then(|axis| dims.get(axis).copied()).unwrap_or(0)
        })
    } else 0;

    /// Returns the size of a tensor in bytes.
    fn TfLiteTensorByteSize(tensor: *const TfLiteTensor) -> usize {
        read(tensor, 0, |tensor| tensor.bytes)
    } else 0;

    /// Returns the address of a tensor's bytes. That of an input or an output is aligned to 64 bytes and stays the same
    /// until an input is resized or a delegate added, from `AllocateTensors` on; before it is null, as for tensors that have none.
    fn TfLiteTensorData(tensor: *const TfLiteTensor) -> *mut c_void {
        match live::owner_of(tensor) {
            Some((owner, index)) => {
                let address = |state: &mut crate::state::State| state.address(owner.subgraph, index);
                interpreter::with(interpreter_of(owner), std::ptr::null_mut(), address).cast()
            }
            None => read(tensor, std::ptr::null_mut(), |tensor| tensor.data),
        }
    } else std::ptr::null_mut();

    /// Returns the name of a tensor.
    fn TfLiteTensorName(tensor: *const TfLiteTensor) -> *const c_char {
        read(tensor, std::ptr::null(), |tensor| tensor.name)
    } else std::ptr::null();

    /// Returns the scale and the zero point of a tensor that has one of each; zeros for others.
    fn TfLiteTensorQuantizationParams(tensor: *const TfLiteTensor) -> TfLiteQuantizationParams {
        read(tensor, TfLiteQuantizationParams::default(), |tensor| tensor.params)
    } else TfLiteQuantizationParams::default();

    /// Copies `size` bytes into a tensor. An error if the tensor has another size.
    fn TfLiteTensorCopyFromBuffer(
        tensor: *mut TfLiteTensor,
        buffer: *const c_void,
        size: usize,
    ) -> TfLiteStatus {
        copy_from(tensor, buffer, size)
    } else TfLiteStatus::ERROR;

    /// Copies `size` bytes out of a tensor. An error if the tensor has another size.
    fn TfLiteTensorCopyToBuffer(tensor: *const TfLiteTensor, buffer: *mut c_void, size: usize) -> TfLiteStatus {
        copy_to(tensor, buffer, size)
    } else TfLiteStatus::ERROR;
}
