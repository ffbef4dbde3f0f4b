#![allow(unsafe_code)]
//! Errors on their way to C: a status, and a text for the reporter.

use std::ffi::c_void;
use std::io::Write;

use attache::{Error, ErrorKind};
use attache_abi::TfLiteStatus;
use attache_abi::report::{ErrorReporter, report};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: TfLiteStatus,
    pub(crate) text: String,
    /// Whether the library does not implement something that the model uses.
    pub(crate) is_unsupported: bool,
}

impl Fault {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self::with_status(TfLiteStatus::ERROR, text)
    }

    pub(crate) fn with_status(status: TfLiteStatus, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), is_unsupported: false }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::Cancelled => TfLiteStatus::CANCELLED,
            ErrorKind::Device | ErrorKind::DeviceLost | ErrorKind::NotDelegated => TfLiteStatus::DELEGATE_ERROR,
            _ => TfLiteStatus::ERROR,
        };
        let is_unsupported = error.kind() == ErrorKind::Unsupported;
        Self { status, text: error.to_string(), is_unsupported }
    }
}

/// Takes the texts of errors: a function of the program's, or the standard error output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reporter(Option<(ErrorReporter, *mut c_void)>);

// SAFETY: the program states with the function that it may be called with its data from the threads that use the object.
unsafe impl Send for Reporter {}
// SAFETY: as above.
unsafe impl Sync for Reporter {}

impl Reporter {
    /// Returns a reporter that calls a function; the standard error output for none.
    pub(crate) fn new(function: Option<ErrorReporter>, user_data: *mut c_void) -> Self {
        Self(function.map(|function| (function, user_data)))
    }

    pub(crate) fn report(self, text: &str) {
        match self.0 {
            // SAFETY: the program gave the function and its data to take errors.
            Some((function, user_data)) => unsafe { report(function, user_data, text) },
            // If the standard error output is closed, the text is lost.
            None => drop(writeln!(std::io::stderr(), "ERROR: {text}")),
        }
    }

    /// Reports the error of a result, and returns its value or `failed`.
    pub(crate) fn settle<T>(self, result: Result<T, Fault>, failed: T) -> T {
        result.unwrap_or_else(|fault| {
            self.report(&fault.text);
            failed
        })
    }

    /// Reports the error of a result, and returns its status.
    pub(crate) fn status(self, result: Result<(), Fault>) -> TfLiteStatus {
        let status = result.as_ref().map_or_else(|fault| fault.status, |()| TfLiteStatus::OK);
        self.settle(result, ());
        status
    }
}
