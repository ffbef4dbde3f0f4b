//! [`Failure`], the error that a command reports, and [`Status`], the exit status.

use std::fmt;

use attache::{ErrorKind, Report};

/// The kind of a failure, which determines the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The command line, or a file that it names, is wrong.
    Usage,
    /// The model file is damaged, inconsistent or not a TensorFlow Lite model.
    Model,
    /// The command line or the model requires something that is not supported.
    Unsupported,
    /// The command line requires that all operators are delegated, but some are not.
    NotDelegated,
    /// The GPU failed, was lost or ran out of memory, or there is no suitable one.
    Device,
}

impl Kind {
    /// Returns the name of the kind in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Model => "model",
            Self::Unsupported => "unsupported",
            Self::NotDelegated => "not_delegated",
            Self::Device => "device",
        }
    }

    fn status(self) -> Status {
        match self {
            Self::Usage => Status::Usage,
            Self::Model => Status::Model,
            Self::Unsupported | Self::NotDelegated => Status::Unsupported,
            Self::Device => Status::Device,
        }
    }
}

/// The exit status of the command, on which scripts rely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// The command succeeded.
    Success = 0,
    /// A comparison failed.
    Comparison = 1,
    /// The command line, or a file that it names, is wrong.
    Usage = 2,
    /// The model file is damaged, inconsistent or not a TensorFlow Lite model.
    Model = 3,
    /// Something is not supported, or not all operators are delegated although that is required.
    Unsupported = 4,
    /// The GPU failed, or there is no suitable one.
    Device = 5,
}

/// The error of a command that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The kind of failure.
    pub(crate) kind: Kind,
    /// What went wrong, where, and the remedy if one is known.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, message)
    }

    /// Returns an error if a delegate panicked, so that results computed by the CPU in its place are not
    /// taken for the delegate's.
    pub(crate) fn of_panics(figures: &Report) -> Result<(), Self> {
        match figures.panics.as_slice() {
            [] => Ok(()),
            panics => Err(Self::new(Kind::Device, panics.join("\n"))),
        }
    }

    /// Returns the failure with its message prefixed by what it concerns, e.g. a path; an empty path is `""`.
    pub(crate) fn at(self, location: impl fmt::Display) -> Self {
        let location = Some(location.to_string()).filter(|location| !location.is_empty());
        Self { message: format!("{}: {}", location.as_deref().unwrap_or("\"\""), self.message), ..self }
    }

    pub(crate) fn status(&self) -> Status {
        self.kind.status()
    }

    /// Returns the JSON object that `--json` prints for a failure in place of the command's result.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "error": { "kind": self.kind.word(), "message": self.message } })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<attache::Error> for Failure {
    fn from(error: attache::Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Usage | ErrorKind::Io => Kind::Usage,
            ErrorKind::Model => Kind::Model,
            ErrorKind::NotDelegated => Kind::NotDelegated,
            ErrorKind::Device | ErrorKind::OutOfMemory | ErrorKind::DeviceLost => Kind::Device,
            // `Unsupported`, and kinds of errors that may be added later.
            _ => Kind::Unsupported,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<attache::ModelError> for Failure {
    fn from(error: attache::ModelError) -> Self {
        attache::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_a_contract() {
        let statuses =
            [(Kind::Usage, 2), (Kind::Model, 3), (Kind::Unsupported, 4), (Kind::NotDelegated, 4), (Kind::Device, 5)];
        for (kind, status) in statuses {
            assert_eq!(Failure::new(kind, "").status() as u8, status, "{kind:?}");
        }
        assert_eq!((Status::Success as u8, Status::Comparison as u8), (0, 1));
    }

    #[test]
    fn a_bad_model_and_a_missing_one_differ() {
        let bad: Failure = attache::Model::from_bytes(*b"no model").unwrap_err().into();
        assert_eq!(bad.kind, Kind::Model);
        let missing: Failure = attache::Model::from_path("no-such.tflite").unwrap_err().into();
        assert_eq!(missing.kind, Kind::Usage);
    }

    #[test]
    fn errors_are_one_object() {
        let failure = Failure::usage("it is missing").at("a.npy");
        assert_eq!(failure.to_string(), "a.npy: it is missing");
        let expected = r#"{"error":{"kind":"usage","message":"a.npy: it is missing"}}"#;
        assert_eq!(failure.to_json().to_string(), expected);
    }
}
