#![allow(unsafe_code)]
//! `TfLiteOpaqueNode…`.

use std::ffi::{c_int, c_void};

use attache_abi::{TfLiteContext, TfLiteIntArray, TfLiteNode, TfLiteStatus, TfLiteTensor};

use crate::guard::guard;
use crate::memory::Integers;
use crate::session::Session;

/// Returns the tensor that a node names at a place of a list; null if there is none.
///
/// # Safety
///
/// The context is null or of this library, and the list is null or valid.
unsafe fn tensor_at(context: *const TfLiteContext, list: *const TfLiteIntArray, place: c_int) -> *mut TfLiteTensor {
    // SAFETY: the caller states it.
    unsafe {
        let index = index_at(list, place);
        Session::of(context).map_or(std::ptr::null_mut(), |session| session.tensor(index))
    }
}

/// Returns the index of the tensor at a place of a list; -1 if there is none.
///
/// # Safety
///
/// The list is null or valid.
unsafe fn index_at(list: *const TfLiteIntArray, place: c_int) -> c_int {
    // SAFETY: the caller states it.
    let list = unsafe { TfLiteIntArray::elements(list) };
    usize::try_from(place).ok().and_then(|place| list.get(place).copied()).unwrap_or(-1)
}

/// Tells C code where a list is and how long.
///
/// # Safety
///
/// The list is null or valid, and the places may be written.
unsafe fn tell(list: *const TfLiteIntArray, start: *mut *const c_int, length: *mut c_int) -> TfLiteStatus {
    if start.is_null() || length.is_null() {
        return TfLiteStatus::ERROR;
    }
    // SAFETY: the caller states it.
    unsafe {
        let list = TfLiteIntArray::elements(list);
        start.write(list.as_ptr());
        length.write(list.len() as c_int);
    }
    TfLiteStatus::OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeGetInput(
    context: *const TfLiteContext,
    node: *const TfLiteNode,
    place: c_int,
) -> *mut TfLiteTensor {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null_mut(), || unsafe {
        node.as_ref().map_or(std::ptr::null_mut(), |node| tensor_at(context, node.inputs, place))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeGetOutput(
    context: *mut TfLiteContext,
    node: *const TfLiteNode,
    place: c_int,
) -> *mut TfLiteTensor {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null_mut(), || unsafe {
        node.as_ref().map_or(std::ptr::null_mut(), |node| tensor_at(context, node.outputs, place))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeNumberOfInputs(node: *const TfLiteNode) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(0, || unsafe { node.as_ref().map_or(0, |node| TfLiteIntArray::elements(node.inputs).len() as c_int) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeNumberOfOutputs(node: *const TfLiteNode) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(0, || unsafe { node.as_ref().map_or(0, |node| TfLiteIntArray::elements(node.outputs).len() as c_int) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeGetUserData(node: *const TfLiteNode) -> *mut c_void {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null_mut(), || unsafe { node.as_ref().map_or(std::ptr::null_mut(), |node| node.user_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeGetBuiltinData(node: *const TfLiteNode) -> *mut c_void {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(std::ptr::null_mut(), || unsafe { node.as_ref().map_or(std::ptr::null_mut(), |node| node.builtin_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeGetCustomInitialData(
    node: *const TfLiteNode,
    data: *mut *const c_void,
    size: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        match node.as_ref() {
            Some(node) if !data.is_null() && !size.is_null() => {
                data.write(node.custom_initial_data);
                size.write(node.custom_initial_data_size);
                TfLiteStatus::OK
            }
            _ => TfLiteStatus::ERROR,
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeInputs(
    node: *const TfLiteNode,
    start: *mut *const c_int,
    length: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        node.as_ref().map_or(TfLiteStatus::ERROR, |node| tell(node.inputs, start, length))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeOutputs(
    node: *const TfLiteNode,
    start: *mut *const c_int,
    length: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        node.as_ref().map_or(TfLiteStatus::ERROR, |node| tell(node.outputs, start, length))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeTemporaries(
    node: *const TfLiteNode,
    start: *mut *const c_int,
    length: *mut c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        node.as_ref().map_or(TfLiteStatus::ERROR, |node| tell(node.temporaries, start, length))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeSetTemporaries(
    node: *mut TfLiteNode,
    temporaries: *const c_int,
    count: c_int,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(TfLiteStatus::ERROR, || unsafe {
        let (Some(node), Ok(count)) = (node.as_mut(), usize::try_from(count)) else { return TfLiteStatus::ERROR };
        if temporaries.is_null() && count > 0 {
            return TfLiteStatus::ERROR;
        }
        let list = if count == 0 { &[][..] } else { std::slice::from_raw_parts(temporaries, count) };
        TfLiteIntArray::free(node.temporaries);
        node.temporaries = Integers::new(list).into_raw();
        TfLiteStatus::OK
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeGetInputTensorIndex(node: *const TfLiteNode, place: c_int) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(-1, || unsafe { node.as_ref().map_or(-1, |node| index_at(node.inputs, place)) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueNodeGetOutputTensorIndex(node: *const TfLiteNode, place: c_int) -> c_int {
    // SAFETY: C code passes null, or what the runtime gave it.
    guard(-1, || unsafe { node.as_ref().map_or(-1, |node| index_at(node.outputs, place)) })
}

pub(super) static TABLE: super::Table = super::Table(&[
    TfLiteOpaqueNodeGetInput as *const (),
    TfLiteOpaqueNodeGetOutput as *const (),
    TfLiteOpaqueNodeNumberOfInputs as *const (),
    TfLiteOpaqueNodeNumberOfOutputs as *const (),
    TfLiteOpaqueNodeGetUserData as *const (),
    TfLiteOpaqueNodeGetBuiltinData as *const (),
    TfLiteOpaqueNodeGetCustomInitialData as *const (),
    TfLiteOpaqueNodeInputs as *const (),
    TfLiteOpaqueNodeOutputs as *const (),
    TfLiteOpaqueNodeTemporaries as *const (),
    TfLiteOpaqueNodeSetTemporaries as *const (),
    TfLiteOpaqueNodeGetInputTensorIndex as *const (),
    TfLiteOpaqueNodeGetOutputTensorIndex as *const (),
]);
