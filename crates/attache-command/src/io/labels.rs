//! [`Labels`], the names of a model's classes, from a file on the command line or else from the model.
//!
//! There must be as many labels as classes, because otherwise the labels belong to another model. One
//! difference is common and unambiguous: a file whose first line is the background class, for a model that
//! does not count it. That first line is then skipped.

use std::path::{Path, PathBuf};

use attache::Model;

use crate::console::Console;
use crate::failure::Failure;
use crate::io::files;

/// Names of classes, by index, and where they are from. Empty if there are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Labels {
    names: Vec<String>,
    /// The file from the command line; `None` if the labels are the model's own.
    file: Option<PathBuf>,
}

impl Labels {
    /// Reads the labels of the file, or else those in the model; there may be none. If the model's labels
    /// cannot be read, the command warns and continues without them.
    pub(crate) fn find(file: Option<&Path>, model: &Model, console: &Console) -> Result<Self, Failure> {
        if let Some(file) = file {
            let names = parse(&files::read_text(file)?);
            return match names.is_empty() {
                true => Err(Failure::usage("there are no labels in it; write one a line").at(file.display())),
                false => Ok(Self { names, file: Some(file.to_owned()) }),
            };
        }
        let names = model.labels().unwrap_or_else(|error| {
            console.warn(&format!(
                "the labels of the model can't be read, so classes have no names: {error}; --labels FILE names them"
            ));
            None
        });
        Ok(Self { names: names.map_or(Vec::new(), |names| parse(&names.join("\n"))), file: None })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether the labels are from a file that the command line names.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.file.is_some()
    }

    /// Returns all names.
    pub(crate) fn all(&self) -> &[String] {
        &self.names
    }

    /// Returns the names of `classes` classes; `None` if the number of labels does not fit.
    pub(crate) fn of(&self, classes: usize) -> Option<&[String]> {
        match self.names.as_slice() {
            names if names.len() == classes => Some(names),
            [first, names @ ..] if names.len() == classes && is_background(first) => Some(names),
            _ => None,
        }
    }

    /// Returns the names for detections, whose classes count from 0 without the background.
    pub(crate) fn of_detections(&self) -> &[String] {
        match self.names.as_slice() {
            [first, names @ ..] if is_background(first) => names,
            names => names,
        }
    }

    /// Returns the error message that the labels do not fit the `classes` classes of the output `of`.
    pub(crate) fn mismatch(&self, classes: usize, of: &str) -> String {
        let count = self.names.len();
        let from = self.file.as_ref().map_or("the model's own labels".to_owned(), |file| file.display().to_string());
        let labels = if count == 1 { "1 label".to_owned() } else { format!("{count} labels") };
        let remedy = match count + 1 == classes {
            true => "if class 0 is the background, begin the file with the line \"background\"",
            false => "give --labels a file with one line for each class",
        };
        format!("{from}: {labels} for the {classes} classes of {of}; {remedy}")
    }
}

/// Whether a label names the background class; files for detectors often have `???` in its place.
fn is_background(label: &str) -> bool {
    label == "???" || label.eq_ignore_ascii_case("background")
}

/// Splits the text of a label file into lines. Blank lines at the end are ignored.
fn parse(text: &str) -> Vec<String> {
    text.trim_start_matches('\u{feff}').trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
impl Labels {
    /// Returns labels with these names, as if they were from a file on the command line.
    pub(crate) fn of_names(names: &[&str]) -> Self {
        Self { names: names.iter().map(|name| name.to_string()).collect(), file: Some("labels.txt".into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_lines() {
        assert_eq!(parse("\u{feff}background\r\n\r\ngreat white shark \n\n"), ["background", "", "great white shark"]);
        assert!(parse("").is_empty());
    }

    #[test]
    fn there_are_as_many_as_classes_or_the_background_more() {
        let labels = Labels::of_names(&["background", "cat", "dog"]);
        assert_eq!(labels.of(3).unwrap().len(), 3);
        assert_eq!(labels.of(2).unwrap(), ["cat", "dog"]);
        assert_eq!((labels.of(1), labels.of(4)), (None, None));
        assert_eq!(labels.of_detections(), ["cat", "dog"]);
        let labels = Labels::of_names(&["ant", "cat", "dog"]);
        assert_eq!((labels.of(2), labels.of(4)), (None, None));
        let text = labels.mismatch(4, "output 0");
        assert!(
            text.starts_with("labels.txt: 3 labels for the 4 classes of output 0; ") && text.contains("background")
        );
    }
}
