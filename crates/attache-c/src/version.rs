//! Versions: of the C API and of the schema.

use std::ffi::{CStr, c_char, c_int};

use crate::guard::exports;

/// The version of TensorFlow Lite whose C API this is.
const API_VERSION: &CStr = c"2.17.1";

/// The version of the file format, which has not changed since TensorFlow Lite began.
const SCHEMA_VERSION: c_int = 3;

exports! {
    /// Returns the version of TensorFlow Lite whose C API this is.
    fn TfLiteVersion() -> *const c_char {
        API_VERSION.as_ptr()
    } else std::ptr::null();

    /// Returns the version of the interface for operators and delegates.
    fn TfLiteExtensionApisVersion() -> *const c_char {
        API_VERSION.as_ptr()
    } else std::ptr::null();

    /// Returns the version of the file format.
    fn TfLiteSchemaVersion() -> c_int {
        SCHEMA_VERSION
    } else 0;
}
