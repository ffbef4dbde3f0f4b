#![allow(unsafe_code)]
//! `TfLiteOperator…`.

use std::ffi::{CStr, c_char, c_int, c_void};

use attache_abi::{TfLiteAsyncKernel, TfLiteBuiltinOperator, TfLiteContext, TfLiteNode, TfLiteOperator, TfLiteStatus};

use crate::guard::guard;
use crate::operator::{Free, FreeWithData, Init, InitWithData, Operator, Step, StepWithData};

/// Makes the asynchronous kernel of a node. Attaché never calls it.
type AsyncKernel = unsafe extern "C" fn(*mut TfLiteContext, *mut TfLiteNode) -> *mut TfLiteAsyncKernel;
/// The same with the operator's user data first.
type AsyncKernelWithData =
    unsafe extern "C" fn(*mut c_void, *mut TfLiteContext, *mut TfLiteNode) -> *mut TfLiteAsyncKernel;

/// Returns an operator that `TfLiteOperatorCreate` made.
///
/// # Safety
///
/// The pointer is null or of that function, and nothing else refers to the operator while the result is in use.
unsafe fn own<'a>(operator: *mut TfLiteOperator) -> Option<&'a mut Operator> {
    // SAFETY: the caller states it.
    unsafe { operator.cast::<Operator>().as_mut() }
}

/// Changes an operator. An error for null.
///
/// # Safety
///
/// As [`own`].
unsafe fn set(operator: *mut TfLiteOperator, change: impl FnOnce(&mut Operator)) -> TfLiteStatus {
    // SAFETY: the caller states it.
    unsafe { own(operator) }.map_or(TfLiteStatus::ERROR, |operator| {
        change(operator);
        TfLiteStatus::OK
    })
}

/// Makes an operator.
///
/// # Safety
///
/// The name is null or a text that ends with a zero byte.
unsafe fn create(
    code: TfLiteBuiltinOperator,
    name: *const c_char,
    version: c_int,
    user_data: *mut c_void,
) -> *mut TfLiteOperator {
    // SAFETY: the caller states it.
    let own = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_owned());
    Operator { given: name, ..Operator::new(code, own, version, user_data) }.into_raw()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorCreate(
    code: TfLiteBuiltinOperator,
    name: *const c_char,
    version: c_int,
    user_data: *mut c_void,
) -> *mut TfLiteOperator {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(std::ptr::null_mut(), || unsafe { create(code, name, version, user_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorCreateWithData(
    code: TfLiteBuiltinOperator,
    name: *const c_char,
    version: c_int,
    user_data: *mut c_void,
) -> *mut TfLiteOperator {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(std::ptr::null_mut(), || unsafe { create(code, name, version, user_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorDelete(operator: *mut TfLiteOperator) {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard((), || unsafe { Operator::delete(operator) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorGetBuiltInCode(operator: *const TfLiteOperator) -> TfLiteBuiltinOperator {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(TfLiteBuiltinOperator::default(), || unsafe {
        own(operator.cast_mut()).map_or(TfLiteBuiltinOperator::default(), |operator| operator.code)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorGetCustomName(operator: *const TfLiteOperator) -> *const c_char {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(std::ptr::null(), || unsafe { own(operator.cast_mut()).map_or(std::ptr::null(), |operator| operator.name()) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorGetVersion(operator: *const TfLiteOperator) -> c_int {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(-1, || unsafe { own(operator.cast_mut()).map_or(-1, |operator| operator.version) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorGetUserData(operator: *const TfLiteOperator) -> *mut c_void {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(std::ptr::null_mut(), || unsafe {
        own(operator.cast_mut()).map_or(std::ptr::null_mut(), |operator| operator.user_data)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetInit(operator: *mut TfLiteOperator, init: Option<Init>) {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard((), || unsafe {
        if let Some(operator) = own(operator) {
            operator.init = init;
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetInitWithData(
    operator: *mut TfLiteOperator,
    init_with_data: Option<InitWithData>,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(TfLiteStatus::ERROR, || unsafe { set(operator, |operator| operator.init_with_data = init_with_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetFree(operator: *mut TfLiteOperator, free: Option<Free>) {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard((), || unsafe {
        if let Some(operator) = own(operator) {
            operator.free = free;
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetFreeWithData(
    operator: *mut TfLiteOperator,
    free_with_data: Option<FreeWithData>,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(TfLiteStatus::ERROR, || unsafe { set(operator, |operator| operator.free_with_data = free_with_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetPrepare(operator: *mut TfLiteOperator, prepare: Option<Step>) {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard((), || unsafe {
        if let Some(operator) = own(operator) {
            operator.prepare = prepare;
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetPrepareWithData(
    operator: *mut TfLiteOperator,
    prepare_with_data: Option<StepWithData>,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(TfLiteStatus::ERROR, || unsafe { set(operator, |operator| operator.prepare_with_data = prepare_with_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetInvoke(operator: *mut TfLiteOperator, invoke: Option<Step>) {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard((), || unsafe {
        if let Some(operator) = own(operator) {
            operator.invoke = invoke;
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetInvokeWithData(
    operator: *mut TfLiteOperator,
    invoke_with_data: Option<StepWithData>,
) -> TfLiteStatus {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard(TfLiteStatus::ERROR, || unsafe { set(operator, |operator| operator.invoke_with_data = invoke_with_data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetAsyncKernel(_: *mut TfLiteOperator, _: Option<AsyncKernel>) {
    // Attaché never calls an asynchronous kernel.
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetAsyncKernelWithData(
    _: *mut TfLiteOperator,
    _: Option<AsyncKernelWithData>,
) -> TfLiteStatus {
    // Attaché never calls an asynchronous kernel.
    TfLiteStatus::OK
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOperatorSetInplaceOperator(operator: *mut TfLiteOperator, inplace: u64) {
    // SAFETY: C code passes null, or what the functions of this file made.
    guard((), || unsafe {
        if let Some(operator) = own(operator) {
            operator.inplace = inplace;
        }
    })
}

pub(super) static TABLE: super::Table = super::Table(&[
    TfLiteOperatorCreate as *const (),
    TfLiteOperatorCreateWithData as *const (),
    TfLiteOperatorDelete as *const (),
    TfLiteOperatorGetBuiltInCode as *const (),
    TfLiteOperatorGetCustomName as *const (),
    TfLiteOperatorGetVersion as *const (),
    TfLiteOperatorGetUserData as *const (),
    TfLiteOperatorSetInit as *const (),
    TfLiteOperatorSetInitWithData as *const (),
    TfLiteOperatorSetFree as *const (),
    TfLiteOperatorSetFreeWithData as *const (),
    TfLiteOperatorSetPrepare as *const (),
    TfLiteOperatorSetPrepareWithData as *const (),
    TfLiteOperatorSetInvoke as *const (),
    TfLiteOperatorSetInvokeWithData as *const (),
    TfLiteOperatorSetAsyncKernel as *const (),
    TfLiteOperatorSetAsyncKernelWithData as *const (),
    TfLiteOperatorSetInplaceOperator as *const (),
]);
