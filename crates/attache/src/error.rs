//! The error type of the crate: a kind, a message that names the remedy if there is one, and locations in the
//! model.

use std::fmt;
use std::sync::Arc;

use attache_graph::OpError;
use attache_model::{ModelError, ModelErrorKind, ModelLocation};

use crate::{CacheError, DelegateError, DelegateErrorKind};

/// The category of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller named something that does not exist, or passed values of the wrong type or number.
    Usage,
    /// The model is invalid. No runtime could run it.
    Model,
    /// The model may be valid, but it uses something that is not implemented.
    Unsupported,
    /// The model needs more of something than [`Limits`](crate::Limits) allow.
    LimitExceeded,
    /// Delegation of all operators was required, but some were left to the CPU.
    NotDelegated,
    /// A delegate or its device failed, or no device is available.
    Device,
    /// The machine or a device has too little memory.
    OutOfMemory,
    /// A device was lost: reset, removed or hung. Delegates on that device can no longer be used.
    DeviceLost,
    /// A file could not be read.
    Io,
    /// The run was cancelled ([`Cancellation`](crate::Cancellation)).
    Cancelled,
    /// The library violated one of its own rules. Please report it.
    Internal,
}

/// The error type of this crate: kind, message, locations in the model, and source.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    text: String,
    locations: Vec<ModelLocation>,
    /// Whether a delegate caused the error.
    is_delegates: bool,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self::of(Inner { kind, text: text.into(), locations: Vec::new(), is_delegates: false, source: None })
    }

    fn of(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, text)
    }

    /// Builds one error from several problems, each with its location. `heading` is used if there is more than one
    /// problem.
    pub(crate) fn list(kind: ErrorKind, heading: &str, problems: Vec<(ModelLocation, String)>) -> Self {
        let lines: Vec<_> = problems.iter().map(|(location, reason)| format!("{location}: {reason}")).collect();
        let text = match lines.as_slice() {
            [only] => only.clone(),
            lines => format!("{heading}:\n  {}", lines.join("\n  ")),
        };
        let locations = problems.into_iter().map(|(location, _)| location).collect();
        Self::of(Inner { kind, text, locations, is_delegates: false, source: None })
    }

    /// Creates the error for an operator that failed, with the operator's location in the model.
    pub(crate) fn operator(location: ModelLocation, error: &OpError) -> Self {
        let kind = match error {
            OpError::Invalid(_) => ErrorKind::Model,
            OpError::LimitExceeded(_) => ErrorKind::LimitExceeded,
            OpError::OutOfMemory(_) => ErrorKind::OutOfMemory,
            _ => ErrorKind::Unsupported,
        };
        Self::list(kind, "", vec![(location, error.to_string())])
    }

    /// Creates the error for a delegate that failed. `delegate` is its name, which the message contains.
    pub(crate) fn delegate(delegate: &str, error: &DelegateError) -> Self {
        let kind = match error.kind {
            DelegateErrorKind::Failed | DelegateErrorKind::Panicked => ErrorKind::Device,
            DelegateErrorKind::OutOfMemory => ErrorKind::OutOfMemory,
            DelegateErrorKind::DeviceLost => ErrorKind::DeviceLost,
            DelegateErrorKind::Usage => ErrorKind::Usage,
        };
        let text = format!("{delegate} delegate: {error}");
        Self::of(Inner { kind, text, locations: Vec::new(), is_delegates: true, source: error.source.clone() })
    }

    /// Whether a delegate caused the error, so that running on the CPU would avoid it.
    pub(crate) fn is_delegates(&self) -> bool {
        self.0.is_delegates
    }

    /// Returns the category of the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the locations in the model, one for each problem in the message; empty if the error has no
    /// location.
    #[must_use]
    pub fn places(&self) -> &[ModelLocation] {
        &self.0.locations
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

/// The kind and the message, since this is what a `main` that returns the error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<CacheError> for Error {
    fn from(error: CacheError) -> Self {
        let kind = match error {
            CacheError::NotPrivate { .. } | CacheError::OtherWeights { .. } => ErrorKind::Usage,
            CacheError::Io { .. } | CacheError::Unusable { .. } => ErrorKind::Io,
        };
        let (text, locations) = (error.to_string(), Vec::new());
        Self::of(Inner { kind, text, locations, is_delegates: false, source: Some(Arc::new(error)) })
    }
}

impl From<ModelError> for Error {
    fn from(error: ModelError) -> Self {
        let kind = match error.kind() {
            ModelErrorKind::Io => ErrorKind::Io,
            ModelErrorKind::Unsupported => ErrorKind::Unsupported,
            ModelErrorKind::NotFound => ErrorKind::Usage,
            _ => ErrorKind::Model,
        };
        let locations = error.problems().iter().map(|problem| problem.place.clone()).collect();
        let text = error.to_string();
        Self::of(Inner { kind, text, locations, is_delegates: false, source: Some(Arc::new(error)) })
    }
}

/// Returns the number and the noun, which is in the plural unless the number is 1.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_problems_are_listed_with_their_locations() {
        let location = |index| ModelLocation { subgraph: Some(0), operator: Some((index, "ADD".into())), tensor: None };
        let problems = vec![(location(1), "one".to_owned()), (location(2), "two".to_owned())];
        let error = Error::list(ErrorKind::Unsupported, "2 operators", problems);
        assert_eq!(
            error.to_string(),
            "2 operators:\n  subgraph 0, operator 1 (ADD): one\n  subgraph 0, operator 2 (ADD): two"
        );
        assert_eq!((error.kind(), error.places().len()), (ErrorKind::Unsupported, 2));
        assert_eq!(format!("{error:?}"), format!("Unsupported: {error}"));
    }
}
