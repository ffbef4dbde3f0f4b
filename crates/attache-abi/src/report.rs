#![allow(unsafe_code)]
//! Messages of errors, in the ways in which C passes them: a format with arguments of any number. The functions that
//! take and make such arguments are in `report.c`.

use std::ffi::{CStr, CString, c_char, c_void};

use crate::TfLiteContext;

/// A function of a program that takes errors: its own data, a format as of `printf`, and a `va_list`. It is called from
/// C only, so the `va_list` is a pointer here.
pub type ErrorReporter = unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void);

/// What `TfLiteContext::impl_` points to has to begin with this in contexts whose `ReportError` is
/// [`context_report`].
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ContextHead {
    /// Takes the context and the text of an error.
    pub report: Option<unsafe extern "C" fn(*mut TfLiteContext, *const c_char)>,
}

// SAFETY: the functions have these parameters in `report.c`.
unsafe extern "C" {
    fn attache_abi_report(reporter: ErrorReporter, user_data: *mut c_void, text: *const c_char);

    /// `TfLiteContext::ReportError`, and `TfLiteOpaqueContextReportError`: formats a message of at most 2,047 bytes and
    /// passes it to [`ContextHead::report`]. Does nothing for null pointers. The context has to begin as [`ContextHead`]
    /// says.
    #[link_name = "attache_abi_context_report"]
    pub fn context_report(context: *mut TfLiteContext, format: *const c_char, ...);

    /// `TfLiteOpaqueContextReportErrorVa`: the same with a `va_list`, which is a pointer here.
    #[link_name = "attache_abi_context_report_va"]
    pub fn context_report_va(context: *mut TfLiteContext, format: *const c_char, arguments: *mut c_void);
}

/// Passes a text to a reporter of a program.
///
/// # Safety
///
/// `reporter` may be called with `user_data`, the format `%s` and its argument.
pub unsafe fn report(reporter: ErrorReporter, user_data: *mut c_void, text: &str) {
    let text = text_of_c(text);
    // SAFETY: the caller states that the reporter may be called; the text ends with a zero byte.
    unsafe { attache_abi_report(reporter, user_data, text.as_ptr()) };
}

/// Returns a text for C, cut at a zero byte.
#[must_use]
pub fn text_of_c(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// Returns the text of C code; `None` for null or text that is not UTF-8.
///
/// # Safety
///
/// `text` is null or points to bytes up to a zero byte, which are not changed while the result is in use.
#[must_use]
pub unsafe fn text_from_c<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller states that a zero byte ends the text.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn take(context: *mut TfLiteContext, text: *const c_char) {
        // SAFETY: the test passes a context whose profiler is the string that takes the text.
        unsafe { *(*context).profiler.cast::<String>() = text_from_c(text).unwrap_or_default().to_owned() };
    }

    #[test]
    fn a_context_takes_formatted_errors() {
        let (mut head, mut taken) = (ContextHead { report: Some(take) }, String::new());
        let mut context = TfLiteContext {
            impl_: (&raw mut head).cast(),
            profiler: (&raw mut taken).cast(),
            ReportError: Some(context_report),
            ..TfLiteContext::empty()
        };
        // SAFETY: the context begins with a head, and the arguments are those of the format.
        unsafe { context.ReportError.unwrap()(&mut context, c"%s has %d".as_ptr(), c"it".as_ptr(), 3) };
        assert_eq!(taken, "it has 3");
    }
}
