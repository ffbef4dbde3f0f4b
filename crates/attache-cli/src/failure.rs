//! Exit statuses and the error that a command reports.

use std::fmt;
use std::process::ExitCode;

use attache::{ErrorKind, Report};

/// The kind of a failure, which decides the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The command line, or a file that it names, is wrong.
    Usage,
    /// The model is bad.
    Model,
    /// Something unsupported was asked for.
    Unsupported,
    /// Not all nodes were delegated although that was required.
    NotDelegated,
    /// The device failed, or there is none.
    Device,
}

impl Kind {
    /// The word for it in JSON.
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

/// The exit status, on which scripts rely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// Success.
    Success = 0,
    /// A comparison failed.
    Comparison = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The model is bad.
    Model = 3,
    /// Not supported, or not delegated as required.
    Unsupported = 4,
    /// The device failed.
    Device = 5,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Why a command failed.
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

    /// An error if a delegate panicked, so that results computed by the CPU in its place are not taken for the
    /// delegate's.
    pub(crate) fn of_panics(figures: &Report) -> Result<(), Self> {
        match figures.panics.as_slice() {
            [] => Ok(()),
            panics => Err(Self::new(Kind::Device, panics.join("\n"))),
        }
    }

    /// The same failure, prefixed with the name of what it concerns.
    pub(crate) fn at(self, location: impl fmt::Display) -> Self {
        Self { message: format!("{location}: {}", self.message), ..self }
    }

    pub(crate) fn status(&self) -> Status {
        self.kind.status()
    }

    /// The object that `--json` prints instead of a result.
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
