//! Errors of a single operator: in shape inference or CPU evaluation ([`OpError`]), and in delegation
//! ([`Unsupported`]). They do not contain the location of the operator in the model.

/// Why the shapes of an operator can't be inferred or its outputs can't be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The operator is invalid, so no runtime could run the model. The text is the reason.
    #[error("{0}")]
    Invalid(String),
    /// The operator may be valid, but this case of it isn't implemented. The text is the reason.
    #[error("{0}")]
    Unsupported(String),
    /// The operator needs more of something than the limits allow. The text says what.
    #[error("{0}")]
    LimitExceeded(String),
    /// There is too little memory. The text says for what.
    #[error("{0}")]
    OutOfMemory(String),
}

impl OpError {
    /// Creates the error for an invalid operator.
    pub fn invalid(reason: impl Into<String>) -> Self {
        OpError::Invalid(reason.into())
    }

    /// Creates the error for an operator that needs more than a limit allows.
    pub fn limit_exceeded(reason: impl Into<String>) -> Self {
        OpError::LimitExceeded(reason.into())
    }

    /// Creates the error for a lack of memory.
    pub fn out_of_memory(reason: impl Into<String>) -> Self {
        OpError::OutOfMemory(reason.into())
    }

    /// Creates the error for a case of an operator that isn't implemented.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        OpError::Unsupported(reason.into())
    }
}

/// The reason why a delegate does not take a node. The model can still run, since another delegate or the CPU
/// runs the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsupported(pub String);

impl Unsupported {
    /// Creates the error for a node that is unsupported for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl From<attache_gpu_ir::InvalidProgram> for Unsupported {
    fn from(error: attache_gpu_ir::InvalidProgram) -> Self {
        Self(error.to_string())
    }
}
