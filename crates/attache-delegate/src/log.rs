//! Lines for the user on the standard error output, in the form in which TensorFlow Lite writes its own.

use std::fmt::{Debug, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Log {
    Off,
    Error,
    Warning,
    #[default]
    Info,
}

impl Log {
    /// The words of the option `log`.
    pub(crate) const WORDS: [(&str, Log); 4] =
        [("off", Self::Off), ("error", Self::Error), ("warning", Self::Warning), ("info", Self::Info)];

    /// Writes a line, if lines of this kind are written.
    pub(crate) fn write(self, kind: Log, line: &str) {
        if kind > self {
            return;
        }
        let kind = match kind {
            Self::Off => return,
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Info => "INFO",
        };
        // A closed output is no reason to fail.
        let _ = writeln!(std::io::stderr(), "{kind}: {line}");
    }

    /// Calls `call`, and writes the warnings and errors that the library logs meanwhile. What it says besides is about
    /// models that the user does not know.
    pub(crate) fn during<T>(self, call: impl FnOnce() -> T) -> T {
        tracing::subscriber::with_default(Lines(self), call)
    }
}

/// Writes warnings and errors as lines.
struct Lines(Log);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("attache")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        let kind = if *event.metadata().level() == Level::ERROR { Log::Error } else { Log::Warning };
        self.0.write(kind, &text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message of an event.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            // Writing to a string does not fail.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
