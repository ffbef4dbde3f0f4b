//! [`ModelError`], the error for a model file: all problems found in the file, each with its location.

use std::fmt;
use std::path::PathBuf;

/// Maximum number of problems stored in one error; further ones are only counted.
const MOST_PROBLEMS: usize = 64;
/// Maximum number of characters of a name in a message; longer names are truncated.
const MOST_NAME: usize = 80;

/// The kind of a problem with a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ModelErrorKind {
    /// The file could not be read.
    Io,
    /// The bytes are not a TensorFlow Lite model.
    NotTflite,
    /// The bytes are damaged: the flatbuffer (or an appended archive) is malformed.
    Corrupt,
    /// The file is well-formed, but its contents are inconsistent.
    Invalid,
    /// The file is valid, but uses a feature that this library does not support.
    Unsupported,
    /// The file does not contain an item that the caller requested, such as an associated file.
    NotFound,
}

/// A location in a model: a subgraph, and an operator or a tensor in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelLocation {
    /// Index of the subgraph.
    pub subgraph: Option<usize>,
    /// Index of the operator within the subgraph, and its name, e.g. `CONV_2D`.
    pub operator: Option<(usize, String)>,
    /// Index of the tensor within the subgraph, and its name.
    pub tensor: Option<(usize, String)>,
}

impl fmt::Display for ModelLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subgraph = self.subgraph.map(|index| format!("subgraph {index}"));
        let operator = self.operator.as_ref().map(|(index, name)| format!("operator {index} ({name})"));
        let tensor = self.tensor.as_ref().map(|(index, name)| format!("tensor {index} ({name:?})"));
        let parts: Vec<String> = [subgraph, operator, tensor].into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// One problem found in a model file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Problem {
    /// The kind of problem.
    pub kind: ModelErrorKind,
    /// The location of the problem; empty if the problem concerns the whole file.
    pub place: ModelLocation,
    /// What is wrong and, if there is a remedy, what to do.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place != ModelLocation::default() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.text)
    }
}

/// The error of a model that could not be read: all problems found. The `Display` text lists all problems, up
/// to a limit.
pub struct ModelError(Box<Inner>);

struct Inner {
    path: Option<PathBuf>,
    problems: Vec<Problem>,
    unnamed: usize,
    source: Option<std::io::Error>,
}

impl ModelError {
    pub(crate) fn new(kind: ModelErrorKind, text: impl Into<String>) -> Self {
        let problem = Problem { kind, place: ModelLocation::default(), text: text.into() };
        Self(Box::new(Inner { path: None, problems: vec![problem], unnamed: 0, source: None }))
    }

    pub(crate) fn io(error: std::io::Error) -> Self {
        let mut result = Self::new(ModelErrorKind::Io, error.to_string());
        result.0.source = Some(error);
        result
    }

    pub(crate) fn at_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.0.path = Some(path.into());
        self
    }

    /// Returns the kind of the error: that of the first problem that is not [`ModelErrorKind::Unsupported`],
    /// or [`ModelErrorKind::Unsupported`] if all problems are.
    #[must_use]
    pub fn kind(&self) -> ModelErrorKind {
        let mut kinds = self.0.problems.iter().map(|problem| problem.kind);
        let first = kinds.clone().next();
        kinds.find(|kind| *kind != ModelErrorKind::Unsupported).or(first).unwrap_or(ModelErrorKind::Invalid)
    }

    /// Returns the problems in the order in which they were found: at least one, at most the first 64.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}: ", path.display())?;
        }
        if let [only] = self.0.problems.as_slice() {
            return write!(f, "{only}");
        }
        write!(f, "{} problems", self.0.problems.len() + self.0.unnamed)?;
        for problem in &self.0.problems {
            write!(f, "\n  {problem}")?;
        }
        if self.0.unnamed > 0 {
            write!(f, "\n  and {} more", self.0.unnamed)?;
        }
        Ok(())
    }
}

/// The kind and the message, since this is what a `main` that returns the error prints.
impl fmt::Debug for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.kind())
    }
}

impl std::error::Error for ModelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|error| error as _)
    }
}

/// Collects the problems that are found while a file is read.
#[derive(Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
    unnamed: usize,
}

impl Problems {
    /// Whether the next problem will be stored rather than only counted. If it will only be counted, its text
    /// need not be composed.
    pub(crate) fn wanted(&self) -> bool {
        self.found.len() < MOST_PROBLEMS
    }

    /// Adds a problem. `None` only counts a problem, whose description is not [`wanted`](Self::wanted).
    pub(crate) fn add(&mut self, problem: Option<Problem>) {
        match problem {
            Some(problem) => self.found.push(problem),
            None => self.unnamed += 1,
        }
    }

    /// Returns `value` if no problem was added, else an error with all problems.
    pub(crate) fn or<T>(self, value: T) -> Result<T, ModelError> {
        if self.found.is_empty() {
            return Ok(value);
        }
        Err(ModelError(Box::new(Inner { path: None, problems: self.found, unnamed: self.unnamed, source: None })))
    }
}

/// Returns a name for use in a message, truncated to [`MOST_NAME`] characters.
pub(crate) fn quoted(name: &str) -> String {
    match name.char_indices().nth(MOST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_problems_up_to_a_limit() {
        let mut problems = Problems::default();
        for index in 0..100 {
            let location = ModelLocation { subgraph: Some(0), tensor: Some((index, "x".into())), operator: None };
            let kind = if index == 9 { ModelErrorKind::Invalid } else { ModelErrorKind::Unsupported };
            let problem = problems.wanted().then(|| Problem { kind, place: location, text: "bad".into() });
            problems.add(problem);
        }
        let error = problems.or(()).unwrap_err();
        assert_eq!((error.problems().len(), error.kind()), (64, ModelErrorKind::Invalid));
        let text = error.to_string();
        assert!(text.starts_with("100 problems\n  subgraph 0, tensor 0 (\"x\"): bad\n"), "{text}");
        assert!(text.ends_with("\n  and 36 more"), "{text}");
        assert_eq!(format!("{error:?}"), format!("Invalid: {text}"));
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(quoted("né"), "né");
        assert_eq!(quoted(&"é".repeat(100)).chars().count(), 81);
    }
}
