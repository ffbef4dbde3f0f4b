//! What went wrong, and the exception that Python gets for it.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// A text for people. Which class of exception it becomes depends on the method, as in LiteRT.
#[derive(Debug)]
pub(crate) struct Fault(pub(crate) String);

impl Fault {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the exception for arguments that have no meaning.
    pub(crate) fn value(self) -> PyErr {
        PyValueError::new_err(self.0)
    }

    /// Returns the exception for what fails while a model is prepared or run.
    pub(crate) fn runtime(self) -> PyErr {
        PyRuntimeError::new_err(self.0)
    }
}

impl From<attache::Error> for Fault {
    fn from(error: attache::Error) -> Self {
        Self(error.to_string())
    }
}
