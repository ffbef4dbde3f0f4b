#![allow(unsafe_code)]
//! The functions of `TfLiteIntArray` and `TfLiteFloatArray`, and the names of types.

use std::ffi::{c_char, c_int};
use std::slice;

use attache_abi::{TfLiteFloatArray, TfLiteIntArray, TfLiteType};

exports! {
    /// Returns the size in bytes of an array of `length` integers.
    fn TfLiteIntArrayGetSizeInBytes(length: c_int) -> usize {
        TfLiteIntArray::bytes(length)
    } else 0;

    /// Allocates an array of `length` integers. Returns null if that is negative.
    fn TfLiteIntArrayCreate(length: c_int) -> *mut TfLiteIntArray {
        TfLiteIntArray::zeros(length)
    } else std::ptr::null_mut();

    /// Whether two arrays have the same elements.
    fn TfLiteIntArrayEqual(a: *const TfLiteIntArray, b: *const TfLiteIntArray) -> c_int {
        // SAFETY: the caller of the C function passes null or valid arrays.
        let equal = unsafe { TfLiteIntArray::elements(a) == TfLiteIntArray::elements(b) };
        c_int::from(a.is_null() == b.is_null() && equal)
    } else 0;

    /// Whether an array has these elements. Null has none.
    fn TfLiteIntArrayEqualsArray(a: *const TfLiteIntArray, length: c_int, elements: *const c_int) -> c_int {
        let elements = match usize::try_from(length) {
            // SAFETY: the caller of the C function passes as many elements as it states.
            Ok(length) if length > 0 && !elements.is_null() => unsafe { slice::from_raw_parts(elements, length) },
            _ => &[],
        };
        // SAFETY: the caller of the C function passes null or a valid array.
        c_int::from(unsafe { TfLiteIntArray::elements(a) } == elements)
    } else 0;

    /// Copies an array. Returns null for null.
    fn TfLiteIntArrayCopy(array: *const TfLiteIntArray) -> *mut TfLiteIntArray {
        // SAFETY: the caller of the C function passes null or a valid array.
        unsafe { TfLiteIntArray::copy(array) }
    } else std::ptr::null_mut();

    /// Frees an array. Does nothing for null.
    fn TfLiteIntArrayFree(array: *mut TfLiteIntArray) {
        // SAFETY: the caller of the C function passes null or an array of `malloc`.
        unsafe { TfLiteIntArray::free(array) };
    } else ();

    /// Returns the size in bytes of an array of `length` floats.
    fn TfLiteFloatArrayGetSizeInBytes(length: c_int) -> c_int {
        c_int::try_from(TfLiteFloatArray::bytes(length)).unwrap_or(c_int::MAX)
    } else 0;

    /// Allocates an array of `length` floats. Returns null if that is negative.
    fn TfLiteFloatArrayCreate(length: c_int) -> *mut TfLiteFloatArray {
        TfLiteFloatArray::zeros(length)
    } else std::ptr::null_mut();

    /// Copies an array. Returns null for null.
    fn TfLiteFloatArrayCopy(array: *const TfLiteFloatArray) -> *mut TfLiteFloatArray {
        // SAFETY: the caller of the C function passes null or a valid array.
        unsafe { TfLiteFloatArray::copy(array) }
    } else std::ptr::null_mut();

    /// Frees an array. Does nothing for null.
    fn TfLiteFloatArrayFree(array: *mut TfLiteFloatArray) {
        // SAFETY: the caller of the C function passes null or an array of `malloc`.
        unsafe { TfLiteFloatArray::free(array) };
    } else ();

    /// Returns the name of a type.
    fn TfLiteTypeGetName(kind: TfLiteType) -> *const c_char {
        kind.name().as_ptr()
    } else std::ptr::null();
}
