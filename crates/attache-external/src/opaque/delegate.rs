#![allow(unsafe_code)]
//! `TfLiteOpaqueDelegate…`.

use std::ffi::c_void;

use attache_abi::{TfLiteDelegate, TfLiteOpaqueDelegateBuilder};

use crate::guard::guard;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueDelegateCreate(
    builder: *const TfLiteOpaqueDelegateBuilder,
) -> *mut TfLiteDelegate {
    // SAFETY: C code passes null, a struct of its own, or what `TfLiteOpaqueDelegateCreate` made.
    guard(std::ptr::null_mut(), || unsafe {
        let Some(builder) = builder.as_ref() else { return std::ptr::null_mut() };
        let delegate = TfLiteDelegate {
            flags: builder.flags,
            opaque_delegate_builder: Box::into_raw(Box::new(*builder)),
            ..TfLiteDelegate::empty()
        };
        Box::into_raw(Box::new(delegate))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueDelegateDelete(delegate: *mut TfLiteDelegate) {
    // SAFETY: C code passes null, a struct of its own, or what `TfLiteOpaqueDelegateCreate` made.
    guard((), || unsafe {
        if !delegate.is_null() {
            let delegate = Box::from_raw(delegate);
            drop(Box::from_raw(delegate.opaque_delegate_builder));
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn TfLiteOpaqueDelegateGetData(delegate: *const TfLiteDelegate) -> *mut c_void {
    // SAFETY: C code passes null, a struct of its own, or what `TfLiteOpaqueDelegateCreate` made.
    guard(std::ptr::null_mut(), || unsafe {
        delegate.as_ref().map_or(std::ptr::null_mut(), |delegate| {
            delegate.opaque_delegate_builder.as_ref().map_or(delegate.data_, |builder| builder.data)
        })
    })
}

pub(super) static TABLE: super::Table = super::Table(&[
    TfLiteOpaqueDelegateCreate as *const (),
    TfLiteOpaqueDelegateDelete as *const (),
    TfLiteOpaqueDelegateGetData as *const (),
]);
