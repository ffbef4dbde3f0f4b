//! Errors of a single operator, without its location in the model.

/// Why the shapes of an operator can't be inferred or its outputs can't be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The model is invalid: no runtime could run it.
    #[error("{0}")]
    Invalid(String),
    /// The model may be valid, but this case isn't implemented.
    #[error("{0}")]
    Unsupported(String),
}

impl OpError {
    /// An error for an invalid model.
    pub fn invalid(reason: impl Into<String>) -> Self {
        OpError::Invalid(reason.into())
    }

    /// An error for a case that isn't implemented.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        OpError::Unsupported(reason.into())
    }
}

/// Why a delegate does not take a node: its unsupported reason. Not a failure, since the node runs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

impl Unsupported {
    /// The error for a node that is unsupported for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl From<attache_gpu_ir::InvalidProgram> for Unsupported {
    fn from(error: attache_gpu_ir::InvalidProgram) -> Self {
        Self(error.to_string())
    }
}
