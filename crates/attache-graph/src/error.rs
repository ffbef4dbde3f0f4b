//! What can go wrong with one operator, apart from where it stands.

/// Why an operator's shapes can't be inferred or its value can't be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The model is wrong: no runtime could run this.
    #[error("{0}")]
    Invalid(String),
    /// The model may be right, but this isn't implemented.
    #[error("{0}")]
    Unsupported(String),
}

impl OpError {
    /// The model is wrong.
    pub fn invalid(reason: impl Into<String>) -> Self {
        OpError::Invalid(reason.into())
    }

    /// Not implemented.
    pub fn unsupported(reason: impl Into<String>) -> Self {
        OpError::Unsupported(reason.into())
    }
}

/// Why a delegate leaves a node to others. Never an error: the node runs elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// A refusal for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl From<attache_gpu_ir::InvalidProgram> for Refusal {
    fn from(error: attache_gpu_ir::InvalidProgram) -> Self {
        Self(error.to_string())
    }
}
